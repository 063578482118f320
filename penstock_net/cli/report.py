"""penstock report"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run directories, or the folder of a sweep.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "penstock report",
    clock: Annotated[
        str, typer.Option(help="Where a flow ends: receiver (last byte) or sender (last acknowledgement).")
    ] = "receiver",
) -> None:
    """Write one self-contained, interactive HTML page: comparison, figures, pauses in the network, warnings, specs.

    Who paused whom is shown of runs with [measure] pauses = true. The page of a sweep has means with 95 % intervals.

    Examples:

        penstock report runs/quickstart -o report.html

        penstock report runs/loads -o loads.html
    """
    from penstock_net.cli._runs import load, sweep
    from penstock_net.errors import SpecError
    from penstock_net.report import html, sweep_page

    if out.suffix.lower() not in (".html", ".htm"):
        raise SpecError("a report must end in .html", place=out)
    whole = sweep(runs)
    if whole is None:
        html.write(load(runs), out, title, clock)
    elif clock != "receiver":
        raise SpecError("the statistics of a sweep are by the receiver's clock", path="clock", value=clock, remedy="leave it out")
    else:
        sweep_page.write(whole, out, title)
    typer.echo(f"written to {out}")
