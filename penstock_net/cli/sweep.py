"""penstock sweep"""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock_net.cli import _signals, _tables
from penstock_net.errors import SpecError

if TYPE_CHECKING:
    from penstock_net.sweeps.points import Point


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
    statistic: _tables.Statistics,
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
    table: _tables.Form = "text",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check every run, with its flows, and list them only.")] = False,
) -> None:
    """Simulate every combination of parameter values and seeds; finished runs are not repeated.

    Examples:

        penstock sweep quickstart --param workload.0.load=0.5,0.7,0.9 --param scheme=bfc,hpcc --out runs/loads

        penstock sweep quickstart --seeds 10 --param scheme=bfc,hpcc --on dask://head:8786

    Each run is written to DIR/KEY, where KEY is a hash of its spec and of the simulator's code; sweep.parquet has a row per run.
    With several seeds the table shows means with 95 % intervals. --statistic chooses its columns: pN, median, mean or max of
    slowdown or fct, and perhaps which flows, as in "p50 fct of incast flows 10KB..100KB". Repeat the same command to resume after
    an interruption. Then

        penstock plot slowdown DIR -o fct.pdf

        penstock plot against DIR --x workload.0.load --y short_p99 -o load.pdf

    --on dask://HOST:PORT uses the workers of a Dask scheduler that runs; slurm and kubernetes start a Dask cluster as Dask's
    configuration describes it. Workers need this penstock and get the files that the spec names. The runs of a worker that
    ends go to others. If the scheduler or all workers stay away for a minute the command ends, status 1.
    """
    from penstock_net.results.sweep import FILE, Sweep
    from penstock_net.spec import load_spec
    from penstock_net.sweeps.points import points_of
    from penstock_net.sweeps.sweep import check, execute
    from penstock_net.sweeps.workers import backend

    name = load_spec(spec).name
    out = out or Path("runs") / f"{name}-sweep"
    axes = _axes(param, seeds)
    _tables.check(table)
    _tables.check_statistics(statistic)
    _check_sets(set_, axes)
    points = list(points_of(spec, axes, set_))
    if dry_run:
        _list(points, out, force)
        return
    run_all = backend(on, workers)
    with _signals.as_ctrl_c():
        made, failed = execute(points, out, run_all, force)
    if made.height:
        typer.echo(Sweep.load(out).table(*statistic, form=table))
    typer.echo(f"{made.height} of {len(points)} runs in {out / FILE}", err=table != "text")
    check(points, failed)


def _list(points: "list[Point]", out: Path, force: bool) -> None:
    """Check every run of a sweep, and print a line for each: what varies, its flows, its folder, whether it is there."""
    from penstock_net.results.rundir import is_whole
    from penstock_net.spec import parse_spec
    from penstock_net.workload.expected import Expected

    total = None
    for point in points:
        loaded = parse_spec(tomllib.loads(point.toml))
        topo = loaded.build_topology()
        flows = loaded.build_flows(topo, force)
        for given in loaded.schemes:
            loaded.check(given, topo, flows)
        expected = Expected.of(topo, flows, loaded.host.mtu)
        done = is_whole(out / point.key)
        if not done:
            total = expected if total is None else total + expected
        state = "finished before" if done else str(expected)
        seed = "" if "run.seed" in point.values else f"  seed={point.seed}"
        typer.echo(f"{point.label()}{seed}  {out / point.key}  {state}")
    rest = f"to simulate: {total}" if total else "nothing is left to simulate"
    typer.echo(f"{len(points)} runs; {rest}")


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
