"""penstock bench"""

from typing import Annotated

import typer


def command(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Measure packet-hops per second on fixed scenarios, on this machine.

    Example:

        penstock bench --json
    """
    from json import dumps

    from penstock_net.testing import bench

    results = bench.run()
    if json:
        typer.echo(dumps(results, indent=2))
        return
    rows = results if isinstance(results, list) else [results]
    heads = list(rows[0]) if rows else []
    cells = [heads] + [[f"{row[h]:,.4g}" if isinstance(row[h], float) else str(row[h]) for h in heads] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
