"""Records of reproductions, such as docs/reproductions.json: every claim with its number, and what it was made with.

A file has one record for each figure and scale: `load(file)["bfc/fig09"]["paper"]`.  A record is stale when the sources that
its figure depends on have changed since, and it was not confirmed by the new ones (confirm.py).
"""

import ast
import json
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.composition import FOLDER as SCHEMES
from penstock.composition import parse
from penstock.errors import SpecError
from penstock.experiments.claims import FROM_PAPER, NOT_JUDGED, Claim
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
REAL_SWITCH = ("fabric", "schemes", "vswitch")
STATISTICS = ("intervals", "links", "pauses", "run")  # of results
SHARED = ("claims", "fluid", "frames", "headlines")
ORDER = ("quick", "paper", "real")  # of scales; `real` is a measurement on this machine


def sources(id: str) -> str:
    """A hash of the sources that can change a figure's verdicts; unlike that of the cache, the same on every machine."""
    return hash_of(files(id))


def judging(id: str) -> str:
    """A hash of those that measure and judge its runs, but do not change them."""
    return hash_of(judges(id))


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
    own = _own(FOLDER / f"{id}.py", set())
    statistics = {PACKAGE / "results" / f"{name}.py" for name in STATISTICS if EXPERIMENTS[id].specs}
    switch = any("penstock.vswitch" in path.read_text() for path in own)
    return own | statistics | (texts(REAL_SWITCH) if switch else set())


def schemes_of(id: str) -> set[str]:
    """The schemes of the package that a figure's runs consist of, at any scale."""
    experiment = EXPERIMENTS[id]
    names: set[str] = set()
    for spec in (spec for scale in experiment.scales if experiment.specs for spec in experiment.specs(scale).values()):
        tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
        names.update(table["name"] for table in tables)
    return {part for name in names for part in parse(name).parts}


def _own(file: Path, found: set[Path]) -> set[Path]:
    """The file and what it imports from the papers' folders and from SHARED, added to `found`."""
    found.add(file)
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("penstock.experiments"):
            continue
        module = PACKAGE.parent.joinpath(*str(node.module).split("."))
        for path in (module.with_suffix(".py"), *(module / f"{each.name}.py" for each in node.names)):
            known = path.parent.parent == FOLDER or (path.parent == FOLDER and path.stem in SHARED)
            if known and path not in found and path.exists():
                _own(path, found)
    return found


def stale(id: str, record: dict[str, Any]) -> bool:
    """Whether a figure's record was neither made nor confirmed by these sources."""
    return sources(id) not in (record["sources"], record.get("confirmed", {}).get("sources"))


def record_of(summary: dict[str, Any], claims: list[Claim], runs: dict[str, Any]) -> dict[str, Any]:
    """The record of a reproduction that has just been made from these sources; `runs`: of confirm.runs_of."""
    judged = [claim for claim in claims if claim.verdict != NOT_JUDGED]
    return {
        "scale": summary["scale"],
        "penstock": summary["penstock"],
        **made_with(summary["sources"]),
        "judging": judging(summary["id"]),
        "seeds": summary["seeds"],
        "run_s": summary["run_s"],
        "verdicts": summary["verdicts"],
        "ours": summary["ours"],
        "claims": {claim.id: {key: value for key, value in claim.record().items() if key != "id"} for claim in judged},
        "differs": summary["differs"],
        **runs,
    }


def made_with(sources: str) -> dict[str, str]:
    """What of a record says by what, where and when its runs were made; `sources`: their hash."""
    return {"commit": commit(), "sources": sources, "machine": machine(), "date": datetime.now(UTC).date().isoformat()}


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
    """Put a figure's record into the file, in place of its last one at this scale."""
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
