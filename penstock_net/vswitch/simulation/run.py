"""A run of the switch under a seed: steps, the laws after each, quiet in the end, and what is left then.

found = simulate(7)
found.failure            # "" if all laws have held
shorten(found)           # fewer steps that break a law
"""

import contextlib
import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock_net.units import parse_time
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.daemon.condition import UP
from penstock_net.vswitch.simulation import (
    bursts,
    cables,
    edges,
    guests,
    lies,
    moments,
    namespaces,
    restarts,
    shown,
    six,
    standing,
    upgrades,
)
from penstock_net.vswitch.simulation import steps as known
from penstock_net.vswitch.simulation.laws import BOUND_NS, MS, Broken
from penstock_net.vswitch.simulation.layout import USUAL, layout_of
from penstock_net.vswitch.simulation.machine import SETTLE_NS, Machine, PortRow
from penstock_net.vswitch.simulation.steps import Step
from penstock_net.vswitch.simulation.trace import Trace
from penstock_net.vswitch.world.calls import table

PROBES = 3  # frames of each pair of ports in the end


@dataclass(frozen=True)
class Found:
    """What a run was like."""

    seed: int
    settings: dict[str, Any]
    steps: list[Step]
    digest: str  # of all that happened: the same for the same seed, settings and steps
    simulated_ns: int
    sent: int  # frames
    came: int
    questions: int  # after which others could run: a count of the work that a run is
    lost: dict[str, int] = field(default_factory=dict)  # frames that have not come, by what counts them
    failure: str = ""  # the law that did not hold
    ports: list[PortRow] = field(default_factory=list)
    stand_ins: list[str] = field(default_factory=list)  # what was simulated otherwise than it was given

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.failure or 'all laws have held'}"]
        if self.failure:
            said = ", ".join(f"{key} = {value}" for key, value in self.settings.items())
            lines += [f"  settings: {said}", *(f"  {step}" for step in self.steps)]
        return "\n".join(lines)


@contextlib.contextmanager
def own_garbage() -> Iterator[None]:
    """Collections look at what a run makes meanwhile, and at nothing else: each run has some."""
    gc.freeze()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()


@own_garbage()
def simulate(
    seed: int,
    duration: str | int = "100ms",
    *,
    steps: Sequence[Step] | None = None,
    settings: dict[str, Any] | None = None,
    content: Mapping[str, Any] | None = None,
    trace: str | Path | None = None,
    pcap: str | Path | None = None,
) -> Found:
    """Run the whole switch in a simulated world.

    seed      what is drawn: the steps and their times, the order in which threads run, addresses
    duration  simulated time in which steps are drawn; a run goes on until all is quiet
    steps, settings  these instead of those that are drawn
    content   an operator's SPEC.toml, whose ports and settings are tried; None: usual ones, and settings that are drawn
    trace     a file for the last events: questions to the world and their answers, steps, frames
    pcap      a file for the last frames, as pcapng
    """
    draw = random.Random(f"steps of {seed}")
    drawn = known.draw_settings(draw)
    layout = USUAL if content is None else layout_of(content)
    if six.is_drawn(seed):
        drawn["six"] = True
    chosen = (drawn if layout.settings is None else layout.settings) if settings is None else settings
    until = parse_time(duration, "duration") // 1000
    if content is None and (chosen.get("guests") or (settings is None and guests.is_drawn(seed))):
        chosen, layout = {**chosen, "guests": True}, guests.with_guests(layout)
    if chosen.get("six") and content is None:
        layout = six.with_six(layout)
    plan = list(steps or ())
    if steps is None:
        more = [*upgrades.draw_steps(seed, until, layout), *restarts.draw_steps(seed, until, layout)]
        more += [*lies.draw_steps(seed, until, layout.base), *moments.draw_steps(seed, until, layout)]
        more += guests.draw_steps(seed, until, layout)
        more += [*standing.draw_steps(seed, until), *bursts.draw_steps(seed, until, layout.base)]
        if six.has_six(layout):
            more += six.draw_steps(seed, until, layout.base, known.SIZES)
        plan = sorted([*known.draw_steps(draw, until, layout, chosen), *more], key=lambda step: step.at)
    machine, failure, counts = Machine(seed, chosen, layout), "", dict[str, int]()
    begin = machine.world.now
    told = Trace(machine.world, machine.record, begin) if trace or pcap else None
    with machine:
        try:
            counts = _run(machine, plan)
        except Broken as error:
            failure = str(error)
        except Exception as error:  # of the switch, in one of its threads, or in the calls that ask it
            failure = f"{type(error).__name__}: {error}"
    record = machine.record
    record.note("end", sorted(counts.items()), failure)
    if told and trace:
        told.write_text(trace, failure)
    if told and pcap:
        told.write_pcap(pcap)
    passed, digest = machine.world.now - begin, record.events.hexdigest()
    return Found(
        seed,
        chosen,
        plan,
        digest,
        passed,
        record.sent,
        record.came,
        machine.world.tasks.waits,
        counts,
        failure,
        machine.rows,
        layout.stand_ins,
    )


def shorten(found: Found, most: int = 200, again: Callable[..., Found] = simulate) -> Found:
    """A run with fewer steps that breaks a law, perhaps another one, by delta debugging in at most so many runs.

    again  what was run: it takes the seed, `steps` and `settings`
    """
    best, size, runs = found, max(1, len(found.steps) // 2), 0
    while size and runs < most:
        at = 0
        while at < len(best.steps) and runs < most:
            fewer = best.steps[:at] + best.steps[at + size :]
            tried = again(found.seed, steps=fewer, settings=found.settings)
            runs += 1
            if tried.failure:
                best = tried
            else:
                at += size
        size //= 2
    return best


# ---- A run ----


def _run(machine: Machine, plan: Sequence[Step]) -> dict[str, int]:
    """Broken: a law did not hold.  Frames that have not come, by what counts them."""
    world, record = machine.world, machine.record
    before = machine.inventory()
    begin = world.now
    for step in plan:
        _pass(machine, begin + machine.stood_ns + step.at)
        record.note(*step)
        known.do(machine, step)
        _check(machine, step.what != "send")
    made_good(machine)
    shown.check_quiet(machine)
    _probe(machine)
    counts = machine.counted()
    record.account(counts)
    machine.look_at_ports()
    left(machine, before)
    if machine.restart:
        restarts.start_again(machine, before)
    end(machine)
    return {reason: number for reason, number in counts.items() if number}


def _check(machine: Machine, counters: bool = True) -> None:
    """Broken: a law does not hold.  All is counted from the begin, so counters need not be looked at each time."""
    table.check()
    machine.record.check()
    machine.places.check()
    edges.check(machine)
    if counters:
        if not standing.is_standing(machine):
            machine.check_counters()
        if machine.look_ns:
            machine.look_at_pauses()


def _pass(machine: Machine, until: int) -> None:
    """Let time pass; flows are looked at before they can be forgotten."""
    world = machine.world
    while machine.look_ns and world.now + machine.look_ns < until:
        world.wait(world.now + machine.look_ns)
        machine.look_at_pauses()
    world.wait(until)


def _until(machine: Machine, ns: int) -> None:
    """Let time pass, with the laws checked every 10 ms, those of counters where frames have moved since."""
    end, seen = machine.world.now + ns, -1
    while machine.world.now < end:
        machine.world.wait(machine.world.now + 10 * MS)
        moved = machine.record.moved()
        _check(machine, moved != seen)
        seen = moved


def _emptied(machine: Machine) -> None:
    """Let time pass until edges have no class any more, or as long as that may take."""
    end = machine.world.now + edges.EMPTY_NS
    while machine.edge and machine.world.now < end and not edges.are_empty(machine):
        _until(machine, BOUND_NS)


def made_good(machine: Machine) -> None:
    """Nothing is wrong any more: all ports of the specification are up, and all applications read."""
    machine.wait(standing.LONG_NS, lambda: not standing.is_standing(machine), "the switch stands still")
    machine.answered()
    namespaces.mend(machine)
    _until(machine, machine.places.settle_ns)
    machine.extra = []
    for name in machine.layout.extras:
        known.remove(machine, name)
    machine.answered()
    known.undo(machine, "")
    machine.answered()
    known.reload(machine, "", False)
    machine.answered()
    for name in machine.layout.base:
        if name not in machine.layout.apps:
            known.plug(machine, name)
            known.up(machine, name)
            cables.go(machine, name)
        elif name in machine.apps and machine.apps[name].half:
            machine.end_app(name, killed=True)
        known.read_again(machine, name)
        known.start(machine, name)
    guests.wait_for(machine)
    _until(machine, 2 * SETTLE_NS + BOUND_NS)
    _emptied(machine)
    for name in machine.layout.base:
        if wrong := machine.record.disturbed.get(machine.layout.number(name)):
            raise Broken(f"port {name} is not as it was {BOUND_NS // MS} ms after the last fault: {', '.join(wrong)}")


def _probe(machine: Machine) -> None:
    """Frames of each port to each other one arrive."""
    for name in machine.layout.base:
        for target in machine.layout.base:
            if target != name:
                known.send(machine, name, target, PROBES, 60)
    _until(machine, 3 * BOUND_NS)
    _emptied(machine)
    for app in machine.apps.values():
        if app.wanted:
            raise Broken(f"application {app.name} cannot send what it wants to: {len(app.wanted)} frames")


def left(machine: Machine, before: dict[str, int]) -> None:
    """What is there when all applications have ended is what was there before the first: descriptors, memory, addresses."""
    for name in machine.layout.apps:
        machine.end_app(name, killed=False)
    _until(machine, 3 * SETTLE_NS)
    states = machine.call(lambda switch: {row["port"]: row["state"] for row in switch.ports()})
    assert machine.daemon
    for name in machine.layout.ports:
        link = machine.link(name)
        if name not in machine.layout.base and (name in states or link):
            raise Broken(f"port {name} was removed, and is there")
        if name in machine.layout.cables and states.get(name) != UP:
            raise Broken(f"port {name} is {states.get(name)} when nothing is wrong with it")
        if name in machine.layout.base and name in machine.layout.taps:
            if states.get(name) != UP or link is None:
                raise Broken(f"port {name} is {states.get(name)} when nothing is wrong with it")
            wanted = {each.packed for each in devices.ip_addresses(machine.daemon.ports[name]["addresses"])}
            has = set(link.addresses)
            if has != wanted:
                raise Broken(f"port {name} has other addresses than its interface: {sorted(has ^ wanted)}")
    edges.check_left(machine, [name for name in machine.layout.base if name in machine.layout.taps])
    after = machine.inventory()
    if after != before:
        changed = {key: after.get(key, 0) - before.get(key, 0) for key in sorted({*after, *before})}
        raise Broken(f"the switch has other descriptors than before: { {key: n for key, n in changed.items() if n} }")


def end(machine: Machine) -> None:
    """The switch stops, and leaves nothing."""
    machine.ask({"down": True})
    machine.wait_for_end()
    machine.answered()
    machine.wait_for_threads(SETTLE_NS)
    owned = {key: n for key, n in machine.inventory().items() if n and key != "memory"}
    taps = [name for name in machine.layout.taps if machine.link(name)]
    paths = [path for path in (*machine.world.paths, *machine.world.files.texts) if path.startswith(machine.socket)]
    if owned or taps or paths:
        raise Broken(f"the switch has stopped, and left {owned}, interfaces {taps}, files {paths}")
