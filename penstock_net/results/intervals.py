"""Mean and 95 % confidence interval over runs with different seeds.

`interval` is Student's, symmetric about the mean. `ratio_interval` is for values above 0 whose logarithm is what varies evenly,
such as slowdowns: the standard error of the logarithm of the mean is bootstrapped, and multiplied by Student's t.
"""

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.95
RESAMPLES, SEED = 2000, 1


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


class RatioInterval(NamedTuple):
    """A mean of ratios over runs, with its confidence interval, which is symmetric on a logarithmic scale.

    mean    NaN if there is no value
    factor  the bounds are mean / factor and mean * factor; NaN for fewer than two values
    runs    number of values
    """

    mean: float
    factor: float
    runs: int

    @property
    def low(self) -> float:
        """Lower bound, above 0."""
        return self.mean / self.factor

    @property
    def high(self) -> float:
        """Upper bound."""
        return self.mean * self.factor

    def __str__(self) -> str:
        return f"{self.mean:.4g}" if math.isnan(self.factor) else f"{self.mean:.4g} ({self.low:.3g} to {self.high:.3g})"


def ratio_interval(values: Iterable[float | None], confidence: float = CONFIDENCE) -> RatioInterval:
    """The interval of the mean of independent values above 0, one per run; None and NaN are left out.

    RESAMPLES samples of the values with replacement give the standard error of log(mean). It is widened by sqrt(n / (n - 1)),
    without which it is too narrow for few values, and multiplied by Student's t: Hesterberg, "What Teachers Should Know About
    the Bootstrap", The American Statistician 69(4), 2015 (narrowness bias; t intervals with bootstrap standard errors).
    The draws are the same at every call, and the order of the values does not matter.  ValueError: a value is 0 or less.
    """
    known = sorted(float(v) for v in values if v is not None and not math.isnan(v))
    count = len(known)
    if count and known[0] <= 0:
        raise ValueError(f"{known[0]} is no ratio")
    if count < 2:
        return RatioInterval(known[0] if count else math.nan, math.nan, count)
    mean = math.fsum(known) / count
    if known[0] == known[-1]:
        return RatioInterval(mean, 1.0, count)
    logs = np.log(np.asarray(known)[_draws(count)].mean(axis=1))
    error = float(logs.std()) * math.sqrt(count / (count - 1))
    return RatioInterval(mean, math.exp(t_quantile(count - 1, confidence) * error), count)


def log_interval(values: Iterable[float], confidence: float = CONFIDENCE) -> Interval:
    """The interval of the mean of logarithms of ratios, one per run, bootstrapped and widened as that of `ratio_interval`."""
    known = sorted(values)
    count = len(known)
    if count < 2:
        return Interval(known[0] if count else math.nan, math.nan, count)
    if known[0] == known[-1]:
        return Interval(known[0], 0.0, count)
    error = float(np.asarray(known)[_draws(count)].mean(axis=1).std()) * math.sqrt(count / (count - 1))
    return Interval(math.fsum(known) / count, t_quantile(count - 1, confidence) * error, count)


@functools.cache
def _draws(count: int) -> np.ndarray:
    """RESAMPLES rows of `count` places to draw from; raw bits of a generator, which no version of numpy changes."""
    raw = np.random.PCG64(SEED).random_raw(RESAMPLES * count)
    return (raw % np.uint64(count)).astype(np.int64).reshape(RESAMPLES, count)


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
