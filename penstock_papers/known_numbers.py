"""The numbers of the papers that everybody knows, beside ours, as README shows them: known_numbers.toml and the records."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_papers import choices, records
from penstock_papers.claims import PASS

FILE = Path(__file__).resolve().parent / "known_numbers.toml"
HEAD = "| paper | number | the paper | ours | verdict | cause |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Number:
    """A number that a paper is known by.

    what    what it is
    says    the paper's number or range
    claims  "figure claim" of the records that judge it: one, or those of both ends of a range
    cause   why ours is another one, in a few words; it is shown while one of them is no PASS
    place   the heading of docs/differences.md that explains it
    """

    paper: str
    what: str
    says: str
    claims: tuple[str, ...]
    cause: str = ""
    place: str = ""


def load() -> list[Number]:
    """All of them, in the order of the file."""
    return [Number(**{**each, "claims": tuple(each["claims"])}) for each in tomllib.loads(FILE.read_text())["number"]]


def judged(number: Number, known: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Its claims as they were last judged; KeyError: a record has none of that name."""
    return [choices.last(known[id])[claim] for id, claim in (text.split() for text in number.claims)]


def table() -> str:
    """The numbers as a table in Markdown."""
    known = records.load()
    return "\n".join([HEAD, *(f"| {' | '.join(_row(number, known))} |" for number in load())])


def _row(number: Number, known: Mapping[str, Any]) -> Iterator[str]:
    """paper | number | the paper | ours | verdict | cause"""
    found = judged(number, known)
    yield from (number.paper, number.what, number.says)
    yield "; ".join(each["ours"] for each in found)
    yield "; ".join(dict.fromkeys(each["verdict"] for each in found))
    missed = any(each["verdict"] != PASS for each in found)
    yield f"[{number.cause}](docs/differences.md#{number.place})" if missed else ""
