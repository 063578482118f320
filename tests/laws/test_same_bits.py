"""Identical bits: for every number of threads, every chunk size, every repetition, every machine.

The golden numbers are checksums of whole results.  After a change that is meant to change results, print new ones with

    python tests/laws/test_same_bits.py
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from drawn import examples
from networks import (
    BFC,
    DQA,
    HostConfig,
    Measure,
    flow_list,
    incasts,
    networks,
    one_dst,
    same,
    simulate,
)

from penstock_net.sim import simulate as core
from penstock_net.sim import starts
from penstock_net.topology import dumbbell, fat_tree, leaf_spine, star
from penstock_net.workload import incast, poisson
from penstock_net.workload.collectives import ring_all_reduce

EVERYTHING = Measure(sample="700ns", pauses=True, queues=True, packets=True, port_series=True, flow_series=True)


def mixture(topo, seed=1):
    flows = poisson(topo, sizes="google", load=0.7, load_on="host", duration="60us", seed=seed)
    return flows + incast(topo, fan_in=10, size="30KB", every="25us", duration="60us", seed=seed)


SOON = {"host": HostConfig(rto="100us")}  # losses are repaired after that, so that runs and their samples stay short
SCENARIOS = {
    "fifo": lambda: (
        t := leaf_spine(hosts=16, tors=4, spines=2, buffer="60KB"),
        mixture(t),
        "fifo",
        SOON,
    ),
    "bfc": lambda: (t := leaf_spine(hosts=16, tors=4, spines=2), mixture(t), "bfc", {}),
    "pfc": lambda: (t := fat_tree(k=4, buffer="700KB"), mixture(t), "pfc", {}),
    "lossy": lambda: (
        t := fat_tree(k=4).with_loss(0.002),
        mixture(t),
        BFC(queues=4, nic_queues=8),
        {"control_loss": 0.05, "host": HostConfig(rto="100us")},
    ),
    "sfq": lambda: (
        t := leaf_spine(hosts=12, tors=3, spines=3, uplink_delay="300ns"),
        mixture(t),
        "dqa:stochastic+bfc",
        {"host": HostConfig(ack_priority="data")},
    ),
    "changes": lambda: (
        t := leaf_spine(hosts=16, tors=4, spines=2).with_changes(
            [
                {"time": "11us", "a": "tor0", "b": "spine0", "up": False},
                {"time": "13us", "a": "host3", "b": "tor0", "rate": "40Gbps"},
                {"time": "47us", "a": "tor0", "b": "spine0", "up": True},
            ]
        ),
        mixture(t),
        "bfc+pfc",
        {"host": HostConfig(rto="100us")},
    ),
    "switches": lambda: (
        t := leaf_spine(hosts=16, tors=4, spines=2).with_changes(
            [
                {"time": "11us", "switch": "spine0", "up": False},
                {"time": "13us", "switch": "tor1", "up": False},
                {"time": "31us", "switch": "tor1", "up": True},
                {"time": "47us", "switch": "spine0", "up": True},
            ]
        ),
        mixture(t),
        "bfc+pfc",
        {"host": HostConfig(rto="100us")},
    ),
    "ranked packets": lambda: (
        t := leaf_spine(hosts=16, tors=4, spines=2).with_changes(
            [{"time": "11us", "switch": "tor1", "up": False}, {"time": "31us", "switch": "tor1", "up": True}]
        ),
        mixture(t),
        "pfabric",
        {},
    ),
    "ring": lambda: (t := star(hosts=6), ring_all_reduce(t, bytes="300KB", chunks=2) + one_dst(t, 20_000), "dqa", {}),
    "many ports": lambda: (t := star(hosts=150, delay="200ns", buffer="2MB"), one_dst(t, 20_000), DQA(queues=100), SOON),
    "few and apart": lambda: (
        t := leaf_spine(hosts=8, tors=2, spines=2),
        flow_list(t, [(i, (i + j) % 8, 20_000, f"{i * 1500 + j * 777}ns") for i in range(8) for j in range(1, 8)]),
        "bfc",
        {"measure": Measure(sample="100ns", packets=True, pauses=True)},
    ),
    "acknowledged together": lambda: (
        t := leaf_spine(hosts=8, tors=2, spines=2).with_loss(0.002),
        mixture(t),
        "dctcp+pfc",
        {"host": HostConfig(rto="100us", ack_every=4, ack_after="3us", ack_delay="700ns")},
    ),
    "stopped": lambda: (t := dumbbell(left=6, right=6), mixture(t), "bfc", {"duration": "33us", "drain": False}),
}


def run_of(name: str, **more):
    topo, flows, scheme, settings = SCENARIOS[name]()
    return simulate(topo, flows, scheme, **{"seed": 11, "measure": EVERYTHING, **settings, **more})


@pytest.fixture(scope="module")
def once():
    kept = {}

    def get(name):
        if name not in kept:
            kept[name] = run_of(name)
        return kept[name]

    return get


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("name", SCENARIOS)
def test_any_number_of_threads(once, name, threads):
    same(once(name), run_of(name, threads=threads), f"{name}, 1 and {threads} threads")


@pytest.mark.parametrize("name", SCENARIOS)
def test_again_in_the_same_process(once, name):
    same(once(name), run_of(name), f"{name}, first and second run")


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("flows_at_once, chunk_s", [(1, 0.08), (3, 0.0), (10, 1e-6), (200_000, 1e-9)])
def test_any_chunks(monkeypatch, once, name, flows_at_once, chunk_s):
    """Results do not depend on where the core returns to check the clock or to load flows."""
    monkeypatch.setattr(starts, "FLOWS_AT_ONCE", flows_at_once)
    monkeypatch.setattr(core, "CHUNK_S", chunk_s)
    same(once(name), run_of(name, threads=2), f"{name}, {flows_at_once} flows at once, {chunk_s} s per chunk")


def test_a_callback_changes_nothing(once):
    seen = []
    same(once("bfc"), run_of("bfc", progress=seen.append), "with and without progress")
    assert seen and seen[-1].flows_done == seen[-1].flows_total


def test_what_is_measured_changes_nothing(once):
    for measure in (
        Measure(sample="0s"),
        Measure(sample="10ns"),
        Measure(packets=True, sample="0s"),
        Measure(pauses=True, flows=False),
    ):
        assert run_of("bfc", measure=measure).flows.equals(once("bfc").flows), measure


def test_the_seed_changes_something(once):
    assert not run_of("bfc", seed=12).flows.equals(once("bfc").flows)


@examples(20)
@given(networks(ps_per_byte=(10, 400), delay_ps=(10_000, 3_000_000)), st.data())
def test_random_networks(topo, data):
    topo = topo.with_loss(data.draw(st.sampled_from([0.0, 0.01])))
    topo = type(topo)(
        **{
            **{f: getattr(topo, f) for f in topo.__dataclass_fields__},
            "buffer_bytes": np.full(topo.switches, data.draw(st.sampled_from([0, 20_000]))),
        }
    )
    flows = data.draw(incasts(topo, None, 40_000))
    scheme = data.draw(st.sampled_from(["fifo", "bfc", "dqa"]))
    settings = {
        "host": HostConfig(rto="500us"),
        "control_loss": data.draw(st.sampled_from([0.0, 0.1])),
        "max_time_ps": 10**13,
        "measure": Measure(sample="5us", packets=True, pauses=True),
        "seed": data.draw(st.integers(1, 1000)),
    }
    runs = [simulate(topo, flows, scheme, threads=threads, **settings) for threads in (1, 2, 3)]
    same(runs[0], runs[1], f"{scheme}, 1 and 2 threads")
    same(runs[0], runs[2], f"{scheme}, 1 and 3 threads")


# ---- Golden numbers ----


# The columns that the checksums were made of: times, bytes and numbers, nothing that depends on a machine's libraries.
CHECKED = {
    "flows": "flow_id src dst bytes priority start_ns finish_ns fct_ns ideal_fct_ns retransmitted_bytes paused_ns",
    "ports": "node port peer tx_bytes tx_packets drops ecn_marks pauses_sent pauses_received paused_ns max_queue_bytes "
    "ack_bytes control_bytes",
    "switches": "time_ns switch buffer_bytes max_queue_bytes active_flows",
    "pauses": "time_ns node port queue",
    "packets": "time_ns node port in_port queue upstream_q kind flow_id offset_bytes bytes queue_bytes port_bytes",
}


def checksum(run) -> str:
    """Of the integers behind a run: times in ps, bytes, events."""
    digest = hashlib.sha256()
    for name, columns in CHECKED.items():
        frame = run.frames[name]
        for column in columns.split():
            if column.endswith("_ns"):
                values = np.rint(frame[column].fill_null(-1).to_numpy() * 1000).astype("<i8")
            else:
                values = frame[column].to_numpy().astype("<i8")
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()[:16]


GOLDEN_SCENARIOS = {
    "incast under bfc": lambda: (t := leaf_spine(hosts=16, tors=4, spines=2), one_dst(t, 40_000), "bfc", {}),
    "incast under pfc": lambda: (t := fat_tree(k=4, buffer="700KB"), one_dst(t, 60_000), "pfc", {}),
    "overflow under fifo": lambda: (
        t := dumbbell(left=4, right=4, buffer="30KB", bottleneck_rate="10Gbps"),
        flow_list(t, [(i, 4 + j, 20_000 + 777 * i) for i in range(4) for j in range(4)]),
        "fifo",
        {},
    ),
    "loss": lambda: (
        t := star(hosts=5).with_loss(0.01),
        one_dst(t, 150_000),
        BFC(queues=2, nic_queues=2),
        {"control_loss": 0.1, "host": HostConfig(rto="100us")},
    ),
    "ring": lambda: (t := star(hosts=5, rate="40Gbps"), ring_all_reduce(t, bytes="123456B"), "dqa:stochastic", {}),
}
GOLDEN = {
    "incast under bfc": "72cd897098cea4d8",
    "incast under pfc": "b15b55aff996a9ae",
    "overflow under fifo": "cbb715f6f0707fb0",
    "loss": "f334a2ae46ae238a",
    "ring": "a72aa4d4a8857082",
}


@pytest.mark.parametrize("name", GOLDEN_SCENARIOS)
def test_golden(name):
    """The same bits on every machine.  If results were meant to change, see the top of this file."""
    topo, flows, scheme, settings = GOLDEN_SCENARIOS[name]()
    run = simulate(topo, flows, scheme, seed=1, measure=EVERYTHING, **settings)
    assert checksum(run) == GOLDEN.get(name), f"{name}: {checksum(run)}; python tests/laws/test_same_bits.py prints all"


if __name__ == "__main__":
    for key, scenario in GOLDEN_SCENARIOS.items():
        topo_, flows_, scheme_, settings_ = scenario()
        print(f'    "{key}": "{checksum(simulate(topo_, flows_, scheme_, seed=1, measure=EVERYTHING, **settings_))}",')
