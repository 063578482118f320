"""Packet spraying: the choice of paths, and hosts that accept packets in any order."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import count

import pytest
from drawn import examples
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, network, planted, rows_of, traced
from hypothesis import given
from hypothesis import strategies as st
from paper import spray

from penstock_net.hashing import flow_hash
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

STREAM = 4  # of a switch's random numbers: RANDOM_PATH
CROSSING = [(i, (i + 4 * k) % 16, 200_000 + 7 * i, f"{i}us") for i in range(16) for k in (1, 2, 3)]


def arrivals(topo, flows, rows):
    """Data packets as they reach their hosts: time (ps), flow, offset, payload."""
    last = {int(topo.host_switches[h]) for h in range(topo.hosts)}
    found = []
    for r in rows:
        if r.kind == DATA and r.event == "dequeue" and r.node in last and int(topo.host_switches[flows.dst[r.flow]]) == r.node:
            found.append((r.at + r.size * 80 + 1_000_000, r.flow, r.offset, r.size - 48))
    return sorted(found)


def complete(flows, came):
    """When each flow had all its bytes, told from the arrivals alone; how many packets came before their turn."""
    missing = [set(range(0, int(size), 1000)) for size in flows.bytes]
    at, early = {}, 0
    for time, flow, offset, _ in came:
        early += bool(missing[flow]) and offset > min(missing[flow])
        missing[flow].discard(offset)
        if not missing[flow]:
            at.setdefault(flow, time)
    return at, early


@pytest.mark.parametrize("policy", ["random", "shortest"])
def test_a_flow_ends_with_its_last_missing_byte(policy):
    topo = network(spines=4)
    flows = flow_list(topo, CROSSING)
    run, rows = traced(topo, flows, "spray", {"policy": policy}, host=QUEUED_ACKS)
    at, early = complete(flows, arrivals(topo, flows, rows))
    assert early, "nothing was out of order: the test says nothing"
    assert {f: round(t * 1000) for f, t in enumerate(run.flows["finish_ns"])} == at
    assert run.flows["retransmitted_bytes"].sum() == 0, "no packet is sent twice because it was overtaken"


@pytest.mark.parametrize("policy", ["random", "shortest"])
def test_what_is_lost_is_sent_again(policy):
    topo = network(spines=4).with_loss(0.01)
    run, _ = traced(topo, flow_list(topo, CROSSING), "spray", {"policy": policy}, host=HostConfig(rto="300us"))
    assert run.flows["retransmitted_bytes"].sum() > 0


@examples(25)
@given(
    seed=st.integers(1, 10**6),
    loss=st.sampled_from([0.0, 0.02, 0.1]),
    size=st.integers(1, 400_000),
    mtu=st.sampled_from([100, 1000, 1460]),
)
def test_everything_arrives(seed, loss, size, mtu):
    topo = leaf_spine(hosts=8, tors=2, spines=4, buffer="300KB").with_loss(loss)
    flows = flow_list(topo, [(i, 7 - i, max(1, size - 999 * i)) for i in range(8)])
    run = simulate(
        topo, flows, "spray", seed=seed, host=HostConfig(mtu=mtu, rto="200us"), measure=Measure(sample="0s", flows=False)
    )
    assert run.summary["flows_finished"] == 8, run.summary["warnings"]


def test_random_uses_all_paths_alike():
    topo = network(spines=4)
    flows = flow_list(topo, CROSSING)
    _, rows = traced(topo, flows, "spray", host=QUEUED_ACKS)
    per_port = defaultdict(Counter)
    for r in rows:
        if r.event == "enqueue" and r.port >= 4 and r.node < 16 + 4:
            per_port[r.node][r.port] += 1
    for ports in per_port.values():
        total = sum(ports.values())
        assert len(ports) == 4
        for taken in ports.values():
            assert abs(taken - total / 4) < 5 * (total * 3 / 16) ** 0.5


def test_shortest_is_never_far_from_the_best():
    """DRILL(2, 1): the queue that was taken is the shortest of three of four, so never the strictly longest one."""
    topo = network(spines=4, uplink_rate="25Gbps")
    flows = flow_list(topo, CROSSING)
    lengths = defaultdict(lambda: [0] * 8)
    longest = taken = 0
    for r in rows_of(traced(topo, flows, "spray", {"policy": "shortest", "d": 4}, host=QUEUED_ACKS)[0]):
        if 16 <= r.node < 20 and r.event in ("enqueue", "dequeue"):
            if r.event == "enqueue" and r.port >= 4:
                before = list(lengths[r.node][4:])
                taken += 1
                longest += before[r.port - 4] > min(before) and before[r.port - 4] == max(before)
            lengths[r.node][r.port] = r.port_bytes
    assert taken > 1000 and longest < 0.25 * taken, f"{longest} of {taken}"


# ---- every choice, by the transcription ----


def draws(node, seed=1):
    """The switch's stream of numbers for paths."""
    stream = (4 * int(flow_hash(node + (1 << 41), seed)) & 0xFFFFFFFF) + STREAM
    return (int(flow_hash(k, stream)) for k in count(1))


def check_choices(policy, d, scheme="spray"):
    topo = network(spines=4, uplink_rate="25Gbps")
    flows = flow_list(topo, CROSSING)
    _, rows = traced(topo, flows, scheme, {"policy": policy, "d": d}, host=QUEUED_ACKS)
    loads, models = defaultdict(lambda: [0] * 8), {}
    for node in range(16, 20):
        models[node] = spray.Switch(draws(node).__next__, d if policy == "shortest" else 0)
    for row in rows:
        if row.node in models and row.event in ("enqueue", "dequeue"):
            if row.event == "enqueue" and row.port >= 4:
                dst = int((flows.src if row.kind else flows.dst)[row.flow])
                assert row.port == 4 + models[row.node].choose(dst, loads[row.node][4:]), row
            loads[row.node][row.port] = row.port_bytes


@pytest.mark.parametrize("policy, d", [("random", 2), ("shortest", 1), ("shortest", 2), ("shortest", 4)])
def test_every_path_is_the_transcription_s(policy, d):
    check_choices(policy, d)


MISTAKES = {
    "not all paths": ("chosen = draw(node, RANDOM_PATH) % count", "chosen = draw(node, RANDOM_PATH) % (count - 1)"),
    "no memory": ("        best[pkt.dst] = chosen\n", ""),
    "one memory for all": ("other = best[pkt.dst] % count", "other = best[0] % count"),
    "the longest": ("bytes < path_at(node, pkt, chosen)", "bytes > path_at(node, pkt, chosen)"),
    "a sample too few": ("for i in range(spray.d)", "for i in range(spray.d - 1)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "spray", *MISTAKES[mistake])
    with pytest.raises(AssertionError):
        check_choices("shortest", 2, file)


def test_go_back_n_would_not_do():
    """The same packets under ECMP never come out of order; hosts tell them apart by what the scheme asks for."""
    topo = network(spines=4)
    flows = flow_list(topo, CROSSING)
    _, rows = traced(topo, flows, "fifo", host=QUEUED_ACKS)
    assert complete(flows, arrivals(topo, flows, rows))[1] == 0


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("spray")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("spray")
    check_threads("bfc+spray")
    check_threads("floodgate+spray")


def test_bad_parameters_are_refused():
    check_bad("spray", {"d": 0}, "1..64")


def test_a_packet_that_comes_after_its_flow_has_finished_is_none_of_a_new_flow():
    """Of two paths one is slower than the timeout, so that copies over the other one complete the flow first."""
    topo = leaf_spine(hosts=2, tors=2, spines=2)
    links = topo.links.copy()
    links["delay_ps"][links["b"] == 5] = 500_000_000  # of the second spine: 1 ms from host to host
    topo = replace(topo, links=links)
    flows = flow_list(topo, [(0, 1, 5_000_000)])
    run = simulate(topo, flows, "spray", host=HostConfig(rto="200us"), max_time_ps=10**11)
    assert run.flows["retransmitted_bytes"].item() > 0 and run.flows["finish_ns"].item() < 3e6
    assert run.summary["drops"] == 0, "a late packet lies far ahead of the first one of a new flow"
