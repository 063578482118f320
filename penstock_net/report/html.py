"""One self-contained, interactive report.html of one or several runs: figures, tables, pauses, warnings and specs.

The page is report/page/page.html; its script draws the figures with plotly.js. Every figure has its numbers in a table
below it, for print, for screen readers and where scripts are off. Nothing is loaded from anywhere.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.files import write_file
from penstock_net.report import counted, elements, figures, jobs, pause_data, plots, tables
from penstock_net.report.differences import differences
from penstock_net.report.figures import Table
from penstock_net.report.timelines import timelines
from penstock_net.results.columns import SUMMARY
from penstock_net.results.run import Run
from penstock_net.units import format_size, format_time
from penstock_net.version import version


def page(runs: Sequence[Run], title: str = "penstock report", clock: str = "receiver") -> str:
    """The page as text; clock: as in Run.slowdown.  SpecError: no run is given, or no such clock."""
    if not runs:
        raise SpecError("nothing to report: give at least one run")
    made = [*figures.figures(runs, clock), *timelines(runs)]
    pauses = pause_data.views(runs)
    note = tables.note(runs, clock)
    subtitle = f"{len(runs)} run{'s' * (len(runs) > 1)}; {tables.window_note(runs)}; report by penstock {version()}"
    data = {
        "runs": [{"label": run.label, **look} for run, look in zip(runs, looks(runs))],
        "figures": [figure.data() for figure in made if not figure.is_empty],
        "statistics": figures.STATISTICS,
        "networks": [view.data() for view in pauses],
    }
    main = Template(elements.asset("runs.html")).substitute(
        warnings="".join(_warnings(runs)),
        differences=_differences(runs),
        schemes="".join(elements.choice(number, run.label) for number, run in enumerate(runs)),
        classes=elements.options(figures.classes(runs), next(iter(figures.classes(runs)))),
        statistics=elements.options(figures.STATISTICS, "p99"),
        comparison=_comparison(runs, clock) + _jobs(runs) + _counts(runs),
        note=escape(note),
        figures="\n".join(map(_figure, made)),
        pauses=_pauses(pauses),
        runs=_runs(runs),
    )
    contents = {"comparison": "Comparison", "figures": "Figures", "pauses": "Pauses in the network", "runs": "Runs"}
    return elements.shell(title, subtitle, contents, main, data, ("common.js", "report.js", "network.js"))


def write(runs: Sequence[Run], path: str | Path, title: str = "penstock report", clock: str = "receiver") -> Path:
    """Write the page.  SpecError: it cannot be written."""
    return write_file(Path(path), page(runs, title, clock).encode())


def looks(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Colour, dash and marker of each run, by plotly's names; the same as in `penstock plot`."""
    return [elements.look(style) for style in plots.styles(tuple(runs))]


# -- sections


def _warnings(runs: Sequence[Run]) -> list[str]:
    return [
        f'<p class="warning"><b>{escape(run.label)}</b>: {escape(str(warning))}</p>\n'
        for run in runs
        for warning in run.summary.get("warnings") or []
    ]


def _figure(each: figures.Figure) -> str:
    kind = "empty" if each.is_empty and each.missing else "timeline" if each.kind == "spans" else ""
    return elements.figure(each.name, each.caption, each.table, tuple(each.missing), kind)


def _jobs(runs: Sequence[Run]) -> str:
    """The steps and operations of training jobs; nothing if there are none."""
    made = jobs.printed(runs)
    if made is None:
        return ""
    notes = "".join(f'<p class="quiet">{escape(note)}</p>\n' for note in made.notes)
    parts = [
        f"<h3>Training: steps by job</h3>\n{elements.table(Table(made.heads, made.rows), 'Training: steps by job')}\n{notes}"
    ]
    for title, table in (("Training: every step", jobs.steps(runs)), ("Training: operations", jobs.operations(runs))):
        if table.rows:
            opened = " open" * (len(table.rows) <= 20)
            shown = elements.table(table, title, "text")
            parts.append(f"<details{opened}><summary>{title}</summary>{shown}</details>\n")
    return "".join(parts)


def _counts(runs: Sequence[Run]) -> str:
    """What schemes have counted; nothing if none counts."""
    made = counted.printed(runs)
    if made is None:
        return ""
    shown = elements.table(Table(made.heads, made.rows), "Counts of the schemes")
    notes = "<br>".join(map(escape, made.notes))
    return f'<h3>Counts of the schemes</h3>\n{shown}\n<p class="quiet">{notes}</p>\n'


def _differences(runs: Sequence[Run]) -> str:
    found = differences(runs)
    if not found:
        return ""
    rows = [[difference.key, *difference.values] for difference in found]
    table = elements.table(Table(["setting", *(run.label for run in runs)], rows), "What differs between the runs", "text")
    names = ", ".join(f"<code>{escape(difference.key)}</code>" for difference in found[:6]) + ", ..." * (len(found) > 6)
    return (
        '<section class="warning" id="differences" aria-labelledby="differences-title">'
        '<h2 id="differences-title">These runs differ in more than their scheme</h2>'
        f"<p>They differ in {names}: what the figures show may be due to that.</p>"
        f"{table}</section>"
    )


def _comparison(runs: Sequence[Run], clock: str) -> str:
    values = tables.comparison(runs, clock)
    heads = tables.headings(values)
    rows = [[tables.show(key, cells[key]) for key in heads] for cells in values.iter_rows(named=True)]
    return elements.table(Table(list(heads.values()), rows, list(range(len(runs)))), "Comparison of the runs")


def _pauses(views: Sequence[pause_data.PauseView]) -> str:
    shown = [view for view in views if view.net]
    if not shown:
        return '<p class="quiet">The runs recorded no ports; record them with --set measure.ports=true.</p>'
    unrecorded = [view.run.label for view in shown if view.pauses is None]
    notes = []
    if unrecorded:
        notes.append(
            f"When ports were paused, and by whom, is not known of {', '.join(unrecorded)}: {pause_data.REMEDY}. "
            "Links are coloured by their total."
        )
    joined = [f"{view.run.label} ({pause_data.time_text(view.gap_ns)})" for view in shown if view.gap_ns]
    if joined:
        notes.append(f"Pauses of a queue that are less than a gap apart are drawn as one, and in the tree: {', '.join(joined)}.")
    by_queue = [view.run.label for view in shown if view.by_queue]
    if by_queue:
        notes.append(
            f"Single queues are paused by {', '.join(by_queue)}: a port's share is the mean over its queues, the tree counts it "
            "as paused while one of them is."
        )
    table = pause_data.table(shown)
    what = "The ports that were paused longest in the measurement window"
    return (
        "".join(f'<p class="quiet">{escape(note)}</p>' for note in notes)
        + elements.asset("pauses.html")
        + (
            f"<h3>{what}</h3>{elements.table(table, what, 'text')}"
            if table.rows
            else '<p id="unpaused">No port was paused in the measurement window.</p>'
        )
    )


def _runs(runs: Sequence[Run]) -> str:
    rows = []
    for key, (_, what) in SUMMARY.items():
        values = [run.summary.get(key) for run in runs]
        if key not in ("spec", "warnings", "label", "nominal") and any(value not in (None, [], {}) for value in values):
            head = f'<th scope="row"><code>{escape(key)}</code><small>{escape(what)}</small></th>'
            cells = "".join(f'<td data-run="{i}">{escape(_shown(key, value))}</td>' for i, value in enumerate(values))
            rows.append(f"<tr>{head}{cells}</tr>")
    heads = "".join(f'<th scope="col" data-run="{i}">{escape(run.label)}</th>' for i, run in enumerate(runs))
    specs = "".join(
        f"<details><summary>Spec of {escape(run.label)}</summary><pre>{escape(str(run.summary['spec']))}</pre></details>"
        for run in runs
        if run.summary.get("spec")
    )
    return (
        elements.scrolled(
            f'<table class="summary"><thead><tr><td></td>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>',
            "Summaries of the runs",
        )
        + specs
    )


# -- details


def _shown(key: str, value: Any) -> str:
    """A value of the summary; times and sizes with their unit."""
    if isinstance(value, list) and key.endswith("_ns"):
        return " to ".join(pause_data.time_text(one) for one in value)
    if key.endswith("_ns") and isinstance(value, (int, float)):
        return format_time(1000 * float(f"{value:.6g}"))
    if key.endswith("_bytes") and isinstance(value, int):
        return format_size(float(f"{value:.4g}"))
    return _plain(value)


def _plain(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} = {_plain(v)}" for k, v in value.items() if not isinstance(v, (dict, list)))
    if isinstance(value, list):
        return "; ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 9999 else str(value)
