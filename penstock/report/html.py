"""One self-contained, interactive report.html of one or several runs: figures, tables, pauses, warnings and specs.

The page is penstock/report/page/page.html; its script draws the figures with plotly.js. Every figure has its numbers in a table
below it, for print, for screen readers and where scripts are off. Nothing is loaded from anywhere.
"""

import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from penstock.errors import SpecError
from penstock.report import figures, pause_data, plots, tables
from penstock.report.differences import differences
from penstock.report.figures import Figure, Table
from penstock.results.columns import SUMMARY
from penstock.results.run import Run, version
from penstock.results.rundir import write_file
from penstock.units import format_size, format_time

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")  # plotly's, by matplotlib's place in palette.DASHES
SYMBOLS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x"}


def page(runs: Sequence[Run], title: str = "penstock report", clock: str = "receiver") -> str:
    """The page as text; clock: as in Run.slowdown.  SpecError: no run is given, or no such clock."""
    if not runs:
        raise SpecError("nothing to report: give at least one run")
    made = figures.figures(runs, clock)
    pauses = pause_data.views(runs)
    note = tables.SENDER_NOTE if clock == "sender" else tables.NOTE
    subtitle = f"{len(runs)} run{'s' * (len(runs) > 1)}; {tables.window_note(runs)}; report by penstock {version()}"
    data = {
        "runs": [{"label": run.label, **look} for run, look in zip(runs, looks(runs))],
        "figures": [figure.data() for figure in made],
        "statistics": figures.STATISTICS,
        "networks": [view.data() for view in pauses],
    }
    return Template(_asset("page.html")).substitute(
        version=escape(version()),
        title=escape(title),
        subtitle=escape(subtitle),
        style=_asset("report.css"),
        warnings="".join(_warnings(runs)),
        differences=_differences(runs),
        schemes="".join(_choice(number, run, look) for number, (run, look) in enumerate(zip(runs, looks(runs)))),
        classes=_options(figures.classes(runs), next(iter(figures.classes(runs)))),
        statistics=_options(figures.STATISTICS, "p99"),
        comparison=_comparison(runs, clock),
        note=escape(note),
        figures="\n".join(map(_figure, made)),
        pauses=_pauses(pauses),
        runs=_runs(runs),
        data=json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\u0021--"),
        plotly=_asset("plotly-basic.min.js"),
        script=_asset("report.js") + _asset("network.js"),
    )


def write(runs: Sequence[Run], path: str | Path, title: str = "penstock report", clock: str = "receiver") -> Path:
    """Write the page.  SpecError: it cannot be written."""
    return write_file(Path(path), page(runs, title, clock).encode())


def looks(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Colour, dash and marker of each run, by plotly's names; the same as in `penstock plot`."""
    from penstock.palette import DASHES as PALETTE

    return [
        {"colour": look["color"], "dash": DASHES[PALETTE.index(look["linestyle"])], "symbol": SYMBOLS[look["marker"]]}
        for look in plots.styles(tuple(runs))
    ]


# -- sections


def _warnings(runs: Sequence[Run]) -> list[str]:
    return [
        f'<p class="warning"><b>{escape(run.label)}</b>: {escape(str(warning))}</p>\n'
        for run in runs
        for warning in run.summary.get("warnings") or []
    ]


def _differences(runs: Sequence[Run]) -> str:
    found = differences(runs)
    if not found:
        return ""
    rows = [[difference.key, *difference.values] for difference in found]
    names = ", ".join(f"<code>{escape(difference.key)}</code>" for difference in found[:6]) + ", ..." * (len(found) > 6)
    return (
        '<section class="warning" id="differences" aria-labelledby="differences-title">'
        '<h2 id="differences-title">These runs differ in more than their scheme</h2>'
        f"<p>They differ in {names}: what the figures show may be due to that.</p>"
        f"{_table(Table(['setting', *(run.label for run in runs)], rows), 'What differs between the runs', 'text')}</section>"
    )


def _choice(number: int, run: Run, look: dict[str, str]) -> str:
    return (
        f'<label><input type="checkbox" name="run" value="{number}" checked> '
        f'<svg class="swatch" width="26" height="10" aria-hidden="true" data-run="{number}"></svg>{escape(run.label)}</label> '
    )


def _options(choices: dict[str, str], chosen: str) -> str:
    return "".join(
        f'<option value="{escape(key)}"{" selected" * (key == chosen)}>{escape(text)}</option>' for key, text in choices.items()
    )


def _comparison(runs: Sequence[Run], clock: str) -> str:
    values = tables.comparison(runs, clock)
    rows = [[tables.show(key, cells[key]) for key in tables.HEADINGS] for cells in values.iter_rows(named=True)]
    return _table(Table(list(tables.HEADINGS.values()), rows, list(range(len(runs)))), "Comparison of the runs")


def _figure(figure: Figure) -> str:
    name, caption = figure.name, escape(figure.caption)
    missing = "".join(f'<p class="quiet">{escape(text)}</p>' for text in figure.missing)
    return (
        f'<figure id="{name}" aria-labelledby="{name}-caption"><figcaption id="{name}-caption">{caption}</figcaption>'
        f'<div class="plot script" id="{name}-plot" role="group" aria-label="{caption}; the numbers are in the table below">'
        f"</div>{missing}<details><summary>Numbers</summary>{_table(figure.table, figure.caption)}</details></figure>"
    )


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
        + _asset("pauses.html")
        + (
            f"<h3>{what}</h3>{_table(table, what, 'text')}"
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
        _scrolled(
            f'<table class="summary"><thead><tr><td></td>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>',
            "Summaries of the runs",
        )
        + specs
    )


# -- details


def _table(table: Table, caption: str, kind: str = "") -> str:
    """A table that scrolls by itself where the page is narrow; rows of a run follow the choice of runs."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in table.heads)
    runs: list[int | None] = [*table.runs] or [None] * len(table.rows)
    body = "".join(
        f'<tr{f""" data-run="{run}" """.rstrip() if run is not None else ""}><th scope="row">{escape(row[0])}</th>'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row, run in zip(table.rows, runs)
    )
    return _scrolled(f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>', caption)


def _scrolled(table: str, caption: str) -> str:
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">{table}</div>'


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


@cache
def _asset(name: str) -> str:
    return resources.files("penstock.report").joinpath("page", name).read_text(encoding="utf-8")
