"""The simulated machine: the switch's process, applications at its shared memory, programs at its TAPs, and operators.

`layout.py` says which ports there are.
"""

import contextlib
import functools
import gc
import ipaddress
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from penstock_net.errors import PenstockError
from penstock_net.vswitch import world
from penstock_net.vswitch.attach import devices, edge
from penstock_net.vswitch.attach.open import kinds
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.log import log
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.simulation import frames, guests, shown, six, upgrades
from penstock_net.vswitch.simulation.apps import App
from penstock_net.vswitch.simulation.frames import Frame, flow_of
from penstock_net.vswitch.simulation.guests import Guest
from penstock_net.vswitch.simulation.laws import BOUND_NS, MS, Broken, Record
from penstock_net.vswitch.simulation.layout import USUAL, Layout, first_address, first_of_six, in_prefix
from penstock_net.vswitch.simulation.places import Places
from penstock_net.vswitch.support.balance import balance, unaccounted
from penstock_net.vswitch.support.settings import DEFAULTS, validate_settings
from penstock_net.vswitch.world.calls import table
from penstock_net.vswitch.world.simulated.kernel import Simulated
from penstock_net.vswitch.world.simulated.links import Link

OWN_SETTINGS = ("netns", "edge", "six", "guests")  # of a run, not of [switch]
SETTLE_NS = 20 * MS  # after which the switch has seen what has changed at an interface
MOST_WAITS = 30_000  # of all threads in 100 ms of simulated time
LEAST_LOOK_NS = 5 * MS
START_NS, END_NS = 2_000 * MS, 30_000 * MS
LOOKS = 3  # 1 ms apart, at the counters of a switch that runs a scheme
ANSWER_S = 60.0  # to an upgrade


@functools.cache
def _standing_for(target: bytes) -> bytes:
    """The Ethernet address with which the switch answers for an IP address."""
    return bytes.fromhex(devices.mac_standing_for(ipaddress.ip_address(target)).replace(":", ""))


class PortRow(NamedTuple):
    """What a run was like for a port."""

    port: str
    sent: int  # frames that the switch, or the kernel in front of it, has taken
    came: int
    lost: dict[str, int]  # frames by reason, as `show losses` has them
    pauses: int  # of its transmit queues
    paused_ns: int  # of its flows, summed; 0 unless an operator's own ports are tried


class OfProcess:
    """What each process has one of in the place of a variable of a module."""

    def __init__(self, world: Simulated, make: Callable[[], Any]) -> None:
        self.world, self.make = world, make
        self.own: dict[int, Any] = {}  # by process

    def __getattr__(self, name: str) -> Any:
        pid = self.world.tasks.current.pid
        if pid not in self.own:
            self.own[pid] = self.make()
        return getattr(self.own[pid], name)


class Machine:
    """All of it. `run` what happens there in `with`."""

    def __init__(
        self,
        seed: int,
        settings: dict[str, Any],
        layout: Layout = USUAL,
        *,
        beside: "Machine | None" = None,
        name: str = "switch",
    ) -> None:
        """beside: another machine of the same world, whose record has the frames of both."""
        kinds()  # their modules take what they need of the real world
        log.disabled = True
        self.world: Simulated = beside.world if beside else Simulated(seed)
        self.world.tasks.most_waits = MOST_WAITS
        self.layout = layout
        self.record: Record = beside.record if beside else Record(lambda: self.world.now, list(layout.numbers))
        self.name, self.socket = name, f"/simulated/{name}.sock"
        spaces = self.world.spaces
        self.home = spaces.keep(spaces.make()) if beside else spaces.first  # the namespace of its switch
        self.record.may_pause_all = not layout.pauses_queues
        self.settings = {key: value for key, value in settings.items() if key not in OWN_SETTINGS}
        self.programs: dict[str, Callable[[bytes], None]] = {}  # at TAPs, by the names of their interfaces
        self.edge = bool(settings.get("edge"))
        self.places = Places(self, settings.get("netns", {}))
        self.unheard = 0  # frames that came by a cable while no socket was at its interface
        self.extra: list[str] = []  # ports that `reload` adds
        self.apps: dict[str, App | Guest] = {}
        self.former_guests: list[Guest] = []  # those that have ended
        self.lives: Counter[str] = Counter()
        self.numbers: Counter[tuple[str, int, int]] = Counter()  # of frames of programs at TAPs, by interface and queue
        self.daemon: Daemon | None = None
        self.daemons: list[Daemon] = []  # also those of processes that have ended
        self.pid, self.open_requests, self.looks = 0, 0, 0  # the last: how often counters were looked at
        self.world.programs[name] = lambda: upgrades.take_over(self)
        self.spoil: tuple[str, str] | None = None  # what becomes of the next process that is to take over
        self.is_upgrading, self.stood_ns = False, 0  # the latter: for which no step was done, since the switch stood still
        self.restart = ""  # how the switch ends that is started again in the end
        self.is_down, self.crashes = False, 0  # whether it was killed, and is not started again yet; how often it was killed
        self.doubtful: set[Frame] = set()  # that had not come when it was killed, from or to one of its ports
        self.doubtful_lies = 0  # frames that lie, and had not come then
        self.upgrade_draw = random.Random("upgrades")  # how long new processes take to start
        self.addresses: dict[str, list[str]] = {}  # of ports, as last seen
        self.ports: dict[str, dict[str, Any]] = {}  # of the daemon, as last seen
        self.present_pairs: dict[tuple[str, str, bool], tuple[str, str] | None] = {}  # what `present` has found for these
        self.changes: Counter[str] = Counter()  # of these
        self.rows: list[PortRow] = []
        self.paused_ns: Counter[str] = Counter()  # by sender, of flows as last seen; only for an operator's own ports
        self.flows_seen: dict[tuple[Any, ...], int] = {}
        self.look_ns = 0  # between two looks at flows, which may be forgotten when they are idle; 0: nobody asks
        if layout.settings is not None:
            known = {key: value for key, value in layout.settings.items() if key in DEFAULTS}
            self.look_ns = max(LEAST_LOOK_NS, validate_settings(known)["idle"] // 2)

    def __enter__(self) -> "Machine":
        world.use(self.world)
        self.edge_threads, edge.THREADS = edge.THREADS, OfProcess(self.world, edge.EdgeThreads)  # type: ignore[assignment]
        self.start()
        return self

    def start(self) -> None:
        """Start the switch; the world is in use."""
        for name in self.layout.taps:
            self.programs[self.layout.device(name)] = lambda data, name=name: self._at_tap(name, data)  # type: ignore[misc]
        self.places.begin()
        for name in self.layout.ports:
            self.record.disturb(self.layout.number(name), "not there")
        for name in self.layout.cables:
            self.plug(name)
        self.start_switch()
        for name in self.layout.base:
            if name not in self.layout.apps:
                self.record.calm(self.layout.number(name), "not there")

    def start_switch(self) -> None:
        ready: list[bool] = []

        def serve() -> None:
            self.goes_on(Daemon(self.specification(), program=[self.name]))
            assert self.daemon
            self.daemon.serve(lambda: ready.append(True))

        self.task = self.world.tasks.process(self.name, serve, self.home)
        self.pid = self.task.pid
        self.wait(START_NS, lambda: bool(ready), "the switch does not start")

    def goes_on(self, daemon: Daemon) -> None:
        """This process has the switch from now on."""
        self.daemon, self.task = daemon, self.world.tasks.current
        self.daemons.append(daemon)
        self.pid = self.task.pid

    def __exit__(self, *error: object) -> None:
        self.abandon()
        self.stop_workers()
        self.world.tasks.unwind()
        self.daemons.clear()
        edge.THREADS = self.edge_threads
        world.use(world.KERNEL)
        log.disabled = False

    def stop_workers(self) -> None:
        """Have those come back that have ended where they were, when the world's tasks are unwound."""
        tasks = self.world.tasks
        for switch in [each.switch for each in self.daemons if each.switch.crew]:
            if switch.crew.threads[0].task in tasks.stopped:
                switch.crew.stopping = True
                for k in range(switch.count):
                    with contextlib.suppress(OSError):  # its descriptors are closed
                        switch.want(k, True)

    def abandon(self) -> None:
        """After a failure: have all tasks end that can."""
        tasks = self.world.tasks
        if len(tasks.all) == 1:
            return
        tasks.most_waits = MOST_WAITS
        for app in self.apps.values():
            tasks.kill(app.task.pid)
        if self.daemon:
            self.daemon.over.set()
        with contextlib.suppress(Exception):  # what is left of it stands still for ever
            self.world.wait(self.world.now + START_NS, lambda: self.task.ended)

    def table_of(self, name: str) -> dict[str, Any]:
        """A [[port]] of the specification."""
        found = dict(self.layout.tables[name])
        if self.edge and name in self.layout.taps:
            found["edge"] = True
        return found | self.places.keys(name)

    def specification(self) -> dict[str, Any]:
        return {
            "switch": {"socket": self.socket, **self.settings},
            "port": [self.table_of(name) for name in (*self.layout.base, *self.extra, *self.layout.links)],
            **self.layout.tables_of_scheme,
        }

    def wait(self, ns: int, is_over: Callable[[], bool], why: str) -> None:
        """Broken: it has not come within this time."""
        self.world.wait(self.world.now + ns, is_over)
        table.check()
        if not is_over():
            raise Broken(f"{why}, not in {ns // MS} ms")

    def call(self, function: Callable[[Any], Any]) -> Any:
        """Ask the switch between two turns."""
        while True:
            assert self.daemon
            daemon = self.daemon
            try:
                return daemon.switch.call(functools.partial(function, daemon.switch))
            except (OSError, RuntimeError):  # its process has ended
                if daemon is self.daemon:
                    raise

    # ---- Frames ----

    def present(self, source: str, target: str, by_six: bool = False) -> tuple[str, str] | None:
        """Addresses of two ports now, of the version that is asked for if both have such; None: they have no version together.

        Of a port that is not there it is the usual one.
        """
        self.see_addresses()
        asked = source, target, by_six
        if asked not in self.present_pairs:
            self.present_pairs[asked] = self._present(*asked)
        return self.present_pairs[asked]

    def _present(self, source: str, target: str, by_six: bool) -> tuple[str, str] | None:
        ports = self.ports
        here, there = (ports[name]["addresses"] if name in ports else self.layout.usual(name) for name in (source, target))
        for first in (first_of_six, first_address) if by_six else (first_address, first_of_six):
            if (a := first(here)) and (b := first(there)):
                return a, b
        return None

    def frame(self, source: str, life: int, queue: int, target: str, number: int, size: int) -> tuple[Frame, bytes] | None:
        """None: the two ports have no addresses of one version of IP.  In queues from SIX on it is IPv6, if they can."""
        if not (addresses := self.present(source, target, queue >= frames.SIX)):
            return None
        numbers, changes = self.layout.numbers, self.changes
        found = Frame(flow_of(numbers[source], life, queue, numbers[target], changes[source] + changes[target]), number)
        return found, frames.written(found, *addresses, size)

    def see_addresses(self) -> None:
        """Count changes of ports' addresses.  What a daemon has of its ports is replaced as a whole."""
        ports = self.daemon.ports if self.daemon else {}
        if ports is self.ports:
            return
        self.ports, self.present_pairs = ports, {}
        for name, port in ports.items():
            before, addresses = self.addresses.get(name), port["addresses"]
            if before is not addresses:
                self.changes[name] += before is not None and before != addresses
                self.addresses[name] = addresses

    def link(self, name: str) -> Link | None:
        """The interface of a TAP's port."""
        return space.named(self.layout.device(name)) if (space := self.places.of(name)) else None

    def program_sends(self, name: str, target: str, queue: int, count: int, size: int) -> None:
        """Frames of a program at a TAP, as far as the kernel takes them."""
        link = self.link(name)
        if link is None or not link.up or not (link.tap or link.cable):
            return
        for _ in range(count):
            number = self.numbers[name, link.index, queue]
            found = self.frame(name, link.index, queue, target, number, size)
            if found is None:
                return
            self.numbers[name, link.index, queue] += 1
            self.record.accepted(*found, link.queueing is not None and link.queueing.has_class(found[1]))
            if link.cable:
                self.unheard += not link.sockets
                link.receive(found[1])
                continue
            self._resolve(link, found[1])
            link.transmit(found[1])

    def _resolve(self, link: Link, data: bytes) -> None:
        """The kernel finds the Ethernet address for a frame's destination: that with which the switch answers."""
        target = frames.target_of(data)
        link.resolved(target, _standing_for(target))

    def _at_tap(self, name: str, data: bytes) -> None:
        """A frame has come to an interface: a program takes it if it is for its address."""
        link, at = self.link(name), self.layout.number(name)
        if self._is_answer(data, at, link.mac if link else b""):
            return
        if link is None or frames.mac_of(data) != link.mac:
            self.record.ignore(data, at, "not to its Ethernet address")
        elif frames.target_of(data) not in link.addresses and not self._is_behind(name, frames.target_of(data)):
            self.record.ignore(data, at, "not to its IP address")
        else:
            self.record.arrived(data, at)

    def plug(self, name: str) -> None:
        """The interface of a port on an existing one is there, and up."""
        device = self.layout.device(name)
        if self.home.named(device) is None:
            link = self.home.make(device)
            link.is_wired, link.cable = True, lambda data: self._at_cable(name, data)
            link.set_up(True)

    def _at_cable(self, name: str, data: bytes) -> None:
        """A frame has left by an interface; a switch that does not know the program's address sends it to all."""
        if self._is_answer(data, self.layout.number(name), frames.SENDER):
            return
        if frames.mac_of(data) in (frames.SENDER, frames.EVERYBODY):
            self.record.arrived(data, self.layout.number(name))
        else:
            self.record.ignore(data, self.layout.number(name), "not to its Ethernet address")

    def _is_answer(self, data: bytes, at: int, mac: bytes) -> bool:
        """Whether a frame is the answer of the switch to a program that asks for an address."""
        found = six.answer(data)
        if found is None or (data[:6] != mac and self.record.is_fine(at, self.world.now - BOUND_NS)):
            return False
        who, target, said = found
        self.record.answered(data, at, who, target, said == _standing_for(target))
        return True

    def _is_behind(self, name: str, target: bytes) -> bool:
        """Whether an address is of a prefix of a port: the program at its TAP stands for all that is behind it."""
        port = self.daemon.ports.get(name) if self.daemon else None
        return in_prefix(target, port["addresses"] if port else ())

    # ---- Programs ----

    def start_app(self, name: str) -> None:
        if isinstance(guest := self.apps.get(name), Guest) and guest.task.ended:
            self.end_app(name, killed=False)
        if name in self.layout.apps and name not in self.apps and self.daemon and name in self.daemon.ports:
            self.apps[name] = (Guest if name in self.layout.guests else App)(self, name, self.lives[name])
            self.lives[name] += 1

    def end_app(self, name: str, killed: bool) -> None:
        """An application ends by itself, or where it is."""
        app = self.apps.pop(name, None)
        if app is None:
            return
        for why in ("does not read", "reads slowly"):
            self.record.calm(self.layout.number(name), why)
        self.record.disturb(self.layout.number(name), "not there")
        app.over = True
        app.told()
        if isinstance(app, Guest):
            self.former_guests.append(app)
        if killed:
            self.world.tasks.kill(app.task.pid)

    def ask(self, message: dict[str, Any], then: Callable[[Any], None] = lambda answer: None) -> None:
        """A request of an operator, beside whatever else happens."""
        self.open_requests += 1

        def run() -> None:
            answer = self._answer(message)
            self.record.note("answer", message, answer if isinstance(answer, str) else sorted(answer))
            self.open_requests -= 1
            self.see_addresses()
            then(answer)

        self.world.tasks.process("operator", run)

    def _answer(self, message: dict[str, Any]) -> Any:
        """Who asks a process that hands the switch over then, and has no answer, asks again."""
        while True:
            daemon = self.daemon
            try:
                return protocol.ask(self.socket, message, ANSWER_S if "upgrade" in message else protocol.TIMEOUT_S)
            except PenstockError as error:
                if daemon is self.daemon or not isinstance(error, protocol.NoAnswer):
                    return str(error)

    def wait_for_upgrade(self) -> None:
        """Whatever was to be done is done so much later."""
        began = self.world.now
        self.wait(END_NS, lambda: not self.is_upgrading, "the switch is not handed over")
        self.stood_ns += self.world.now - began
        self.record.awake_ns = self.world.now

    def answered(self) -> None:
        self.wait(END_NS, lambda: not self.open_requests, "a request has no answer")

    def wait_for_end(self) -> None:
        """Wait until the process of the switch has ended."""
        task = self.task
        self.wait(END_NS, lambda: task.ended, "the switch does not stop")

    # ---- What is there ----

    def is_left(self, name: str) -> bool:
        """Whether the switch has a port that its daemon does not know."""
        daemon = self.daemon
        return bool(
            daemon and self.call(lambda switch: name not in daemon.ports and name in [row["port"] for row in switch.ports()])
        )

    def inventory(self) -> dict[str, int]:
        """Descriptors of the switch's process by kind, its memory files, and its threads."""
        found = self._inventory()
        if not self.layout.guests:
            return found
        self.world.wait(self.world.now + MS)
        again = self._inventory()
        streams = min(each.get("Stream", 0) for each in (found, again))  # ports that connect open one now and then, for a moment
        return {**again, "Stream": streams}

    def _inventory(self) -> dict[str, int]:
        files, owners = self.world.table.files, self.world.table.owners
        found = Counter(type(files[number]).__name__ for number, owner in owners.items() if owner == self.pid)
        gc.collect()
        found["memory"] = sum(owner == self.pid for owner in self.world.memory.values())
        found["threads"] = sum(task.pid == self.pid for task in self.world.tasks.all)
        return {key: number for key, number in found.items() if number}

    def wait_for_threads(self, ns: int) -> None:
        """Give threads of the switch that have been told to end the time for it, at most so long."""
        tasks = self.world.tasks
        self.world.wait(self.world.now + ns, lambda: not any(task.pid == self.pid for task in tasks.all))

    def check_counters(self) -> None:
        """Broken: a frame is missing between two places that count."""

        def look(switch: Any) -> dict[str, int]:
            if self.layout.runs_scheme and switch.waiting():  # on the lines between its ports are frames
                return {}
            shown.check(self, switch)
            rows = [{**row, **left} for row, left in zip(switch.ports(), switch.left())]
            return unaccounted(rows, switch.totals.values(), switch.lost_on_lines() if self.layout.runs_scheme else 0)

        for _ in range(LOOKS if self.layout.runs_scheme else 1):
            if not (found := self.call(look)):
                return
            self.world.wait(self.world.now + MS * self.layout.runs_scheme)  # a scheme may have one where nobody sees it
        raise Broken(f"frames are missing between two places that count: {found}")

    def counted(self) -> Counter[str]:
        """Frames that have not come, by what counts them: the switch, as lost, refused or parked, or this machine."""
        found = self.counted_by_switch()
        found.update(self.counted_by_kernel())
        found["in rings of guests"], most = guests.counted(self)
        missing = self.record.sent - self.record.came - self.record.ignored.total()
        found.update(self.places.in_classes(missing - found.total()))
        found["in rings of guests"] += max(0, min(missing - found.total(), most))
        found["questions without an answer"] = max(0, min(missing - found.total(), self.record.unanswered()))
        return found

    def counted_by_switch(self) -> Counter[str]:
        """Frames that the switch has lost, refused or parked."""

        def look(switch: Any) -> Counter[str]:
            found = balance(switch)
            counts: Counter[str] = Counter()
            for kind in ("lost", "refused", "not_carried"):
                counts.update(found[kind])
            counts["parked"] = found["parked"]
            counts["not taken by those who have ended"] = sum(
                row["not_taken_frames"] for row in switch.detached if not row["device"]
            )
            return counts

        found: Counter[str] = self.call(look)
        return found

    def counted_by_kernel(self) -> Counter[str]:
        """Frames in rings of interfaces, and in those of interfaces that are gone."""
        spaces = self.world.spaces
        found: Counter[str] = Counter()
        purged = sum(space.purged for space in spaces.living) + sum(link.purged for link in spaces.links())
        found["in rings of interfaces that are gone"] = spaces.purged + purged
        found["at interfaces without a socket"] = self.unheard
        found["in rings"] = sum(link.tap.ring.count() for link in spaces.links() if link.tap)
        return found

    def look_at_pauses(self) -> None:
        """Add up for how long flows were paused, by sender, also of those that are forgotten before the next look."""
        for row in self.call(lambda switch: switch.flows()):
            key = tuple(row[name] for name in ("from", "to", "queue", "source", "target", "source_port", "target_port"))
            before = self.flows_seen.get(key, 0)
            self.paused_ns[row["from"]] += row["paused_ns"] - (before if before <= row["paused_ns"] else 0)
            self.flows_seen[key] = row["paused_ns"]

    def look_at_ports(self) -> None:
        """Note what was lost at each port, and how long it was paused, also as an application that has gone."""

        def look(switch: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
            ports = switch.ports()
            switch.ledger.look(ports)
            return [*ports, *switch.detached], switch.ledger.rows()

        rows, losses = self.call(look)
        if self.look_ns:
            self.look_at_pauses()
        for name in self.layout.ports:
            at, mine = self.layout.number(name), [row for row in rows if row["port"] == name]
            lost = {row["reason"]: row["frames"] for row in losses if row["port"] == name}
            pauses = sum(row["pauses"] for row in mine)
            sent, came = self.record.sent_by[at], self.record.came_to[at]
            paused_ns = sum(row["paused_ns"] for row in mine) if self.layout.runs_scheme else self.paused_ns[name]
            self.rows.append(PortRow(name, sent, came, lost, pauses, paused_ns))
