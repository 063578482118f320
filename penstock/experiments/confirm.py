"""Confirming a record: some of its runs are simulated again by the present sources and compared with it bit by bit.

    confirm("bfc/fig09", Path("docs/reproductions.json"))

A change of the simulator that changes no result makes a record stale.  To confirm it takes one run of each scheme of the figure,
the shortest; to judge it again takes all.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

from penstock.errors import ClaimFailed, SpecError
from penstock.experiments import cache as store
from penstock.experiments import records
from penstock.experiments.cache import Progress, Runs, Spec
from penstock.experiments.measuring import measuring
from penstock.experiments.registry import EXPERIMENTS, Experiment

Columns = Mapping[str, Sequence[str]]


def runs_of(found: Mapping[int, Runs]) -> dict[str, Any]:
    """What a record keeps of its runs by seed: the columns of their frames, and the fingerprint and seconds of each."""
    paths = {f"{label}, seed {seed}": (runs, label) for seed, runs in found.items() for label in runs}
    columns: dict[str, set[str]] = {}
    for runs, label in paths.values():
        for file in runs.path(label).glob("*.parquet"):
            columns.setdefault(file.stem, set()).update(pl.read_parquet_schema(file))
    known = {frame: sorted(columns[frame]) for frame in sorted(columns)}
    kept = {name: _kept(runs, label, known) for name, (runs, label) in paths.items()}
    return {"columns": known, "runs": kept}


def _kept(runs: Runs, label: str, columns: Columns) -> dict[str, Any]:
    return {"fingerprint": fingerprint(runs.path(label), columns), "s": round(float(runs.summary(label)["wall_s"]), 1)}


def fingerprint(run: Path, columns: Columns) -> str:
    """A hash of every value of a run in these columns of its frames, which are those that it has."""
    digest = blake2b(digest_size=8)
    for frame, names in columns.items():
        file = run / f"{frame}.parquet"
        here = pl.read_parquet_schema(file) if file.exists() else {}
        for name in (name for name in names if name in here):
            digest.update(f"{frame}.{name}\0".encode())
            for part in column_bytes(pl.read_parquet(file, columns=[name])[name]):
                digest.update(part)
    return digest.hexdigest()


def column_bytes(values: pl.Series) -> Iterator[bytes]:
    """The values of a column and which of them are missing, as what is hashed."""
    yield values.is_null().to_numpy().tobytes()
    if values.dtype.is_numeric():
        yield values.fill_null(0).to_numpy().tobytes()
    else:
        yield "\0".join(values.cast(pl.String).fill_null("").to_list()).encode()


def confirm(
    id: str,
    file: Path,
    scale: str = "paper",
    cache: str | Path | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
) -> dict[str, Any]:
    """Repeat the shortest run of every scheme of a figure; returns what is noted in its record when all are the same.

    SpecError: there is no record, it has no runs, or what judges them has changed since.  ClaimFailed: a run has changed.
    """
    record = records.load(file).get(id, {}).get(scale)
    if record is None or not record.get("runs"):
        raise SpecError(
            f"has no runs of {id} at this scale", path="scale", value=scale, place=file, remedy="reproduce the figure"
        )
    if not _measured_so(id, record) or not records.same_specs(id, record):
        raise SpecError(
            f"{id}: its claims, its measurements or its specs have changed since", place=file, remedy="reproduce the figure again"
        )
    chosen = shortest(experiments[id], scale, record)
    folder = Path(cache) if cache else store.home() / "runs"
    changed = []
    for name, (label, spec) in chosen.items():
        (entry,) = store.run_spec(spec, label, folder, threads, progress)
        if fingerprint(entry.path, record["columns"]) != record["runs"][name]["fingerprint"]:
            changed.append(name)
    if changed:
        many = f"{len(changed)} of {len(chosen)} runs that were repeated"
        raise ClaimFailed(f"{id}: {many} have changed since the record: {'; '.join(changed)}. Reproduce the figure again")
    made = records.made_with(records.sources(id))
    record["confirmed"] = {**made, "simulator": records.simulator(id), "runs": list(chosen)}
    records.add(file, id, record)
    return dict(record["confirmed"])


def _measured_so(id: str, record: Mapping[str, Any]) -> bool:
    """Whether a record's runs are measured as they were; without kept points its claims must be the same, too."""
    if "points" in record:
        return bool(record["points"]["measuring"] == measuring(id))
    return bool(record["judging"] == records.judging(id))


def shortest(experiment: Experiment, scale: str, record: Mapping[str, Any]) -> dict[str, tuple[str, Spec]]:
    """Of the record's runs the shortest of each scheme: name -> label and spec."""
    found: dict[str, tuple[float, str, tuple[str, Spec]]] = {}
    for seed in record["seeds"]:
        for label, spec in store.single(experiment.specs(scale, seed) if experiment.specs else {}).items():
            name, scheme = f"{label}, seed {seed}", spec["scheme"]["name"]
            if name not in record["runs"]:
                raise SpecError(f'{experiment.id}: the record lacks the run "{name}"', remedy="reproduce the figure again")
            candidate = float(record["runs"][name]["s"]), name, (label, spec)
            found[scheme] = min(found.get(scheme, candidate), candidate, key=lambda each: each[:2])
    return {name: run for _, name, run in found.values()}
