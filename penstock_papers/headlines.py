"""The numbers of a paper's abstract beside ours: claims and a picture of factors that the figures measure.

data.parquet has a row per measured factor: series its name, panel the sentence it belongs to, x its place, y the factor.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from penstock_papers import frames
from penstock_papers.claims import FROM_PAPER, gain_band
from penstock_papers.sentences import Numbers, Row, within
from penstock_papers.style import BLACK, BLUE, PAGE, figure, log_axis


@dataclass(frozen=True)
class Headline:
    """A number of an abstract.

    id         of its claims
    what       the factor that is measured
    paper      the abstract's words
    low, high  the range that it names; of a single number the half and the double of it
    why        the reason of these ends
    kind       of its claims
    """

    id: str
    what: str
    paper: str
    low: float
    high: float
    why: str = "the range of the abstract"
    kind: str = FROM_PAPER


def factor(id: str, what: str, paper: str, number: float) -> Headline:
    """A headline of one gain."""
    return Headline(id, what, paper, *gain_band(number))


def rows(headline: Headline, factors: Mapping[str, float]) -> pl.DataFrame:
    """Rows of data.parquet: the measured factors by name."""
    return pl.concat(frames.rows(headline.id, name, [place], [y]) for place, (name, y) in enumerate(factors.items()))


def smallest(headline: Headline) -> Row:
    """The smallest of the measured factors must lie in the range."""
    return _row(headline, "smallest")


def largest(headline: Headline) -> Row:
    """The largest of the measured factors must lie in the range."""
    return _row(headline, "largest")


def _row(headline: Headline, end: str) -> Row:
    what, ends = f"{headline.what}, {end} ({{}})", (headline.low, headline.high)
    return within(f"{headline.id}-{end}", what, headline.paper, *ends, why=headline.why, kind=headline.kind)


def ends(data: pl.DataFrame, smallest: Iterable[Headline] = (), largest: Iterable[Headline] = ()) -> Numbers:
    """The numbers of these rows, with the names of the factors."""
    return {
        f"{headline.id}-{end}": _end(data, headline, descending=end == "largest")
        for end, headlines in (("smallest", smallest), ("largest", largest))
        for headline in headlines
    }


def _end(data: pl.DataFrame, headline: Headline, descending: bool) -> tuple[float, str]:
    found = frames.chosen(data, panel=headline.id).sort("y", descending=descending, nulls_last=True)
    return math.nan if found["y"][0] is None else found["y"][0], found["series"][0]


def plot(data: pl.DataFrame, headlines: tuple[Headline, ...]) -> Any:
    """A panel per headline: our factors as dots, the abstract's range in grey."""
    counts = [frames.chosen(data, panel=headline.id).height for headline in headlines]
    height = 0.9 * len(headlines) + 0.16 * sum(counts)
    made, grid = figure(len(headlines), 1, width=PAGE, height=height, squeeze=False, gridspec_kw={"height_ratios": counts})
    for axes, headline in zip(grid[:, 0], headlines):
        points = frames.chosen(data, panel=headline.id).sort("x")
        axes.axvspan(headline.low, headline.high, color="0.9", zorder=0)
        axes.axvline(1.0, color=BLACK, lw=0.8, ls=":")
        axes.plot(points["y"], points["x"], "o", color=BLUE)
        axes.set_yticks(points["x"].to_list(), points["series"].to_list())
        axes.set_ylim(points.height - 0.5, -0.5)
        log_axis(axes.xaxis, None, (1, 2, 5))
        axes.set_title(f"{headline.what} (grey: {headline.paper})", fontsize=8.5)
    return made
