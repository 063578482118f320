"""penstock advise"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="A site.toml, or a config_db.json of SONiC.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write a report, and the rows of config_db.json.", show_default=False),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of a config_db.json that does not name a known one.", show_default=False),
    ] = None,
    neighbour: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="The config_db.json of a neighbour, to compare the ends of links.", show_default=False),
    ] = None,
) -> None:
    """Say what a switch is to be set to: headroom, thresholds, ECN and watchdog, each with its reason; and what is wrong.

    Examples:

        penstock advise site.toml --out advice

        penstock advise config_db.json --platform Z9864f

    A site.toml names switches, their platforms, ports and cables. A config_db.json is checked, too. DIR gets report.md with a
    picture, advice.json and config_db.json with the rows to load (config load); for a config_db.json also merged.json, all of
    it with these rows, and rollback.json, a patch that takes them back (config apply-patch). The status is 1 if there is an
    error among the findings.
    """
    from penstock_net.advise.study import study, text, write

    found = study(site, platform, tuple(neighbour or ()))
    for number, one in enumerate(found):
        typer.echo(("\n" if number else "") + "\n".join(text(one)))
    if out is not None:
        from penstock_net.report import plots
        from penstock_net.report.plots.advice import headroom_by_length

        paths = write(found, out, lambda advice: plots.render(headroom_by_length(advice), "png"))
        typer.echo(f"written to {out}: {', '.join(str(path.relative_to(out)) for path in paths)}")
    if any(one.wrong for one in found):
        raise typer.Exit(1)
