"""Records of reproductions, such as docs/reproductions.json: every claim with its number, and what it was made with.

A file has one record for each figure and scale: `load(file)["bfc/fig09"]["paper"]`.  A record is stale when the sources that
its figure depends on have changed since, and it was not confirmed by the new ones (confirm.py) nor its points judged by them
(points.py), or when its specs are others now.  A band that has moved since the last record is recorded with a new entry of
changes.toml only.
"""

import functools
import json
import math
import subprocess
from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from penstock.composition import FOLDER as SCHEMES
from penstock.composition import parse
from penstock.errors import SpecError
from penstock.experiments.changes import changes_of
from penstock.experiments.claims import FROM_PAPER, NOT_JUDGED, Claim
from penstock.experiments.measuring import imported, real_switch, statistics
from penstock.experiments.registry import EXPERIMENTS, FOLDER
from penstock.sources import PACKAGE, hash_of, texts
from penstock.testing.bench import machine

SIMULATOR = (
    "composition",
    "fabric",
    "hashing.py",
    "inputs.py",
    "results",
    "scratch.py",
    "sim",
    "spec",
    "topology",
    "units.py",
    "workload",
)
SHARED = ("claims", "fluid", "frames", "headlines")
ORDER = ("quick", "paper", "real")  # of scales; `real` is a measurement on this machine


def sources(id: str) -> str:
    """A hash of the sources that can change a figure's verdicts; unlike that of the cache, the same on every machine."""
    return hash_of(files(id))


def judging(id: str) -> str:
    """A hash of those that measure and judge its runs, but do not change them."""
    return hash_of(judges(id))


@functools.cache
def specs(id: str, scale: str, seed: int) -> str:
    """A hash of a figure's specs; the window, levels and seeds that they have from elsewhere are in no hash of sources."""
    experiment = EXPERIMENTS[id]
    found = experiment.specs(scale, seed) if experiment.specs else {}
    return sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]


def files(id: str) -> set[Path]:
    """The sources that can change a figure's verdicts.

    Those that judge it and, if it uses them, the simulator's folders with the schemes that it runs.
    """
    simulator = texts(SIMULATOR) if EXPERIMENTS[id].specs else set()
    return judges(id) | simulator | {SCHEMES / f"{name}.py" for name in schemes_of(id)}


def judges(id: str) -> set[Path]:
    """Those of them that measure and judge its runs, but do not change them.

    Its own file, those of its paper and the shared ones that it imports, statistics of runs, the real switch, if it uses these.
    """
    file = FOLDER / f"{id}.py"
    return imported(file, SHARED) | statistics(id) | real_switch(file)


def schemes_of(id: str) -> set[str]:
    """The schemes of the package that a figure's runs consist of, at any scale."""
    experiment = EXPERIMENTS[id]
    names: set[str] = set()
    for spec in (spec for scale in experiment.scales if experiment.specs for spec in experiment.specs(scale).values()):
        tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
        names.update(table["name"] for table in tables)
    return {part for name in names for part in parse(name).parts}


def simulator(id: str) -> str:
    """A hash of those that change its runs, and do not measure or judge them."""
    return hash_of(files(id) - judges(id))


def stale(id: str, record: dict[str, Any]) -> bool:
    """Whether a figure's record was neither made nor confirmed by these sources, or with other specs, or judged otherwise."""
    if "points" not in record:
        known = sources(id) in (record["sources"], record.get("confirmed", {}).get("sources"))
    else:
        known = simulated(id, record) and record["judging"] == judging(id)
    return not known or not same_specs(id, record)


def simulated(id: str, record: dict[str, Any]) -> bool:
    """Whether the runs of a record with points were made, or are confirmed, by this simulator."""
    return simulator(id) in (record["simulator"], record.get("confirmed", {}).get("simulator"))


def same_specs(id: str, record: dict[str, Any]) -> bool:
    """Whether a record's figure has the same specs now, as far as the record says which they were."""
    return "specs" not in record or record["specs"] == specs(id, record["scale"], record["seeds"][0])


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The ids of the claims of a record that another record has not, or has with another band or kind."""
    found = after["claims"]
    return [name for name, claim in before.get("claims", {}).items() if name not in found or not _same(claim, found[name])]


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    ends = [(one[end], other[end]) for end in ("low", "high")]
    numbers = any(end is not None for pair in ends for end in pair)
    near = all(a == b or (a is not None and b is not None and math.isclose(a, b)) for a, b in ends)
    return one["kind"] == other["kind"] and (near if numbers else one["band"] == other["band"])


def check_moved(file: Path, id: str, record: dict[str, Any]) -> None:
    """SpecError: bands have moved since the file's record of the figure, without a new entry in the log of changes."""
    last = load(file).get(id, {}).get(record["scale"], {})
    if not (names := moved(last, record)):
        return
    logged = changes_of(id)  # a record without their number is older than that rule
    new = len(logged) > last["changes"] if "changes" in last else any(each.date.isoformat() >= last["date"] for each in logged)
    if not new:
        raise SpecError(
            f"{id}: claims that are gone since its last record, or have another band or kind: {', '.join(names)}",
            place=file,
            remedy="add an entry to penstock/experiments/changes.toml, and record again",
        )


def record_of(
    summary: dict[str, Any], claims: list[Claim], runs: dict[str, Any], points: dict[str, str] | None = None
) -> dict[str, Any]:
    """The record of a reproduction that has just been made from these sources.

    runs    what confirm.runs_of says of its runs
    points  what points.keep says of its points
    """
    return {
        "scale": summary["scale"],
        "penstock": summary["penstock"],
        **made_with(summary["sources"]),
        "simulator": simulator(summary["id"]),
        "judging": judging(summary["id"]),
        "specs": specs(summary["id"], summary["scale"], summary["seeds"][0]),
        "changes": summary["changes"],
        "seeds": summary["seeds"],
        "run_s": summary["run_s"],
        "verdicts": summary["verdicts"],
        "ours": summary["ours"],
        "claims": recorded(claims),
        "differs": summary["differs"],
        **({"points": points} if points else {}),
        **runs,
    }


def recorded(claims: list[Claim]) -> dict[str, Any]:
    """Those of the claims that were judged, as they are in a record: by id."""
    judged = [claim for claim in claims if claim.verdict != NOT_JUDGED]
    return {claim.id: {key: value for key, value in claim.record().items() if key != "id"} for claim in judged}


def counted(claims: list[Claim], kind: str) -> dict[str, int]:
    """How many of the claims of one kind have each verdict."""
    return dict(Counter(claim.verdict for claim in claims if claim.kind == kind and claim.verdict != NOT_JUDGED))


def made_with(sources: str) -> dict[str, str]:
    """What of a record says by what, where and when its runs were made; `sources`: their hash."""
    return {"sources": sources, "machine": machine(), **when()}


def when() -> dict[str, str]:
    """The present commit and date."""
    return {"commit": commit(), "date": datetime.now(UTC).date().isoformat()}


def commit() -> str:
    """The commit of the sources, with "+" if files differ from it; empty outside of a Git work tree."""
    try:
        head, changed = (
            subprocess.run(["git", "-C", str(PACKAGE), *words], capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no", "."))
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head + "+" * bool(changed)


def load(file: Path) -> dict[str, dict[str, Any]]:
    """All records of a file by figure and scale, none if there is no file.  SpecError: it is not one of records."""
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot be read as records ({error})", place=file, remedy="give another file") from error
    if not isinstance(found, dict) or not all(isinstance(each, dict) and set(each) <= {*ORDER} for each in found.values()):
        raise SpecError("is not a file of records", place=file, remedy="give another file")
    return found


def add(file: Path, id: str, record: dict[str, Any]) -> None:
    """Put a figure's record into the file, in place of its last one at this scale.  SpecError: see check_moved."""
    check_moved(file, id, record)
    known = load(file)
    found = known.get(id, {}) | {record["scale"]: record}
    known[id] = {scale: found[scale] for scale in ORDER if scale in found}
    file.write_text(json.dumps({id: known[id] for id in sorted(known)}, indent=1) + "\n")


def verdicts(records: dict[str, Any]) -> Counter[str]:
    """The paper's claims of one figure by verdict; one that was judged at several scales counts at the last one of ORDER.

    A measurement (`real`) overrules a count at the paper's scale, which overrules a small run.
    """
    claims: dict[str, str] = {}
    for scale in ORDER:
        found = records.get(scale, {}).get("claims", {})
        claims |= {name: claim["verdict"] for name, claim in found.items() if claim["kind"] == FROM_PAPER}
    return Counter(claims.values())
