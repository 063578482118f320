"""Flow size distributions: the bundled ones by the field's names, or a user's own CSV of `bytes,cdf`.

    google = SizeDistribution.load("google")          # or load("my.csv"); names() and catalogue() list the bundled ones
    google.sample(rng, 10), google.mean(), google.byte_weighted_cdf([1_000, 100_000])

Two samplers, both by inverse transform of a uniform u in [0, 1), both giving whole bytes >= 1:

* interpolated (default; HPCC's, BFC's and Floodgate's simulators): linear between the points, rounded to the nearest
  byte (HPCC's and BFC's generators truncate: half a byte less on average, an error of 0.02 % for "google");
* steps (`interpolate=False`, Homa's simulator): the smallest tabulated size whose cdf is at least u.

`mean()` is the exact mean of the chosen sampler, integers, `round_up` and all: load is computed with it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock_net import formats
from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import MAX_FLOW_BYTES, Table, boolean, decimal, inside, read_bytes, read_text, whole, whole_cell

BUNDLED = Path(__file__).parent / "sizes"
COLUMNS = ("bytes", "cdf")
_ENDS_AT_1 = 1e-9


def names() -> list[str]:
    """The bundled distributions, sorted."""
    return sorted(path.stem for path in BUNDLED.glob("*.csv"))


def catalogue() -> list[dict[str, Any]]:
    """`describe()` of every bundled distribution."""
    return [SizeDistribution.load(name).describe() for name in names()]


class SizeDistribution:
    """Sizes of flows in bytes, and how to draw them.

    name         of the bundled distribution, or the path of the file
    bytes, cdf_points   int64 and float64 arrays of equal length: P[size <= bytes[i]] = cdf_points[i]
    paper, origin       what it stands for and where it was taken from ("" if the file does not say)
    interpolate         linear between the points (True) or steps (False)
    round_up            sizes above this many bytes are rounded up to a multiple of it (the BFC paper's simulator: 1000,
                        whole packets); None: no rounding. The mean follows, so that load is exact; BFC's own generator
                        takes the mean before rounding, hence offers a little more than its nominal load.

    Sizes and cdf never decrease; equal sizes make an atom; the first point carries its cdf as an atom. A size of 0 may
    only stand where the cdf is 0, as the origin of the first straight line. The cdf ends at 1. Otherwise SpecError.
    """

    def __init__(
        self,
        name: str,
        bytes: Sequence[int] | np.ndarray,
        cdf: Sequence[float] | np.ndarray,
        *,
        paper: str = "",
        origin: str = "",
        interpolate: bool = True,
        round_up: int | None = None,
    ) -> None:
        rows = [(f"{name}, point {i}", str(size), str(p)) for i, (size, p) in enumerate(zip(bytes, cdf))]
        if len(bytes) != len(cdf):
            raise SpecError(f"{len(bytes)} sizes but {len(cdf)} cdf values", remedy="give one for each", place=name)
        self._set(name, _points(rows, name), paper, origin, interpolate, round_up)

    def _set(
        self, name: str, points: tuple[np.ndarray, np.ndarray], paper: str, origin: str, interpolate: bool, round_up: int | None
    ) -> None:
        self.name, self.paper, self.origin = name, paper, origin
        self.bytes, self.cdf_points = points
        self.interpolate = boolean(interpolate, "interpolate")
        self.round_up = None if round_up is None else whole(round_up, "round_up", 1, MAX_FLOW_BYTES)
        self._lines = self._straight_lines()
        self._mean = float(self._moments(sizes=True)[-1])

    @classmethod
    def load(
        cls, source: str | os.PathLike[str] | SizeDistribution, *, interpolate: bool = True, round_up: int | None = None
    ) -> SizeDistribution:
        """A bundled distribution by name, or a CSV file by path (of any suffix, or containing a slash), or one of rows
        `bytes percent` without a header, as the HPCC simulator has them.

        A SizeDistribution is returned as it is, with its own `interpolate` and `round_up`.

        Raises SpecError: an unknown name (with the nearest one), or a malformed file (with file:line).
        """
        if isinstance(source, SizeDistribution):
            return source
        if not isinstance(source, (str, os.PathLike)):
            raise SpecError('must be a name such as "google" or the path of a CSV file', path="sizes", value=source)
        text = os.fspath(source)
        bundled = text in names()
        if not bundled and isinstance(source, str) and not Path(text).suffix and os.sep not in text:
            remedy = f"{nearest(text, names())}; a file has a suffix or a folder, such as ./{text}"
            raise SpecError("no such distribution", path="sizes", value=text, remedy=remedy)
        path = str(BUNDLED / f"{text}.csv") if bundled else text
        plain = None if bundled else _plain_rows(path)
        if plain is not None:
            result = cls.__new__(cls)
            result._set(text, _points(plain, path), "", "", interpolate, round_up)
            return result
        table = Table(path, "bytes,cdf", "sizes")
        points = _points(_rows(table), table.path)
        about = {key: text for key, _, text in (comment.partition(": ") for comment in table.comments)}
        result = cls.__new__(cls)
        result._set(text, points, about.get("paper", ""), about.get("origin", ""), interpolate, round_up)
        return result

    def __repr__(self) -> str:
        return f"SizeDistribution({self.name!r}, mean={self._mean:.6g} B, points={len(self.bytes)})"

    def quantile(self, p: Any) -> np.ndarray:
        """The size in bytes (int64, shape of p) that a uniform p in [0, 1] maps to: the sampler itself."""
        if self.interpolate:
            size = np.rint(np.interp(p, self.cdf_points, self.bytes)).astype(np.int64)
            size = np.maximum(size, 1)
        else:
            has_mass = np.diff(self.cdf_points, prepend=0.0) > 0
            size = self.bytes[has_mass][np.searchsorted(self.cdf_points[has_mass], p)]
        if self.round_up:
            size = np.where(size > self.round_up, -(-size // self.round_up) * self.round_up, size)
        return size

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """n sizes in bytes, int64, all >= 1; takes n doubles from rng."""
        return self.quantile(rng.random(n))

    def mean(self) -> float:
        """The exact mean of `sample` in bytes."""
        return self._mean

    def cdf(self, sizes: Any) -> np.ndarray:
        """The fraction of flows of at most `sizes` bytes, exact for the integers of `sample`; shape of sizes."""
        return self._at(sizes, self._moments(sizes=False), sizes=False)

    def byte_weighted_cdf(self, sizes: Any) -> np.ndarray:
        """The fraction of all bytes that flows of at most `sizes` bytes carry; shape of sizes."""
        return self._at(sizes, self._moments(sizes=True), sizes=True) / self._mean

    def describe(self) -> dict[str, Any]:
        """name, paper, origin, points; min, mean, p50, p90, p99, max bytes; mean_step_bytes, of the step sampler."""
        low, p50, p90, p99, high = (int(v) for v in self.quantile(np.array([0, 0.5, 0.9, 0.99, 1])))
        step = SizeDistribution(self.name, self.bytes, self.cdf_points, interpolate=False, round_up=self.round_up)
        return {
            "name": self.name,
            "paper": self.paper,
            "origin": self.origin,
            "points": len(self.bytes),
            "min_bytes": low,
            "mean_bytes": self._mean,
            "mean_step_bytes": step.mean(),
            "p50_bytes": p50,
            "p90_bytes": p90,
            "p99_bytes": p99,
            "max_bytes": high,
        }

    # -- exact moments: the distribution is a sum of lines (uniform on [low, high], rounded) and atoms (low == high) ---

    def _straight_lines(self) -> list[tuple[int, int, float]]:
        """(low, high, mass) of every piece that has mass, ascending."""
        low = [int(size) for size in self.bytes]
        mass = np.diff(self.cdf_points, prepend=0.0)
        if not self.interpolate:
            return [(size, size, float(m)) for size, m in zip(low, mass) if m > 0]
        starts = [low[0], *low[:-1]]
        return [(a, b, float(m)) for a, b, m in zip(starts, low, mass) if m > 0]

    def _final(self, size: int) -> int:
        """What the sampler makes of a rounded size."""
        size = max(size, 1)
        return -(-size // self.round_up) * self.round_up if self.round_up and size > self.round_up else size

    def _sum_final(self, k: int) -> int:
        """Sum of _final(j) over j in 0..k (0 for k < 0), in closed form."""
        if k < 0:
            return 0
        r = self.round_up
        if not r or k <= r:
            return 1 + k * (k + 1) // 2
        full, rest = divmod(k, r)
        multiples = r * (r * full * (full + 1) // 2 + rest * (full + 1))
        return 1 + r * (r + 1) // 2 + multiples - r * r

    def _piece(self, line: tuple[int, int, float], k: int, sizes: bool) -> float:
        """Mass (or mass times size) of a line up to and including its integer k, low <= k <= high."""
        low, high, mass = line
        if low == high:
            return mass * (self._final(low) if sizes else 1)
        count = self._sum_final(k) - self._sum_final(low - 1) if sizes else k - low + 1
        ends = [low] + [high] * (k == high)  # uniform on [low, high], rounded: the two ends get half a byte's mass
        return mass * (2 * count - sum(self._final(end) if sizes else 1 for end in ends)) / (2 * (high - low))

    def _moments(self, sizes: bool) -> np.ndarray:
        """Running totals over whole lines, float64[lines + 1]; the last of sizes is the mean."""
        pieces = [self._piece(line, line[1], sizes) for line in self._lines]
        totals = np.concatenate([[0.0], np.cumsum(pieces)])
        totals[-1] = math.fsum(pieces)
        return totals

    def _at(self, sizes_at: Any, totals: np.ndarray, sizes: bool) -> np.ndarray:
        at = np.asarray(sizes_at, dtype=np.float64)
        last = [self._largest_before(size) for size in at.ravel()]
        whole_lines = np.searchsorted([line[1] for line in self._lines], last, side="right")
        result = [totals[i] + self._part(i, k, sizes) for i, k in zip(whole_lines, last)]
        return np.array(result, dtype=np.float64).reshape(at.shape)

    def _largest_before(self, size: float) -> int:
        """The largest rounded size that the sampler keeps or rounds up to at most `size`."""
        if math.isnan(size) or size < 1:
            return -1
        k = int(min(size, 2 * MAX_FLOW_BYTES))
        return k // self.round_up * self.round_up if self.round_up and k > self.round_up else k

    def _part(self, i: int, k: int, sizes: bool) -> float:
        """The share of line i, which k does not cover as a whole."""
        return self._piece(self._lines[i], k, sizes) if i < len(self._lines) and self._lines[i][0] <= k else 0.0


def _plain_rows(path: str) -> list[tuple[str, str, str]] | None:
    """The rows of a file without a header, `bytes percent` or `bytes share`, as other simulators have; None: it has one."""
    raw = read_bytes(path, "sizes")
    formats.refuse_others(raw, formats.SIZES, path)
    rows = [(f"{path}:{n}", line.split()) for n, line in enumerate(read_text(path, "sizes").splitlines(), start=1)]
    rows = [(where, words) for where, words in rows if words and not words[0].startswith("#")]
    if not rows or "," in "".join(rows[0][1]) or len(rows[0][1]) != 2 or not rows[0][1][0].isdecimal():
        return None
    for where, words in rows:
        if len(words) != 2:
            raise SpecError(f'"{" ".join(words)[:60]}" has {len(words)} columns', remedy="a row is: bytes percent", place=where)
    where, (_, last) = rows[-1]
    with inside(place=where):
        end = 100 if decimal(last, "percent") > 1 else 1
        if abs(decimal(last, "percent") - end) > _ENDS_AT_1 * end:
            raise SpecError("the last value must be 100", path="percent", value=last, remedy="is the file truncated?")
    points = []
    for where, (size, share) in rows:
        with inside(place=where):
            exact = decimal(share, "percent") / end
            if not 0 <= exact <= 1:
                raise SpecError(f"must be between 0 and {end}", path="percent", value=share)
        points.append((where, size, str(float(exact))))
    return points


def _rows(table: Table) -> Iterable[tuple[str, str, str]]:
    if tuple(table.columns) != COLUMNS:
        found = ",".join(table.columns)[:60]
        raise SpecError(f'the header is "{found}"', remedy='it must be "bytes,cdf"', place=table.where(table.header_line))
    for line, (size, p) in table.rows():
        yield table.where(line), size, p


def _points(rows: Iterable[tuple[str, str, str]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Checked arrays of (where, bytes, cdf) rows."""
    sizes: list[int] = []
    cdf: list[float] = []
    where = name
    for where, size_cell, cdf_cell in rows:
        with inside(place=where):
            size, p = _point(size_cell, cdf_cell, sizes[-1] if sizes else 0, cdf[-1] if cdf else 0.0)
        sizes.append(size)
        cdf.append(p)
    if not sizes:
        raise SpecError("no sizes", remedy='put at least one row such as "1000,1" below the header bytes,cdf', place=name)
    if abs(cdf[-1] - 1) > _ENDS_AT_1:
        raise SpecError("the last value must be 1", path="cdf", value=cdf[-1], remedy="is the file truncated?", place=where)
    cdf = [1.0 if 1 - p <= _ENDS_AT_1 and size == sizes[-1] else p for size, p in zip(sizes, cdf)]
    points = np.array(sizes, dtype=np.int64), np.array(cdf)
    for array in points:
        array.flags.writeable = False
    return points


def _point(size_cell: str, cdf_cell: str, last_size: int, last_cdf: float) -> tuple[int, float]:
    exact = decimal(cdf_cell, "cdf")
    if not 0 <= exact <= 1:
        percent = "are these per cent? divide by 100" if exact > 1 else ""
        raise SpecError("must be between 0 and 1", path="cdf", value=cdf_cell, remedy=percent)
    size = whole_cell(size_cell, "bytes", 0, MAX_FLOW_BYTES)
    if size == 0 and exact > 0:
        raise SpecError(f"no flow has 0 bytes, but cdf = {cdf_cell}", path="bytes", value=size, remedy="give it at least 1")
    if size < last_size:
        raise SpecError(f"sizes must not decrease, before it is {last_size}", path="bytes", value=size, remedy="sort the rows")
    if float(exact) < last_cdf:
        rule, remedy = f"must not decrease, before it is {last_cdf}", "give cumulative probabilities"
        raise SpecError(rule, path="cdf", value=cdf_cell, remedy=remedy)
    return size, float(exact)
