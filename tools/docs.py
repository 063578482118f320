"""Writes what the documentation takes from the code: schemes.md, tables of papers, of kinds of port and of reasons of losses.

python tools/docs.py                        # write all of them again
python tools/docs.py quickstart runs/quickstart  # and take the picture and the table of README.md from that run
python tools/docs.py outputs                # and what the Python blocks of README.md print
"""

import contextlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock_net.composition import available, preset_values
from penstock_net.composition.declare import OWNERS, Declarations
from penstock_net.vswitch.attach.open import kinds_table
from penstock_net.vswitch.support.losses import reasons_table
from penstock_papers import known_numbers
from penstock_papers.pages import papers_table

ROOT = Path(__file__).resolve().parents[1]
GENERATED = "<!-- everything below is written by tools/docs.py from the declarations of the schemes -->"
PORTS = "<!-- kinds: written by tools/docs.py -->", "<!-- end of kinds -->"
REASONS = "<!-- reasons: written by tools/docs.py -->", "<!-- end of reasons -->"
PAPERS = "<!-- papers: written by tools/docs.py -->", "<!-- end of papers -->"
NUMBERS = "<!-- numbers: written by tools/docs.py -->", "<!-- end of numbers -->"


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


def between(path: Path, texts: dict[tuple[str, str], str]) -> str:
    """The page with each text between its two marks."""
    page = path.read_text()
    for (first, last), text in texts.items():
        before, rest = page.split(first)
        page = f"{before}{first}\n{text}\n{last}{rest.split(last)[1]}"
    return page


def ports_page() -> str:
    """docs/vswitch-ports.md as it should be."""
    return between(ROOT / "docs/vswitch-ports.md", {PORTS: kinds_table()})


def operating_page() -> str:
    """docs/vswitch-operating.md as it should be."""
    return between(ROOT / "docs/vswitch-operating.md", {REASONS: reasons_table()})


def readme() -> str:
    """README.md as it should be."""
    return between(ROOT / "README.md", {PAPERS: papers_table(), NUMBERS: known_numbers.table()})


def quickstart(folder: Path) -> None:
    """The picture and the table of `penstock run quickstart`."""
    from penstock_net.report import tables
    from penstock_net.results.run import Run

    runs = [Run.load(folder / row) for row in ("bfc", "hpcc", "dcqcn-bfc", "ideal_fq")]
    shutil.copy(folder / "slowdown.png", ROOT / "docs/images/quickstart.png")
    text = (ROOT / "README.md").read_text()
    table = f"$ penstock run quickstart\n{tables.text(runs)}\n{tables.window_note(runs)}\n{tables.note(runs)}\n"
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
        "docs/vswitch-ports.md": ports_page,
        "docs/vswitch-operating.md": operating_page,
        "README.md": readme,
    }
    for path, page in pages.items():
        (ROOT / path).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
