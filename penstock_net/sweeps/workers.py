"""Where the runs of a sweep are simulated: in this process, in others, or by the workers of a Dask cluster."""

import os
from pathlib import Path
from typing import Any

from penstock_net.errors import PenstockError
from penstock_net.scratch import on_disk
from penstock_net.stderr import warnings_as_lines
from penstock_net.sweeps.jobs import Backend, Ended, Job, Problem, compute, problem_of


def backend(on: str, workers: int | None) -> Backend:
    """What simulates jobs on "local" or a cluster, and yields each as it ends.  SpecError: there is no such place."""
    if on == "local":
        processes = workers or os.cpu_count() or 1
        return _here if processes == 1 else lambda jobs, force: _processes(jobs, force, processes)
    from penstock_net.sweeps.clusters import cluster_of
    from penstock_net.sweeps.dask_runs import simulate

    cluster = cluster_of(on, workers)
    return lambda jobs, force: simulate(jobs, force, cluster)


def _compute_and_save(toml: str, key: str, force: bool, folder: str) -> Problem:
    try:
        with warnings_as_lines(), on_disk(Path(folder)):
            compute(toml, key, force).save(folder, overwrite=True)  # one that is damaged
    except PenstockError as error:
        return str(error).splitlines()[0]
    return None


def _here(jobs: list[Job], force: bool) -> Ended:
    for job in jobs:
        yield job, _compute_and_save(job.toml, job.key, force, str(job.folder))


def _processes(jobs: list[Job], force: bool, workers: int) -> Ended:
    from penstock_net.processes import each
    from penstock_net.results.rundir import recover

    calls = [(job, (job.toml, job.key, force, str(job.folder))) for job in jobs]
    try:
        for job, future in each(_compute_and_save, calls, workers):
            yield job, _outcome(future)
    except BaseException:
        for job in jobs:
            recover(job.folder)
        raise


def _outcome(future: Any) -> Problem:
    try:
        return future.result()
    except Exception as error:  # a crash of one run must not end the others
        return problem_of(error)
