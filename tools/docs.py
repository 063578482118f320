"""Writes what the documentation takes from the code: schemes.md, figures.md, verdicts/*.md, tables of papers, ports, changes.

python tools/docs.py                        # write all of them again
python tools/docs.py quickstart runs/quickstart  # and take the picture and the table of README.md from that run
python tools/docs.py outputs                # and what the Python blocks of README.md print
"""

import contextlib
import importlib
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from penstock.composition import available, preset_values
from penstock.composition.declare import OWNERS, Declarations
from penstock.experiments import points, records
from penstock.experiments.changes import changes
from penstock.experiments.claims import FROM_PAPER, shown
from penstock.experiments.registry import EXPERIMENTS
from penstock.experiments.verdicts import counts, said
from penstock.vswitch.attach.open import kinds_table
from penstock.vswitch.support.losses import reasons_table

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs/reproductions.json"
GENERATED = "<!-- everything below is written by tools/docs.py from the declarations of the schemes -->"
FIGURES = "<!-- figures: written by tools/docs.py -->", "<!-- end of figures -->"
PORTS = "<!-- kinds: written by tools/docs.py -->", "<!-- end of kinds -->"
REASONS = "<!-- reasons: written by tools/docs.py -->", "<!-- end of reasons -->"
CHANGES = "<!-- changes: written by tools/docs.py from penstock/experiments/changes.toml -->", "<!-- end of changes -->"
PAPERS = "<!-- papers: written by tools/docs.py -->", "<!-- end of papers -->"
VERDICTS = """# {title}: every verdict

<!-- written by tools/docs.py from docs/reproductions.json -->

The paper's sentence or number, ours, the band in which ours must lie with the reason of that band, and the verdict
([what it means](../figures.md), [known differences](../differences.md), [changes after results](../differences.md#changes)).
A claim of several runs is judged by the mean over the seeds with its 95 % interval. Minutes are those of all runs on one core.
The same numbers again: `penstock reproduce ID --scale paper` at the first commit named. Where another one judged again, its
claims gave the verdicts: `penstock reproduce ID --scale paper --judge-again --record docs/reproductions.json` there."""
# measurement window -> what it counts
WINDOWS = {"run": "the whole run", "arrivals": "while flows arrive"}
# folder of penstock/experiments -> paper, schemes
PAPER = {
    "bfc": ("Backpressure Flow Control (BFC), NSDI 2022", "`bfc`, `bfc_tofino2`, `dqa`, `ideal_fq`, `window_cap`"),
    "floodgate": ("Floodgate: Taming Incast in Datacenter Networks, CoNEXT 2021", "`floodgate`, `pfc_tagged`"),
    "backdraft": ("Backdraft: a Lossless Virtual Switch, NSDI 2022", "`backdraft`, `penstock vswitch`"),
    "hpcc": ("HPCC: High Precision Congestion Control, SIGCOMM 2019", "`hpcc`, `dcqcn`, `dctcp`, `timely`"),
    "beyond": (
        "Numbers of other papers (Homa, NDP, ExpressPass, IRN), and comparisons that are in no paper",
        "`homa`, `ndp`, `expresspass`, `recovery`, and all others",
    ),
}


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# ---- docs/schemes.md ----


def parameters_of(scheme: Declarations) -> Iterator[str]:
    if not scheme.parameters:
        yield "No parameters."
        return
    yield "| parameter | type | default | meaning |"
    yield "|---|---|---|---|"
    for name, (kind, default, text) in scheme.parameters.items():
        kind = " or ".join(kind.split()[1:]) if kind.startswith("choice") else kind
        yield f"| `{name}` | {cell(kind)} | `{toml(default)}` | {cell(text)} |"


def facts_of(scheme: Declarations) -> Iterator[str]:
    """What it brings along, where it runs, what it adds to packets and ports, what it asks of the fabric."""
    if scheme.includes:
        along = " and ".join(f"[`{part}`](#{part})" for part in scheme.includes)
        left_out = " or ".join(f"`{part} = false`" for part in scheme.includes)
        yield f"* Brings along {along}; {left_out} leaves it out."
    if scheme.hooks:
        hooks = ", ".join(f"`{h}`" for h in sorted(scheme.hooks) if not h.startswith("set_up"))
        yield f"* Hooks: {hooks}."
    if scheme.shared:
        yield f"* Reads and writes the packet state of [`{scheme.shared.name}`](#{scheme.shared.name})."
    own = [owner for owner in OWNERS if scheme.state[owner].size and not (owner == "packet" and scheme.shared)]
    state = ", ".join(f"{owner} {scheme.state[owner].size} B" for owner in own)
    if state:
        yield f"* State, tables apart: {state}."
    if asks := ", ".join(f"`{key} = {value}`" for key, value in scheme.fabric.items()):
        yield f"* Asks of the fabric: {asks}."


def section(name: str, scheme: Declarations) -> str:
    text = re.sub(r"<(?=\w)", r"\<", scheme.doc.strip())  # not a tag
    lines = [f"## {name}", "", text, "", *parameters_of(scheme), ""]
    if scheme.presets:
        lines += ["| preset | sets |", "|---|---|"]
        for preset in scheme.presets:
            values = preset_values(name, preset)
            lines.append(f"| `{name}:{preset}` | {', '.join(f'`{k} = {toml(v)}`' for k, v in values.items())} |")
        lines.append("")
    facts = list(facts_of(scheme))
    return "\n".join(lines + facts + [""] * bool(facts))


def schemes_page() -> str:
    """docs/schemes.md as it should be: its head is written by hand."""
    head = (ROOT / "docs/schemes.md").read_text().split(GENERATED)[0]
    return head + GENERATED + "\n\n" + "\n".join(section(name, s) for name, s in available().items())


# ---- docs/figures.md and README.md ----


def state(id: str, found: Mapping[str, Any]) -> str:
    """What was found at each scale."""
    return "; ".join(said(id, entry) for entry in found.values()) or "not yet judged"


def current(id: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """The figure's records that are of the present sources."""
    return {scale: entry for scale, entry in record.get(id, {}).items() if not records.stale(id, entry)}


def figures_of(paper: str) -> list[str]:
    return [id for id in EXPERIMENTS if id.startswith(f"{paper}/")]


def missing(paper: str) -> dict[str, str]:
    """Figures and tables of a paper that have no experiment yet, with what they show."""
    return getattr(importlib.import_module(f"penstock.experiments.{paper}"), "MISSING", {})


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


def figures() -> str:
    """A section per paper, a row per figure."""
    record = records.load(RECORD)
    lines: list[str] = []
    for paper, (title, _) in PAPER.items():
        lines += [f"## {title}", "", "| id | figure | what it shows | seeds | window | claims |", "|---|---|---|---|---|---|"]
        for id in figures_of(paper):
            experiment = EXPERIMENTS[id]
            figure = re.sub(r"^\w+, \w+ \d{4},? ", "", experiment.paper)
            found = record.get(id, {})
            seeds = max((len(entry["seeds"]) for entry in found.values()), default="")
            how = str(seeds) if experiment.takes_seeds else "", experiment.window if experiment.specs else ""
            cells = f"[`{id}`](verdicts/{paper}.md#{anchor(id)})", cell(figure), cell(experiment.title), *how, state(id, found)
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *windows(paper), ""]
        if absent := missing(paper):
            lines += ["Missing: " + "; ".join(f"`{paper}/{name}` ({text})" for name, text in absent.items()) + ".", ""]
    return "\n".join(lines).strip()


def papers() -> str:
    """A row per paper: its figures, and the claims of those that were judged with the present sources."""
    record = records.load(RECORD)
    lines = [
        "| paper | schemes | figures that are experiments | of them judged | claims | missing |",
        "|---|---|---|---|---|---|",
    ]
    for paper, (title, schemes) in PAPER.items():
        ids, verdicts = figures_of(paper), Counter[str]()
        known = {id: current(id, record) for id in ids}
        for found in known.values():
            verdicts.update(records.verdicts(found))
        judged, absent = sum(bool(records.verdicts(found)) for found in known.values()), ranges(list(missing(paper)))
        page = f"[{counts(verdicts) or 'none'}](docs/verdicts/{paper}.md)"
        lines.append(f"| {title} | {schemes} | {len(ids)} | {judged} | {page} | {absent} |")
    return "\n".join(lines)


def ranges(names: list[str]) -> str:
    """`fig13 to fig29, table2` of names that have numbers."""
    numbers = {int(name[3:]): name for name in names if re.fullmatch(r"fig\d+", name)}
    runs = [[n for _, n in group] for _, group in groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0])]
    found = [numbers[run[0]] + (f" to {numbers[run[-1]]}" if len(run) > 1 else "") for run in runs]
    return ", ".join(found + [name for name in names if name not in numbers.values()])


# ---- docs/verdicts/PAPER.md ----


def anchor(id: str) -> str:
    return id.replace("/", "-")


def verdicts_page(paper: str) -> str:
    """docs/verdicts/PAPER.md as it should be: claims with the paper's words, our number, its band and what it was made with."""
    record = records.load(RECORD)
    lines = [VERDICTS.format(title=PAPER[paper][0])]
    for id in figures_of(paper):
        experiment, found = EXPERIMENTS[id], record.get(id, {})
        source = f"[{id}.py](../../penstock/experiments/{id}.py)"
        lines += ["", f'<a id="{anchor(id)}"></a>', "", f"## {id}", "", f"{experiment.title}. {experiment.paper}; {source}.", ""]
        scales = ["\n".join(of_scale(id, entry)) for entry in found.values()] or ["Not judged yet."]
        lines.append("\n\n".join(scales))
    return "\n".join(lines) + "\n"


def of_scale(id: str, entry: Mapping[str, Any]) -> Iterator[str]:
    """A figure's record at one scale: what it was made with, and its claims."""
    experiment = EXPERIMENTS[id]
    seeds = ", ".join(map(str, entry["seeds"]))
    made = [f"Scale {entry['scale']}", f"{entry['date']}", f"commit {entry['commit'][:12]}", f"sources {entry['sources']}"]
    if experiment.specs:
        made += [f"smaller than the paper: {experiment.reduced}"] * bool(experiment.reduced)
    if experiment.takes_seeds:
        made.append(f"seeds {seeds}")
    if experiment.specs:
        made.append(f"window {experiment.window} ({experiment.window_reason})")
    made += [f"{entry['run_s'] / 60:.0f} min on {entry['machine']}"]
    if known := entry.get("confirmed"):
        runs = f"{len(known['runs'])} of {len(entry['runs'])} runs repeated, bit for bit the same"
        made.append(f"confirmed {known['date']} by commit {known['commit'][:12]}, sources {known['sources']}: {runs}")
    if known := entry.get("judged"):
        made.append(f"judged again {known['date']} by commit {known['commit'][:12]}")
    if "points" in entry:
        file = points.place(RECORD, id, entry["scale"])
        made.append(f"[measured points](../{file.relative_to(RECORD.parent).as_posix()})")
    if records.stale(id, entry):
        made.append("**stale: the sources have changed since**")
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


def between(path: Path, marks: tuple[str, str], text: str) -> str:
    """The page with `text` between two marks."""
    before, rest = path.read_text().split(marks[0])
    return f"{before}{marks[0]}\n{text}\n{marks[1]}{rest.split(marks[1])[1]}"


def figures_page() -> str:
    """docs/figures.md as it should be."""
    return between(ROOT / "docs/figures.md", FIGURES, "\n" + figures() + "\n")


def changes_table() -> str:
    """A row per change after results were seen."""
    lines = ["| date | figures | what | why | before | after |", "|---|---|---|---|---|---|"]
    for one in changes():
        cells = one.date.isoformat(), ", ".join(one.figures), one.what, one.why, one.before, one.after
        lines.append(f"| {' | '.join(map(cell, cells))} |")
    return "\n".join(lines)


def differences_page() -> str:
    """docs/differences.md as it should be."""
    return between(ROOT / "docs/differences.md", CHANGES, changes_table())


def ports_page() -> str:
    """docs/vswitch-ports.md as it should be."""
    return between(ROOT / "docs/vswitch-ports.md", PORTS, kinds_table())


def operating_page() -> str:
    """docs/vswitch-operating.md as it should be."""
    return between(ROOT / "docs/vswitch-operating.md", REASONS, reasons_table())


def readme() -> str:
    """README.md as it should be."""
    return between(ROOT / "README.md", PAPERS, papers())


def quickstart(folder: Path) -> None:
    """The picture and the table of `penstock run quickstart`."""
    from penstock.report import tables
    from penstock.results.run import Run

    runs = [Run.load(folder / row) for row in ("bfc", "hpcc", "dcqcn", "ideal_fq")]
    shutil.copy(folder / "slowdown.png", ROOT / "docs/images/quickstart.png")
    text = (ROOT / "README.md").read_text()
    table = f"$ penstock run quickstart\n{tables.text(runs)}\n{tables.window_note(runs)}\n{tables.NOTE}\n"
    made = re.sub(r"\$ penstock run quickstart\n.*?\n(?=written to)", lambda _: table, text, count=1, flags=re.S)
    (ROOT / "README.md").write_text(made)


def outputs() -> None:
    """The blocks of README.md that say what the block before them prints."""
    sys.path.insert(0, str(ROOT / "tests/docs"))
    from blocks import blocks, run_python

    text, names, printed = (ROOT / "README.md").read_text(), {}, ""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks(ROOT / "README.md"):
            if block.option("output") is not None:
                text = text.replace(block.text, printed)
            elif block.kind == "python":
                printed = run_python(block, names, "README.md")
    (ROOT / "README.md").write_text(text)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["quickstart"] and len(arguments) == 2:
        quickstart(Path(arguments[1]))
    elif arguments == ["outputs"]:
        outputs()
    elif arguments:
        print(__doc__)
        return 2
    pages = {
        "docs/schemes.md": schemes_page,
        "docs/figures.md": figures_page,
        "docs/differences.md": differences_page,
        "docs/vswitch-ports.md": ports_page,
        "docs/vswitch-operating.md": operating_page,
        "README.md": readme,
        **{f"docs/verdicts/{paper}.md": partial(verdicts_page, paper) for paper in PAPER},
    }
    for path, page in pages.items():
        (ROOT / path).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
