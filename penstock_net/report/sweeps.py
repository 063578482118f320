"""The table of a sweep: means over seeds, with 95 % intervals."""

from typing import Any

from penstock_net.report import tables
from penstock_net.report.figures import Table
from penstock_net.results.sweep import SCHEME, Sweep

SHOWN = tuple(name for name in tables.HEADINGS if name not in ("scheme", "packet_hops_per_s", "wall_s"))
NOTE = "mean over the seeds ± half of the 95 % interval (Student's t); percentiles are those of each run"


def text(sweep: Sweep) -> str:
    """A row per scheme and parameters, aligned, with what the columns mean."""
    made = table(sweep)
    widths = [max(map(len, column)) for column in zip(made.heads, *made.rows)]
    lines = ["  ".join(value.rjust(width) for value, width in zip(row, widths)).rstrip() for row in (made.heads, *made.rows)]
    return "\n".join([*lines, NOTE, tables.NOTE])


def columns(sweep: Sweep) -> list[str]:
    """The statistics of the comparison that the sweep has."""
    return [name for name in SHOWN if name in sweep.statistics]


def schemes(sweep: Sweep) -> list[str]:
    """The schemes in the order of the runs."""
    return [str(scheme) for scheme in sweep.runs[SCHEME].unique(maintain_order=True)]


def table(sweep: Sweep) -> Table:
    """A row per scheme and parameters: the statistics of the comparison, as means with intervals; runs: the scheme's number."""
    names, numbers = columns(sweep), schemes(sweep)
    made = Table([*sweep.parameters, "scheme", "seeds", *(tables.HEADINGS[name] for name in names)])
    for group, part in sweep.over_seeds().group_by([*sweep.parameters, SCHEME], maintain_order=True):
        cells = {row["statistic"]: row for row in part.iter_rows(named=True)}
        seeds = max(row["runs"] for row in cells.values())
        made.rows.append([*map(str, group), str(seeds), *(cell(name, cells[name]) for name in names)])
        made.runs.append(numbers.index(str(group[-1])))
    return made


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
