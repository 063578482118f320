"""Verdicts in a line: those of a record, and those of the project's own records for `penstock reproduce --list`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.experiments import records

RECORDS = Path("docs/reproductions.json")  # of the repository, in which the package lies or is used


def counts(verdicts: Mapping[str, int]) -> str:
    """`9 PASS, 1 DIFFERS`, the most frequent first."""
    return ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items(), key=lambda v: -v[1]))


def said(id: str, record: Mapping[str, Any]) -> str:
    """What a record says at its scale, and whether it is stale."""
    scale = "" if record["scale"] == "paper" else f" ({record['scale']} scale)"
    ours = f"; (ours): {counts(record['ours'])}" if record.get("ours") else ""
    old = f"; stale: {record['date']}" if records.stale(id, dict(record)) else ""
    return (counts(record["verdicts"]) or "nothing judged") + scale + ours + old


def recorded(file: Path | None = None) -> dict[str, str]:
    """What the records of a file, by default the project's, say of each figure, none if there is no file.

    SpecError: it is not one of records.
    """
    beside = Path(__file__).parents[2] / RECORDS
    file = file or (beside if beside.exists() else RECORDS)
    return {id: "; ".join(said(id, record) for record in found.values()) for id, found in records.load(file).items()}
