"""A cache of simulation runs by content: a further scheme, claim or figure costs only the runs that are not cached yet.

The key is that of `penstock_net.identity`.
"""

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from penstock_net.errors import SpecError, nearest
from penstock_net.identity import key
from penstock_net.results.reading import scan_frame
from penstock_net.results.run import Run
from penstock_net.results.rundir import is_run, is_whole
from penstock_net.scratch import on_disk
from penstock_net.spec import Spec as CheckedSpec
from penstock_net.spec import parse_spec

Progress = Callable[[str, float], None]
Spec = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One run in the cache: its folder, and whether it has just been simulated."""

    label: str
    key: str
    path: Path
    cached: bool
    wall_s: float


def run_spec(spec: Spec, label: str, cache: Path, threads: int = 1, progress: Progress | None = None) -> list[Entry]:
    """The runs of one spec, simulated unless the cache has them. The only way from an experiment to the simulator.

    A spec with one scheme gives one entry, `label`; one with several `label/SCHEME` for each, over the same flows.
    """
    checked = parse_spec(spec, name=f"spec {label}")
    network = functools.cache(lambda: _network(checked))
    names = _labels(label, checked)
    return [_one_run(checked, table, name, network, cache, threads, progress) for table, name in zip(checked.schemes, names)]


def fill(
    specs: Mapping[str, Spec], cache: Path, threads: int = 1, workers: int = 1, progress: Progress | None = None
) -> dict[str, Entry]:
    """Simulate what the cache lacks of the specs' runs, several at once, in processes of their own; the new ones by label.

    An error of a run is not raised here: whoever asks for that run meets it.
    """
    from penstock_net.processes import each

    missing: dict[Path, tuple[str, Spec]] = {}
    for label, spec in single(specs).items():
        path = cache / key(parse_spec(spec, name=f"spec {label}"))
        if not is_whole(path):
            missing[path] = label, spec
    calls = [(label, (spec, label, cache, threads)) for label, spec in missing.values()]
    made: dict[str, Entry] = {}
    for number, (label, future) in enumerate(each(run_spec, calls, workers)):
        if future.exception() is None:
            made[label] = future.result()[0]
        if progress:
            progress(label, (number + 1) / len(calls))
    return made


def single(specs: Mapping[str, Spec]) -> dict[str, Spec]:
    """Specs of one scheme each, by the labels of `run_spec`."""
    found: dict[str, Spec] = {}
    for label, spec in specs.items():
        tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
        names = _labels(label, parse_spec(spec, name=f"spec {label}"))
        found |= {name: {**spec, "scheme": table} for name, table in zip(names, tables)}
    return found


def labels(specs: Mapping[str, Spec]) -> list[str]:
    """The labels of the runs of specs, whose schemes have labels of their own."""
    found: list[str] = []
    for label, spec in specs.items():
        tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
        found += [label] if len(tables) == 1 else [f"{label}/{table.get('label', table['name'])}" for table in tables]
    return found


def _labels(label: str, spec: CheckedSpec) -> list[str]:
    return [label] if len(spec.schemes) == 1 else [f"{label}/{scheme}" for scheme in spec.labels()]


def _network(spec: CheckedSpec) -> tuple[Any, Any]:
    topo = spec.build_topology()
    return topo, spec.build_flows(topo)


def _one_run(
    spec: CheckedSpec,
    scheme: Any,
    label: str,
    network: Callable[[], tuple[Any, Any]],
    cache: Path,
    threads: int,
    progress: Progress | None,
) -> Entry:
    name = key(spec.only(scheme))
    path = cache / name
    if is_whole(path):
        return Entry(label, name, path, True, 0.0)
    started = time.perf_counter()
    with on_disk(path):
        run = spec.simulate(scheme, *network(), threads=threads, progress=_telling(progress, label))
        try:
            run.save(path, overwrite=is_run(path) and not is_whole(path))
        except SpecError:
            if not is_whole(path):  # if it is, another process was faster, and the two runs are the same
                raise
    return Entry(label, name, path, False, time.perf_counter() - started)


def _telling(progress: Progress | None, label: str) -> Callable[[Any], None] | None:
    """A progress callback for the simulator that reports the share of its work as (what, fraction)."""
    if progress is None:
        return None
    return lambda report: progress(label, report.share)


class Runs(Mapping[str, Run]):
    """The runs of an experiment by label. Each access reads the run from disk: keep the data you need, not the run."""

    def __init__(self, entries: Mapping[str, Entry], progress: Progress | None = None) -> None:
        self.entries = dict(entries)
        self._progress = progress

    def __getitem__(self, label: str) -> Run:
        return Run.load(self.path(label))

    def path(self, label: str) -> Path:
        """The run directory in the cache."""
        if label not in self.entries:
            raise SpecError(f'run "{label}": the experiment has no spec of that label', remedy=nearest(label, self.entries))
        return self.entries[label].path

    def scan(self, label: str, frame: str) -> pl.LazyFrame:
        """A lazy frame of a run: polars reads only the columns that are used, for runs of millions of flows."""
        file = self.path(label) / f"{frame}.parquet"
        if not file.exists():
            raise SpecError(f'run "{label}": has no {frame}', remedy="its [measure] or its scheme does not make them")
        return scan_frame(self.path(label), frame)

    def summary(self, label: str) -> dict[str, Any]:
        """summary.json of a run."""
        return dict(json.loads((self.path(label) / "summary.json").read_text()))

    def __contains__(self, label: object) -> bool:
        return label in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def report(self, what: str, fraction: float) -> None:
        """Report the progress of a long measurement (0 to 1) to the user."""
        if self._progress:
            self._progress(what, fraction)
