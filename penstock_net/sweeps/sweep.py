"""`sweep` simulates every combination of parameter values and seeds, as the command does."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from penstock_net.errors import PenstockError, SpecError
from penstock_net.identity import made_by_another
from penstock_net.inputs import as_path
from penstock_net.progress import Count, is_notebook
from penstock_net.report import tables
from penstock_net.results import cells
from penstock_net.results.limits import FIXED, Limits, sizes
from penstock_net.results.run import Run
from penstock_net.results.rundir import check_writable, damage, is_run, is_whole, locked, recover, runs_below, summary_of
from penstock_net.results.sweep import KEY, SCHEME, SEED, SEED_KEY, Sweep, write_table
from penstock_net.spec import load_spec
from penstock_net.stderr import say
from penstock_net.sweeps import axes as varied
from penstock_net.sweeps.jobs import Backend, Job
from penstock_net.sweeps.points import Point, points_of
from penstock_net.sweeps.workers import backend


class SweepFailed(PenstockError):
    """Some points of a sweep did not finish."""


def sweep(
    spec: str | Path,
    params: Mapping[Any, Any] | None = None,
    *,
    seeds: int | Sequence[int] | None = None,
    sets: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    on: str = "local",
    workers: int | None = None,
    force: bool = False,
    progress: bool = True,
) -> Sweep:
    """Simulate every combination of parameter values and seeds, as `penstock sweep` does; finished runs are not repeated.

    spec      a TOML file, a run directory or a preset
    params    the values of each key that varies: {"workload.0.load": [0.5, 0.7], "scheme": ["bfc", "hpcc"]}; of keys that vary
              together: {("ecn.k_min", "ecn.k_max"): [("100KB", "400KB"), ("1MB", "2MB")]}; points with names:
              {"topology.changes": {"none": [], "dead spine": [{"time": "1us", "switch": "spine0", "up": False}]}}
    seeds     so many seeds, from 1; or the seeds
    sets      keys that have another value than in `spec`, in all runs
    out       the folder of the sweep, by default runs/NAME-sweep: the same as that of the command, which may go on with it
    on        where to simulate: "local", "dask://HOST:PORT", "slurm", "kubernetes"
    workers   local: processes, by default one per core
    force     allow a load above 1
    progress  a line for each run that has ended, on standard error, and a bar; in a notebook the bar alone

    Ctrl-C raises KeyboardInterrupt: the same call goes on where it was.
    SpecError: nothing varies, no such key, bad values.  SweepFailed: some runs failed; the others are in `out`.
    """
    axes = [varied.of(key, values) for key, values in (params or {}).items()]
    varied.check(axes)
    keys = varied.keys_of(axes)
    if seeds is not None:
        if SEED_KEY in keys:
            raise SpecError("and params of run.seed are the same", path="seeds", remedy="give one of them")
        axes.append(varied.seeds_axis(_seeds(seeds)))
    if not axes:
        raise SpecError("nothing varies", path="params", remedy='give seeds = 10, or params = {"workload.0.load": [0.5, 0.7]}')
    if both := [key for key in sets or {} if key in varied.keys_of(axes)]:
        raise SpecError("this key varies", path=f"sets.{both[0]}", remedy="leave it out of sets, or of params and seeds")
    folder = Path("runs") / f"{load_spec(spec).name}-sweep" if out is None else as_path(out, "out", "the folder of a sweep")
    points = list(points_of(spec, axes, [f"{key}={varied.text_of(value, key)}" for key, value in (sets or {}).items()]))
    table, failed = execute(points, folder, backend(on, workers), force, say if progress else _silent)
    check(points, failed)
    return Sweep.load(folder) if table.height else Sweep(folder, table, ())


def _seeds(given: int | Sequence[int]) -> Sequence[Any]:
    """So many seeds, from 1, or these."""
    found = range(1, given + 1) if isinstance(given, int) else given
    if isinstance(found, str) or not isinstance(found, Sequence) or not len(found):
        raise SpecError("must be a list of values", path="params.seeds", value=given, remedy='such as {"seeds": [...]}')
    return found


def _silent(text: str) -> None:
    """Say nothing."""


def execute(
    points: list[Point], out: Path, run_all: Backend, force: bool, tell: Callable[[str], None] = say
) -> tuple[pl.DataFrame, list[str]]:
    """Simulate what is missing of a sweep in its folder; the table of the finished runs, and why others failed."""
    check_writable(out / "probe")
    failed: list[str] = []
    with locked(out):
        for point in points:
            recover(out / point.key)
        wrong = {point.key: damage(out / point.key) for point in points if is_run(out / point.key)}
        todo = {point.key: point for point in points if wrong.get(point.key, "no run")}
        finished = len(points) - len(todo)
        lines = not is_notebook()  # there the bar says it
        if lines:
            tell(f"{len(points)} runs, {finished} of them finished before")
        for damaged in filter(None, wrong.values()):
            tell(f"{damaged}; it runs again")
        if others := _of_other_code(points, out):
            tell(f"{len(others)} runs in {out} are not used: {others[0]}")
        jobs = [Job(point.toml, key, out / key) for key, point in todo.items()]
        try:
            with Count(len(points), finished, shown=tell is not _silent) as count, closing(run_all(jobs, force)) as ended:
                for job, problem in ended:
                    finished += not problem
                    state = "failed as before" if problem in failed else f"failed: {problem}" if problem else "done"
                    if lines or problem:
                        tell(f"{finished}/{len(points)}  {todo[job.key].label()}  {state}")
                    count.show(finished)
                    if problem:
                        failed.append(problem)
        except KeyboardInterrupt:
            tell("interrupted; repeat the same command to resume")
            raise
        finally:
            table = summarise(points, out)
    return table, failed


def check(points: list[Point], failed: list[str]) -> None:
    """SweepFailed if some runs have failed."""
    if failed:
        raise SweepFailed(f"{len(failed)} of {len(points)} runs failed, the first with: {failed[0]}")


def _of_other_code(points: list[Point], out: Path) -> list[str]:
    """Why runs of these specs that lie in the folder are not those of the sweep."""
    keys = {point.key for point in points}
    code = {point.stamp["spec_key"]: point.stamp["code"] for point in points}
    made = [summary_of(path) for path in runs_below(out) if path.name not in keys]
    known = [each for each in made if each.get("spec_key") in code and "code" in each]
    return [made_by_another(each["code"], code[each["spec_key"]]) for each in known]


def summarise(points: list[Point], out: Path) -> pl.DataFrame:
    """Write DIR/sweep.parquet: the varied values, the comparison's columns, the seed and the key of every finished run.

    Every run is read once; twice where the papers' limits of short and long flows hold none of any run.
    """
    rows, counted = [], []
    for point in points:
        if is_whole(out / point.key):
            run = Run.load(out / point.key)
            counted.append(sizes(run))
            own = {SCHEME: point.scheme, SEED: point.seed, KEY: point.key}
            rows.append({k: _typed(v) for k, v in point.values.items()} | _statistics(run, FIXED) | own)
    limits = Limits.of_sizes(counted)
    if limits != FIXED:
        for row in rows:
            row |= {k: v for k, v in tables.row(Run.load(out / row[KEY]), limits).items() if k.startswith(("short_", "long_"))}
    table = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    if rows:
        write_table(out, table, limits)
    return table


def _statistics(run: Run, limits: Limits) -> dict[str, Any]:
    """The columns of the comparison, and those of each training job, by its name."""
    found = tables.row(run, limits)
    for job in (run.summary.get("training") or {}).get("jobs", []):
        found |= {f"{kind} of {job['name']}": job.get(kind) for kind in cells.OF_JOB}
    return found


def _typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
