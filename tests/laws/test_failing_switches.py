"""Switches that fail: their links, what they store, the state of schemes there, and that everybody recovers."""

import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, flow_list, hosts_under, incasts, one_dst, reasons, same, simulate

from penstock_net.composition import parse
from penstock_net.sim import results
from penstock_net.sim.layouts import DROPS, SWITCH_DOWN
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import fat_tree, leaf_spine


def quick(scheme):
    return hosts_under(scheme, rto="100us")


EVERYTHING = Measure(sample="1us", pauses=True, queues=True, packets=True)
SCHEMES = ["fifo", "bfc", "pfc", "cbfc", "pyrrha", "hpcc", "floodgate", "floodgate:ideal", "dqa:stochastic", "pfc_tagged"]
SCHEMES += ["bfc_tofino2", "homa", "sird", "phost", "expresspass", "expresspass:code", "hpcc+recovery:irn", "pfabric", "ndp"]
SCHEMES += ["least_queue", "plb", "mrc", "dcpim", "conweave", "fncc"]
# schemes of short queues: when something is in them, us
SHORT = {"expresspass": 12, "expresspass:code": 112, "ndp": 10, "sird": 20}
EMPTY = {  # at 30 us
    ("expresspass", "tor2"),
    ("expresspass:code", "spine0"),
    ("expresspass:code", "tor2"),
    ("ndp", "tor0"),
    *(("dcpim", name) for name in ("spine0", "tor0", "tor2")),  # its first epoch has only just been matched
    ("sird", "spine0"),
    ("sird", "tor2"),
}
REFUSE = ("expresspass", "expresspass:code", "pfabric", "phost")  # they drop credits, or packets of low priority
LOST = DROPS.index(SWITCH_DOWN)


def failing(topo, name, down, up=None):
    """The topology with a switch that fails and, unless `up` is None, comes back."""
    changes = [{"time": down, "switch": name, "up": False}]
    return topo.with_changes(changes + ([{"time": up, "switch": name, "up": True}] if up else []))


def by_hand(topo, name, down, up):
    """The same for each of its links."""
    ends = [{"a": name, "b": topo.names[peer]} for peer in topo.peers(topo.node(name))]
    return topo.with_changes([{"time": time, "up": state, **end} for time, state in ((down, False), (up, True)) for end in ends])


def outcome_at(topo, flows, scheme, end_ps, **settings):
    """The state of the core at a time."""
    quiet = Measure(sample="0s")
    runner = Runner(
        Settings(topo, flows, parse(scheme), duration_ps=end_ps, drain=False, measure=quiet, host=quick(scheme), **settings)
    )
    runner.loop()
    return runner.outcome()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["spine1", "tor1"])
def test_an_empty_switch_fails_as_its_links_do(scheme, name):
    """It stores nothing when it fails; flows start while it is down and go on when it is back."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    pairs = [(i, (i + k) % 8) for i in range(8) for k in (1, 4)]
    flows = [(0, 1, 30_000)] + [(src, dst, 150_000, f"{60 + 3 * i}us") for i, (src, dst) in enumerate(pairs)]
    runs = []
    for change in (failing, by_hand):
        net = change(topo, name, "50us", "140us")
        runs.append(simulate(net, flow_list(net, flows), scheme, measure=EVERYTHING, host=quick(scheme), max_time_ps=10**11))
        assert runs[-1].summary["flows_finished"] == len(flows)
    same(*runs, f"{name} and its links, {scheme}")


@examples(25)
@given(st.integers(1_000, 60_000), st.sampled_from(["spine0", "spine1", "tor0"]), st.integers(1_000, 30_000))
def test_what_is_on_the_wires_is_lost_as_when_links_fail(at_ns, name, length_ns):
    """At a random time: the same bits, unless the switch stored something."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    flows = [(i, (i + 4) % 8, 30_000 + 1000 * i, f"{3 * i}us") for i in range(8)]
    runs = []
    for change in (failing, by_hand):
        net = change(topo, name, f"{at_ns}ns", f"{at_ns + length_ns}ns")
        runs.append(simulate(net, flow_list(net, flows), "fifo", measure=EVERYTHING, host=quick("fifo")))
    if SWITCH_DOWN not in reasons(runs[0]):
        same(*runs, f"{name} at {at_ns} ns")


STORING = [scheme for scheme in SCHEMES if scheme != "dcpim"]  # whose packets do not queue


@pytest.mark.parametrize("scheme", [*STORING, "hpcc+recovery:perfect", "ideal_fq"])
@pytest.mark.parametrize("name", ["spine0", "tor0"])
def test_what_it_stores_is_lost_and_counted(scheme, name):
    """To the byte: data and held packets in its buffer, ACKs and control frames in its control lanes."""
    topo = leaf_spine(hosts=12, tors=3, spines=2, uplink_rate="40Gbps", buffer="2MB")
    flows = one_dst(topo, 200_000) + flow_list(topo, [(i, 11 - i, 100_000) for i in (4, 5, 10, 11)])
    down_us, least = SHORT.get(scheme, 30), 500 if scheme in SHORT else 2_000
    stored = outcome_at(topo, flows, scheme, down_us * 1_000_000)
    at = topo.node(name)
    before = stored.ports[stored.ports["node"] == at]
    inside = int(stored.nodes["buffer_used"][at] + before["control_bytes"].sum())
    assert stored.nodes["buffer_used"][at] > least, "the test wants a switch that stores something"
    after = outcome_at(failing(topo, name, f"{down_us}us"), flows, scheme, down_us * 1_000_000 + 1)
    results.check_invariants(after)
    mine = after.ports[after.ports["node"] == at]
    assert after.nodes["buffer_used"][at] == 0 and not mine["queued_bytes"].any() and not mine["held_bytes"].any()
    assert not mine["control_bytes"].any() and not mine["paused"].any() and not mine["paused_queues"].any()
    assert int((mine["dropped_bytes"] - before["dropped_bytes"] - mine["cut_bytes"]).sum()) == inside
    assert mine["drops"][:, LOST].sum() > 0 and not after.ports["drops"][after.ports["node"] != at, LOST].any()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["spine0", "tor0", pytest.param("tor2", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("up", ["35us", pytest.param("400us", marks=pytest.mark.thorough)])
def test_everybody_recovers(scheme, name, up):
    """It fails in the middle of an incast, with pauses on its links; all flows finish, on any number of threads."""
    topo = leaf_spine(hosts=12, tors=3, spines=2, uplink_rate="40Gbps", buffer="2MB")
    net = failing(topo, name, "30us", up)
    flows = one_dst(net, 200_000) + flow_list(net, [(i, 11 - i, 100_000) for i in (4, 5, 10, 11)])
    runs = [
        simulate(net, flows, scheme, threads=threads, host=quick(scheme), measure=EVERYTHING, max_time_ps=10**11)
        for threads in (1, 2, 3)
    ]
    assert runs[0].summary["flows_finished"] == len(flows), runs[0].summary["warnings"]
    lost = reasons(runs[0])
    assert SWITCH_DOWN in lost or (scheme, name) in EMPTY
    warning = f"{name} failed at 30us and lost the {lost[SWITCH_DOWN]} packets in it"
    assert (warning in runs[0].summary["warnings"]) == (SWITCH_DOWN in lost)
    for threads, run in zip((2, 3), runs[1:]):
        same(runs[0], run, f"{scheme}, {name}, 1 and {threads} threads")


@pytest.mark.parametrize(
    "scheme", ["fifo", "hpcc", "floodgate", "homa", "phost", "expresspass", "hpcc+recovery:irn", "pfabric", "ndp", "mrc"]
)
def test_without_it_flows_take_the_other_spine(scheme):
    """It does not come back; what was queued for it at its neighbours waits for ever, what is sent again does not."""
    topo = failing(leaf_spine(hosts=8, tors=2, spines=2), "spine0", "10us")
    flows = flow_list(topo, [(i, (i + 4) % 8, 400_000) for i in range(8)])
    run = simulate(topo, flows, scheme, host=quick(scheme), measure=Measure(sample="0s", packets=True), max_time_ps=10**11)
    assert run.summary["flows_finished"] == 8, run.summary["warnings"]
    rows = run.frame("packets")
    assert not rows.filter((rows["node"] == topo.node("spine0")) & (rows["time_ns"] > 10_000)).height


def test_hosts_of_a_switch_that_stays_away_are_cut_off():
    topo = failing(leaf_spine(hosts=8, tors=2, spines=2), "tor1", "10us")
    flows = flow_list(topo, [(0, 4, 400_000), (1, 2, 400_000)])
    run = simulate(topo, flows, "fifo", host=quick("fifo"), max_time_ps=10**10)
    assert run.flows["finish_ns"].is_null().to_list() == [True, False]
    assert "no route" in reasons(run)
    lost = sum(int(n) for n in run.ports["drop_reason"].str.extract(r"no route: (\d+)").drop_nulls())
    assert [f"without a route: {lost} packet" in warning for warning in run.summary["warnings"]].count(True) == 1


@examples(30)
@given(st.data())
def test_switches_and_links_that_come_and_go_at_random(data):
    """A link works when it is up and neither end has failed; if all is up in the end, every flow finishes."""
    topo = leaf_spine(hosts=6, tors=2, spines=2)
    changes = []
    for name in data.draw(st.sets(st.sampled_from(["tor0", "tor1", "spine0", "spine1"]), min_size=1)):
        times = data.draw(
            st.lists(st.integers(0, 300_000), min_size=2, max_size=6, unique=True).filter(lambda t: len(t) % 2 == 0)
        )
        changes += [{"time": f"{t}ns", "switch": name, "up": i % 2 == 1} for i, t in enumerate(sorted(times))]
    for _ in range(data.draw(st.integers(0, 3))):
        link = topo.links[data.draw(st.integers(0, len(topo.links) - 1))]
        start, ends = data.draw(st.integers(0, 100_000)), {"a": topo.names[link["a"]], "b": topo.names[link["b"]]}
        stop = start + data.draw(st.integers(1, 200_000))
        changes += [{"time": f"{start}ns", **ends, "up": False}, {"time": f"{stop}ns", **ends, "up": True}]
    net = topo.with_changes(changes)
    flows = data.draw(incasts(net, None, 200_000, (5, 20)))
    scheme = data.draw(st.sampled_from(SCHEMES))
    run = simulate(net, flows, scheme, host=quick(scheme), measure=Measure(sample="0s"), max_time_ps=10**12)
    assert run.summary["flows_finished"] == len(flows), run.summary["warnings"]
    refused = {"refused by the scheme"} if scheme in REFUSE else set()
    assert set(reasons(run)) <= {"link down", "no route", SWITCH_DOWN} | refused


def transmitted(run, topo, a, b=None):
    """Frames that a node has sent, to another one."""
    to = pl.lit(True) if b is None else pl.col("peer") == topo.node(b)
    return int(run.ports.filter((pl.col("node") == topo.node(a)) & to)["tx_packets"].sum())


def test_a_link_is_down_as_long_as_one_of_its_ends_is():
    """The link comes up while its spine is down, and the spine while a ToR is: nothing passes them before all are back."""
    topo = leaf_spine(hosts=4, tors=2, spines=1)
    changes = [
        {"time": "1us", "switch": "spine0", "up": False},
        {"time": "2us", "a": "tor0", "b": "spine0", "up": True},
        {"time": "3us", "switch": "tor1", "up": False},
        {"time": "100us", "switch": "spine0", "up": True},
        {"time": "200us", "switch": "tor1", "up": True},
    ]
    net = topo.with_changes(changes)
    flows = flow_list(net, [(0, 2, 10_000, "5us")])
    assert transmitted(simulate(net, flows, "fifo", host=quick("fifo"), duration="90us", drain=False), topo, "spine0") == 0
    assert transmitted(simulate(net, flows, "fifo", host=quick("fifo"), duration="190us", drain=False), topo, "spine0") == 0
    assert simulate(net, flows, "fifo", host=quick("fifo")).summary["flows_finished"] == 1


def test_a_link_of_its_own_stays_down_when_the_switch_is_back():
    topo = leaf_spine(hosts=4, tors=2, spines=2)
    changes = [
        {"time": "1us", "a": "tor0", "b": "spine0", "up": False},
        {"time": "2us", "switch": "spine0", "up": False},
        {"time": "3us", "switch": "spine0", "up": True},
    ]
    net = topo.with_changes(changes)
    run = simulate(net, flow_list(net, [(0, 2, 10_000, f"{5 + i}us") for i in range(20)]), "fifo", host=quick("fifo"))
    assert run.summary["flows_finished"] == 20 and run.summary["drops"] == 0
    assert transmitted(run, topo, "tor0", "spine0") == 0 and transmitted(run, topo, "tor0", "spine1") >= 200


STATE = '''
"""Counts the packets of a switch, its ports and its queues; notes in a port's ecn_marks that one is the first."""
node_state = {"packets": "int64", "table": "int64[100]", "limit": "int64"}
port_state = {"packets": "int64", "table": "int32[200]", "limit": "int64"}
queue_state = {"packets": "int64"}


def set_up_node(state, node):
    my_node(state, node).limit = 3


def set_up_port(state, node, port):
    my_port(state, port).limit = 3


def on_enqueue(state, node, port, queue, pkt):
    ours = my_node(state, node)
    mine = my_port(state, port)
    its = my_queue(state, queue)
    if ours.packets == 0 and ours.table[7] == 0 and ours.limit == 3:
        port.ecn_marks += 1
    if mine.packets == 0 and mine.table[7] == 0 and mine.limit == 3:
        port.ecn_marks += 10
    if its.packets == 0:
        port.ecn_marks += 100
    ours.packets += 1
    ours.table[7] += 1
    mine.packets += 1
    mine.table[7] += 1
    its.packets += 1
'''


def test_schemes_begin_anew_at_the_switch(tmp_path):
    """State of node, ports and queues, and tables, are 0 and set up again: the first packets of each are seen twice."""
    path = tmp_path / "state.py"
    path.write_text(STATE)
    topo = leaf_spine(hosts=4, tors=2, spines=1)
    flows = flow_list(topo, [(0, 2, 5000, "1us"), (0, 2, 5000, "50us")])
    marks = []
    for net in (topo, failing(topo, "spine0", "30us", "40us")):
        run = simulate(net, flows, str(path), host=HostConfig(ack_priority="data"))
        assert run.summary["flows_finished"] == 2 and run.summary["drops"] == 0
        marks.append({topo.names[n]: count for n, count in run.ports.group_by("node").agg(pl.col("ecn_marks").sum()).iter_rows()})
    once, again = marks
    assert once["spine0"] == 1 + 2 * 110 and again["spine0"] == 2 * once["spine0"]
    assert all(once[name] == again[name] for name in once if name != "spine0")


def test_a_core_of_three_tiers_loses_a_switch_of_each():
    topo = fat_tree(k=4, buffer="1MB")
    net = topo
    for name, down, up in (("core0", "10us", "80us"), ("agg1", "20us", "90us"), ("tor2", "30us", "120us")):
        net = failing(net, name, down, up)
    flows = flow_list(net, [(i, (i + k) % 16, 150_000) for i in range(16) for k in (3, 5, 9)])
    runs = [
        simulate(net, flows, "bfc+spray", threads=n, host=quick("fifo"), measure=EVERYTHING, max_time_ps=10**11) for n in (1, 3)
    ]
    assert runs[0].summary["flows_finished"] == 48
    same(*runs, "threads")
