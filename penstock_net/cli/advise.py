"""penstock advise"""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock_net.cli import _signals
from penstock_net.errors import SpecError

if TYPE_CHECKING:
    from penstock_net.advise.study import Study


def _platforms(wanted: bool) -> None:
    if wanted:
        from penstock_net.advise.platform import listed
        from penstock_net.cli._listing import listing

        typer.echo(listing(listed()))
        raise typer.Exit


def command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="A site.toml, or a config_db.json of SONiC.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write a report, and the rows of config_db.json.", show_default=False),
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option("--job", metavar="JOB.toml", help="Traffic: simulate what-ifs with it, in DIR.", show_default=False),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="incast|ecn|failures|storm",
            help="Of --job: only these, and only they are printed; repeatable.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[str, typer.Option("--seeds", metavar="N|A..B|A,B", help="Of --job: every what-if with these seeds.")] = "5",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Of --job: processes, by default one per core.", show_default=False)
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a config_db.json that does not name a known one.", show_default=False),
    ] = None,
    response: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Of a config_db.json: a platform by hand, from a pause's arrival to silence.", show_default=False
        ),
    ] = None,
    cell: Annotated[
        int | None, typer.Option(metavar="BYTES", help="By hand: a cell of the buffer; 0 counts bytes.", show_default=False)
    ] = None,
    mtu: Annotated[
        int | None, typer.Option(metavar="BYTES", help="By hand: the largest lossless packet.", show_default=False)
    ] = None,
    platforms: Annotated[
        bool,
        typer.Option(
            "--platforms", callback=_platforms, is_eager=True, help="List the platforms, and what their headroom is for."
        ),
    ] = False,
    neighbour: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The config_db.json of a neighbour, to compare the ends of links.", show_default=False),
    ] = None,
) -> None:
    """Say what a switch is to be set to: headroom, thresholds, ECN and watchdog, each with its reason; and what is wrong.

    Examples:

        penstock advise site.toml --out advice

        penstock advise config_db.json --platform Z9864f

        penstock advise site.toml --job job.toml --out advice

        penstock advise config_db.json --response 2.14us --cell 254 --mtu 4096

    A site.toml names switches, their platforms, ports and cables. A config_db.json is checked, too. DIR gets report.html and
    report.md with pictures, advice.json and config_db.json with the rows to load (config load); for a config_db.json also
    merged.json, all of it with these rows, and rollback.json, a patch that takes them back (config apply-patch). The status is
    1 if there is an error among the findings.

    With --job what-ifs are simulated, as the switch is and as advised: bystanders of an incast by buffer and fan-in, the ECN
    trade, failures, storms. Each number has a spec in DIR/specs that repeats it. Runs are kept in DIR/what-ifs: the same command
    goes on after an interruption.
    """
    from penstock_net.advise.screen import wrapped
    from penstock_net.advise.sonic import by_hand
    from penstock_net.advise.study import study, text, write

    for option, value in (("--what-if", what_if), ("--workers", workers)):
        if value and not job:
            raise SpecError("is of what-ifs", remedy="give --job, too", place=option)
    if job and not out:
        raise SpecError("needs a folder for its runs", remedy="give --out, such as --out advice", place="--job")
    own = by_hand(response, cell, mtu)
    found = study(site, platform, tuple(neighbour or ()), own)
    if job and out:
        found = _simulated(found, job, out, seeds, workers, tuple(what_if or ()))
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for number, one in enumerate(found):
        typer.echo(("\n" if number else "") + "\n".join(text(one, not what_if, width)))
    if out is not None:
        from penstock_net.report.board import files

        paths = write(found, out, files)
        names = ", ".join(str(path.relative_to(out)) for path in paths)
        typer.echo("\n".join(wrapped(f"written to {out}: {names}", width)))
    if any(one.wrong for one in found):
        raise typer.Exit(1)


def _simulated(
    found: "list[Study]", path: Path, out: Path, given: str, workers: int | None, only: tuple[str, ...]
) -> "list[Study]":
    """The studies with the what-ifs of the switch that the job is for."""
    from penstock_net.advise.job import read_job
    from penstock_net.advise.study import with_what_ifs
    from penstock_net.errors import nearest
    from penstock_net.inputs import seeds
    from penstock_net.sweeps.what_ifs import simulate

    job = read_job(path)
    names = [one.name for one in found]
    if job.switch and job.switch not in names:
        error = SpecError("the site has no such switch", path="switch", value=job.switch, remedy=nearest(job.switch, names))
        raise job.placed(error)
    index = names.index(job.switch) if job.switch else 0
    one = found[index]
    if one.advice and not one.advice.switch.buffer:
        rule = f"the buffer of {one.name} is not known, and what-ifs depend on it"
        raise SpecError(rule, remedy="give buffer, what packets may take", place="--job")
    if one.advice is None or not one.advice.fits:
        raise SpecError(f"{one.name} has no settings that fit", remedy="without --job the reason is said", place="--job")
    folder = out / one.name if len(found) > 1 else out
    with _signals.as_ctrl_c():
        made = simulate(one.advice, job, one.config, folder, seeds(given), workers, only)
    return [*found[:index], with_what_ifs(one, made), *found[index + 1 :]]
