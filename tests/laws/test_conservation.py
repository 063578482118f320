"""Bytes are conserved at every switch and on every link; the check of that in each run detects errors."""

import copy
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import (
    BFC,
    FIFO,
    PFC,
    HostConfig,
    Measure,
    cutting,
    flow_list,
    headroom_buffer,
    incasts,
    networks,
    one_dst,
    reasons,
    simulate,
    trace,
)

from penstock_net.composition import parse
from penstock_net.errors import InvariantError
from penstock_net.sim import results
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import leaf_spine, star


def outcome_after(topo, flows, scheme, end_ps, **settings):
    """The state of the core in the middle of a run, with packets in queues and on wires."""
    quiet = Measure(sample="0s")
    runner = Runner(Settings(topo, flows, parse(scheme), duration_ps=end_ps, drain=False, measure=quiet, **settings))
    runner.loop()
    return runner.outcome()


@pytest.fixture(scope="module")
def busy():
    topo = (
        leaf_spine(hosts=8, tors=2, spines=2, buffer="100KB")
        .with_loss(0.01)
        .with_changes([{"time": "22us", "a": "tor0", "b": "spine0", "up": False}])
    )
    return outcome_after(topo, one_dst(topo, 200_000), "bfc", 40_000_000)


def test_a_busy_network_obeys(busy):
    nodes, ports, hosts = busy.nodes, busy.ports, busy.settings.topo.hosts
    results.check_invariants(busy)
    switches = nodes[hosts:]
    assert sum(n["buffer_used"] for n in switches) and sum(p["wire_bytes"] for p in ports) and sum(p["cut_bytes"] for p in ports)
    assert sum(n["control_frames"] for n in nodes) and sum(p["drops"][2] for p in ports), "the test wants some of everything"


LINK_COUNTERS = ["tx_bytes", "rx_bytes", "wire_bytes", "cut_bytes"]
SWITCH_COUNTERS = ["tx_bytes", "rx_bytes", "control_bytes", "dropped_bytes", "cut_bytes", "queued_bytes"]


@pytest.mark.parametrize("counter", sorted({*LINK_COUNTERS, *SWITCH_COUNTERS}))
@pytest.mark.parametrize("by", [1, -1, 64])
def test_one_wrong_byte_at_a_port_is_noticed(busy, counter, by):
    ports, hosts = busy.ports, busy.settings.topo.hosts
    for i, port in enumerate(ports):
        if port["node"] < hosts and counter not in LINK_COUNTERS:
            continue
        doctored = copy.deepcopy(ports)
        doctored[i][counter] += by
        with pytest.raises(InvariantError):
            results.check_invariants(replace(busy, ports=doctored))


@pytest.mark.parametrize("counter", ["buffer_used", "frame_bytes", "frame_bytes_received"])
@pytest.mark.parametrize("by", [1, -1])
def test_one_wrong_count_at_a_switch_is_noticed(busy, counter, by):
    nodes, hosts = busy.nodes, busy.settings.topo.hosts
    for i in range(hosts, len(nodes)):
        doctored = copy.deepcopy(nodes)
        doctored[i][counter] += by
        with pytest.raises(InvariantError) as caught:
            results.check_invariants(replace(busy, nodes=doctored))
        assert busy.settings.topo.names[nodes[i]["node"]] in str(caught.value), "the message names the place"


def test_a_lost_packet_of_a_lossless_scheme_is_noticed():
    topo = headroom_buffer(star(hosts=5), 10_000)
    outcome = outcome_after(topo, one_dst(topo, 100_000), "pfc", 10_000_000)
    results.check_invariants(outcome)
    for reason in (0, 1):
        doctored = copy.deepcopy(outcome.ports)
        doctored[5]["drops"][reason] = 1
        with pytest.raises(InvariantError, match="lossless"):
            results.check_invariants(replace(outcome, ports=doctored))


@examples(30)
@given(networks(ps_per_byte=(20, 400), delay_ps=(10_000, 3_000_000)), st.data())
def test_random_networks_stopped_at_any_moment(topo, data):
    """The check runs inside every simulation: with queues full, packets on wires, losses, and pauses."""
    if data.draw(st.booleans()):
        topo = topo.with_loss(data.draw(st.sampled_from([0.001, 0.1])))
    topo = type(topo)(
        **{
            **{f: getattr(topo, f) for f in topo.__dataclass_fields__},
            "buffer_bytes": np.full(topo.switches, data.draw(st.sampled_from([0, 5000, 50_000]))),
        }
    )
    topo = data.draw(cutting(topo))
    flows = data.draw(incasts(topo, None, 100_000))
    scheme = data.draw(st.sampled_from([FIFO(), BFC(), BFC(queues=2, nic_queues=2)]))
    run = simulate(
        topo,
        flows,
        scheme,
        duration=f"{data.draw(st.integers(1, 60_000))}ns",
        drain=False,
        threads=2,
        host=HostConfig(ack_priority=data.draw(st.sampled_from(["control", "data"]))),
        control_loss=data.draw(st.sampled_from([0, 0.2])),
        measure=Measure(sample="0s"),
    )
    assert run.flows["finish_ns"].max() is None or run.flows["finish_ns"].max() < run.summary["duration_ns"]


# ---- The same laws from outside: the packet trace against the counters ----


@pytest.mark.parametrize("scheme", ["fifo", "dqa", "bfc", "pfc", "bfc+pfc"])
def test_the_trace_agrees_with_the_counters(scheme):
    """Every packet that is enqueued is dequeued or still there; queue lengths in the trace are sums of its rows."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="300KB")
    flows = one_dst(topo, 60_000) + flow_list(topo, [(0, 5, 50_000), (1, 6, 50_000)])
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s", packets=True))
    data = run.frame("packets").filter((pl.col("kind") == 0) & (pl.col("event") != "drop"))
    signed = data.with_columns(
        pl.when(pl.col("event") == "enqueue").then(pl.col("bytes")).otherwise(-pl.col("bytes")).alias("change")
    )
    for columns, length in ((["node", "port", "queue"], "queue_bytes"), (["node", "port"], "port_bytes")):
        sums = signed.with_columns(pl.col("change").cum_sum().over(columns).alias("sum"))
        wrong = sums.filter(pl.col("sum") != pl.col(length))
        assert not wrong.height, f"{scheme}: {length} is not the sum of what came and went: {wrong.row(0, named=True)}"
    assert signed["change"].sum() == 0 and run.summary["flows_finished"] == len(flows)
    sent = trace(run).group_by("node", "port").agg(pl.col("bytes").sum())
    for node, port, size in sent.iter_rows():
        out = run.ports.row(by_predicate=(pl.col("node") == node) & (pl.col("port") == port), named=True)["tx_bytes"]
        assert out >= size, f"switch {node} port {port}: {size} B of data were dequeued, {out} B sent"
    delivered = trace(run).filter(pl.col("node") >= topo.hosts).group_by("flow_id").agg(pl.col("offset_bytes").n_unique())
    assert delivered["offset_bytes"].to_list() and delivered.height == len(flows)


def test_drops_are_counted_with_their_reason():
    topo = star(hosts=9, buffer="20KB")
    run = simulate(topo, one_dst(topo, 50_000), "fifo", measure=Measure(sample="0s", packets=True))
    dropped = run.frame("packets").filter(pl.col("event") == "drop")
    assert reasons(run) == {"buffer full": dropped.height} and dropped.height == run.summary["drops"] > 0
    lossy = star(hosts=3).with_loss(0.05)
    run = simulate(lossy, one_dst(lossy, 300_000), "fifo", measure=Measure(sample="0s", packets=True))
    assert reasons(run) == {"link loss": run.frame("packets").filter(pl.col("event") == "drop").height}


def test_acknowledgements_are_lost_where_the_buffer_is_full_if_they_are_stored_as_data_is():
    """In both directions of every link; those of the control queue are ahead of data and take none of it."""
    topo, lost = star(hosts=9, buffer="100KB"), {}
    flows = flow_list(topo, [(a, b, 200_000) for i in range(1, 9) for a, b in ((0, i), (i, 0))])
    for lane in ("control", "data"):
        host = HostConfig(ack_priority=lane, rto="200us")
        run = simulate(topo, flows, "fifo", host=host, measure=Measure(sample="0s", packets=True))
        events = run.frame("packets")
        acks = events.filter(pl.col("kind") == 1)
        lost[lane] = acks.filter(pl.col("event") == "drop").height
        queued = acks.filter(pl.col("event") == "enqueue")["port_bytes"].max()
        assert run.summary["flows_finished"] == len(flows) and ((queued or 0) > 10_000) == (lane == "data")
    assert lost["data"] > 100 and lost["control"] == 0


def test_the_check_runs_in_every_simulation(monkeypatch):
    topo = star(hosts=3)
    monkeypatch.setattr(results, "check_invariants", lambda *_: (_ for _ in ()).throw(InvariantError("seen")))
    with pytest.raises(InvariantError, match="seen"):
        simulate(topo, one_dst(topo, 1000), PFC())
