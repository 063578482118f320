"""penstock reproduce"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import _signals


def command(
    figure: Annotated[str | None, typer.Argument(metavar="FIGURE", help="Such as bfc/fig09.", show_default=False)] = None,
    scale: Annotated[
        str,
        typer.Option(
            metavar="quick|paper|real",
            help="quick: little traffic, only orderings are judged; paper: the paper's set-up; "
            "real: the real switch in real time, for figures that support it.",
        ),
    ] = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR", help="Default: reproductions/FIGURE.", show_default=False)
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|A..B|A,B,...",
            help="Seeds; claims are judged by the 95 % interval of the mean. Default: as many as the figure asks for.",
            show_default=False,
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads of the simulator.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Runs at the same time, in processes of their own.")] = 1,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the claims, numbers and sources to this file of records.", show_default=False),
    ] = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help="Every figure that has this scale, or those of the paper that FIGURE names; finished ones are kept."
        ),
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm", help="Repeat one run of each scheme, and compare it bit by bit with the --record of the figure."
        ),
    ] = False,
    judge_again: Annotated[
        bool,
        typer.Option("--judge-again", help="Judge the points that were kept with the --record by the present claims; no run."),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List all figures with their verdicts, recorded and here.")] = False,
) -> None:
    """Reproduce a figure of a paper and judge its claims.

    Examples:

        penstock reproduce --list

        penstock reproduce bfc/fig09 --scale paper --out fig09

        penstock reproduce bfc/table1 --seeds 5

        penstock reproduce --all --scale paper --workers 2 --record records.json

        penstock reproduce bfc/fig09 --scale paper --confirm --record records.json

        penstock reproduce bfc/fig09 --scale paper --judge-again --record records.json

    Exit status 1 when a claim fails; the figure and claims.json are written all the same. --all writes index.html with every
    figure, too, and goes on from where it was interrupted.
    """
    from penstock import experiments, inputs
    from penstock.errors import SpecError, nearest
    from penstock.experiments import everything
    from penstock.results.rundir import locked

    if list_:
        _list(experiments)
        return
    chosen = inputs.seeds(seeds) if seeds else None
    if confirm:
        if record is None or chosen:
            raise SpecError("--confirm repeats runs of a record", remedy="give --record FILE, and no --seeds")
        _confirm([figure] if figure and not all_ else everything.unconfirmed(figure, scale, record), scale, record, threads)
        return
    if judge_again:
        if record is None or chosen:
            raise SpecError("--judge-again judges the points of a record", remedy="give --record FILE, and no --seeds")
        _judge_again([figure] if figure and not all_ else everything.with_points(figure, scale, record), scale, record)
        return
    if all_:
        _all(figure, out or Path("reproductions"), scale, threads, workers, record, chosen)
        return
    if figure is None:
        raise SpecError("give a figure, such as bfc/fig09", remedy="penstock reproduce --list shows all")
    if figure not in experiments.EXPERIMENTS:
        raise SpecError(f'figure "{figure}": there is none of that name', remedy=nearest(figure, experiments.EXPERIMENTS))
    out = out or Path("reproductions") / figure
    with _signals.as_ctrl_c(), locked(out):
        experiments.reproduce(
            figure, scale=scale, out=out, threads=threads, progress=_Lines(), record=record, seeds=chosen, workers=workers
        )


def _all(
    paper: str | None, out: Path, scale: str, threads: int, workers: int, record: Path | None, seeds: list[int] | None
) -> None:
    from penstock.experiments import everything
    from penstock.results.rundir import locked

    ids = everything.chosen(paper, scale)
    with _signals.as_ctrl_c(), locked(out):
        wrong = everything.reproduce_all(ids, out, scale, threads, _Lines(), record, seeds, workers=workers)
    typer.echo(f"{len(ids) - len(wrong)} of {len(ids)} figures without a failed claim; written to {out / everything.PAGE}")
    for text in wrong.values():
        typer.echo(text, err=True)
    if wrong:
        raise typer.Exit(1)


def _confirm(ids: list[str], scale: str, record: Path, threads: int) -> None:
    from penstock.errors import PenstockError
    from penstock.experiments.confirm import confirm

    changed = 0
    with _signals.as_ctrl_c():
        for id in ids:
            try:
                found = confirm(id, record, scale, threads=threads, progress=_Lines())
                typer.echo(f"{id}: as in the record: {'; '.join(found['runs'])}")
            except PenstockError as error:
                changed += 1
                typer.echo(str(error), err=True)
    typer.echo(f"{len(ids) - changed} of {len(ids)} records confirmed in {record}")
    if changed:
        raise typer.Exit(1)


def _judge_again(ids: list[str], scale: str, record: Path) -> None:
    from rich.console import Console

    from penstock.errors import PenstockError
    from penstock.experiments import EXPERIMENTS, framework, points
    from penstock.experiments.claims import FAIL

    wrong = 0
    for id in ids:
        try:
            claims = points.judge_again(id, record, scale)
        except PenstockError as error:
            wrong += 1
            typer.echo(str(error), err=True)
            continue
        Console().print(framework.table(EXPERIMENTS[id], claims))
        wrong += any(claim.verdict == FAIL for claim in claims)
    typer.echo(f"{len(ids) - wrong} of {len(ids)} figures judged without a failed claim")
    if wrong:
        raise typer.Exit(1)


def _list(experiments: Any) -> None:
    from penstock.experiments.verdicts import recorded

    listed, project = experiments.EXPERIMENTS, recorded()
    ids, titles = max(map(len, listed)), max(len(experiment.title) for experiment in listed.values())
    for id, experiment in listed.items():
        typer.echo(f"{id:<{ids}}  {experiment.title:<{titles}}  {_state(experiments.state(id), project.get(id))}")


def _state(here: Any, project: str | None) -> str:
    said = [f"recorded: {project}"] * bool(project) + [f"here: {here}"] * bool(here)
    return "; ".join(said) or "not reproduced yet"


class _Lines:
    """Progress: one updated line on a terminal, only the names of the runs elsewhere."""

    def __init__(self) -> None:
        self.what = ""

    def __call__(self, what: str, fraction: float) -> None:
        if sys.stderr.isatty():
            end = "\n" if fraction >= 1 else ""
            print(f"\r\x1b[K{what}: {100 * fraction:.0f} %", end=end, file=sys.stderr, flush=True)
        elif what != self.what:
            print(what, file=sys.stderr, flush=True)
        self.what = what
