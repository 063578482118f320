"""Data and figures of a reproduction with several seeds: means with their 95 % intervals, drawn as bands and error bars."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock_net.results.intervals import interval

SEED = "seed"  # column of data.parquet
ALPHA = 0.2
FEW = 10  # points of a line that get error bars instead of a band


@dataclass(frozen=True)
class Means:
    """The points of a figure averaged over the seeds, and the lower and upper ends of their intervals."""

    mean: pl.DataFrame
    low: pl.DataFrame
    high: pl.DataFrame


def joined(found: Mapping[int, pl.DataFrame]) -> pl.DataFrame:
    """The points of every seed in one frame, with the column `seed`."""
    return pl.concat([data.with_columns(pl.lit(seed).alias(SEED)) for seed, data in found.items()], how="vertical_relaxed")


def means_of(data: pl.DataFrame) -> Means:
    """Mean over the seeds of every number of every point: the n-th point of a line with one seed is that of the others.

    A line is what has the same texts, such as series and panel.  The interval is that of y or, where all seeds have the same
    y, as in a CDF, that of x.  A line that has not as many points with every seed is shown as it is with the first.
    """
    seeds = data[SEED].unique(maintain_order=True).to_list()
    texts = [name for name, kind in data.schema.items() if name != SEED and not kind.is_numeric()]
    parts = [
        _line([line.filter(pl.col(SEED) == seed).drop(SEED) for seed in seeds], texts)
        for line in data.partition_by(texts, maintain_order=True)
    ]
    order = [name for name in data.columns if name != SEED]
    return Means(*(pl.concat([part[i] for part in parts], how="vertical_relaxed").select(order) for i in range(3)))


def _line(lines: Sequence[pl.DataFrame], texts: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    first = lines[0]
    if len({line.height for line in lines}) > 1:
        return first, first, first
    numbers = [name for name in first.columns if name not in texts]
    found = {name: [interval(values) for values in zip(*(line[name].to_list() for line in lines))] for name in numbers}

    def at(side: Callable[[str], float]) -> pl.DataFrame:
        """The line with `side(name)` half widths added to every number."""
        columns = {
            name: [each.mean + (side(name) * each.half if side(name) and each.runs > 1 else 0.0) for each in values]
            for name, values in found.items()
        }
        return first.with_columns(pl.Series(name, values, dtype=pl.Float64) for name, values in columns.items()).fill_nan(None)

    spread = "y" if any(each.half > 0 for each in found["y"]) else "x"
    return at(lambda name: 0.0), at(lambda name: -float(name == spread)), at(lambda name: float(name == spread))


def draw(plot: Callable[[pl.DataFrame], Any], means: Means) -> Any:
    """The figure of the means; a line has its interval as a band, or error bars if it has few points; so has every bar."""
    if means.low.equals(means.high):
        return plot(means.mean)
    made, low, high = (plot(data) for data in (means.mean, means.low, means.high))
    for panel, below, above in zip(made.axes, low.axes, high.axes):
        limits = panel.get_xlim(), panel.get_ylim()
        for line, least, most in zip(list(panel.lines), below.lines, above.lines):
            _band(panel, line, _points(line), _points(least), _points(most))
        for bars, least, most in zip(list(panel.containers), below.containers, above.containers):
            _error_bars(panel, bars, least, most)
        panel.set(xlim=limits[0], ylim=limits[1])
    return made


def _points(line: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)


def _band(panel: Any, line: Any, mean: Any, low: Any, high: Any) -> None:
    cap_of_an_error_bar = line.get_linestyle() == "None" and line.get_marker() in ("_", "|")
    if cap_of_an_error_bar or not len(mean[0]) == len(low[0]) == len(high[0]):
        return
    vertical, horizontal = (not np.array_equal(low[k], high[k], equal_nan=True) for k in (1, 0))
    if len(mean[0]) <= FEW and (vertical or horizontal):
        k, name = (1, "yerr") if vertical else (0, "xerr")
        errors = np.maximum([mean[k] - low[k], high[k] - mean[k]], 0.0)  # less by rounding where the seeds agree
        panel.errorbar(*mean, **{name: errors}, fmt="none", ecolor=line.get_color(), elinewidth=1.0, capsize=2.0, alpha=0.8)
        return
    step = {"steps-post": "post", "steps-pre": "pre", "steps-mid": "mid"}.get(line.get_drawstyle())
    options = {"color": line.get_color(), "alpha": ALPHA, "lw": 0, "zorder": line.get_zorder() - 0.1, "step": step}
    if vertical:
        panel.fill_between(mean[0], low[1], high[1], **options)
    elif horizontal:
        panel.fill_betweenx(mean[1], low[0], high[0], **options)


def _error_bars(panel: Any, bars: Any, low: Any, high: Any) -> None:
    """For a bar chart; matplotlib's other containers, such as error bars, are left as they are."""
    if not all(hasattr(each, "patches") and len(each.patches) == len(bars.patches) for each in (bars, low, high)):
        return
    for bar, least, most in zip(bars.patches, low.patches, high.patches):
        if bars.orientation == "horizontal":
            at, ends = bar.get_y() + bar.get_height() / 2, [each.get_x() + each.get_width() for each in (least, most)]
            panel.plot(ends, [at, at], color="black", lw=1.0, solid_capstyle="butt")
        else:
            at, ends = bar.get_x() + bar.get_width() / 2, [each.get_y() + each.get_height() for each in (least, most)]
            panel.plot([at, at], ends, color="black", lw=1.0, solid_capstyle="butt")
