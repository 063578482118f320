"""The comparison of runs as a table: for the terminal, for CSV and for HTML."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock_net.results import cells
from penstock_net.results.cells import HEADINGS, show
from penstock_net.results.limits import Limits
from penstock_net.results.run import Run
from penstock_net.units import format_time

if TYPE_CHECKING:
    from penstock_net.results.printed import Printed


def comparison(runs: Sequence[Run], clock: str = "receiver") -> pl.DataFrame:
    """A row per run: slowdown of short, long and all flows but incast, and of incast; buffer (B), pauses, drops, speed.

    clock: of the slowdowns, as in Run.slowdown.  What is short and long is the same for all of them: `limits.Limits.of_runs`.
    """
    limits = Limits.of_runs(runs)
    schema = {
        key: pl.String
        if key == "scheme"
        else pl.Int64
        if key in ("drops", "flows", "unfinished", "max_buffer_bytes")
        else pl.Float64
        for key in HEADINGS
    }
    return pl.DataFrame([row(run, limits, clock) for run in runs], schema=schema)


def row(run: Run, limits: Limits | None = None, clock: str = "receiver") -> dict[str, Any]:
    """The values of one run by the keys of HEADINGS; None: not available.  limits: by default those of this run alone."""
    limits = limits or Limits.of_runs([run])
    every = run.by_clock(run.selected(), clock)
    flows = run.by_clock(run.selected(run.background()), clock)
    everything = every["slowdown"]
    bursts = [name for name in run.classes if name.startswith("incast")]
    incast = run.by_clock(run.selected(bursts), clock)["slowdown"] if bursts else pl.Series(dtype=pl.Float64)
    parts = {
        "short": flows["slowdown"].filter(flows["bytes"] <= limits.short),
        "long": flows["slowdown"].filter(flows["bytes"] >= limits.long),
    }
    slowdowns = {f"{name}_p{p}": part.quantile(p / 100, "linear") for name, part in parts.items() for p in (50, 99)}
    summary = run.summary
    return {
        "scheme": run.label,
        **slowdowns,
        "all_p99": flows["slowdown"].quantile(0.99, "linear"),
        "incast_p99": incast.quantile(0.99, "linear"),
        "max_buffer_bytes": summary.get("max_buffer_bytes"),
        "pfc_pause_fraction": summary.get("pfc_pause_fraction"),
        "drain_ns": summary.get("drain", {}).get("ns"),
        "drops": summary.get("drops"),
        "flows": len(everything) - everything.null_count(),
        "unfinished": everything.null_count(),
        "packet_hops_per_s": summary.get("packet_hops_per_s"),
        "wall_s": summary.get("wall_s"),
    }


def window_note(runs: Sequence[Run]) -> str:
    """The measurement window of the runs, in a line; windows that differ are listed by run."""
    windows = dict.fromkeys(run.window_text for run in runs)
    if len(windows) == 1:
        return f"measurement window: {next(iter(windows))}"
    if _whole(runs):
        ends = sorted(run.window[1] for run in runs if run.window)
        first, last = (format_time(float(f"{end:.4g}") * 1000) for end in (ends[0], ends[-1]))
        return f"measurement window: the whole of each run, which ended after {first} to {last}"
    return "measurement windows differ: " + "; ".join(f"{run.label}: {run.window_text}" for run in runs)


def _whole(runs: Sequence[Run]) -> bool:
    """Whether the window of each run is the run, from its start to its own end."""
    return all(run.window and run.summary.get("window") == "run" and not run.interruption for run in runs)


def shown(runs: Sequence[Run], form: str = "text", clock: str = "receiver") -> str:
    """The table in a form of results.printed.FORMS, with what it means."""
    first = "\n".join([text(runs, clock), *_notes(runs, clock)]) if form == "text" else printed(runs, clock).show(form)
    if not any("training" in run.summary or run.counts for run in runs):
        return first
    from penstock_net.report import counted, jobs

    more = (jobs.printed(runs), counted.printed(runs))
    return "\n\n".join([first, *(table.show(form) for table in more if table)])


def note(runs: Sequence[Run], clock: str = "receiver") -> str:
    """What the columns mean, in three lines."""
    text = cells.note(Limits.of_runs(runs))
    return text if clock == "receiver" else text.replace("; ", ", each until the last acknowledgement is at the sender; ", 1)


def headings(frame: pl.DataFrame) -> dict[str, str]:
    """The columns that are shown of the comparison, with their headings: without that of incast where there is none."""
    return {key: text for key, text in HEADINGS.items() if key != "incast_p99" or frame[key].null_count() < frame.height}


def _notes(runs: Sequence[Run], clock: str) -> list[str]:
    return [window_note(runs), note(runs, clock)]


def printed(runs: Sequence[Run], clock: str = "receiver") -> "Printed":
    """The table for other forms than text, with its notes."""
    from penstock_net.results.printed import Printed

    frame = comparison(runs, clock)
    heads = headings(frame)
    rows = [[show(key, values[key]) for key in heads] for values in frame.iter_rows(named=True)]
    return Printed(list(heads.values()), rows, frame, _notes(runs, clock))


def text(runs: Sequence[Run], clock: str = "receiver") -> str:
    """The table in plain text, aligned, two lines of headings."""
    frame = comparison(runs, clock)
    columns = headings(frame)
    body = [[show(key, values[key]) for key in columns] for values in frame.iter_rows(named=True)]
    heads = [heading.rpartition(" ")[::2] for heading in columns.values()]
    rows = [[above for above, _ in heads], [below for _, below in heads], *body]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows)
    return "\n".join("  ".join(line).rstrip() for line in lines)
