"""No loss between the kernel and the switch.

An Edge keeps a TAP, and the UDP sockets behind it, from losing frames while the `with` lasts:

    with Edge("tap0", namespace, read_flows=rows_of_this_port, table=allowance_that_the_worker_keeps_to): ...

One thread serves the edges of a process.  It sleeps until a worker raises an alarm, or an edge has something to do at a time.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock.errors import SpecError
from penstock.units import parse_time
from penstock.vswitch.attach.allowance import Allowance
from penstock.vswitch.attach.ingress_rates import FlowRates, Rows
from penstock.vswitch.attach.socket_watch import SocketProbe
from penstock.vswitch.linux.htb import UNLIMITED
from penstock.vswitch.linux.netns import Place
from penstock.vswitch.linux.scheduling import hasten_thread

LEAST_STEP_S = 0.002  # between two updates of rates
SETTLING_S = 0.005  # after a flow got a class, whose rate was known for a few frames only; or the device was first seen busy
HASTE = 10  # steps of nice by which the thread goes before others: it works little, and what it is late for is lost or waits
SHARE = 0.06  # of a processor, for looks and as much for steps: when all are busy, those who read the sockets need the rest
NEVER = float("inf")


class Rest:
    """How long a kind of work waits so that it takes at most SHARE of a processor; of a thread."""

    def __init__(self) -> None:
        self.until = self.spent = 0.0  # time.monotonic(); s of processor time since the rest before

    def begin(self, now: float) -> None:
        """Of a round in which everything that is due is done: whether this kind may be."""
        self.over, self.spent = now >= self.until, 0.0

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Work of this kind."""
        began = time.thread_time()
        yield
        self.spent += time.thread_time() - began

    def end(self) -> None:
        if self.over:
            self.until = time.monotonic() + self.spent / SHARE


class Edge:
    """Keeps a TAP lossless while the `with` lasts: rates for flows that the switch holds back, and waits for full sockets.

    `read_flows()` gives the rows of Switch.held_flows() of the flows that come in by this interface; None: nothing is held back.
    The worker that drives the TAP keeps to the `table` and raises its alarm; another switch asks `takes(port, length)` before it
    sends a frame, and calls `press()` when a flow begins to hold much.
    """

    def __init__(
        self,
        device: str,
        place: Place | None = None,
        read_flows: Callable[[], Rows] | None = None,
        *,
        table: Allowance | None = None,
        period: str | int = "20ms",
        **limits: Any,
    ) -> None:
        self.read_flows = read_flows
        self.period = parse_time(period, "period") / 1e12
        if self.period <= 0:
            raise SpecError(f"period = {period}: must be above 0")
        self.rates = FlowRates(device, place, **limits)
        try:
            self.sockets = SocketProbe(place, table)
        except BaseException:
            self.rates.htb.route.close()
            raise
        self.table = self.sockets.table
        self.takes, self.press = self.sockets.takes, self.sockets.rooms.press
        self.look_at = self.step_at = self.stepped_at = NEVER  # time.monotonic(); the last: of the last step
        self.pressed = self.busy_since = 0  # as last seen in the table
        self.steps = self.wakes = 0
        self.ended = False
        self.error: BaseException | None = None
        self.lock = threading.Lock()  # held while the edge works

    def __enter__(self) -> "Edge":
        self.open()
        return self.start()

    def open(self) -> None:
        """Without the thread: for those who call `step` and `look` themselves."""
        self.rates.__enter__()

    def start(self) -> "Edge":
        """Let the thread of the edges serve this one."""
        now = time.monotonic()
        self.look_at, self.stepped_at = now, now - LEAST_STEP_S
        THREAD.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        THREAD.remove(self)
        self.sockets.close()
        self.rates.__exit__(*error)

    # ---- In the thread ----

    def serve(self, alarmed: bool, looks: Rest, steps: Rest) -> None:
        """Do what is due; `alarmed`: the alarm was raised.

        Looks do not wait for steps, which cost some twenty times as much: frames wait for them.  During the rest of steps only a
        flow that holds much is answered: what comes in beyond its bound is lost.
        """
        with self.lock:
            if alarmed and not self.ended:
                self.wake()
            try:
                now = time.monotonic()
                if self.look_at <= now and looks.over:
                    with looks.counted():
                        self.look()
                if self.step_at <= now and (steps.over or self.is_pressed):
                    with steps.counted():
                        self.step()
            except Exception as error:  # such as an interface that is gone
                self.error = error
                self.end()

    def due(self, looks: Rest, steps: Rest) -> float:
        """When `serve` has something to do, if no alarm is raised."""
        return min(max(self.look_at, looks.until), self.step_at if self.is_pressed else max(self.step_at, steps.until))

    @property
    def is_pressed(self) -> bool:
        """Whether a flow has begun to hold much since the last step."""
        return self.pressed != int(self.table.pressed[0])

    def wake(self) -> None:
        """Answer the alarm."""
        self.wakes += 1
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.table.alarm)
        now = time.monotonic()
        if self.sockets.rooms.answer():
            self.look_at = now
        if self.is_pressed:
            self.step_at = min(self.step_at, max(now, self.stepped_at + LEAST_STEP_S))

    def end(self) -> None:
        """Nothing has limits any longer, and nothing is done."""
        self.ended = True
        self.table.free()
        self.look_at = self.step_at = NEVER

    def look(self) -> None:
        """Look at the sockets."""
        after = self.sockets.look()
        self.look_at = NEVER if after is None else time.monotonic() + after

    def step(self) -> None:
        """Update the rates of flows."""
        self.steps += 1
        opened, busy_before = self.rates.opened, self.busy_since
        self.pressed, self.busy_since = int(self.table.pressed[0]), int(self.table.busy_since[0])
        standing = self.busy_since != 0 and self.busy_since == busy_before
        self.rates.step(self.read_flows() if self.read_flows else (), standing)
        self.stepped_at = time.monotonic()
        if self.rates.opened > opened or (self.busy_since and not standing):
            self.step_at = self.stepped_at + min(SETTLING_S, self.period)
        elif self.busy_since or not self.rates.content:
            self.step_at = self.stepped_at + self.period
        else:
            self.step_at = NEVER

    def counters(self) -> dict[str, int]:
        """Counters of the edge, and what was lost in spite of it since it was opened."""
        return {
            "classes": len(self.rates.held),
            "classes_opened": self.rates.opened,
            "rate_changes": self.rates.changes,
            "crowded": self.rates.crowded,
            "rest_limited": int(self.rates.rest_rate < UNLIMITED),
            "waiting_ports": self.sockets.rooms.full,
            "wakes": self.wakes,
            "looks": self.sockets.looks,
            "steps": self.steps,
            "waits": self.sockets.rooms.episodes,
            "socket_lost": self.sockets.rooms.lost,
            "class_dropped": self.rates.dropped,
            "tx_dropped": self.rates.htb.outgoing().dropped,
        }


class EdgeThread:
    """The thread that serves all edges of this process; there is one while there is an edge."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.edges: dict[int, Edge] = {}  # by the descriptor of the alarm
        self.epoll: select.epoll | None = None
        self.changed = -1  # an eventfd

    def add(self, edge: Edge) -> None:
        with self.lock:
            if self.epoll is None:
                self.epoll, self.changed = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                self.epoll.register(self.changed, select.EPOLLIN)
                threading.Thread(target=self._serve, args=(self.epoll, self.changed), name="edge", daemon=True).start()
            self.edges[edge.table.alarm] = edge
            self.epoll.register(edge.table.alarm, select.EPOLLIN)
            os.eventfd_write(self.changed, 1)

    def remove(self, edge: Edge) -> None:
        """It is not served any longer, and no work of it is going on."""
        with self.lock:
            if self.epoll is not None and edge.table.alarm in self.edges:
                del self.edges[edge.table.alarm]
                self.epoll.unregister(edge.table.alarm)
                os.eventfd_write(self.changed, 1)
                if not self.edges:
                    self.epoll = None  # the thread closes it
        with edge.lock:
            edge.end()

    def _serve(self, epoll: select.epoll, changed: int) -> None:
        hasten_thread(HASTE)
        timeout: float | None = None
        looks, steps = Rest(), Rest()
        while True:
            ready = {fd for fd, _ in epoll.poll(timeout)}
            with self.lock:
                if self.epoll is not epoll:
                    break
                edges = list(self.edges.items())
            if changed in ready:
                os.eventfd_read(changed)
            now = time.monotonic()
            looks.begin(now)
            steps.begin(now)
            for fd, edge in edges:
                if fd in ready or edge.due(looks, steps) <= now:
                    edge.serve(fd in ready, looks, steps)
                if edge.error:
                    self.remove(edge)
            looks.end()
            steps.end()
            due = min((edge.due(looks, steps) for _, edge in edges), default=NEVER)
            timeout = None if due == NEVER else max(0.0, due - time.monotonic())
        epoll.close()
        os.close(changed)


THREAD = EdgeThread()
