"""Where a figure was last reproduced on this machine, and with which verdicts."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock_net.errors import SpecError
from penstock_net.files import write_file
from penstock_net.identity import code_hash, home


@dataclass(frozen=True)
class State:
    """The result of the last known reproduction of a figure."""

    id: str
    out: Path
    scale: str
    penstock: str
    current: bool
    verdicts: dict[str, int]

    def __str__(self) -> str:
        counts = " ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return f"{counts or 'nothing judged'} ({self.scale}{'' if self.current else ', by other code'})"


def state(id: str, results: str | Path | None = None) -> State | None:
    """The state of a figure for `--list`: from RESULTS/ID, or from where it was last reproduced; None: never."""
    out = Path(results) / id if results else _remembered(id)
    if out is None:
        return None
    try:
        summary = json.loads((out / "summary.json").read_text())
        if summary["id"] != id:
            return None
        current = summary["code"] == code_hash(frozenset(summary["schemes"]))
        return State(id, out, summary["scale"], summary["penstock"], current, summary["verdicts"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(id: str, out: Path) -> None:
    """Note where a figure was last reproduced. A cache folder that cannot be written is ignored."""
    with suppress(SpecError):
        write_file(home() / "reproductions" / f"{id}.path", os.fsencode(f"{out.resolve()}\n"))


def _remembered(id: str) -> Path | None:
    try:
        return Path((home() / "reproductions" / f"{id}.path").read_text().strip())
    except (SpecError, OSError):
        return None
