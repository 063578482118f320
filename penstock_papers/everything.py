"""All figures one after another, resumable, with one page that shows what there is so far.

outcomes = reproduce_all("reproductions", scale="paper", record=records.RECORDS)
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from penstock_net.errors import ClaimFailed, PenstockError, SpecError, nearest
from penstock_net.files import write_file
from penstock_net.report import elements
from penstock_net.report.figures import Table
from penstock_net.version import version
from penstock_papers import records
from penstock_papers.cache import Progress
from penstock_papers.claims import FAIL, SHOWN, shown
from penstock_papers.framework import reproduce
from penstock_papers.registry import EXPERIMENTS, Experiment

PAGE = "index.html"
STYLE = "main img {max-width: 100%; max-height: 340px} td, th {white-space: normal}"


def chosen(paper: str | None, scale: str, experiments: Mapping[str, Experiment] = EXPERIMENTS) -> list[str]:
    """The ids of a paper's figures that have this scale, of all papers by default.  SpecError: there is no such paper."""
    papers = list(dict.fromkeys(id.split("/")[0] for id in experiments))
    if paper is not None and paper not in papers:
        raise SpecError("there is no paper of that name", path="paper", value=paper, remedy=nearest(paper, papers))
    return [id for id in experiments if paper in (None, id.split("/")[0]) and scale in experiments[id].scales]


def unconfirmed(paper: str | None, scale: str, record: Path) -> list[str]:
    """The figures with a record of runs at this scale that other code has made."""
    kept = records.load(record)
    known = {id: kept[id][scale] for id in with_record(paper, scale, record)}
    return [id for id, each in known.items() if each["checks"] and records.other_code(each)]


def with_record(paper: str | None, scale: str, record: Path) -> list[str]:
    """The figures of which the folder has a record at this scale."""
    kept = records.load(record)
    return [id for id in chosen(paper, scale) if scale in kept.get(id, {})]


def reproduce_all(
    ids: Sequence[str],
    out: str | Path,
    scale: str = "quick",
    threads: int = 1,
    progress: Progress | None = None,
    record: Path | None = None,
    seeds: Sequence[int] | None = None,
    **options: Any,
) -> dict[str, str]:
    """Reproduce figures into OUT/ID and write OUT/index.html after each of them; what went wrong with a figure, by id.

    A figure that OUT has already, by the same sources, scale and seeds, is kept.  The arguments are those of `reproduce`;
    `seeds` are left out for figures that take none.
    """
    out = Path(out)
    experiments: Mapping[str, Experiment] = options.get("experiments", EXPERIMENTS)
    wrong: dict[str, str] = {}
    for number, id in enumerate(ids):
        wanted = seeds if experiments[id].takes_seeds else None
        if progress:
            progress(f"{number + 1} of {len(ids)}: {id}", 0.0)
        if not is_current(experiments[id], out / id, scale, wanted or range(1, 1 + experiments[id].seeds.get(scale, 1))):
            try:
                reproduce(id, scale, out / id, threads, progress, record=record, seeds=wanted, **options)
            except ClaimFailed:
                pass  # it is in the results, as for a figure that is kept
            except PenstockError as error:
                wrong[id] = f"{id}: not reproduced: {error}"
        if failed := [claim["id"] for claim in read(out / id).get("claims", []) if claim["verdict"] == FAIL]:
            wrong[id] = f"{id}: failed: {', '.join(failed)}"
        write_file(out / PAGE, page([out / id for id in ids[: number + 1]], scale).encode())
    return wrong


def is_current(experiment: Experiment, folder: Path, scale: str, seeds: Sequence[int]) -> bool:
    """Whether a folder holds the result of these sources, at this scale, with these seeds."""
    found = read(folder)
    if not found:
        return False
    made = scale, list(seeds), records.sources(experiment, scale, seeds[0])
    return (found["scale"], found["seeds"], found.get("sources")) == made


def read(folder: Path) -> dict[str, Any]:
    """summary.json of a reproduction with its `claims`; empty if there is none that is whole."""
    try:
        summary = json.loads((folder / "summary.json").read_text())
        return {**summary, "claims": json.loads((folder / "claims.json").read_text())}
    except (OSError, ValueError):
        return {}


def page(folders: Iterable[Path], scale: str) -> str:
    """Every figure with its picture, claims, seeds and window; the counts on top."""
    found = [summary for folder in folders if (summary := read(folder))]
    verdicts = Counter[str]()
    for summary in found:
        verdicts.update(summary["verdicts"])
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    seconds = sum(summary["run_s"] for summary in found)
    subtitle = f"scale {scale}; {len(found)} figures; {counts}; {seconds / 60:.0f} min of one core; penstock {version()}"
    contents = [f'<a href="#{_anchor(each)}">{escape(each["id"])}</a>' for each in found]
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Reproductions</title>'
            '<meta name="viewport" content="width=device-width">',
            f"<style>{elements.asset('report.css')}{STYLE}</style></head><body>",
            f'<header><h1>Reproductions</h1><p class="quiet">{escape(subtitle)}</p></header>',
            f'<nav aria-label="Figures">{" ".join(contents)}</nav><main>',
            *(_section(summary) for summary in found),
            "</main></body></html>",
            "",
        ]
    )


def _section(summary: Mapping[str, Any]) -> str:
    anchor, window = _anchor(summary), summary["window"]["window"]
    seeds = len(summary["seeds"])
    facts = [
        summary["paper"],
        f"{seeds} seed{'s' * (seeds > 1)}",
        f"measurement window: {window}",
        f"{summary['changes']} changes after results were seen",
        f"{summary['run_s']:.0f} s",
    ]
    rows = [shown(claim) for claim in summary["claims"]]
    title = escape(summary["title"])
    return "\n".join(
        [
            f'<section id="{anchor}" aria-labelledby="{anchor}-title">',
            f'<h2 id="{anchor}-title">{escape(summary["id"])}: {title}</h2>',
            f'<p class="quiet">{escape("; ".join(facts))}</p>',
            f'<img src="{escape(summary["id"])}/figure.png" alt="{title}">',
            elements.table(Table(list(SHOWN), rows), "Claims", "text"),
            "</section>",
        ]
    )


def _anchor(summary: Mapping[str, Any]) -> str:
    return str(summary["id"]).replace("/", "-")
