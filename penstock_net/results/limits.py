"""Which flows are "short" and which are "long": the papers' limits, or thirds of the traffic where those hold no flow."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Self

import numpy as np

from penstock_net.results.run import LONG_BYTES, SHORT_BYTES, Run
from penstock_net.units import format_size

Counted = tuple[np.ndarray, np.ndarray]  # sizes, B, and how many flows have each
NONE: Counted = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


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
    def of_sizes(cls, counted: Iterable[Counted]) -> Self:
        """As `of_runs`, of what `sizes` has counted."""
        size, count = (np.concatenate(column) for column in zip(NONE, *counted))
        if not len(size):
            return cls()
        order = np.argsort(size)
        size, upto = size[order], np.cumsum(count[order])
        return cls(
            FIXED.short if size[0] <= FIXED.short else int(size[np.argmax(3 * upto >= upto[-1])]),
            FIXED.long if size[-1] >= FIXED.long else int(size[np.argmax(3 * upto > 2 * upto[-1])]),
        )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """What `dump` wrote; None: the papers' limits."""
        return cls(**json.loads(text)) if text else cls()

    def dump(self) -> str:
        """As text for a file."""
        return json.dumps(asdict(self))


FIXED = Limits()


def sizes(run: Run) -> Counted:
    """How many flows of each size started in the window, without incast."""
    return sizes_of(run.selected(run.background())["bytes"].to_numpy())


def sizes_of(flows: np.ndarray) -> Counted:
    """Which sizes there are, B, and how many of each."""
    size, count = np.unique(flows.astype(np.int64), return_counts=True)
    return size, count
