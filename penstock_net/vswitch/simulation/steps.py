"""What is done to the machine: steps, each with its time, drawn from a seed.

Any of them may be left out, so that a few can be found that break a law.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from penstock_net.vswitch.simulation import (
    bursts,
    cables,
    edges,
    frames,
    guests,
    lies,
    namespaces,
    restarts,
    six,
    standing,
    upgrades,
)
from penstock_net.vswitch.simulation.laws import MS
from penstock_net.vswitch.simulation.layout import USUAL, Layout
from penstock_net.vswitch.simulation.machine import SETTLE_NS, Machine
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.world.simulated.netlink import Route

SHOWN = ("ports", "losses", "events", "flows", "pauses", "counters", "balance", "settings", "changes", "detached")
BUSY_NS, PAUSES = 100 * MS, 16
MORE = 0.3  # of the troubles are those of what a run has beyond applications and TAPs
SIZES = (60, 60, 60, 200, 700, 1400)


# ---- Traffic ----


def send(machine: Machine, name: str, target: str, count: int, size: int, by_six: bool = False) -> None:
    if name in machine.apps:
        machine.apps[name].wanted.extend([(target, size, by_six)] * count)
        machine.apps[name].told()
    elif name in (*machine.layout.taps, *machine.layout.cables):
        machine.program_sends(name, target, machine.layout.number(target) + by_six * frames.SIX, count, size)


def burst(machine: Machine, name: str, target: str, count: int, size: int) -> None:
    """So many frames at the same moment."""
    at = machine.layout.number(name)
    machine.record.disturb(at, bursts.WHY)
    send(machine, name, target, count, size)

    def seen() -> None:
        if name in machine.layout.guests and "not there" in machine.record.disturbed.get(at, ()):  # it sends when it has a port
            standing.later(machine, bursts.OVER_NS, seen)
        else:
            machine.record.calm(at, bursts.WHY)

    standing.later(machine, bursts.OVER_NS, seen)


# ---- Applications ----


def start(machine: Machine, name: str) -> None:
    machine.start_app(name)


def end(machine: Machine, name: str) -> None:
    machine.end_app(name, killed=False)


def kill(machine: Machine, name: str) -> None:
    machine.end_app(name, killed=True)


def half(machine: Machine, name: str) -> None:
    """It puts frames into its queues from now on and does not ring for them; nobody but itself is to blame."""
    if name in machine.apps:
        machine.record.disturb(machine.layout.number(name), "not there")
        machine.apps[name].half = True


def stop_reading(machine: Machine, name: str) -> None:
    if name in machine.apps:
        machine.record.disturb(machine.layout.number(name), "does not read")
        machine.apps[name].most = 0
        machine.apps[name].told()


def read_slowly(machine: Machine, name: str, most: int, pause_ns: int) -> None:
    if name in machine.apps:
        machine.record.disturb(machine.layout.number(name), "reads slowly")
        machine.apps[name].most, machine.apps[name].pause_ns = most, pause_ns
        machine.apps[name].told()


def read_again(machine: Machine, name: str) -> None:
    if name in machine.apps:
        machine.apps[name].most, machine.apps[name].pause_ns = 32, 0
        machine.apps[name].told()
        for why in ("does not read", "reads slowly"):
            machine.record.calm(machine.layout.number(name), why)


# ---- Interfaces ----


def down(machine: Machine, name: str) -> None:
    if link := machine.link(name):
        machine.record.disturb(machine.layout.number(name), "down")
        link.set_up(False)


def up(machine: Machine, name: str) -> None:
    if link := machine.link(name):
        link.set_up(True)

        def seen() -> None:
            if link.up:  # still, or again
                machine.record.calm(machine.layout.number(name), "down")

        standing.later(machine, SETTLE_NS, seen)


def delete(machine: Machine, name: str) -> None:
    if link := machine.link(name):
        machine.record.disturb(machine.layout.number(name), "deleted")
        link.space.delete(link)


def plug(machine: Machine, name: str) -> None:
    """The interface at a cable is there again."""
    if name in machine.layout.cables:
        machine.plug(name)

        def seen() -> None:
            if machine.link(name):  # still, or again
                machine.record.calm(machine.layout.number(name), "deleted")

        standing.later(machine, SETTLE_NS, seen)


def new_mac(machine: Machine, name: str) -> None:
    if link := machine.link(name):
        mac = b"\6" + machine.world.random.randbytes(5)
        machine.record.disturb(machine.layout.number(name), f"its address {mac.hex()}")
        link.set_mac(mac)
        standing.later(machine, SETTLE_NS, lambda: machine.record.calm(machine.layout.number(name), f"its address {mac.hex()}"))


def unseen(machine: Machine, name: str, what: str) -> None:
    """Something is done to an interface, and the reports of it are lost: the switch's sockets for them overrun."""
    DO[what](machine, name)
    for number, file in list(machine.world.table.files.items()):
        if isinstance(file, Route) and file.groups and machine.world.table.owners[number] == machine.pid:
            file.queue.clear()
            file.overrun()


# ---- Operators ----


def set_(machine: Machine, name: str, key: str, value: Any) -> None:
    machine.ask({"set": {key: value}})


def readdress(machine: Machine, name: str, which: int) -> None:
    """The port has its usual address, another one, or both."""
    at = machine.layout.number(name)
    machine.record.disturb(at, "other addresses")
    usual, other = machine.layout.usual(name), machine.layout.others[name]
    wanted = [usual, other, [*usual, *other]][which]
    machine.ask({"set": {f"port.{name}.addresses": wanted}}, lambda _: machine.record.calm(at, "other addresses"))


def undo(machine: Machine, name: str) -> None:
    calm = _usual_addresses(machine)
    machine.ask({"undo": True}, lambda _: calm())


def reload(machine: Machine, name: str, with_extra: bool) -> None:
    """The specification, perhaps with one port more; interfaces that were deleted are made again."""
    machine.extra = list(machine.layout.extras[-1:]) if with_extra else []
    machine.places.agree()
    calm = _usual_addresses(machine)
    if not with_extra and machine.layout.extras:
        machine.record.disturb(machine.layout.number(machine.layout.extras[-1]), "not there")

    def then(answer: Any) -> None:
        calm()
        machine.places.agreed()
        namespaces.loaded_again(machine)
        edges.loaded_again(machine)
        for tap in machine.layout.taps:
            if tap not in machine.ports:  # another request came between
                machine.record.disturb(machine.layout.number(tap), "not there")
            elif (link := machine.link(tap)) and link.tap:
                if link.up:
                    machine.record.calm(machine.layout.number(tap), "down")
                machine.record.calm(machine.layout.number(tap), "deleted")
                machine.record.calm(machine.layout.number(tap), "not there")

    machine.ask({"reload": machine.specification()}, then)


def _usual_addresses(machine: Machine) -> Callable[[], None]:
    """Ports get their usual addresses again; to be called when that is done."""
    assert machine.daemon
    layout, may_change = machine.layout, machine.open_requests  # by another request, which is done before
    ports = machine.daemon.ports.items()
    changed = [layout.number(name) for name, port in ports if may_change or port["addresses"] != layout.usual(name)]
    for at in changed:
        machine.record.disturb(at, "usual addresses")

    def calm() -> None:
        for at in changed:
            machine.record.calm(at, "usual addresses")

    return calm


def add(machine: Machine, name: str, keep: bool = False) -> None:
    """keep: it comes back when the switch is started again."""
    if machine.layout.runs_scheme:
        return
    at = machine.layout.number(name)
    machine.places.agree()

    def then(answer: Any) -> None:
        machine.places.agreed()
        if isinstance(answer, dict) and name in machine.layout.taps:
            for why in ("not there", "deleted", "down"):
                machine.record.calm(at, why)

    machine.ask({"port_add": [machine.table_of(name)], "keep": keep}, then)


def remove(machine: Machine, name: str, with_app: bool = True) -> None:
    """with_app: it ends before; else the switch lets it go.  The ports of a scheme stay."""
    if machine.layout.runs_scheme:
        return
    machine.record.disturb(machine.layout.number(name), "not there")
    if with_app:
        machine.end_app(name, killed=False)

    def then(answer: Any) -> None:
        machine.record.disturb(machine.layout.number(name), "not there")
        if isinstance(answer, dict) and machine.is_left(name):
            machine.record.fail(f"port {name} was removed, and is there")

    machine.ask({"port_del": [name]}, then)


def show(machine: Machine, name: str, what: str) -> None:
    machine.ask({"show": what})


DO: dict[str, Callable[..., None]] = {
    "send": send,
    "burst": burst,
    "start": start,
    "end": end,
    "kill": kill,
    "half": half,
    "stop reading": stop_reading,
    "read slowly": read_slowly,
    "read again": read_again,
    "down": down,
    "up": up,
    "delete": delete,
    "plug": plug,
    "new mac": new_mac,
    "unseen": unseen,
    "set": set_,
    "readdress": readdress,
    "undo": undo,
    "reload": reload,
    "add": add,
    "remove": remove,
    "show": show,
    **namespaces.DO,
    **edges.DO,
    **upgrades.DO,
    **restarts.DO,
    **lies.DO,
    **six.DO,
    **standing.DO,
    **cables.DO,
    **guests.DO,
}


def do(machine: Machine, step: Step) -> None:
    DO[step.what](machine, step.to, *step.numbers)


# ---- Drawing ----


def draw_settings(draw: random.Random) -> dict[str, Any]:
    """Those of [switch]; small thresholds, so that there are many pauses."""
    over = draw.choice((6_000, 12_000, 40_000))
    return {
        "mode": draw.choice(("backdraft", "backdraft", "dpfq")),
        "flows": 2048,
        "th_goal": over // 3,
        "th_over": over,
        "th_net": 3 * over,
        "idle": draw.choice(("5ms", "100ms")),
        "workers": draw.choice((1, 1, 2)),
        "netns": namespaces.draw_places(draw),
        "edge": draw.random() < edges.DRAWN,
    }


def draw_steps(draw: random.Random, until: int, layout: Layout = USUAL, settings: Mapping[str, Any] | None = None) -> list[Step]:
    """Steps up to a time, in their order, of a run with these settings. Much happens in the first BUSY_NS, and then now and then:
    some PAUSES times, however long that is.
    """
    at, found, troubles = 0, [Step(0, "start", name) for name in layout.apps if name in layout.base], draw.choice((0.1, 0.3, 0.6))
    busy_until = BUSY_NS
    while at < until:
        if at > busy_until:
            at += draw.randrange(2 * until // PAUSES)
            busy_until = at + draw.randrange(BUSY_NS // 3)
        at += draw.randrange(1, 4 * MS)
        found += _some_traffic(draw, at, layout)
        if draw.random() < troubles:
            trouble = _some_trouble(draw, at, layout, settings or {})
            found += [*trouble, *_traffic_about(draw, trouble, layout)]
    return sorted(found, key=lambda step: step.at)


def _some_traffic(draw: random.Random, at: int, layout: Layout) -> list[Step]:
    found = []
    for _ in range(draw.randrange(4)):
        name = draw.choice(layout.ports if draw.random() < 0.3 else layout.base)
        target = draw.choice([each for each in (layout.ports if draw.random() < 0.2 else layout.base) if each != name])
        found.append(Step(at, "send", name, (target, draw.choice((1, 2, 10, 40)), draw.choice(SIZES))))
    return found


def _traffic_about(draw: random.Random, trouble: list[Step], layout: Layout) -> list[Step]:
    """Frames to a port while something is wrong with it, and to another one from the same sender; and after that."""
    first, last = trouble[0].at, trouble[-1].at + draw.randrange(30 * MS)
    name = next((step.to for step in trouble if step.to in layout.ports), draw.choice(layout.base))
    rest = [each for each in layout.base if each != name]
    other, third = draw.sample(rest, 2) if len(rest) > 1 else rest * 2
    found = [Step(last, "send", name, (other, 4, 60)), Step(last, "send", other, (name, 4, 60))]
    if draw.random() < 0.5:
        found.append(Step(first + draw.randrange(MS), "send", other, (name, 60, draw.choice(SIZES))))
        found.append(Step(first + draw.randrange(5 * MS), "send", other, (third, 4, 60)))
    return found


def _some_trouble(draw: random.Random, at: int, layout: Layout, settings: Mapping[str, Any]) -> list[Step]:
    """Something is done, and often undone after a while."""
    app, tap, later = (
        draw.choice(layout.apps or layout.taps),
        draw.choice(layout.taps or layout.apps),
        at + draw.choice((draw.randrange(2 * MS), draw.randrange(40 * MS))),
    )
    cases: list[list[Step]] = [
        [Step(at, "stop reading", app), Step(later, "read again", app)],
        [Step(at, "stop reading", app), Step(at + draw.randrange(60 * MS), "read again", app)],
        [
            Step(at, "read slowly", app, (draw.randrange(1, 5), draw.randrange(100_000, 4 * MS))),
            Step(later, "read again", app),
        ],
        [Step(at, "kill", app), Step(later, "start", app)],
        [Step(at, "half", app), Step(later, "kill", app), Step(later + MS, "start", app)],
        [Step(at, "end", app), Step(later, "start", app)],
        [Step(at, "down", tap), Step(later, "up", tap)],
        [Step(at, "delete", tap), Step(later, "reload", "", (draw.random() < 0.3,))],
        [Step(at, "delete", tap), Step(later, "remove", tap), Step(later + draw.randrange(3 * MS), "add", tap)],
        [Step(at, "delete", tap), Step(at + MS, "reload", "", (False,)), Step(later + SETTLE_NS, "new mac", tap)],
        [Step(at, "new mac", tap)],
        [Step(at, "unseen", tap, (draw.choice(("new mac", "down", "delete")),)), Step(later, "up", tap)],
        *(_other_settings(draw, at) if layout.settings is None else []),
        [Step(at, "readdress", draw.choice(layout.ports), (draw.randrange(3),))],
        [Step(at, "readdress", tap, (draw.randrange(3),))],
        [Step(at, "undo", "")],
        [Step(at, "reload", "", (draw.random() < 0.5,))],
        *(_trouble_with_extras(draw, at) if layout.extras else []),
        [Step(at, "show", "", (draw.choice(SHOWN),))],
        *(_shows_of_an_extra(draw, at, later) if layout.extras else []),
    ]
    more = namespaces.troubles(draw, at, settings.get("netns", {}))
    more += edges.troubles(draw, at, settings.get("edge", False), USUAL.taps, USUAL.apps[:3], USUAL.base)
    return draw.choice(more if more and draw.random() < MORE else cases)


def _other_settings(draw: random.Random, at: int) -> list[list[Step]]:
    return [
        [Step(at, "set", "", ("mode", draw.choice(("backdraft", "dpfq"))))],
        [Step(at, "set", "", ("idle", draw.choice(("2ms", "50ms"))))],
    ]


def _trouble_with_extras(draw: random.Random, at: int) -> list[list[Step]]:
    """Ports that are not in the usual specification come and go."""
    return [
        [Step(at, "add", draw.choice("dvdvw")), Step(at + MS, "start", "d")],
        [Step(at, "remove", draw.choice("ddvvw"), (draw.random() < 0.5,))],
    ]


def _shows_of_an_extra(draw: random.Random, at: int, later: int) -> list[list[Step]]:
    return [
        [
            Step(at, "add", "v"),
            *(Step(later + draw.randrange(MS), "show", "", (what,)) for what in draw.sample(SHOWN, 4)),
            Step(later, "remove", "v"),
        ],
    ]
