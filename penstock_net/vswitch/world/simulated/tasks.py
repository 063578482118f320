"""Threads and processes of the simulated kernel: one runs at a time, until it waits, or asks the world and another one is drawn.

Each is a greenlet: a stack of its own, which stands still while another one runs, also in the middle of compiled code. So the
loops of the switch run as they are, and the order in which they run is the seed's: a turn ends only where the world is asked.
"""

import contextlib
import math
import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import greenlet

from penstock_net.errors import PenstockError
from penstock_net.vswitch.world.simulated.descriptors import File

if TYPE_CHECKING:
    from penstock_net.vswitch.world.simulated.kernel import Simulated

NANO = 1_000_000_000
FIRST_PID = 100
BUSY_NS = 100_000_000  # in which there may be so many waits
YIELDS = 0.15  # of the calls that ask the world after which another task is drawn


class Stuck(PenstockError):
    """Somebody waits for what can never happen."""


class Busy(PenstockError):
    """The threads do more than they should have to do."""


class Killed(BaseException):
    """Raised in the tasks of a process that was killed."""


class Task:
    """A thread, or the first one of a process."""

    def __init__(self, name: str, pid: int) -> None:
        self.name, self.pid = name, pid
        self.space: Any = None  # the namespace that it is in
        self.until: float = 0.0  # ready then
        self.is_over: Callable[[], bool] = never
        self.files: Sequence[File | Event] = ()  # that it waits for: `is_over` is asked when something has happened to one
        self.told = True
        self.killed = self.ended = False
        self.thread: Thread | None = None
        self.stack = greenlet.getcurrent()  # of the first task; others get their own


class Process(File):
    """A process; a descriptor of it becomes readable when it has ended."""

    def __init__(self, pid: int, space: Any, started: int) -> None:
        super().__init__()
        self.pid, self.ended_ = pid, False
        self.space, self.started = space, started  # where its first thread is; a number that no other one has
        self.environment: dict[str, str] = {}
        self.status = 0  # with which it has ended

    def ready(self) -> int:
        return select.EPOLLIN if self.ended_ else 0

    def end(self) -> None:
        self.ended_ = True
        self.happened(select.EPOLLIN)


def never() -> bool:
    """Of who waits for a time alone: nobody asks."""
    return False


class Tasks:
    """All tasks; the first is the one in which the world was made."""

    def __init__(self, world: "Simulated") -> None:
        self.world, self.random = world, world.random.random
        self.first = self.current = Task("first", FIRST_PID)
        self.all = [self.first]
        self.stopped: list[Task] = []  # tasks of processes that have ended where they were
        self.processes = {FIRST_PID: Process(FIRST_PID, None, 0)}
        self.standing: dict[int, Callable[[], None]] = {}  # processes that get no processor; what is called when one does
        self.errno = 0  # of the last call of the C library
        self.failure: BaseException | None = None  # of a task, or of all
        self.waits = self.most_waits = 0  # the latter: in BUSY_NS; 0: without limit
        self.waits_before, self.busy_since = 0, world.now  # of the present time

    # ---- What is there ----

    def settle(self, space: Any) -> None:
        """The first task is in this namespace, and all that come of it."""
        self.first.space = self.processes[FIRST_PID].space = space
        self.world.spaces.keep(self.world.spaces.keep(space))

    def process(self, name: str, run: Callable[[], object], space: Any = None) -> Task:
        """Start a process, in a namespace; None: in that of who starts it."""
        space = space or self.current.space
        return self.start(name, run, self.hold(space), space)

    def hold(self, space: Any, pid: int = 0) -> int:
        """A process in a namespace, which does nothing until it is ended; pid: of one that has ended, which is used again."""
        pid = pid or max(self.processes) + 1
        self.world.count += 1
        self.processes[pid] = Process(pid, self.world.spaces.keep(space), self.world.count)
        return pid

    def start(self, name: str, run: Callable[[], object], pid: int, space: Any = None) -> Task:
        """Start a thread of a process."""
        if self.current.ended:  # see `unwind`
            raise Killed
        task = Task(name, pid)
        task.until, task.space = -1.0, self.world.spaces.keep(space or self.current.space)
        self.all.append(task)
        task.stack = greenlet.greenlet(lambda *_: self._run(task, run), self.first.stack)
        return task

    def _run(self, task: Task, run: Callable[[], object]) -> None:
        try:
            if not task.killed:
                run()
        except BaseException as error:
            if not task.killed:
                self.failed(error)
        del run
        if task in self.stopped:  # see `unwind`
            return
        task.ended = True
        self.all.remove(task)
        self.world.spaces.leave(task.space)
        if not any(other.pid == task.pid for other in self.all):
            self.end(task.pid)
        self.current = self._chosen()
        task.stack.parent = self.current.stack  # which goes on when this function is left

    def end(self, pid: int) -> None:
        """A process has ended: what it had open is closed."""
        if not self.processes[pid].ended_:
            self.processes[pid].end()
            self._go_on(pid, self.standing.get(pid))
            self.world.table.close_of(pid)
            self.world.spaces.leave(self.processes[pid].space)

    def kill(self, pid: int) -> None:
        """End a process where it is; its threads do nothing any more."""
        for task in self.all:
            task.killed |= task.pid == pid
        self.end(pid)

    def stop(self, pid: int, status: int) -> None:
        """End a process where it is, for good: its threads stand still, and not even what a killed one cleans up is done."""
        if self.current.ended:
            raise Killed
        for task in [task for task in self.all if task.pid == pid]:
            if task is not self.current:
                for file in task.files:
                    file.sleepers.remove(task)
            self.all.remove(task)
            self.stopped.append(task)
            task.killed = task.ended = True
            self.world.spaces.leave(task.space)
        self.processes[pid].status = status
        self.end(pid)
        if self.current.pid == pid:
            self.current = self._chosen()
            self.current.stack.switch()

    def unwind(self) -> None:
        """Free what processes hold that were stopped; whatever else they ask the world, which has come to its end, fails.

        Compiled loops, which cannot be told that they have ended, must come back by themselves.
        """
        before = self.current
        for task in self.stopped:
            self.current = task
            with contextlib.suppress(Killed):
                task.stack.throw(Killed)
        self.current = before

    # ---- Who runs ----

    def stand(self, pid: int, ns: int, again: Callable[[], None]) -> None:
        """A process gets no processor for a time; `again` is called when it has one, or has ended."""
        self.standing[pid] = again
        self.world.at(self.world.now + ns, lambda: self._go_on(pid, again))

    def _go_on(self, pid: int, again: Callable[[], None] | None) -> None:
        if again is not None and self.standing.get(pid) is again:
            del self.standing[pid]
            again()

    def wait(self, until: float, is_over: Callable[[], bool], files: "Sequence[File | Event]" = ()) -> None:
        """Let others run, and time pass, until something is so, or until then.  Stuck: neither will come.

        files  those that `is_over` depends on: it is asked now, and after each time that one says that something has happened
        """
        task = self.current
        if task.ended:
            raise Killed
        task.until, task.is_over, task.files, task.told = until, is_over, files, is_over is not never
        for file in files:
            file.sleepers.append(task)
        self.waits += 1
        if self.most_waits and self.waits - self.waits_before > self.most_waits:
            self._look_who_is_busy(task)
        if len(self.all) > 1:
            self.world.now += 100 + int(900 * self.random())  # what it has done until now takes time
        chosen = self._chosen()
        if chosen is not task:
            self.current = chosen
            chosen.stack.switch()
        for file in files:
            file.sleepers.remove(task)
        if task is self.first and self.failure:
            error, self.failure = self.failure, None
            raise error
        if task.killed:
            raise Killed

    def _look_who_is_busy(self, task: Task) -> None:
        """So many waits again: Busy if that was in less than BUSY_NS."""
        passed, self.waits_before, self.busy_since = self.world.now - self.busy_since, self.waits, self.world.now
        if passed < BUSY_NS:
            self.failed(Busy(f"the threads have waited {self.most_waits} times in {passed / 1e6:.1f} ms, now {task.name}"))

    def maybe_pass(self) -> None:
        """Let another task run, perhaps: where the world is asked for something that takes no time."""
        if len(self.all) > 1 and not self.current.killed and self.random() < YIELDS:
            self.wait(0.0, never)

    def failed(self, error: BaseException) -> None:
        """The first task is told, which ends the run."""
        self.failure = self.failure or error
        self.first.until = 0.0

    def _chosen(self) -> Task:
        """The task that runs next. If there is none, time passes."""
        world, planned, standing = self.world, self.world.planned, self.standing
        while True:
            while planned and planned[0][0] <= world.now:
                world.happen()
            now, due = world.now, math.inf
            ready: list[Task] = []
            for task in self.all:
                if standing and task.pid in standing and not task.killed:
                    continue
                until = task.until
                if until <= now or task.killed:
                    ready.append(task)
                    continue
                if task.told:
                    if task.is_over():
                        ready.append(task)
                    elif task.files:
                        task.told = False
                if until < due:
                    due = until
            if len(ready) == 1:
                return ready[0]
            if ready:
                return ready[int(len(ready) * self.random())]
            if planned and planned[0][0] <= due:
                world.happen()
            elif math.isinf(due):
                waiting = ", ".join(task.name for task in self.all)
                self.failed(Stuck(f"a wait without an end, and nothing is planned: {waiting}"))
            else:
                world.now = max(now, math.ceil(due))


# ---- The module `threading` ----


class Lock:
    """threading.Lock."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks, self.held = tasks, False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            self.tasks.maybe_pass()
        if blocking and self.held:
            end = math.inf if timeout < 0 else self.tasks.world.now + timeout * NANO
            self.tasks.wait(end, lambda: not self.held)
        if self.held:
            return False
        self.held = True
        return True

    def release(self) -> None:
        if not self.held:
            raise RuntimeError("release unlocked lock")
        self.held = False

    def locked(self) -> bool:
        return self.held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Event:
    """threading.Event."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks, self.is_set_ = tasks, False
        self.sleepers: list[Task] = []

    def is_set(self) -> bool:
        return self.is_set_

    def set(self) -> None:
        self.is_set_ = True
        for task in self.sleepers:
            task.told = True

    def clear(self) -> None:
        self.is_set_ = False

    def wait(self, timeout: float | None = None) -> bool:
        end = math.inf if timeout is None else self.tasks.world.now + timeout * NANO
        self.tasks.wait(end, self.is_set, [self])
        return self.is_set_


class Condition:
    """threading.Condition."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks, self.lock = tasks, Lock(tasks)
        self.waiting: list[list[bool]] = []

    def __enter__(self) -> bool:
        return self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        told = [False]
        self.waiting.append(told)
        self.lock.release()
        end = math.inf if timeout is None else self.tasks.world.now + timeout * NANO
        self.tasks.wait(end, lambda: told[0])
        if not told[0]:
            self.waiting.remove(told)
        self.lock.acquire()
        return told[0]

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end = math.inf if timeout is None else self.tasks.world.now + timeout * NANO
        while not (found := predicate()):
            left = (end - self.tasks.world.now) / NANO
            if left <= 0:
                break
            self.wait(None if math.isinf(left) else left)
        return found

    def notify(self, count: int = 1) -> None:
        for told in self.waiting[:count]:
            told[0] = True
        del self.waiting[:count]

    def notify_all(self) -> None:
        self.notify(len(self.waiting))


class Thread:
    """threading.Thread."""

    def __init__(
        self,
        tasks: Tasks,
        target: Callable[..., object],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str = "thread",
        daemon: bool = False,
    ) -> None:
        self.tasks, self.name, self.daemon = tasks, name, daemon
        self.run: Callable[[], object] | None = lambda: target(*args, **(kwargs or {}))
        self.task: Task | None = None

    @property
    def ident(self) -> int | None:
        return id(self.task) if self.task else None

    def start(self) -> None:
        assert self.run
        self.task, self.run = self.tasks.start(self.name, self.run, self.tasks.current.pid), None
        self.task.thread = self

    def is_alive(self) -> bool:
        return self.task is not None and not self.task.ended

    def join(self, timeout: float | None = None) -> None:
        end = math.inf if timeout is None else self.tasks.world.now + timeout * NANO
        self.tasks.wait(end, lambda: not self.is_alive())


def current_thread(tasks: Tasks) -> Thread | None:
    """threading.current_thread; None: it is the first of its process."""
    return tasks.current.thread
