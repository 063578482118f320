"""The documentation as a site: `sphinx-build -W docs site` (pip install '.[docs]'), then open site/index.html."""

import tomllib
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parents[1]

project = "penstock"
author = copyright = "the penstock authors"
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
exclude_patterns = ["conf.py"]
default_role = "code"  # docstrings write `name`
nitpicky = False
suppress_warnings = ["myst.header"]  # pages are also read on code hosts, where levels may be skipped

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"penstock {release}"
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
pygments_style, pygments_dark_style = "friendly", "monokai"


class CsvLexer(TextLexer):
    """Pages have CSV files as examples; Pygments has no name for them."""

    name, aliases = "CSV", ["csv"]


def setup(app: Any) -> None:
    app.add_lexer("csv", CsvLexer)
