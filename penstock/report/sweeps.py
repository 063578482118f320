"""The table of a sweep: means over seeds, with 95 % intervals."""

from typing import TYPE_CHECKING, Any

from penstock.report import tables
from penstock.results.sweep import SCHEME, Sweep

if TYPE_CHECKING:
    pass

SHOWN = tuple(name for name in tables.HEADINGS if name not in ("scheme", "packet_hops_per_s", "wall_s"))
NOTE = "mean over the seeds ± half of the 95 % interval (Student's t); percentiles are those of each run"


def text(sweep: Sweep) -> str:
    """A row per scheme and parameters: the statistics of the comparison, as means with intervals."""
    table = sweep.over_seeds()
    keys = [*sweep.parameters, SCHEME]
    columns = [name for name in SHOWN if name in sweep.statistics]
    head = [*sweep.parameters, "scheme", "seeds", *(tables.HEADINGS[name] for name in columns)]
    rows = []
    for group, part in table.group_by(keys, maintain_order=True):
        cells = {row["statistic"]: row for row in part.iter_rows(named=True)}
        seeds = max(row["runs"] for row in cells.values())
        rows.append([*map(str, group), str(seeds), *(cell(name, cells[name]) for name in columns)])
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    lines = ["  ".join(value.rjust(width) for value, width in zip(row, widths)).rstrip() for row in (head, *rows)]
    return "\n".join([*lines, NOTE, tables.NOTE])


def cell(name: str, row: dict[str, Any]) -> str:
    """A mean with its interval, in the unit of the comparison table."""
    if row["mean"] is None:
        return "-"
    if name in ("flows", "unfinished", "drops"):
        mean, half = row["mean"], row["half"] or 0
        digits = 0 if half >= 10 or not half else 1
        return f"{mean:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half else "")
    mean = tables.show(name, row["mean"])
    return mean if not row["half"] else f"{mean} ± {tables.show(name, row['half'])}"
