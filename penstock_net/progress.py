"""Progress of a simulation, or of many: a bar on a terminal or in a notebook; elsewhere a plain line every 10 s, or for each.

All on standard error, but for notebooks.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_net.sim.simulate import Progress as Report

from penstock_net.stderr import say

PLAIN_EVERY_S = 10.0
RECENT_S, RECENT = 60.0, 0.2  # what counts for the pace: so long, or that share of the time so far
LEAST = 1e-5  # share of the work that an estimate is made from


class Pace:
    """How fast a run has been of late: in the last minute, or fifth of the time since this process has begun with it.

    What was before a checkpoint does not count: that may have been another machine, or another number of threads.
    """

    def __init__(self) -> None:
        self.marks: deque[tuple[float, float, int]] = deque()  # wall time, share of the work and packet-hops

    def add(self, report: "Report") -> None:
        """The run is there now."""
        marks, now = self.marks, report.wall_s
        self.last = (now, report.share, report.packet_hops)
        if not marks:
            self.first = now
        span = max(RECENT_S, RECENT * (now - self.first))
        if not marks or now - marks[-1][0] >= span / 100:
            marks.append(self.last)
        while len(marks) > 1 and marks[1][0] <= now - span:
            marks.popleft()

    def hops_per_s(self) -> float:
        """Packet-hops per second; 0: not known yet."""
        (began, _, before), (now, _, hops) = self.marks[0], self.last
        return (hops - before) / (now - began) if now > began else 0.0

    def left_s(self) -> float | None:
        """Wall time until all flows have started; None: not known yet."""
        (began, before, _), (now, share, _) = self.marks[0], self.last
        return (1 - share) * (now - began) / (share - before) if share - before > LEAST else None


def describe(report: "Report", pace: Pace, duration_ps: int = 0) -> str:
    """Simulated time, speed, flows done, time left until the last flow has started."""
    from penstock_net.units import format_time

    end = duration_ps or report.end_ps
    parts = [
        f"{format_time(report.time_ps)} of {format_time(end)}",
        f"{pace.hops_per_s() / 1e6:.3g} M hops/s",
        f"{report.flows_done:,}/{report.flows_total:,} flows",
    ]
    left = pace.left_s()
    if report.time_ps >= end:
        parts.append("draining")
    elif left is not None:
        parts.append(f"{_clock(left)} left")
    return "   ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


class Progress:
    """`with Progress("bfc") as progress: simulate(..., progress=progress)`"""

    def __init__(self, label: str, duration_ps: int = 0) -> None:
        self.label, self.duration_ps = label, duration_ps
        self.bar: Any = None
        self.task: Any = None
        self.pace = Pace()
        self.last = time.monotonic()

    def __enter__(self) -> "Progress":
        self.bar = _bar()
        if self.bar:
            self.task = self.bar.add_task("", total=1.0, label=self.label, text="starting")
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _stop(self.bar)

    def __call__(self, report: "Report") -> None:
        self.pace.add(report)
        if self.bar:
            self.bar.update(self.task, completed=report.share, text=describe(report, self.pace, self.duration_ps))
        elif time.monotonic() - self.last >= PLAIN_EVERY_S:
            self.last = time.monotonic()
            say(f"{self.label}: {describe(report, self.pace, self.duration_ps)}")


@contextmanager
def shown(
    progress: "Callable[[Report], None] | bool | None", label: str, duration_ps: int
) -> "Iterator[Callable[[Report], None] | None]":
    """What is told how far a run is: `progress` itself; a bar, if it is True."""
    if not isinstance(progress, bool):
        yield progress
    elif not progress:
        yield None
    else:
        with Progress(label, duration_ps) as bar:
            yield bar


class Cell:
    """A bar below a cell of a notebook, which is gone when the run has ended; used as rich's Progress is."""

    def add_task(self, _: str, *, total: float, label: str, text: str) -> int:
        """Describe what is shown."""
        self.total, self.label, self.text, self.completed = total, label, text, 0.0
        self.handle: Any = None
        return 0

    def start(self) -> None:
        """Show it."""
        from IPython.display import HTML, display

        self.html, self.handle = HTML, display(HTML(self.shown()), display_id=True)

    def update(self, _: int, *, completed: float, text: str) -> None:
        """Show how far it is."""
        self.completed, self.text = completed, text
        if self.handle:
            self.handle.update(self.html(self.shown()))

    def stop(self) -> None:
        """Remove it."""
        self.handle.update(self.html(""))

    def shown(self) -> str:
        """The bar as HTML."""
        import html

        bar = f'<progress value="{self.completed:.4f}" max="{self.total:g}"></progress>'
        return f"<div>{html.escape(self.label)} {bar} {html.escape(self.text)}</div>"


def is_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Count:
    """`with Count(40, finished) as count: count.show(finished)`: a bar of the runs that are finished, where bars can be shown."""

    def __init__(self, total: int, finished: int, *, shown: bool = True) -> None:
        self.total, self.finished, self.shown = total, finished, shown
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "Count":
        self.bar = _bar() if self.shown else None
        if self.bar:
            self.task = self.bar.add_task("", total=self.total, label="runs", text="")
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
    """What shows a bar here; None: nothing does."""
    if is_notebook():
        return Cell()
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = TextColumn("{task.fields[label]}"), BarColumn(bar_width=20), TextColumn("{task.fields[text]}")
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _stop(bar: Any) -> None:
    if bar:
        with suppress(OSError):  # the terminal was closed
            bar.stop()
