"""The lines that schemes have printed, as text."""

from collections.abc import Sequence

import polars as pl

from penstock_net.units import format_time


def lines(prints: pl.DataFrame, names: Sequence[str] | None) -> str:
    """A line for each row: time, node, scheme and line of its file, text.  names: of the nodes."""
    found = []
    for time_ns, node, scheme, line, text in prints.rows():
        where = "-" if node is None else str(node) if names is None else names[node]
        found.append(f"{format_time(round(time_ns * 1000))}  {where}  {scheme}.py:{line}  {text}\n")
    return "".join(found)
