"""Where the runs of a sweep are simulated: in this process, in others, or by the workers of a Dask cluster."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli._output import say
from penstock.errors import PenstockError, SpecError

if TYPE_CHECKING:
    from penstock.results.run import Run

POLL_S = 5.0  # how often the workers of a cluster are counted while no run finishes
LOST_AFTER = 12  # so many times in a row there was none: a minute


class WorkersLost(PenstockError):
    """Every worker of a cluster has gone."""


@dataclass(frozen=True)
class Job:
    """One run: a spec with one scheme as text, its key, and the folder for its results."""

    toml: str
    key: str
    folder: Path


Problem = str | None  # why a job failed, in one line
Backend = Callable[[list[Job], bool], Iterator[tuple[Job, Problem]]]


def backend(on: str, workers: int) -> Backend:
    """What simulates jobs on "local" or "dask://HOST:PORT" and yields each as it ends.  SpecError: neither, or no dask."""
    if on == "local":
        return _here if workers == 1 else lambda jobs, force: _processes(jobs, force, workers)
    if on.startswith("dask://") and len(on) > len("dask://"):
        try:
            import distributed  # type: ignore[import-not-found] # noqa: F401
        except ImportError:
            raise SpecError("needs dask", remedy="install it with: pip install distributed", place=f"--on {on}") from None
        return lambda jobs, force: _dask(jobs, force, on.removeprefix("dask://"))
    raise SpecError(f"--on {on}: must be local or dask://HOST:PORT, such as dask://head:8786")


def compute(toml: str, key: str, force: bool) -> "Run":
    """Simulate a spec with one scheme in this process.  SpecError: it is not what the key was made of."""
    from penstock.spec import parse_spec

    spec = parse_spec(toml)
    if spec.key() != key:
        rule = "a file that the spec names was changed since the sweep began, or the worker has another version of penstock"
        raise SpecError(rule, remedy="give the command again")
    topo = spec.build_topology()
    run = spec.simulate(spec.schemes[0], topo, spec.build_flows(topo, force))
    if run.summary.get("interrupted"):  # a partial run is not a result
        raise KeyboardInterrupt
    return run


def _compute_and_save(toml: str, key: str, force: bool, folder: str) -> Problem:
    try:
        compute(toml, key, force).save(folder)
    except PenstockError as error:
        return str(error).splitlines()[0]
    return None


def _here(jobs: list[Job], force: bool) -> Iterator[tuple[Job, Problem]]:
    for job in jobs:
        yield job, _compute_and_save(job.toml, job.key, force, str(job.folder))


# -- processes of this machine


def _processes(jobs: list[Job], force: bool, workers: int) -> Iterator[tuple[Job, Problem]]:
    from penstock.processes import each
    from penstock.results.rundir import recover

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
        return f"{type(error).__name__}: {error}".splitlines()[0]


# -- a Dask cluster


def compute_portable(toml: str, inputs: Mapping[str, bytes], key: str, force: bool) -> "Run":
    """Simulate a spec on a machine that has none of its files: they come with it."""
    from penstock.results.rundir import write_inputs
    from penstock.spec import parse_spec

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        write_inputs(Path(folder), inputs)
        return compute(parse_spec(toml, base=folder).to_toml(), key, force)


def _dask(jobs: list[Job], force: bool, address: str) -> Iterator[tuple[Job, Problem]]:
    """Workers need penstock, not a common file system: results are returned over the network and saved here."""
    from distributed import Client

    from penstock.spec import parse_spec

    try:
        client = Client(f"tcp://{address}", timeout="10s")
    except (OSError, ValueError) as error:
        raise SpecError(f"--on dask://{address}: no scheduler answers there ({str(error).splitlines()[0]})") from error
    with client:
        futures = {
            client.submit(compute_portable, *parse_spec(job.toml).portable(), job.key, force, pure=False): job for job in jobs
        }
        try:
            for future in _finished(client, list(futures)):
                job, problem = futures.pop(future), None
                try:
                    future.result().save(job.folder)
                except Exception as error:
                    problem = f"{type(error).__name__}: {error}".splitlines()[0]
                future.release()
                yield job, problem
        finally:
            client.cancel(list(futures))


def _finished(client: Any, futures: list[Any]) -> Iterator[Any]:
    """Futures as they end.  WorkersLost: there is no worker any more; before the first one comes, they are waited for."""
    from distributed import TimeoutError, wait

    seen, none = bool(client.nthreads()), 0
    while futures:
        try:
            done: Iterable[Any] = wait(futures, timeout=POLL_S, return_when="FIRST_COMPLETED").done
            none = 0
        except TimeoutError:
            done, count = (), len(client.nthreads())
            none = 0 if count else none + 1
            if not count and none == 1:
                say("no worker at present" if seen else "waiting for the first worker")
            seen = seen or count > 0
            if seen and none >= LOST_AFTER:
                text = f"no worker has been there for {LOST_AFTER * POLL_S:g} s, {len(futures)} runs are not finished"
                raise WorkersLost(f"{text}; start workers and give the same command again: it goes on from there") from None
        for future in done:
            seen = True
            futures.remove(future)
            yield future
