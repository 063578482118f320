"""Upgrades of the simulated switch: a new process takes over; or it ends, or answers late, and the old one goes on."""

import json
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch import world
from penstock_net.vswitch.attach.allowance import LAYOUT
from penstock_net.vswitch.attach.edge import Edge
from penstock_net.vswitch.daemon import operations, takeover
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.simulation import standing
from penstock_net.vswitch.simulation.laws import BOUND_NS, MS
from penstock_net.vswitch.simulation.layout import Layout
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.support.balance import balance

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

SAID = ("hello", "prepared", "built", "ready", "serving")  # messages of the new process, in their order
DIES, ENDS, LATE = "dies", "has said", "late"  # before it says it; when it has said it; it says it too late
LATE_S = 7.0  # beyond the time that an old process waits that has stopped
LONGEST_START_S = 0.03
DRAWN, FAILED = 0.1, 0.4  # of the runs have upgrades; of these, so many fail
NOT_UPGRADED, LOST = "not upgraded, the switch goes on as it was", "the new process took over and has ended"
STILL = "stands still"
# What goes on while nothing moves: times, and what threads do that have not begun in the new process.
PASSING = frozenset(
    (
        *("rounds", "rounds_with_work", "naps", "looks", "steps", "wakes", "waiting_ports"),
        *("left_ns", "time", "upgrades", "paused_ns", "rate_bytes_per_s"),
    )
)


class Gone(Exception):
    """The new process is to end here."""


class Taken(takeover.Taken):
    """What the new process takes, and what the old one used when it had stopped."""

    def __init__(self, old: Any, machine: "Machine") -> None:
        super().__init__(old)
        self.machine, self.before, self.since = machine, dict[tuple[str, str], Any](), 0

    def _receive(self) -> Any:
        received = super()._receive()
        if self.found:
            self.before, self.since = used_by(self.machine), self.machine.world.now
        return received


# ---- The new process ----


def take_over(machine: "Machine") -> None:
    """What the program does that an upgrade starts: as `penstock vswitch up`, but for what was drawn for it."""
    time, spoil = world.time, machine.spoil
    time.sleep(machine.upgrade_draw.random() * LONGEST_START_S)
    old = takeover.channel()
    assert old
    tell = old.sendall

    def say(data: bytes) -> None:
        said = next((name for name in SAID if data.startswith(b'{"%s"' % name.encode())), "")
        if said == "ready":
            check_untouched(machine, taken.before, taken.since)
        if spoil == (said, DIES):
            raise Gone
        if spoil == (said, LATE):
            time.sleep(LATE_S)
        tell(data)
        if spoil == (said, ENDS):
            raise Gone

    old.sendall = say  # type: ignore[method-assign,assignment]
    before, taken = machine.daemon, Taken(old, machine)
    assert before
    try:
        daemon = taken.build([machine.name])
        machine.record.note("taken over by", world.os.getpid())
        compare(machine, before, daemon)
        machine.goes_on(daemon)
        daemon.serve()
    except Gone:
        world.os._exit(1)
    except Exception as error:
        if _has_it(machine):
            raise
        machine.record.note("does not take over", type(error).__name__, str(error))
        world.os._exit(1)


def _has_it(machine: "Machine") -> bool:
    """Whether this process has the switch."""
    return bool(machine.pid == world.os.getpid())


# ---- Laws ----


def compare(machine: "Machine", old: Daemon, new: Daemon) -> None:
    """Whatever a switch says of itself is the same in the new process, before its workers begin; as clients receive it."""
    if old.switch.numbers != new.switch.numbers:
        machine.record.fail(f"after an upgrade the switch has the ports {new.switch.numbers}, before {old.switch.numbers}")
        raise Gone
    before, after = (_without(json.loads(json.dumps(state_of(daemon), default=repr))) for daemon in (old, new))
    for key in before:
        if before[key] != after[key]:
            machine.record.fail(f"after an upgrade {key} is not what it was: {difference(before[key], after[key])}")


def used_by(machine: "Machine") -> dict[tuple[str, str], Any]:
    """What a process that stands still goes on with, of its edges: by port the budgets of sockets, and classes with filters."""
    found: dict[tuple[str, str], Any] = {}
    for name, device in machine.daemon.devices.items() if machine.daemon else ():
        if device.table:
            words = device.table.words.copy()
            words[LAYOUT["LOOKED"]] = 0  # the new process may look, and then sets what sockets that there are may be sent
            for each in machine.world.network.sockets:
                words[[LAYOUT["ALLOWED"] + each.here.port, LAYOUT["REPORT_AT"] + each.here.port]] = 0
            found[name, "budgets"] = words.tobytes()
        if device.edge and (link := machine.link(name)) and link.queueing:
            classes = {minor: (each.rate, each.limit) for minor, each in link.queueing.classes.items()}
            found[name, "classes"] = classes, [(each.info, each.minor, each.keys) for each in link.queueing.filters]
    return found


def check_untouched(machine: "Machine", before: Mapping[tuple[str, str], Any], since: int) -> None:
    """A law is broken: the new process has changed what the old one goes on with if this one fails."""
    after = used_by(machine)
    for name, what in before:
        if after.get((name, what)) != before[name, what] and _is_untouched(machine, name, since):
            machine.record.fail(f"a process that may still fail has changed the {what} of port {name}, which the old one uses")


def check_edges(machine: "Machine", before: Mapping[str, Edge], since: int) -> None:
    """A law is broken: after a failed upgrade an edge does not go on that did before, and nothing is wrong with its port."""
    assert machine.daemon
    for name, device in machine.daemon.devices.items():
        edge = device.edge
        if edge is None or edge is not before.get(name) or not _is_untouched(machine, name, since):
            continue
        if said := edge.error or (edge.ended and "it has ended") or (edge.resting and "it rests"):
            machine.record.fail(f"after an upgrade that has failed the edge of port {name} does not go on: {said}")


def _is_untouched(machine: "Machine", name: str, since: int) -> bool:
    """Whether nothing has been wrong with a port since then, but that the whole switch stood still."""
    at, record = machine.layout.number(name), machine.record
    return not record.disturbed.get(at, set()) - {STILL} and record.disturbed_until.get(at, -1) < since


def state_of(daemon: Daemon) -> dict[str, Any]:
    """What a switch says whose workers stand still."""
    switch = daemon.switch
    ports = switch.ports()
    switch.ledger.look(ports)
    return {
        "ports": ports,
        "flows": switch.flows(),
        "held": {name: list(switch.held_flows(name)) for name in switch.numbers},
        "losses": switch.ledger.rows(),
        "balance": balance(switch),
        "settings": dict(switch.settings),
        "changes": operations.changes(daemon),
        "detached": list(switch.detached),
        "specification": daemon.ports,
        "base": [daemon.base.settings, daemon.base.ports],
        "added": sorted(daemon.added),
        "devices": sorted(daemon.devices),
        "broken": daemon.draining,
        "edges": {name: bool(each.edge and not each.edge.error) for name, each in daemon.devices.items()},
        "addresses": {name: each.mac for name, each in daemon.devices.items()},
        "found": {name: each.before is not None for name, each in daemon.devices.items()},
    }


def _without(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {key: _without(value) for key, value in found.items() if key not in PASSING and not _has_failed(value)}
    return [_without(each) for each in found] if isinstance(found, (list, tuple)) else found


def _has_failed(found: Any) -> bool:
    """Whether this is an edge that has failed: the new process does not have it."""
    return isinstance(found, dict) and bool(found.get("failed"))


def difference(one: Any, other: Any) -> str:
    """Where the first difference is."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys(), key=str):
            if one.get(key) != other.get(key):
                return f"{key}: {difference(one.get(key), other.get(key))}"
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return next(f"[{i}] {difference(a, b)}" for i, (a, b) in enumerate(zip(one, other)) if a != b)
    return f"{one!r} and {other!r}"


# ---- Steps ----


def upgrade(machine: "Machine", name: str, said: str = "", how: str = "") -> None:
    """The switch is handed over; `said`, `how`: what the new process says that it dies of, or says late."""
    if machine.is_upgrading:
        return
    machine.is_upgrading, machine.spoil = True, (said, how) if said else None
    ports = [machine.layout.number(port) for port in machine.layout.ports] if how == LATE else []
    devices, since = machine.daemon.devices if machine.daemon else {}, machine.world.now
    edges = {port: device.edge for port, device in devices.items() if device.edge and not device.edge.error}
    for at in ports:
        machine.record.disturb(at, STILL)

    def calm() -> None:
        for at in ports:
            machine.record.calm(at, STILL)

    def then(answer: Any) -> None:
        machine.is_upgrading = False
        standing.later(machine, BOUND_NS, calm)
        if said:
            if not isinstance(answer, str) or not answer.startswith(LOST if said == "serving" else NOT_UPGRADED):
                machine.record.fail(f"the new process was to fail at {said}, and the answer to `upgrade` is {answer}")
            elif said != "serving":
                check_edges(machine, edges, since)
        elif not isinstance(answer, dict):
            machine.record.fail(f"an upgrade has failed: {answer}")
        elif answer["paused_ns"] > BOUND_NS:
            machine.record.fail(f"an upgrade has stopped all frames for {answer['paused_ns'] / MS:.1f} ms")

    machine.ask({"upgrade": True}, then)
    if ports:
        machine.wait_for_upgrade()


DO: dict[str, Callable[..., None]] = {"upgrade": upgrade}


def draw_spoil(draw: random.Random) -> tuple[str, ...]:
    """What a new process fails at, and how; nothing: it does not."""
    if draw.random() >= FAILED:
        return ()
    said = draw.choice((*SAID[:4], *SAID[3:4] * 2))
    return said, draw.choice((DIES, DIES, LATE) if said == "ready" else (DIES, ENDS))


def draw_steps(seed: int, until: int, layout: Layout) -> list[Step]:
    """Upgrades of a run, from a generator of their own."""
    draw = random.Random(f"upgrades of {seed}")
    if draw.random() >= DRAWN or layout.runs_scheme:
        return []
    found = []
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(max(1, until))
        found.append(Step(at, "upgrade", "", draw_spoil(draw)))
        for _ in range(draw.randrange(6)):
            name, target = draw.sample(layout.base, 2)
            sent = Step(at + draw.randrange(60 * MS), "send", name, (target, draw.choice((1, 10, 40)), draw.choice((60, 700))))
            found.append(sent)
    return found
