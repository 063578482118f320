"""Elements of the report pages: tables, figures, choices, and what a page embeds."""

import json
from functools import cache
from html import escape
from importlib import resources
from string import Template
from typing import Any

from penstock_net.report.figures import Table
from penstock_net.version import version

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")  # plotly's, by matplotlib's place in palette.DASHES
SYMBOLS = {"o": "circle", "s": "square", "^": "triangle-up", "D": "diamond", "v": "triangle-down", "P": "cross", "X": "x"}


def shell(title: str, subtitle: str, contents: dict[str, str], main: str, data: dict[str, Any], scripts: tuple[str, ...]) -> str:
    """A whole page: contents are its sections' headings by id, data is what its scripts read."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return Template(asset("page.html")).substitute(
        version=escape(version()),
        title=escape(title),
        subtitle=escape(subtitle),
        style=asset("report.css"),
        contents="\n".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading in contents.items()),
        main=main,
        data=text,
        plotly=asset("plotly-basic.min.js"),
        script="".join(map(asset, scripts)),
    )


def look(drawn: dict[str, Any]) -> dict[str, str]:
    """Colour, dash and marker of a curve as `penstock plot` draws it, by plotly's names."""
    from penstock_net.palette import DASHES as PALETTE

    return {"colour": drawn["color"], "dash": DASHES[PALETTE.index(drawn["linestyle"])], "symbol": SYMBOLS[drawn["marker"]]}


def choice(number: int, label: str) -> str:
    """A box that shows or hides everything of a run or scheme, with its line as a legend."""
    return (
        f'<label><input type="checkbox" name="run" value="{number}" checked> '
        f'<svg class="swatch" width="26" height="10" aria-hidden="true" data-run="{number}"></svg>{escape(label)}</label> '
    )


def options(choices: dict[str, str], chosen: str) -> str:
    """The options of a select, by value."""
    return "".join(
        f'<option value="{escape(key)}"{" selected" * (key == chosen)}>{escape(text)}</option>' for key, text in choices.items()
    )


def figure(name: str, caption: str, numbers: Table, missing: tuple[str, ...] = (), kind: str = "") -> str:
    """A place for a figure, with its numbers in a table below it; kind: "wide", or "empty": there is nothing to draw."""
    notes = "".join(f'<p class="quiet">{escape(text)}</p>' for text in missing)
    shown = escape(caption)
    if kind == "empty":
        return f'<figure id="{name}"><figcaption>{shown}</figcaption>{notes}</figure>'
    return (
        f'<figure id="{name}" class="{kind}" aria-labelledby="{name}-caption">'
        f'<figcaption id="{name}-caption">{shown}</figcaption>'
        f'<div class="plot script" id="{name}-plot" role="group" aria-label="{shown}; the numbers are in the table below">'
        f"</div>{notes}<details><summary>Numbers</summary>{table(numbers, caption)}</details></figure>"
    )


def table(given: Table, caption: str, kind: str = "") -> str:
    """A table that scrolls by itself where the page is narrow; rows of a run follow the choice of runs."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in given.heads)
    runs: list[int | None] = [*given.runs] or [None] * len(given.rows)
    body = "".join(
        f'<tr{f""" data-run="{run}" """.rstrip() if run is not None else ""}><th scope="row">{escape(row[0])}</th>'
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row, run in zip(given.rows, runs)
    )
    return scrolled(f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>', caption)


def scrolled(table: str, caption: str) -> str:
    """A table that scrolls by itself where the page is narrow."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">{table}</div>'


@cache
def asset(name: str) -> str:
    """A file of penstock_net/report/page."""
    return resources.files("penstock_net.report").joinpath("page", name).read_text(encoding="utf-8")
