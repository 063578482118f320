"""An operator's configuration in a simulated world: what is tried, what stands in, and what the report says."""

import tomllib

import pytest

from penstock_net.cli.vswitch_simulate import simulate as command
from penstock_net.errors import SpecError
from penstock_net.vswitch.simulation.layout import layout_of
from penstock_net.vswitch.simulation.run import Step, simulate

MS = 1_000_000
SPEC = """
[switch]
th_goal = "8KB"
th_over = "24KB"
th_net = "64KB"
metrics = "127.0.0.1:9464"

[[port]]
name = "web"
addresses = ["10.0.0.1"]

[[port]]
name = "store"
addresses = ["10.0.0.2", "10.0.2.0/24"]

[[port]]
name = "left"
addresses = ["10.0.0.3"]
kind = "tap"
device = "sw0"
netns = "left"

[[port]]
name = "uplink"
addresses = ["10.1.0.0/16"]
kind = "packet"
device = "eth0"
"""
CONTENT = tomllib.loads(SPEC)


def changed(port, **values):
    ports = [{**table, **values} if table["name"] == port else table for table in CONTENT["port"]]
    return {**CONTENT, "port": ports}


@pytest.mark.parametrize("seed", range(3))
def test_laws_hold_for_it(seed):
    found = simulate(seed, "60ms", content=CONTENT)
    assert not found.failure, found
    assert [row.port for row in found.ports] == ["web", "store", "left", "uplink"]
    assert sum(row.sent for row in found.ports) == found.sent
    assert sum(row.came for row in found.ports) == found.came > 50


def test_ports_of_ipv6_alone_or_of_both_versions():
    """Frames pass between ports that have a version together."""
    content = changed("web", addresses=["fd00::1"])
    content["port"][1] = {**content["port"][1], "addresses": ["fd00::2", "10.0.0.2", "fd01::/64"]}
    found = simulate(1, "60ms", content=content)
    assert not found.failure, found
    steps = [Step(0, "start", "web"), Step(0, "start", "store")]
    steps += [Step(5 * MS, "send", "web", (to, 3, 200)) for to in ("store", "left")]
    found = simulate(1, steps=[*steps, Step(5 * MS, "send", "left", ("store", 3, 200))], content=content)
    rows = {row.port: row for row in found.ports}
    assert not found.failure, found
    assert rows["web"].sent == 3 + 3 and rows["left"].sent == 3 + 6  # in the end all send 3 to each that they can reach


def test_what_is_simulated_otherwise_is_said():
    assert layout_of(CONTENT).stand_ins == [
        "switch.metrics is left out",
        "port left: without its edge",
        "port left: without netns",
        "port uplink: kind packet is not simulated, a TAP stands in",
    ]
    assert layout_of({**CONTENT, "switch": {"mode": "pfc"}}).stand_ins[-1].startswith("switch.mode")


@pytest.mark.parametrize("server", [True, False])
def test_a_port_of_a_virtual_machine_has_a_guest(server):
    content = changed("web", kind="vhost-user", path="/run/web.vhost", server=server, pairs=1)
    assert not any("web" in said for said in layout_of(content).stand_ins)
    for seed in (1, 2):
        found = simulate(seed, "60ms", content=content)
        assert not found.failure, found
    steps = [Step(0, "start", "web"), Step(0, "start", "store")]
    steps += [Step(1_200 * MS, "send", *way) for way in (("web", ("store", 30, 700)), ("store", ("web", 30, 700)))]
    found = simulate(1, steps=steps, content=content)
    assert not found.failure, found
    assert found.sent == found.came > 60


@pytest.mark.parametrize(
    "content, said",
    [
        (changed("web", addresses=["02:00:00:00:00:01"]), "no IP address"),
        ({**CONTENT, "port": CONTENT["port"][:1]}, "2 to 16 ports"),
    ],
)
def test_what_cannot_be_tried_is_refused(content, said):
    with pytest.raises(SpecError, match=said):
        layout_of(content)


def test_a_receiver_that_does_not_read_pauses_its_sender_and_the_report_says_so():
    steps = [Step(0, "start", "web"), Step(0, "start", "store"), Step(5 * MS, "stop reading", "store")]
    steps += [Step(6 * MS, "send", "web", ("store", 60, 1400)), Step(46 * MS, "read again", "store")]
    found = simulate(1, steps=steps, content=CONTENT)
    assert not found.failure, found
    rows = {row.port: row for row in found.ports}
    assert rows["web"].pauses >= 1 and 20 * MS < rows["web"].paused_ns < 60 * MS
    assert rows["left"].pauses == 0


def test_a_frame_to_nobody_is_in_the_report():
    steps = [Step(0, "start", "web"), Step(5 * MS, "remove", "left"), Step(30 * MS, "send", "web", ("left", 7, 60))]
    found = simulate(1, steps=steps, content=CONTENT)
    assert not found.failure, found
    assert {row.port: row.lost for row in found.ports}["web"] == {"no_route": 7}


def test_the_command_prints_it(tmp_path, capsys):
    (tmp_path / "penstock.toml").write_text(SPEC)
    command(duration="5ms", config=tmp_path / "penstock.toml")
    said = capsys.readouterr().out
    assert "not as given: port left: without netns" in said
    assert [line.split()[0] for line in said.splitlines()[-4:] if line[0] != " "]
    assert "paused" in said and "uplink" in said
