"""A world for tests that drive a switch turn by turn in this process: its clock moves when it is read, or somebody sleeps.

All else is the kernel's: memory, eventfds, files. Such a test has its result from the code alone, and each run is the same.
"""

import functools
import os
import random
import sys
import threading
import time
from pathlib import Path
from unittest import mock

from penstock_net.vswitch import world
from penstock_net.vswitch.world.calls import table

BEGIN_NS, DATE_NS, READ_NS = 10**12, 1_700_000_000 * 10**9, 1000
NANO = 10**9
PROCESSORS = (0, 1)  # whichever the machine has
OWN = tuple(
    str(folder) + os.sep for folder in (Path(__file__).parents[1], Path(world.__file__).parents[2])
)  # tests, penstock_net


class Part:
    """A module, some of whose functions are others."""

    def __init__(self, module, **others) -> None:
        self.module = module
        self.__dict__.update(others)

    def __getattr__(self, name: str):
        return getattr(self.module, name)


class Turns:
    """Time passes by READ_NS with each look at the clock, since code takes time; what is random is drawn from a seed.

    The switch may use PROCESSORS.
    """

    calls = None

    def __init__(self, seed: int = 0) -> None:
        self.now, self.random = BEGIN_NS, random.Random(seed)
        self.parts = {
            "os": Part(os, urandom=self.random.randbytes, sched_getaffinity=lambda pid: set(PROCESSORS)),
            "time": Part(time, **self.functions()),
        }

    def part(self, name: str):
        return self.parts.get(name) or world.KERNEL.part(name)

    def now_ns(self) -> int:
        self.now += READ_NS
        return self.now

    def date_ns(self) -> int:
        return self.now_ns() - BEGIN_NS + DATE_NS

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * NANO)

    def functions(self):
        """What takes the place of functions of `time`."""
        return {
            "sleep": self.sleep,
            "monotonic_ns": self.now_ns,
            "monotonic": lambda: self.now_ns() / NANO,
            "time_ns": self.date_ns,
            "time": lambda: self.date_ns() / NANO,
        }


def for_own_code(owner, name, replacement):
    """A function of a module that is another one for the tests and the package."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def chosen(*arguments):
        own = sys._getframe(1).f_code.co_filename.startswith(OWN)
        return (replacement if own else original)(*arguments)

    return chosen


def refuse(thread: threading.Thread) -> None:
    """What takes the place of `Thread.start`: Python 3.11 tells nobody of a thread that is started.

    One that a library starts is none of the test's, such as matplotlib's while it looks for fonts for the first time.
    """
    raise NotComputed(f"a thread {thread.name} is started: a test of real time? See tests/vswitch/kinds.txt")


class NotComputed(BaseException):
    """A test that is driven turn by turn would depend on what the machine does."""


class used:
    """The world is this one in `with`, where no thread is started."""

    def __enter__(self) -> Turns:
        turns = Turns()
        random.seed(0)
        functions = {name: for_own_code(time, name, function) for name, function in turns.functions().items()}
        self.patches = [
            mock.patch.multiple(time, **functions),
            mock.patch.object(os, "urandom", for_own_code(os, "urandom", turns.random.randbytes)),
            mock.patch.object(threading.Thread, "start", for_own_code(threading.Thread, "start", refuse)),
        ]
        for patch in self.patches:
            patch.start()
        world.use(turns)
        table.use_clock(turns)
        return turns

    def __exit__(self, *error: object) -> None:
        world.use(world.KERNEL)
        for patch in self.patches:
            patch.stop()
