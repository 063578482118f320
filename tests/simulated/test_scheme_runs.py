"""An operator's configuration whose switch runs a scheme of the simulator, under drawn faults."""

import pathlib
from unittest import mock

import pytest

import penstock_net.schemes
from penstock_net.errors import SpecError
from penstock_net.vswitch.daemon.config import fixed_of, validate_reload
from penstock_net.vswitch.simulation import machine
from penstock_net.vswitch.simulation.layout import layout_of
from penstock_net.vswitch.simulation.run import Step, simulate
from penstock_net.vswitch.support import balance, losses
from penstock_net.vswitch.support.scheme_network import usable

MS = 1_000_000
NAMES = sorted(path.stem for path in pathlib.Path(penstock_net.schemes.__file__).parent.glob("[!_]*.py"))


def is_usable(name):
    try:
        usable(name, None)
    except SpecError:
        return False
    return True


USABLE = [*filter(is_usable, NAMES), "bfc:unpaused", "dqa+pfc", "floodgate:ideal"]
PORTS = [
    {"name": "web", "addresses": ["10.0.0.1"], "rate": "1Gbps", "delay": "2us"},
    {"name": "store", "addresses": ["10.0.0.2", "fd00::2"]},
    {"name": "left", "addresses": ["10.0.0.3", "fd00::3"], "kind": "tap", "device": "sw0"},
]


def content(name, **more):
    return {"switch": {"scheme": name}, "port": PORTS, **more}


@pytest.mark.parametrize("scheme", USABLE)
def test_laws_hold_with_each_scheme_that_the_real_switch_takes(scheme):
    for seed in (2, 3):
        found = simulate(seed, "20ms", content=content(scheme))
        assert not found.failure, found
        assert found.came > 20


def test_there_are_such_schemes():
    assert len(USABLE) > 20


def test_parameters_and_links_are_those_of_the_specification():
    """Two nodes in one process; at 1 Gbit/s frames wait for the line."""
    ports = [{**PORTS[0], "node": 0}, {**PORTS[1], "node": 1}, PORTS[2]]
    links = [{"between": [0, 1], "rate": "10Gbps", "delay": "5us"}]
    found = simulate(1, "20ms", content=content("bfc", scheme={"queues": 64}, link=links, port=ports))
    assert not found.failure, found
    assert found.came > 20
    assert any("as it has them" in said for said in found.stand_ins)


def test_a_scheme_that_the_real_switch_refuses_is_refused():
    with pytest.raises(SpecError, match="needs its hosts"):
        simulate(1, "1ms", content=content("hpcc"))
    with pytest.raises(SpecError, match="one of several processes"):
        layout_of({"switch": {"scheme": "bfc", "node": 0}, "port": PORTS})


# ---- Faults that were found so ----

STARTS = [Step(0, "start", name) for name in ("web", "store")]


def test_reload_makes_an_interface_again():
    """It was refused: `switch.scheme: unknown key`."""
    steps = [*STARTS, Step(5 * MS, "delete", "left"), Step(20 * MS, "reload", "", (False,))]
    found = simulate(1, steps=[*steps, Step(60 * MS, "send", "web", ("left", 5, 200))], content=content("bfc"))
    assert not found.failure, found
    assert found.came == found.sent


@pytest.mark.parametrize(
    "path, changed",
    [
        ("switch.buffer", {"switch": {"scheme": "bfc", "buffer": "1MB"}}),
        ("switch.scheme", {"switch": {"scheme": "pfc"}}),
        ("switch.scheme", {"switch": {}, "port": [{"name": "a", "addresses": ["10.0.0.1"]}]}),
        ("scheme", {"scheme": {"queues": 32}}),
        ("port.web.rate", {"port": [{**PORTS[0], "rate": "2Gbps"}, *PORTS[1:]]}),
    ],
)
def test_reload_does_not_change_a_scheme(path, changed):
    before = content("bfc")
    with pytest.raises(SpecError, match=f"^{path}.*cannot be changed while running"):
        validate_reload({**before, **changed}, fixed_of(before), {}, {}, {})


AGAIN = [
    Step(0, "start", "store"),
    Step(19 * MS, "send", "store", ("web", 60, 200)),
    Step(23 * MS, "kill", "store"),
    Step(25 * MS, "start", "store"),
    Step(66 * MS, "send", "store", ("web", 4, 60)),
]


def test_refusals_of_the_next_application_are_counted():
    """Those of a scheme go on with the next application of a port, and `no_route` was taken for one of them (seed 1)."""
    found = simulate(1, steps=AGAIN, content=content("fifo"))
    assert not found.failure, found
    assert found.lost == {"no_route": 64}
    with mock.patch.object(losses, "LASTING", losses.LASTING | {"no_route"}):
        assert "64 frames have not come, and 60 are counted" in simulate(1, steps=AGAIN, content=content("fifo")).failure


UNREAD = [  # and with other addresses the sender is another one
    Step(0, "start", "store"),
    Step(4 * MS, "stop reading", "store"),
    Step(4 * MS, "send", "left", ("store", 60, 60)),
    Step(11 * MS, "readdress", "left", (1,)),
    Step(14 * MS, "send", "left", ("store", 40, 60)),
]


def test_frames_that_a_scheme_has_lost_are_not_missing():
    """Their sender was removed meanwhile: `show balance` missed them (seed 6)."""
    found = simulate(6, steps=UNREAD, content=content("fifo"))
    assert not found.failure and found.lost == {"gone": 40}, found
    with mock.patch.object(machine, "unaccounted", lambda rows, gone, on_lines: balance.unaccounted(rows, gone)):
        assert "{'between ports': 40}" in simulate(6, steps=UNREAD, content=content("fifo")).failure
