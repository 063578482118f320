"""One self-contained report.html of one or several runs: figures, tables, warnings and specs, no external resources."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from penstock.errors import SpecError
from penstock.report import plots, tables
from penstock.results.columns import SUMMARY
from penstock.results.run import Run, version
from penstock.results.rundir import write_file
from penstock.units import format_size

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1b1f24;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #ddd}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6rem 0} .wide{overflow-x:auto}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #e4e4e4;white-space:nowrap}
th:first-child,td:first-child{text-align:left} td.text{text-align:left;white-space:normal}
td:nth-child(2){white-space:normal;overflow-wrap:anywhere;max-width:32rem}
.figures{display:flex;flex-wrap:wrap;gap:1rem 1.6rem} figure{margin:0} figcaption{font-size:.85rem;color:#555}
img{width:26rem;max-width:100%}
.warning{background:#fff4d6;border-left:4px solid #e69f00;padding:.4rem .8rem;margin:.4rem 0}
pre{background:#f6f7f8;padding:.8rem;overflow-x:auto;font-size:.85rem} .quiet{color:#555;font-size:.9rem}
"""
CAPTIONS = {
    "slowdown": "FCT slowdown by flow size, without incast flows unless there are no others",
    "buffer_cdf": "Buffer in use, all samples of all switches",
    "timeseries": "Fullest switch over time",
    "active_flows": "Active flows at a port",
    "pause_time": "Time for which ports were paused by PFC",
}


def page(runs: Sequence[Run], title: str = "penstock report", clock: str = "receiver") -> str:
    """The page as text; clock: as in Run.slowdown.  SpecError: no run is given."""
    if not runs:
        raise SpecError("nothing to report: give at least one run")
    note = tables.SENDER_NOTE if clock == "sender" else tables.NOTE
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f'<p class="quiet">{len(runs)} run{"s" * (len(runs) > 1)}; report by penstock {escape(version())}</p>',
        *_warnings(runs),
        "<h2>Comparison</h2>",
        _comparison(runs, clock),
        f'<p class="quiet">{escape(note)}</p>',
        "<h2>Figures</h2>",
        '<div class="figures">',
        *_figures(runs, clock),
        "</div>",
        "<h2>Slowdown by flow size</h2>",
    ]
    for run in runs:
        parts += [f"<h3>{escape(run.label)}</h3>", _slowdown(run, clock)]
    parts.append("<h2>Runs</h2>")
    for run in runs:
        parts += [f"<h3>{escape(run.label)}</h3>", _summary(run)]
        if run.summary.get("spec"):
            parts.append(f"<details><summary>spec.toml</summary><pre>{escape(str(run.summary['spec']))}</pre></details>")
    return "\n".join([*parts, "</body></html>\n"])


def write(runs: Sequence[Run], path: str | Path, title: str = "penstock report", clock: str = "receiver") -> Path:
    """Write the page.  SpecError: it cannot be written."""
    return write_file(Path(path), page(runs, title, clock).encode())


def _warnings(runs: Sequence[Run]) -> list[str]:
    return [
        f'<p class="warning"><b>{escape(run.label)}</b>: {escape(str(warning))}</p>'
        for run in runs
        for warning in run.summary.get("warnings") or []
    ]


def _comparison(runs: Sequence[Run], clock: str) -> str:
    table = tables.comparison(runs, clock)
    rows = [[tables.show(key, cells[key]) for key in tables.HEADINGS] for cells in table.iter_rows(named=True)]
    return _table(list(tables.HEADINGS.values()), rows)


def _figures(runs: Sequence[Run], clock: str) -> list[str]:
    made = []
    for kind, caption in CAPTIONS.items():
        try:
            options = {"clock": clock} if kind == "slowdown" else {}
            svg = plots.render(plots.draw(kind, *runs, **options), "svg")
        except SpecError as error:
            made.append(f"<figure><figcaption>{escape(caption)}: {escape(str(error))}</figcaption></figure>")
            continue
        data = base64.b64encode(svg).decode()
        made.append(
            f'<figure><img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )
    return made


def _slowdown(run: Run, clock: Any) -> str:
    table = run.slowdown([50, 95, 99], class_=run.background(), clock=clock)
    rows = [
        [
            _size(r["above_bytes"], r["to_bytes"]),
            f"{r['flows']:,}",
            f"{r['unfinished']:,}",
            *("-" if r[p] is None else f"{r[p]:.2f}" for p in ("p50", "p95", "p99")),
        ]
        for r in table.iter_rows(named=True)
    ]
    return _table(["flow size", "flows", "not done", "p50", "p95", "p99"], rows)


def _size(above: int, upto: int | None) -> str:
    return f"more than {format_size(above)}" if upto is None else f"to {format_size(upto)}"


def _summary(run: Run) -> str:
    rows = []
    for key, (unit, what) in SUMMARY.items():
        value = run.summary.get(key)
        if value is not None and key not in ("spec", "warnings") and value != []:
            rows.append(
                f"<tr><td>{escape(key)}</td><td>{escape(_plain(value))}</td><td>{escape(unit)}</td>"
                f'<td class="text">{escape(what)}</td></tr>'
            )
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{k} = {_plain(v)}" for k, v in value.items() if not isinstance(v, (dict, list)))
    if isinstance(value, list):
        return "; ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 9999 else str(value)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
