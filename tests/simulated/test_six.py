"""IPv6 in simulated runs: flows of either version, and programs that ask who has an address."""

from unittest import mock

import pytest
from test_pair import SETTINGS as OF_PAIRS
from test_simulation import MS, SETTINGS

from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.simulation import frames, six
from penstock_net.vswitch.simulation.frames import Flow, Frame
from penstock_net.vswitch.simulation.pair import CLOSE, Pair
from penstock_net.vswitch.simulation.pair_run import ALL, simulate_pair
from penstock_net.vswitch.simulation.run import Step, simulate

STARTS = [Step(0, "start", name) for name in "abc"]
PAIRS = [(name, target) for name in "abtu" for target in "bcut" if name != target]


def sent(at, by_six=True, count=3, size=200):
    return [Step(at, "send", name, (target, count, size, by_six)) for name, target in PAIRS]


def asked(at):
    return [
        Step(at, "ask", name, (target, version)) for name in "tu" for target in "abtu" if name != target for version in (4, 6)
    ]


@pytest.mark.parametrize("size", [60, 82, 700])
def test_a_frame_of_either_version_says_what_it_is(size):
    frame = Frame(Flow(1, 2, 3, 4, 5), 6)
    for source, target, headers in (("10.0.0.1", "10.0.0.2", 42), ("fd00::1", "fd00::2", 62)):
        data = frames.written(frame, source, target, size)
        assert frames.read(data) == frames.marked(data) == frame
        assert frames.target_of(data) == frames.packed(target)
        assert len(data) == max(size, headers + frames.MARK_BYTES)
        assert frames.read(data[:-1]) is None


@pytest.mark.parametrize("edge", [False, True], ids=["plain", "edge"])
def test_frames_of_both_versions_come_and_questions_are_answered(edge):
    steps = [*sent(3 * MS), *sent(3 * MS, False), *asked(4 * MS), *sent(9 * MS, count=20)]
    found = simulate(1, steps=[*STARTS, *steps], settings={**SETTINGS, "edge": edge, "six": True})
    assert not found.failure, found
    assert found.sent == found.came > len(PAIRS) * 26 + 6


def test_nobody_answers_for_a_port_that_is_not_there():
    """By IPv6 the question is one to a group, which is counted."""
    steps = [Step(5 * MS, "remove", "u"), Step(40 * MS, "ask", "t", ("u", 6)), Step(40 * MS, "ask", "t", ("u", 4))]
    found = simulate(1, steps=[*STARTS, *steps], settings={**SETTINGS, "six": True})
    assert not found.failure, found
    assert found.lost == {"multicast": 1}


@pytest.mark.parametrize("what, numbers", [("ask", ("a", 4)), ("lie", ("ARP", "a", 1))])
def test_what_is_of_arp_may_be_counted_by_who_loses_it(what, numbers):
    """Its interface is deleted before the switch has read it: it was one frame too many, since nobody had counted it as sent."""
    steps = [*STARTS, *[Step(10 * MS, what, "t", numbers)] * 5, Step(10 * MS, "delete", "t")]
    each = (simulate(seed, steps=steps, settings={**SETTINGS, "six": True}) for seed in range(100))
    found = next(found for found in each if found.lost or found.failure)  # of one in seven schedules
    assert not found.failure, found
    assert found.lost == {"in rings of interfaces that are gone": 1}


def test_frames_of_ipv6_between_two_switches():
    steps = [Step(5 * MS, "send", name, (target, 10, 700, True)) for name in ALL for target in ALL if name != target]
    steps += [Step(6 * MS, "ask", name, (target, 6)) for name, target in ("tc", "uq", "pt", "qd")]
    starts = [Step(0, "start", name) for name in "abcd"]
    found = simulate_pair(1, steps=[*starts, *steps], settings={**OF_PAIRS, "six": True})
    assert not found.failure, found
    assert found.sent == found.came > 560


def test_an_edge_holds_a_flow_of_ipv6():
    """A receiver does not read: the flow to it has a class, and none in the end."""
    full = [Step((3 + i) * MS, "send", "t", ("a", 40, 1400, True)) for i in range(4)]
    steps = [Step(2 * MS, "stop reading", "a"), *full, Step(40 * MS, "read again", "a")]
    settings = {**SETTINGS, "edge": True, "six": True}
    found = simulate(3, steps=[*STARTS, *steps], settings=settings)
    assert not found.failure, found
    with mock.patch("penstock_net.vswitch.linux.htb.Htb.delete_class", lambda self, minor: 0):
        assert "port t has classes" in simulate(3, steps=[*STARTS, *steps], settings=settings).failure


def test_some_runs_have_it():
    assert 0.2 < sum(map(six.is_drawn, range(1000))) / 1000 < 0.3


# ---- Mistakes that are put back ----

SET_UP, READDRESS = devices.Plan.set_up, devices.Plan.readdress


def not_again(plan, space, addresses):
    """The kernel has taken them away when the interface was down."""
    SET_UP(plan, space, [text for text in addresses if ":" not in text])


def leaves_old_ones(plan, space, before, after):
    READDRESS(plan, space, [text for text in before if ":" not in text], after)


MISTAKES = {
    "addresses of IPv6 are not given again": ("set_up", not_again),
    "`set` leaves old addresses of IPv6": ("readdress", leaves_old_ones),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    method, wrong = MISTAKES[name]
    for seed in range(100):
        if six.is_drawn(seed):
            with mock.patch.object(devices.Plan, method, wrong):
                found = simulate(seed)
            if found.failure:
                break
    assert found.failure
    assert not simulate(found.seed).failure


# ---- An overlay between addresses of IPv6 ----

OF_OVERLAY = {**OF_PAIRS, "overlay_six": True}
LONG = [Step((5 + i) * MS, "send", "a", ("c", 3, 1400)) for i in range(3)]


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([], 1452),
        ([Step(20 * MS, "narrow", "near", (1400, True)), *[step._replace(at=25 * MS) for step in LONG]], 1352),
        ([Step(20 * MS, "narrow", "near", (600, False)), *[step._replace(at=25 * MS) for step in LONG]], 1232),
        ([Step(20 * MS, "uplink down", "near"), Step(60 * MS, "mend", "near")], 1452),
    ],
    ids=["plain", "narrow", "narrowest", "down"],
)
def test_frames_cross_an_overlay_of_ipv6(steps, path):
    """A header of 48 bytes, a path of 1280 at least, and an address that goes with the interface that is taken down."""
    usual, seen = Pair.check_path, []

    def check_path(pair):
        seen.extend(pair.overlay(side)["overlay"]["path_bytes"] for side in ("near", "far"))
        usual(pair)

    with mock.patch.object(Pair, "check_path", check_path):
        found = simulate_pair(1, steps=[*(Step(0, "start", name) for name in "abcd"), *LONG, *steps], settings=OF_OVERLAY)
    assert not found.failure, found
    assert found.came > 9 and sum(found.lost.values()) == found.sent - found.came
    assert path - CLOSE <= seen[0] <= path and 1452 - CLOSE <= seen[1] <= 1452


def test_runs_with_such_an_overlay_are_drawn():
    seeds = [seed for seed in range(60) if six.is_overlay_drawn(seed)]
    assert 8 < len(seeds) < 25
    for seed in seeds[:6]:
        found = simulate_pair(seed)
        assert not found.failure, found
        assert found.settings["overlay_six"]
