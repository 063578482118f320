"""Detects whether other load disturbed a measurement; a disturbed one raises MachineBusy and has no result.

    with Watch() as watch:
        work()
    watch.seen.check("switch")         # raises MachineBusy if the measurement was disturbed

It reads from /proc/stat, for the processors that this process may use, the time stolen by the hypervisor and the time that others
used, and counts how often the kernel preempted one of this process's threads. With two processors it also measures how long a
cache line takes from one to the other and back: a hypervisor may move a virtual processor to another socket at any time, which
can slow down a switch and its applications fourfold.
"""

import os
import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.loadgen.cache_line import CacheLine

STOLEN = 0.01  # of a processor's time
OTHERS = 0.05  # of a processor's time, all processors that this process may use together
TAKEN = 100.0  # involuntary context switches of this process's threads a second
ROUND_TRIP = 250.0  # ns: within a socket it is 80 to 250
BATCHES, ROUNDS = 11, 1000  # of questions to the other processor; the median batch counts
BEFORE_S = 0.3  # observed before anything is started


class MachineBusy(PenstockError):
    """A measurement in real time was disturbed."""


@dataclass(frozen=True)
class Seen:
    """Disturbances of a measurement: shares of a processor's time, and involuntary context switches a second.

    round_trip: time in ns of a cache line between two processors, before or after; 0: the measurement used one processor.
    """

    stolen: float
    others: float
    taken: float
    round_trip: float = 0.0

    def record(self) -> dict[str, float]:
        """The values by name, for a table of results."""
        return asdict(self)

    def reasons(self) -> list[str]:
        """The values that exceed their limits, as text."""
        found = []
        for name, value, most in (("stolen by the hypervisor", self.stolen, STOLEN), ("used by others", self.others, OTHERS)):
            if value > most:
                found.append(f"{100 * value:.1f} % of a processor {name} (limit {100 * most:g} %)")
        if self.taken > TAKEN:
            found.append(f"{self.taken:.0f} involuntary context switches a second (limit {TAKEN:g})")
        if self.round_trip > ROUND_TRIP:
            found.append(
                f"a cache line takes {self.round_trip:.0f} ns from one processor to the other and back (limit {ROUND_TRIP:g}), "
                "as if they were in two sockets"
            )
        return found

    def check(self, what: str) -> None:
        """Raise MachineBusy if a value exceeds its limit."""
        if reasons := self.reasons():
            raise MachineBusy(
                f"{what}: the machine is busy, so nothing is reported: {'; '.join(reasons)}. Stop other programs and try again"
            )


def processor_times(text: str, cpus: Sequence[int]) -> tuple[float, float]:
    """Busy and stolen seconds of these processors, from the text of /proc/stat."""
    busy = stolen = 0
    names = {f"cpu{cpu}" for cpu in cpus}
    for line in text.splitlines():
        name, *numbers = line.split()
        if name in names:
            user, nice, system, _, _, irq, softirq, steal = (int(n) for n in numbers[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    tick = os.sysconf("SC_CLK_TCK")
    return busy / tick, stolen / tick


def involuntary() -> int:
    """Number of involuntary context switches of this process's threads."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        try:
            text = (task / "status").read_text()
        except OSError:
            continue
        count += int(text.split("nonvoluntary_ctxt_switches:")[1].split()[0])
    return count


class Watch:
    """Samples the machine at its start and its end; `seen` is the difference."""

    seen: Seen

    def __enter__(self) -> "Watch":
        self.cpus = sorted(os.sched_getaffinity(0))
        self.before = self.look()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        at, busy, stolen, ours, taken = (b - a for a, b in zip(self.before, self.look()))
        self.seen = Seen(stolen / at, max(0.0, busy - ours) / at, taken / at)

    def look(self) -> tuple[float, float, float, float, float]:
        """Time, busy and stolen seconds of the processors, CPU time of this process (s), involuntary context switches."""
        busy, stolen = processor_times(Path("/proc/stat").read_text(), self.cpus)
        return time.monotonic(), busy, stolen, time.process_time(), float(involuntary())


def two_processors() -> tuple[int, int]:
    """The first two processors that this process may use.  SpecError: it has only one."""
    known = sorted(os.sched_getaffinity(0))
    if len(known) < 2:
        raise SpecError(
            "real time needs two processors, one for the switch and one for its applications", remedy="use scale paper"
        )
    return known[0], known[1]


def round_trip(first: int, second: int) -> float:
    """Time in ns in which a cache line goes from one processor to another and back."""
    line, allowed = CacheLine(), os.sched_getaffinity(0)

    def answer() -> None:
        os.sched_setaffinity(0, {second})
        line.answer()

    thread = threading.Thread(target=answer, name="answer")
    thread.start()
    try:
        os.sched_setaffinity(0, {first})
        return statistics.median(line.ask(ROUNDS) for _ in range(BATCHES))
    finally:
        os.sched_setaffinity(0, allowed)
        line.close()
        thread.join()


def look_first(what: str, cpus: Sequence[int] = ()) -> None:
    """Raise MachineBusy if the machine is busy before the measurement, or the two processors `cpus` are far from each other."""
    with Watch() as watch:
        time.sleep(BEFORE_S)
    replace(watch.seen, round_trip=round_trip(*cpus) if cpus else 0.0).check(what)


def drive(switch: Any, harness: Any, warm_s: float, s: float, careful: bool = True) -> dict[str, float]:
    """Run a switch and its applications in real time on a processor each; returns the disturbances (`Seen.record`).

    warm_s and s: duration of the warm-up and of the measurement.  The switch's thread has ended afterwards, so that its counters
    can be read.  MachineBusy: `careful`, and the machine is busy.  SpecError: fewer than two processors.
    """
    first, second = two_processors()
    allowed = os.sched_getaffinity(0)
    if careful:
        look_first("before the run", (first, second))
    switch.start([first])
    try:
        os.sched_setaffinity(0, {second})
        harness.drive(warm_s)
        harness.reset()
        os.sched_setaffinity(0, allowed)
        with Watch() as watch:
            os.sched_setaffinity(0, {second})
            harness.drive(s)
            os.sched_setaffinity(0, allowed)
    finally:
        os.sched_setaffinity(0, allowed)
        switch.halt()
    seen = replace(watch.seen, round_trip=round_trip(first, second))
    if careful:
        seen.check("real time")
    return seen.record()
