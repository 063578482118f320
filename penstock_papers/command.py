"""penstock reproduce"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock_net.cli import _signals


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
        typer.Option(metavar="DIR", help="Add claims, numbers, points and code to this folder of records.", show_default=False),
    ] = None,
    all_: Annotated[
        bool,
        typer.Option(
            "--all", help="Every figure that has this scale, or those of the paper that FIGURE names; finished ones are kept."
        ),
    ] = False,
    confirm: Annotated[
        bool,
        typer.Option("--confirm", help="Repeat one run of each scheme, and compare it bit by bit with the figure's record."),
    ] = False,
    judge_again: Annotated[
        bool,
        typer.Option("--judge-again", help="Judge the points of the figure's record by the present claims; no run."),
    ] = False,
    calibrate: Annotated[
        str | None,
        typer.Option(
            metavar="PAPER",
            help="Run every candidate of the paper's unknowns (PAPER/unknowns.toml) on the figure that chooses and on held-out "
            "claims.",
            show_default=False,
        ),
    ] = None,
    unknown: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of --calibrate: this unknown only.", show_default=False)
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List all figures with their verdicts, recorded and here.")] = False,
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Figures of your own: FOLDER/PAPER/figNN.py.", show_default=False),
    ] = None,
) -> None:
    """Reproduce a figure of a paper and judge its claims.

    Examples:

        penstock reproduce --list

        penstock reproduce bfc/fig09 --scale paper --out fig09

        penstock reproduce bfc/table1 --seeds 5

        penstock reproduce --all --scale paper --workers 2 --record records

        penstock reproduce bfc/fig09 --scale paper --confirm

        penstock reproduce bfc/fig09 --scale paper --judge-again

        penstock reproduce --calibrate bfc --unknown dcqcn --scale paper --workers 2

        penstock reproduce dctcp/fig13 --from figures

    --confirm and --judge-again take the records of penstock_papers unless --record names others.

    Exit status 1 when a claim fails; the figure and claims.json are written all the same. --all writes index.html with every
    figure, too, and goes on from where it was interrupted.
    """
    if list_ and not from_:
        _list()
        return
    from penstock_net import inputs
    from penstock_net.errors import SpecError, nearest
    from penstock_net.results.rundir import locked
    from penstock_papers import everything, framework
    from penstock_papers.registry import EXPERIMENTS, Experiments
    from penstock_papers.verdicts import RECORDS

    if from_ and (confirm or judge_again or record):
        raise SpecError(
            "--from goes without --record, --confirm and --judge-again", remedy="records are of the package's figures"
        )
    experiments = Experiments.of_folder(from_) if from_ else EXPERIMENTS
    if unknown and not calibrate:
        raise SpecError("--unknown is of --calibrate", remedy="penstock reproduce --calibrate PAPER --unknown NAME")
    if list_:
        for id, each in experiments.items():
            typer.echo(f"{id}  {each.title}")
        return
    chosen = inputs.seeds(seeds) if seeds else None
    if calibrate:
        if figure or all_ or confirm or judge_again:
            raise SpecError("--calibrate takes no figure and no other mode", remedy="penstock reproduce --calibrate PAPER")
        out = out or Path("reproductions") / calibrate / "unknowns"
        with _signals.as_ctrl_c(), locked(out):
            _calibrate(experiments, calibrate, unknown, from_, out, scale, chosen, threads, workers, record)
        return
    if confirm:
        if chosen:
            raise SpecError("--confirm repeats runs of a record", remedy="give no --seeds")
        record = record or RECORDS
        _confirm([figure] if figure and not all_ else everything.unconfirmed(figure, scale, record), scale, record, threads)
        return
    if judge_again:
        if chosen:
            raise SpecError("--judge-again judges the points of a record", remedy="give no --seeds")
        record = record or RECORDS
        _judge_again([figure] if figure and not all_ else everything.with_record(figure, scale, record), scale, record)
        return
    if all_:
        _all(experiments, figure, out or Path("reproductions"), scale, threads, workers, record, chosen)
        return
    if figure is None:
        raise SpecError("give a figure, such as bfc/fig09", remedy="penstock reproduce --list shows all")
    if figure not in experiments:
        raise SpecError(f'figure "{figure}": there is none of that name', remedy=nearest(figure, experiments))
    out = out or Path("reproductions") / figure
    with _signals.as_ctrl_c(), locked(out):
        framework.reproduce(
            figure,
            scale=scale,
            out=out,
            threads=threads,
            progress=_Lines(),
            experiments=experiments,
            record=record,
            seeds=chosen,
            workers=workers,
        )


def _all(
    experiments: Any,
    paper: str | None,
    out: Path,
    scale: str,
    threads: int,
    workers: int,
    record: Path | None,
    seeds: list[int] | None,
) -> None:
    from penstock_net.results.rundir import locked
    from penstock_papers import everything

    ids = everything.chosen(paper, scale, experiments)
    with _signals.as_ctrl_c(), locked(out):
        wrong = everything.reproduce_all(
            ids, out, scale, threads, _Lines(), record, seeds, workers=workers, experiments=experiments
        )
    typer.echo(f"{len(ids) - len(wrong)} of {len(ids)} figures without a failed claim; written to {out / everything.PAGE}")
    for text in wrong.values():
        typer.echo(text, err=True)
    if wrong:
        raise typer.Exit(1)


def _calibrate(
    experiments: Any,
    paper: str,
    name: str | None,
    folder: Path | None,
    out: Path,
    scale: str,
    seeds: list[int] | None,
    threads: int,
    workers: int,
    record: Path | None,
) -> None:
    from rich.console import Console

    from penstock_papers import calibrate
    from penstock_papers.registry import FOLDER

    unknowns = calibrate.chosen(paper, name, folder.resolve() if folder else FOLDER, experiments)
    for each in unknowns if record else ():
        calibrate.recordable(each, scale, seeds)
    before = {each.name: calibrate.recorded(each, record) if record else None for each in unknowns}
    for each in unknowns:
        typer.echo(calibrate.cost(each, scale, seeds, experiments=experiments, before=before[each.name]))
    for each in unknowns:
        found = kept = before[each.name]
        for found in calibrate.calibrate(each, scale, seeds, None, threads, workers, _Lines(), experiments, kept):
            if record:
                calibrate.add(each, found, record, experiments)
        assert found, "there are candidates and figures"
        Console().print(calibrate.table(each, found))
        typer.echo(f"written to {calibrate.save(found, out)}")


def _confirm(ids: list[str], scale: str, record: Path, threads: int) -> None:
    from penstock_net.errors import PenstockError
    from penstock_papers.confirm import confirm

    changed = 0
    with _signals.as_ctrl_c():
        for id in ids:
            try:
                found = confirm(id, record, scale, threads=threads, progress=_Lines())
                typer.echo(f"{id}: as in the record: {'; '.join(found)}")
            except PenstockError as error:
                changed += 1
                typer.echo(str(error), err=True)
    typer.echo(f"{len(ids) - changed} of {len(ids)} records confirmed in {record}")
    if changed:
        raise typer.Exit(1)


def _judge_again(ids: list[str], scale: str, record: Path) -> None:
    from rich.console import Console

    from penstock_net.errors import PenstockError
    from penstock_papers import EXPERIMENTS, framework, records
    from penstock_papers.claims import FAIL

    wrong = 0
    for id in ids:
        try:
            claims = records.judge_again(id, record, scale)
        except PenstockError as error:
            wrong += 1
            typer.echo(str(error), err=True)
            continue
        Console().print(framework.table(EXPERIMENTS[id], claims))
        wrong += any(claim.verdict == FAIL for claim in claims)
    typer.echo(f"{len(ids) - wrong} of {len(ids)} figures judged without a failed claim")
    if wrong:
        raise typer.Exit(1)


def _list() -> None:
    from penstock_papers.local import state
    from penstock_papers.registry import EXPERIMENTS
    from penstock_papers.verdicts import recorded

    project, ids = recorded(), EXPERIMENTS.ids()
    titles = {id: project[id][0] if id in project else EXPERIMENTS[id].title for id in ids}
    width, wide = max(map(len, ids)), max(map(len, titles.values()))
    for id in ids:
        typer.echo(f"{id:<{width}}  {titles[id]:<{wide}}  {_state(state(id), project.get(id, ('', ''))[1])}")


def _state(here: Any, project: str) -> str:
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
