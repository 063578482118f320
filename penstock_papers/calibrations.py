"""What a calibration found: records/PAPER/unknowns/NAME.SCALE.json, with the numbers and verdicts of every candidate.

Candidates are run one after another on one figure after another, so a calibration may lack some of what is declared.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.identity import code_hash
from penstock_papers.claims import NOT_JUDGED, PASS
from penstock_papers.unknowns import log_distance
from penstock_papers.verdicts import ALL_SCALES, RECORDS

Calibration = dict[str, Any]
CHOOSES, HELD_OUT = "chooses", "held out"  # roles of claims
FAR = math.log(100)  # most that a number counts in a mean of distances
KEYS = {"unknown", "paper", "scale", "declaration", "schemes", "commit", "date", "machine", "seeds", "candidates"}


@dataclass(frozen=True)
class Agreement:
    """How a candidate does on the held-out claims.

    held      of `judged` claims
    distance  mean over the `numbers` among them of |ln| of the factor by which ours lies outside of its band: 0 to FAR
    """

    held: int
    judged: int
    distance: float
    numbers: int

    def __str__(self) -> str:
        if not self.judged:
            return "nothing judged"
        share = f"{self.held} of {self.judged} ({100 * self.held / self.judged:.0f} %)"
        return share + (f"; {self.distance:.2f} of {self.numbers} numbers" if self.numbers else "")


def place(folder: Path, paper: str, name: str, scale: str) -> Path:
    """Where the record of a calibration is."""
    return folder / paper / "unknowns" / f"{name}.{scale}.json"


def load(paper: str, name: str, folder: Path = RECORDS) -> Calibration | None:
    """The calibration of an unknown at the largest scale at which it is recorded.  SpecError: the file is none."""
    paths = [path for scale in reversed(ALL_SCALES) if (path := place(folder, paper, name, scale)).exists()]
    if not paths:
        return None
    try:
        found = json.loads(paths[0].read_text())
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot be read as a calibration ({error})", place=paths[0], remedy="calibrate again") from error
    if not isinstance(found, dict) or not set(found) >= KEYS:
        raise SpecError("is not a calibration", place=paths[0], remedy="calibrate again")
    return found


def other_code(calibration: Calibration) -> bool:
    """Whether the simulator has changed since one of the figures was run."""
    now = code_hash(frozenset(calibration["schemes"]))
    return any(code != now for each in calibration["candidates"].values() for code in each["code"].values())


def missing(calibration: Calibration, id: str) -> list[str]:
    """The candidates that have not been run on a figure; none of those that cannot be run."""
    return [name for name, each in calibration["candidates"].items() if "error" not in each and id not in each["figures"]]


def distance(calibration: Calibration, candidate: str) -> float:
    """Of a candidate's statistics from the paper's; infinite if it has not all of them."""
    found = calibration["candidates"][candidate]["distance"]
    return math.inf if found is None else float(found)


def nearest(calibration: Calibration, contradicted: frozenset[str] = frozenset()) -> str:
    """The candidate with the smallest distance that nothing contradicts; of equal ones the first.  SpecError: none has one."""
    left = [name for name in calibration["candidates"] if name not in contradicted]
    found = min(left, key=lambda name: distance(calibration, name))
    if math.isinf(distance(calibration, found)):
        rule = f"no candidate of {calibration['unknown']} has all statistics of its chooser"
        raise SpecError(rule, remedy="choose by claims that are measured at this scale")
    return str(found)


def claims(calibration: Calibration, candidate: str, role: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    """A candidate's claims of a role by figure and id."""
    figures = calibration["candidates"][candidate]["figures"]
    return {(id, name): claim for id, found in figures.items() for name, claim in found.items() if claim["role"] == role}


def agreement(calibration: Calibration, candidate: str) -> Agreement:
    """With the claims that are held out."""
    judged = [claim for claim in claims(calibration, candidate, HELD_OUT).values() if claim["verdict"] != NOT_JUDGED]
    numbers = [
        claim for claim in judged if (claim["low"] or claim["high"]) and (claim["low"] or 1) > 0 and (claim["high"] or 1) > 0
    ]
    apart = [min(log_distance(_number(claim), claim["low"], claim["high"]), FAR) for claim in numbers]
    held = sum(claim["verdict"] == PASS for claim in judged)
    return Agreement(held, len(judged), math.fsum(apart) / max(1, len(apart)), len(apart))


def _number(claim: Mapping[str, Any]) -> float:
    return math.nan if claim["value"] is None else float(claim["value"])


def moved(calibration: Calibration) -> int:
    """How many held-out claims have not the same verdict with all candidates."""
    of_all: Sequence[Mapping[Any, Any]] = [claims(calibration, name, HELD_OUT) for name in calibration["candidates"]]
    ids = {id for found in of_all for id in found}
    return sum(len({found[id]["verdict"] for found in of_all if id in found}) > 1 for id in ids)
