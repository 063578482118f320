"""Runs of a sweep on the workers of a Dask cluster.

Dask starts the workers, carries runs to them and results back. Which worker gets a run is decided here, where runs wait until
one has nothing to do: so nothing is queued on a worker that ends, those that come later get their share, and those that
have another penstock get nothing.
"""

import logging
import pickle
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any
from uuid import uuid4

from penstock_net.errors import PenstockError, SpecError
from penstock_net.stderr import say
from penstock_net.sweeps import remote
from penstock_net.sweeps.clusters import Cluster, Place
from penstock_net.sweeps.jobs import Ended, Job, Problem, problem_of

POLL_S = 1.0  # between two looks at the workers
CONNECT_S = 10.0  # so long the scheduler may take to answer
AWAY_S = 60.0  # so long it may be away later, or all workers
WORKERS_OF_A_RUN = 3  # so many may end while they simulate it, then it is given up


class ClusterLost(PenstockError):
    """The scheduler, or every worker, has gone and not come back."""


class _Disconnected(Exception):
    """The connection to the scheduler has ended, and with it all tasks."""


def simulate(jobs: list[Job], force: bool, cluster: Cluster) -> Ended:
    """Simulate jobs on the workers of a cluster; results are saved here as they come.

    SpecError: nothing answers there, or no worker can be used.  ClusterLost: the scheduler or all workers are away for AWAY_S.
    """
    if not jobs:
        return
    work = _Work(deque(jobs), force)
    with cluster(len(jobs)) as place:
        try:
            client = _client(place, CONNECT_S)
        except (OSError, ValueError) as error:
            raise SpecError(f"no scheduler answers ({problem_of(error)})", place=place.address) from error
        while True:
            session = _Session(client, place, work)
            try:
                yield from session.ended()
                return
            except _Disconnected:
                say(f"the scheduler has gone; {work.left(session.given)} runs wait until it is back")
            finally:
                session.close()
            try:
                client = _client(place, AWAY_S)
            except OSError as error:
                raise ClusterLost(work.lost("the scheduler")) from error


def _client(place: Place, timeout_s: float) -> Any:
    from distributed import Client

    for name in ("distributed", "distributed.client"):  # what matters of it is said here, in a line
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return Client(place.address, timeout=timeout_s, set_as_default=False, name="penstock-sweep")


@dataclass
class _Work:
    """What outlives a connection: runs that wait, and what became of the workers so far."""

    waiting: deque[Job]
    force: bool
    ends: Counter[str] = field(default_factory=Counter)  # by key of a job: workers that ended while they simulated it
    seen: bool = False  # a worker has been there
    used: bool = False  # a worker has accepted a run

    def left(self, given: Mapping[str, Any]) -> int:
        """Runs that are not finished."""
        return len(self.waiting) + len(given)

    def lost(self, what: str) -> str:
        """Text of ClusterLost."""
        text = f"{what} has been away for {AWAY_S:g} s, {len(self.waiting)} runs are not finished"
        return f"{text}; start it and give the same command again: it goes on from there"


@dataclass(frozen=True)
class _Given:
    """A job on a worker."""

    job: Job
    future: Any
    address: str


class _Session:
    """One connection to a scheduler.

    workers   addresses of the workers
    refused   of the workers that cannot be used, why
    given     jobs on workers, by the key of their task
    arrived   tasks that have ended, as (key, result or exception), put there by a thread of Dask
    """

    def __init__(self, client: Any, place: Place, work: _Work) -> None:
        self.client, self.place, self.work = client, place, work
        self.workers: list[str] = []
        self.refused: dict[str, str] = {}
        self.given: dict[str, _Given] = {}
        self.arrived: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self.looked_s = self.usable_s = monotonic()
        self.told = -1

    def ended(self) -> Ended:
        """Jobs as they end.  _Disconnected: the rest must be given again."""
        try:
            yield from self.look()
            while self.work.waiting or self.given:
                self.give()
                with suppress(Empty):
                    yield from self.take(*self.arrived.get(timeout=POLL_S))
                if monotonic() - self.looked_s >= POLL_S:
                    yield from self.look()
        except _Disconnected:
            while not self.arrived.empty():  # came in time
                key, found = self.arrived.get()
                if isinstance(found, tuple):
                    yield from self.take(key, found)
            raise

    def close(self) -> None:
        """Cancel what is under way, which waits again, and disconnect."""
        self.work.waiting.extendleft(given.job for given in reversed(self.given.values()))
        self.cancel(self.given.values())
        self.given.clear()
        with suppress(OSError, TimeoutError):
            self.client.close(timeout=POLL_S)

    def cancel(self, given: Iterable[_Given]) -> None:
        futures = [each.future for each in given]
        if futures and self.client.status == "running":
            with suppress(OSError, TimeoutError):
                self.client.cancel(futures)

    # -- workers

    def look(self) -> Ended:
        """Note which workers have come and gone; jobs of the latter wait again, or are given up."""
        if self.client.status != "running":
            raise _Disconnected
        try:
            self.workers = list(self.client.nthreads())
        except (OSError, TimeoutError) as error:
            raise _Disconnected from error
        self.looked_s = monotonic()
        self.refused = {address: why for address, why in self.refused.items() if address in self.workers}
        for key, given in list(self.given.items()):
            if given.address not in self.workers:
                del self.given[key]
                self.cancel([given])
                yield from self.worker_ended(given)
        self.count()

    def worker_ended(self, given: _Given) -> Ended:
        """Give a job to another worker, unless it may be what ends them."""
        self.work.ends[given.job.key] += 1
        if self.work.ends[given.job.key] < WORKERS_OF_A_RUN:
            say(f"worker {given.address} has ended; its run goes to another")
            self.work.waiting.appendleft(given.job)
        else:
            why = f"{WORKERS_OF_A_RUN} workers have ended while they simulated it, the last one {given.address}"
            yield given.job, f"{why}; their logs say why, often it is memory"

    def count(self) -> None:
        """Tell how many workers there are when that changes.  SpecError or ClusterLost: there will be none."""
        usable = [address for address in self.workers if address not in self.refused]
        if usable:
            self.work.seen, self.usable_s = True, monotonic()
        elif self.refused and not self.work.used:
            why = next(iter(self.refused.values()))
            raise SpecError(why, remedy="install this penstock there", place="no worker can be used")
        elif self.work.seen and not self.place.refill and monotonic() - self.usable_s > AWAY_S:
            raise ClusterLost(self.work.lost("every worker"))
        if len(usable) != self.told:
            self.told = len(usable)
            none = "no worker at present" if self.work.seen else "waiting for the first worker"
            say(f"workers: {len(usable)}" if usable else none)
        if self.place.refill and self.work.waiting:
            self.place.refill()

    def refuse(self, given: _Given, has: str) -> None:
        """Use a worker no more; its job goes to another."""
        ours = _text(remote.identity())
        self.refused[given.address] = f"{given.address} has {has}, this command has {ours}"
        say(f"a worker is not used: {self.refused[given.address]}")
        self.work.waiting.appendleft(given.job)
        self.count()

    # -- jobs

    def give(self) -> None:
        """Give a job to every worker that has none."""
        busy = {given.address for given in self.given.values()}
        for address in self.workers:
            if self.work.waiting and address not in busy and address not in self.refused:
                self.submit(self.work.waiting.popleft(), address)

    def submit(self, job: Job, address: str) -> None:
        from penstock_net.spec import parse_spec

        key = f"penstock-{job.key}-{uuid4().hex[:8]}"
        text, inputs = parse_spec(job.toml).portable()
        task = remote.call(remote.identity(), key, text, inputs, job.key, self.work.force)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large tasks: they hold the files that the spec names
            future = self.client.submit(pickle.loads, task, key=key, pure=False, workers=[address], allow_other_workers=False)
        self.given[key] = _Given(job, future, address)
        future.add_done_callback(self.fetch)

    def fetch(self, future: Any) -> None:
        """Called in a thread of Dask when a task has ended, one at a time."""
        try:
            self.arrived.put((future.key, future.result()))
        except BaseException as error:
            self.arrived.put((future.key, error))

    def take(self, key: str, found: Any) -> Ended:
        """What became of a task."""
        from concurrent.futures import CancelledError

        from distributed import KilledWorker

        given = self.given.pop(key, None)
        if given is None:  # its worker has gone, and the job is somebody else's
            return
        match found:
            case ("files", files):
                self.work.used = True
                yield given.job, _save(given.job, files)
            case ("problem", text):
                self.work.used = True
                yield given.job, text
            case ("refused", theirs):
                self.refuse(given, _text(theirs))
            case CancelledError():
                self.given[key] = given
                raise _Disconnected
            case KilledWorker():
                yield from self.worker_ended(given)
            case ImportError():
                self.refuse(given, self.unusable(given.address, found))
            case _:
                yield given.job, problem_of(found)

    def unusable(self, address: str, error: ImportError) -> str:
        """What is wrong with a worker that cannot import what runs need: an old penstock, a broken one, none."""
        there = self.client.run(metadata.version, "penstock-net", workers=[address], on_error="return").get(address)
        return f"penstock {there}, of which this cannot be used: {error}" if isinstance(there, str) else "no penstock"


def _text(identity: remote.Identity) -> str:
    return f"penstock {identity[0]} (code {identity[1]})"


def _save(job: Job, files: Mapping[str, bytes]) -> Problem:
    from penstock_net.results.rundir import damage, write_directory, write_inputs

    def write(folder: Path) -> None:
        write_inputs(folder, files)
        if wrong := damage(folder):
            raise SpecError(f"did not arrive whole: {wrong}", remedy="repeat the command", place=job.folder)

    try:
        write_directory(job.folder, write, overwrite=True)  # one that is damaged
    except PenstockError as error:
        return str(error).splitlines()[0]
    return None
