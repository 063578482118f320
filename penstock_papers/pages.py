"""Pages made of the records: a table of papers for README.md, and for the site a page of every paper and the log of changes.

The site writes them when it is built (docs/conf.py); `python -m penstock_papers.pages FOLDER` writes them for a look.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock_net.files import new_files
from penstock_papers import records
from penstock_papers.changes import changes
from penstock_papers.choices import beginning, cell
from penstock_papers.claims import FROM_PAPER, shown
from penstock_papers.registry import EXPERIMENTS
from penstock_papers.verdicts import counts, said

ORDER = ("bfc", "floodgate", "backdraft", "hpcc")  # the papers of this project; others follow by name
# measurement window -> what it counts
WINDOWS = {"run": "the whole run", "arrivals": "while flows arrive"}
HEAD = """# {title}: every verdict

The paper's sentence or number, ours, the band in which ours must lie with the reason of that band, and the verdict
([what it means](../figures.md), [known differences](../differences.md), [changes after results](changes.md)).
A claim of several runs is judged by the mean over the seeds with its 95 % interval. Minutes are those of all runs on one core.
The same numbers again: `penstock reproduce ID --scale paper` at the commit named; the verdicts from the points that are kept:
`penstock reproduce ID --scale paper --judge-again`."""
LOG = """# What was changed after results were seen

Every change of a band, a claim, a set-up or a variant of a scheme that was made after a result of the figure had been seen, from
`penstock_papers/changes.toml`. `penstock reproduce` prints how many of them a figure has.

| date | figures | what | why | before | after |
|---|---|---|---|---|---|"""


def papers() -> list[str]:
    """The papers' folders: ours in their order, then the others."""
    found = list(dict.fromkeys(id.split("/")[0] for id in EXPERIMENTS))
    return sorted(found, key=lambda paper: (ORDER.index(paper) if paper in ORDER else len(ORDER), paper))


def home(paper: str) -> ModuleType:
    """A paper's package, whose TITLE and SCHEMES are on the pages, and MISSING if figures are."""
    return import_module(f"penstock_papers.{paper}")


def figures_of(paper: str) -> list[str]:
    return [id for id in EXPERIMENTS if id.startswith(f"{paper}/")]


def missing(paper: str) -> dict[str, str]:
    """Figures and tables of a paper that have no experiment yet, with what they show."""
    return getattr(home(paper), "MISSING", {})


def anchor(id: str) -> str:
    return id.replace("/", "-")


# ---- README.md ----


def papers_table() -> str:
    """A row per paper: its figures, the claims as they were last judged, and the version that judged them."""
    known = records.load()
    lines = [
        "| paper | schemes | figures that are experiments | of them judged | claims | by penstock | missing |",
        "|---|---|---|---|---|---|---|",
    ]
    for paper in papers():
        ids, verdicts = figures_of(paper), Counter[str]()
        found = [known.get(id, {}) for id in ids]
        for each in found:
            verdicts.update(records.verdicts(each))
        judged, absent = sum(bool(records.verdicts(each)) for each in found), ranges(list(missing(paper)))
        versions = ", ".join(sorted({record["penstock"] for each in found for record in each.values()}))
        cells = home(paper).TITLE, home(paper).SCHEMES, str(len(ids)), str(judged), counts(verdicts) or "none", versions, absent
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def ranges(names: list[str]) -> str:
    """`fig13 to fig29, table2` of names that have numbers."""
    numbers = {int(name[3:]): name for name in names if re.fullmatch(r"fig\d+", name)}
    runs = [[n for _, n in group] for _, group in groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])]
    found = [numbers[run[0]] + (f" to {numbers[run[-1]]}" if len(run) > 1 else "") for run in runs]
    return ", ".join(found + [name for name in names if name not in numbers.values()])


# ---- the site ----


def write(folder: Path) -> None:
    """Write PAPER.md of every paper and changes.md."""
    with new_files(folder) as made:
        for paper in papers():
            (made / f"{paper}.md").write_text(verdicts_page(paper))
        (made / "changes.md").write_text(changes_page())


def changes_page() -> str:
    """The log of changes."""
    lines = [LOG]
    for one in changes():
        cells = one.date.isoformat(), ", ".join(one.figures), one.what, one.why, one.before, one.after
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(lines) + "\n"


def verdicts_page(paper: str) -> str:
    """The paper's unknowns, PASS by kind, its figures, then each with its claims: words, our number, band, and what made it."""
    known = records.load()
    lines = [HEAD.format(title=home(paper).TITLE), "", *beginning(paper, known), "## Figures", ""]
    lines += [*figures_table(paper, known), "", *windows(paper)]
    if absent := missing(paper):
        lines += ["", "Missing: " + "; ".join(f"`{paper}/{name}` ({text})" for name, text in absent.items()) + "."]
    for id in figures_of(paper):
        experiment, found = EXPERIMENTS[id], known.get(id, {})
        head = f"{experiment.title}. {experiment.paper}; `penstock_papers/{id}.py`."
        lines += ["", f'<a id="{anchor(id)}"></a>', "", f"## {id}", "", head, ""]
        scales = ["\n".join(of_scale(id, entry)) for entry in found.values()] or ["Not judged yet."]
        lines.append("\n\n".join(scales))
    return "\n".join(lines) + "\n"


def figures_table(paper: str, known: Mapping[str, Any]) -> Iterator[str]:
    """A row per figure of a paper."""
    yield "| id | figure | what it shows | seeds | window | claims |"
    yield "|---|---|---|---|---|---|"
    for id in figures_of(paper):
        experiment, found = EXPERIMENTS[id], known.get(id, {})
        figure = re.sub(r"^\w+, \w+ \d{4},? ", "", experiment.paper)
        seeds = max((len(entry["seeds"]) for entry in found.values()), default="")
        how = str(seeds) if experiment.takes_seeds else "", experiment.window if experiment.specs else ""
        claims = "; ".join(map(said, found.values())) or "not yet judged"
        yield f"| {' | '.join((f'[`{id}`](#{anchor(id)})', cell(figure), cell(experiment.title), *how, claims))} |"


def windows(paper: str) -> Iterator[str]:
    """The measurement windows of a paper's figures with their reasons, one sentence each; of several the figures are named."""
    found: dict[tuple[str, str], list[str]] = {}
    for id in figures_of(paper):
        experiment = EXPERIMENTS[id]
        if experiment.specs:
            found.setdefault((experiment.window, experiment.window_reason), []).append(f"`{id}`")
    for (window, reason), ids in found.items():
        of = f" of {', '.join(ids)}" if len(found) > 1 else ""
        yield f"Measurement window{of}: `{window}`, {WINDOWS.get(window, 'from, to')} ({cell(reason)})."


def of_scale(id: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """A figure's record at one scale: what it was made with, and its claims."""
    experiment = EXPERIMENTS[id]
    seeds = ", ".join(map(str, entry["seeds"]))
    made = [f"Scale {entry['scale']}", f"{entry['date']}", f"penstock {entry['penstock']}, commit {entry['commit'][:12]}"]
    if experiment.specs:
        made += [f"smaller than the paper: {experiment.reduced}"] * bool(experiment.reduced)
    if experiment.takes_seeds:
        made.append(f"seeds {seeds}")
    if experiment.specs:
        made.append(f"window {experiment.window} ({experiment.window_reason})")
    made.append(f"{entry['run_s'] / 60:.0f} min on {entry['machine']}")
    if records.other_code(entry):
        made.append("what simulates has changed since")
    if records.other_set_up(experiment, entry):
        made.append("the figure's set-up has changed since: these are older points, judged by the present claims")
    yield "; ".join(made) + "."
    yield ""
    if not entry["claims"]:
        yield "Nothing is judged at this scale."
        return
    yield "| claim | the paper | ours | band | why this band | verdict |"
    yield "|---|---|---|---|---|---|"
    for name, claim in entry["claims"].items():
        what, _, ours, band, verdict = shown(claim)
        said = claim["paper"] if claim["kind"] == FROM_PAPER else f"(ours) {claim['paper']}"
        if name in entry["differs"]:
            known = entry["differs"][name]
            bounds = " (expected: {:g} .. {:g})".format(*known["expected"]) if known["expected"] else ""
            verdict = f"[{verdict}](../{known['see'].removeprefix('docs/')}){bounds}"
        yield f"| {' | '.join(map(cell, (f'`{name}`: {what}', said, ours, band, claim['why'], verdict)))} |"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
