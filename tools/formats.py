"""Writes the tables of keys in docs/formats.md, from the code and penstock_net/spec/keys.py: python tools/formats.py."""

import re
import sys
from pathlib import Path

from penstock_net.spec import keys

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
        default = row.default if row.default in ("", keys.REQUIRED_KEY) else f"`{row.default}`"
        text = row.text.replace("|", "\\|").replace("[[workload]]", "`[[workload]]`").replace(" [topology]", " `[topology]`")
        lines.append(f"| `{row.key}` | {kind(row)} | {allowed(row)} | {default} | {text} |")
    return "\n".join(lines)


def names(text: str) -> list[str]:
    """The tables that a page has."""
    return [match["name"] for match in TABLE.finditer(text)]


def page() -> str:
    """docs/formats.md with the tables as they are now."""
    return TABLE.sub(lambda m: f"<!-- keys: {m['name']} -->\n\n{table(m['name'])}\n\n<!-- end of keys -->", PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.exit(0)
