"""The threads of a switch's workers. To change shared state, Python stops all of them between two turns."""

import collections
from collections.abc import Callable, Sequence
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.vswitch.linux.scheduling import hasten_thread, precede
from penstock_net.vswitch.world import os, threading

PATIENCE_S = 10.0
HASTE = 5  # steps of nice by which a worker goes before usual threads: more of them, and those that it wakes wait for it too long
Answer = tuple[Any, BaseException | None]


class WorkerSilent(PenstockError, RuntimeError):
    """A worker does not do what it was told to."""


class Crew:
    """A thread per worker.  The first one runs the functions given to `call` while the others wait."""

    def __init__(
        self,
        switch: Any,
        count: int,
        cpus: Sequence[int],
        on_protocol_errors: Callable[[list[str], list[Any]], None] | None,
        realtime: bool,
    ) -> None:
        self.switch, self.on_protocol_errors, self.realtime = switch, on_protocol_errors, realtime
        self.commands: collections.deque[tuple[Callable[[], Any], list[Answer], threading.Event]] = collections.deque()
        self.gate = threading.Condition()
        self.resting, self.halted, self.stopping = 0, False, False
        self.threads = [
            threading.Thread(target=self._work, args=(k, cpus[k % len(cpus)] if cpus else None), name=f"worker {k}", daemon=True)
            for k in range(count)
        ]
        for thread in reversed(self.threads):  # the first expects the others to be there
            thread.start()

    def _work(self, k: int, cpu: int | None) -> None:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        if self.realtime:
            precede()
        else:
            hasten_thread(HASTE)
        while not self.stopping:
            self.switch.run(k, 3600)
            if k == 0:
                self._lead()
            else:
                self._rest(k)

    def _rest(self, k: int) -> None:
        """Wait until the first worker is done; or wake it to detach a port."""
        with self.gate:
            self.switch.want(k, False)
            if not self.halted:
                self.switch.want(0, True)
                return
            self.resting += 1
            self.gate.notify_all()
            self.gate.wait_for(lambda: not self.halted)
            self.switch.want(k, False)
            self.resting -= 1

    def _lead(self) -> None:
        """While all others wait, detach applications that broke the protocol and run the functions given to `call`."""
        self.switch.want(0, False)
        others = range(1, len(self.threads))
        with self.gate:
            self.halted = True
            for k in others:
                self.switch.want(k, True)
            while not self.gate.wait_for(self._all_rest, 1.0):
                pass
        try:
            names, regions = self.switch.detach_broken()
            if names and self.on_protocol_errors:
                self.on_protocol_errors(names, regions)
            del regions
            while self.commands:
                function, answer, done = self.commands.popleft()
                try:
                    answer.append((function(), None))
                except BaseException as error:
                    answer.append((None, error))
                del function, answer  # which an error would hold with its traceback, and with them itself
                done.set()
        finally:
            with self.gate:
                self.halted = False
                self.gate.notify_all()

    def _all_rest(self) -> bool:
        return self.resting >= sum(thread.is_alive() for thread in self.threads[1:])

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function while all workers wait; returns or raises its result.  WorkerSilent: there is none."""
        answer: list[Answer] = []
        done = threading.Event()
        self.commands.append((function, answer, done))
        self.switch.want(0, True)
        for _ in range(int(PATIENCE_S / 0.05)):
            if done.wait(0.05):
                break
            if not self.threads[0].is_alive() and not done.is_set():
                raise WorkerSilent("the worker has ended")
        else:
            raise WorkerSilent(f"the worker has not answered for {PATIENCE_S:.0f} s: the machine is overloaded")
        value, error = answer.pop()
        if error is None:
            return value
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def stop(self) -> None:
        """End the threads.  WorkerSilent: one goes on, and with it what it uses."""
        self.call(self._end)
        for thread in self.threads:
            thread.join(PATIENCE_S)
        if any(thread.is_alive() for thread in self.threads):
            raise WorkerSilent(f"a worker has not ended for {PATIENCE_S:.0f} s: the machine is overloaded")

    def _end(self) -> None:
        self.stopping = True
