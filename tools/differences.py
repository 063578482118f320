"""Writes the columns `paper` and `ours` of the tables of docs/differences.md: bands, numbers and verdicts of the kept records.

python tools/differences.py

The other columns are written by hand.  The first one begins with a figure of the entry's paper and ids of its claims, then a
colon: fig09 `hpcc-p99`, `hpcc-p95`: words.  The claims of fig04@real are those of the record at scale real, else at scale paper.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from penstock_papers import records
from penstock_papers.claims import DIFFERS, FAIL, OPEN, OURS, shown

PAGE = Path(__file__).resolve().parents[1] / "docs/differences.md"
HEAD = "| claim | paper | ours | cause | shown by |"
RULE = "|---|---|---|---|---|"
CLAIMS = re.compile(r"(\w+)(?:@(\w+))? ((?:`[^`]+`, )*`[^`]+`): ")


class Claim(NamedTuple):
    figure: str
    scale: str
    id: str


def named(text: str) -> list[Claim]:
    """The claims that the tables of a page name."""
    return [claim for paper, line in lines(text) if paper for claim in claims_of(paper, cells_of(line)[0])]


def outside(known: Mapping[str, Any]) -> list[Claim]:
    """The claims of records that have not passed."""
    return [
        Claim(figure, scale, id)
        for figure, scales in known.items()
        for scale, record in scales.items()
        for id, claim in record["claims"].items()
        if claim["verdict"] in (FAIL, DIFFERS, OPEN)
    ]


def filled(text: str, known: Mapping[str, Any]) -> str:
    """The page with the columns `paper` and `ours` as the records have them.  KeyError: a claim is in no record."""
    return "\n".join(row(paper, line, known) if paper else line for paper, line in lines(text))


def lines(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a page, those that are a row of claims with the paper of their entry."""
    paper, within = "", False
    for line in text.split("\n"):
        if heading := re.match(r"## (\w+)/", line):
            paper = heading[1]
        within = line == HEAD or (within and line.startswith("|"))
        yield paper if within and line not in (HEAD, RULE) else "", line


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def claims_of(paper: str, cell: str) -> list[Claim]:
    """The claims that the first cell of a row names.  ValueError: it names none."""
    found = CLAIMS.match(cell)
    if not found:
        raise ValueError(f"docs/differences.md: a row begins with a figure, ids of claims and a colon, not with {cell}")
    return [Claim(f"{paper}/{found[1]}", found[2] or "paper", id) for id in re.findall(r"`([^`]+)`", found[3])]


def row(paper: str, line: str, known: Mapping[str, Any]) -> str:
    first, _, _, cause, evidence = cells_of(line)
    claims = claims_of(paper, first)
    entries = [known[claim.figure][claim.scale] for claim in claims]
    bands = [entry["claims"][claim.id]["band"] for claim, entry in zip(claims, entries, strict=True)]
    numbers = [number(claim.id, entry) for claim, entry in zip(claims, entries, strict=True)]
    return f"| {first} | {joined(bands)} | {joined(numbers)} | {cause} | {evidence} |"


def number(id: str, entry: Mapping[str, Any]) -> str:
    """Our number with its verdict, and of DIFFERS the numbers that the explanation predicts."""
    claim = entry["claims"][id]
    _, _, ours, _, verdict = shown(claim)
    if claim["kind"] == OURS:
        verdict += " (ours)"
    if expected := entry["differs"].get(id, {}).get("expected"):
        verdict += ", predicted {:.4g} .. {:.4g}".format(*expected)
    return f"{ours} {verdict}"


def joined(cells: list[str]) -> str:
    """What several claims have in a cell, once if it is the same."""
    return "; ".join(dict.fromkeys(cells) if len(set(cells)) == 1 else cells).replace("|", "\\|")


def main() -> int:
    PAGE.write_text(filled(PAGE.read_text(), records.load()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
