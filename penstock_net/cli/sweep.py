"""penstock sweep"""

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock_net.cli import _signals
from penstock_net.errors import PenstockError, SpecError
from penstock_net.stderr import say


def command(
    spec: Annotated[str, typer.Argument(metavar="SPEC.toml|PRESET", help="The experiment.", show_default=False)],
    param: Annotated[
        list[str],
        typer.Option(
            "--param",
            metavar="KEY=V1,V2",
            default_factory=list,
            show_default=False,
            help="Values of one key, or scheme=NAME,NAME; ranges are 1..10 and FROM..TO..STEP; repeatable.",
        ),
    ],
    set_: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE", default_factory=list, show_default=False, help="Change one key in all runs; repeatable."
        ),
    ],
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", metavar="N|A..B|A,B", help="Every run with seeds 1 to N, or with these.", show_default=False),
    ] = None,
    on: Annotated[
        str, typer.Option("--on", metavar="local|dask://HOST:PORT|slurm|kubernetes", help="Where to simulate.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="local: processes, by default one per core. slurm, kubernetes: workers to start.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: runs/NAME-sweep.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Allow a load above 1.")] = False,
) -> None:
    """Simulate every combination of parameter values and seeds; finished runs are not repeated.

    Examples:

        penstock sweep quickstart --param workload.0.load=0.5,0.7,0.9 --param scheme=bfc,hpcc --out runs/loads

        penstock sweep quickstart --seeds 10 --param scheme=bfc,hpcc --on dask://head:8786

    Each run is written to DIR/KEY, where KEY is a hash of its spec and of the simulator's code; sweep.parquet has a row per run.
    With several seeds the table shows means with 95 % intervals. Repeat the same command to resume after an interruption. Then

        penstock plot slowdown DIR -o fct.pdf

        penstock plot against DIR --x workload.0.load --y short_p99 -o load.pdf

    --on dask://HOST:PORT uses the workers of a Dask scheduler that runs; slurm and kubernetes start a Dask cluster as Dask's
    configuration describes it. Workers need this penstock and get the files that the spec names. The runs of a worker that
    ends go to others. If the scheduler or all workers stay away for a minute the command ends, status 1.
    """
    from penstock_net.cli._jobs import Job
    from penstock_net.cli._workers import backend
    from penstock_net.progress import Count
    from penstock_net.report import sweeps
    from penstock_net.results.rundir import check_writable, damage, is_run, locked, recover
    from penstock_net.results.sweep import FILE, Sweep
    from penstock_net.spec import load_spec

    name = load_spec(spec).name
    out = out or Path("runs") / f"{name}-sweep"
    axes = _axes(param, seeds)
    _check_sets(set_, axes)
    points = list(_points(spec, axes, set_))
    run_all = backend(on, workers)
    check_writable(out / "probe")
    failed: list[str] = []
    with _signals.as_ctrl_c(), locked(out):
        for point in points:
            recover(out / point.key)
        wrong = {point.key: damage(out / point.key) for point in points if is_run(out / point.key)}
        todo = {point.key: point for point in points if wrong.get(point.key, "no run")}
        finished = len(points) - len(todo)
        say(f"{len(points)} runs, {finished} of them finished before")
        for damaged in filter(None, wrong.values()):
            say(f"{damaged}; it runs again")
        if others := _of_other_code(points, out):
            say(f"{len(others)} runs in {out} are not used: {others[0]}")
        jobs = [Job(point.toml, key, out / key) for key, point in todo.items()]
        try:
            with Count(len(points), finished) as count, closing(run_all(jobs, force)) as ended:
                for job, problem in ended:
                    finished += not problem
                    state = f"failed: {problem}" if problem else "done"
                    say(f"{finished}/{len(points)}  {todo[job.key].label()}  {state}")
                    count.show(finished)
                    if problem:
                        failed.append(problem)
        except KeyboardInterrupt:
            say("interrupted; repeat the same command to resume")
            raise
        finally:
            table = summarise(points, out)
    if table.height:
        typer.echo(sweeps.text(Sweep.load(out)))
    typer.echo(f"{table.height} of {len(points)} runs in {out / FILE}")
    if failed:
        raise SweepFailed(f"{len(failed)} of {len(points)} runs failed, the first with: {failed[0]}")


def _of_other_code(points: list["Point"], out: Path) -> list[str]:
    """Why runs of these specs that lie in the folder are not those of the sweep."""
    from penstock_net.identity import made_by_another
    from penstock_net.results.rundir import runs_below, summary_of

    keys = {point.key for point in points}
    code = {point.stamp["spec_key"]: point.stamp["code"] for point in points}
    made = [summary_of(path) for path in runs_below(out) if path.name not in keys]
    known = [each for each in made if each.get("spec_key") in code and "code" in each]
    return [made_by_another(each["code"], code[each["spec_key"]]) for each in known]


class SweepFailed(PenstockError):
    """Some points of a sweep did not finish."""


@dataclass(frozen=True)
class Point:
    """One run of the sweep: the varied keys and their values, its scheme and seed, its identity, and the whole spec as text."""

    values: dict[str, Any]
    scheme: str
    seed: int
    stamp: dict[str, Any]
    toml: str

    @property
    def key(self) -> str:
        return str(self.stamp["key"])

    def label(self) -> str:
        """The varied values and the scheme, for messages."""
        return "  ".join([*(f"{k}={v}" for k, v in self.values.items()), self.scheme])


def _axes(params: list[str], given_seeds: str | None) -> dict[str, list[str]]:
    """The values of every key that varies.  SpecError: there is none, a key is given twice, or has no values."""
    from penstock_net.inputs import seeds, values

    axes: dict[str, list[str]] = {}
    for given in params:
        key, equals, text = given.partition("=")
        if not equals or not key:
            raise SpecError("expected KEY=V1,V2, such as workload.0.load=0.5,0.7", place=f"--param {given}")
        if key in axes:
            raise SpecError("is given twice", remedy="write all values in one", place=f"--param {key}")
        axes[key] = values(text, f"--param {given}")
    if given_seeds is not None:
        if "run.seed" in axes:
            raise SpecError("and --param run.seed are the same", remedy="give one of them", place="--seeds")
        axes["run.seed"] = [str(seed) for seed in seeds(given_seeds)]
    if not axes:
        raise SpecError("nothing varies", remedy="give --seeds 10, or --param such as workload.0.load=0.5,0.7", place="sweep")
    return axes


def _check_sets(sets: list[str], axes: dict[str, list[str]]) -> None:
    """SpecError: a key that varies has one value for all runs as well."""
    for given in sets:
        if given.partition("=")[0].strip() in axes:
            raise SpecError("this key varies", remedy="leave --set out, or --seeds or --param of it", place=f"--set {given}")


def _points(spec: str, axes: dict[str, list[str]], sets: list[str]) -> Iterator[Point]:
    """All combinations, each checked as far as that is quick: spec, schemes, topology."""
    from penstock_net import identity
    from penstock_net.spec import load_spec

    seen: set[str] = set()
    topologies: set[str] = set()
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination))
        chosen = [values["scheme"]] if "scheme" in values else []
        varied = [f"{key}={value}" for key, value in values.items() if key != "scheme"]
        loaded = load_spec(spec, sets=[*sets, *varied], schemes=chosen)
        topology = str(loaded.topology)
        if topology not in topologies:
            topologies.add(topology)
            loaded.build_topology()
        for table in loaded.schemes:
            loaded.build_scheme(table)
            single = loaded.only(table)
            stamp = identity.stamp(single)
            if stamp["key"] in seen:
                raise SpecError(f"--param: two combinations are the same run ({', '.join(varied) or table.name})")
            seen.add(stamp["key"])
            varied_here = {k: v for k, v in values.items() if k != "scheme"}
            yield Point(varied_here, loaded.label(table), loaded.run.seed, stamp, single.to_toml())


def summarise(points: list[Point], out: Path) -> Any:
    """Write DIR/sweep.parquet: the varied values, the comparison's columns, the seed and the key of every finished run."""
    import polars as pl

    from penstock_net.report import tables
    from penstock_net.results.run import Run
    from penstock_net.results.rundir import is_whole
    from penstock_net.results.sweep import KEY, SCHEME, SEED, write_table

    rows = []
    for point in points:
        if is_whole(out / point.key):
            rows.append(
                {
                    **{k: _typed(v) for k, v in point.values.items()},
                    **tables.row(Run.load(out / point.key)),
                    SCHEME: point.scheme,
                    SEED: point.seed,
                    KEY: point.key,
                }
            )
    table = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    if rows:
        write_table(out, table)
    return table


def _typed(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
