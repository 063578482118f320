"""Simulates the what-ifs of `penstock advise`: a spec in a file for each case, with every seed; kept as sweeps are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock_net.advise.job import Job
from penstock_net.advise.settings import Advice
from penstock_net.advise.sonic import Config
from penstock_net.advise.values import not_simulated
from penstock_net.advise.what_ifs import Case, WhatIfs, cases, choose, measured, result
from penstock_net.errors import SpecError
from penstock_net.files import new_files, write_file
from penstock_net.results.run import Run
from penstock_net.spec import load_spec
from penstock_net.stderr import say
from penstock_net.sweeps.axes import seeds_axis
from penstock_net.sweeps.points import Point, points_of
from penstock_net.sweeps.sweep import check, execute
from penstock_net.sweeps.workers import backend

SPECS, RUNS = "specs", "what-ifs"


def simulate(
    advice: Advice,
    job: Job,
    before: Config | None,
    out: Path,
    seeds: Sequence[int] = (1, 2, 3),
    workers: int | None = None,
    only: tuple[str, ...] = (),
) -> WhatIfs:
    """Simulate the what-ifs of a switch: specs in out/specs, runs in out/what-ifs; what is there is not simulated again.

    SpecError: a bad job.  SweepFailed: some runs failed.  Ctrl-C raises KeyboardInterrupt; the same call goes on from there.
    """
    found, left_out = cases(advice, job, before, only)
    written = write_specs(found, out)
    _check_traffic(found, written, job)
    points: dict[str, Point] = {}
    keys: dict[str, list[str]] = {}
    for case in found:
        own = _points(case, written[case.name], seeds, job)
        keys[case.name] = [point.key for point in own]
        points = {point.key: point for point in own} | points
    every = list(points.values())
    _, failed = execute(every, out / RUNS, backend("local", workers), False, _tell())
    check(every, failed)
    numbers = {(case.what, key): measured(case.what, Run.load(out / RUNS / key)) for case in found for key in keys[case.name]}
    results = tuple(result(case, [numbers[case.what, key] for key in keys[case.name]]) for case in found)
    grid = [one for one in results if one.case.what == "ecn"]
    choice = choose(grid, advice) if grid else None
    return WhatIfs(results, tuple(left_out), tuple(seeds), choice, str(out / SPECS), tuple(not_simulated(advice.switch)))


def write_specs(found: list[Case], out: Path) -> dict[str, Path]:
    """Write the spec of each case and the networks; the files by the name of the case.  SpecError: it cannot be written."""
    with new_files(out / SPECS, "give another folder with --out") as folder:
        for name, text in {case.network_name: case.network for case in found}.items():
            write_file(folder / name, text.encode())
        for case in found:
            write_file(folder / f"{case.name}.toml", case.spec.encode())
    return {case.name: out / SPECS / f"{case.name}.toml" for case in found}


def _check_traffic(found: list[Case], written: dict[str, Path], job: Job) -> None:
    """Make the flows of the job once, before anything is simulated.  SpecError: something in it is wrong."""
    for case in [case for case in found if case.what != "incast"][:1]:
        with _of_job(job):
            spec = load_spec(written[case.name])
            spec.build_flows(spec.build_topology())


def _points(case: Case, path: Path, seeds: Sequence[int], job: Job) -> list[Point]:
    """A run for each seed.  SpecError: something in the job is wrong."""
    values = {f"{case.what}.{name}": value for name, value in case.varied.items()} | {f"{case.what}.settings": case.settings}
    with _of_job(job):
        found = list(points_of(path, [seeds_axis(seeds)], []))
    return [Point(values, one.scheme, one.seed, one.stamp, one.toml) for one in found]


@contextmanager
def _of_job(job: Job) -> Iterator[None]:
    """An error of a table that is the job's is said with its line there."""
    try:
        yield
    except SpecError as error:
        if error.path.partition(".")[0] in ("workload", "host", "run"):
            error.place = ""
            raise job.placed(error) from None
        raise


def _tell() -> Callable[[str], None]:
    """On a terminal a bar shows how far it is, and only what else happens is said."""
    bar = sys.stderr.isatty()

    def tell(text: str) -> None:
        if not (bar and text.endswith("  done")):
            say(text)

    return tell
