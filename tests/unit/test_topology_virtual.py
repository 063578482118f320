"""Virtual switches in servers and receivers that vary: the networks, their specs, and every refusal."""

import re

import numpy as np
import pytest
from drawn import examples
from hypothesis import example, given
from hypothesis import strategies as st

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.sim.simulate import simulate
from penstock_net.spec.files import Inputs, absolute
from penstock_net.topology import LinkChange, SwitchChange, behind_vswitches, build, fat_tree, leaf_spine, star, with_receivers
from penstock_net.workload import flow_list

US = 1_000_000
PLAIN = {
    "leaf_spine": lambda: leaf_spine(hosts=8, tors=2, spines=2),
    "star": lambda: star(hosts=3),
    "fat_tree": lambda: fat_tree(k=4, uplink_rate="400Gbps"),
}


def servers(receivers=(), apps=2, **more):
    return with_receivers(behind_vswitches(star(hosts=2), apps=apps, **more), receivers)


# ---- virtual switches ----


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("apps", [1, 3])
def test_applications_servers_and_the_network_above_them(kind, apps):
    plain = PLAIN[kind]()
    topo = behind_vswitches(plain, apps=apps, rate="40Gbps", delay="300ns", buffer="5MB")
    assert topo.hosts == plain.hosts * apps and topo.switches == plain.nodes
    for server in range(plain.hosts):
        vswitch = topo.hosts + server
        assert topo.names[vswitch] == f"vswitch{server}" and topo.tier[vswitch] == 0
        assert topo.buffer_bytes[server] == 5_000_000
        assert sorted(topo.peers(vswitch)) == [*range(server * apps, (server + 1) * apps), topo.hosts + plain.peers(server)[0]]
        for app in range(server * apps, (server + 1) * apps):
            link = topo.links[topo.host_links[app]]
            assert (topo.host_switches[app], link["ps_per_byte"], link["delay_ps"]) == (vswitch, 200, 300_000)
    above = topo.links[topo.hosts :]
    for field in ("ps_per_byte", "delay_ps"):
        assert (above[field] == plain.links[field]).all()
    assert topo.names[topo.hosts + plain.hosts :] == plain.names[plain.hosts :]
    assert (topo.tier[topo.hosts + plain.hosts :] == plain.tier[plain.hosts :]).all()
    assert (topo.buffer_bytes[plain.hosts :] == plain.buffer_bytes).all()
    assert build(topo.spec) == topo and build(topo.spec).spec == topo.spec


def test_applications_of_one_server_do_not_use_the_network():
    topo = servers()
    assert topo.path_links(0, 1, 0, 1) == [(1, 0), (4, 0)]
    assert len(topo.path_links(0, 2, 0, 1)) == 4


def test_the_network_may_have_changes_and_losses_of_its_own():
    plain = star(hosts=2).with_changes([{"time": "1ms", "a": "host1", "b": "switch0", "rate": "40Gbps", "of": "switch0"}])
    plain = plain.with_loss(0.01)
    topo = behind_vswitches(plain, apps=2)
    link = topo.link("vswitch1", "switch0")
    assert topo.changes == (LinkChange(1000 * US, link, None, 200, topo.node("switch0")),)
    assert topo.links["loss"].tolist() == [0] * 4 + [0.01] * 2  # a server loses nothing on the way to its applications
    assert build(topo.spec) == topo
    other = servers().with_loss(0.01)
    assert (other.links["loss"] == topo.links["loss"]).all() and build(other.spec) == other


def test_a_switch_of_the_network_may_fail():
    plain = star(hosts=2).with_changes([{"time": "1ms", "switch": "switch0", "up": False}])
    topo = behind_vswitches(plain, apps=2)
    assert topo.changes == (SwitchChange(1000 * US, topo.node("switch0"), False),) and build(topo.spec) == topo
    server = topo.with_changes([{"time": "2ms", "switch": "vswitch1", "up": False}])
    assert server.changes[1].switch == topo.node("vswitch1") and build(server.spec) == server


def test_a_load_of_the_core_leaves_the_servers_out():
    plain = PLAIN["leaf_spine"]()
    assert behind_vswitches(plain, apps=4).core_capacity_bps == plain.core_capacity_bps > 0
    with pytest.raises(SpecError, match="no links between switches to relate a load to"):
        servers().capacity_bps("core")


@pytest.mark.parametrize(
    "vswitches, message",
    [
        (3, "vswitches = 3: must be a table, such as vswitches = {apps = 2}"),
        ({"app": 2}, 'vswitches.app: unknown key; did you mean "apps"?'),
        ({"apps": 0}, "vswitches.apps = 0: must be between 1 and 1000"),
        ({"apps": 1.5}, "vswitches.apps = 1.5"),
        ({"rate": "3Gbit"}, "vswitches.rate"),
        ({"rate": "0bps"}, "vswitches.rate"),
        ({"delay": "0s"}, "vswitches.delay"),
        ({"buffer": "-1B"}, "vswitches.buffer"),
    ],
)
def test_virtual_switches_refused(vswitches, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        build({"kind": "star", "hosts": 2, "vswitches": vswitches})


def test_virtual_switches_come_once_and_before_receivers():
    with pytest.raises(SpecError, match="has virtual switches already; give them once"):
        behind_vswitches(servers())
    with pytest.raises(SpecError, match="give the virtual switches first"):
        behind_vswitches(with_receivers(star(hosts=2), [{"host": 1, "rate": "1Gbps"}]))


# ---- receivers ----


def paces(topo, host):
    """(time, ps per byte) of what a host takes; nobody else is concerned."""
    link, node = topo.host_links[host], topo.host_switches[host]
    return [(c.time_ps, c.ps_per_byte) for c in topo.changes if (c.link, c.node, c.up) == (link, node, None)]


def test_a_receiver_is_slow_from_its_start_on():
    topo = servers([{"host": 2, "rate": "8Gbps", "start": "3us"}, {"host": 0, "rate": "3Gbps"}])
    assert paces(topo, 2) == [(3 * US, 1000)] and paces(topo, 0) == [(0, 8000 / 3)] and len(topo.changes) == 2
    assert build(topo.spec) == topo


def test_on_and_off():
    topo = servers([{"host": 1, "rate": "8Gbps", "start": "1us", "on": "2us", "off": "3us", "until": "11us"}])
    assert paces(topo, 1) == [(1 * US, 1000), (3 * US, 80), (6 * US, 1000), (8 * US, 80)]
    assert build(topo.spec) == topo


def test_receivers_without_virtual_switches():
    topo = with_receivers(star(hosts=3), [{"host": 1, "rate": "8Gbps"}])
    assert topo.changes == (LinkChange(0, 1, None, 1000, 3),) and build(topo.spec) == topo


def test_more_receivers_add_to_those_before():
    first, second = {"host": 0, "rate": "8Gbps"}, {"host": 1, "rate": "4Gbps"}
    topo = with_receivers(servers([first]), [second])
    assert topo == servers([first, second]) == build(topo.spec) and topo.spec == servers([first, second]).spec


def test_a_trace(tmp_path):
    file = tmp_path / "course.csv"
    file.write_text("rate,time,why\n8Gbps,2us,a\n4Gbps,1us,b\n100Gbps,5us,c\n")
    topo = servers([{"host": 1, "trace": str(file)}])
    assert paces(topo, 1) == [(1 * US, 2000), (2 * US, 1000), (5 * US, 80)]
    assert build(topo.spec) == topo


def test_a_trace_lies_beside_its_spec_and_counts_by_content(tmp_path):
    file = tmp_path / "course.csv"
    file.write_text("time,rate\n1us,8Gbps\n")
    table = absolute({"receivers": [{"host": 0, "trace": "course.csv"}]}, tmp_path)
    assert table["receivers"][0]["trace"] == str(file)
    before = Inputs(table).hashed(table)
    file.write_text("time,rate\n1us,9Gbps\n")
    assert Inputs(table).hashed(table) != before


GOOD = st.fixed_dictionaries(
    {"host": st.integers(0, 3), "rate": st.integers(1_000_000, 400_000_000_000).map(lambda r: f"{r}bps")},
    optional={"start": st.integers(0, 9).map(lambda t: f"{t}us")},
)
PERIODS = st.fixed_dictionaries(
    {key: st.integers(low, 50 * low).map(lambda t: f"{t}us") for key, low in (("on", 1), ("off", 1), ("until", 10))}
)


@examples(60)
@given(st.lists(st.tuples(GOOD, st.one_of(st.just({}), PERIODS)).map(lambda two: {**two[0], **two[1]}), max_size=4))
@example([])
def test_every_receiver_comes_back_from_the_spec(receivers):
    try:
        topo = servers(receivers)
    except SpecError as error:
        assert "is given two rates at" in str(error)
        return
    assert build(topo.spec) == topo
    times = [c.time_ps for c in topo.changes]
    assert times == sorted(times) and all(c.node == topo.hosts + c.link // 2 and c.up is None for c in topo.changes)
    for host in range(4):
        asked = [r for r in receivers if r["host"] == host]
        slow = {8e12 / int(r["rate"][:-3]) for r in asked}
        assert {p for _, p in paces(topo, host)} <= slow | {80} and len(paces(topo, host)) >= len(asked)


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(["1us", "-1us", "3Gbps", "0bps", "1e400bps", "nan", "1h", "5"]),
)
KEYS = st.sampled_from(["host", "rate", "start", "on", "off", "until", "trace", "Host", "x"])


@examples(400)
@given(st.dictionaries(KEYS, ANYTHING, max_size=7))
@example({"host": 0, "rate": 1e-300})
@example({"host": 0, "rate": "1Gbps", "on": "1ps", "off": "1ps", "until": "1s"})
@example({"host": True, "rate": "1Gbps"})
@example({"host": 0, "trace": "\0"})
def test_whatever_is_given_is_taken_or_refused(table):
    try:
        topo = servers([table])
    except SpecError as error:
        assert str(error).startswith(("receivers.0", "changes")) and len(str(error)) < 400
    else:
        assert all(c.ps_per_byte >= 1 and c.time_ps >= 0 for c in topo.changes) and build(topo.spec) == topo


@pytest.mark.parametrize(
    "table, message",
    [
        ({"rate": "1Gbps"}, 'receivers.0: needs a host, and either a rate or a trace, such as {host = 3, rate = "3Gbps"}'),
        ({"host": 1}, "receivers.0: needs a host, and either a rate or a trace"),
        ({"host": 1, "rate": "1Gbps", "trace": "x.csv"}, "receivers.0: needs a host, and either a rate or a trace"),
        ({"host": 4, "rate": "1Gbps"}, "receivers.0.host = 4: must be between 0 and 3"),
        ({"host": 1, "rat": "1Gbps"}, 'receivers.0.rat: unknown key; did you mean "rate"?'),
        ({"host": 1, "rate": "0bps"}, 'receivers.0.rate = "0bps": must be greater than zero'),
        ({"host": 1, "rate": "1Gbps", "on": "1us"}, "receivers.0: on, off and until belong together; give all three or none"),
        (
            {"host": 1, "rate": "1Gbps", "on": "0s", "off": "1us", "until": "1ms"},
            'receivers.0.on = "0s": must be greater than zero',
        ),
        (
            {"host": 1, "rate": "1Gbps", "start": "2ms", "on": "1us", "off": "1us", "until": "1ms"},
            'receivers.0.until = "1ms": must be after start',
        ),
        ({"host": 1, "rate": "1Gbps", "on": "1us", "off": "1us", "until": "1s"}, "more than 100000 changes"),
        ({"host": 1, "trace": "/nowhere/x.csv"}, 'receivers.0.trace = "/nowhere/x.csv": cannot be read'),
    ],
)
def test_receivers_refused(table, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        servers([table])


@pytest.mark.parametrize(
    "text, message",
    [
        ("", 'course.csv: the file is empty; it must begin with a header line such as "time,rate"'),
        ("time,rate\n", "course.csv: no rows below the header line"),
        ("time,pace\n1us,3Gbps\n", "course.csv:1: rate: the column is missing"),
        ("time,rate\n1us,\n", 'course.csv:2: rate = "": must be a number with a unit'),
        ("time,rate\n1us,fast\n", 'course.csv:2: rate = "fast": must be a number with a unit'),
        ("time,rate\n1us,1Gbps\nsoon,1Gbps\n", 'course.csv:3: time = "soon": must be a number with a unit'),
        ("time,rate\n-1us,1Gbps\n", 'course.csv:2: time = "-1us": must be zero or more'),
    ],
)
def test_traces_refused(tmp_path, text, message):
    file = tmp_path / "course.csv"
    file.write_text(text)
    with pytest.raises(SpecError, match=re.escape(message)):
        servers([{"host": 1, "trace": str(file)}])


def test_a_list_of_tables_is_expected():
    with pytest.raises(SpecError, match=r"receivers = .*: must be a list of tables, such as"):
        build({"kind": "star", "hosts": 2, "receivers": {"host": 1}})


def test_at_most_so_many_changes_in_all():
    many = {"rate": "1Gbps", "on": "1us", "off": "1us", "until": "60ms"}
    with pytest.raises(SpecError, match=re.escape("receivers.1: 120000 changes of speed are more than 100000")):
        servers([{"host": 0, **many}, {"host": 1, **many}])


# ---- in the simulator ----


def test_what_a_receiver_takes_and_what_it_sends():
    """A slow receiver takes 8 Gbit/s and sends at its link's rate; its neighbours are as they were."""
    topo = servers([{"host": 0, "rate": "8Gbps"}])
    flows = flow_list(topo, [(2, 0, 1_000_000, "0s"), (0, 2, 1_000_000, "2ms"), (3, 1, 1_000_000, "4ms")])
    run = simulate(topo, flows, parse("fifo"))
    to_it, of_it, to_its_neighbour = run.flows["fct_ns"].to_list()
    assert to_it == pytest.approx(1000 * 1048 + to_its_neighbour - 999 * 1048 * 0.08 - 1048 * 0.08, abs=1)
    assert of_it == to_its_neighbour and run.flows["slowdown"].to_list()[1:] == [1.0, 1.0]


def test_on_and_off_in_the_simulator():
    """Half the time at 8, half the time at 100 Gbit/s; what is on the wire when it changes goes on as it began."""
    topo = servers([{"host": 0, "rate": "8Gbps", "on": "100us", "off": "100us", "until": "10ms"}], buffer="0B")
    run = simulate(topo, flow_list(topo, [(2, 0, 20_000_000, "0s")]), parse("fifo"))
    bytes_per_period = (8 + 100) / 8 * 100_000 / 1000
    assert run.flows["fct_ns"][0] == pytest.approx(20_000_000 * 1.048 / bytes_per_period * 200_000 / 1000, rel=0.02)
    assert np.isfinite(run.flows["slowdown"][0])
