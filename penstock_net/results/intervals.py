"""Mean and 95 % confidence interval over runs with different seeds."""

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """A mean over runs, with its confidence interval.

    mean  NaN if there is no value
    half  half the width of the interval, by Student's t distribution; NaN for fewer than two values
    runs  number of values
    """

    mean: float
    half: float
    runs: int

    @property
    def low(self) -> float:
        """Lower bound."""
        return self.mean - self.half

    @property
    def high(self) -> float:
        """Upper bound."""
        return self.mean + self.half

    def __str__(self) -> str:
        return f"{self.mean:.4g}" if math.isnan(self.half) else f"{self.mean:.4g} ± {self.half:.2g}"


def interval(values: Iterable[float | None], confidence: float = CONFIDENCE) -> Interval:
    """The interval of independent values, one per run; None and NaN are left out."""
    known = [float(v) for v in values if v is not None and not math.isnan(v)]
    count = len(known)
    if not count:
        return Interval(math.nan, math.nan, 0)
    mean = math.fsum(known) / count
    if count == 1:
        return Interval(mean, math.nan, 1)
    deviation = math.sqrt(math.fsum((v - mean) ** 2 for v in known) / (count - 1))
    return Interval(mean, t_quantile(count - 1, confidence) * deviation / math.sqrt(count), count)


@functools.cache
def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """t with P(|T| < t) = confidence, for Student's t distribution with so many degrees of freedom."""
    low, high = 0.0, 1.0
    while _central(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _central(middle, degrees) < confidence else (low, middle)
    return high


def _central(t: float, degrees: int) -> float:
    """P(|T| < t): the finite series of Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term = total = cosine if odd else 1.0
    for k in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    if odd:
        return 2 / math.pi * (angle + (math.sin(angle) * total if degrees > 1 else 0.0))
    return math.sin(angle) * total
