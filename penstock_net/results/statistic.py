"""A statistic of a run by name, such as "p99.9 slowdown of flows < 10KB", or by any function of the run."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.inputs import one_of, real, size_bytes
from penstock_net.results.run import Run, checked_percentile
from penstock_net.units import format_size

EXAMPLE = '"p99.9 slowdown of flows < 10KB", "mean fct of incast flows"'
COLUMNS = {"slowdown": "slowdown", "fct": "fct_ns"}
NAME = re.compile(
    r"\s*(?:p(?P<percentile>[\d.]+)|(?P<statistic>median|mean|max))\s+(?P<of>slowdown|fct)"
    r"(?:\s+of(?:\s+(?P<class>\S+))??\s+flows\s*(?P<size>.*?))?\s*",
    re.ASCII,
)
AGAINST = re.compile(r"\s*(<=|>=|<|>)\s*(\S.*)")
Read = Callable[[Run], float | None]


@dataclass(frozen=True)
class Statistic:
    """A number of a run: of the finished flows that started in its window. Call it with a Run.

    percentile  0 to 100, linear interpolation
    of          "slowdown", or "fct": the completion time, ns
    class_      "background": all but incast, unless there is nothing else; "all"; a class, or "!incast": all but one
    size        "< 10KB", ">= 1MB", or with both bounds "10KB..100KB"; None: all
    statistic   "mean" or "max" instead of the percentile

    `str` is its name, which `parse` reads: "p99.9 slowdown of flows < 10KB".  SpecError: bad values, no such class.
    """

    percentile: float = 99
    of: Literal["slowdown", "fct"] = "slowdown"
    class_: str = "background"
    size: str | None = None
    statistic: Literal["percentile", "mean", "max"] = "percentile"

    def __post_init__(self) -> None:
        checked_percentile(self.percentile)
        one_of(self.of, "of", COLUMNS)
        one_of(self.statistic, "statistic", ("percentile", "mean", "max"))
        bounds(self.size)

    @classmethod
    def parse(cls, name: str) -> "Statistic":
        """The statistic of a name: pN, median, mean or max; slowdown or fct; perhaps "of CLASS flows SIZE"."""
        found = NAME.fullmatch(name)
        if not found:
            raise SpecError("is the name of no statistic", path="statistic", value=name, remedy=f"such as {EXAMPLE}")
        given = found["statistic"]
        percentile = 50.0 if given == "median" else 99.0 if given else _number(found["percentile"], name)
        kind: Any = given if given in ("mean", "max") else "percentile"
        of: Any = found["of"]
        return cls(percentile, of, found["class"] or "background", found["size"] or None, kind)

    def __str__(self) -> str:
        what = f"p{self.percentile:g}" if self.statistic == "percentile" else self.statistic
        class_ = "" if self.class_ == "background" else f" {self.class_}"
        chosen = f" of{class_} flows" if class_ or self.size else ""
        return f"{what} {self.of}{chosen}{f' {self.size}' if self.size else ''}"

    def __call__(self, run: Run) -> float | None:
        """Its value; None: no such flow has finished."""
        class_ = run.background() if self.class_ == "background" else None if self.class_ == "all" else self.class_
        flows = run.selected(class_)
        low, high = bounds(self.size)
        values = flows.filter((pl.col("bytes") >= low) & (pl.col("bytes") <= high))[COLUMNS[self.of]].drop_nulls()
        if self.statistic != "percentile":
            found: Any = values.mean() if self.statistic == "mean" else values.max()
            return found
        return values.quantile(self.percentile / 100, "linear")


def bounds(size: str | None) -> tuple[int, int]:
    """The smallest and the largest size, bytes, both included, of "< 10KB", ">= 1MB", "10KB..100KB".  SpecError: it is none."""
    largest = 2**62
    if size is None:
        return 0, largest
    if found := AGAINST.fullmatch(size):
        sign, value = found[1], size_bytes(found[2], "size")
        low, high = {"<": (0, value - 1), "<=": (0, value), ">": (value + 1, largest), ">=": (value, largest)}[sign]
    elif ".." in size:
        first, last = (end.strip() for end in size.split("..", 1))
        low, high = size_bytes(first, "size") if first else 0, size_bytes(last, "size") if last else largest
    else:
        raise SpecError("must be a range of sizes", path="size", value=size, remedy='such as "< 10KB" or "10KB..100KB"')
    if low > high:
        raise SpecError("the range is empty", path="size", value=size, remedy=f"{format_size(low)} is above its other end")
    return low, high


def named(given: str | Read) -> tuple[str, Read]:
    """A statistic with its name.  SpecError: no such name, or a function without one."""
    if isinstance(given, str):
        statistic = Statistic.parse(given)
        return str(statistic), statistic
    if isinstance(given, Statistic):
        return str(given), given
    name = getattr(given, "__name__", "")
    if not callable(given) or not name.isidentifier():
        rule = "must be a name, or a function with one" if callable(given) else "must be a name, or a function of a run"
        raise SpecError(
            rule, path="statistic", value=given, remedy="give it as a keyword: drops=lambda run: run.summary['drops']"
        )
    return name, given


def value_of(name: str, read: Read, run: Run) -> float | None:
    """What a function reads from a run, as a float.  SpecError: it is no number."""
    found = read(run)
    return None if found is None or found != found else real(found, name)


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError("is the name of no statistic", path="statistic", value=name, remedy=f"such as {EXAMPLE}") from None
