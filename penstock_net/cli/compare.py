"""penstock compare"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock_net.cli import _tables

if TYPE_CHECKING:
    from penstock_net.results.comparison import Comparison
    from penstock_net.results.printed import Printed


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.", show_default=False)],
    reference: Annotated[
        Path, typer.Argument(metavar="REFERENCE", help="Completion times of another simulator.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="A figure of it (pdf, png, svg, eps).", show_default=False)
    ] = None,
    clock: Annotated[
        str,
        typer.Option(
            help="Where a flow of the run ends: receiver (last byte) or sender (last acknowledgement), as in the other."
        ),
    ] = "receiver",
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Both times of every flow, as CSV.", show_default=False)
    ] = None,
    table: _tables.Form = "text",
) -> None:
    """Set the completion times of another simulator, for the same flows, beside those of a run.

    REFERENCE is a CSV file with the header src,dst,bytes,start_us,fct_us (times in ns, us, ms or s, as the names say; hosts by
    name or number), or fct.txt of the HPCC simulator and its forks.

    Examples:

        penstock compare runs/mine fct.csv

        penstock compare runs/mine fct.txt --clock sender -o agreement.pdf --csv flows.csv

    The table has quantiles of the run divided by the other's, and the spread of the ratio flow by flow.
    """
    from penstock_net.files import write_file
    from penstock_net.report import plots
    from penstock_net.results.comparison import compare
    from penstock_net.stderr import say

    if out is not None:
        plots.check_format(out)
    _tables.check(table)
    found = compare(run, reference, clock)  # type: ignore[arg-type]  # refuses any other text
    typer.echo(text(found) if table == "text" else printed(found).show(table))
    for line in found.warnings:
        say(f"warning: {line}")
    if out is not None:
        plots.save(plots.agreement(found), out)
        typer.echo(f"written to {out}", err=table != "text")
    if csv is not None:
        write_file(csv, found.flows.write_csv().encode())
        typer.echo(f"written to {csv}", err=table != "text")


def printed(found: "Comparison") -> "Printed":
    """The table."""
    from penstock_net.results.printed import Printed

    table = found.table
    names = [name for name in table.columns if name not in ("size", "flows")]
    heads = ["size", "flows", *(name.replace("flow_", "flow ") for name in names)]
    rows = [[row["size"], f"{row['flows']}", *(f"{row[name]:.3f}" for name in names)] for row in table.iter_rows(named=True)]
    note = f"completion times of {found.run.label} / {found.reference}, by size of flow"
    return Printed(heads, rows, table, [note])


def text(found: "Comparison") -> str:
    """The table, and the flows that differ most."""
    made = printed(found)
    rows = [made.heads, *made.rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [f"{found.run.label} / {found.reference}"]
    for cells in rows:
        lines.append(
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width) for at, (cell, width) in enumerate(zip(cells, widths))
            ).rstrip()
        )
    lines.append("the flows that differ most:")
    for flow in found.worst(3).iter_rows(named=True):
        times = f"{flow['fct_ns'] / 1000:.3f} us, {flow['reference_fct_ns'] / 1000:.3f} us there ({flow['ratio']:.3f})"
        lines.append(f"  flow {flow['flow_id']}, {flow['src']} to {flow['dst']}, {flow['bytes']} B: {times}")
    return "\n".join(lines)
