"""The table of a sweep for the report page: means over seeds, with 95 % intervals."""

from penstock_net.report.figures import Table
from penstock_net.results.cells import heading
from penstock_net.results.sweep import SCHEME, Sweep
from penstock_net.results.sweep_table import columns, rows


def schemes(sweep: Sweep) -> list[str]:
    """The schemes in the order of the runs."""
    return [str(scheme) for scheme in sweep.runs[SCHEME].unique(maintain_order=True)]


def table(sweep: Sweep) -> Table:
    """A row per scheme and parameters: the statistics of the comparison, as means with intervals; runs: the scheme's number."""
    names, numbers = columns(sweep), schemes(sweep)
    made = Table([*sweep.parameters, "scheme", "seeds", *map(heading, names)])
    for group, seeds, found in rows(sweep, names):
        made.rows.append([*map(str, group), str(seeds), *found])
        made.runs.append(numbers.index(str(group[-1])))
    return made
