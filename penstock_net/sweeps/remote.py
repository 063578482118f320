"""One run of a sweep on a worker of a Dask cluster, which has penstock, but none of the files that the spec names."""

import pickle
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from penstock_net.errors import PenstockError

_ALONE = Lock()  # Python's parser fails in two threads at a time (CPython issue 106905), and two sweeps may share a worker
Identity = tuple[str, str]  # penstock's version and the hash of the code that simulates
Outcome = tuple[str, Any]  # "files" and contents by name; "problem" and why; "refused" and the worker's identity


class Unwanted(Exception):
    """Nobody waits for this run any more."""


@cache
def identity() -> Identity:
    """What two machines must have in common if one is to simulate for the other."""
    from penstock_net.identity import SCHEMES, code_hash
    from penstock_net.version import version

    return version(), code_hash(frozenset(path.stem for path in SCHEMES.glob("[!_]*.py")))


class _Call:
    """Becomes what `simulate` returns when it is unpickled."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return simulate, self.arguments


def call(*arguments: Any) -> bytes:
    """`simulate(*arguments)` as bytes; unpickling is the call. Dask's scheduler unpickles functions: this one is pickle's."""
    return pickle.dumps(_Call(arguments))


def simulate(expected: Identity, *job: Any) -> Outcome:
    """Simulate a job, unless this worker has another penstock."""
    with _ALONE:
        return _simulate(*job) if identity() == expected else ("refused", identity())


def _simulate(task: str, toml: str, inputs: Mapping[str, bytes], key: str, force: bool) -> Outcome:
    """Simulate a spec in a folder with the files that it names; the content of the run directory.  `task`: Dask's key."""
    from penstock_net.results.rundir import write_inputs
    from penstock_net.scratch import on_disk
    from penstock_net.spec import parse_spec
    from penstock_net.sweeps.jobs import compute

    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        here = Path(folder)
        try:
            write_inputs(here, inputs)
            with on_disk(here / "run"):
                compute(parse_spec(toml, base=here).to_toml(), key, force, _stop_if_unwanted(task)).save(here / "run")
        except PenstockError as error:
            return "problem", str(error).splitlines()[0].replace(f"{here.resolve()}/", "").replace(f"{here}/", "")
        files = [path for path in (here / "run").rglob("*") if path.is_file()]
        return "files", {str(path.relative_to(here / "run")): path.read_bytes() for path in files}


def _stop_if_unwanted(task: str) -> Callable[[Any], None]:
    """Called during the run: Dask does not end a task that runs, but its worker knows whether the task is still wanted."""
    from distributed import get_worker

    worker = get_worker()
    tasks = worker.state.tasks

    def check(progress: Any) -> None:
        if task not in tasks or tasks[task].state != "executing" or worker.status.name in ("closing", "closed", "failed"):
            raise Unwanted(task)

    return check
