"""The kernel's edges without loss: what was lost there, how full applications' sockets are, rates that make senders wait.

with Edge("tap0", namespace, read_flows=rows_of_this_port, wait=hold): ...
"""

import contextlib
import select
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from penstock.errors import PenstockError, SpecError
from penstock.units import parse_rate, parse_size, parse_time
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.attach.ingress_rates import FlowRates, Rows
from penstock.vswitch.attach.socket_watch import SocketProbe, udp_sockets
from penstock.vswitch.linux.htb import UNLIMITED
from penstock.vswitch.linux.losses import device_losses
from penstock.vswitch.linux.netlink import SOCK_DIAG, Netlink
from penstock.vswitch.linux.netns import Place, inside

# ---- How full an application's socket is ----


def occupancy(port: int, place: Place | None = None) -> tuple[int, int]:
    """Bytes that wait in the UDP sockets bound to this port (the kernel's count, overhead included), and packets they lost."""
    with Netlink(SOCK_DIAG, place) as diag:
        found = [each for each in udp_sockets(diag) if each.port == port]
    return sum(each.waiting for each in found), sum(each.lost for each in found)


class OccupancyProbe:
    """Whether frames to a UDP application should wait: above `high` bytes in its socket, until below `low`."""

    def __init__(self, port: int, high: str | int = "64KiB", low: str | int | None = None, place: Place | None = None) -> None:
        self.port, self.place = port, place
        self.high = parse_size(high, "high", positive=True)
        self.low = self.high // 2 if low is None else parse_size(low, "low")
        if self.low >= self.high:
            raise SpecError(f"low = {self.low} B: must be less than high = {self.high} B")
        self.waits = False
        self.lost = 0

    def look(self) -> bool:
        """Read the kernel's numbers again."""
        waiting, self.lost = occupancy(self.port, self.place)
        self.waits = waiting > (self.low if self.waits else self.high)
        return self.waits


# ---- A rate that makes applications wait instead of losing their packets ----


class RateFeedback:
    """A token bucket on an interface: senders block in their sockets when its queue is full.

    `follow` steers the rate so that the switch's queue comes to `goal` bytes (th_goal of Backdraft) while its receiver takes
    what it takes.
    """

    def __init__(
        self,
        device: str,
        place: Place | None = None,
        *,
        rate: str | int = "200Mbps",
        burst: str | int = "128KB",
        queue: str | int = "20MB",
        goal: str | int = "200KB",
        weight: float = 0.3,
    ) -> None:
        self.device, self.place = device, place
        self.rate = parse_rate(rate)
        self.burst = parse_size(burst, "burst", positive=True)
        self.queue = parse_size(queue, "queue", positive=True)
        self.goal = parse_size(goal, "goal", positive=True)
        if not 0 < weight <= 1:
            raise SpecError(f"weight = {weight}: must be above 0, at most 1")
        self.weight = weight
        self.served = 0.0
        self.changes = 0
        self.route: Any = None

    def __enter__(self) -> "RateFeedback":
        device_losses(self.device, self.place)
        with contextlib.suppress(ImportError):
            from pyroute2 import IPRoute  # type: ignore[import-untyped, unused-ignore]

            with inside(self.place):
                self.route = IPRoute()
                self.index = self.route.link_lookup(ifname=self.device)[0]
        self.set(self.rate)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            if self.route:
                self.route.tc("del", index=self.index, handle=0x10000, parent=0xFFFFFFFF)
            else:
                self._tc("del", "dev", self.device, "root")
        except Exception:
            if not error[0]:  # the interface may be gone by then
                with contextlib.suppress(SpecError):
                    device_losses(self.device, self.place)
                    raise
        finally:
            if self.route:
                self.route.close()

    def set(self, rate: int) -> None:
        """Bits per second from now on."""
        self.rate = max(rate, 8_000)
        self.changes += 1
        burst = max(self.burst, 65_536)  # at least one frame of 64 KB
        if self.route:
            self.route.tc(
                "replace",
                "tbf",
                index=self.index,
                handle=0x10000,
                parent=0xFFFFFFFF,
                rate=self.rate // 8,
                burst=burst,
                limit=self.queue,
            )
        else:
            self._tc(
                "replace",
                "dev",
                self.device,
                "root",
                "handle",
                "1:",
                "tbf",
                "rate",
                f"{self.rate}bit",
                "burst",
                str(burst),
                "limit",
                str(self.queue),
            )

    def follow(self, served: float, waiting: float) -> int:
        """The new rate: the receiver has taken `served` bit/s lately, `waiting` bytes are in its queue."""
        self.served = served if not self.served else (1 - self.weight) * self.served + self.weight * served
        short = max(-0.5, min(0.5, (self.goal - waiting) / self.goal))
        rate = int(self.served * (1 + 0.5 * short))
        if abs(rate - self.rate) * 50 > self.rate:  # a change below 2 % is not worth a system call
            self.set(rate)
        return self.rate

    def _tc(self, *words: str) -> None:
        if not shutil.which("tc"):
            raise PenstockError("rate feedback needs pyroute2 (pip install penstock[vswitch]) or tc (package iproute2)")
        with inside(self.place):
            done = subprocess.run(["tc", "qdisc", *words], capture_output=True, text=True)
        if done.returncode:
            raise PenstockError(f"tc qdisc {' '.join(words)}: {done.stderr.strip()}")


# ---- Both ways of one interface ----


class Edge:
    """What keeps a TAP lossless, while the `with` lasts: rates for flows that the switch holds back, and waits for full sockets.

    `read_flows()` gives the rows of Switch.flows() of the flows that come in by this interface; None: nothing is held back there.
    `fd` is the TAP: while its ring fills, because the switch itself reads too slowly, all senders wait a little.
    `wait(port, on)` is told for which local UDP ports of `place` frames should wait in the switch; `takes(port, length)` may be
    asked for every frame, and then none is lost, however fast they come; a `table` does the same for a worker.  Each has its own
    thread; without `start`, call `step` and `look`.
    """

    def __init__(
        self,
        device: str,
        place: Place | None = None,
        read_flows: Callable[[], Rows] | None = None,
        *,
        fd: int = -1,
        wait: Callable[[int, bool], None] | None = None,
        table: Allowance | None = None,
        period: str | int = "20ms",
        look_period: str | int = "1ms",
        idle_period: str | int = "5ms",
        high: float = 0.25,
        low: float = 0.125,
        **limits: Any,
    ) -> None:
        self.read_flows = read_flows
        self.period, self.look_period, self.idle_period = (
            parse_time(value, name) / 1e12
            for value, name in ((period, "period"), (look_period, "look_period"), (idle_period, "idle_period"))
        )
        if not 0 < self.look_period <= self.idle_period or self.period <= 0:
            raise SpecError(
                f"look_period = {look_period}, idle_period = {idle_period}, period = {period}: must be above 0, and "
                "the first at most the second"
            )
        self.rates = FlowRates(device, place, **limits)
        try:
            self.sockets = SocketProbe(place, wait, high=high, low=low, table=table)
        except BaseException:
            self.rates.htb.route.close()
            raise
        self.takes = self.sockets.takes
        self.ring = select.poll()
        if fd >= 0:
            self.ring.register(fd, select.POLLIN)
        self.fd, self.standing, self.looks = fd, False, 0  # `standing` until a look finds nothing to read
        self.error: BaseException | None = None
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> "Edge":
        self.open()
        return self.start()

    def open(self) -> None:
        """Without threads: for those who call `step` and `look` themselves."""
        self.rates.__enter__()

    def start(self) -> "Edge":
        works = [(self.look, "sockets")] + ([(self.step, "rates")] if self.read_flows or self.fd >= 0 else [])
        self.threads = [threading.Thread(target=self._repeat, args=(work,), name=name, daemon=True) for work, name in works]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()
        self.sockets.close()
        self.rates.__exit__(*error)

    def _repeat(self, work: Callable[[], float]) -> None:
        """Until it is over; an interface that has gone ends it, and `error` says so."""
        try:
            while not self.over.wait(work()):
                pass
        except Exception as e:
            self.error = e

    def step(self) -> float:
        """Set the rates of flows; how long it is until the next time."""
        standing, self.standing = self.standing and self.looks > 1, self.fd >= 0
        self.looks = 0
        self.rates.step(self.read_flows() if self.read_flows else (), standing)
        return self.period

    def look(self) -> float:
        """Look at the sockets; how long it is until the next time: longer while nothing waits in any."""
        self.standing = self.standing and bool(self.ring.poll(0))
        self.looks += 1
        self.sockets.look()
        if self.sockets.new:
            return 0.0
        return self.look_period if self.sockets.busy else self.idle_period

    def counters(self) -> dict[str, int]:
        """What the edge does, and what was lost in spite of it since it was opened."""
        return {
            "classes": len(self.rates.held),
            "classes_opened": self.rates.opened,
            "rate_changes": self.rates.changes,
            "crowded": self.rates.crowded,
            "rest_limited": int(self.rates.rest_rate < UNLIMITED),
            "waiting_ports": len(self.sockets.waits),
            "looks": self.sockets.looks,
            "waits": self.sockets.changes,
            "socket_lost": self.sockets.lost,
            "class_dropped": self.rates.dropped,
            "tx_dropped": self.rates.htb.outgoing().dropped,
        }
