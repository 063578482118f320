"""Ports that are kept (`port add --keep`), and a switch that is started again: after `down`, killed, or lost by an upgrade.

`crash` kills it in the middle of a run, and `come_back` starts it again.
"""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock_net.vswitch.daemon import kept_ports
from penstock_net.vswitch.daemon.condition import UP
from penstock_net.vswitch.simulation import standing, upgrades
from penstock_net.vswitch.simulation.laws import Broken
from penstock_net.vswitch.simulation.layout import Layout
from penstock_net.vswitch.simulation.step import Step

if TYPE_CHECKING:
    from penstock_net.vswitch.simulation.machine import Machine

DRAWN = 0.06  # of the runs keep ports, and have the switch started again in the end
DOWN, KILLED, LOST = "down", "killed", "lost"  # by `down`; where it was; by a new process that ends when it has taken over
SETTLE_NS = 60_000_000
CRASHED = "its switch was killed"


# ---- Steps ----


def restart(machine: "Machine", name: str, how: str) -> None:
    """In the end the switch is started again."""
    machine.restart = how


DO: dict[str, Callable[..., None]] = {"restart": restart}


def draw_steps(seed: int, until: int, layout: Layout) -> list[Step]:
    """Ports of a run that are kept, from a generator of their own."""
    draw = random.Random(f"kept ports of {seed}")
    if draw.random() >= DRAWN or not layout.extras:
        return []
    found = [Step(until, "restart", "", (draw.choice((DOWN, KILLED, KILLED, LOST)),))]
    for _ in range(draw.randrange(4)):
        name, at = draw.choice(layout.extras), draw.randrange(max(1, until))
        found.append(Step(at, "add", name, (True,)))
        if draw.random() < 0.5:
            found.append(Step(at + draw.randrange(max(1, until)), "remove", name))
    return found


# ---- In the middle ----


def crash(machine: "Machine") -> None:
    """The switch is killed. Its applications end, and nobody knows what has become of frames that had not come."""
    if machine.is_down or machine.is_upgrading:
        return
    machine.is_down = True
    machine.crashes += 1
    record, mine = machine.record, {machine.layout.number(name) for name in machine.layout.ports}
    for at in mine:
        record.disturb(at, CRASHED)
    machine.world.tasks.stop(machine.pid, -9)
    machine.doubtful.update(frame for frame in record.not_come() if {frame.flow.source, frame.flow.target} & mine)
    machine.doubtful_lies = record.lies_left
    for name in [name for name, app in machine.apps.items() if app.port]:
        machine.end_app(name, killed=False)


def come_back(machine: "Machine") -> None:
    """The switch is started again; its applications are those that are started after that."""
    if not machine.is_down:
        return
    machine.start_switch()
    machine.is_down = False

    def calm() -> None:
        if not machine.is_down:
            for name in machine.layout.ports:
                machine.record.calm(machine.layout.number(name), CRASHED)

    standing.later(machine, SETTLE_NS, calm)


def lost_with(machines: "Sequence[Machine]", uncounted: int) -> int:
    """Frames that were lost with switches that were killed, of so many that are counted nowhere."""
    record = machines[0].record
    frames = sum(any(frame in each.doubtful for each in machines) for frame in record.not_come())
    lies = min(record.lies_left, max(each.doubtful_lies for each in machines))
    return max(0, min(uncounted, frames + lies))


# ---- In the end ----


def start_again(machine: "Machine", before: dict[str, int]) -> None:
    """Broken: a switch that is started again is not what it was, with the ports that are kept; `before`: what it had open."""
    for name in machine.layout.extras:
        machine.ask({"port_add": [machine.table_of(name)], "keep": True})
        machine.answered()
    machine.world.wait(machine.world.now + SETTLE_NS)
    was = _described(machine)
    if down := [name for name, state in was["states"].items() if state != UP and name not in machine.layout.guests]:
        raise Broken(f"ports that are kept are not up: {', '.join(down)}")
    _end(machine)
    machine.start_switch()
    machine.world.wait(machine.world.now + SETTLE_NS)
    now = _described(machine)
    for key, value in was.items():
        if now[key] != value:
            raise Broken(f"after a restart ({machine.restart}) {key} is not what it was: {upgrades.difference(value, now[key])}")
    machine.ask({"port_del": list(machine.layout.extras)})
    machine.answered()
    machine.world.wait(machine.world.now + SETTLE_NS)
    if kept := kept_ports.names(machine.socket):
        raise Broken(f"ports were removed, and are kept: {', '.join(kept)}")
    after = machine.inventory()
    if after != before:
        raise Broken(f"started again ({machine.restart}), the switch has other descriptors: {before} before, {after} after")


def _end(machine: "Machine") -> None:
    if machine.restart == DOWN:
        machine.ask({"down": True})
    elif machine.restart == LOST:
        upgrades.upgrade(machine, "", "serving", upgrades.DIES)
    else:
        machine.world.tasks.stop(machine.pid, -9)
    machine.wait_for_end()
    machine.answered()


def _described(machine: "Machine") -> dict[str, Any]:
    """A switch without applications: what an operator has asked for, and what there is of it."""
    daemon = machine.daemon
    assert daemon
    rows = machine.call(lambda switch: switch.ports())
    links = {name: machine.link(name) for name in machine.layout.taps}
    found = {name: device.before is not None for name, device in daemon.devices.items()}
    return {
        "ports": daemon.ports,
        "settings": dict(daemon.switch.settings),
        "added": sorted(daemon.added),
        "kept": {name: kept_ports.read(machine.socket, name) for name in kept_ports.names(machine.socket)},
        "states": {row["port"]: row["state"] for row in rows},
        "addresses": {name: sorted(map(bytes.hex, link.addresses)) for name, link in links.items() if link},
        "found": found,
        "edges": {name: bool(link.queueing) for name, link in links.items() if link},
    }
