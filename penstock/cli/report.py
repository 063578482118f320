"""penstock report"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run directories.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "penstock report",
    clock: Annotated[
        str, typer.Option(help="Where a flow ends: receiver (last byte) or sender (last acknowledgement).")
    ] = "receiver",
) -> None:
    """Write one self-contained, interactive HTML page: comparison, figures, pauses in the network, warnings, specs.

    Who paused whom is shown of runs with [measure] pauses = true.

    Example:

        penstock report runs/quickstart -o report.html
    """
    from penstock.cli._runs import load
    from penstock.errors import SpecError
    from penstock.report import html

    if out.suffix.lower() not in (".html", ".htm"):
        raise SpecError("a report must end in .html", place=out)
    html.write(load(runs), out, title, clock)
    typer.echo(f"written to {out}")
