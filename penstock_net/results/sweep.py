"""A sweep: many runs of one experiment, that differ in parameters, schemes and seeds; statistics with intervals over seeds.

sweep = Sweep.load("runs/loads")
sweep.runs                                   a row per run: parameters, scheme, seed, statistics
sweep.tidy()                                 a row per run and statistic
sweep.over_seeds("short_p99")                mean and 95 % interval per scheme and parameters
sweep.over_seeds("p99.9 slowdown of flows < 10KB", hops=lambda run: run.summary["packet_hops"])
sweep.table("short_p99", form="latex")       the same as a table to print
sweep.pareto("short_p99", "long_p99")        which points are on the front of these, and which differences are real
sweep.slowdown(99)                           the same for the slowdown by flow size
sweep.run(scheme="bfc", seed=1)              one of its runs
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.files import new_file, reason
from penstock_net.inputs import as_path
from penstock_net.notebook import block
from penstock_net.results import cells, statistic, sweep_table
from penstock_net.results.intervals import Interval, RatioInterval, interval, ratio_interval
from penstock_net.results.limits import FIXED, Limits
from penstock_net.results.pareto import USUAL, Pareto, pareto
from penstock_net.results.run import Run, fingerprint
from penstock_net.results.rundir import is_run, summary_of

FILE = "sweep.parquet"
DIGEST = "digest"  # of the values, in the metadata of the file
LIMITS = "limits"  # what short and long are in it, there too
KEY, SCHEME, SEED = "key", "scheme", "seed"  # columns beside the parameters and the statistics
SEED_KEY = "run.seed"


def is_sweep(path: str | Path) -> bool:
    """Whether a folder holds a sweep.  SpecError: this user may not look into it."""
    try:
        return (Path(path) / FILE).is_file()
    except PermissionError as error:
        rule = f"cannot be read ({reason(error)})"
        raise SpecError(rule, place=path, remedy="ask its owner for permission, or give another folder") from error


def write_table(folder: Path, runs: pl.DataFrame, limits: Limits = FIXED) -> None:
    """Write the table of a sweep, with its digest, and what short and long are.  SpecError: it cannot be written."""
    with new_file(folder / FILE, "give another folder with --out") as file:
        runs.write_parquet(file, metadata={DIGEST: fingerprint({"sweep": runs}), LIMITS: limits.dump()})


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
    limits      which flows are short and long in short_p99 and others, the same for all runs
    """

    path: Path
    runs: pl.DataFrame
    parameters: tuple[str, ...]
    limits: Limits = FIXED

    @classmethod
    def load(cls, path: str | Path) -> "Sweep":
        """Read the sweep in a folder.  SpecError: there is none, it is damaged, or it has no run yet."""
        folder = as_path(path, "path", "the folder of a sweep")
        if not is_sweep(folder):
            raise SpecError(f"holds no {FILE}", remedy="give the --out folder of penstock sweep", place=folder)
        try:
            runs = pl.read_parquet(folder / FILE)
            about = pl.read_parquet_metadata(folder / FILE)
            written, limits = about.get(DIGEST), Limits.parse(about.get(LIMITS))
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
        parameters = tuple(name for name in runs.columns if "." in name and name != SEED_KEY and not cells.of_job(name))
        return cls(folder, runs, parameters, limits)

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

    def with_statistics(self, *statistics: str | statistic.Read, **named: statistic.Read) -> "Sweep":
        """The sweep with more statistics: columns of `runs`, null where a run has no such value.

        statistics  columns that there are; names such as "p99.9 slowdown of flows < 10KB", read by `Statistic.parse`;
                    a `Statistic`; a function that reads a number from a Run, or None
        named       functions by the name of the statistic: drops=lambda run: run.summary["drops"]
        One run is in memory at a time.  SpecError: no such statistic, a bad name, or a run that is missing.
        """
        read = dict(self._named(given) for given in statistics if given not in self.statistics) | named
        if taken := [name for name in named if name in self.runs.columns]:
            raise SpecError("the sweep has a column of this name", path="statistic", value=taken[0], remedy="give another name")
        read = {name: each for name, each in read.items() if name not in self.statistics}
        if not read:
            return self
        rows: dict[str, dict[str, float | None]] = {}
        for row, run in self:
            rows[row[KEY]] = {name: statistic.value_of(name, each, run) for name, each in read.items()}
        if lost := [key for key in self.runs[KEY] if key not in rows]:
            raise SpecError("is not in the folder of the sweep", path="run", value=lost[0], remedy="repeat the sweep")
        made = [pl.Series(name, [rows[key][name] for key in self.runs[KEY]], dtype=pl.Float64) for name in read]
        return Sweep(self.path, self.runs.with_columns(made), self.parameters, self.limits)

    def _named(self, given: str | statistic.Read) -> tuple[str, statistic.Read]:
        if isinstance(given, str) and " " not in given:
            rule = "the sweep has no such statistic"
            remedy = f"{nearest(given, self.statistics)}; or such as {statistic.EXAMPLE}"
            raise SpecError(rule, path="statistic", value=given, remedy=remedy)
        return statistic.named(given)

    def over_seeds(self, *statistics: str | statistic.Read, **named: statistic.Read) -> pl.DataFrame:
        """Mean and 95 % interval over the seeds, a row per parameters, scheme and statistic (all of them if none is named).

        statistics, named  as in `with_statistics`: "short_p99", "p99.9 slowdown of flows < 10KB", a function of a Run
        Columns: the parameters, scheme, statistic, mean, low, high (the interval; null for one seed), runs.
        A percentile is that of each run, then averaged. The interval of a ratio, that is, of a statistic with "slowdown" in its
        name or one of the slowdowns of the comparison, is by bootstrap on a logarithmic scale, and so above 0
        (`penstock_net.results.intervals.ratio_interval`); that of others is Student's.  SpecError: no such statistic.
        """
        whole, names = self._with(statistics, named)
        tidy = whole.tidy()
        keys = [*self.parameters, SCHEME, "statistic"]
        parts = [over_seeds(tidy.filter(pl.col("statistic") == name), keys, cells.is_ratio(name)) for name in names]
        return pl.concat(parts) if parts else over_seeds(tidy, keys)

    def _with(self, statistics: Sequence[str | statistic.Read], named: Mapping[str, statistic.Read]) -> tuple["Sweep", list[str]]:
        """The sweep with these statistics, and their names; all that it has if none is given."""
        whole = self.with_statistics(*statistics, **named)
        names = [given if given in self.statistics else self._named(given)[0] for given in statistics]
        return whole, [*dict.fromkeys(map(str, [*names, *named]))] or self.statistics

    def table(self, *statistics: str | statistic.Read, form: str = "text", **named: statistic.Read) -> str:
        """The table of means with 95 % intervals, a row per scheme and parameters.

        statistics, named  as in `with_statistics`; none: those of the comparison table
        form               "text"; "latex", for the package booktabs; "csv": a row per statistic with mean, low, high; "markdown"
        """
        whole, names = self._with(statistics, named)
        usual = not (statistics or named)
        names = sweep_table.columns(self) if usual else names
        return sweep_table.printed(whole, names, [cells.note(self.limits)] if usual else self.what_is_short(names)).show(form)

    def what_is_short(self, names: Sequence[str]) -> list[str]:
        """What short and long mean in statistics, where it is not what the papers have."""
        used = [part for part in ("short", "long") if any(name.startswith(f"{part}_p") for name in names)]
        return [f"{part}: {self.limits.of(part)}" for part in used if getattr(self.limits, part) != getattr(FIXED, part)]

    def pareto(self, *statistics: str | statistic.Read) -> Pareto:
        """Which points (parameters and scheme) are on the Pareto front of these statistics, of which less is better, and which of
        their differences are real: compared seed by seed, with 95 % intervals (penstock_net.results.pareto).

        statistics  as in `with_statistics`; none: short_p99, long_p99, max_buffer_bytes, pfc_pause_fraction, if there
        """
        return pareto(self, statistics or [name for name in USUAL if name in self.statistics])

    def to_pandas(self) -> Any:
        """`runs` as a pandas DataFrame.  SpecError: pandas or pyarrow is missing."""
        return pandas(self.runs)

    def over_runs(
        self, read: Callable[[Run], pl.DataFrame], keys: Sequence[str], x: str = "", ratio: bool = False
    ) -> pl.DataFrame:
        """Mean and 95 % interval over the seeds of what `read` reads from each run: a frame of `keys`, `value`, perhaps `x`.

        Columns: the parameters, scheme, keys, mean, low, high, runs; `x`: a column whose mean over the seeds is kept, to sort by.
        ratio: the interval is that of ratios, as in `over_seeds`.
        """
        index = [*self.parameters, SCHEME]
        parts = [read(run).with_columns(*(pl.lit(row[name]).alias(name) for name in index)) for row, run in self]
        if not parts:
            raise SpecError("none of its runs is there", place=self.path, remedy="repeat the sweep")
        table = pl.concat(parts, how="vertical_relaxed")
        keys = [*index, *keys]
        means = over_seeds(table, keys, ratio)
        if not x:
            return means
        places = table.group_by(keys, maintain_order=True).agg(pl.col(x).mean())
        return means.join(places, on=keys, nulls_equal=True).sort([*index, x])

    def slowdown(self, percentile: float = 99, **options: Any) -> pl.DataFrame:
        """Slowdown by flow size as Run.slowdown gives it (and with its options), with the 95 % interval over the seeds.

        Columns: the parameters, scheme, to_bytes, mean, low, high, runs, bytes (mean of the runs' medians).
        """
        return self.slowdown_of(lambda run: run, percentile, **options)

    def slowdown_of(self, choose: Callable[[Run], Run], percentile: float = 99, **options: Any) -> pl.DataFrame:
        """As `slowdown`, of the part of each run that `choose` returns."""

        def read(run: Run) -> pl.DataFrame:
            table = choose(run).slowdown(percentile, **options).drop_nulls("slowdown")
            return table.select("to_bytes", "bytes", value="slowdown")

        return self.over_runs(read, ["to_bytes"], x="bytes", ratio=True)

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
        return Sweep(self.path, runs, self.parameters, self.limits)

    def run(self, **values: Any) -> Run:
        """The only run with these values, given as in `where`: `run(scheme="bfc", load=0.7, seed=1)`.

        SpecError: more than one has them; the run is missing; as `where`.
        """
        chosen = self.where(**values)
        varied = [name for name in (*self.parameters, SCHEME, SEED) if chosen.runs[name].n_unique() > 1]
        if varied:
            known = ", ".join(map(str, chosen.runs[varied[0]].unique(maintain_order=True)[:4]))
            said = ", ".join(f"{name}={value!r}" for name, value in values.items())
            raise SpecError(f"{len(chosen)} runs have it", path="run", value=said, remedy=f"say which {varied[0]}: {known}")
        for _, run in chosen:
            return run
        raise SpecError("is not in the folder of the sweep", path="run", value=chosen.runs[KEY][0], remedy="repeat the sweep")

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


def over_seeds(table: pl.DataFrame, keys: Sequence[str], ratio: bool = False) -> pl.DataFrame:
    """Mean, interval and number of the column `value`, by the columns `keys`, in the order in which they occur.

    ratio: the values are ratios; if all of a group are above 0, its interval is that of `ratio_interval`.
    """
    rows = []
    for group, part in table.group_by(keys, maintain_order=True):
        values = part["value"].to_list()
        above = ratio and all(value is None or not value <= 0 for value in values)
        found: Interval | RatioInterval = ratio_interval(values) if above else interval(values)
        rows.append((*group, found.mean, found.low, found.high, found.runs))
    schema: dict[str, Any] = {
        **{name: table.schema[name] for name in keys},
        **dict.fromkeys(("mean", "low", "high"), pl.Float64),
        "runs": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row").fill_nan(None)


def pandas(frame: pl.DataFrame) -> Any:
    """A frame as a pandas DataFrame.  SpecError: pandas or pyarrow is missing."""
    try:
        return frame.to_pandas()
    except ModuleNotFoundError as error:
        raise SpecError(f"a pandas DataFrame needs {error.name}", remedy="pip install 'penstock-net[pandas]'") from None
