"""The measured points of a recorded reproduction, kept beside the file of records, and judging them again without a run.

    judge_again("bfc/fig09", Path("docs/reproductions.json"))

docs/reproductions/bfc/fig09.paper.parquet has the points of every seed of the record in docs/reproductions.json.  Whoever
doubts a verdict computes it from them in a second, and a band that has changed needs no new run, as long as what simulates and
measures is the same.
"""

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

from penstock.errors import SpecError
from penstock.experiments import bands, records
from penstock.experiments.changes import changes_of
from penstock.experiments.claims import DIFFERS, FROM_PAPER, OURS, Claim, judge, over_seeds
from penstock.experiments.confirm import column_bytes
from penstock.experiments.measuring import measuring
from penstock.experiments.registry import EXPERIMENTS, Experiment


def place(file: Path, id: str, scale: str) -> Path:
    """Where the points of a record of this file are."""
    return file.with_suffix("") / f"{id}.{scale}.parquet"


def described(id: str, data: Mapping[int, pl.DataFrame]) -> dict[str, str]:
    """What a record says of the points of its seeds: a hash of them, and one of what measured them."""
    return {"hash": _hash(bands.joined(data)), "measuring": measuring(id)}


def write(file: Path, id: str, scale: str, data: Mapping[int, pl.DataFrame]) -> None:
    """Keep the points of a record that has been added to the file."""
    path = place(file, id, scale)
    path.parent.mkdir(parents=True, exist_ok=True)
    bands.joined(data).write_parquet(path, compression="zstd", statistics=False)


def _hash(data: pl.DataFrame) -> str:
    digest = blake2b(digest_size=8)
    for name in data.columns:
        digest.update(name.encode() + b"\0")
        for part in column_bytes(data[name]):
            digest.update(part)
    return digest.hexdigest()


def judge_again(id: str, file: Path, scale: str = "paper", experiments: Mapping[str, Experiment] = EXPERIMENTS) -> list[Claim]:
    """Judge a record's points by the present claims, and record the verdicts.

    SpecError: there are none, they are not those of the record, or what simulates or measures them, or the specs, have changed.
    """
    record = records.load(file).get(id, {}).get(scale)
    if record is None or "points" not in record:
        raise SpecError(
            f"has no points of {id} at this scale", path="scale", value=scale, place=file, remedy="reproduce the figure"
        )
    if record["points"]["measuring"] != measuring(id) or not records.same_specs(id, record):
        raise SpecError(
            f"{id}: its measurements or its specs have changed since", place=file, remedy="reproduce the figure again"
        )
    if not records.simulated(id, record):
        raise SpecError(f"{id}: the simulator has changed since", place=file, remedy="confirm the record with --confirm")
    data = _load(place(file, id, scale), record["points"]["hash"])
    experiment = experiments[id]
    claims = judge(over_seeds([experiment.claims(each, scale) for each in data.values()]), scale, experiment.differs)
    records.add(file, id, _judged(record, experiment, claims))
    return claims


def _load(path: Path, hash: str) -> dict[int, pl.DataFrame]:
    try:
        data = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SpecError(f"cannot be read as points ({error})", place=path, remedy="reproduce the figure again") from error
    if _hash(data) != hash:
        raise SpecError("has other points than its record says", place=path, remedy="reproduce the figure again")
    seeds = data[bands.SEED].unique(maintain_order=True).to_list()
    return {seed: data.filter(pl.col(bands.SEED) == seed).drop(bands.SEED) for seed in seeds}


def _judged(record: dict[str, Any], experiment: Experiment, claims: list[Claim]) -> dict[str, Any]:
    """The record with new verdicts; `judged` says by what, unless nothing that judges has changed."""
    found = {
        **record,
        "judging": records.judging(experiment.id),
        "changes": len(changes_of(experiment.id)),
        "verdicts": records.counted(claims, FROM_PAPER),
        "ours": records.counted(claims, OURS),
        "claims": records.recorded(claims),
        "differs": {claim.id: experiment.differs[claim.id].record() for claim in claims if claim.verdict == DIFFERS},
    }
    return found if found == record else {**found, "judged": records.when()}
