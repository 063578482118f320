"""Counts what a stage does, and says how the counts grow with its size.

What is counted, since it is the same on every machine:

* lines: those that Python runs in the package's files; of the core, too, as plain Python (penstock_net.sim.interpreted)
* items: of the lists, texts and arrays whose methods are called that look at all of them, by the package, numpy or polars
* rows: of the frames of polars that are looked at
* bytes: the largest memory that is in use at once

and what a stage counts itself:

* written: the bytes of its files
"""

import gc
import math
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import penstock_net as ps

LIMIT = 1.15
NOISE = 0.05  # of a count at the smallest size: a growth by less says nothing, but of what is written
Work = Callable[[], Any]


@dataclass
class Stage:
    """A stage that a user can reach.

    work    of a size: makes what the stage needs, and returns the stage, which is counted
    sizes   the smallest of three, and the factor between them
    most    counts that may grow faster than by LIMIT, with the exponent that they may have; `because`: why
    output  the size of what the work returns: if given, counts are to grow with it, not with the size
    """

    name: str
    work: Callable[[int], Work]
    sizes: tuple[int, int]
    most: dict[str, float] = field(default_factory=dict)
    because: str = ""
    output: Callable[[Any], int] | None = None


def three(sizes: tuple[int, int]) -> list[int]:
    smallest, factor = sizes
    return [smallest * factor**i for i in range(3)]


def exponent(name: str, counts: list[int], sizes: list[int]) -> float:
    """Of the size, in what a count grows by: of its two differences, so without what does not grow. Memory is not the sum of its
    parts, but the largest: of its two largest sizes."""
    little = 1 if name == "written" else max(1, NOISE * counts[0])
    small, large = counts[1:] if name == "bytes" else np.maximum(np.diff(counts), little)
    less, more = sizes[1:] if name == "bytes" else np.diff(sizes)
    return math.log(large / small) / math.log(more / less)


def counts(stage: Stage) -> dict[str, list[int]]:
    """Of each counter, at the three sizes."""
    stage.work(stage.sizes[0])()  # imports, and what is made once
    found = [count(stage.work(size), stage.output) for size in three(stage.sizes)]
    return {name: [each[name] for each in found] for name in found[0]}


def sizes(stage: Stage, found: dict[str, list[int]]) -> list[int]:
    """What counts are to grow with."""
    return found["output"] if stage.output else three(stage.sizes)


def judge(stage: Stage, found: dict[str, list[int]]) -> None:
    """AssertionError: a count grows faster than it may."""
    against = sizes(stage, found)
    for name, each in found.items():
        grows, most = exponent(name, each, against), stage.most.get(name, LIMIT)
        assert grows <= most, f"{stage.name}: {each} {name} at {against}, exponent {grows:.2f}, may be {most}"


def check(stage: Stage) -> None:
    """As `judge`.  Memory that is too much is measured again: a table of the interpreter that happens to be full, such as that of
    all modules, is made anew once."""
    found = counts(stage)
    if exponent("bytes", found["bytes"], sizes(stage, found)) > stage.most.get("bytes", LIMIT):
        found["bytes"] = [min(both) for both in zip(found["bytes"], counts(stage)["bytes"])]
    judge(stage, found)


# ---- Counters ----

HOMES = tuple(str(Path(home).parent) for home in (ps.__file__, np.__file__, pl.__file__))
PACKAGES = (HOMES[0], HOMES[0].removesuffix("_net") + "_papers")
WHOLE = {  # methods that look at every item, whatever they are given
    list: {"copy", "count", "index", "insert", "remove", "reverse", "sort"},
    str: {"count", "encode", "expandtabs", "lower", "replace", "split", "splitlines", "strip", "translate", "upper"},
    bytes: {"count", "decode", "replace", "split", "splitlines", "translate"},
}
PARTS = {"__array__", "fill", "item", "ravel", "reshape", "squeeze", "swapaxes", "transpose", "view"}  # of arrays: that do not


def count(work: Work, output: Callable[[Any], int] | None = None) -> Counter[str]:
    """Every count of one run of a stage."""
    found: Counter[str] = Counter()

    def called(frame: Any, event: str, arg: Any) -> None:
        if event == "c_call" and (size := looked_at(arg)) and frame.f_code.co_filename.startswith(HOMES):
            found["items"] += size

    with rows_of_frames(found):
        profiling = sys.getprofile()
        gc.collect()  # when the collector runs next, and so the peak of memory, is not left to what ran before
        tracemalloc.start()
        try:
            sys.setprofile(called)
            found["lines"], own = lines(work)
        finally:
            sys.setprofile(profiling)
            found["bytes"] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    if output:
        found["output"] = output(own)
    return found + own if isinstance(own, Counter) else found


def lines(work: Work, homes: tuple[str, ...] = PACKAGES) -> tuple[int, Any]:
    """The lines that Python runs in some folders, and what the work returns."""
    number = 0
    ours: dict[Any, bool] = {}

    def within(frame: Any, event: str, arg: Any) -> Any:
        nonlocal number
        number += event == "line"
        return within

    def enter(frame: Any, event: str, arg: Any) -> Any:
        nonlocal number
        code = frame.f_code
        if code not in ours:
            ours[code] = code.co_filename.startswith(homes)
        number += ours[code]
        return within if ours[code] else None

    tracing = sys.gettrace()
    sys.settrace(enter)
    try:
        made = work()
    finally:
        sys.settrace(tracing)
    return number, made


def looked_at(function: Any) -> int:
    """The items of the object whose method this is, if the method looks at all of them."""
    of = getattr(function, "__self__", None)
    if isinstance(of, np.ndarray):
        return 0 if function.__name__ in PARTS else of.size
    return len(of) if function.__name__ in WHOLE.get(type(of), ()) else 0


@contextmanager
def rows_of_frames(found: Counter[str]) -> Iterator[None]:
    """Count the rows of frames that polars is asked to look at, and of those that it finds."""
    lazy, collect = pl.DataFrame.lazy, pl.LazyFrame.collect

    def counted_lazy(frame: pl.DataFrame) -> pl.LazyFrame:
        found["rows"] += frame.height
        return lazy(frame)

    def counted_collect(frame: pl.LazyFrame, *args: Any, **options: Any) -> Any:
        made = collect(frame, *args, **options)
        found["rows"] += made.height
        return made

    pl.DataFrame.lazy, pl.LazyFrame.collect = counted_lazy, counted_collect
    try:
        yield
    finally:
        pl.DataFrame.lazy, pl.LazyFrame.collect = lazy, collect


def written(*paths: Path) -> Counter[str]:
    """Counts the bytes of files, and of those in folders."""
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return Counter(written=sum(file.stat().st_size for file in files if file.is_file()))


def made_file(name: str, text: str) -> str:
    """Write a file into the folder of the test."""
    Path(name).write_text(text)
    return name
