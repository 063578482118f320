"""Records of reproductions: every claim with its number, the points that it was judged by, and what made them.

records/PAPER/FIGURE.SCALE.json is the record of a figure at a scale, the .parquet beside it its measured points by seed.  A
record names the commit, the seeds, and one hash of what simulates (`code`), so that everybody can see whether the simulator has
changed since; only `confirm` and a new reproduction change that hash.  Verdicts are computed from the points, by the present
claims (`judge_again`): a band that changes needs no run.  One that has moved is recorded with a new entry of changes.toml only.
"""

import json
import math
import subprocess
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import polars as pl

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.files import new_files
from penstock_net.identity import code_hash
from penstock_net.sources import code_of
from penstock_net.testing.bench import machine
from penstock_papers import bands
from penstock_papers.cache import Runs
from penstock_papers.changes import changes_of
from penstock_papers.claims import DIFFERS, FROM_PAPER, NOT_JUDGED, OURS, Claim, judge, over_seeds
from penstock_papers.confirm import checks, column_bytes
from penstock_papers.registry import EXPERIMENTS, FOLDER, Experiment
from penstock_papers.verdicts import ALL_SCALES, RECORDS, files, read

Record = dict[str, Any]


def load(folder: Path = RECORDS) -> dict[str, dict[str, Record]]:
    """All records below a folder by figure and scale: `load()["bfc/fig09"]["paper"]`.  SpecError: a file is not a record."""
    found: dict[str, dict[str, Record]] = {}
    for id, scale, path in files(folder):
        found.setdefault(id, {})[scale] = read(path)
    return dict(sorted(found.items()))


def of(folder: Path, id: str, scale: str) -> Record:
    """The record of a figure at a scale.  SpecError: there is none."""
    path = place(folder, id, scale)
    if not path.exists():
        raise SpecError(f"has no record of {id} at scale {scale}", place=folder, remedy="reproduce the figure with --record")
    return read(path)


def place(folder: Path, id: str, scale: str, suffix: str = "json") -> Path:
    """Where the record, or with `parquet` the points, of a figure at a scale are."""
    return folder / f"{id}.{scale}.{suffix}"


def add(folder: Path, id: str, record: Record, data: Mapping[int, pl.DataFrame] | None = None) -> None:
    """Put a record, and its points if there are new ones, in place of the last one.  SpecError: see `check_moved`."""
    check_moved(folder, id, record)
    path = place(folder, id, record["scale"])
    with new_files(path.parent, "give another folder") as made:
        if data is not None:
            points = (made / path.name).with_suffix(".parquet")
            bands.joined(data).write_parquet(points, compression="zstd", statistics=False)
        (made / path.name).write_text(json.dumps(record, indent=1) + "\n")


def record_of(
    experiment: Experiment,
    summary: Mapping[str, Any],
    claims: list[Claim],
    runs: Mapping[int, Runs],
    data: Mapping[int, pl.DataFrame],
) -> Record:
    """The record of a reproduction that has just been made."""
    scale = summary["scale"]
    return {
        "scale": scale,
        "title": summary["title"],
        **made(experiment, scale, summary["seeds"][0]),
        "machine": machine(),
        "seeds": summary["seeds"],
        "run_s": summary["run_s"],
        **judged(experiment, claims),
        "points": hash_of_points(bands.joined(data)),
        **checks(runs),
    }


# -- what made a record -------------------------------------------------------------------------------------------------


def made(experiment: Experiment, scale: str, seed: int) -> dict[str, Any]:
    """What simulates a figure now: version, one hash of the code, the schemes and specs that it runs; commit and date."""
    from penstock_net.version import version

    schemes, specs = set_up(experiment, scale, seed)
    return {
        "penstock": version(),
        "code": code_hash(frozenset(schemes)),
        "schemes": schemes,
        "specs": specs,
        "commit": commit(),
        "date": today(),
    }


def today() -> str:
    """The date in UTC, as records have it."""
    return datetime.now(UTC).date().isoformat()


def set_up(experiment: Experiment, scale: str, seed: int) -> tuple[list[str], str]:
    """The schemes of the package that a figure's runs consist of, and a hash of their specs."""
    specs = experiment.specs(scale, seed) if experiment.specs else {}
    tables = [table for spec in specs.values() for table in _tables(spec)]
    schemes = {part for name in {table["name"] for table in tables} for part in parse(name).parts}
    return sorted(schemes), sha256(json.dumps(specs, sort_keys=True).encode()).hexdigest()[:16]


def _tables(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]


def other_code(record: Mapping[str, Any]) -> bool:
    """Whether what simulates has changed since the record was made, or confirmed."""
    return bool(record["code"] != code_hash(frozenset(record["schemes"])))


def other_set_up(experiment: Experiment, record: Mapping[str, Any]) -> bool:
    """Whether the specs of the figure's runs have changed since the record was made: its points are those of an older set-up."""
    return bool(set_up(experiment, record["scale"], record["seeds"][0])[1] != record["specs"])


def sources(experiment: Experiment, scale: str, seed: int) -> str:
    """A hash of everything that decides a figure's verdicts: what simulates, and the files of all figures of its folder."""
    schemes, specs = set_up(experiment, scale, seed)
    files = {*FOLDER.rglob("*.py"), *experiment.folder.glob("*/*.py")}
    figures = "".join(code_of(path.read_text()) for path in sorted(files))
    return sha256(f"{code_hash(frozenset(schemes))} {specs} {figures}".encode()).hexdigest()[:16]


def commit() -> str:
    """The commit of the sources, with "+" if files differ from it; empty outside of a Git work tree."""
    found = _git("rev-parse", "HEAD")
    return found and found + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def changed(name: str) -> bool:
    """Whether the package's files of a name differ from the commit; False outside of a Git work tree."""
    return bool(_git("status", "--porcelain", "--", f":(glob)**/{name}"))


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", FOLDER, *words], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# -- verdicts -----------------------------------------------------------------------------------------------------------


def judge_again(
    id: str, folder: Path = RECORDS, scale: str = "paper", experiments: Mapping[str, Experiment] = EXPERIMENTS
) -> list[Claim]:
    """The verdicts of the present claims on a record's points, which are recorded if they differ from the record's."""
    record = of(folder, id, scale)
    experiment, data = experiments[id], points(folder, id, record)
    found = over_seeds([experiment.claims(each, scale) for each in data.values()])
    claims = judge(found, scale, experiment.differs, experiment.calibrated)
    now = {**record, **judged(experiment, claims)}
    if now != record:
        add(folder, id, now)
    return claims


def judged(experiment: Experiment, claims: list[Claim]) -> dict[str, Any]:
    """What a record says of its claims."""
    return {
        "changes": len(changes_of(experiment.id)),
        "verdicts": counted(claims, FROM_PAPER),
        "ours": counted(claims, OURS),
        "claims": recorded(claims),
        "differs": {claim.id: json_of(experiment.differs[claim.id].record()) for claim in claims if claim.verdict == DIFFERS},
    }


def json_of(value: Any) -> Any:
    """A value as it is when it is read again."""
    return json.loads(json.dumps(value))


def recorded(claims: list[Claim]) -> dict[str, Any]:
    """Those of the claims that were judged, as they are in a record: by id."""
    kept = [claim for claim in claims if claim.verdict != NOT_JUDGED]
    return {claim.id: json_of({key: value for key, value in claim.record().items() if key != "id"}) for claim in kept}


def counted(claims: list[Claim], kind: str) -> dict[str, int]:
    """How many of the claims of one kind have each verdict."""
    return dict(Counter(claim.verdict for claim in claims if claim.kind == kind and claim.verdict != NOT_JUDGED))


def verdicts(records: Mapping[str, Any]) -> Counter[str]:
    """The paper's claims of one figure by verdict; one that was judged at several scales counts at the last one of ALL_SCALES.

    A measurement (`real`) overrules a count at the paper's scale, which overrules a small run.
    """
    claims: dict[str, str] = {}
    for scale in ALL_SCALES:
        found = records.get(scale, {}).get("claims", {})
        claims |= {name: claim["verdict"] for name, claim in found.items() if claim["kind"] == FROM_PAPER}
    return Counter(claims.values())


def check_moved(folder: Path, id: str, record: Mapping[str, Any]) -> None:
    """SpecError: bands have moved since the last record of the figure, without a new entry in the log of changes."""
    path = place(folder, id, record["scale"])
    last = read(path) if path.exists() else None
    if last and (names := moved(last, record)) and len(changes_of(id)) <= last["changes"]:
        raise SpecError(
            f"{id}: claims that are gone since its last record, or have another band or kind: {', '.join(names)}",
            place=path,
            remedy="add an entry to penstock_papers/changes.toml, and record again",
        )


def moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The ids of the claims of a record that another record has not, or has with another band or kind."""
    found = after["claims"]
    return [name for name, claim in before.get("claims", {}).items() if name not in found or not _same(claim, found[name])]


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    ends = [(one[end], other[end]) for end in ("low", "high")]
    numbers = any(end is not None for pair in ends for end in pair)
    near = all(a == b or (a is not None and b is not None and math.isclose(a, b)) for a, b in ends)
    return one["kind"] == other["kind"] and (near if numbers else one["band"] == other["band"])


# -- points -------------------------------------------------------------------------------------------------------------


def points(folder: Path, id: str, record: Mapping[str, Any]) -> dict[int, pl.DataFrame]:
    """The measured points of a record by seed.  SpecError: they cannot be read, or are not those of the record."""
    path = place(folder, id, record["scale"], "parquet")
    try:
        data = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SpecError(f"cannot be read as points ({error})", place=path, remedy="reproduce the figure again") from error
    if hash_of_points(data) != record["points"]:
        raise SpecError("has other points than its record says", place=path, remedy="reproduce the figure again")
    seeds = data[bands.SEED].unique(maintain_order=True).to_list()
    return {seed: data.filter(pl.col(bands.SEED) == seed).drop(bands.SEED) for seed in seeds}


def hash_of_points(data: pl.DataFrame) -> str:
    """A hash of every value of the points."""
    digest = blake2b(digest_size=8)
    for name in data.columns:
        digest.update(name.encode() + b"\0")
        for part in column_bytes(data[name]):
            digest.update(part)
    return digest.hexdigest()
