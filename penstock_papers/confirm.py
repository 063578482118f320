"""Confirming a record: some of its runs are simulated again by the present code and compared with it bit by bit.

    confirm("bfc/fig09")

A change of the simulator that changes no result leaves a record with the hash of the code before it.  At a release every
record is confirmed: the shortest run of each scheme of the figure is repeated, and if all are the same the record gets the
present hash.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import polars as pl

from penstock_net.errors import ClaimFailed, SpecError
from penstock_net.identity import home
from penstock_net.results.reading import scan_frame
from penstock_papers import cache as store
from penstock_papers.cache import Progress, Runs, Spec
from penstock_papers.registry import EXPERIMENTS, Experiment

Columns = Mapping[str, Sequence[str]]


def checks(found: Mapping[int, Runs]) -> dict[str, Any]:
    """What a record keeps of its runs by seed: the shortest of each scheme, with its fingerprint, and the columns that count."""
    paths = {f"{label}, seed {seed}": (runs, label) for seed, runs in found.items() for label in runs}
    shortest: dict[str, tuple[float, str]] = {}
    for name, (runs, label) in paths.items():
        summary = runs.summary(label)
        candidate = float(summary["wall_s"]), name
        shortest[summary["scheme"]] = min(shortest.get(summary["scheme"], candidate), candidate)
    columns: dict[str, set[str]] = {}
    for _, name in shortest.values():
        runs, label = paths[name]
        for file in runs.path(label).glob("*.parquet"):
            columns.setdefault(file.stem, set()).update(pl.read_parquet_schema(file))
    known = {frame: sorted(columns[frame]) for frame in sorted(columns)}
    kept = {name: fingerprint(paths[name][0].path(paths[name][1]), known) for _, name in sorted(shortest.values())}
    return {"columns": known, "checks": kept}


def fingerprint(run: Path, columns: Columns) -> str:
    """A hash of every value of a run in these columns of its frames, which are those that it has."""
    digest = blake2b(digest_size=8)
    for frame, names in columns.items():
        file = run / f"{frame}.parquet"
        here = pl.read_parquet_schema(file) if file.exists() else {}
        for name in (name for name in names if name in here):
            digest.update(f"{frame}.{name}\0".encode())
            for part in column_bytes(scan_frame(run, frame).select(name).collect()[name]):
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
    folder: Path | None = None,
    scale: str = "paper",
    cache: str | Path | None = None,
    threads: int = 1,
    progress: Progress | None = None,
    experiments: Mapping[str, Experiment] = EXPERIMENTS,
) -> list[str]:
    """Repeat the runs that a record keeps for that; their names, and the record has the present code, commit and date.

    SpecError: there is no record, it has no runs, or its specs have changed since.  ClaimFailed: a run has changed.
    """
    from penstock_papers import records

    folder = folder or records.RECORDS
    record = records.of(folder, id, scale)
    if not record["checks"]:
        raise SpecError(f"{id} has no runs at scale {scale}", place=folder, remedy="reproduce the figure")
    now = records.made(experiments[id], scale, record["seeds"][0])
    if record["specs"] != now["specs"]:
        raise SpecError(f"{id}: its specs have changed since", place=folder, remedy="reproduce the figure again")
    specs = _specs(experiments[id], scale, record["seeds"])
    changed = []
    for name, kept in record["checks"].items():
        label, spec = specs[name]
        (entry,) = store.run_spec(spec, label, Path(cache) if cache else home() / "runs", threads, progress)
        if fingerprint(entry.path, record["columns"]) != kept:
            changed.append(name)
    if changed:
        many = f"{len(changed)} of {len(record['checks'])} runs that were repeated"
        raise ClaimFailed(f"{id}: {many} have changed since the record: {'; '.join(changed)}. Reproduce the figure again")
    records.add(folder, id, {**record, **now})
    return list(record["checks"])


def _specs(experiment: Experiment, scale: str, seeds: Sequence[int]) -> dict[str, tuple[str, Spec]]:
    """Every run of a figure by the name that a record gives it: its label and spec of one scheme."""
    return {
        f"{label}, seed {seed}": (label, spec)
        for seed in seeds
        for label, spec in store.single(experiment.specs(scale, seed) if experiment.specs else {}).items()
    }
