"""What the figures of several papers share: a scheme with its looks, the rows of data.parquet, and numbers read from them.

data.parquet has the columns x, y, series (the legend of a line), panel, and those that a paper adds, such as traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.style import look


@dataclass(frozen=True)
class Scheme:
    """A scheme of the figures.

    legend   its name in the figures, and of its run unless `run` is given
    table    its [[scheme]] table
    nth      of the runs of its family in a figure: which dashes and marker
    like     the scheme whose family's colour it has; "": that of its own
    """

    legend: str
    table: dict[str, Any]
    nth: int = 0
    like: str = ""
    run: str = ""

    @property
    def label(self) -> str:
        """Of its run."""
        return self.run or self.legend

    @property
    def style(self) -> dict[str, Any]:
        """Colour, dashes and marker."""
        return look(self.like or self.table["name"], self.nth)


def rows(panel: str, series: str, x: Any, y: Any, **columns: Any) -> pl.DataFrame:
    """Rows of data.parquet: x and y are as long as each other, the rest is the same in every row; NaN becomes null."""
    frame = pl.DataFrame({"x": np.asarray(x, float), "y": np.asarray(y, float)})
    constant = {"series": series, **columns, "panel": panel}
    return frame.with_columns(*(pl.lit(value).alias(name) for name, value in constant.items())).fill_nan(None)


def chosen(data: pl.DataFrame, **columns: Any) -> pl.DataFrame:
    """The rows in which these columns have these values."""
    return data.filter(*(pl.col(name) == value for name, value in columns.items()))


def value(data: pl.DataFrame, **columns: Any) -> float:
    """y of the first of the chosen rows that has one; NaN if there is none."""
    found = chosen(data, **columns)["y"].drop_nulls()
    return float(found[0]) if len(found) else float("nan")


def text(numbers: Mapping[Any, float]) -> str:
    """ "BFC 1.1, HPCC 2.5": what a claim measured."""
    return ", ".join(f"{name} {number:.3g}" for name, number in numbers.items())
