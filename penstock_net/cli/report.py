"""penstock report"""

from pathlib import Path
from typing import Annotated

import typer

from penstock_net.cli import _tables


def command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run directories, or the folder of a sweep.", show_default=False)
    ],
    statistic: _tables.Statistics,
    where: _tables.Where,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The page; default: report.html, or none with --table.", show_default=False
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "penstock report",
    clock: Annotated[
        str, typer.Option(help="Where a flow ends: receiver (last byte) or sender (last acknowledgement).")
    ] = "receiver",
    table: Annotated[
        str | None,
        typer.Option(
            "--table", metavar="text|latex|csv|markdown", help="Print the comparison as a table, too.", show_default=False
        ),
    ] = None,
) -> None:
    """Write one self-contained, interactive HTML page: comparison, figures, pauses in the network, warnings, specs.

    Who paused whom is shown of runs with [measure] pauses = true. The page of a sweep has means with 95 % intervals.

    --table prints the comparison on standard output instead of the page, or beside it if --out is given. LaTeX needs the package
    booktabs. --statistic chooses the columns of a sweep's table.

    Examples:

        penstock report runs/quickstart -o report.html

        penstock report runs/loads -o loads.html

        penstock report runs/loads --table latex --statistic "p99 slowdown of flows < 10KB" > table.tex
    """
    from penstock_net.cli._runs import load, part_of, sweep
    from penstock_net.errors import SpecError
    from penstock_net.report import html, sweep_page, tables

    if out is None and table is None:
        out = Path("report.html")
    if table is not None:
        _tables.check(table)
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise SpecError("a report must end in .html", place=out)
    whole = part_of(sweep(runs), where)
    if statistic and (whole is None or table is None):
        raise SpecError("is for the table of a sweep", path="statistic", value=statistic[0], remedy="give --table and a sweep")
    if whole is None:
        loaded = load(runs)
        if out is not None:
            html.write(loaded, out, title, clock)
        if table is not None:
            typer.echo(tables.shown(loaded, table, clock))
    elif clock != "receiver":
        raise SpecError("the statistics of a sweep are by the receiver's clock", path="clock", value=clock, remedy="leave it out")
    else:
        if out is not None:
            sweep_page.write(whole, out, title)
        if table is not None:
            typer.echo(whole.table(*statistic, form=table))
    if out is not None:
        typer.echo(f"written to {out}", err=table is not None)
