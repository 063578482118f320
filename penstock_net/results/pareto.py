"""The Pareto front of a sweep: which of its points are worth having, by several statistics, and what the seeds do not tell.

A point is a combination of parameters and scheme. The means over the seeds count, and less is better. A point is

    front    if no other one is at least as good in all of them and better in one;
    beaten   if such a one is better beyond chance in at least one of them;
    open     if such a one is better in none of them beyond chance: more seeds would tell.

Two points are compared seed by seed, since equal seeds have equal traffic: the interval is of the ratio of the two values of each
seed, by bootstrap on a logarithmic scale, as that of `intervals.ratio_interval`; where a value is 0, of their difference, by
Student's t. A difference is real if that interval does not contain "equal".
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from penstock_net.errors import SpecError
from penstock_net.results import cells, statistic
from penstock_net.results.intervals import interval, log_interval
from penstock_net.results.printed import Printed

if TYPE_CHECKING:
    from penstock_net.results.sweep import Sweep

USUAL = ("short_p99", "long_p99", "max_buffer_bytes", "pfc_pause_fraction")
NOTE = (
    "front: no other point is as good in all columns and better in one, by the means; beaten: such a point is, and beyond "
    "chance in the columns named; open: the seeds do not tell;\n"
    "* best of its column, ~ not different from that beyond chance (paired by seed; 95 % interval of the ratio, by bootstrap on "
    "a logarithmic scale)"
)


class Difference(NamedTuple):
    """One point against another one in a statistic.

    ratio, low, high  of the first to the second, with its 95 % interval; NaN where a value is 0, or of one seed in common
    real              whether they differ beyond chance: 1 and -1, the first is more or less; 0, they do not
    seeds             that both have
    """

    ratio: float
    low: float
    high: float
    real: int
    seeds: int


@dataclass(frozen=True)
class Pareto:
    """The points of a sweep, and which of them are on the front.

    statistics  that count, less is better
    points      a row per point: parameters, scheme, seeds, the mean of each statistic, front ("front", "beaten", "open"), by (the
                point that is better; null on the front), in_what (statistics in which that is so beyond chance)
    names       of the points
    shown       the means with their intervals as texts, a column per statistic
    """

    statistics: tuple[str, ...]
    points: pl.DataFrame
    names: tuple[str, ...]
    shown: pl.DataFrame
    compared: "Compared" = field(repr=False)

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """A row per two points and statistic: a, b (names of points), statistic, ratio of a to b, low, high, real, seeds."""
        number = range(len(self.names))
        rows = [
            (self.names[i], self.names[j], name, *self.compared.of(i, j, name))
            for i in number
            for j in number[i + 1 :]
            for name in self.statistics
        ]
        schema: dict[str, Any] = {
            **dict.fromkeys(("a", "b", "statistic"), pl.String),
            **dict.fromkeys(("ratio", "low", "high"), pl.Float64),
            **dict.fromkeys(("real", "seeds"), pl.Int64),
        }
        return pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)

    def table(self, form: str = "text") -> str:
        """The points as a table: "text", "latex", "csv" or "markdown"."""
        varied = self.points.columns[: -len(self.statistics) - 4]
        heads = [*varied, "seeds", *map(cells.heading, self.statistics), "front"]
        best = {name: self._best(name) for name in self.statistics}
        rows = []
        for i, row in enumerate(self.points.iter_rows(named=True)):
            said = row["front"] if row["by"] is None else f"{row['front']}: {row['by']}"
            said += f" ({', '.join(map(cells.heading, row['in_what']))})" if row["in_what"] else ""
            values = [f"{self.shown[name][i]}{self._mark(name, i, best[name])}" for name in self.statistics]
            rows.append([*(str(row[name]) for name in varied), str(row["seeds"]), *values, said])
        frame = self.points.with_columns(pl.col("in_what").list.join(", "))
        return Printed(heads, rows, frame, [NOTE], len(varied)).show(form)

    def _best(self, name: str) -> int | None:
        known = self.points[name]
        return None if known.null_count() == len(known) else known.arg_min()

    def _mark(self, name: str, i: int, best: int | None) -> str:
        if best is None or self.points[name][i] is None:
            return ""
        if i == best or self.points[name][i] == self.points[name][best]:
            return " *"
        return "" if self.compared.real(i, best, name) else " ~"

    def difference(self, a: str, b: str, name: str) -> Difference:
        """Two points in a statistic.  SpecError: no such points or statistic."""
        if a == b or not {a, b} <= set(self.names) or name not in self.statistics:
            raise SpecError("are no two points of the front", path="pareto", value=f"{a}, {b}, {name}")
        return self.compared.of(self.names.index(a), self.names.index(b), name)


class Compared:
    """The points of a sweep, two of which are compared when somebody asks.

    values  of each point: its values by seed, by statistic
    """

    def __init__(self, values: list[dict[str, dict[Any, Any]]]) -> None:
        self.values = values
        self.known: dict[tuple[int, int, str], Difference] = {}

    def real(self, i: int, j: int, name: str) -> int:
        """`Difference.real` of point i against point j."""
        return self.of(i, j, name).real if i < j else -self.of(j, i, name).real

    def of(self, i: int, j: int, name: str) -> Difference:
        """Point i against point j."""
        if i > j:
            found = self.of(j, i, name)
            return found._replace(ratio=1 / found.ratio, low=1 / found.high, high=1 / found.low, real=-found.real)
        if (i, j, name) not in self.known:
            self.known[i, j, name] = compare(self.values[i][name], self.values[j][name])
        return self.known[i, j, name]


def pareto(sweep: "Sweep", given: Sequence[str | statistic.Read]) -> Pareto:
    """The front of a sweep by these statistics.  SpecError: no such statistic, fewer than two points."""
    whole = sweep.with_statistics(*given)
    names = tuple(each if isinstance(each, str) and each in whole.statistics else statistic.named(each)[0] for each in given)
    keys = [*sweep.parameters, "scheme"]
    parts = whole.runs.partition_by(keys, maintain_order=True)
    if len(parts) < 2:
        raise SpecError("the sweep has one point only", path="pareto", remedy="vary a parameter or the scheme")
    labels = _labels([part.select(keys).row(0) for part in parts], whole, keys)
    values = [{name: dict(zip(part["seed"], part[name])) for name in names} for part in parts]
    compared = Compared(values)
    means = [{name: _mean(list(by_seed[name].values())) for name in names} for by_seed in values]
    ahead = front_of([tuple(mean.values()) for mean in means])
    rows = []
    for i, part in enumerate(parts):
        by, what = (None, []) if i in ahead else _better(i, means, compared, names)
        front = "front" if by is None else "beaten" if what else "open"
        rows.append(
            {
                **part.select(keys).row(0, named=True),
                "seeds": part["seed"].n_unique(),
                **means[i],
                "front": front,
                "by": None if by is None else labels[by],
                "in_what": what,
            }
        )
    schema: dict[str, Any] = {
        **{key: whole.runs.schema[key] for key in keys},
        "seeds": pl.Int64,
        **dict.fromkeys(names, pl.Float64),
        "front": pl.String,
        "by": pl.String,
        "in_what": pl.List(pl.String),
    }
    shown = {
        name: [cells.mean(name, row) for row in whole.over_seeds(name).select("mean", "low", "high").iter_rows(named=True)]
        for name in names
    }
    return Pareto(names, pl.DataFrame(rows, schema=schema, orient="row"), tuple(labels), pl.DataFrame(shown), compared)


def compare(a: dict[Any, Any], b: dict[Any, Any]) -> Difference:
    """Values of two points by seed, of which those of common seeds count."""
    common = [(a[seed], b[seed]) for seed in a if a[seed] is not None and b.get(seed) is not None]
    if all(x > 0 and y > 0 for x, y in common):
        found = log_interval([math.log(x / y) for x, y in common])
        ratio, low, high = (math.exp(value) for value in (found.mean, found.low, found.high))
        return Difference(ratio, low, high, _side(found.low, found.high), len(common))
    plain = interval([x - y for x, y in common])
    return Difference(math.nan, math.nan, math.nan, _side(plain.low, plain.high), len(common))


def _side(low: float, high: float) -> int:
    return 1 if low > 0 else -1 if high < 0 else 0


def _mean(values: list[Any]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def front_of(means: Sequence[tuple[float | None, ...]]) -> set[int]:
    """The points that no other one dominates.  In the order of their means a point can be dominated by those before it only, and
    then by one of them that is on the front."""
    known = [tuple(math.inf if mean is None else mean for mean in point) for point in means]
    front = {i for i, point in enumerate(known) if any(map(math.isnan, point))}  # neither better nor worse than any
    worth: list[tuple[float, ...]] = []  # different ones; of two statistics only the last can dominate what follows
    for i in sorted(set(range(len(known))) - front, key=known.__getitem__):
        if worth and known[i] == worth[-1]:
            front.add(i)
        elif not any(_no_worse(point, known[i]) for point in (worth[-1:] if len(known[i]) <= 2 else worth)):
            front.add(i)
            worth.append(known[i])
    return front


def _better(
    i: int, means: list[dict[str, float | None]], compared: Compared, names: Sequence[str]
) -> tuple[int | None, list[str]]:
    """The point that has no worse means, and where it is better beyond chance: of several the one that is so in most."""
    best: tuple[int | None, list[str]] = (None, [])
    for j in range(len(means)):
        if j == i or not dominates(means[j], means[i]):
            continue
        real = [name for name in names if compared.real(i, j, name) > 0]
        if best[0] is None or len(real) > len(best[1]):
            best = j, real
        if len(real) == len(names):  # none can be so in more
            break
    return best


def dominates(a: dict[str, float | None], b: dict[str, float | None]) -> bool:
    """Whether `a` is at least as good in all and better in one; a value that is missing is worse than any."""
    first, second = (tuple(math.inf if value is None else value for value in point.values()) for point in (a, b))
    return first != second and _no_worse(first, second)


def _no_worse(a: Iterable[float], b: Iterable[float]) -> bool:
    return all(x <= y for x, y in zip(a, b))


def _labels(rows: list[tuple[Any, ...]], sweep: "Sweep", keys: Sequence[str]) -> list[str]:
    """A name of each point: the values of what varies."""
    varied = [i for i, key in enumerate(keys) if sweep.runs[key].n_unique() > 1]
    return [", ".join(str(row[i]) for i in varied) for row in rows]
