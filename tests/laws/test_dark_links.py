"""Links that are dark for a time: nothing is lost, packets wait as the scheme says, and nights are exact to the picosecond."""

import sys
import types
from itertools import combinations

import networkx as nx
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import HostConfig, Measure, available, flow_list, hosts_under, networks, reasons, same, simulate

from penstock_net import topology
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.sim import simulate as core
from penstock_net.topology import (
    LinkChange,
    SwitchChange,
    behind_vswitches,
    build,
    changes,
    dumbbell,
    leaf_spine,
    outages,
    schedule,
)

QUIET = Measure(sample="0s", flows=False)
TRACED = Measure(sample="0s", packets=True)
FRAME, MTU, FAST, SLOW, DELAY = 1048, 1000, 80, 320, 1_000_000
ENDS = {"a": "switch0", "b": "switch1"}


# -- nights and days, to the picosecond ----------------------------------------------------------------------------------------


def loop(packets, nights, mistake=""):
    """When each packet of a host has come to the far end of a link, ps: days at the rates that the nights before them end with.

    nights: (from, until, ps per byte from then on)
    """
    out, free = [], 0
    for i in range(packets):
        now = max((i + 1) * FRAME * FAST + DELAY, free)
        for dark, light, _ in nights:
            if dark <= now < light:
                now = light
            if mistake == "a packet is cut off" and now < dark < now + FRAME * FAST:
                now = light
        rates = [FAST, *(rate for _, light, rate in nights if light <= now)]
        free = now + FRAME * (rates[-2] if mistake == "the rate of yesterday" and len(rates) > 1 else rates[-1])
        lost = any(free <= dark < free + DELAY for dark, _, _ in nights)
        if not (mistake == "what is on the wire is lost" and lost):
            out.append(free + DELAY)
    return out


def over_nights(packets, tables, scheme="fifo", **settings):
    """The same of the simulator, and the run."""
    topo = dumbbell(left=1, right=1, delay=f"{DELAY}ps", buffer="0B").with_changes([{**ENDS, **table} for table in tables])
    run = simulate(topo, flow_list(topo, [(0, 1, packets * MTU)]), scheme, measure=TRACED, host=HostConfig(rto="1s"), **settings)
    came = run.frame("packets").filter((pl.col("node") == topo.node("switch1")) & (pl.col("event") == "enqueue"))
    return [round(ns * 1000) for ns in came.filter(pl.col("bytes") == FRAME)["time_ns"]], run


RATES = {FAST: "100Gbps", SLOW: "25Gbps"}
FIRST = FRAME * FAST + DELAY  # when the first packet is at the link
COURSES = {  # time, night, every, until; the rates from the end of each on
    "of the paper": [(9_000_000, 1_000_000, 31_000_000, 90_000_000, SLOW), (30_000_000, 1_000_000, 31_000_000, 90_000_000, FAST)],
    "as a packet begins": [(FIRST, 500_000, 10_000_000, 30_000_000, FAST)],
    "as a packet ends": [(FIRST + FRAME * FAST, 77_777, 5_000_001, 30_000_000, SLOW)],
    "within a packet, and over before it ends": [(FIRST + 1000, 2000, 1_000_000, 20_000_000, FAST)],
    "1 ps": [(FIRST + 3 * FRAME * FAST, 1, 4_000_000, 40_000_000, FAST)],
    "a day of less than a packet": [(FIRST, 900_000, 900_001, 20_000_000, FAST)],
}


def nights_of(course):
    return sorted((t, t + night, rate) for time, night, every, until, rate in course for t in range(time, until, every))


def short(course):
    """A table for each line of a course."""
    names = ("time", "night", "every", "until")
    return [{**{k: f"{v}ps" for k, v in zip(names, line)}, "rate": RATES[line[4]], "on_down": "hold"} for line in course]


def long(course, rates_first):
    """Three tables for each night, as without `night` and `every`."""
    out = []
    for dark, light, rate in nights_of(course):
        day = [{"time": f"{light}ps", "up": True}, {"time": f"{light}ps", "rate": RATES[rate]}]
        out += [{"time": f"{dark}ps", "up": False, "on_down": "hold"}, *(day[::-1] if rates_first else day)]
    return out


@pytest.mark.parametrize("name", COURSES)
def test_nights_and_days(name):
    """Every packet of 120, three ways to write the same, on two threads as on one; nothing is lost and nothing sent again."""
    course, runs = COURSES[name], []
    expected = loop(120, nights_of(course))
    for tables, threads in ((short(course), 1), (long(course, False), 1), (long(course, True), 2)):
        came, run = over_nights(120, tables, threads=threads)
        assert came == expected
        assert round(run.flows["fct_ns"][0] * 1000) == expected[-1] + FRAME * FAST + DELAY
        assert run.summary["drops"] == run.summary["retransmissions"] == 0 and not run.summary["warnings"]
        runs.append(run)
    same(runs[0], runs[1], "long or short")
    same(runs[0], runs[2], "threads")


@pytest.mark.parametrize("mistake", ["a packet is cut off", "the rate of yesterday", "what is on the wire is lost"])
def test_mistakes_of_the_loop_are_seen(mistake):
    nights = nights_of(COURSES["of the paper"])
    assert loop(120, nights, mistake) != loop(120, nights)


MISTAKES = {
    "a night fewer": (schedule, "return range(time, until, every)", "return range(time, until - every, every)"),
    "a night more": (schedule, "return range(time, until, every)", "return range(time, until + every, every)"),
    "a night is lost": (
        schedule,
        "return [LinkChange(time, link, False, on_down=on_down)",
        "return [LinkChange(time, link, False)",
    ),
    "a night too long": (
        schedule,
        "LinkChange(time + night, link, True, rate, llr=llr)",
        "LinkChange(time + night + 1, link, True, rate, llr=llr)",
    ),
    "no new rate": (
        schedule,
        "LinkChange(time + night, link, True, rate, llr=llr)",
        "LinkChange(time + night, link, True, llr=llr)",
    ),
    "the rate of the night": (
        schedule,
        "False, on_down=on_down), LinkChange(time + night, link, True, rate, llr=llr)",
        "False, rate, on_down=on_down), LinkChange(time + night, link, True, llr=llr)",
    ),
    "rates come last": (changes, "change.up is not None\n", "change.up is None\n"),
    "dark links have no routes": (changes, "if change.up or change.on_down in (HOLD, SILENT) else", "if change.up else"),
    "dark links are down": (changes, "HOLD: DARK", "HOLD: DOWN"),
    "dark links stay up": (changes, "HOLD: DARK", "HOLD: UP"),
    "dark for ever": (changes, "self.how.pop(change.link, None)", "pass"),
}


def with_mistake(module, right, wrong):
    """The module, with a mistake."""
    with open(module.__file__) as file:
        text = file.read()
    assert text.count(right) == 1
    made = types.ModuleType(module.__name__)
    sys.modules[module.__name__], kept = made, sys.modules[module.__name__]
    try:
        exec(compile(text.replace(right, wrong), module.__file__, "exec", dont_inherit=True), made.__dict__)
    finally:
        sys.modules[module.__name__] = kept
    return made


@pytest.mark.parametrize("mistake", MISTAKES)
def test_planted_mistakes_are_seen(mistake, monkeypatch):
    module, right, wrong = MISTAKES[mistake]
    made = with_mistake(module, right, wrong)
    if module is schedule:
        for name in ("_times", "_of_link"):
            monkeypatch.setattr(schedule, name, getattr(made, name))
    else:
        monkeypatch.setattr(topology.graph, "in_order", made.in_order)
        monkeypatch.setattr(core, "LinkStates", made.LinkStates)
        monkeypatch.setattr(made, "LinkChange", LinkChange)  # what apply looks for
        monkeypatch.setattr(made, "SwitchChange", SwitchChange)
    course, expected = COURSES["of the paper"], loop(1500, nights_of(COURSES["of the paper"]))
    found = [over_nights(1500, tables, max_time_ps=300_000_000)[0] for tables in (short(course), long(course, False))]
    assert found != [expected, expected]


# -- nothing is lost, whatever the scheme --------------------------------------------------------------------------------------


def rotor(hold=True, switch=True, **network):
    """Eight hosts, two racks: a spine with nights of 20 of 60 us, an uplink of the other and the link of a host with others."""
    on_down = {"on_down": "hold"} if hold else {}
    tables = [
        {"time": "7us", "switch": "spine0"} if switch else {"time": "7us", "a": "tor1", "b": "spine0"},
        {"time": "31us", "a": "tor0", "b": "spine1"},
        {"time": "43us", "a": "host5", "b": "tor1"},
    ]
    nights = {"night": "20us", "every": "60us", "until": "400us", **on_down}
    return leaf_spine(hosts=8, tors=2, spines=2, **network).with_changes([table | nights for table in tables])


def crowd(topo):
    pairs = [(src, dst) for src in range(8) for dst in (5, (src + 4) % 8) if src != dst]
    return flow_list(topo, [(src, dst, 60_000, f"{3 * src}us") for src, dst in pairs])


@pytest.mark.parametrize("scheme", sorted(set(available()) - {"valiant"}))
def test_a_night_is_not_a_loss(scheme):
    """Nothing is lost on the wire or for lack of a route; a lossless scheme loses nothing at all (`simulate` sees to that)."""
    topo = rotor(buffer="1MB")
    run = simulate(topo, crowd(topo), scheme, measure=QUIET, host=hosts_under(scheme, rto="4ms"))
    assert run.summary["flows_finished"] == 15
    assert not {"link down", "no route", "switch down"} & reasons(run).keys()
    if scheme in ("bfc", "pfc", "backdraft", "bfc_tofino2"):
        assert run.summary["drops"] == run.summary["retransmissions"] == 0


@pytest.mark.parametrize("scheme", ["pfc", "bfc"])
def test_packets_wait_under_the_scheme_s_rules(scheme):
    """In a night of a rack's only uplink its hosts are paused as if the queue were of congestion, and the buffer holds."""
    night = [{"time": "20us", "a": "tor0", "b": "spine0", "night": "300us", "on_down": "hold"}]
    topo = leaf_spine(hosts=4, tors=2, spines=1, uplink_rate="200Gbps", buffer="600KB")
    flows = flow_list(topo, [(i, 2 + i, 2_000_000) for i in range(2)])
    day, dark = (simulate(net, flows, scheme, measure=QUIET) for net in (topo, topo.with_changes(night)))
    assert dark.summary["drops"] == 0 and dark.summary["max_buffer_bytes"] > 2 * day.summary["max_buffer_bytes"]
    paused = dark.ports.filter(pl.col("node") == topo.node("tor0"))["pauses_sent"].sum()
    assert paused > 0 == day.ports.filter(pl.col("node") == topo.node("tor0"))["pauses_sent"].sum()
    longer = (dark.flows["fct_ns"] - day.flows["fct_ns"]).to_numpy()
    assert (longer > 299_000).all() and (longer < 310_000).all()


def test_marks_come_of_a_night():
    """ECN counts what waits."""
    night = [{"time": "20us", "a": "tor0", "b": "spine0", "night": "100us", "on_down": "hold"}]
    topo = leaf_spine(hosts=4, tors=2, spines=1, uplink_rate="200Gbps", buffer="12MB")
    flows = flow_list(topo, [(i, 2 + i, 1_000_000) for i in range(2)])
    marks = [simulate(net, flows, "dcqcn", measure=QUIET).ports["ecn_marks"].sum() for net in (topo, topo.with_changes(night))]
    assert marks[0] == 0 < marks[1]


def test_windows_hold_at_night():
    """Floodgate's: what is beyond the window of a destination waits in a virtual output queue; a link that is down has none."""
    topo = leaf_spine(hosts=4, tors=2, spines=1, uplink_rate="200Gbps", buffer="12MB")
    flows, used = flow_list(topo, [(i, 2 + i, 2_000_000) for i in range(2)]), []
    for on_down in (None, "hold", "drop"):
        night = [{"time": "9us", "a": "tor0", "b": "spine0", "night": "200us", "on_down": on_down}] if on_down else []
        run = simulate(topo.with_changes(night), flows, "floodgate", measure=QUIET, host=HostConfig(rto="500us"))
        used.append(run.frame("nodes").filter(pl.col("node") == topo.node("tor0"))["max_voqs"][0])
        assert on_down == "drop" or run.summary["drops"] == run.summary["retransmissions"] == 0
    assert used == [0, 2, 0]


def test_a_dark_link_keeps_its_routes():
    """With `hold` both spines carry as much as without nights; with `drop` the other one carries all meanwhile."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    flows = flow_list(topo, [(i % 4, 4 + i % 4, 10_000, f"{20 + i}us") for i in range(40)])
    carried = []
    for on_down in (None, "hold", "drop"):
        night = [{"time": "10us", "a": "tor0", "b": "spine0", "night": "200us", "on_down": on_down}] if on_down else []
        run = simulate(topo.with_changes(night), flows, "fifo", measure=QUIET)
        to_spines = run.ports.filter((pl.col("node") == topo.node("tor0")) & (pl.col("peer") >= topo.node("spine0")))
        carried.append((to_spines["tx_bytes"] - to_spines["ack_bytes"]).to_list())
    assert carried[0] == carried[1] and 0 not in carried[0] and carried[2] == [0, sum(carried[0])]


def test_a_switch_that_fails_at_night():
    """Its links are down meanwhile; when it is back at night they are dark, and by day they work."""
    topo = leaf_spine(hosts=4, tors=2, spines=1)
    night = {"time": "20us", "a": "tor0", "b": "spine0", "night": "100us", "on_down": "hold"}
    fails = [{"time": t, "switch": "spine0", "up": up} for t, up in (("40us", False), ("60us", True))]
    states, link = changes.LinkStates(topo.links), topo.link("tor0", "spine0")
    seen = []
    for change in topo.with_changes([night, *fails]).changes:
        states.apply(change)
        seen.append((change.time_ps // 10**6, states.state(link), link in states.down))
    assert seen == [(20, 2, False), (40, 1, True), (60, 2, False), (120, 0, False)]
    flows = flow_list(topo, [(0, 2, 20_000, "70us")])
    run = simulate(topo.with_changes([night, *fails]), flows, "fifo", measure=TRACED)
    rows = run.frame("packets").filter((pl.col("node") == topo.node("tor0")) & (pl.col("event") == "dequeue"))
    assert rows["time_ns"].min() == 120_000 and run.summary["drops"] == 0
    cut = [{"time": "30us", "a": "tor0", "b": "spine0", "up": False}]  # at night: what waits stays, what comes has no route
    run = simulate(topo.with_changes([night, *cut]), flows, "fifo", measure=QUIET)
    assert reasons(run)["no route"] >= 20 == run.flows["bytes"][0] // MTU


@pytest.mark.parametrize("scheme", ["fifo", "bfc", "floodgate"])
def test_same_bits(scheme, monkeypatch, tmp_path):
    """On two threads, and from a checkpoint at night on."""
    topo = rotor(buffer="1MB")
    settings = {"measure": Measure(sample="2us", packets=True), "seed": 3}
    whole = simulate(topo, crowd(topo), scheme, **settings)
    same(whole, simulate(topo, crowd(topo), scheme, threads=2, **settings), "threads")

    class Interrupted(core.Runner):
        left = 12

        def __init__(self, *given):
            super().__init__(*given)
            self.keeper.due = self.due

        def due(self):
            self.left -= 1
            self.stop = self.left == 0
            return False

    path = tmp_path / "state"
    with monkeypatch.context() as patched:
        patched.setattr(core, "Runner", Interrupted)
        patched.setattr(core, "CHUNK_S", 0.0)
        assert simulate(topo, crowd(topo), scheme, checkpoint=path, on_interrupt="return", **settings).summary["interrupted"]
    same(whole, simulate(topo, crowd(topo), scheme, checkpoint=path, **settings), "checkpoint")


# -- without a route -----------------------------------------------------------------------------------------------------------


def test_packets_without_a_route_are_counted():
    """A warning for each set of links, with what was lost by it; none with `hold`, whatever is lost otherwise."""
    lost, tables = {}, [{"time": "10us", "night": "20us", "every": "50us", "until": "100us"}]
    topo = dumbbell(left=2, right=1, delay="1us", bottleneck_rate="100Gbps")
    flows = flow_list(topo, [(0, 2, 400_000), (1, 0, 400_000)])
    for on_down in ("drop", "hold"):
        other = [{"time": "14us", "a": "host0", "b": "switch0", "up": False, "on_down": on_down}]
        other += [{"time": "200us", "a": "host0", "b": "switch0", "up": True}]
        net = topo.with_changes([{**ENDS, **tables[0], "on_down": on_down}, *other])
        run = simulate(net, flows, "fifo", host=HostConfig(rto="100us"), measure=QUIET)
        lost[on_down] = reasons(run)["no route"]
        said = [text for text in run.summary["warnings"] if "without a route" in text]
        counts = [int(text.split(": ")[1].split()[0]) for text in said]
        assert sum(counts) == lost[on_down] and (len(said) > 1 and min(counts) > 0) == (on_down == "drop")
        assert run.summary["flows_finished"] == 2
    assert lost["drop"] > 100 > lost["hold"] == 0


def test_a_dry_run_says_it(tmp_path, capsys, monkeypatch):
    text = (
        '[run]\nduration = "9us"\n[topology]\nkind = "dumbbell"\nleft = 1\nright = 1\nchanges = [{ time = "2us", a = "switch0", '
    )
    text += 'b = "switch1", night = "1us", every = "3us", until = "9us", on_down = "drop" }]\n[scheme]\nname = "fifo"\n'
    text += '[[workload]]\nkind = "list"\nflows = [[0, 1, 1000]]\n'
    monkeypatch.chdir(tmp_path)
    for on_down in ("drop", "hold"):
        (tmp_path / "my.toml").write_text(text.replace("drop", on_down))
        main(["run", "my.toml", "--dry-run"])
        out, err = capsys.readouterr()
        warning = "warning: switch0 - switch1, down from 2us until 3us, and 2 more times, leaves 1 pair of hosts,"
        assert (warning in err) == (on_down == "drop") and f'every = "3us", until = "9us", on_down = "{on_down}"' in out


def test_what_is_said():
    topo = dumbbell(left=1, right=2)
    drop = topo.with_changes([{**ENDS, "time": "1us", "night": "1us", "every": "3us", "until": "9us"}])
    assert outages.sentences(drop) == [
        "switch0 - switch1, down from 1us until 2us, and 2 more times, leaves 2 pairs of hosts, such as host0 and host1, "
        'without a route; with on_down = "hold" in changes packets wait'
    ]
    assert ": 12 packets were lost for it;" in outages.sentences(drop, [5, 0, 7])[0]
    clos = leaf_spine(hosts=4, tors=2, spines=2)
    one = [{"time": "1us", "switch": "spine0", "up": False}, {"time": "2us", "switch": "tor1", "up": False}]
    assert [found.causes for found in outages.outages(clos.with_changes(one[:1]))] == []
    assert [(found.causes, found.pairs, found.end_ps) for found in outages.outages(clos.with_changes(one))] == [
        (("tor1",), 5, None)
    ]
    pair = leaf_spine(hosts=2, tors=2, spines=2).with_changes(
        [{"time": "1us", "switch": switch, "up": False} for switch in ("spine0", "tor0")]
    )
    assert [found.causes for found in outages.outages(pair)] == [("tor0",)], "not spine0, beside which there is spine1"
    both = [{"time": "1us", "a": "tor0", "b": spine, "up": False} for spine in ("spine0", "spine1")]
    assert [found.causes for found in outages.outages(clos.with_changes(both))] == [("tor0 - spine0", "tor0 - spine1")]


@examples(40)
@given(networks(), st.data())
def test_pairs_without_a_route(topo, data):
    """As a search of the graph finds them: paths lead through switches only."""
    down = data.draw(st.sets(st.integers(0, len(topo.links) - 1)))
    ends = list(zip(topo.links["a"].tolist(), topo.links["b"].tolist()))

    def joined(links):
        graph = nx.Graph()
        graph.add_nodes_from(range(topo.nodes))
        graph.add_edges_from(ends[i] for i in links)
        hosts = range(topo.hosts)
        return {p for p in combinations(hosts, 2) if nx.has_path(graph.subgraph({*p, *range(topo.hosts, topo.nodes)}), *p)}

    whole, left = joined(range(len(ends))), joined(set(range(len(ends))) - down)
    found = list(outages.outages(topo.with_changes([LinkChange(0, link, False) for link in sorted(down)])))
    pairs = [outage.pairs for outage in found if outage.number == len(down) - 1]
    assert pairs == ([len(whole - left)] if whole - left else [])
    assert all(found[-1].example in whole - left for _ in pairs)


# -- tables --------------------------------------------------------------------------------------------------------------------


def test_a_spec_keeps_its_tables_short():
    topo = rotor()
    assert len(topo.changes) == 7 * 2 * 2 + 7 * 2 + 6 * 2 and len(topo.params["changes"]) == 3
    assert build(topo.spec) == topo and topo.params["changes"][0] == {
        "time": "7000000ps",
        "switch": "spine0",
        "on_down": "hold",
        "night": "20000000ps",
        "every": "60000000ps",
        "until": "400000000ps",
    }
    assert topo.describe().splitlines()[-1] == (
        "dark          tor0 - spine0, tor1 - spine0, tor0 - spine1, host5 - tor1: 27 nights, the first at 7us; packets wait"
    )
    inner = behind_vswitches(topo, apps=2)
    assert [change.time_ps for change in inner.changes] == [change.time_ps for change in topo.changes]
    assert inner.params["changes"][2]["a"] == "vswitch5"
    one = leaf_spine().with_changes([{"time": "1us", "a": "tor0", "b": "spine0", "up": False, "on_down": "hold"}])
    assert one.changes == (LinkChange(10**6, leaf_spine().link("tor0", "spine0"), False, on_down="hold"),)
    assert build(one.spec) == one and leaf_spine().with_changes(one.changes) == one
    fails = leaf_spine().with_changes([{"time": "1us", "switch": "spine0", "night": "1us", "every": "4us", "until": "6us"}])
    assert [(c.time_ps // 10**6, c.up) for c in fails.changes] == [(1, False), (2, True), (5, False), (6, True)]


LINK = {"time": "1us", "a": "tor0", "b": "spine0"}
EVERY = {"night": "2us", "every": "9us", "until": "1ms"}


@pytest.mark.parametrize(
    "table, says",
    [
        (
            {**LINK, "rate": "1Gbps", "on_down": "hold"},
            'changes.0.on_down = "hold": is of what goes down; remove it, or give up = f',
        ),
        ({**LINK, "up": True, "on_down": "drop"}, 'changes.0.on_down = "drop": is of what goes down'),
        ({**LINK, "up": False, "on_down": "wait"}, 'changes.0.on_down = "wait": must be one of drop, hold, lose, silent'),
        (
            {**LINK, **EVERY, "up": False},
            "changes.0.up = false: is what night says: down at `time`, and up again after it; remove",
        ),
        ({**LINK, **EVERY, "night": "0s"}, 'changes.0.night = "0s": must be greater than zero'),
        ({**LINK, **EVERY, "night": "9us"}, 'changes.0.every = "9us": must be longer than night, or it is never day'),
        ({**LINK, **EVERY, "until": "1us"}, 'changes.0.until = "1us": must be after time, or nothing ever changes'),
        (
            {**LINK, **EVERY, "until": "1s"},
            "changes.0: every = 9us until 1s makes more than 50000 repetitions; let it change more",
        ),
        ({**LINK, **EVERY, "rate": "1Gbps", "of": "tor0"}, 'changes.0.of = "tor0": is of one direction, and a night is of both'),
        (
            {**LINK, "night": "1us", "every": "9us"},
            "changes.0.until: is missing; every and until belong together; give both or none",
        ),
        ({**LINK, "up": False, "until": "9us"}, "changes.0.every: is missing; every and until belong together"),
        (
            {"time": "1us", "switch": "spine0", "up": False, "on_down": "hold"},
            "changes.0.on_down = .* loses what it stores, and its routes; give ni",
        ),
        ({"time": "1us", "switch": "spine0", "up": False, "on_down": "silent"}, 'changes.0.on_down = "silent": is of links'),
        ({"time": "1us", "switch": "spine0", "up": True, "on_down": "lose"}, 'changes.0.on_down = "lose": is of what goes down'),
        (SwitchChange(0, 10, False, "hold"), 'changes.on_down = "hold": must be one of drop, lose'),
        (LinkChange(0, 2, False, on_down="gone"), 'changes.on_down = "gone": must be one of drop, hold, lose, silent'),
        ({"time": "1us", "switch": "spine0", **EVERY, "rate": "1Gbps"}, "changes.0.rate: is of a link, and this is a switch"),
        (LinkChange(0, 2, True, on_down="hold"), 'changes.on_down = "hold": is of a link that goes down; give up = False'),
    ],
)
def test_refused(table, says):
    with pytest.raises(SpecError, match=f"^{says}"):
        leaf_spine(hosts=8, tors=2, spines=2).with_changes([table])
