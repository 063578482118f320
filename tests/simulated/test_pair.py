"""Two whole switches in a simulated world, with an overlay between them over a network that a seed makes bad."""

import contextlib
from types import SimpleNamespace
from unittest import mock

import pytest

from penstock_net.vswitch.simulation import steps as known
from penstock_net.vswitch.simulation.laws import Broken
from penstock_net.vswitch.simulation.pair import SIDES, Pair
from penstock_net.vswitch.simulation.pair_run import no_memory, simulate_pair
from penstock_net.vswitch.simulation.run import shorten
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.support.balance import balance
from penstock_net.vswitch.world.simulated.kernel import Simulated

MS = 1_000_000
SETTINGS = {
    "mode": "backdraft",
    "flows": 2048,
    "th_goal": 4000,
    "th_over": 12_000,
    "th_net": 36_000,
    "idle": "100ms",
    "workers": 1,
    "delay_ns": 100_000,
    "secret": "",
}
STARTS = [Step(0, "start", name) for name in "abcd"]
GROWING = [Step(3 * MS, "send", "a", ("c", 1, 100 + 50 * i)) for i in range(20)]  # each longer: no runs of equal length
PAIRS = ("ac", "bu", "ta", "da", "ub", "ct", "pq", "qa", "cp")
SENT = [Step(5 * MS, "send", name, (target, 40, 1400)) for name, target in PAIRS]


def test_both_switches_have_ended_after_a_failure():
    """Only the near one was waited for."""
    with pytest.raises(ZeroDivisionError), Pair(1, SETTINGS) as pair:
        raise ZeroDivisionError
    assert [pair.machines[side].task.ended for side in SIDES] == [True, True]


@pytest.mark.parametrize("seed", range(12))
def test_laws_hold(seed):
    found = simulate_pair(seed)
    assert not found.failure, f"{found}\nfewer steps: penstock vswitch simulate --pair --seed {seed} --shorten"
    assert found.came > 200


def test_a_seed_is_the_same_bits():
    first = [simulate_pair(seed, "20ms").digest for seed in (5, 6, 5)]
    assert first[0] == first[2] != first[1]


def test_without_a_fault_all_frames_come():
    found = simulate_pair(1, steps=[*STARTS, *SENT], settings=SETTINGS)
    assert not found.failure, found
    assert found.sent == found.came > 240


@pytest.mark.parametrize(
    "steps",
    [
        [Step(4 * MS, "lossy", "near", (0.2, 0.1, 0.0, 0))],
        [Step(4 * MS, "lossy", "near", (0.0, 0.2, 0.2, 5 * MS))],
        [Step(4 * MS, "cut", "near"), Step(1400 * MS, "mend", "near"), Step(1500 * MS, "send", "a", ("d", 40, 700))],
        [Step(4 * MS, "narrow", side, (1000, told)) for side in SIDES for told in (True, False)],
        [Step(4 * MS, "uplink stops", "far"), Step(50 * MS, "mend", "far")],
        [Step(4 * MS, "no memory", "near"), Step(50 * MS, "mend", "near")],
        [Step(4 * MS, "uplink down", "near"), Step(50 * MS, "mend", "near")],
    ],
    ids=["loss", "out of order", "a new session", "narrower", "a full send buffer", "no memory", "down"],
)
def test_a_fault_of_the_network(steps):
    for seed in (1, 2):
        found = simulate_pair(seed, steps=sorted([*STARTS, *SENT, *steps], key=lambda step: step.at), settings=SETTINGS)
        assert not found.failure, found


def test_a_slow_receiver_pauses_only_its_senders_behind_the_other_switch():
    """Frames to others come in time, which is a law; those to it come when it reads again."""
    slow = [Step(2 * MS, "stop reading", "c"), Step(60 * MS, "read again", "c")]
    sent = [Step((4 + 5 * i) * MS, "send", "a", (to, 20, 1400)) for i in range(10) for to in "cdu"]
    found = simulate_pair(3, steps=sorted([*STARTS, *slow, *sent], key=lambda step: step.at), settings=SETTINGS)
    assert not found.failure, found
    assert found.sent == found.came


def test_datagrams_that_wait_in_an_overlay_are_no_parked_frames():
    """Of a switch that had sent nothing -11 frames had come out, and 11 were parked: its greetings."""
    with Pair(1, SETTINGS) as pair:
        no_memory(pair, "near")
        pair.world.wait(pair.world.now + 2000 * MS)
        found = pair.machines["near"].call(balance)
        assert pair.overlay("near")["copies_waiting_out"] > 0 == pair.overlay("near")["waiting_out"]
        assert (found["in"], found["out"], found["parked"]) == (0, 0, 0)


# ---- Ports on existing interfaces ----


def test_frames_that_wait_for_an_interface_are_parked():
    """The interface of a packet port is down: what its port holds for it was missing between two places that count."""
    steps = [
        *STARTS,
        Step(3 * MS, "down", "p"),
        Step(5 * MS, "send", "q", ("p", 10, 1400)),
        Step(12 * MS, "show", "near", ("balance",)),
    ]
    found = simulate_pair(10, steps=steps, settings=SETTINGS)
    assert not found.failure, found
    found = simulate_pair(10, steps=[*steps, Step(14 * MS, "up", "p")], settings=SETTINGS)
    assert not found.failure, found
    assert found.came == found.sent


def test_the_interface_of_a_port_is_deleted_and_made_again():
    steps = [Step(4 * MS, "delete", "p"), Step(40 * MS, "plug", "p"), Step(80 * MS, "send", "p", ("c", 10, 700))]
    steps = [*STARTS, *steps, Step(80 * MS, "send", "a", ("p", 10, 700)), Step(5 * MS, "send", "a", ("p", 5, 60))]
    found = simulate_pair(2, steps=sorted(steps, key=lambda step: step.at), settings=SETTINGS)
    assert not found.failure, found
    assert sum(found.lost.values()) == found.sent - found.came == 5


def test_frames_that_a_port_has_read_when_its_interface_is_deleted():
    """They were counted nowhere.  About one seed in ten has the port read in the moment before."""
    steps = [*STARTS, Step(5 * MS, "send", "q", ("d", 40, 60)), Step(5 * MS, "delete", "q")]
    for seed in range(100):
        found = simulate_pair(seed, steps=steps, settings=SETTINGS)
        assert not found.failure, found
        if "wire_lost" in found.lost:
            return
    raise AssertionError("no seed has frames that were read")


def test_an_interface_goes_down_just_after_it_came_up():
    steps = [
        Step(1 * MS, "down", "u"),
        Step(2 * MS, "up", "u"),
        Step(18 * MS, "down", "u"),
        Step(25 * MS, "send", "d", ("u", 10, 1400)),
    ]
    found = simulate_pair(344, steps=[*STARTS, *steps], settings=SETTINGS)
    assert not found.failure, found


def test_down_reports_what_a_port_holds_for_its_interface():
    """It was reported nowhere."""
    with Pair(1, SETTINGS) as pair:
        near = pair.machines["near"]
        known.down(near, "p")
        known.send(near, "t", "p", 10, 60)
        pair.world.wait(pair.world.now + 20 * MS)
        near.ask({"down": True})
        near.wait(2000 * MS, lambda: near.task.ended, "the switch does not stop")
        assert [(row["port"], row["reason"], row["frames"]) for row in near.daemon.losses] == [("p", "errors_out", 10)]


def test_what_a_port_has_read_when_it_is_detached_is_counted():
    def detach(switch):
        assert switch.drivers[switch.numbers["p"]].kernel.receive()  # with those that came together with it
        switch.detach_name("p")
        return switch.ledger.counts_of("p")["wire_lost"]

    with Pair(1, SETTINGS) as pair:
        near = pair.machines["near"]
        known.send(near, "p", "t", 10, 60)
        assert near.call(detach) == 9


@pytest.mark.parametrize("missed, holds", [(6, False), (7, True), (10, True), (11, False)])
def test_a_frame_that_was_too_long_has_a_number_that_the_other_end_misses(missed, holds):
    """As one that the network has lost; what was not sent otherwise may have had none."""
    overlay = {"sessions": 1, "too_old": 0, "lost_on_the_way": missed}
    row = {"overlay": overlay, "too_long": 2, "errors_out": 1, "messages_lost": 2}
    ends = dict.fromkeys(SIDES, SimpleNamespace(crashes=0))
    here = dict.fromkeys(SIDES, SimpleNamespace(host=b""))
    wire = SimpleNamespace(lost_from=lambda host: 5)
    pair = SimpleNamespace(machines=ends, overlay=lambda side: row, wire=wire, addresses=here)
    with contextlib.nullcontext() if holds else pytest.raises(Broken, match="misses"):
        Pair.check_reports(pair)


def test_a_probe_that_the_kernel_refuses_is_no_frame():
    """The path had just become narrower, and a probe was too long for it: the machine took it for a frame (seed 126)."""
    steps = [
        Step(0, "start", "c"),
        Step(57_062_000, "narrow", "far", (1460, False)),
        Step(66_661_000, "send", "c", ("t", 40, 1400)),
        Step(70_356_000, "narrow", "far", (1400, True)),
        Step(73_580_000, "no memory", "far"),
        Step(75_817_000, "send", "q", ("p", 2, 1400)),
        Step(84_529_000, "send", "u", ("b", 10, 700)),
    ]
    secret = "000102030405060708090a0b0c0d0e0f"
    found = simulate_pair(126, steps=steps, settings={**SETTINGS, "workers": 2, "delay_ns": 10_000, "secret": secret})
    assert not found.failure, found


# ---- Mistakes ----

SEND, RECEIVE = Simulated.sendmmsg, Simulated.recvmmsg
CONTENT_AT = 40


def forgets_the_last(self, fd, messages):
    """It says that it has taken all."""
    return len(messages) if len(messages) > 1 and SEND(self, fd, messages[:-1]) else SEND(self, fd, messages)


def turns_them_round(self, fd, messages):
    return SEND(self, fd, messages[::-1])


def turns_those_round(self, fd, rooms):
    came = RECEIVE(self, fd, rooms)
    return came if isinstance(came, int) else came[::-1]


def damages_content(self, fd, rooms):
    came = RECEIVE(self, fd, rooms)
    if isinstance(came, int):
        return came
    return [(data[:-1] + b"!" if len(data) > 400 + CONTENT_AT else data, *rest) for data, *rest in came]


@pytest.mark.parametrize(
    "name, wrong, said",
    [
        ("sendmmsg", forgets_the_last, "has not come in 25 ms"),
        ("sendmmsg", turns_them_round, "was sent after number"),
        ("recvmmsg", turns_those_round, "came after number"),
        ("recvmmsg", damages_content, "a frame that nobody sent"),
        ("path_mtu_now", lambda self, fd, peer: 1300, "bytes at most, and 1472 pass"),
    ],
    ids=["one is forgotten", "sent in another order", "received in another order", "damaged", "the path's MTU"],
)
def test_a_mistake_is_found(name, wrong, said):
    with mock.patch.object(Simulated, name, wrong):
        found = simulate_pair(1, steps=[*STARTS, *GROWING, *SENT], settings=SETTINGS)
    assert said in found.failure


def test_few_steps_are_left_of_a_failure():
    with mock.patch.object(Simulated, "recvmmsg", damages_content):
        found = simulate_pair(1, steps=[*STARTS, *GROWING, *SENT], settings=SETTINGS)
        few = shorten(found, most=30, again=simulate_pair)
    assert few.failure and len(few.steps) < len(found.steps) / 2
