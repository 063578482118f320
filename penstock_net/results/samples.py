"""The samples of switches: rows of those that were not idle, and what tells of all others, which have none.

A switch is idle at a sample if nothing is stored in it: the row would be zeros. All switches are sampled at the same times, the
multiples of a period, so a few numbers say which rows there are not. What is computed of the samples counts them without making
them; `whole` makes them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from penstock_net.results.distribution import Distribution
from penstock_net.scratch import CHUNK

KEY = "samples"  # of the metadata of switches.parquet
LAST_PS = 2**51


@dataclass(frozen=True)
class Grid:
    """Which switches were sampled, and when.

    period_ps     samples are at its multiples
    first, end    numbers of the first sample and of the one after the last; sample k is at k * period_ps
    switches      numbers of the switches, ascending
    active_flows  of each switch while it is idle: 0, or -1 where flows are not counted
    """

    period_ps: int
    first: int
    end: int
    switches: np.ndarray
    active_flows: np.ndarray

    @property
    def count(self) -> int:
        """Samples of each switch."""
        return self.end - self.first

    def times_ns(self) -> np.ndarray:
        """Times of the samples."""
        return np.arange(self.first, self.end) * self.period_ps / 1000.0

    def idle(self, column: str) -> np.ndarray:
        """The value that each switch has in a column while it is idle."""
        return self.active_flows if column == "active_flows" else np.zeros_like(self.active_flows)

    def text(self) -> str:
        """As metadata of a file."""
        switches, flows = self.switches.tolist(), self.active_flows.tolist()
        return json.dumps({"period_ps": self.period_ps, "count": self.end, "switches": switches, "active_flows": flows})

    @classmethod
    def parse(cls, text: str) -> "Grid":
        """What `text` wrote.  ValueError: it is not that."""
        try:
            content = json.loads(text)
            period, count, switches, flows = (content[key] for key in ("period_ps", "count", "switches", "active_flows"))
            numbers = all(type(n) is int for n in (period, count, *switches, *flows))
            fits = numbers and 0 < period <= LAST_PS and 0 <= count <= LAST_PS // period + 1 and len(switches) == len(flows)
            if fits and min(switches, default=0) >= 0 and max(switches, default=0) < 2**31 and set(flows) <= {0, -1}:
                grid = cls(period, 0, count, np.array(switches, dtype=np.int32), np.array(flows, dtype=np.int32))
                if (np.diff(grid.switches) > 0).all():
                    return grid
        except (KeyError, TypeError, ValueError):
            pass
        raise ValueError(f"metadata {KEY}: not what a run has there")


class Samples:
    """rows: samples, sorted by time and switch; grid: what tells of those without a row; None: there are none.

    ValueError: a row is not one of the samples of the grid.
    """

    def __init__(self, rows: pl.DataFrame, grid: Grid | None = None) -> None:
        self.rows, self.grid = rows, grid
        if grid and rows.height and not self._fits(grid):
            raise ValueError(f"metadata {KEY}: the rows are of other times or switches, or have no values")

    def _fits(self, grid: Grid) -> bool:
        places, rows = self._places, self.rows
        numbers = places // max(1, len(grid.switches)) + grid.first
        return bool(
            sum(rows.null_count().row(0)) == 0
            and np.isin(rows["switch"].to_numpy(), grid.switches).all()
            and (rows["time_ns"].to_numpy() == numbers * grid.period_ps / 1000.0).all()
            and (np.diff(places) > 0).all()
            and 0 <= places[0] <= places[-1] < self.height
        )

    @property
    def height(self) -> int:
        """The number of samples."""
        return self.grid.count * len(self.grid.switches) if self.grid else self.rows.height

    @cached_property
    def _places(self) -> np.ndarray:
        """The number of each row in `whole`."""
        grid = self._known
        number = np.rint(self.rows["time_ns"].to_numpy() * 1000.0).astype(np.int64) // grid.period_ps - grid.first
        return number * len(grid.switches) + np.searchsorted(grid.switches, self.rows["switch"].to_numpy())

    @property
    def _known(self) -> Grid:
        assert self.grid is not None
        return self.grid

    @property
    def switches(self) -> list[int]:
        """The switches that were sampled."""
        if self.grid:
            return self.grid.switches.tolist() if self.grid.count else []  # type: ignore[no-any-return]
        return self.rows["switch"].unique().sort().to_list()

    @property
    def times(self) -> pl.Series:
        """The times of the samples, ns, ascending."""
        return pl.Series("time_ns", self.grid.times_ns()) if self.grid else self.rows["time_ns"].unique().sort()

    @cached_property
    def whole(self) -> pl.DataFrame:
        """A row for every sample of every switch."""
        return self._part(0, self.grid.count) if self.grid else self.rows

    def lazy(self) -> pl.LazyFrame:
        """The same, made a part at a time and only as far as it is used."""
        from polars.io.plugins import register_io_source

        def parts(columns: Any, predicate: Any, n_rows: int | None, batch_size: Any) -> Iterator[pl.DataFrame]:
            grid = self._known
            step = max(1, CHUNK // max(1, len(grid.switches)))
            for low in range(0, max(1, grid.count), step):
                part = self._part(low, min(low + step, grid.count))
                if n_rows is not None:
                    part = part.head(n_rows)
                    n_rows -= part.height
                part = part if predicate is None else part.filter(predicate)
                yield part if columns is None else part.select(columns)
                if n_rows == 0:
                    return

        return register_io_source(parts, schema=self._part(0, 0).schema) if self.grid else self.rows.lazy()

    def _part(self, low: int, high: int) -> pl.DataFrame:
        """Every row of the samples from `low` on and before `high`, counted from the first."""
        grid = self._known
        switches = len(grid.switches)
        here = slice(*np.searchsorted(self._places, (low * switches, high * switches)))
        places, rows = self._places[here] - low * switches, self.rows[here]
        times = np.repeat(grid.times_ns()[low:high], switches)
        made = [pl.Series("time_ns", times), pl.Series("switch", np.tile(grid.switches, high - low))]
        for name in ("buffer_bytes", "max_queue_bytes", "active_flows"):
            values = np.tile(grid.idle(name), high - low).astype(rows[name].to_numpy().dtype)
            values[places] = rows[name].to_numpy()
            made.append(pl.Series(name, values))
        return pl.DataFrame(made)

    # -- parts of them

    def of(self, switch: int) -> "Samples":
        """Those of one switch."""
        grid = self.grid
        if grid:
            mine = grid.switches == switch
            grid = replace(grid, switches=grid.switches[mine], active_flows=grid.active_flows[mine])
        return Samples(self.rows.filter(pl.col("switch") == switch), grid)

    def between(self, low: float, high: float, *, with_last: bool = True) -> "Samples":
        """Those from `low` on and until `high`, ns, or before it."""
        grid = self.grid
        if grid:
            times = grid.times_ns()
            first, end = np.searchsorted(times, low), np.searchsorted(times, high, side="right" if with_last else "left")
            grid = replace(grid, first=grid.first + int(first), end=grid.first + int(max(first, end)))
        inside = self.rows["time_ns"].is_between(low, high, closed="both" if with_last else "left")
        return Samples(self.rows if inside.all() else self.rows.filter(inside), grid)

    # -- what is computed of them

    def distribution(self, column: str) -> Distribution:
        """The distribution of the values of a column over all samples."""
        found = Distribution.of(self.rows[column].drop_nulls().to_numpy())
        if not self.grid:
            return found
        idle, switches = self.grid.idle(column), len(self.grid.switches)
        rows = np.bincount(self._places % max(1, switches), minlength=switches)
        absent, which = np.unique(idle, return_inverse=True)
        without = np.bincount(which, weights=self.grid.count - rows).astype(np.int64)
        values, where = np.unique(np.concatenate([found.values, absent]), return_inverse=True)
        counts = np.bincount(where, weights=np.concatenate([found.counts, without])).astype(np.int64)
        return Distribution(values[counts > 0], counts[counts > 0])

    def largest(self, column: str) -> pl.DataFrame:
        """The largest value of all switches at each time: time_ns and the column."""
        if not self.grid:
            return self.rows.group_by("time_ns").agg(pl.col(column).max()).sort("time_ns")
        values = np.full(self.grid.count, self.grid.idle(column).max(initial=-1), dtype=np.int64)
        np.maximum.at(values, self._places // max(1, len(self.grid.switches)), self.rows[column].to_numpy())
        return pl.DataFrame({"time_ns": self.grid.times_ns(), column: values})
