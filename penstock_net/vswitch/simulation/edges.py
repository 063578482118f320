"""Edges in a run: what is said of them in the specification, what is done to them, and what they may leave."""

import random
from collections.abc import Callable, Sequence

from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach import edge as edge_threads
from penstock_net.vswitch.attach.ingress_rates import limits_of
from penstock_net.vswitch.daemon.condition import CHANGED, UP
from penstock_net.vswitch.linux.htb import REST
from penstock_net.vswitch.linux.monitor import OWN_QDISC
from penstock_net.vswitch.simulation.laws import MS, Broken
from penstock_net.vswitch.simulation.machine import Machine
from penstock_net.vswitch.simulation.step import Step
from penstock_net.vswitch.world.simulated.queueing import Queueing

WHY, FOREIGN = "another program has set its queueing discipline", 0x80020000
EMPTY_NS = 1500 * MS  # after which an edge has no class that it does not need, at the latest
DRAWN = 0.75  # of the runs have edges; an operator may leave them out


def replace(machine: Machine, name: str) -> None:
    """Another program sets a queueing discipline of its own at an interface; what waits there is gone."""
    link = machine.link(name)
    if link is None or not machine.edge:
        return
    machine.record.disturb(machine.layout.number(name), WHY)
    link.drop_queueing()
    link.queueing = Queueing(machine.world, "fq", FOREIGN, 0, link.queue_frames, link.into_ring)
    machine.world.report_root(link)


def loaded_again(machine: Machine) -> None:
    """After `reload` all edges are the switch's."""
    for name in machine.layout.taps:
        if (link := machine.link(name)) and link.queueing and link.queueing.handle == OWN_QDISC:
            machine.record.calm(machine.layout.number(name), WHY)


DO: dict[str, Callable[..., None]] = {"replace qdisc": replace}


def troubles(
    draw: random.Random, at: int, edge: bool, taps: Sequence[str], apps: Sequence[str], base: Sequence[str]
) -> list[list[Step]]:
    """What may be done to edges; most of it is a receiver that does not read, for whose flow an edge sets up a class.

    base  those of the TAPs that are always there
    """
    if not edge:
        return []
    mine = draw.choice([name for name in taps if name in base])
    tap, app, later = draw.choice(taps), draw.choice(apps), at + draw.randrange(10 * MS, 60 * MS)
    sent = [Step(at + i * MS, "send", tap, (app, 40, 1400)) for i in range(1, draw.randrange(3, 6))]
    full = [Step(at, "stop reading", app), *sent]
    return [
        [*full, Step(later, "read again", app)],
        [*full, Step(later, "kill", app), Step(later + MS, "start", app)],
        [*full, Step(later, "remove", tap), Step(later + MS, "read again", app), Step(later + 2 * MS, "add", tap)],
        [*full, Step(later, "down", tap), Step(later + MS, "up", tap), Step(later + 2 * MS, "read again", app)],
        [Step(at, "replace qdisc", mine), Step(at + draw.randrange(40 * MS), "reload", mine, (False,))],
        [Step(at, "replace qdisc", mine)],
        [Step(at, "replace qdisc", tap), Step(at + draw.randrange(5 * MS), "delete", tap)],
    ]


# ---- Laws ----


def check(machine: Machine) -> None:
    """Broken: a device has not the edge that it should have, one that is not served or has other limits than the switch's
    settings say; or at its interface is a class or a filter that it does not know, or not one that it has.

    Also after an upgrade that has failed.  What is being changed just now is not looked at, nor what the keeper is to mend.
    """
    daemon = machine.daemon
    if not machine.edge or machine.is_upgrading or daemon is None or daemon.keeper is None:
        return
    if daemon.changing.locked() or daemon.keeper.lock.locked():
        return
    threads = edge_threads.THREADS.own.get(machine.pid)  # type: ignore[attr-defined]
    served = threads.edges if threads else {}
    limits = limits_of(daemon.switch.settings)
    for kept in daemon.keeper.kept:
        name, found = kept.name, kept.device.edge
        if found is None and kept.lacks_edge and kept.state in (UP, CHANGED) and not kept.again:
            raise Broken(f"port {name} is {kept.state}, and has no edge")
        if found is None or found.error or found.ended or found.looking.locked() or found.stepping.locked():
            continue
        if limits != {key: getattr(found.rates, key) for key in limits}:
            raise Broken(f"the edge of port {name} has other limits than {limits}")
        if found.resting or found.table.alarm not in served:
            raise Broken(f"nobody serves the edge of port {name}")
        link, rates = machine.link(name), found.rates
        if link is None or link.index != rates.htb.index or link.queueing is None or link.queueing.handle != OWN_QDISC:
            continue
        has = {minor: each.rate for minor, each in link.queueing.classes.items()}
        wanted = {REST: rates.rest_rate, **{each.minor: each.rate for each in rates.held.values()}}
        if has != wanted:
            raise Broken(f"port {name} has classes with these rates: {has}, and its edge knows {wanted}")
        filters = [each.minor for each in link.queueing.filters]
        if sorted(filters) != sorted(each.minor for each in rates.held.values() if not each.leaving):
            raise Broken(f"port {name} has filters for the classes {filters}, and its edge knows others")


def are_empty(machine: Machine) -> bool:
    """Whether no interface has a class or a filter for a flow."""
    found = [link.queueing for link in machine.world.spaces.links() if link.queueing]
    return not any(each.filters or each.classes.keys() - {REST} for each in found)


def check_left(machine: Machine, names: list[str]) -> None:
    """Broken: at the interface of a port is a class, a filter or a neighbour that it does not need, or it lacks its own."""
    assert machine.daemon
    owners = {each: name for name, port in machine.daemon.ports.items() for each in devices.ip_addresses(port["addresses"])}
    for name in names:
        link = machine.link(name)
        if link is None:
            continue
        strange = [each for each in link.neighbours if owners.get(devices.ipaddress.ip_address(each), name) == name]
        if strange:
            raise Broken(f"port {name} has a neighbour whose address no other port has: {strange[0].hex('.')}")
        if not machine.edge:
            continue
        found = link.queueing
        if found is None or found.handle != OWN_QDISC:
            raise Broken(f"port {name} has an edge, and another queueing discipline: {found and found.kind}")
        if set(found.classes) != {REST} or found.filters:
            raise Broken(f"port {name} has classes {sorted(found.classes)} and {len(found.filters)} filters that nobody needs")
