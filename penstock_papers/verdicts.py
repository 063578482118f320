"""Verdicts in a line, from records as they are: no figure is imported."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError

RECORDS = Path(__file__).resolve().parent / "records"
ALL_SCALES = ("quick", "paper", "real")  # `real` is a measurement on this machine
KEYS = {"scale", "title", "penstock", "code", "schemes", "specs", "commit", "date", "machine", "seeds"}
KEYS |= {"verdicts", "claims", "points"}


def files(folder: Path) -> Iterator[tuple[str, str, Path]]:
    """Figure, scale and file of every record below a folder."""
    for scale in ALL_SCALES:
        for path in sorted(folder.glob(f"*/*.{scale}.json")):
            yield f"{path.parent.name}/{path.name.removesuffix(f'.{scale}.json')}", scale, path


def read(path: Path) -> dict[str, Any]:
    """The record in a file.  SpecError: the file is not a record."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot be read as a record ({error})", place=path, remedy="give another folder") from error
    if not isinstance(found, dict) or not set(found) >= KEYS:
        raise SpecError("is not a record", place=path, remedy="give another folder")
    return found


def counts(verdicts: Mapping[str, int]) -> str:
    """`9 PASS, 1 DIFFERS`, the most frequent first."""
    return ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items(), key=lambda v: -v[1]))


def said(record: Mapping[str, Any]) -> str:
    """What a record says at its scale."""
    scale = "" if record["scale"] == "paper" else f" ({record['scale']} scale)"
    ours = f"; (ours): {counts(record['ours'])}" if record.get("ours") else ""
    return (counts(record["verdicts"]) or "nothing judged") + scale + ours


def recorded(folder: Path = RECORDS) -> dict[str, tuple[str, str]]:
    """Title and verdicts of every figure that has a record.  SpecError: a file is not a record."""
    found: dict[str, tuple[str, str]] = {}
    for id, _, path in files(folder):
        record = read(path)
        before = found[id][1] + "; " if id in found else ""
        found[id] = record["title"], before + said(record)
    return found
