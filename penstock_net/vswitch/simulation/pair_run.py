"""A run of two switches under a seed, with a network between them that loses, doubles, delays and reorders datagrams.

In some runs switches are upgraded, or killed and started again.

found = simulate_pair(7)
found.failure            # "" if all laws have held
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path as File
from typing import Any

from penstock_net.units import parse_time
from penstock_net.vswitch.simulation import bursts, cables, edges, forgery, lies, restarts, run, six, standing, upgrades
from penstock_net.vswitch.simulation import steps as known
from penstock_net.vswitch.simulation.laws import BOUND_NS, MS, Broken
from penstock_net.vswitch.simulation.machine import SETTLE_NS
from penstock_net.vswitch.simulation.pair import LINK, PORTS, RECOVER_NS, SIDES, Pair
from penstock_net.vswitch.simulation.run import PROBES, Found, own_garbage
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.simulation.trace import Trace
from penstock_net.vswitch.world.simulated.datagrams import LEAST_MTU, Path

SEARCH_NS = 8000 * MS  # after which the longest datagram is found, also if the path has become wider
CHANGED, KILLED = 0.2, 0.35  # of the runs have switches that are upgraded or killed; of these changes, so many are the latter
OF_EDGES = 0.08  # of the troubles, in runs that have edges
UNSENT = 0.3  # of the upgrades, with datagrams that wait in front of the socket
PATHS = (1460, 1400, 1300, 1230, 1000, 600)  # MTUs
ALL = tuple(name for side in SIDES for group in PORTS[side] for name in group)
APPS, TAPS, CABLES = (tuple(name for side in SIDES for name in PORTS[side][i]) for i in range(3))


# ---- Steps of the network ----


def lossy(pair: Pair, side: str, loss: float, doubles: float, late: float, more_ns: int) -> None:
    """Shares of the datagrams that are lost, come twice, or are late; and what all take more."""
    pair.disturb()
    pair.wire.loss, pair.wire.doubles, pair.wire.late, pair.wire.more_ns = loss, doubles, late, more_ns


def cut(pair: Pair, side: str) -> None:
    pair.disturb()
    pair.wire.is_cut = True


def narrow(pair: Pair, side: str, mtu: int, tells: bool) -> None:
    """The path from a side becomes narrower, or as wide as the interfaces are (0); who sends more is told, or not."""
    pair.disturb()
    here, there = (pair.addresses[each].host for each in (side, pair.other(side)))
    if mtu:
        pair.world.network.paths[here, there] = Path(max(mtu, LEAST_MTU[len(here)]), tells)
    else:
        pair.world.network.paths.pop((here, there), None)
    pair.is_searched = True


def uplink_down(pair: Pair, side: str) -> None:
    pair.disturb()
    pair.uplinks[side].set_up(False)


def uplink_stops(pair: Pair, side: str) -> None:
    """Its queue stands still: datagrams wait in front of it, until the socket's buffer is full."""
    pair.disturb()
    pair.world.network.stop(pair.uplinks[side])


def no_memory(pair: Pair, side: str) -> None:
    """The kernel has none for what is to be sent."""
    pair.disturb()
    pair.world.network.exhausted.add(pair.machines[side].home)


def mend(pair: Pair, side: str) -> None:
    pair.mend()


# ---- Steps of a switch ----


def upgrade(pair: Pair, side: str, said: str = "", how: str = "") -> None:
    """As upgrades.upgrade; a switch that stands still for long has no session with the other one after that."""
    if pair.machines[side].is_down:
        return
    if how == upgrades.LATE:
        pair.disturb()
    upgrades.upgrade(pair.machines[side], "", said, how)
    if how == upgrades.LATE:
        pair.calm()


def crash(pair: Pair, side: str) -> None:
    """The process of a switch is killed."""
    pair.disturb()
    restarts.crash(pair.machines[side])


def come_back(pair: Pair, side: str) -> None:
    """It is started again, with its interfaces up, without which it does not start; and so are its applications."""
    apps, _, cables = PORTS[side]
    if pair.machines[side].is_down:
        pair.bring_up(side, pair.uplinks[side])
        for name in cables:
            known.plug(pair.machines[side], name)
            known.up(pair.machines[side], name)
    restarts.come_back(pair.machines[side])
    for name in apps:
        known.start(pair.machines[side], name)
    pair.calm()


def stand_still(pair: Pair, side: str, ns: int) -> None:
    """As standing.stand_still; its session may end meanwhile."""
    machine = pair.machines[side]
    if machine.is_down or machine.is_upgrading or standing.is_standing(machine):
        return
    pair.disturb()
    standing.stand_still(machine, "", ns)
    pair.world.at(pair.world.now + ns, pair.calm)


def clock_jumps(pair: Pair, side: str, ns: int) -> None:
    """As standing.clock_jumps, of both machines and the network."""
    if any(machine.is_upgrading for machine in pair.machines.values()):
        return
    pair.disturb()
    standing.clock_jumps(pair.machines["near"], "", ns)
    pair.calm()


DO: dict[str, Callable[..., None]] = {
    "lossy": lossy,
    "cut": cut,
    "narrow": narrow,
    "uplink down": uplink_down,
    "uplink stops": uplink_stops,
    "no memory": no_memory,
    "mend": mend,
    **forgery.DO,
    "upgrade": upgrade,
    "crash": crash,
    "come back": come_back,
    "stand still": stand_still,
    "clock jumps": clock_jumps,
}


def do(pair: Pair, step: Step) -> None:
    if step.what in DO:
        DO[step.what](pair, step.to, *step.numbers)
    else:
        known.DO[step.what](pair.machine(step.to), step.to, *step.numbers)


# ---- Drawing ----


def draw_settings(draw: random.Random) -> dict[str, Any]:
    """Those of [switch] of both, which have the same; and of the network."""
    found = {key: value for key, value in known.draw_settings(draw).items() if key != "netns"}
    return {
        **found,
        "delay_ns": draw.choice((10_000, 100_000, 500_000)),
        "secret": draw.choice(("", "000102030405060708090a0b0c0d0e0f")),
    }


def draw_steps(draw: random.Random, until: int, edge: bool) -> list[Step]:
    """Steps up to a time, in their order."""
    at, found, troubles = 0, [Step(0, "start", name) for name in APPS], draw.choice((0.1, 0.3, 0.6))
    while at < until:
        at += draw.randrange(1, 4 * MS)
        for _ in range(draw.randrange(4)):
            name = draw.choice(ALL)
            target = draw.choice([each for each in ALL if each != name])
            found.append(Step(at, "send", name, (target, draw.choice((1, 2, 10, 40)), draw.choice(known.SIZES))))
        if draw.random() < troubles:
            found += draw.choice(_troubles(draw, at, edge))
    return sorted(found, key=lambda step: step.at)


def draw_changes(seed: int, until: int) -> list[Step]:
    """Upgrades of the switches, and switches that are killed, from a generator of their own."""
    draw = random.Random(f"upgrades of two, {seed}")
    found = []
    for _ in range(draw.choice((1, 2, 2, 3)) if draw.random() < CHANGED else 0):
        at, side = draw.randrange(max(1, until)), draw.choice(SIDES)
        if draw.random() < KILLED:
            found += [Step(at, "crash", side), Step(at + draw.randrange(80 * MS), "come back", side)]
        else:
            found.append(Step(at, "upgrade", side, upgrades.draw_spoil(draw)))
            found += _unsent(draw, at, side) if draw.random() < UNSENT else []
        for _ in range(draw.randrange(8)):
            name, target = draw.sample(ALL, 2)
            numbers = target, draw.choice((1, 10, 40)), draw.choice(known.SIZES)
            found.append(Step(at + draw.randrange(60 * MS), "send", name, numbers))
    return found


def _unsent(draw: random.Random, at: int, side: str) -> list[Step]:
    """What a side sends to the other one waits in front of its socket until a new process has begun, whatever else is mended."""
    name, target = (draw.choice(PORTS[each][0]) for each in (side, SIDES[1 - SIDES.index(side)]))
    found = [Step(at + draw.randrange(45 * MS, 80 * MS), "mend", side)]
    for i in range(10):
        found += [Step(at + i * 4 * MS, "no memory", side), Step(at + i * 4 * MS + MS, "send", name, (target, 4, 700))]
    return found


def _troubles(draw: random.Random, at: int, edge: bool) -> list[list[Step]]:
    """Something is done, and often undone after a while."""
    app, tap, side, cable = draw.choice(APPS), draw.choice(TAPS), draw.choice(SIDES), draw.choice(CABLES)
    later = at + draw.choice((draw.randrange(2 * MS), draw.randrange(60 * MS)))
    shares = (draw.choice((0.0, 0.02, 0.3)), draw.choice((0.0, 0.1)), draw.choice((0.0, 0.05)), draw.choice((0, 5 * MS)))
    network = [
        [Step(at, "lossy", side, shares), Step(later, "mend", side)],
        [Step(at, "lossy", side, shares), Step(later, "mend", side)],
        [Step(at, "cut", side), Step(later, "mend", side)],
        [Step(at, "narrow", side, (draw.choice(PATHS), draw.random() < 0.5))],
        [Step(at, "narrow", side, (draw.choice(PATHS), False)), Step(later, "narrow", side, (0, False))],
        [Step(at, "uplink down", side), Step(later, "mend", side)],
        [Step(at, "uplink stops", side), Step(later, "mend", side)],
        [Step(at, "no memory", side), Step(later, "mend", side)],
    ]
    ports = [
        [Step(at, "stop reading", app), Step(later, "read again", app)],
        [Step(at, "read slowly", app, (draw.randrange(1, 5), draw.randrange(100_000, 4 * MS))), Step(later, "read again", app)],
        [Step(at, "kill", app), Step(later, "start", app)],
        [Step(at, "half", app), Step(later, "kill", app), Step(later + MS, "start", app)],
        [Step(at, "end", app), Step(later, "start", app)],
        [Step(at, "down", tap), Step(later, "up", tap)],
        [Step(at, "delete", tap), Step(later, "reload", side, (False,))],
        [Step(at, "new mac", tap)],
        [Step(at, "down", cable), Step(later, "up", cable)],
        [Step(at, "delete", cable), Step(later, "plug", cable)],
        [Step(at, "delete", cable), Step(later, "plug", cable), Step(later + draw.randrange(SETTLE_NS), "down", cable)],
        [Step(at, "set", side, ("mode", draw.choice(("backdraft", "dpfq"))))],
        [Step(at, "show", side, (draw.choice(known.SHOWN),))],
    ]
    if edge and draw.random() < OF_EDGES:
        return [*edges.troubles(draw, at, edge, TAPS, APPS, TAPS), _held_by_the_overlay(draw, at)]
    return network if draw.random() < 0.5 else ports


def _held_by_the_overlay(draw: random.Random, at: int) -> list[Step]:
    """So much for the other side that it waits in front of the overlay, and gets a class of an edge."""
    side, later = draw.choice(SIDES), at + draw.randrange(10 * MS, 60 * MS)
    (tap,), app = PORTS[side][1], draw.choice(PORTS[SIDES[1 - SIDES.index(side)]][0])
    sent = [Step(at + i * MS, "send", tap, (app, 40, 1400)) for i in range(1, draw.randrange(7, 11))]
    if draw.random() < 0.5:
        return [Step(at, "read slowly", app, (1, 4 * MS)), *sent, Step(later, "read again", app)]
    return [Step(at, "uplink stops", side), *sent, Step(later, "mend", side)]


# ---- A run ----


@own_garbage()
def simulate_pair(
    seed: int,
    duration: str | int = "100ms",
    *,
    steps: Sequence[Step] | None = None,
    settings: dict[str, Any] | None = None,
    trace: str | File | None = None,
    pcap: str | File | None = None,
) -> Found:
    """Run two switches in a simulated world, as `run.simulate` does one."""
    draw = random.Random(f"steps of {seed}")
    drawn = draw_settings(draw)
    if six.is_drawn(seed):
        drawn["six"] = True
    if six.is_overlay_drawn(seed):
        drawn["overlay_six"] = True
    chosen = drawn if settings is None else settings
    until, plan = parse_time(duration, "duration") // 1000, list(steps or ())
    if steps is None:
        more = [*lies.draw_steps(seed, until, ALL), *forgery.draw_steps(seed, until, SIDES)]
        more += standing.draw_steps(seed, until, SIDES, standing.LONG_NS // 4)
        more += bursts.draw_steps(seed, until, ALL)
        more += cables.draw_steps(seed, until, CABLES, ALL)
        if chosen.get("six"):
            more += six.draw_steps(seed, until, ALL, known.SIZES)
        plan = sorted(
            [*draw_steps(draw, until, bool(chosen.get("edge"))), *draw_changes(seed, until), *more], key=lambda step: step.at
        )
    pair, failure, counts = Pair(seed, chosen), "", dict[str, int]()
    begin = pair.world.now
    told = Trace(pair.world, pair.record, begin) if trace or pcap else None
    with pair:
        try:
            counts = _run(pair, plan)
        except Broken as error:
            failure = str(error)
        except Exception as error:  # of a switch, in one of its threads, or in the calls that ask it
            failure = f"{type(error).__name__}: {error}"
    record = pair.record
    record.note("end", sorted(counts.items()), failure)
    if told and trace:
        told.write_text(trace, failure)
    if told and pcap:
        told.write_pcap(pcap)
    passed, digest, waits = pair.world.now - begin, record.events.hexdigest(), pair.world.tasks.waits
    return Found(seed, chosen, plan, digest, passed, record.sent, record.came, waits, counts, failure)


def _connect(pair: Pair) -> None:
    """Broken: the two have no session."""
    end = pair.world.now + RECOVER_NS
    while not pair.is_connected():
        if pair.world.now > end:
            raise Broken(f"the two have no session in {RECOVER_NS // MS} ms")
        pair.world.wait(pair.world.now + SETTLE_NS)
    pair.record.calm(pair.record.names.index(LINK), "no session")
    pair.pass_time(SETTLE_NS)


def _show_path(pair: Pair) -> None:
    """Long frames show that the path is narrower, and time that it is wider."""
    if pair.is_searched:
        for side, other in (SIDES, SIDES[::-1]):
            known.send(pair.machines[side], PORTS[side][0][0], PORTS[other][0][0], PROBES, max(known.SIZES))
        pair.pass_time(SEARCH_NS)
        pair.is_searched = False
    pair.calm()


def _run(pair: Pair, plan: Sequence[Step]) -> dict[str, int]:
    """Broken: a law did not hold.  Frames that have not come, by what counts them."""
    before = {side: machine.inventory() for side, machine in pair.machines.items()}
    _connect(pair)
    begin = pair.world.now
    for step in plan:
        pair.pass_time(begin + pair.stood_ns + step.at - pair.world.now, step.what != "send")
        pair.record.note(*step)
        do(pair, step)
    for side in SIDES:
        come_back(pair, side)
    pair.mend()
    pair.each(run.made_good)
    _show_path(pair)
    pair.pass_time(RECOVER_NS + 2 * SETTLE_NS)
    for name in [*ALL, LINK]:
        if wrong := pair.record.disturbed.get(pair.record.names.index(name)):
            raise Broken(f"{name} is not as it was after the last fault: {', '.join(wrong)}")
    for name in ALL:
        for target in ALL:
            if target != name:
                known.send(pair.machine(name), name, target, PROBES, 60)
    pair.pass_time(3 * BOUND_NS)
    pair.check_path()
    pair.check_reports()
    pair.forger.check()
    counts = pair.account()
    for side, machine in pair.machines.items():
        run.left(machine, before[side])
    pair.each(run.end)
    return {reason: number for reason, number in counts.items() if number}
