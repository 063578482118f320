"""Writes the tables of docs/formats.md: keys from penstock_net/spec/keys.py, formats from penstock_net/formats.py.

python tools/formats.py
"""

import re
import sys
from pathlib import Path

from penstock_net import formats as registry
from penstock_net.spec import keys
from penstock_net.spec.meanings import REQUIRED_KEY

PAGE = Path(__file__).resolve().parents[1] / "docs/formats.md"
TABLE = re.compile(r"<!-- keys: (?P<name>[\w.]+) -->\n.*?<!-- end of keys -->", re.S)


def kind(row: keys.Row) -> str:
    """The type and the unit of a key."""
    word, *choices = row.kind.split()
    return " ".join(f'`"{choice}"`' for choice in choices) if word == "choice" else keys.KINDS[word]


def allowed(row: keys.Row) -> str:
    low, dots, high = row.range.partition("..")
    return f"{low} to {'below ' if high[0] == '<' else ''}{high.lstrip('<')}" if dots else row.range.replace("<", r"\<")


def table(name: str) -> str:
    """The keys of a table as Markdown."""
    lines = ["| key | value | range | default | meaning |", "|---|---|---|---|---|"]
    for row in keys.rows(name):
        default = row.default if row.default in ("", REQUIRED_KEY) else f"`{row.default}`"
        text = row.text.replace("|", "\\|").replace("[[workload]]", "`[[workload]]`").replace(" [topology]", " `[topology]`")
        lines.append(f"| `{row.key}` | {kind(row)} | {allowed(row)} | {default} | {text} |")
    return "\n".join(lines)


FORMATS = re.compile(r"<!-- formats -->\n.*?<!-- end of formats -->", re.S)


def formats() -> str:
    """The registry of formats as Markdown."""
    lines = ["| format | what it is | recognised by | what to do with it |", "|---|---|---|---|"]
    for row in registry.FORMATS:
        cells = (cell.replace("|", "\\|").replace("<", r"\<").replace("[[workload]]", "`[[workload]]`") for cell in row_of(row))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def row_of(row: registry.Format) -> tuple[str, str, str, str]:
    mark = row.mark.replace("_", r"\_")
    return (
        f"`{row.name}`",
        row.what.replace("_", r"\_"),
        mark,
        registry.used(row).replace(" [topology]", " `[topology]`").replace("_", r"\_"),
    )


def names(text: str) -> list[str]:
    """The tables that a page has."""
    return [match["name"] for match in TABLE.finditer(text)]


def page() -> str:
    """docs/formats.md with the tables as they are now."""
    text = TABLE.sub(lambda m: f"<!-- keys: {m['name']} -->\n\n{table(m['name'])}\n\n<!-- end of keys -->", PAGE.read_text())
    return FORMATS.sub(lambda m: f"<!-- formats -->\n\n{formats()}\n\n<!-- end of formats -->", text)


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
