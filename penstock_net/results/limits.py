"""Which flows are "short" and which are "long": the papers' limits, or thirds of the traffic where those hold no flow."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Self

import polars as pl

from penstock_net.results.run import LONG_BYTES, SHORT_BYTES, Run
from penstock_net.units import format_size


@dataclass(frozen=True)
class Limits:
    """short: the largest size of a short flow, B; long: the smallest size of a long one. By default the papers'."""

    short: int = SHORT_BYTES - 1
    long: int = LONG_BYTES + 1

    def __str__(self) -> str:
        return f"short: {self.of('short')}, long: {self.of('long')}"

    def of(self, name: str) -> str:
        """What "short" or "long" means: "below 3KB", or "up to 12.4KB (the smallest third; none is below 3KB)"."""
        size = getattr(self, name)
        usual, sign = (SHORT_BYTES, "below") if name == "short" else (LONG_BYTES, "above")
        fixed = f"{sign} {format_size(usual)}"
        if size == getattr(FIXED, name):
            return fixed
        upto, which = ("up to", "smallest") if name == "short" else ("from", "largest")
        return f"{upto} {format_size(float(f'{size:.3g}'))} (the {which} third; none is {fixed})"

    @classmethod
    def of_runs(cls, runs: Iterable[Run]) -> Self:
        """The same limits for all of these runs: those of the papers if a run has such flows, else thirds of all their flows."""
        counted = [sizes(run) for run in runs]
        return cls.of_sizes(counted)

    @classmethod
    def of_sizes(cls, counted: Iterable[pl.DataFrame]) -> Self:
        """As `of_runs`, of what `sizes` has counted."""
        parts = list(counted)
        every = pl.concat(parts).group_by("bytes").agg(pl.col("count").sum()).sort("bytes") if parts else sizes_of(pl.Series())
        if not every.height:
            return cls()
        smallest, largest = int(every["bytes"][0]), int(every["bytes"][-1])
        upto, whole = every["count"].cum_sum(), int(every["count"].sum())
        return cls(
            FIXED.short if smallest <= FIXED.short else int(every["bytes"][int((3 * upto >= whole).arg_max() or 0)]),
            FIXED.long if largest >= FIXED.long else int(every["bytes"][int((3 * upto > 2 * whole).arg_max() or 0)]),
        )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """What `dump` wrote; None: the papers' limits."""
        return cls(**json.loads(text)) if text else cls()

    def dump(self) -> str:
        """As text for a file."""
        return json.dumps(asdict(self))


FIXED = Limits()


def sizes(run: Run) -> pl.DataFrame:
    """How many flows of each size started in the window, without incast: bytes, count."""
    return sizes_of(run.selected(run.background())["bytes"])


def sizes_of(flows: pl.Series) -> pl.DataFrame:
    """Columns bytes and count of sizes, B."""
    found = pl.DataFrame({"bytes": flows.cast(pl.Int64)}).group_by("bytes").agg(pl.len().cast(pl.Int64).alias("count"))
    return found.sort("bytes")
