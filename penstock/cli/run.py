"""penstock run"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from penstock.results.run import Run
    from penstock.spec import Spec


def command(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC.toml|PRESET", help="A TOML file, a run directory or a preset.", show_default=False)
    ],
    scheme: Annotated[
        list[str],
        typer.Option(
            "--scheme",
            metavar="NAME",
            default_factory=list,
            show_default=False,
            help="Replaces the file's schemes; repeatable.",
        ),
    ],
    set_: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key; repeatable.", default_factory=list, show_default=False),
    ],
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of the simulator; the results do not change.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random stream.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: an unused runs/NAME.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run; allow a load above 1.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and print the full spec only.")] = False,
) -> None:
    """Simulate an experiment, one run per scheme.

    Examples:

        penstock run quickstart

        penstock run quickstart --scheme bfc --scheme hpcc --set workload.0.load=0.7 --out runs/load70

    With one scheme the results are written to DIR, with several to DIR/SCHEME, and a comparison to DIR. Ctrl-C keeps the
    results so far. `penstock explain DIR` describes the files.
    """
    from penstock.spec import load_spec

    loaded = load_spec(spec, sets=set_, schemes=scheme, seed=seed, threads=threads)
    for table in loaded.schemes:
        loaded.build_scheme(table)
    topo = loaded.build_topology()
    if dry_run:
        loaded.build_flows(topo, force)
        typer.echo(loaded.to_toml(), nl=False)
        return
    out = out or _unused(Path("runs") / loaded.name)
    folders = _folders(loaded, out)
    _check(folders, force, 0)
    flows = loaded.build_flows(topo, force)
    _check(folders, force, len(flows))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    slim: list[Run] = []
    interrupted = False
    for table, folder in zip(loaded.schemes, folders):
        label = loaded.label(table)
        print(f"{label}: {len(flows):,} flows, {loaded.run.duration} simulated", file=sys.stderr, flush=True)
        run = simulate(loaded, table, topo, flows)
        with _undisturbed():
            run.save(folder, overwrite=force)
        slim.append(_slim(run))
        interrupted = bool(run.summary.get("interrupted"))
        if interrupted:
            break
    _print_results(loaded, slim, out, interrupted)
    if interrupted:
        raise typer.Exit(130)


def simulate(spec: "Spec", table: Any, topo: Any, flows: Any) -> "Run":
    """Run one scheme, with a progress bar."""
    from penstock.cli._progress import Progress

    with Progress(spec.label(table), spec.duration_ps) as progress:
        return spec.simulate(table, topo, flows, progress=progress)


def _folders(spec: "Spec", out: Path) -> list[Path]:
    return [out] if len(spec.schemes) == 1 else [out / label for label in spec.labels()]


def _unused(path: Path) -> Path:
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _check(folders: list[Path], force: bool, flows: int) -> None:
    from penstock.errors import SpecError
    from penstock.results.rundir import check_writable, is_run

    if len(folders) > 1 and is_run(folders[0].parent):
        raise SpecError("holds one run already", place=folders[0].parent, remedy="give another --out for several schemes")
    for folder in folders:
        check_writable(folder, overwrite=force, flows=flows * len(folders))


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C while results are saved."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _slim(run: "Run") -> "Run":
    """Only what the comparison needs, so that several large runs fit into memory."""
    from penstock.results.run import Run, empty_frame

    flows = run.flows.select("start_ns", "bytes", "class", "priority", "slowdown")
    return Run(flows, empty_frame("switches"), empty_frame("ports"), summary=run.summary)


def _print_results(spec: "Spec", runs: list["Run"], out: Path, interrupted: bool) -> None:
    from penstock.report import tables

    if len(spec.schemes) > 1:
        compare(runs, out, spec.to_toml())
    typer.echo(tables.text(runs))
    typer.echo(tables.window_note(runs))
    typer.echo(tables.NOTE)
    for run in runs:
        for warning in run.summary.get("warnings") or []:
            typer.echo(f"warning: {run.label}: {warning}", err=True)
    what = "interrupted; partial results are in" if interrupted else "written to"
    typer.echo(f"{what} {out}; next: penstock report {out} -o report.html", err=interrupted)


def compare(runs: list["Run"], out: Path, spec: str) -> None:
    """Write comparison.csv, slowdown.pdf and slowdown.png of all runs, and their common spec."""
    from penstock.report import plots, tables
    from penstock.results.rundir import write_file

    write_file(out / "comparison.csv", tables.comparison(runs).write_csv().encode())
    write_file(out / "spec.toml", spec.encode())
    figure = plots.slowdown(*runs)
    for name in ("slowdown.pdf", "slowdown.png"):
        plots.save(figure, out / name)
