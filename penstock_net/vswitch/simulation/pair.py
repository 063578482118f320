"""Two simulated machines, each with its switch, and a network between them; `pair_run.py` runs both under a seed."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock_net.vswitch.simulation import edges, forgery, restarts, standing
from penstock_net.vswitch.simulation.forgery import Forger
from penstock_net.vswitch.simulation.frames import Flow
from penstock_net.vswitch.simulation.laws import MS, Broken
from penstock_net.vswitch.simulation.layout import QUEUES, Layout
from penstock_net.vswitch.simulation.machine import Machine
from penstock_net.vswitch.simulation.six import with_six
from penstock_net.vswitch.simulation.wire import Wire
from penstock_net.vswitch.world.calls import table
from penstock_net.vswitch.world.simulated.datagrams import HEADERS, parsed
from penstock_net.vswitch.world.simulated.links import Link

SIDES, LINK, UPLINK = ("near", "far"), "overlay", "eth0"
# Applications, TAPs, and ports on existing interfaces.
PORTS = {"near": (("a", "b"), ("t",), ("p",)), "far": (("c", "d"), ("u",), ("q",))}
HOSTS = {"near": "192.0.2.1", "far": "192.0.2.2"}
HOSTS_OF_SIX = {"near": "2001:db8::1", "far": "2001:db8::2"}
OF_NETWORK = ("delay_ns", "secret", "overlay_six")  # what of the settings is not the switches'
UDP_PORT = 7000
LOOK_NS = 50 * MS
RECOVER_NS = 1500 * MS  # after which frames pass again when nothing is wrong with the network any more
CLOSE = 8  # bytes by which it may be shorter
# What of an overlay counts datagrams.
NOT_FRAMES = ("lost_on_the_way", "lost_at_peer", "duplicates", "device_refused", *forgery.REFUSED)
DOUBTFUL = ("too_old", "other_session", "device_too_long", "errors_out")  # of them, those that may have been a frame


def layouts(secret: str = "", hosts: Mapping[str, str] = HOSTS) -> dict[str, Layout]:
    """The ports of both, known to each other by their numbers; the overlay between these addresses."""
    names = [name for side in SIDES for group in PORTS[side] for name in group]
    tables: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(names):
        tables[name] = {"name": name, "addresses": [f"10.0.0.{i + 1}"]}
        if any(name in PORTS[side][1] for side in SIDES):
            tables[name] |= {"kind": "tap", "device": f"tap-{name}", "super_frames": False, "edge": False, "queues": QUEUES}
        if any(name in PORTS[side][2] for side in SIDES):
            tables[name] |= {"kind": "packet", "device": f"eth-{name}", "super_frames": False, "queues": QUEUES}
    found = {}
    for side, other in (SIDES, SIDES[::-1]):
        apps, taps, cables = PORTS[side]
        behind = [address for group in PORTS[other] for name in group for address in tables[name]["addresses"]]
        written = {each: f"[{hosts[each]}]" if ":" in hosts[each] else hosts[each] for each in SIDES}
        ends = {"local": f"{written[side]}:{UDP_PORT}", "peer": f"{written[other]}:{UDP_PORT}"}
        link: dict[str, Any] = {
            "name": LINK,
            "kind": "udp",
            **ends,
            "addresses": behind,
            "super_frames": False,
            "secret": secret,
            "queues": 4 * QUEUES,
        }
        found[side] = Layout(
            apps, taps, (*apps, *taps, *cables), {**tables, LINK: link}, {}, cables=cables, links=(LINK,), known=(*names, LINK)
        )
    return found


WIRE = layouts()["near"].number(LINK)


class Pair:
    """Both machines. `run` what happens there in `with`."""

    def __init__(self, seed: int, settings: dict[str, Any]) -> None:
        own = {key: value for key, value in settings.items() if key not in OF_NETWORK}
        hosts = HOSTS_OF_SIX if settings.get("overlay_six") else HOSTS
        ports = layouts(settings["secret"], hosts)
        if settings.get("six"):
            ports = {side: with_six(layout) for side, layout in ports.items()}
        near = Machine(seed, own, ports["near"], name="near")
        self.machines = {"near": near, "far": Machine(seed, own, ports["far"], beside=near, name="far")}
        self.world, self.record = near.world, near.record
        self.addresses = {side: parsed((hosts[side], UDP_PORT)) for side in SIDES}
        self.forger = Forger(self, settings["secret"])
        self.wire = Wire(self, settings["delay_ns"])
        self.record.needs = self._needs
        self.record.place = lambda frame: self.wire.places.get(frame, frame.number)
        self.side = {name: side for side in SIDES for group in PORTS[side] for name in group} | {side: side for side in SIDES}
        self.is_searched = False  # the path has become narrower, or wider: frames show it, and they may be lost
        self.troubles = 0  # of the network: while there are any, or until it had time, frames may be late
        self.uplinks = {side: self._uplink(side) for side in SIDES}

    def _uplink(self, side: str) -> Link:
        space = self.machines[side].home
        self.world.spaces.name(side, space)
        link = space.make(UPLINK)
        self.world.network.join(link)
        self.bring_up(side, link)
        return link

    def bring_up(self, side: str, link: Link) -> None:
        """An address of IPv6 goes when its interface is taken down: who manages the network gives it again."""
        link.set_up(True)
        if (host := self.addresses[side].host) not in link.addresses:
            link.add_address(host, 24 if len(host) == 4 else 64)

    def _needs(self, flow: Flow) -> Sequence[int]:
        names = self.record.names
        crosses = self.side[names[flow.source]] != self.side[names[flow.target]]
        return (flow.source, flow.target, WIRE) if crosses else (flow.source, flow.target)

    def __enter__(self) -> "Pair":
        self.machines["near"].__enter__()
        try:
            self.record.disturb(WIRE, "no session")
            self.machines["far"].start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.machines["far"].abandon()
        self.machines["far"].stop_workers()
        self.machines["near"].__exit__(*error)

    def machine(self, name: str) -> Machine:
        """That of a port, or of a side."""
        return self.machines[self.side[name]]

    def other(self, side: str) -> str:
        return SIDES[1 - SIDES.index(side)]

    def each(self, do: Callable[[Machine], None]) -> None:
        for machine in self.machines.values():
            do(machine)

    def is_connected(self) -> bool:
        """Whether both ends have a session, and know it."""
        return all(self.overlay(side)["overlay"]["state"] == "up" for side in SIDES)

    def overlay(self, side: str) -> dict[str, Any]:
        """The state and counters of an end."""
        rows = self.machines[side].call(lambda switch: switch.ports())
        found: dict[str, Any] = next(row["device"] for row in rows if row["port"] == LINK)
        return found

    # ---- Laws ----

    def check(self, counters: bool = True) -> None:
        """Broken: a law does not hold."""
        table.check()
        self.record.check()
        for machine in self.machines.values():
            if not machine.is_down:
                edges.check(machine)
                if counters and not standing.is_standing(machine):
                    machine.check_counters()

    def pass_time(self, ns: int, counters: bool = True) -> None:
        """With the laws looked at now and then, those of counters where frames have moved since, if they are to be looked at."""
        end, seen = self.world.now + ns, -1
        while self.world.now < end:
            self.world.wait(min(self.world.now + LOOK_NS, end))
            moved = self.record.moved()
            self.check(counters and moved != seen)
            seen = moved

    def account(self) -> Counter[str]:
        """Frames that have not come, by what counts them.  Broken: one is counted nowhere, or one is counted that was not lost.

        Of what an overlay refuses, some datagrams are of no frame, or have come twice: so many frames may be among them.
        """
        found = self.machines["near"].counted_by_kernel()  # of the whole world, but for what a machine itself counts
        found["at interfaces without a socket"] += self.machines["far"].unheard
        doubtful = 0
        for side, machine in self.machines.items():
            counts, device = machine.counted_by_switch(), self.overlay(side)
            for row in self.rows_of_losses(machine):
                if row["reason"] in NOT_FRAMES + DOUBTFUL:
                    counts[row["reason"]] -= row["frames"]
            doubtful += device["too_long"] + device["errors_out"] + device["overlay"]["parts_lost"]
            doubtful += sum(device["overlay"][name] for name in ("too_old", "other_session"))
            found.update(counts)
        found["lost by the network"] = self.wire.lost_frames()
        missing = self.record.sent - self.record.came - self.record.ignored.total()
        found.update(self.machines["near"].places.in_classes(missing - found.total()))  # of both
        found["refused by the other switch"] = min(max(0, missing - found.total()), doubtful)
        found["questions without an answer"] = max(0, min(missing - found.total(), self.record.unanswered()))
        found["lost with a switch that was killed"] = restarts.lost_with([*self.machines.values()], missing - found.total())
        self.record.account(found)
        return found

    def rows_of_losses(self, machine: Machine) -> list[dict[str, Any]]:
        """Of the overlay."""
        rows: list[dict[str, Any]] = machine.call(lambda switch: switch.ledger.rows())
        return [row for row in rows if row["port"] == LINK]

    def check_reports(self) -> None:
        """Broken: an end has not noticed how much the network has lost of what was sent to it, in its only session."""
        if any(machine.crashes for machine in self.machines.values()):
            return
        for side, other in (SIDES, SIDES[::-1]):
            here, there = self.overlay(side), self.overlay(other)
            if here["overlay"]["sessions"] == there["overlay"]["sessions"] == 1 and not here["overlay"]["too_old"]:
                lost = self.wire.lost_from(self.addresses[other].host) + there["too_long"]
                missed = here["overlay"]["lost_on_the_way"]
                unsent = there["errors_out"] + there["messages_lost"]
                if not lost <= missed <= lost + unsent:  # of the latter some have no number: greetings, probes
                    raise Broken(f"{side} misses {missed} datagrams, and {lost} were lost, and {unsent} not sent")

    def check_path(self) -> None:
        """Broken: the longest datagram is not what passes, to some bytes."""
        for side, other in (SIDES, SIDES[::-1]):
            link, here, there = self.uplinks[side], self.addresses[side].host, self.addresses[other].host
            known_mtu = self.world.network.mtu(link.space, link, there)
            path = self.world.network.paths.get((here, there))
            passes = min(known_mtu, path.mtu if path else known_mtu) - HEADERS[len(here)]
            state = self.overlay(side)["overlay"]
            if not passes - CLOSE <= state["path_bytes"] <= passes:
                raise Broken(f"{side} sends {state['path_bytes']} bytes at most, and {passes} pass")

    # ---- The network ----

    def disturb(self) -> None:
        self.troubles += 1
        self.record.disturb(WIRE, "the network")

    def calm(self) -> None:
        """Nothing is wrong with the network any more; the overlay has found that out after a while."""
        count = self.troubles

        def then() -> None:
            if self.troubles == count and not self.is_searched and not any(map(standing.is_standing, self.machines.values())):
                self.record.calm(WIRE, "the network")
                self.record.calm(WIRE, "no session")

        self.world.at(self.world.now + RECOVER_NS, then)

    @property
    def stood_ns(self) -> int:
        """For which no step was done, since a switch stood still."""
        return sum(machine.stood_ns for machine in self.machines.values())

    def mend(self) -> None:
        self.wire.calm()
        for side, link in self.uplinks.items():
            self.bring_up(side, link)
            self.world.network.go_on(link)
        self.world.network.exhausted.clear()
        self.calm()
