"""penstock plot"""

from pathlib import Path
from typing import Annotated

import typer


def command(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", show_default=False, help="slowdown, buffer_cdf, timeseries, active_flows or pause_time."),
    ],
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run directories.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="figure.pdf, .png, .svg or .eps.", show_default=False)],
    percentile: Annotated[float | None, typer.Option(help="slowdown: which percentile (99).", show_default=False)] = None,
    column: Annotated[
        str | None, typer.Option(help="timeseries: buffer_bytes, max_queue_bytes or active_flows.", show_default=False)
    ] = None,
    clock: Annotated[
        str | None, typer.Option(help="slowdown: measured at the receiver (default) or the sender.", show_default=False)
    ] = None,
    switch: Annotated[int | None, typer.Option(help="timeseries: one switch, by number.", show_default=False)] = None,
) -> None:
    """Draw one figure of one or several runs, at the width of a paper's column.

    Examples:

        penstock plot slowdown runs/quickstart -o fct.pdf

        penstock plot timeseries runs/bfc runs/hpcc --column max_queue_bytes -o queues.png
    """
    from penstock.cli._runs import load
    from penstock.errors import SpecError
    from penstock.report import plots

    plots.check_format(out)
    given = {"percentile": percentile, "clock": clock, "column": column, "switch": switch}
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        owner = "slowdown" if name in ("percentile", "clock") else "timeseries"
        if kind.replace("-", "_") != owner:
            raise SpecError(f"--{name}: belongs to penstock plot {owner}, not to {kind}")
    plots.check_kind(kind)
    plots.save(plots.draw(kind, *load(runs), **options), out)
    typer.echo(f"written to {out}")
