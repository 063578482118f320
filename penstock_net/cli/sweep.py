"""penstock sweep"""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock_net.cli import _signals, _tables
from penstock_net.errors import SpecError

if TYPE_CHECKING:
    from penstock_net.sweeps.axes import Axis
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
            help="Values of one key, or scheme=NAME,NAME; ranges are 1..10 and FROM..TO..STEP. Keys that vary together: "
            "KEY,KEY=V,V;V,V; points with names: KEY=NAME: V; NAME: V; from a file: @FILE.toml. Repeatable.",
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
    pareto: Annotated[
        list[str] | None,
        typer.Option(
            "--pareto",
            metavar="NAME,NAME|usual",
            show_default=False,
            help="Which points are on the Pareto front of these statistics, less is better; usual: short_p99, long_p99, "
            "max_buffer_bytes, pfc_pause_fraction. Repeatable.",
        ),
    ] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(
            "--scheme", metavar="NAME", show_default=False, help="The same as a name of --param scheme=NAME,NAME; repeatable."
        ),
    ] = None,
) -> None:
    """Simulate every combination of parameter values and seeds; finished runs are not repeated.

    Examples:

        penstock sweep quickstart --param workload.0.load=0.5,0.7,0.9 --param scheme=bfc,hpcc --out runs/loads

        penstock sweep quickstart --seeds 10 --param scheme=bfc,hpcc --on dask://head:8786

        penstock sweep clos.toml --seeds 5 --param "ecn.k_min,ecn.k_max=100KB,400KB;1MB,2MB" --pareto short_p99,long_p99

        penstock sweep clos.toml --param 'topology.changes=none: []; dead spine: [{time="1us", switch="spine0", up=false}]'

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
    from penstock_net.results.pareto import USUAL
    from penstock_net.results.sweep import FILE, Sweep
    from penstock_net.spec import load_spec
    from penstock_net.sweeps.axes import keys_of
    from penstock_net.sweeps.points import points_of
    from penstock_net.sweeps.sweep import check, execute
    from penstock_net.sweeps.workers import backend

    name = load_spec(spec).name
    out = out or Path("runs") / f"{name}-sweep"
    axes = _axes([*param, *([f"scheme={','.join(scheme)}"] if scheme else [])], seeds)
    _tables.check(table)
    fronts = [name.strip() for given in pareto or [] for name in given.split(",")]
    _tables.check_statistics([*statistic, *fronts])
    _check_sets(set_, keys_of(axes))
    points = list(points_of(spec, axes, set_))
    if dry_run:
        _list(points, out, force)
        return
    run_all = backend(on, workers)
    with _signals.as_ctrl_c():
        made, failed = execute(points, out, run_all, force)
    if made.height:
        made_here = Sweep.load(out)
        usual = [name for name in USUAL if name in made_here.statistics]
        chosen = [name for each in fronts for name in (usual if each == "usual" else [each])]
        typer.echo(made_here.pareto(*chosen).table(table) if chosen else made_here.table(*statistic, form=table))
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
            loaded.check(given, topo, flows, built=True)
        expected = Expected.of(topo, flows, loaded.host.mtu)
        done = is_whole(out / point.key)
        if not done:
            total = expected if total is None else total + expected
        state = "finished before" if done else str(expected)
        seed = "" if "run.seed" in point.values else f"  seed={point.seed}"
        typer.echo(f"{point.label()}{seed}  {out / point.key}  {state}")
    rest = f"to simulate: {total}" if total else "nothing is left to simulate"
    typer.echo(f"{len(points)} runs; {rest}")


def _axes(params: list[str], given_seeds: str | None) -> "list[Axis]":
    """What varies.  SpecError: nothing does, a key is given twice, or has no values."""
    from penstock_net.inputs import seeds
    from penstock_net.results.sweep import SEED_KEY
    from penstock_net.sweeps.axes import check, keys_of, parse, seeds_axis

    axes = [parse(given) for given in params]
    check(axes)
    if given_seeds is not None:
        if SEED_KEY in keys_of(axes):
            raise SpecError("and --param run.seed are the same", remedy="give one of them", place="--seeds")
        axes.append(seeds_axis(seeds(given_seeds)))
    if not axes:
        raise SpecError("nothing varies", remedy="give --seeds 10, or --param such as workload.0.load=0.5,0.7", place="sweep")
    return axes


def _check_sets(sets: list[str], keys: list[str]) -> None:
    """SpecError: a key that varies has one value for all runs as well."""
    for given in sets:
        if given.partition("=")[0].strip() in keys:
            raise SpecError("this key varies", remedy="leave --set out, or --seeds or --param of it", place=f"--set {given}")
