"""Tables and lines of text in the width of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

SPEC = "spec"


def aligned(table: list[list[str]], left: int) -> list[str]:
    """Lines of a table, its first columns to the left."""
    widths = [max(map(len, column)) for column in zip(*table)]
    rows = (zip(cells, widths) for cells in table)
    return ["  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(row)).rstrip() for row in rows]


def fitted(table: list[list[str]], left: int, width: int | None) -> Iterator[str]:
    """The lines of a table in a width, None: as wide as it is.

    One that is too wide goes without the names of specs, then without numbers that are the same in all rows, which are said
    below it, then with shorter intervals, and at last without its last columns, which are in the report.
    """
    below: list[str] = []
    for step in (_as_it_is, _no_specs, _no_equal_columns, _short_intervals):
        table = step(table, left, below)
        if width is None or max(map(len, aligned(table, left))) <= width:
            break
    gone: list[str] = []
    while width is not None and len(table[0]) > left + 1 and max(map(len, aligned(table, left))) > width:
        gone.insert(0, table[0][-1])
        table = [row[:-1] for row in table]
    yield from aligned(table, left)
    if gone:
        below.append(f"not shown, for lack of width: {', '.join(gone)}")
    for line in below:
        yield from wrapped(line, width)


def _as_it_is(table: list[list[str]], left: int, below: list[str]) -> list[list[str]]:
    return table


def _no_specs(table: list[list[str]], left: int, below: list[str]) -> list[list[str]]:
    if table[0][-1] != SPEC:
        return table
    below.append(f"specs are named by what is varied: {table[1][-1]}, ...")
    return [row[:-1] for row in table]


def _no_equal_columns(table: list[list[str]], left: int, below: list[str]) -> list[list[str]]:
    equal = [i for i in range(left, len(table[0])) if len(table) > 2 and len({row[i] for row in table[1:]}) == 1]
    if equal:
        below.append(f"in all rows: {', '.join(f'{table[0][i]} {table[1][i]}' for i in equal)}")
    return [[cell for i, cell in enumerate(row) if i not in equal] for row in table]


def _short_intervals(table: list[list[str]], left: int, below: list[str]) -> list[list[str]]:
    return [[cell.replace(" to ", "-") for cell in row] for row in table]


def wrapped(line: str, width: int | None, indent: str = "") -> list[str]:
    """A line as several, in a width; None: as it is."""
    if width is None or len(indent + line) <= width:
        return [indent + line]
    return textwrap.wrap(
        line, width, initial_indent=indent, subsequent_indent=indent or "  ", break_long_words=False, break_on_hyphens=False
    )
