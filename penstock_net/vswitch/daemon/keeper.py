"""Keeps the devices of a running switch in step with their interfaces and namespaces, which others delete, move and change.

A thread sleeps until the kernel reports a change: netlink, of the interfaces, addresses and queueing disciplines of a namespace;
the table of mounts, of namespaces by name.  Then it reads the state anew and acts on it:

    gone         the interface, or its namespace, does not exist: nothing is sent there, and no descriptor keeps it
    down         the interface is down, or has no carrier; no interface has the address of a socket
    edge failed  its queueing discipline is another program's, or cannot be set: losses in the kernel are not prevented
    changed      it lacks an address, is in a bridge, or has another name or MTU than it should

A namespace of the same name counts as the new one and gets a new interface.  One that was deleted is made anew by `reload` only;
another program may make it before.
"""

import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach import devices
from penstock_net.vswitch.attach.handing import find_interface
from penstock_net.vswitch.attach.ingress_rates import limits_of
from penstock_net.vswitch.daemon.condition import CHANGED, DOWN, EDGE_FAILED, GONE, UP, difference, passes_nothing
from penstock_net.vswitch.daemon.config import PortTable
from penstock_net.vswitch.daemon.kept import Kept, Place, without
from penstock_net.vswitch.daemon.log import log
from penstock_net.vswitch.linux import netns
from penstock_net.vswitch.linux.interfaces import is_here
from penstock_net.vswitch.linux.monitor import OWN_QDISC, Link, Monitor, Mounts
from penstock_net.vswitch.world import os, select, threading, time

if TYPE_CHECKING:
    from penstock_net.vswitch.daemon.server import Daemon

OWN_NAMESPACE = "/proc/self/ns/net"
POLL_S = 0.5  # between two looks where no event tells: a namespace by a process, what could not be opened
SLOW_POLL_S = 5.0  # the same, at edges
EDGE_AFTER_S = 10.0  # between two attempts to begin an edge anew that has failed


class Keeper:
    """The thread, and `retry` for `reload`."""

    def __init__(self, daemon: "Daemon") -> None:
        self.daemon, self.switch = daemon, daemon.switch
        self.kept: list[Kept] = []
        self.places: dict[tuple[int, int], Place] = {}  # by identity
        self.watched: dict[int, Place] = {}  # by the descriptor of the monitor
        self.owners: dict[devices.Address, str] = {}  # ports by address
        self.neighbours: defaultdict[devices.Address, set[Kept]] = defaultdict(set)  # where they are permanent
        self.polled: set[Kept] = set()
        self.poll_at = self.slow_poll_at = 0.0  # time.monotonic()
        self.lock = threading.Lock()
        self.over = False
        self.epoll, self.wake = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.epoll.register(self.wake, select.EPOLLIN)
        self.mounts: Mounts | None = None
        self.thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self.tell({}, daemon.ports)

    def start(self) -> None:
        self.thread.start()

    def add(self, opened: Mapping[str, devices.Device]) -> None:
        """Keep more devices, which were just set up."""
        with self.lock:
            for each in self._new(opened):
                each.addresses = list(self.daemon.ports[each.name]["addresses"])
                with self._told(each):
                    self._settle(each)
                each.again = True  # what has happened before it was watched is seen at once
                self.polled.add(each)
        os.eventfd_write(self.wake, 1)

    def _new(self, opened: Mapping[str, devices.Device]) -> list[Kept]:
        new = [Kept(name, device) for name, device in opened.items() if device.plan.kind != "pcap"]
        self.kept += new
        if self.mounts is None and any(each.where is not None for each in new):
            self.mounts = Mounts()
            self.epoll.register(self.mounts, select.EPOLLPRI)
        return new

    def state(self) -> dict[str, dict[str, Any]]:
        """What another process goes on with, by port."""
        return {each.name: each.known() for each in self.kept}

    def take(self, opened: Mapping[str, devices.Device], states: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep devices that another process has kept."""
        with self.lock:
            for each in self._new(opened):
                with self._told(each):
                    each.know(states[each.name])
                    index, each.index = each.index, 0
                    if self._monitor(each):
                        self._renumber(each, index)
                each.again = True
                self.polled.add(each)
        os.eventfd_write(self.wake, 1)

    def remove(self, names: Iterable[str]) -> None:
        """Keep devices no longer: their interfaces are closed, and what was in them is counted as lost."""
        with self.lock:
            wanted = set(names)
            leaving = [each for each in self.kept if each.name in wanted]
            # Before their edges end: else what waits for a full socket would be sent to it, and lost without a count.
            self.switch.call(lambda: [each.device.driver.suspend(self.switch) for each in leaving])
            for each in leaving:
                self.kept.remove(each)
                self.polled.discard(each)
                is_there = not each.device.port.closed
                self._leave(each)
                if is_there:
                    each.device.give_back()
                self._leave_namespace(each)
            if self.mounts and not any(each.where is not None for each in self.kept):
                self.epoll.unregister(self.mounts)
                self.mounts.close()
                self.mounts = None

    def close(self) -> None:
        self.over = True
        os.eventfd_write(self.wake, 1)
        if self.thread.ident:
            self.thread.join()
        for place in self.places.values():
            place.monitor.close()
        self.epoll.close()
        os.close(self.wake)
        if self.mounts:
            self.mounts.close()

    def tell(self, before: Mapping[str, PortTable], after: Mapping[str, PortTable]) -> None:
        """Note whose the addresses are: TAPs have the new ones of their ports, and forget neighbours that no port has any longer,
        or that are their own addresses."""
        nothing: list[str] = []
        texts = {name: (before[name]["addresses"] if name in before else nothing) for name in [*before, *after]}
        changed = {name: old for name, old in texts.items() if name not in after or after[name]["addresses"] != old}
        with self.lock:
            moved = {address for old in changed.values() for address in devices.ip_addresses(old)}
            for address in moved:
                self.owners.pop(address, None)
            for name in [name for name in changed if name in after]:
                self.owners |= dict.fromkeys(devices.ip_addresses(after[name]["addresses"]), name)
                moved |= set(devices.ip_addresses(after[name]["addresses"]))
            for kept in [each for each in self.kept if each.name in changed and each.name in after]:
                self._give_addresses(kept, after[kept.name]["addresses"])
            for address in [address for address in self.neighbours if address in moved]:
                owner = self.owners.get(address)
                for kept in [each for each in self.neighbours[address] if owner in (None, each.name)]:
                    self._forget(kept, address)
                    with contextlib.suppress(OSError):  # it is down: then it has no neighbours
                        if kept.monitor:
                            kept.monitor.remove_neighbour(kept.index, address)

    def limit(self, settings: Mapping[str, Any]) -> None:
        """Have all edges be those of a switch with these settings, as one that begins now is."""
        with self.lock:
            for edge in [each.device.edge for each in self.kept if each.device.edge]:
                edge.rates.limit(**limits_of(settings))

    def _give_addresses(self, kept: Kept, addresses: list[str]) -> None:
        """Have an interface have the addresses that its port has now."""
        before, kept.addresses = kept.addresses, list(addresses)
        if before == addresses or kept.plan.kind != "tap" or not kept.plan.prefix or kept.device.port.closed or kept.moved:
            return
        try:
            kept.plan.readdress(kept.device.namespace, before, addresses)
        except (OSError, PenstockError) as error:
            kept.again = True
            self.polled.add(kept)
            log.debug("port %s: %s", kept.name, error)

    def _forget(self, kept: Kept, address: devices.Address) -> None:
        """Note that an interface has no permanent neighbour of this address any longer."""
        kept.neighbours.discard(address)
        without(self.neighbours, address, kept)

    def _keep_neighbour(self, kept: Kept, address: devices.Address, mac: bytes) -> bool:
        """Have a neighbour stay that was resolved by the switch, so that its interface never waits for it again; whether it does.

        The kernel has room for some thousand neighbours of all namespaces together that are not permanent.
        """
        standing_for = devices.mac_standing_for(address)
        if not kept.monitor or not kept.plan.prefix or self.owners.get(address, kept.name) == kept.name:
            return False
        with contextlib.suppress(OSError):  # it is down: then it has no neighbours
            if mac.hex(":") == standing_for:
                kept.monitor.set_neighbour(kept.index, address, standing_for)
                kept.neighbours.add(address)
                self.neighbours[address].add(kept)
        return address in kept.neighbours

    def retry(self) -> dict[str, str]:
        """Try to bring up what is not up, an interface that was deleted included; what is wrong, by name of the port."""
        with self.lock:
            for each in self.kept:
                self._look(each, forced=True)
            return {each.name: f"{each.state}: {each.why}" for each in self.kept if each.state != UP}

    # ---- The thread ----

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError):  # the switch has stopped
            while True:
                ready = [fd for fd, _ in self.epoll.poll(self._timeout())]
                if self.over:
                    return
                if self.wake in ready:
                    os.eventfd_read(self.wake)
                self._see(ready)

    def _see(self, ready: list[int]) -> None:
        """Look at what has changed; afterwards this thread, which may sleep for long, refers to no device, nor its memory."""
        with self.lock:
            for each in self._touched(ready):
                self._look(each)

    def _timeout(self) -> float | None:
        if not self.polled and not any(each.device.table for each in self.kept):
            return None
        return max(0.0, (self.poll_at if self.polled else self.slow_poll_at) - time.monotonic())

    def _touched(self, ready: list[int]) -> Iterable[Kept]:
        """The devices to look at after these descriptors became readable, or after a timeout."""
        now, found = time.monotonic(), set[Kept]()
        mounted = self.mounts is not None and self.mounts.fileno() in ready
        if mounted or self.wake in ready or now >= self.poll_at:
            self.poll_at = now + POLL_S
            polled = [each for each in self.kept if each in self.polled]
            found |= {each for each in polled if each.again or each.state == GONE or each.has_another_namespace}
        if now >= self.slow_poll_at:
            self.slow_poll_at = now + SLOW_POLL_S
            found |= {each for each in self.kept if each.lacks_edge}
        if mounted:
            found |= {each for each in self.kept if each.has_another_namespace}
        for place in [self.watched[fd] for fd in ready if fd in self.watched]:
            found |= self._concerned(place)
        return [each for each in self.kept if each in found]

    def _concerned(self, place: Place) -> set[Kept]:
        """The devices that messages of a namespace are about; what they say of its interface is kept."""
        changes, found = place.monitor.changes(), set[Kept]()
        if changes is None:
            for kept in place.kept:  # that an interface was down may be among what was lost
                kept.unsure = kept.state != CHANGED
            return place.kept
        for change in changes:
            if not change.found:
                found |= place.named.get(None, set())  # sockets
            for kept in place.numbered.get(change.number, ()):
                if change.found:
                    self._keep_neighbour(kept, *change.found)
                    continue
                found.add(kept)
                if change.link and change.deleted:
                    kept.final, kept.was_away = change.link.dropped, True
                elif change.link and not change.link.up:
                    kept.was_down = True
            if change.link:
                found |= place.named.get(change.link.name, set())
        return found

    @contextlib.contextmanager
    def _told(self, kept: Kept) -> Iterator[None]:
        """An error is not the end of the thread: the state is read anew soon."""
        kept.again = False
        try:
            yield
        except (OSError, PenstockError) as error:
            kept.again = True
            log.debug("port %s: %s", kept.name, error)

    def _look(self, kept: Kept, forced: bool = False) -> None:
        """Read the state of a device's namespace and interface, and do what it needs; `forced`: at all costs."""
        with self._watched(kept), self._told(kept):
            if kept.has_another_namespace:
                self._leave(kept)
                self._leave_namespace(kept)
            if kept.moved and forced:
                self._leave(kept)
            if kept.device.port.closed or not self._is_there(kept):
                why = self._where_it_is(kept) if kept.moved else self._open(kept, forced)
                if why:
                    self._say(kept, GONE, why)
                    return
            self._say(kept, *self._state(kept, forced))

    @contextlib.contextmanager
    def _watched(self, kept: Kept) -> Iterator[None]:
        """Note afterwards whether it is to be polled."""
        yield
        if kept.is_polled:
            self.polled.add(kept)
        else:
            self.polled.discard(kept)

    def _say(self, kept: Kept, state: str, why: str) -> None:
        if (state, why) != (kept.state, kept.why):
            is_told = state == kept.state == GONE  # the reason names the namespaces there are, which come and go
            kept.state, kept.why = kept.device.driver.state, kept.device.driver.why = state, why
            if is_told:
                return
            level = logging.INFO if state == UP else logging.WARNING
            self.daemon.events.add(f"port {state}" if state in (UP, GONE, DOWN, CHANGED) else state, kept.name, why, level)

    # ---- Whether it is there ----

    def _is_there(self, kept: Kept) -> bool:
        """Whether the interface is in its namespace; an interface that is not there is left."""
        if not kept.plan.interface:
            return True
        monitor = self._monitor(kept)
        if kept.plan.kind != "tap":
            link = monitor.named(kept.plan.interface) if monitor else None
            if monitor is None or (link and link.number == kept.index):
                return True
            self._leave(kept)
            return False
        place = devices.place_of(kept.device.port.fd, kept.identity or (0, 0))
        if place is None:
            self._leave(kept)
            return False
        if not kept.moved and (kept.was_away or place != kept.identity):
            kept.moved, kept.final = True, None
            kept.device.release(drain=False)
            self.switch.call(lambda: kept.device.driver.suspend(self.switch))
        if place == kept.identity and kept.moved:
            self._take_back(kept)
        return place == kept.identity

    def _where_it_is(self, kept: Kept) -> str:
        return f"{kept.there} was moved to another namespace; move it back, or `reload` makes another one"

    def _leave(self, kept: Kept) -> None:
        """Close an interface that does not exist any longer, or whose namespace shall not be kept by us."""
        device, driver = kept.device, kept.device.driver
        kept.moved = kept.was_away = False
        if device.port.closed:
            return
        kept.removed = True
        if device.edge and not kept.plan.is_persistent:
            device.edge.rates.htb.stays = True  # to take it away would lose what is sent meanwhile, without a count
        device.release(drain=False)
        self.switch.call(lambda: driver.suspend(self.switch))
        with contextlib.suppress(OSError):  # it has been deleted
            if kept.monitor and kept.plan.kind == "tap" and not kept.plan.is_persistent:
                kept.monitor.take_down(kept.index)  # whoever is still there learns that nothing is sent
        driver.swallow()
        if kept.final is not None and kept.plan.kind == "tap":  # of others it counts what their senders were told
            final, before = kept.final, device.dropped_before
            device.port.losses = lambda: final - before
        device.port.close()
        device.leave_interface()
        self._renumber(kept, 0)
        kept.final = None

    def _leave_namespace(self, kept: Kept) -> None:
        """Close what would keep a deleted namespace alive."""
        if kept.device.namespace:
            kept.device.namespace.close()
            kept.device.namespace = None
        before, place = kept.identity, kept.place
        kept.identity, kept.place, kept.removed = None, None, False
        if place and before:
            place.leave(kept)
            if not place.kept:
                del self.places[before], self.watched[place.monitor.fileno()]
                self.epoll.unregister(place.monitor)
                place.monitor.close()

    # ---- Opening it again ----

    def _open(self, kept: Kept, forced: bool) -> str:
        """Open the interface again, if it or its namespace is there; what prevents it, or nothing."""
        device, plan = kept.device, kept.plan
        addresses = list(kept.addresses)  # whoever changes those of the port waits for this thread, and changes these then
        try:
            if kept.where is not None and device.namespace is None:
                namespace = netns.open_netns(kept.where)
                if kept.process and netns.process_of(kept.where) != kept.process and not forced:
                    namespace.close()
                    return f"process {kept.process[0]} has ended, another has its number; `port del`, `port add` with the new one"
                device.namespace = namespace
            self._identify(kept)
            monitor = self._monitor(kept)
            if kept.removed and not forced and plan.kind == "tap" and monitor and monitor.named(str(plan.interface)) is None:
                return f"{kept.there} was deleted; `reload` makes it again"
            device.take(plan.open(device.namespace, addresses))
        except (OSError, PenstockError) as error:
            return str(error)
        self._settle(kept)
        if plan.kind == "tap":
            device.count_losses()
            self._begin_edge(kept)
        self._resume(kept)
        return ""

    def _take_back(self, kept: Kept) -> None:
        """Go on with an interface that was moved back: the kernel has removed all that it had."""
        try:
            kept.device.leave_interface()
            find_interface(kept.device)  # it may have another number
            kept.device.count_losses_from(kept.device.dropped_before)
            self._set_up(kept)
        except (OSError, PenstockError) as error:
            self._say(kept, GONE, f"{kept.there} was moved back and cannot be set up yet: {error}")
            raise
        kept.moved = kept.was_away = False  # not before: what cannot be set up now is tried again
        self._settle(kept)
        self._begin_edge(kept)
        self._resume(kept)

    def _resume(self, kept: Kept) -> None:
        device = kept.device

        def act() -> None:
            device.driver.resume(self.switch, device.port, device.mac)
            self._readdress(kept)

        self.switch.call(act)

    def _readdress(self, kept: Kept) -> None:
        """Where broadcasts pass, a port has the Ethernet address of its interface, too."""
        if kept.device.broadcast:
            kept.device.driver.own[:] = kept.device.own_addresses
            self.switch.readdress(self.daemon.ports)

    def _set_up(self, kept: Kept) -> None:
        kept.was_down = False
        kept.plan.set_up(kept.device.namespace, kept.addresses)
        if monitor := kept.monitor:
            for address in kept.neighbours:
                with contextlib.suppress(OSError):
                    monitor.set_neighbour(kept.index, address, devices.mac_standing_for(address))

    def _settle(self, kept: Kept) -> None:
        """Note what an interface is that was just set up."""
        self._identify(kept)
        kept.was_down = kept.removed = False
        monitor = self._monitor(kept)
        if monitor and kept.plan.interface and (link := monitor.named(kept.plan.interface)):
            self._renumber(kept, link.number)

    def _renumber(self, kept: Kept, index: int) -> None:
        """Note the number of an interface, 0: there is none; and the permanent neighbours that it has already."""
        if index and index == kept.index:
            return
        for address in list(kept.neighbours):
            self._forget(kept, address)
        if kept.place:
            kept.place.renumber(kept, index)
        if not (monitor := kept.monitor) or not index or kept.plan.kind != "tap":
            return
        for address, mac in monitor.neighbours(index):
            if mac.hex(":") == devices.mac_standing_for(address) and not self._keep_neighbour(kept, address, mac):
                with contextlib.suppress(OSError):
                    monitor.remove_neighbour(index, address)

    def _identify(self, kept: Kept) -> None:
        namespace, path = kept.device.namespace, "" if kept.where is None else netns.path_of(kept.where)
        kept.is_silent = path.startswith("/proc/") or os.path.islink(path)
        kept.process = netns.process_of(kept.where) if kept.where is not None else None
        kept.identity = namespace.identity if namespace else netns.identity(OWN_NAMESPACE)

    def _monitor(self, kept: Kept) -> Monitor | None:
        """The monitor of a device's namespace; None: nothing there concerns it, or netlink is not permitted."""
        if kept.place is None and kept.is_watched and kept.identity:
            place = self.places.get(kept.identity)
            if place is None:
                try:
                    place = self.places[kept.identity] = Place(Monitor(kept.device.namespace))
                except OSError as error:
                    level = logging.WARNING if kept.plan.interface else logging.DEBUG  # a socket says itself what fails
                    log.log(level, "port %s: its interface is not watched (netlink: %s)", kept.name, error.strerror)
                    return None
                self.watched[place.monitor.fileno()] = place
                self.epoll.register(place.monitor, select.EPOLLIN)
            kept.place = place
            place.take(kept)
        return kept.monitor

    # ---- What it is like ----

    def _state(self, kept: Kept, forced: bool) -> tuple[str, str]:
        """State of an interface that is there, after what can be mended was."""
        if kept.local:
            with netns.enter(kept.device.namespace):
                return (UP, "") if is_here(kept.local) else (DOWN, f"no interface has the address {kept.local}: ip address add")
        monitor = kept.monitor
        link = monitor.numbered(kept.index) if monitor else None
        if monitor is None or link is None:
            return UP, ""
        self._note(kept, link)
        if kept.plan.kind != "tap":
            why = passes_nothing(link, kept.there, False)
            return (DOWN, why) if why else (UP, "")
        if forced and kept.state != UP:
            self._set_up(kept)
            link = monitor.numbered(kept.index) or link
        if link.mac != kept.device.mac:
            self._follow(kept, link)
        if why := passes_nothing(link, kept.there, True):
            kept.was_down |= not link.up
            return DOWN, why
        if kept.was_down:  # then the kernel has removed routes, neighbours and IPv6 addresses
            self._set_up(kept)
        if why := self._edge(kept, monitor, forced):
            return EDGE_FAILED, why
        name, addresses = str(kept.plan.interface), kept.addresses if kept.plan.prefix else ()
        remedy = "; `reload` sets it up again"
        why = difference(monitor, link, kept.there, name=name, mtu=kept.plan.mtu, addresses=addresses, remedy=remedy)
        if why and kept.unsure:
            self._set_up(kept)
            why = difference(monitor, link, kept.there, name=name, mtu=kept.plan.mtu, addresses=addresses, remedy=remedy)
        kept.unsure = False
        return (CHANGED, why) if why else (UP, "")

    def _note(self, kept: Kept, link: Link) -> None:
        """What is followed without another state: whether there is a carrier, and the MTU, if the port has no `mtu`."""
        kept.device.driver.set_carrier(link.carrier or not link.up)
        if kept.device.stations and not (link.carrier and link.up):
            self.switch.call(kept.device.driver.forget_stations)
        before, kept.mtu = kept.mtu, link.mtu
        if before not in (0, link.mtu) and not kept.plan.mtu:
            self.daemon.events.add("mtu", kept.name, f"{kept.there} has an MTU of {link.mtu} now, before {before}")

    def _follow(self, kept: Kept, link: Link) -> None:
        """Send to the new Ethernet address of an interface; the kernel has removed its neighbours."""
        device = kept.device
        self.daemon.events.add("address", kept.name, f"{kept.there} has the Ethernet address {link.mac.hex(':')} now")
        device.mac = link.mac

        def act() -> None:
            device.driver.set_mac(link.mac)
            self._readdress(kept)

        self.switch.call(act)
        if link.up:
            self._set_up(kept)

    def _edge(self, kept: Kept, monitor: Monitor, forced: bool) -> str:
        """Begin an edge anew that has failed, unless another program's queueing discipline is in its place; what is wrong."""
        device = kept.device
        if not device.table:
            return ""
        kind, handle = monitor.root_qdisc(kept.index)
        ours = (kind, handle) == ("htb", OWN_QDISC)
        if ours and device.edge and not device.edge.error:
            return ""
        if device.edge:
            device.edge.rates.htb.replaced = not ours
        if forced or not handle or (ours and time.monotonic() >= kept.edge_after):
            return self._begin_edge(kept)
        if not ours:
            return f"another program has set the queueing discipline {kind} at {kept.there}; `reload` replaces it"
        return str(device.edge.error) if device.edge else kept.why

    def _begin_edge(self, kept: Kept) -> str:
        """Begin the edge of a device anew; why it cannot, or nothing."""
        device = kept.device
        if not device.table:
            return ""
        kept.edge_after = time.monotonic() + EDGE_AFTER_S
        try:
            device.release(drain=False)
            self.daemon.guard({kept.name: device})
        except (OSError, PenstockError) as error:
            return str(error)
        return ""
