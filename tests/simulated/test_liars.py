"""Frames and datagrams that lie: they are refused and counted, by reason, and change nothing for others."""

import pytest
from liar_mistakes import OF_DATAGRAMS, ON_PORTS
from test_pair import MS, SENT, STARTS
from test_pair import SETTINGS as OF_PAIRS
from test_simulation import SETTINGS

from penstock_net.vswitch.simulation import forgery, lies
from penstock_net.vswitch.simulation.layout import USUAL
from penstock_net.vswitch.simulation.pair import SIDES, Pair
from penstock_net.vswitch.simulation.pair_run import ALL, simulate_pair
from penstock_net.vswitch.simulation.run import Step, simulate

SECRET = "000102030405060708090a0b0c0d0e0f"
STARTED = [Step(0, "start", name) for name in "abc"]
LIES = [kind for kind in lies.KINDS if kind not in ("runt", "ARP", "ARP, cut short")]
MALFORMED = ("cut short", "header too long", "header too short", "too long for it", "less than a header")
REASONS = {
    **dict.fromkeys(MALFORMED, ("malformed", "device_malformed")),
    "of nobody": ("spoofed", "spoofed"),
    "of its receiver": ("spoofed", "spoofed"),
    "to nobody": ("no_route", "no_route"),
    "IPv6 to nobody": ("no_route", "no_route"),
    "to the link": ("no_route", "multicast"),
    "to all": ("no_route", "multicast"),
    "noise": ("no_route", "not_carried"),
}
COUNTERS = {
    "short": "truncated",
    "version": "other_version",
    "super-frames": "other_super_frames",
    "session": "other_session",
    **dict.fromkeys(("number", "acknowledgement", "window", "tag", "content", "longer"), "forged"),
}


def test_each_frame_that_lies_is_refused_by_reason_or_passes_as_it_is():
    """From an application and from a TAP, while both send frames to others."""
    steps = [*STARTED, *(Step(i * MS, "send", name, ("u", 3, 200)) for i in range(3, 30, 3) for name in "at")]
    told = [Step((3 + i) * MS, "lie", name, (kind, "b", i)) for i, kind in enumerate(LIES) for name in "at"]
    found = simulate(1, steps=sorted([*steps, *told], key=lambda step: step.at), settings={**SETTINGS, "edge": True})
    assert not found.failure, found
    wanted = sum(lies.KINDS[kind][0] == lies.REFUSED for kind in LIES)
    assert found.sent - found.came == sum(found.lost.values()) == 2 * wanted
    assert set(found.lost) == {"malformed", "device_malformed", "no_route", "spoofed", "multicast", "not_carried"}


@pytest.mark.parametrize("kind", REASONS)
def test_the_reason_is_the_right_one(kind):
    told = [Step(5 * MS, "lie", name, (kind, "b", 1)) for name in "at"]
    found = simulate(1, steps=[*STARTED, *told], settings=SETTINGS)
    assert not found.failure, found
    assert found.lost == ({reason: 1 for reason in REASONS[kind]} if len(set(REASONS[kind])) == 2 else {REASONS[kind][0]: 2})


@pytest.mark.parametrize("secret", ["", SECRET], ids=["open", "secret"])
def test_forged_datagrams_are_refused_by_reason_and_lose_nothing(secret):
    with Pair(1, {**OF_PAIRS, "secret": secret}) as pair:
        pair.world.wait(pair.world.now + 300 * MS)
        before = pair.overlay("near")
        kinds = [kind for kind in COUNTERS if secret or kind not in forgery.OF_SECRETS]
        for i, kind in enumerate(kinds):
            forgery.forge(pair, "near", kind, i)
            forgery.forge(pair, "near", "stranger", i)
            pair.world.wait(pair.world.now + 20 * MS)
        after = pair.overlay("near")
        assert pair.forger.taken["near"] == 2 * len(kinds)
        assert after["refused"] - before["refused"] == len(kinds)
        for name in set(COUNTERS.values()):
            assert after["overlay"][name] - before["overlay"][name] == sum(COUNTERS[kind] == name for kind in kinds), name
        assert after["overlay"]["sessions"] == before["overlay"]["sessions"] == 1 and pair.is_connected()
        pair.forger.check()


@pytest.mark.parametrize("seed", [1, 2])
def test_all_frames_come_while_somebody_forges(seed):
    """Copies, greetings and what is changed of datagrams that are on their way."""
    kinds = (*forgery.WHOLE, *forgery.FIELDS, *forgery.OF_SECRETS)
    forged = [Step((4 + i % 30) * MS, "forge", side, (kind, i)) for i, kind in enumerate(3 * kinds) for side in SIDES]
    steps = sorted([*STARTS, *SENT, *forged], key=lambda step: step.at)
    found = simulate_pair(seed, steps=steps, settings={**OF_PAIRS, "secret": SECRET})
    assert not found.failure, found
    assert found.sent == found.came > 240


@pytest.mark.parametrize("seed", [0, 4], ids=["none", "a group"])
def test_a_group_has_no_address_that_a_port_sends_to(seed):
    """A frame that says to come from a group's Ethernet address had all frames to its port sent to that, until the next one."""
    steps = [Step(3 * MS, "send", "p", ("a", 2, 60)), Step(5 * MS, "lie", "p", ("of a group's Ethernet address", "a", seed))]
    steps += [Step(10 * MS, "send", "a", ("p", 3, 60)), Step(20 * MS, "send", "c", ("p", 3, 60))]
    found = simulate_pair(1, steps=[*STARTS, *steps], settings=OF_PAIRS)
    assert not found.failure, found
    assert found.sent == found.came


def test_what_is_of_arp_is_no_frame_where_nobody_listens():
    """The program at a cable sends on when the switch was killed: what counts as no frame that was sent was counted there."""
    told = [Step((25 + i) * MS, "lie", "p", (kind, "a", i)) for i, kind in enumerate(("ARP", "to nobody", "ARP, cut short"))]
    steps = [*STARTS, Step(20 * MS, "crash", "near"), *told, Step(60 * MS, "come back", "near")]
    found = simulate_pair(1, steps=steps, settings=OF_PAIRS)
    assert not found.failure, found
    assert found.lost == {"at interfaces without a socket": 1}


def test_some_runs_have_them():
    for drawn in (
        [bool(lies.draw_steps(seed, 100 * MS, USUAL.base)) for seed in range(1000)],
        [bool(forgery.draw_steps(seed, 100 * MS, SIDES)) for seed in range(1000)],
    ):
        assert 0.1 < sum(drawn) / 1000 < 0.2


# ---- Mistakes that are put back ----


@pytest.mark.parametrize("name", ON_PORTS)
def test_a_mistake_about_frames_is_found(name):
    for seed in range(100):
        if lies.draw_steps(seed, 100 * MS, USUAL.base):
            with ON_PORTS[name]():
                found = simulate(seed)
            if found.failure:
                break
    assert found.failure
    assert not simulate(found.seed).failure


@pytest.mark.parametrize("name", OF_DATAGRAMS)
def test_a_mistake_about_datagrams_is_found(name):
    for seed in range(200):
        if forgery.draw_steps(seed, 100 * MS, SIDES):
            with OF_DATAGRAMS[name]():
                found = simulate_pair(seed)
            if found.failure:
                break
    assert found.failure
    assert not simulate_pair(found.seed).failure


def test_lies_are_drawn_for_all_ports_of_two_switches():
    drawn = {step.to for seed in range(200) for step in lies.draw_steps(seed, 100 * MS, ALL)}
    assert drawn == set(ALL)
