"""A sweep: many runs of one experiment, that differ in parameters, schemes and seeds; statistics with intervals over seeds.

sweep = Sweep.load("runs/loads")
sweep.runs                                   a row per run: parameters, scheme, seed, statistics
sweep.tidy()                                 a row per run and statistic
sweep.over_seeds("short_p99")                mean and 95 % interval per scheme and parameters
sweep.slowdown(99)                           the same for the slowdown by flow size
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.files import new_file
from penstock_net.inputs import as_path
from penstock_net.notebook import block
from penstock_net.results.intervals import interval
from penstock_net.results.run import Run, fingerprint
from penstock_net.results.rundir import is_run, summary_of

FILE = "sweep.parquet"
DIGEST = "digest"  # of the values, in the metadata of the file
KEY, SCHEME, SEED = "key", "scheme", "seed"  # columns beside the parameters and the statistics
SEED_KEY = "run.seed"


def is_sweep(path: str | Path) -> bool:
    """Whether a folder holds a sweep."""
    return (Path(path) / FILE).is_file()


def write_table(folder: Path, runs: pl.DataFrame) -> None:
    """Write the table of a sweep, with its digest.  SpecError: it cannot be written."""
    with new_file(folder / FILE, "give another folder with --out") as file:
        runs.write_parquet(file, metadata={DIGEST: fingerprint({"sweep": runs})})


def check_table(folder: Path) -> str:
    """What is wrong with the table of a sweep; "": nothing."""
    try:
        runs = Sweep.load(folder).runs
    except SpecError as error:
        return str(error)
    lost = [name for name in runs[KEY].cast(pl.String) if not is_run(folder / name)]
    other = [name for name in runs[KEY].cast(pl.String) if summary_of(folder / name).get("key", name) != name]
    if lost or other:
        return f"{folder / FILE} names the run {(lost + other)[0]}, which is {'missing' if lost else 'another one'}"
    return ""


@dataclass(frozen=True)
class Sweep:
    """A sweep that was saved.

    path        its folder
    runs        a row per run: `parameters`, scheme, seed, the statistics of the comparison table, and key, the run's folder
    parameters  what was varied besides schemes and seeds, such as "workload.0.load"
    """

    path: Path
    runs: pl.DataFrame
    parameters: tuple[str, ...]

    @classmethod
    def load(cls, path: str | Path) -> "Sweep":
        """Read the sweep in a folder.  SpecError: there is none, it is damaged, or it has no run yet."""
        folder = as_path(path, "path", "the folder of a sweep")
        if not is_sweep(folder):
            raise SpecError(f"holds no {FILE}", remedy="give the --out folder of penstock sweep", place=folder)
        try:
            runs = pl.read_parquet(folder / FILE)
            written = pl.read_parquet_metadata(folder / FILE).get(DIGEST)
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise SpecError(
                f"cannot be read ({str(error).splitlines()[0]})", remedy="repeat the sweep", place=folder / FILE
            ) from None
        if written is not None and written != fingerprint({"sweep": runs}):
            rule = "is not what the sweep wrote: it was edited or damaged"
            raise SpecError(rule, remedy="repeat the sweep: finished runs are kept", place=folder / FILE)
        missing = [name for name in (KEY, SCHEME, SEED) if name not in runs.columns]
        if missing:
            rule = f"has no column {missing[0]}: an older version made it"
            raise SpecError(rule, remedy="repeat the sweep: finished runs are kept", place=folder / FILE)
        parameters = tuple(name for name in runs.columns if "." in name and name != SEED_KEY)
        return cls(folder, runs, parameters)

    def __repr__(self) -> str:
        varied = [*self.parameters, SCHEME, SEED]
        counts = (f"{self.runs[name].n_unique()} {name}" for name in varied if self.runs[name].n_unique() > 1)
        return f"<Sweep {self.path}: {', '.join([f'{len(self.runs):,} runs', *counts])}>"

    def _repr_html_(self) -> str:
        return block(repr(self)[1:-1]) + self.runs.drop(KEY)._repr_html_()

    @property
    def statistics(self) -> list[str]:
        """Names of the statistics, such as short_p99."""
        other = {*self.parameters, KEY, SCHEME, SEED, SEED_KEY}
        return [name for name, dtype in self.runs.schema.items() if name not in other and dtype.is_numeric()]

    def tidy(self) -> pl.DataFrame:
        """A row per run and statistic: the parameters, scheme, seed, key, statistic, value (null: the run has none)."""
        index = [*self.parameters, SCHEME, SEED, KEY]
        return self.runs.select(*index, *(pl.col(name).cast(pl.Float64) for name in self.statistics)).unpivot(
            index=index, variable_name="statistic", value_name="value"
        )

    def over_seeds(self, *statistics: str) -> pl.DataFrame:
        """Mean and 95 % interval over the seeds, a row per parameters, scheme and statistic (all of them if none is named).

        Columns: the parameters, scheme, statistic, mean, half (of the interval's width; null for one seed), runs.
        A percentile is that of each run, then averaged.  SpecError: no such statistic.
        """
        for name in statistics:
            if name not in self.statistics:
                raise SpecError(
                    "the sweep has no such statistic", path="statistic", value=name, remedy=nearest(name, self.statistics)
                )
        table = self.tidy().filter(pl.col("statistic").is_in(list(statistics or self.statistics)))
        return over_seeds(table, [*self.parameters, SCHEME, "statistic"])

    def over_runs(self, read: Callable[[Run], pl.DataFrame], keys: Sequence[str], x: str = "") -> pl.DataFrame:
        """Mean and 95 % interval over the seeds of what `read` reads from each run: a frame of `keys`, `value`, perhaps `x`.

        Columns: the parameters, scheme, keys, mean, half, runs; `x`: a column whose mean over the seeds is kept, to sort by.
        """
        index = [*self.parameters, SCHEME]
        parts = [read(run).with_columns(*(pl.lit(row[name]).alias(name) for name in index)) for row, run in self]
        if not parts:
            raise SpecError("none of its runs is there", place=self.path, remedy="repeat the sweep")
        table = pl.concat(parts, how="vertical_relaxed")
        keys = [*index, *keys]
        means = over_seeds(table, keys)
        if not x:
            return means
        places = table.group_by(keys, maintain_order=True).agg(pl.col(x).mean())
        return means.join(places, on=keys, nulls_equal=True).sort([*index, x])

    def slowdown(self, percentile: float = 99, **options: Any) -> pl.DataFrame:
        """Slowdown by flow size as Run.slowdown gives it (and with its options), with the 95 % interval over the seeds.

        Columns: the parameters, scheme, to_bytes, mean, half, runs, bytes (mean of the runs' medians).
        """
        return self.slowdown_of(lambda run: run, percentile, **options)

    def slowdown_of(self, choose: Callable[[Run], Run], percentile: float = 99, **options: Any) -> pl.DataFrame:
        """As `slowdown`, of the part of each run that `choose` returns."""

        def read(run: Run) -> pl.DataFrame:
            table = choose(run).slowdown(percentile, **options).drop_nulls("slowdown")
            return table.select("to_bytes", "bytes", value="slowdown")

        return self.over_runs(read, ["to_bytes"], x="bytes")

    @property
    def has_intervals(self) -> bool:
        """Whether some parameters and scheme have runs with several seeds."""
        return bool(self.runs.height > self.runs.select(*self.parameters, SCHEME).n_unique())

    def where(self, **values: Any) -> "Sweep":
        """The runs whose parameters, scheme or seed have these values: `where(load=0.7, scheme=["bfc", "hpcc"])`.

        A parameter is named in whole ("." is written "__") or by the end of its name; of several values any counts.
        SpecError: no such parameter, more than one, a value that no run has.
        """
        runs = self.runs
        for given, value in values.items():
            name = self.parameter(given.replace("__", "."), (*self.parameters, SCHEME, SEED))
            known = self.runs[name].unique(maintain_order=True).to_list()
            wanted = list(value) if isinstance(value, (list, tuple, set, range)) else [value]
            if missing := [each for each in wanted if each not in known]:
                raise SpecError("no run of the sweep has it", path=name, value=missing[0], remedy=nearest(missing[0], known))
            runs = runs.filter(pl.col(name).is_in(wanted))
        return Sweep(self.path, runs, self.parameters)

    def parameter(self, name: str, known: Sequence[str] | None = None) -> str:
        """The parameter (or one of `known`) of this name, or whose name ends so.  SpecError: there is none, or more than one."""
        known = self.parameters if known is None else known
        found = [each for each in known if each == name] or [each for each in known if each.endswith(f".{name}")]
        if len(found) == 1:
            return found[0]
        rule = "which of them?" if found else "the sweep has no such parameter"
        raise SpecError(rule, path="parameter", value=name, remedy=" or ".join(found) if found else nearest(name, known))

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Run]]:
        """Every run with its row of `runs`; one is in memory at a time."""
        for row in self.runs.iter_rows(named=True):
            if is_run(self.path / row[KEY]):
                yield row, Run.load(self.path / row[KEY])

    def __len__(self) -> int:
        return self.runs.height


def over_seeds(table: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Mean, half width and number of the column `value`, by the columns `keys`, in the order in which they occur."""
    rows = []
    for group, part in table.group_by(keys, maintain_order=True):
        found = interval(part["value"].to_list())
        rows.append((*group, found.mean, found.half, found.runs))
    schema: dict[str, Any] = {
        **{name: table.schema[name] for name in keys},
        "mean": pl.Float64,
        "half": pl.Float64,
        "runs": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)
