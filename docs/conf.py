"""The documentation as a site: `sphinx-build -W docs site` (pip install '.[docs]'), then open site/index.html."""

import re
import sys
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parents[1]

project = "penstock"
author = copyright = "the penstock authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]  # pages of notebooks
default_role = "code"  # docstrings write `name`
# tests/docs/test_site.py checks every link of the pages as built, with <a id> anchors, of which MyST knows nothing
suppress_warnings = ["myst.xref_missing"]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"penstock {release}"
html_copy_source = html_show_sphinx = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]


class CsvLexer(TextLexer):
    """Pages have CSV files as examples; Pygments has no name for them."""

    name, aliases = "CSV", ["csv"]


def keep_listings(app: Any, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Docstrings are plain text: a paragraph that is indented, or aligned in columns, is shown as it is."""
    out: list[str] = []
    for listing, paragraphs in groupby(split_paragraphs(lines), key=is_listing):
        for i, paragraph in enumerate(paragraphs):
            out += ["::", ""] if listing and i == 0 else []
            out += [f"    {line}" for line in paragraph] if listing else map(escaped, paragraph)
            out.append("")
    lines[:] = out


def split_paragraphs(lines: list[str]) -> list[list[str]]:
    return [list(group) for filled, group in groupby(lines, key=lambda line: bool(line.strip())) if filled]


def is_listing(paragraph: list[str]) -> bool:
    return any(re.search(r"^ |\S {2,}\S", line) for line in paragraph)


def escaped(line: str) -> str:
    """`class_` outside backticks is a name, not a link of reStructuredText."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", part) for part in parts[::2]]
    return "`".join(parts)


def write_verdicts(app: Any) -> None:
    """The pages of papers, from their records."""
    from penstock_papers.pages import write

    write(ROOT / "docs/verdicts")


def write_notebooks(app: Any) -> None:
    """The pages of examples/notebooks, with what their cells show."""
    sys.path.insert(0, str(ROOT / "tools"))
    from notebooks import write

    write(ROOT / "docs/notebooks")


def setup(app: Any) -> None:
    app.connect("builder-inited", write_verdicts)
    app.connect("builder-inited", write_notebooks)
    app.add_lexer("csv", CsvLexer)
    app.connect("autodoc-process-docstring", keep_listings)
