"""Every mark, drawn again: RED on the queue that a packet leaves behind."""

import pytest
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, incast, network, peers_of, traced
from paper.dcqcn import mark_probability

from penstock_net.composition import parse
from penstock_net.hashing import flow_hash


def crowd(topo):
    return incast(topo, range(3, 16), size=60_000, every_ns=300, more=[(i, 15 - i, 90_000, "2us") for i in range(8)])


def draws(node, seed=1):
    """The node's stream of 31-bit numbers for marking."""
    stream, k = (int(flow_hash(node + (1 << 41), seed)) * 4 & 0xFFFFFFFF) + 1, 0
    while True:
        k += 1
        yield int(flow_hash(k, stream))


def check_marks(topo, rows, values):
    """-> how many packets had no, some and every chance of a mark; marks by port."""
    peers, streams, before, seen, marks = peers_of(topo), {}, {}, [0, 0, 0], {}
    for row in rows:
        key = row.node, row.flow, row.offset, row.kind
        if row.event == "enqueue":
            before[key] = row.ecn
        elif row.event == "dequeue" and row.kind != DATA:
            assert row.ecn == before[key]
        elif row.event == "dequeue":
            scale = 8e12 / values["per"] / peers[row.node, row.port][3] if values["per"] else 1
            p = mark_probability(row.queue_bytes, values["k_min"] * scale, values["k_max"] * scale, values["p_max"])
            drawn = p > 0 and next(streams.setdefault(row.node, draws(row.node))) < p * 2**31
            assert row.ecn == (drawn or before[key]), row
            seen[0 if p == 0 else 2 if p == 1 else 1] += 1
            marks[row.node, row.port] = marks.get((row.node, row.port), 0) + drawn
    return seen, marks


@pytest.mark.parametrize(
    "parameters",
    [
        {"k_min": "10KB", "k_max": "40KB"},
        {"k_min": "10KB", "k_max": "40KB", "p_max": 0.2},
        {"k_min": "2500B", "k_max": "20KB", "p_max": 0.5, "per": "25Gbps"},
        {"k_min": "31440B", "k_max": "31440B"},
        {"k_min": "50KB", "k_max": "2MB", "p_max": 0.01},
    ],
    ids=["bfc", "p_max", "per", "step", "rare"],
)
def test_every_mark(parameters):
    topo = network(uplink_rate="400Gbps")
    run, rows = traced(topo, crowd(topo), "ecn", parameters, host=QUEUED_ACKS)
    seen, marks = check_marks(topo, rows, parse("ecn", parameters).values("ecn"))
    assert seen[0] > 300 and sum(seen[1:]) > 300
    counted = run.ports.filter(run.ports["ecn_marks"] > 0)
    assert {(r["node"], r["port"]): r["ecn_marks"] for r in counted.iter_rows(named=True)} == {
        k: v for k, v in marks.items() if v
    }


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("ecn")


def test_any_number_of_threads_gives_the_same_results():
    run = check_threads("ecn", {"k_min": "5KB", "k_max": "100KB", "p_max": 0.3})
    assert run.ports["ecn_marks"].sum() > 100


def test_parts_and_presets():
    assert parse("ecn:ns3").values("ecn") == {"k_min": 400_000, "k_max": 1_600_000, "p_max": 0.2, "per": 1e11}
    assert parse("ecn").values("ecn") == {"k_min": 100_000, "k_max": 400_000, "p_max": 1.0, "per": 0}


def test_bad_parameters_are_refused():
    check_bad("ecn", {"p_max": 1.5}, "0..1")
    check_bad("ecn", {"k_min": "100"}, "unit")
    check_bad("ecn", {"per": "0Gbps"}, "greater than zero")
    check_bad("ecn", {"per": True}, "rate|number|expected")
