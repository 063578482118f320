"""The log of what was changed in a figure after one of its results had been seen: changes.toml, shown on the site."""

import functools
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path


@dataclass(frozen=True)
class Change:
    """One change of bands, claims, set-up or variants: what, why, and the verdicts or numbers before and after."""

    date: date
    figures: tuple[str, ...]
    what: str
    why: str
    before: str
    after: str


@functools.cache
def changes() -> tuple[Change, ...]:
    """The whole log, oldest first."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["change"]
    return tuple(Change(**{**table, "figures": tuple(table["figures"])}) for table in tables)


def changes_of(id: str) -> list[Change]:
    """Those of one figure."""
    return [change for change in changes() if id in change.figures]
