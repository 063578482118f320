"""Prevents frame loss between the kernel and the switch.

An Edge keeps a TAP, and the UDP sockets behind it, from losing frames while the `with` lasts:

    with Edge("tap0", namespace, read_flows=rows_of_this_port, table=allowance_that_the_worker_keeps_to): ...

Two threads serve the edges of a process: one looks at sockets, the other updates rates.  They sleep until a worker raises an
alarm, or an edge has something to do at a time.
"""

import contextlib
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.units import parse_time
from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.attach.ingress_rates import FlowRates, Rows
from penstock_net.vswitch.attach.senders import Senders
from penstock_net.vswitch.attach.socket_watch import SocketProbe
from penstock_net.vswitch.linux.htb import UNLIMITED
from penstock_net.vswitch.linux.netns import NetNs, enter
from penstock_net.vswitch.linux.scheduling import hasten_thread
from penstock_net.vswitch.linux.set_up import Interface
from penstock_net.vswitch.world import os, select, threading, time

LEAST_STEP_S = 0.002  # between two updates of rates
SETTLING_S = 0.005  # after a flow got a class, whose rate was known for a few frames only; or the device was first seen busy
LOOKS, STEPS = 0.06, 0.03  # shares of a processor: when all are busy, those who read the sockets need the rest
NEVER = float("inf")
SERIALS = itertools.count(1)


class Rest:
    """Limits the work of a thread to a share of a processor, by pauses."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.until = self.spent = 0.0  # time.monotonic(); s of processor time since the rest before

    def begin(self, now: float) -> None:
        """Whether work may run in the present round."""
        self.over, self.spent = now >= self.until, 0.0

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Measure a piece of work."""
        began = time.thread_time()
        yield
        self.spent += time.thread_time() - began

    def end(self) -> None:
        if self.over:
            self.until = time.monotonic() + self.spent / self.share


class Dues:
    """When each edge has something to do: a thread that wakes deals with those whose time has come, however many there are."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}  # time.monotonic(), by the descriptor of the alarm
        self.heap: list[tuple[float, int]] = []  # also times that are not an edge's any longer
        self.serials: dict[int, int] = {}  # of the edges

    def follow(self, edges: Mapping[int, "Edge"]) -> list[int]:
        """Deal with these edges and no others from now on; those that were begun since, each of which is to be set."""
        before, self.serials = self.serials, {fd: edge.serial for fd, edge in edges.items()}
        for fd in before.keys() - self.serials.keys():
            self.at.pop(fd, None)
        return [fd for fd, serial in self.serials.items() if before.get(fd) != serial]

    def set(self, fd: int, at: float) -> None:
        """An edge is due at a time, and no more at the one that it had before."""
        if self.at.get(fd, NEVER) == at:
            return
        self.at[fd] = at
        if at != NEVER:
            heapq.heappush(self.heap, (at, fd))

    def take(self, now: float) -> list[int]:
        """Those that are due; each is to be set again."""
        found = []
        while self.heap and self.heap[0][0] <= now:
            at, fd = heapq.heappop(self.heap)
            if self.at.get(fd) == at:
                del self.at[fd]
                found.append(fd)
        return found

    @property
    def first(self) -> float:
        """The time of the next one."""
        while self.heap and self.at.get(self.heap[0][1]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else NEVER


class Edge:
    """Keeps a TAP lossless while the `with` lasts: rates for flows that the switch holds back, budgets for UDP sockets.

    `read_flows()` gives the rows of Switch.held_flows() of the flows that come in by this interface; None: nothing is held back.
    The worker that drives the TAP keeps to the `table` and raises its alarm; another switch asks `takes(port, length)` before it
    sends a frame, and calls `press()` when a flow begins to hold much.
    """

    def __init__(
        self,
        device: str,
        namespace: NetNs | None = None,
        read_flows: Callable[[], Rows] | None = None,
        *,
        table: Allowance | None = None,
        period: str | int = "50ms",
        goes_on: bool = False,
        interface: Interface | None = None,
        **limits: Any,
    ) -> None:
        """goes_on: with the limits of another process, see `take`; interface: the device, which stays open for as long."""
        self.read_flows = read_flows
        self.period = parse_time(period, "period") / 1e12
        if self.period <= 0:
            raise SpecError(f"period = {period}: must be above 0")
        with enter(namespace), contextlib.ExitStack() as on_failure:
            self.sockets = SocketProbe(None, table, goes_on)
            on_failure.callback(self.sockets.close)
            self.table = self.sockets.table
            self.rates = FlowRates(device, interface=interface, **limits)
            on_failure.callback(self.rates.htb.close)
            self.senders = self.rates.senders = Senders(self.rates.htb.index, None, self.table)
            on_failure.pop_all()
        self.takes, self.press, self.wake_worker_by = self.sockets.takes, self.sockets.rooms.press, self.sockets.rooms.wake
        self.serial = 0  # another one whenever it is begun
        self.look_at = self.step_at = self.stepped_at = NEVER  # time.monotonic(); the last: of the last step
        self.pressed = self.busy_since = 0  # as last seen in the table
        self.steps = self.wakes = 0
        self.waits_before = self.lost_before = 0  # in another process
        self.ended = self.resting = False
        self.error: BaseException | None = None
        self.looking, self.stepping = threading.Lock(), threading.Lock()  # held while it does

    def __enter__(self) -> "Edge":
        self.open()
        return self.start()

    def open(self) -> None:
        """Open it without the threads, for callers that call `step` and `look` themselves.  What fails leaves nothing open."""
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.abandon)
            self.rates.__enter__()
            on_failure.pop_all()

    def start(self) -> "Edge":
        """Have the threads of the edges serve it."""
        start_all([self])
        return self

    def begin(self) -> None:
        """Look, once it is served."""
        now = time.monotonic()
        self.look_at, self.stepped_at, self.resting, self.serial = now, now - LEAST_STEP_S, False, next(SERIALS)

    # ---- Handing it over to another process ----

    def rest(self) -> None:
        """Do no more work, but leave all limits as they are, until `start`."""
        THREADS.leave(self)
        with self.looking, self.stepping:
            self.resting = True

    def state(self) -> dict[str, Any]:
        """What another process goes on with, of an edge that rests; what its sockets have lost until now is counted."""
        self.look()
        counts = {"steps": self.steps, "wakes": self.wakes, "looks": self.sockets.looks, "waits": self.waits}
        return {"counts": counts, "losses": self.losses(), "rates": self.rates.state()}

    def take(self, state: Mapping[str, Any]) -> None:
        """Go on with the limits that another process has set, and with its counts, while nothing is sent; then `start` it."""
        self.sockets.rooms.begin()
        counts = state["counts"]
        self.steps, self.wakes, self.sockets.looks = counts["steps"], counts["wakes"], counts["looks"]
        self.waits_before, self.lost_before = counts["waits"], state["losses"]["socket_lost"]
        self.rates.take(state["rates"])
        self.step_at = time.monotonic()

    def abandon(self) -> None:
        """Close it, and leave all limits as they are."""
        self.sockets.diag.close()
        self.senders.close()
        self.rates.htb.close()

    def __exit__(self, *error: object) -> None:
        THREADS.remove(self)
        self.sockets.close()
        self.senders.close()
        self.rates.__exit__(*error)

    # ---- In the threads ----

    def serve_sockets(self, alarmed: bool, looks: Rest) -> None:
        """Answer the alarm, if it was raised, and look at the sockets if that is due."""
        with self.looking, self.ends_on_error():
            if self.resting:
                return
            if alarmed and not self.ended:
                self.wake()
            if self.look_at <= time.monotonic() and looks.over:
                with looks.counted():
                    self.look()

    def serve_rates(self, steps: Rest) -> None:
        """Update the rates if that is due.

        While steps rest, only a flow that holds much gets one, since its frames beyond its bound are lost.
        """
        with self.stepping, self.ends_on_error():
            if not self.resting and self.step_at <= time.monotonic() and (steps.over or self.is_pressed):
                with steps.counted():
                    self.step()

    @contextlib.contextmanager
    def ends_on_error(self) -> Iterator[None]:
        """End the edge with an error of its work, such as that of an interface that is gone."""
        try:
            yield
        except Exception as error:
            self.error = error
            self.end()

    def look_due(self, looks: Rest) -> float:
        """Time at which `serve_sockets` is due without an alarm."""
        return max(self.look_at, looks.until)

    def step_due(self, steps: Rest) -> float:
        """Time at which `serve_rates` is due."""
        return self.step_at if self.is_pressed else max(self.step_at, steps.until)

    @property
    def is_pressed(self) -> bool:
        """Whether a flow has exceeded its bound of held bytes since the last step."""
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
        """Lift all limits and stop working."""
        self.ended = True
        self.table.free()
        self.sockets.rooms.tell()
        self.look_at = self.step_at = NEVER

    def look(self) -> None:
        """Read the fill of the UDP sockets and update their budgets."""
        after = self.sockets.look()
        self.look_at = NEVER if after is None else time.monotonic() + after

    def step(self) -> None:
        """Update the rates of flows."""
        self.steps += 1
        opened, busy_before = self.rates.opened, self.busy_since
        self.pressed, self.busy_since = int(self.table.pressed[0]), int(self.table.busy_since[0])
        standing = self.busy_since != 0 and self.busy_since == busy_before
        self.rates.step(self.read_flows() if self.read_flows else (), standing, self.busy_since != 0)
        self.stepped_at = time.monotonic()
        if self.rates.opened > opened or (self.busy_since and not standing):
            self.step_at = self.stepped_at + min(SETTLING_S, self.period)
        elif self.busy_since or not self.rates.content:
            self.step_at = self.stepped_at + self.period
        else:
            self.step_at = NEVER
        if self.is_pressed:  # since the step began
            self.step_at = min(self.step_at, self.stepped_at + LEAST_STEP_S)

    def losses(self) -> dict[str, int]:
        """Frames lost in spite of the edge, which can be read after its interface has gone, too."""
        return {"socket_lost": self.lost_before + self.sockets.rooms.lost, "class_dropped": self.rates.dropped}

    @property
    def waits(self) -> int:
        return self.waits_before + int(self.sockets.rooms.episodes)

    def counters(self) -> dict[str, int]:
        """Counters of the edge, and the frames lost in spite of it since it was opened."""
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
            "waits": self.waits,
            **self.losses(),
            "tx_dropped": self.rates.htb.outgoing().dropped,
        }


class EdgeThreads:
    """The threads that serve all edges of this process; there are two while there is an edge.

    Frames wait for looks.  These do not wait for steps, which cost some ten times as much and wait for the kernel's RTNL lock.
    The thread of the steps has a usual time slice: with a short one it took the processor from applications for a millisecond.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.edges: dict[int, Edge] = {}  # by the descriptor of the alarm; another one after each change
        self.epoll: select.epoll | None = None
        self.changed = -1  # an eventfd
        self.stirred = threading.Event()  # a step may be due earlier than before
        self.pressed: deque[int] = deque()  # edges for whose flows it may be

    def add(self, *edges: Edge) -> None:
        """Serve edges: each change costs as much as there are, so that many are added at once."""
        with self.lock:
            if self.epoll is None:
                self.epoll, self.changed = select.epoll(), os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                self.epoll.register(self.changed, select.EPOLLIN)
                self.stirred = threading.Event()
                looks, steps = (self.epoll, self.changed, self.stirred), (self.epoll, self.stirred)
                threading.Thread(target=self._look, args=looks, name="edge", daemon=True).start()
                threading.Thread(target=self._step, args=steps, name="edge rates", daemon=True).start()
            self.edges = {**self.edges, **{edge.table.alarm: edge for edge in edges}}
            for edge in edges:
                self.epoll.register(edge.table.alarm, select.EPOLLIN)
            os.eventfd_write(self.changed, 1)
            self.stirred.set()

    def remove(self, *edges: Edge) -> None:
        """Stop serving edges, and wait for their work in progress."""
        self.leave(*edges)
        for edge in edges:
            with edge.looking, edge.stepping:
                edge.end()

    def leave(self, *edges: Edge) -> None:
        """Stop serving edges, without waiting."""
        with self.lock:
            left = {edge.table.alarm for edge in edges} & self.edges.keys()
            if self.epoll is not None and left:
                self.edges = {fd: each for fd, each in self.edges.items() if fd not in left}
                for fd in left:
                    self.epoll.unregister(fd)
                os.eventfd_write(self.changed, 1)
                if not self.edges:
                    self.epoll = None  # the threads end, and close it
                self.stirred.set()  # neither keeps what it served

    def _edges(self, epoll: select.epoll) -> dict[int, Edge] | None:
        """The edges to be served; None: the threads that have this set end."""
        with self.lock:
            return self.edges if self.epoll is epoll else None

    def _look(self, epoll: select.epoll, changed: int, stirred: threading.Event) -> None:
        hasten_thread(0)
        timeout: float | None = None
        looks, dues, known = Rest(LOOKS), Dues(), dict[int, Edge]()
        while True:
            ready = {fd for fd, _ in epoll.poll(timeout)}
            if changed in ready:
                os.eventfd_read(changed)  # before it is asked what has changed: what changes after that wakes this thread again
            edges = self._edges(epoll)
            if edges is None:
                break
            if edges is not known:
                known = edges
                for fd in dues.follow(edges):
                    dues.set(fd, edges[fd].look_due(looks))
            now = time.monotonic()
            looks.begin(now)
            for fd in ready.union(dues.take(now) if looks.over else ()) & edges.keys():
                if self._look_at(edges[fd], fd in ready, looks):
                    self.pressed.append(fd)
                    stirred.set()
                dues.set(fd, edges[fd].look_due(looks))
            looks.end()
            due = max(dues.first, looks.until)
            timeout = None if dues.first == NEVER else max(0.0, due - time.monotonic())
        epoll.close()
        os.close(changed)

    def _look_at(self, edge: Edge, alarmed: bool, looks: Rest) -> bool:
        """Whether it is pressed.  Not part of the thread's loop: while that waits, it would keep the edge, and its table."""
        edge.serve_sockets(alarmed, looks)
        if edge.error:
            self.remove(edge)
        return edge.is_pressed

    def _step_at(self, edge: Edge, steps: Rest) -> None:
        edge.serve_rates(steps)
        if edge.error:
            self.remove(edge)

    def _step(self, epoll: select.epoll, stirred: threading.Event) -> None:
        timeout: float | None = None
        steps, dues, known = Rest(STEPS), Dues(), dict[int, Edge]()
        while True:
            stirred.wait(timeout)
            stirred.clear()
            edges = self._edges(epoll)
            if edges is None:
                break
            if edges is not known:
                known = edges
                for fd in dues.follow(edges):
                    dues.set(fd, edges[fd].step_due(steps))
            while self.pressed:
                if (fd := self.pressed.popleft()) in edges:
                    dues.set(fd, edges[fd].step_due(steps))
            now = time.monotonic()
            steps.begin(now)
            for fd in dues.take(now):
                if edges[fd].step_due(steps) <= now:
                    self._step_at(edges[fd], steps)
                dues.set(fd, edges[fd].step_due(steps))
            steps.end()
            for fd in dues.take(steps.until):  # those of flows that hold much do not rest
                dues.set(fd, edges[fd].step_due(steps))
            timeout = None if dues.first == NEVER else max(0.0, dues.first - time.monotonic())


THREADS = EdgeThreads()


def start_all(edges: Sequence[Edge]) -> None:
    """Have the threads of the edges serve these."""
    for edge in edges:
        edge.begin()
    if edges:
        THREADS.add(*edges)
