"""The whole switch in a simulated world: laws on drawn schedules, faults that were found so, and mistakes that must be found."""

import errno
import itertools
import os
import random
import struct
import subprocess
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import pytest
import typer
from mistakes import MISTAKES

from penstock_net.cli.vswitch_simulate import simulate as command
from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach.devices import Plan
from penstock_net.vswitch.daemon.condition import GONE
from penstock_net.vswitch.daemon.events import Events
from penstock_net.vswitch.daemon.keeper import Keeper
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.simulation import many, run, trace
from penstock_net.vswitch.simulation.run import Found, Step, shorten, simulate
from penstock_net.vswitch.simulation.steps import draw_steps

MS = 1_000_000
SETTINGS = {
    "mode": "backdraft",
    "flows": 2048,
    "th_goal": 4000,
    "th_over": 12_000,
    "th_net": 36_000,
    "idle": "100ms",
    "workers": 1,
}


@pytest.mark.parametrize("seed", [*range(24), 71, 112])  # the last two with faults that few schedules show
def test_laws_hold(seed):
    found = simulate(seed)
    assert not found.failure, f"{found}\nfewer steps: penstock vswitch simulate --seed {seed} --shorten"
    assert found.came > 200


def test_a_seed_is_the_same_bits():
    """Also in another process, in which sets of texts have another order."""
    first = [simulate(seed, "30ms").digest for seed in (5, 6, 5)]
    assert first[0] == first[2] != first[1]
    program = "from penstock_net.vswitch.simulation.run import simulate; print(simulate(5, '30ms').digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.strip() == first[0]


@pytest.mark.real_time
def test_many_seeds_are_run_by_several_processes(monkeypatch):
    """They come in their order, and each is what it is alone."""
    monkeypatch.setattr(many, "WORTH", 1)
    monkeypatch.setattr(many, "AT_ONCE", 2)
    monkeypatch.setattr(many, "KEPT", 3)
    seeds = range(40, 45)
    alone = [simulate(seed, "1ms").digest for seed in seeds]
    for workers in (1, 2):
        assert [found.digest for found in many.run_many(seeds, "1ms", workers=workers)] == alone


def test_a_process_that_was_killed_is_an_error(monkeypatch):
    """It was a traceback; what was known before it is given, in the order of the seeds."""

    def killed(function, calls, workers):
        futures = {key: Future() for key, _ in calls}
        for key, (part, *_) in calls:
            if key < 2:
                futures[key].set_result([Found(seed, {}, [], "", 0, 0, 0, 0) for seed in part])
            else:
                futures[key].set_exception(BrokenProcessPool())
        yield from ((key, futures[key]) for key in (3, 1, 2, 0))

    monkeypatch.setattr(many, "each", killed)
    known = many.run_many(range(10, 110), "1ms", workers=2)
    assert [found.seed for found in itertools.islice(known, 16)] == [*range(10, 26)]
    with pytest.raises(PenstockError, match=r"of seed 26 or a later one.*--seed 26 --workers 1"):
        next(known)


def test_other_seeds_are_given_up_before_a_failure_is_shortened(monkeypatch):
    """Their processes went on for as long."""
    done = []

    def seeds(*_, workers):
        try:
            yield Found(0, {}, [], "", 0, 0, 0, 0, failure="a law")
        finally:
            done.append("given up")

    def shortened(found, again):
        done.append("shortened")
        return found

    monkeypatch.setattr(many, "run_many", seeds)
    monkeypatch.setattr(run, "shorten", shortened)
    with pytest.raises(typer.Exit):
        command(count=100, shorten=True)
    assert done == ["given up", "shortened"]


def test_seeds_after_one_that_breaks_a_law_are_not_run():
    with MISTAKES["an eventfd of each application stays open"]():
        assert [found.seed for found in many.run_seeds(range(5), "1ms")] == [0]


def test_a_process_ends_in_silence():
    """The C library of the last world was kept, and so its memory, which closed what was closed already when Python ended."""
    program = "from penstock_net.vswitch.simulation.run import simulate; simulate(1, '10ms')"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == said.stderr == ""


def test_time_in_which_nothing_happens_costs_little():
    """Nobody wakes up without work: what more there is to do in ten seconds more."""
    starts = [Step(0, "start", name) for name in "abc"]
    short, long = (
        simulate(1, steps=[*starts, Step(seconds * 1000 * MS, "show", "", ("ports",))], settings=SETTINGS) for seconds in (1, 11)
    )
    assert not short.failure and not long.failure
    assert long.simulated_ns > short.simulated_ns + 9_000 * MS
    assert long.questions - short.questions < 10 * 25


def test_steps_do_not_grow_with_the_length_of_a_run():
    numbers = [[len(draw_steps(random.Random(i), seconds * 1000 * MS)) for i in range(20)] for seconds in (1, 3600)]
    assert sum(numbers[1]) < 2 * sum(numbers[0])


# ---- What led to a failure ----


def test_a_trace_and_a_pcap_change_nothing(tmp_path):
    plain = simulate(5, "30ms")
    told = simulate(5, "30ms", trace=tmp_path / "trace", pcap=tmp_path / "pcap")
    assert (told.digest, told.questions) == (plain.digest, plain.questions)
    lines = (tmp_path / "trace").read_text().splitlines()
    assert lines[-1] == "# all laws have held"
    for said in ("sleep_on(", ".recv(", "eventfd_write(", "start a", "came"):
        assert any(said in line for line in lines), said
    blocks, data, at = [], (tmp_path / "pcap").read_bytes(), 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        blocks.append(kind)
        at += size
    assert at == len(data)
    assert blocks.count(1) == len(plain.ports) == 11
    assert plain.sent + plain.came <= blocks.count(6) <= 2 * plain.sent


def test_only_the_last_events_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "MOST_EVENTS", 50)
    with MISTAKES["an eventfd of each application stays open"]():
        found = simulate(0, "10ms", trace=tmp_path / "trace")
    lines = (tmp_path / "trace").read_text().splitlines()
    assert found.failure and len(lines) == 52
    assert found.failure in lines[-1]


def test_a_failure_says_how_to_see_what_led_to_it(capsys):
    with MISTAKES["an eventfd of each application stays open"](), pytest.raises(typer.Exit):
        command(seed=0, duration="10ms")
    assert "penstock vswitch simulate --seed 0 --for 10ms --trace FILE --pcap FILE" in capsys.readouterr().out


# ---- Faults that were found so: the seed, and the steps that were left of it ----


def test_the_memory_of_a_port_that_was_removed_is_freed_at_once():
    """The keeper's thread slept until the next change of an interface and still referred to the last device that it had seen."""
    found = simulate(3, steps=[Step(5 * MS, "add", "v")], settings=SETTINGS)
    assert not found.failure, found


def test_an_application_attaches_while_its_port_is_removed():
    """The thread of its connection ended with a KeyError."""
    times = {"add": 22_964_000, "start": 23_964_000, "end": 76_015_000}
    steps = [*(Step(at, what, "d") for what, at in times.items()), Step(76_034_000, "start", "d")]
    settings = {**SETTINGS, "th_goal": 13_333, "th_over": 40_000, "th_net": 120_000, "workers": 2}
    for seed in (29, 30):
        found = simulate(seed, steps=steps, settings=settings)
        assert not found.failure, found


def test_changes_are_shown_while_a_port_is_removed():
    """The port was in the specification and no longer in the switch: the thread of the request ended with a KeyError."""
    shows = [Step(23 * MS + i * 20_000, "show", "", ("changes",)) for i in range(20)]
    found = simulate(0, steps=[Step(MS, "add", "v"), Step(23 * MS, "remove", "v"), *shows], settings=SETTINGS)
    assert not found.failure, found


def test_the_table_of_mounts_is_watched_only_as_long_as_a_port_is_in_a_namespace():
    """Its descriptor stayed open when the only port in a namespace was removed."""
    found = simulate(1, steps=[Step(5 * MS, "add", "v")], settings={**SETTINGS, "netns": {"v": "left"}})
    assert not found.failure, found


def test_addresses_are_set_while_an_interface_is_made_again():
    """It had got those from before, and counted as one with the present ones: those from before stayed at it."""
    steps = [
        Step(5 * MS, "lose namespace", "left"),
        Step(10 * MS, "readdress", "t", (1,)),
    ]  # and in the end it is made, and `undo`
    for seed in (7, 8):
        found = simulate(seed, steps=steps, settings={**SETTINGS, "netns": {"t": "left"}})
        assert not found.failure, found


def test_an_interface_is_not_moved_back_to_another_process_of_the_same_number():
    """The machine did so itself, and said that the switch had made an interface there (seed 1073)."""
    steps = [Step(54 * MS, "add", "v"), Step(89 * MS, "move", "v"), Step(107 * MS, "lose namespace", "process one")]
    found = simulate(1073, steps=steps, settings={**SETTINGS, "netns": {"v": "process one"}})
    assert not found.failure, found


def test_an_interface_that_was_moved_back_is_asked_about_by_a_socket_again():
    """The socket was closed, since another interface may come back, and not opened again (seed 800204)."""
    settings = {**SETTINGS, "netns": {"t": "left", "v": "left"}}
    for more in ([], [Step(30 * MS, "move back", "t"), Step(60 * MS, "move", "t")]):
        found = simulate(800204, steps=[Step(0, "move", "t"), *more], settings=settings)
        assert not found.failure, found


def test_an_interface_that_was_moved_back_is_set_up_when_that_is_possible(monkeypatch):
    """It was tried once: the port was up then, and nothing passed.  Until then `show` said that it was still elsewhere."""
    set_up, tried, said = Plan.set_up, [], []
    say = Keeper._say
    monkeypatch.setattr(Keeper, "_say", lambda self, kept, *what: (said.append(what), say(self, kept, *what)))

    def refused(plan, *more):
        tried.append(plan)
        if len(tried) == 1:
            raise OSError(errno.ENOBUFS, "no room")
        set_up(plan, *more)

    monkeypatch.setattr(Plan, "set_up", refused)
    steps = [
        Step(0, "start", "a"),
        Step(MS, "move", "t"),
        Step(30 * MS, "move back", "t"),
        Step(2000 * MS, "send", "a", ("t", 1, 60)),
    ]
    found = simulate(1, steps=steps, settings={**SETTINGS, "netns": {"t": "left"}})
    assert not found.failure, found
    assert len(tried) > 1
    gone = [why for state, why in said if state == GONE]
    assert "was moved to another" in gone[0] and gone[-1].endswith("was moved back and cannot be set up yet: [Errno 105] no room")


def test_an_operator_asks_just_before_another_process_has_the_number():
    """The switch made the interface there upon the request, and the law said that nobody had agreed (seed 5000002)."""
    steps = [
        Step(57_746_493, "lose namespace", "process one"),
        Step(62_349_229, "reload", "", (False,)),
        Step(62_354_049, "make namespace", "process one"),
    ]
    settings = {**SETTINGS, "mode": "dpfq", "idle": "5ms", "netns": {"u": "process one"}, "edge": True}
    found = simulate(5000002, steps=steps, settings=settings)
    assert not found.failure, found


def test_an_application_is_half_before_it_is_attached():
    """The machine called it well when it was, and missed what it had never rung for (of two switches, seed 2393)."""
    steps = [Step(0, "start", "b"), Step(3 * MS, "start", "a"), Step(3 * MS, "half", "a")]
    steps += [Step(20 * MS, "send", "a", ("b", 5, 700)), Step(60 * MS, "show", "", ("ports",))]
    found = simulate(1, steps=steps, settings=SETTINGS)
    assert not found.failure, found


# ---- Edges ----


def test_an_edge_leaves_no_class():
    """A receiver does not read: the flow to it gets a class at its interface, and has none in the end."""
    sent = [Step((3 + i) * MS, "send", "t", ("a", 40, 1400)) for i in range(4)]
    steps = [Step(0, "start", "a"), Step(2 * MS, "stop reading", "a"), *sent, Step(40 * MS, "read again", "a")]
    settings = {**SETTINGS, "edge": True}
    found = simulate(3, steps=steps, settings=settings)
    assert not found.failure, found
    with MISTAKES["a class of an edge stays"]():
        assert "port t has classes" in simulate(3, steps=steps, settings=settings).failure


def test_a_port_is_said_to_be_up_when_its_edge_is_set(monkeypatch):
    """It was said before: what a program sent upon that was lost when HTB was set."""
    done = []
    guard, add = Daemon.guard, Events.add
    monkeypatch.setattr(Daemon, "guard", lambda daemon, opened: (guard(daemon, opened), done.extend(("edge", n) for n in opened)))
    monkeypatch.setattr(
        Events, "add", lambda events, what, name, *more: (add(events, what, name, *more), done.append((what, name)))
    )
    assert not simulate(0, steps=[], settings={**SETTINGS, "edge": True}).failure
    ports = {name for what, name in done if what == "edge"}
    assert ports and all(done.index(("edge", name)) < done.index(("port up", name)) for name in ports)


def test_a_port_that_is_up_has_the_edge_that_it_should_have(monkeypatch):
    """Only those that it had were looked at: a port without one was as good."""
    guard = Daemon.guard
    monkeypatch.setattr(Daemon, "guard", lambda daemon, opened: guard(daemon, {n: opened[n] for n in opened if n != "u"}))
    assert "port u is up, and has no edge" in simulate(0, steps=[], settings={**SETTINGS, "edge": True}).failure


def test_edges_have_the_limits_that_the_settings_say():
    """Those that had begun kept theirs after `set`; others, begun later or by another process, had the new ones."""
    steps = [
        Step(5 * MS, "set", "", ("th_goal", "1B")),
        Step(6 * MS, "remove", "u"),
        Step(7 * MS, "add", "u"),
        Step(9 * MS, "undo", ""),
        Step(12 * MS, "upgrade", ""),
    ]
    found = simulate(0, steps=steps, settings={**SETTINGS, "edge": True})
    assert not found.failure, found


def test_an_edge_does_not_hold_a_flow_whose_receiver_reads_all_that_comes():
    """The switch had never seen its queue shrink and knew no rate: it was held to 144 KB/s, here for 4 s."""
    sent = [Step((3 + i) * MS, "send", "t", ("a", 40, 1400)) for i in range(12)]
    steps = [Step(0, "start", "a"), Step(2 * MS, "stop reading", "a"), *sent, Step(40 * MS, "read again", "a")]
    steps.append(Step(50 * MS, "send", "t", ("a", 1, 1400)))
    found = simulate(3, steps=steps, settings={**SETTINGS, "edge": True})
    assert not found.failure, found


# ---- Mistakes that are put back ----


def first_found(name):
    for seed in range(30):
        with MISTAKES[name]():
            found = simulate(seed)
        if found.failure:
            return found
    raise AssertionError("it was not found")


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name):
    found = first_found(name)
    assert found.failure
    assert not simulate(found.seed).failure


def test_few_steps_are_left_of_a_failure():
    name = "`set` leaves old addresses"
    found = first_found(name)
    with MISTAKES[name]():
        few = shorten(found)
    assert few.failure
    assert [step.what for step in few.steps] in (["readdress"], ["readdress", "readdress"])
    assert "readdress" in str(few) and isinstance(few, Found)
