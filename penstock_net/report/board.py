"""The page of a study of `penstock advise` for those who decide about a change: findings, before and after, pictures, numbers.

Nothing is loaded from anywhere and no script runs; a print has all but the numbers that are folded away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from string import Template

from penstock_net.advise import what_ifs
from penstock_net.advise.export import fragment
from penstock_net.advise.finding import SEVERITIES
from penstock_net.advise.settings import remarks, rows
from penstock_net.advise.study import (
    PICTURE,
    Study,
    changes,
    grouped,
    heading,
    headroom_head,
    notes,
    parts_of,
    short_source,
    simulated,
)
from penstock_net.report import elements, plots
from penstock_net.report.figures import Table
from penstock_net.report.plots.advice import headroom_by_length
from penstock_net.report.plots.what_ifs import figure_of
from penstock_net.units import format_size
from penstock_net.version import version

PAGE = "report.html"
CAPTIONS = {
    "headroom": "Headroom by length and rate; dots: the vendor's rows",
    "incast": "Bystanders of an incast, by fan-in and shared buffer",
    "ecn": "ECN: the grid of K_min, K_max and P_max",
    "failures": "What fails, and how much slower flows are",
    "storm": "A storm: flows of others that are held up",
}


def files(found: Study) -> dict[str, bytes]:
    """The page, and its pictures for report.md: headroom.png and one of each what-if."""
    out = {PAGE: page(found).encode()}
    if found.advice:
        out[PICTURE] = plots.render(headroom_by_length(found.advice), "png")
    if found.what_ifs:
        for what, _ in simulated(found.what_ifs):
            out[f"{what}.png"] = plots.render(figure_of(what, found.what_ifs), "png")
    return out


def page(found: Study) -> str:
    """The page as text."""
    sections = list(_sections(found))
    return Template(elements.asset("board.html")).substitute(
        version=escape(version()),
        title=escape(f"{found.name}: what to set, and why"),
        subtitle=escape(f"{heading(found)}; by penstock {version()}"),
        style=elements.asset("report.css"),
        facts=" ".join(_facts(found)),
        contents="\n".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in sections),
        main="".join(
            f'<section id="{name}" aria-labelledby="{name}-title">\n'
            f'<h2 id="{name}-title">{escape(title)}</h2>\n{text}\n</section>\n'
            for name, title, text in sections
        ),
    )


def _facts(found: Study) -> Iterator[str]:
    for severity in SEVERITIES:
        count = sum(finding.severity == severity for finding in found.findings)
        if count:
            yield f'<span class="badge {severity}">{count} {severity}{"s" * (count != 1)}</span>'
    if not found.findings:
        yield '<span class="badge good">no findings</span>'
    if found.advice and found.advice.fits:
        yield f'<span class="badge">{escape(format_size(found.advice.budget.pool, digits=4))} left to share</span>'
        if found.config:
            count = len(_changed(found)) - 1
            yield f'<span class="badge">{count} setting{"s" * (count != 1)} change{"s" * (count == 1)}</span>'


def _changed(found: Study) -> list[list[str]]:
    assert found.config and found.advice
    return changes(found.config, fragment(found.advice, found.config))


def _sections(found: Study) -> Iterator[tuple[str, str, str]]:
    yield "findings", "Findings", _findings(found)
    if not found.advice:
        return
    if found.config and found.advice.fits:
        head, *body = _changed(found)
        text = _table([head, *body], "Before and after", {1: "old", 2: "new"}) if body else "<p>Nothing changes.</p>"
        yield "changes", "Before and after", text
    settings = [["setting", "for", "value", "reason", "source"]]
    settings += [[row.setting, row.of, row.value, row.reason, short_source(row)] for row in rows(found.advice)]
    yield "settings", "Settings", _table(settings, "Settings")
    parts = [headroom_head(), *(parts_of(one) for one in found.advice.classes)]
    lines = "".join(f'<p class="quiet">{escape(line)}</p>' for line in remarks(found.advice))
    table = elements.table(Table(parts[0], parts[1:]), "Headroom in parts")
    yield "headroom", "Headroom and what if", table + lines + _pictures(found)


def _findings(found: Study) -> str:
    unread = ""
    if found.config and found.config.unknown:
        unread = f'<p class="quiet">Not read, and left as they are: {escape(", ".join(found.config.unknown))}.</p>'
    if not found.findings:
        return f"<p>None.</p>{unread}"
    cells = [["severity", "where", "what", "remedy"]]
    for finding, places in grouped(found.findings):
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        cells.append([finding.severity, places[0] + more, finding.text, finding.remedy])
    return _table(cells, "Findings") + unread


def _pictures(found: Study) -> str:
    assert found.advice
    made = [_figure("headroom", plots.render(headroom_by_length(found.advice), "svg"), "", "broad")]
    if found.what_ifs:
        for what, results in simulated(found.what_ifs):
            head, *body = what_ifs.table(results)
            said = what_ifs.concluded(found.what_ifs, what)
            quiet = f'<p class="quiet">{escape(said)}.</p>' if said else ""
            numbers = elements.table(Table(head, body), CAPTIONS[what])
            numbers += f'<p class="quiet">{escape(what_ifs.legend(what))}.</p>'
            folded = f"<details><summary>Numbers and specs</summary>{numbers}</details>"
            made.append(_figure(what, plots.render(figure_of(what, found.what_ifs), "svg"), quiet + folded))
    after = "".join(f'<p class="quiet">{escape(note)}</p>' for note in (notes(found.what_ifs) if found.what_ifs else []))
    return f'<div class="pictures">{"".join(made)}</div>{after}'


def _figure(name: str, svg: bytes, below: str, kind: str = "") -> str:
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r'(id="|url\(#|href="#)', rf"\1{name}-", text)  # ids are those of the page
    caption = escape(CAPTIONS[name])
    drawn = f'<figcaption>{caption}</figcaption><div role="img" aria-label="{caption}">{text}</div>'
    return f'<figure class="{kind}">{drawn}{below}</figure>'


def _table(cells: list[list[str]], caption: str, kinds: dict[int, str] | None = None) -> str:
    """A table of texts, whose cells wrap; kinds: the class of cells of a column."""
    head, *body = cells
    kinds = kinds or {}

    def cell(number: int, text: str) -> str:
        if text in SEVERITIES and head[number] == "severity":
            return f'<th scope="row"><span class="badge {text}">{text}</span></th>'
        if number == 0:
            return f'<th scope="row">{escape(text)}</th>'
        kind = f' class="{kinds[number]}"' if number in kinds else ""
        return f"<td{kind}>{escape(text)}</td>"

    top = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    rest = "".join(f"<tr>{''.join(cell(*one) for one in enumerate(row))}</tr>" for row in body)
    return elements.scrolled(f'<table class="text"><thead><tr>{top}</tr></thead><tbody>{rest}</tbody></table>', caption)
