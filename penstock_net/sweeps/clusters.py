"""Dask clusters by the name that --on gives: a scheduler that exists, or one that is started by Dask's own packages."""

import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from penstock_net.errors import SpecError

EXISTING = "dask://"


@dataclass(frozen=True)
class Place:
    """A scheduler to connect to; `refill` starts workers in place of lost ones, where they are ours."""

    address: str
    refill: Callable[[], Any] | None = None


Cluster = Callable[[int], AbstractContextManager[Place]]  # the number of runs: more workers are not started


def cluster_of(on: str, workers: int | None) -> Cluster:
    """The cluster that `--on` names, with so many workers if it has none of its own.  SpecError: there is no such place."""
    place = f"--on {on}"
    if on.startswith(EXISTING) and len(on) > len(EXISTING):
        _need("distributed", "dask", place)
        if workers:
            raise SpecError("this cluster has workers already", remedy="leave it out", place="--workers")
        return lambda runs: _existing(on.removeprefix(EXISTING))
    if on not in STARTED:
        raise SpecError(f"must be local, {EXISTING}HOST:PORT, {' or '.join(STARTED)}", place=place)
    package, start = STARTED[on]
    _need(package, on, place)
    if not workers:
        raise SpecError("needs the number of workers to start", remedy="give it, such as --workers 20", place=place)
    return lambda runs: start(min(runs, workers))


def _need(package: str, extra: str, place: str) -> None:
    try:
        import_module(package)
    except ImportError:
        raise SpecError(f"needs {package}", remedy=f'install it with: pip install "penstock-net[{extra}]"', place=place) from None


@contextmanager
def _existing(address: str) -> Iterator[Place]:
    yield Place(f"tcp://{address}")


@contextmanager
def _slurm(workers: int) -> Iterator[Place]:
    """Workers are SLURM jobs, as the section jobqueue.slurm of Dask's configuration describes them; the scheduler is here."""
    from dask_jobqueue import SLURMCluster

    if not shutil.which("sbatch"):
        raise SpecError("there is no sbatch", remedy="give the command where jobs are submitted", place="--on slurm")
    explained = "--on slurm", "see jobqueue.slurm in Dask's configuration, ~/.config/dask/jobqueue.yaml"
    with _explained(*explained):
        cluster = SLURMCluster()
    try:
        with _explained(*explained):
            for _ in range(math.ceil(workers / cluster._dummy_job.worker_processes)):
                cluster.worker_spec.update(cluster.new_worker_spec())
            cluster.sync(cluster._correct_state)  # as `scale` does, which logs an error of sbatch, and goes on
        yield Place(cluster.scheduler_address, lambda: cluster.scale(workers))
    finally:
        with suppress(AssertionError):  # Dask's, of a job that could not be submitted
            cluster.close()


@contextmanager
def _kubernetes(workers: int) -> Iterator[Place]:
    """Workers are pods of Dask's operator, as the section kubernetes of Dask's configuration describes them."""
    from dask_kubernetes.operator import KubeCluster

    with _explained("--on kubernetes", "see kubernetes in Dask's configuration, ~/.config/dask/kubernetes.yaml"):
        cluster = KubeCluster(n_workers=workers, quiet=True)
    with cluster:
        yield Place(cluster.scheduler_address, lambda: None)  # the operator replaces lost pods


STARTED = {"slurm": ("dask_jobqueue", _slurm), "kubernetes": ("dask_kubernetes", _kubernetes)}


@contextmanager
def _explained(place: str, remedy: str) -> Iterator[None]:
    """What another package says of a cluster that does not start, in one line."""
    try:
        yield
    except Exception as error:
        said = " ".join(str(error).rpartition("stderr:")[2].split()) or type(error).__name__
        raise SpecError(said, remedy=remedy, place=place) from error
