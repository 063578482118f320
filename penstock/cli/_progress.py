"""Progress of a simulation, or of many: a bar on a terminal; elsewhere a plain line every 10 s, or for each (all on stderr)."""

import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.sim.simulate import Progress as Report

from penstock.cli._output import say

PLAIN_EVERY_S = 10.0


def describe(report: "Report", duration_ps: int = 0) -> str:
    """Simulated time, speed, flows done, time left until the last flow has started."""
    from penstock.units import format_time

    speed = report.packet_hops / report.wall_s if report.wall_s > 0 else 0.0
    end = duration_ps or report.end_ps
    parts = [
        f"{format_time(report.time_ps)} of {format_time(end)}",
        f"{speed / 1e6:.3g} M hops/s",
        f"{report.flows_done:,}/{report.flows_total:,} flows",
    ]
    done = fraction(report, duration_ps)
    if report.time_ps >= end:
        parts.append("draining")
    elif done > 0.01:
        parts.append(f"{_clock(report.wall_s * (1 - done) / done)} left")
    return "   ".join(parts)


def fraction(report: "Report", duration_ps: int = 0) -> float:
    """Share, 0 to 1, of the time during which flows start that has been simulated."""
    end = duration_ps or report.end_ps
    return min(1.0, report.time_ps / end) if end > 0 else 0.0


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class Progress:
    """`with Progress("bfc") as progress: simulate(..., progress=progress)`"""

    def __init__(self, label: str, duration_ps: int = 0) -> None:
        self.label, self.duration_ps = label, duration_ps
        self.bar: Any = None
        self.task: Any = None
        self.last = time.monotonic()

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            self.bar = _bar()
            self.task = self.bar.add_task("", total=1.0, label=self.label, text="starting")
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _stop(self.bar)

    def __call__(self, report: "Report") -> None:
        if self.bar:
            self.bar.update(self.task, completed=fraction(report, self.duration_ps), text=describe(report, self.duration_ps))
        elif time.monotonic() - self.last >= PLAIN_EVERY_S:
            self.last = time.monotonic()
            say(f"{self.label}: {describe(report, self.duration_ps)}")


class Count:
    """`with Count(40, finished) as count: count.show(finished)`: a bar of the runs that are finished, on a terminal only."""

    def __init__(self, total: int, finished: int) -> None:
        self.total, self.finished = total, finished
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "Count":
        if sys.stderr.isatty():
            self.bar = _bar()
            self.task = self.bar.add_task("", total=self.total, completed=self.finished, label="runs", text="")
            self.show(self.finished)
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _stop(self.bar)

    def show(self, finished: int) -> None:
        """Tell how many are finished."""
        if self.bar:
            self.bar.update(self.task, completed=finished, text=f"{finished} of {self.total}")


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("{task.fields[label]}"), BarColumn(bar_width=20), TextColumn("{task.fields[text]}")
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _stop(bar: Any) -> None:
    if bar:
        with suppress(OSError):  # the terminal was closed
            bar.stop()
