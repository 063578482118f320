"""Every mark, drawn again: RED on the queue that a packet leaves behind."""

import pytest
from helpers import DATA, QUEUED_ACKS, check_alone, check_bad, check_threads, incast, network, outcome, peers_of, traced
from paper.dcqcn import mark_probability

from penstock_net.composition import parse
from penstock_net.hashing import flow_hash
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.workload import flow_list


def crowd(topo):
    return incast(topo, range(3, 16), size=60_000, every_ns=300, more=[(i, 15 - i, 90_000, "2us") for i in range(8)])


def draws(node, seed=1):
    """The node's stream of 31-bit numbers for marking."""
    stream, k = (int(flow_hash(node + (1 << 41), seed)) * 4 & 0xFFFFFFFF) + 1, 0
    while True:
        k += 1
        yield int(flow_hash(k, stream))


def test_curves_of_priorities_are_checked_one_by_one():
    check_bad("ecn", {"priority_k_max": ["50KB"]}, r'ecn.k_min = "100KB": is more than priority_k_max = .*, of priority 0')
    check_bad("ecn", {"priority_k_min": [0, 0, "500KB"]}, r'ecn.priority_k_min = .*: is more than k_max = "400KB", of priority 2')
    check_bad("ecn", {"priority_k_min": ["9KB", "7KB"], "priority_k_max": ["9KB", "6KB"]}, "priority_k_max = .*, of priority 1")
    check_bad("ecn", {"priority_p_max": [0.5, 1.5]}, "0..1")
    check_bad("ecn", {"drop": [8]}, "0 and 7")
    check_bad("ecn", {"drop_k_min": "500KB"}, 'ecn.drop_k_min = "500KB": is more than k_max = "400KB"')
    check_bad("ecn", {"drop_k_max": "50KB"}, 'ecn.k_min = "100KB": is more than drop_k_max = "50KB"')
    check_bad("dctcp", {"ecn.drop": [1]}, "ecn drops packets that are not ECN capable, while pfc has all of them kept")
    check_bad("bfc+ecn", {"ecn.drop": [1]}, "ecn needs a queue for each priority of flows .*; dqa chooses queues")
    assert parse("ecn", {"priority_k_min": ["20KB", 0, "400KB"]}).values("ecn")["priority_k_min"][:3] == (20_000, 0, 400_000)


# ---- Curves of priorities, and drops: WRED by hand ----

OF_PRIORITIES = {
    "k_min": "20KB",
    "k_max": "80KB",
    "p_max": 0.4,
    "priority_k_min": [0, "5KB"],
    "priority_k_max": [0, "15KB", "30KB"],
}
DROPPING = {**OF_PRIORITIES, "priority_p_max": [0, 0, 0.9], "drop": [0, 2]}
WRED = {
    "marks": OF_PRIORITIES,
    "step": {"priority_k_min": ["12KB", "3KB", "7KB"], "priority_k_max": ["12KB", "3KB", "7KB"]},
    "the same curve": DROPPING,
    "a curve of its own": {**DROPPING, "drop_k_min": "8KB", "drop_k_max": "50KB", "drop_p_max": 0.05},
    "by rate": {**DROPPING, "per": "50Gbps"},
}


def curve_of(given, priority, drops):
    """(k_min, k_max, p_max) of a priority, from what a user writes."""

    def pick(name, default):
        listed = given.get(f"priority_{name}", [])
        return (listed[priority] if priority < len(listed) else 0) or given.get(name, default)

    curve = [pick("k_min", "100KB"), pick("k_max", "400KB"), pick("p_max", 1.0)]
    if drops:
        own = (given.get(f"drop_{name}") for name in ("k_min", "k_max", "p_max"))
        curve = [mine or theirs for mine, theirs in zip(own, curve)]
    return float(curve[0].removesuffix("KB")) * 1000, float(curve[1].removesuffix("KB")) * 1000, curve[2]


def decide(rows, priority_of, given, scale=1.0, probability=mark_probability):
    """Every mark and every drop, drawn again in the order of each node -> (marks, drops, packets that might have had neither)."""
    queued, streams, before, count = {}, {}, {}, [0, 0, 0]
    for row in rows:
        if row.kind != DATA:
            continue
        priority = priority_of[row.flow]
        key, packet = (row.node, row.port, priority), (row.node, row.flow, row.offset)
        drops = priority in given.get("drop", [])
        low, high, most = curve_of(given, priority, drops)
        length = queued.get(key, 0) - (row.size if row.event == "dequeue" else 0)
        p = probability(length, low * scale, high * scale, most)
        decides = (row.event == "dequeue") != drops and (row.event != "drop" or drops)
        drawn = decides and p > 0 and next(streams.setdefault(row.node, draws(row.node))) < p * 2**31
        if row.event == "dequeue":
            assert row.ecn == (before[packet] or (drawn and not drops)), row
        else:
            assert (row.event == "drop") == (drops and drawn), row
            before[packet] = row.ecn
        if row.event != "drop":
            queued[key] = queued.get(key, 0) + (row.size if row.event == "enqueue" else -row.size)
        count[1 if row.event == "drop" else 0] += drawn
        count[2] += decides and 0 < p < 1
    return count


def of_three_priorities(topo):
    names = ("src", "dst", "bytes", "start", "priority")
    items = [(i, 0, 60_000, f"{i % 5}us", i % 3) for i in range(1, 16)] + [(i, 15, 40_000, "3us", 1) for i in range(5, 12)]
    return flow_list(topo, [dict(zip(names, item)) for item in items])


@pytest.fixture(scope="module")
def wred():
    kept = {}

    def run_of(name):
        if name not in kept:
            topo = network()
            flows = of_three_priorities(topo)
            kept[name] = flows, *traced(topo, flows, "ecn", WRED[name], host=HostConfig(rto="100us"))
        return kept[name]

    return run_of


@pytest.mark.parametrize("name", WRED)
def test_every_mark_and_every_drop(wred, name):
    flows, run, rows = wred(name)
    scale = 2.0 if "per" in WRED[name] else 1.0  # of links of 100 Gbit/s
    marks, drops, perhaps = decide(rows, flows.priority.tolist(), WRED[name], scale)
    assert run.ports["ecn_marks"].sum() == marks > 20 and run.summary["drops"] == drops
    assert (drops > 20) == ("drop" in WRED[name]) and (perhaps > 50 or name == "step")
    if drops:
        assert set(run.ports["drop_reason"].drop_nulls().str.replace(r": \d+", "")) == {"refused by the scheme"}


MISTAKES = {
    "one curve for all": ("marks", {"priority_k_min": [], "priority_k_max": []}),
    "what is not given is 0": ("marks", {"priority_k_max": ["1KB", "15KB", "30KB"], "priority_k_min": ["1KB", "5KB", "1KB"]}),
    "lists begin at priority 1": ("step", {key: ["100KB", "12KB", "3KB"] for key in ("priority_k_min", "priority_k_max")}),
    "drops by the curve of marks": ("a curve of its own", dict.fromkeys(("drop_k_min", "drop_k_max", "drop_p_max"))),
    "marks by the curve of drops": ("a curve of its own", {"priority_k_min": [0, "8KB"], "priority_k_max": [0, "50KB", "30KB"]}),
    "one is capable": ("the same curve", {"drop": [0]}),
    "p_max of all": ("the same curve", {"priority_p_max": []}),
    "by bytes": ("by rate", {}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_about_curves_is_found(wred, mistake):
    name, wrong = MISTAKES[mistake]
    flows, _, rows = wred(name)
    with pytest.raises(AssertionError):
        decide(rows, flows.priority.tolist(), WRED[name] | wrong)


def test_drops_on_any_threads():
    topo = network()
    flows = of_three_priorities(topo)
    runs = [simulate(topo, flows, parse("ecn", DROPPING), threads=n, host=HostConfig(rto="100us")) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].summary["drops"] > 20


def test_beside_priorities_that_are_lossless():
    """RoCE in priority 1, which PFC pauses, and TCP in others, which WRED drops."""
    topo = network(buffer="1MB")
    parameters = {"pfc.priorities": 3, "pfc.lossless": [1], "ecn.drop": [0, 2], "k_min": "5KB", "k_max": "20KB", "pfc.alpha": 0.1}
    run = simulate(topo, of_three_priorities(topo), parse("dctcp", parameters), host=HostConfig(rto="100us"))
    assert run.summary["flows_finished"] == 22 and run.summary["drops"] > 20 and run.ports["ecn_marks"].sum() > 20
    of_one = run.flows.filter(run.flows["priority"] == 1)
    assert of_one["retransmitted_bytes"].sum() == 0 < run.flows["retransmitted_bytes"].sum()


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
    ours = [parse(name).values("ecn") for name in ("ecn:ns3", "ecn")]
    found = [{key: values[key] for key in ("k_min", "k_max", "p_max", "per")} for values in ours]
    assert found[0] == {"k_min": 400_000, "k_max": 1_600_000, "p_max": 0.2, "per": 1e11}
    assert found[1] == {"k_min": 100_000, "k_max": 400_000, "p_max": 1.0, "per": 0}


def test_bad_parameters_are_refused():
    check_bad("ecn", {"p_max": 1.5}, "0..1")
    check_bad("ecn", {"k_min": "100"}, "unit")
    check_bad("ecn", {"per": "0Gbps"}, "greater than zero")
    check_bad("ecn", {"per": True}, "rate|number|expected")
