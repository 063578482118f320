"""The table of what schemes have counted."""

from collections.abc import Sequence

import polars as pl

from penstock_net.results.printed import Printed
from penstock_net.results.run import Run

HEADS = ["scheme", "count", "total"]
NOTE = "over the whole run and all nodes, ports or flows"


def printed(runs: Sequence[Run]) -> Printed | None:
    """A row per run and count, with what the file of the scheme says of each; None: no scheme of the runs counts."""
    rows = [(run.label, name, total) for run in runs for name, total in run.counts.items()]
    if not rows:
        return None
    said = {name: text for run in runs for name, text in (run.summary.get("meanings") or {}).items() if name in run.counts}
    notes = [NOTE, *(f"{name}: {text}" for name, text in said.items())]
    shown = [[label, name, f"{total:,}"] for label, name, total in rows]
    return Printed(HEADS, shown, pl.DataFrame(rows, schema=HEADS, orient="row"), notes, names=2)
