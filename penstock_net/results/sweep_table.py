"""The table of a sweep: means over seeds, with 95 % intervals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock_net.results import cells
from penstock_net.results.printed import Printed

if TYPE_CHECKING:
    from penstock_net.results.sweep import Sweep

SHOWN = tuple(name for name in cells.HEADINGS if name not in ("scheme", "packet_hops_per_s", "wall_s"))
NOTE = (
    "mean over the seeds, and its 95 % interval: of slowdowns by bootstrap on a logarithmic scale, "
    "of others ± half of it (Student's t);\n"
    "percentiles are those of each run"
)


def columns(sweep: "Sweep") -> list[str]:
    """The statistics of the comparison, without that of incast where there is none, and of training jobs that the sweep has."""
    known = sweep.statistics
    return [name for name in SHOWN if name in known and _has(sweep, name)] + [name for name in known if cells.of_job(name)]


def _has(sweep: "Sweep", name: str) -> bool:
    return name != "incast_p99" or sweep.runs[name].null_count() < sweep.runs.height


def rows(sweep: "Sweep", names: Sequence[str]) -> list[tuple[tuple[Any, ...], int, list[str]]]:
    """(values of the parameters and scheme, number of seeds, cells) by scheme and parameters."""
    made = []
    for group, part in sweep.over_seeds().group_by([*sweep.parameters, "scheme"], maintain_order=True):
        found = {row["statistic"]: row for row in part.iter_rows(named=True)}
        seeds = max(row["runs"] for row in found.values())
        made.append((group, seeds, [cells.mean(name, found[name]) for name in names]))
    return made


def printed(sweep: "Sweep", names: Sequence[str], notes: Sequence[str] = ()) -> Printed:
    """A row per scheme and parameters with these statistics."""
    heads = [*sweep.parameters, "scheme", "seeds", *map(cells.heading, names)]
    body = [[*map(str, group), str(seeds), *made] for group, seeds, made in rows(sweep, names)]
    titles = [*(cells.words(name, sweep.parameters) for name in sweep.parameters), "Scheme", "Seeds"]
    return Printed(heads, body, sweep.over_seeds(*names), [NOTE, *notes], len(sweep.parameters) + 1, titles)
