"""The comparison of runs as a table: for the terminal, for CSV and for HTML."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock_net.results.cells import HEADINGS, NOTE, show
from penstock_net.results.run import LONG_BYTES, SHORT_BYTES, Run

if TYPE_CHECKING:
    from penstock_net.results.printed import Printed

SENDER_NOTE = NOTE.replace("; ", ", each until the last acknowledgement is at the sender; ", 1)


def comparison(runs: Sequence[Run], clock: str = "receiver") -> pl.DataFrame:
    """A row per run: slowdown of short and long flows (without incast), buffer (B), pauses, drops, hops/s, wall (s).

    clock: of the slowdowns, as in Run.slowdown.
    """
    schema = {
        key: pl.String
        if key == "scheme"
        else pl.Int64
        if key in ("drops", "flows", "unfinished", "max_buffer_bytes")
        else pl.Float64
        for key in HEADINGS
    }
    return pl.DataFrame([row(run, clock) for run in runs], schema=schema)


def row(run: Run, clock: str = "receiver") -> dict[str, Any]:
    """The values of one run by the keys of HEADINGS; None: not available."""
    flows = run.by_clock(run.selected(run.background()), clock)
    everything = run.by_clock(run.selected(), clock)["slowdown"]
    finished = everything.drop_nulls()
    parts = {
        "short": flows["slowdown"].filter(flows["bytes"] < SHORT_BYTES).drop_nulls(),
        "long": flows["slowdown"].filter(flows["bytes"] > LONG_BYTES).drop_nulls(),
    }
    slowdowns = {f"{name}_p{p}": part.quantile(p / 100, "linear") for name, part in parts.items() for p in (50, 99)}
    summary = run.summary
    return {
        "scheme": run.label,
        **slowdowns,
        "all_p99": finished.quantile(0.99, "linear"),
        "max_buffer_bytes": summary.get("max_buffer_bytes"),
        "pfc_pause_fraction": summary.get("pfc_pause_fraction"),
        "drain_ns": summary.get("drain", {}).get("ns"),
        "drops": summary.get("drops"),
        "flows": len(finished),
        "unfinished": len(everything) - len(finished),
        "packet_hops_per_s": summary.get("packet_hops_per_s"),
        "wall_s": summary.get("wall_s"),
    }


def window_note(runs: Sequence[Run]) -> str:
    """The measurement window of the runs, in a line; windows that differ are listed by run."""
    windows = dict.fromkeys(run.window_text for run in runs)
    if len(windows) == 1:
        return f"measurement window: {next(iter(windows))}"
    return "measurement windows differ: " + "; ".join(f"{run.label}: {run.window_text}" for run in runs)


def shown(runs: Sequence[Run], form: str = "text", clock: str = "receiver") -> str:
    """The table in a form of results.printed.FORMS, with what it means."""
    first = "\n".join([text(runs, clock), *_notes(runs, clock)]) if form == "text" else printed(runs, clock).show(form)
    if not any("training" in run.summary or run.counts for run in runs):
        return first
    from penstock_net.report import counted, jobs

    more = (jobs.printed(runs), counted.printed(runs))
    return "\n\n".join([first, *(table.show(form) for table in more if table)])


def _notes(runs: Sequence[Run], clock: str) -> list[str]:
    return [window_note(runs), NOTE if clock == "receiver" else SENDER_NOTE]


def printed(runs: Sequence[Run], clock: str = "receiver") -> "Printed":
    """The table for other forms than text, with its notes."""
    from penstock_net.results.printed import Printed

    frame = comparison(runs, clock)
    rows = [[show(key, cells[key]) for key in HEADINGS] for cells in frame.iter_rows(named=True)]
    return Printed(list(HEADINGS.values()), rows, frame, _notes(runs, clock))


def text(runs: Sequence[Run], clock: str = "receiver") -> str:
    """The table in plain text, aligned, two lines of headings."""
    body = [[show(key, cells[key]) for key in HEADINGS] for cells in comparison(runs, clock).iter_rows(named=True)]
    heads = [heading.rpartition(" ")[::2] for heading in HEADINGS.values()]
    rows = [[above for above, _ in heads], [below for _, below in heads], *body]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)
