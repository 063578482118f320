"""A distribution of values of which many are equal: each value once, with the number of times that it occurs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Distribution:
    """values: different ones, ascending; counts: how often each occurs, at least once."""

    values: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Distribution":
        """The distribution of an array."""
        return cls(*np.unique(values, return_counts=True))

    def in_units(self, unit: float) -> "Distribution":
        """The same values as multiples of a unit."""
        return replace(self, values=self.values / unit)

    def __len__(self) -> int:
        return int(self.counts.sum())

    def at(self, places: Any) -> np.ndarray:
        """The values at places of the sorted sample, counted from 0."""
        return self.values[np.searchsorted(np.cumsum(self.counts), places, side="right")]

    def percentiles(self, shares: Sequence[float]) -> np.ndarray:
        """As np.percentile of all values, to the last bit."""
        place = (len(self) - 1) * (np.asarray(shares) / 100)
        part = place - np.floor(place)
        low, high = self.at(np.floor(place)), self.at(np.ceil(place))
        step = high - low
        return np.where(part < 0.5, low + step * part, high - step * (1 - part))

    def mean(self) -> float:
        """The mean of all values."""
        return float((self.values * self.counts).sum() / len(self))
