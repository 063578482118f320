"""No loss between the kernel and the switch.

An Edge keeps a TAP, and the UDP sockets behind it, from losing frames while the `with` lasts:

    with Edge("tap0", namespace, read_flows=rows_of_this_port, wait=hold): ...
"""

import select
import threading
from collections.abc import Callable
from typing import Any

from penstock.errors import SpecError
from penstock.units import parse_time
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.attach.ingress_rates import FlowRates, Rows
from penstock.vswitch.attach.socket_watch import SocketProbe
from penstock.vswitch.linux.htb import UNLIMITED
from penstock.vswitch.linux.netns import Place


class Edge:
    """Keeps a TAP lossless while the `with` lasts: rates for flows that the switch holds back, and waits for full sockets.

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
            given = f"look_period = {look_period}, idle_period = {idle_period}, period = {period}"
            raise SpecError(f"{given}: must be above 0, and the first at most the second")
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
        """Repeat `work` until `__exit__`; an error, such as an interface that is gone, ends it and is kept in `error`."""
        try:
            while not self.over.wait(work()):
                pass
        except Exception as e:
            self.error = e

    def step(self) -> float:
        """Update the rates of flows; returns the seconds until the next step."""
        standing, self.standing = self.standing and self.looks > 1, self.fd >= 0
        self.looks = 0
        self.rates.step(self.read_flows() if self.read_flows else (), standing)
        return self.period

    def look(self) -> float:
        """Poll the sockets; returns the seconds until the next poll, more while nothing waits in any."""
        self.standing = self.standing and bool(self.ring.poll(0))
        self.looks += 1
        self.sockets.look()
        if self.sockets.new:
            return 0.0
        return self.look_period if self.sockets.busy else self.idle_period

    def counters(self) -> dict[str, int]:
        """Counters of the edge, and what was lost in spite of it since it was opened."""
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
