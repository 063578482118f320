"""Sweeps on a Dask cluster: a real scheduler and real workers, which are killed, are the wrong ones, or come late."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from usual_signals import usual_signals

from penstock_net.cli import main
from penstock_net.results.rundir import is_run, runs_below
from penstock_net.sweeps import clusters, dask_runs, remote
from penstock_net.sweeps.jobs import Job

pytest.importorskip("distributed", reason='sweeps on a cluster need pip install "penstock-net[dask]"')

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PATIENCE_S = 180  # so long anything may take on a busy machine
SPEC = """
[run]
duration = "30us"

[topology]
kind = "star"
hosts = 4
rate = "100Gbps"
delay = "1us"
buffer = "1MB"

[[scheme]]
name = "bfc"

[[workload]]
kind = "poisson"
sizes = "google"
load = 0.5
load_on = "host"
"""
OF_THE_MACHINE = ("wall_s", "packet_hops_per_s", "peak_memory_bytes")
SWEEP = """
import sys
from penstock_net.cli import main
from penstock_net.sweeps import dask_runs
dask_runs.AWAY_S = float(sys.argv.pop(1))
sys.exit(main())
"""


class Cluster:
    """Processes of Dask, which end with the test, and the gates of dask_worker.py."""

    def __init__(self, folder: Path) -> None:
        self.here, self.gates, self.there = folder / "here", folder / "gates", folder / "there"
        for path in (self.here, self.gates, self.there):
            path.mkdir()
        (self.here / "spec.toml").write_text(SPEC)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.processes: list[subprocess.Popen[str]] = []
        self.sweeps: list[subprocess.Popen[str]] = []  # those that should be running

    def start(self, *command: str, cwd: Path, path: object = ROOT, **options: Any) -> "subprocess.Popen[str]":
        ours = {"GATES": str(self.gates), "HIDDEN": str(self.here), "DASK_CONFIG": str(self.there)}
        environment = {**os.environ, **ours, "PYTHONPATH": str(path)}
        process = subprocess.Popen([sys.executable, *command], cwd=cwd, env=environment, text=True, **options)
        self.processes.append(process)
        return process

    def dask(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        with open(self.there / f"{len(self.processes)}.log", "w") as log:
            return self.start("-m", "dask", *arguments, "--no-dashboard", cwd=self.there, stdout=log, stderr=log, **options)

    def scheduler(self) -> "subprocess.Popen[str]":
        """A scheduler without penstock, at the address of the one before."""
        host, port = self.address.split(":")
        process = self.dask("scheduler", "--host", host, "--port", port, path=self.lacking("penstock is not here"))
        self.until(self.answers, "the scheduler answers")
        return process

    def answers(self) -> bool:
        host, port = self.address.split(":")
        with socket.socket() as probe:
            return probe.connect_ex((host, int(port))) == 0

    def worker(self, **options: Any) -> "subprocess.Popen[str]":
        loaded = [] if options else ["--preload", str(HERE / "dask_worker.py")]
        limits = ["--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--local-directory", str(self.there)]
        return self.dask("worker", f"tcp://{self.address}", *limits, *loaded, **options)

    def lacking(self, why: str) -> Path:
        """A folder for PYTHONPATH that makes penstock unknown, whatever is installed."""
        folder = self.there / "lacking"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(
            "import sys\nfrom importlib import metadata\n"
            "known = metadata.version\n"
            "def version(name):\n"
            "    if name == 'penstock-net':\n        raise metadata.PackageNotFoundError(name)\n"
            "    return known(name)\n"
            "metadata.version = version\n"
            "class Missing:\n"
            "    def find_spec(self, name, *_):\n"
            f"        if name.startswith('penstock_net'):\n            raise ModuleNotFoundError({why!r})\n"
            "sys.meta_path.insert(0, Missing())\n"
        )
        return folder

    def other(self, version: str) -> str:
        """A PYTHONPATH with which penstock has another version."""
        folder = self.there / "other"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            "from importlib import metadata\n"
            "known = metadata.version\n"
            f"metadata.version = lambda name: {version!r} if name == 'penstock-net' else known(name)\n"
        )
        return f"{folder}:{ROOT}"

    def sweep(self, *arguments: str, away_s: float = PATIENCE_S) -> "subprocess.Popen[str]":
        """`penstock sweep` on this cluster, in the folder of its files."""
        given = ["sweep", "spec.toml", *arguments, "--on", f"dask://{self.address}", "--out", "out"]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": usual_signals}
        self.sweeps.append(self.start("-c", SWEEP, str(away_s), *given, cwd=self.here, **options))
        return self.sweeps[-1]

    def end(self, sweep: "subprocess.Popen[str]", status: int) -> str:
        """Wait for a sweep to end with this status; what it has said."""
        self.sweeps.remove(sweep)
        _, said = sweep.communicate(timeout=PATIENCE_S)
        assert sweep.returncode == status and "Traceback" not in said, said
        return said

    def shut(self, *seeds: int) -> None:
        for seed in seeds:
            (self.gates / f"shut-{seed}").touch()

    def open(self, *seeds: int) -> None:
        for seed in seeds:
            (self.gates / f"shut-{seed}").unlink()

    def notes(self, what: str) -> list[tuple[int, int]]:
        """(seed, process) of each run that has begun, finished or was stopped."""
        found = (path.name.split("-") for path in self.gates.glob(f"{what}-*"))
        return sorted((int(seed), int(pid)) for _, seed, pid in found)

    def saved(self) -> int:
        return len(runs_below(self.here / "out"))

    def until(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            for sweep in self.sweeps:
                assert sweep.poll() is None, f"{what}: {sweep.communicate()}"
            assert time.monotonic() < end, f"{what}: not within {PATIENCE_S} s; logs are in {self.there}"
            time.sleep(0.02)

    def until_workers(self, number: int) -> None:
        """Until so many have joined."""
        from distributed import Client

        with Client(f"tcp://{self.address}", timeout=PATIENCE_S, set_as_default=False) as client:
            client.wait_for_workers(number, timeout=PATIENCE_S)

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    monkeypatch.chdir(made.here)
    try:
        yield made
    finally:
        made.close()


def content(folder: Path) -> dict[str, Any]:
    """Files of a run, without what is of the machine."""
    files: dict[str, Any] = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    del files["SHA256SUMS"]  # it names the digest of the summary
    files["summary.json"] = {k: v for k, v in json.loads(files["summary.json"]).items() if k not in OF_THE_MACHINE}
    return files


def assert_as_local(arguments: list[str]) -> None:
    """The runs in `out` are those that a local sweep makes, bit for bit."""
    assert main(["sweep", "spec.toml", *arguments, "--workers", "1", "--out", "local"]) == 0
    names = sorted(path.name for path in runs_below(Path("local")))
    assert names == sorted(path.name for path in runs_below(Path("out"))) and names
    for name in names:
        assert content(Path("out") / name) == content(Path("local") / name)
    ours, theirs = (pl.read_parquet(f"{name}/sweep.parquet").drop(OF_THE_MACHINE, strict=False) for name in ("out", "local"))
    assert ours.equals(theirs)


def test_a_worker_is_killed_and_then_the_scheduler(cluster: Cluster):
    """Nothing is lost, and nothing is finished twice."""
    seeds = range(1, 7)
    first = cluster.scheduler()
    workers = [cluster.worker(), cluster.worker()]
    cluster.shut(*seeds)
    sweep = cluster.sweep("--seeds", "6")
    cluster.until(lambda: len(cluster.notes("begun")) == 2, "both workers have a run")
    (seed,) = (seed for seed, pid in cluster.notes("begun") if pid == workers[0].pid)
    workers[0].kill()
    third = cluster.worker()
    cluster.until(lambda: (seed, third.pid) in cluster.notes("begun"), "the run of the dead worker goes to another")
    cluster.open(seed)
    cluster.until(lambda: cluster.saved() == 1, "its result is saved")

    first.kill()
    for worker in (workers[1], third):
        worker.wait(PATIENCE_S)
    assert sweep.poll() is None
    cluster.scheduler()
    cluster.worker()
    cluster.worker()
    cluster.open(*(other for other in seeds if other != seed))
    said = cluster.end(sweep, 0)
    assert "has ended; its run goes to another" in said and "the scheduler has gone; 5 runs wait" in said
    assert [seed for seed, _ in cluster.notes("finished")] == list(seeds)
    assert_as_local(["--seeds", "6"])


def test_ctrl_c_stops_the_workers_and_keeps_what_is_finished(cluster: Cluster):
    cluster.scheduler()
    worker = cluster.worker()
    cluster.shut(2)
    sweep = cluster.sweep("--seeds", "3")
    cluster.until(lambda: (2, worker.pid) in cluster.notes("begun") and cluster.saved() == 1, "the second run has begun")
    sweep.send_signal(signal.SIGINT)
    assert "interrupted; repeat the same command to resume" in cluster.end(sweep, 130)
    cluster.until(lambda: cluster.notes("stopped") == [(2, worker.pid)], "the worker stops")
    assert pl.read_parquet("out/sweep.parquet")["run.seed"].to_list() == [1]
    cluster.open(2)
    assert "1 of them finished before" in cluster.end(cluster.sweep("--seeds", "3"), 0)
    assert [seed for seed, _ in cluster.notes("finished")] == [1, 2, 3]


def test_files_travel_and_a_run_that_fails_is_named(cluster: Cluster):
    """Two workers of one machine compile the scheme at the same time."""
    (cluster.here / "mine.py").write_text(
        "def on_dequeue(mine, node, port, queue, pkt):\n    if pkt.kind == DATA:\n        pkt.ecn = 0\n"
    )
    (cluster.here / "sizes.csv").write_text("bytes,cdf\n1000,0\n2000,0.5\n30000,1\n")
    spec = SPEC.replace('"google"', '"sizes.csv"').replace('"bfc"', '"fifo+./mine.py"')
    (cluster.here / "spec.toml").write_text(spec)
    cluster.scheduler()
    cluster.worker()
    cluster.worker()
    good = ["--param", "workload.0.load=0.3,0.6", "--param", "scheme=fifo+./mine.py,bfc"]
    cluster.end(cluster.sweep(*good), 0)
    said = cluster.end(cluster.sweep("--param", "workload.0.load=0.3,0.6,7", "--param", "scheme=bfc"), 1)
    (failed,) = (line for line in said.splitlines() if "failed: " in line)
    assert "workload.0.load=7  bfc  failed: " in failed and "/tmp" not in failed
    assert "2 of them finished before" in said and "1 of 3 runs failed, the first with: " in said
    assert main(["sweep", "spec.toml", *good, "--on", f"dask://{cluster.address}", "--out", "out"]) == 0  # its table again
    assert_as_local(good)


def test_workers_with_another_penstock_or_none(cluster: Cluster):
    cluster.scheduler()
    cluster.worker(path=cluster.lacking("there is none"))
    cluster.worker(path=cluster.other("9.9"))
    cluster.until_workers(2)
    version, sources = remote.identity()
    ours = f"this command has penstock {version} (code {sources})"
    said = cluster.end(cluster.sweep("--seeds", "3"), 2)
    assert f"has no penstock, {ours}" in said and f"has penstock 9.9 (code {sources}), {ours}" in said
    assert said.splitlines()[-1].startswith("error: no worker can be used: tcp://127.0.0.1:")
    assert not is_run(cluster.here / "out")

    cluster.worker()
    cluster.until_workers(3)
    said = cluster.end(cluster.sweep("--seeds", "3"), 0)
    assert cluster.saved() == 3 and said.count("a worker is not used") == 2


def test_the_scheduler_stays_away(cluster: Cluster):
    scheduler = cluster.scheduler()
    cluster.worker()
    cluster.shut(2)
    sweep = cluster.sweep("--seeds", "2", away_s=0.5)
    cluster.until(lambda: cluster.saved() == 1, "the first run is finished")
    scheduler.kill()
    assert "the scheduler has been away for 0.5 s, 1 runs are not finished" in cluster.end(sweep, 1)
    assert pl.read_parquet("out/sweep.parquet").height == 1


def test_all_workers_stay_away(cluster: Cluster):
    cluster.scheduler()
    sweep = cluster.sweep("--seeds", "2", away_s=2)
    assert sweep.stderr is not None
    while "waiting for the first worker" not in sweep.stderr.readline():
        assert sweep.poll() is None
    worker = cluster.worker()
    cluster.shut(2)
    cluster.until(lambda: cluster.saved() == 1, "the first run is finished")
    worker.kill()
    said = cluster.end(sweep, 1)
    assert "no worker at present" in said and "every worker has been away for 2 s, 1 runs are not finished" in said


# -- without a cluster


def test_no_scheduler(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(dask_runs, "CONNECT_S", 0.5)
    assert main(["sweep", "quickstart", "--seeds", "2", "--on", "dask://127.0.0.1:1", "--out", str(tmp_path / "out")]) == 2
    assert "tcp://127.0.0.1:1: no scheduler answers" in capsys.readouterr().err


class Client:
    """It takes what it is given."""

    status = "running"

    def __init__(self, **size: int) -> None:
        self.size, self.workers, self.cancelled = size, [], 0

    def nthreads(self) -> dict[str, int]:
        return self.size

    def submit(self, *_: Any, workers: list[str], **__: Any) -> Any:
        self.workers += workers
        return SimpleNamespace(add_done_callback=lambda function: None)

    def cancel(self, futures: list[Any]) -> None:
        self.cancelled += len(futures)


def session(client: Client, jobs: int) -> Any:
    work = dask_runs._Work(deque(Job(SPEC, f"{i}", Path(f"{i}")) for i in range(jobs)), False)
    return dask_runs._Session(client, clusters.Place("tcp://a:1"), work)


def test_a_worker_gets_one_run_at_a_time():
    client = Client(a=8, b=2)
    made = session(client, jobs=5)
    assert not list(made.look())
    made.give()
    made.give()
    assert client.workers == ["a", "b"] and len(made.work.waiting) == 3


def test_a_run_that_ends_its_workers_is_given_up(capsys):
    client = Client(a=1)
    made = session(client, jobs=2)
    ended = []
    for name in "bcde":
        ended += made.look()
        made.give()
        client.size = {name: 1}
    ((job, problem),) = ended
    assert job.key == "0" and "3 workers have ended while they simulated it, the last one c" in problem
    assert [given.job.key for given in made.given.values()] == ["1"] and client.cancelled == 3


@pytest.mark.parametrize(
    "options, says",
    [
        (["--on", "dask://a:1", "--workers", "3"], "--workers: this cluster has workers already"),
        (["--on", "slurm"], "--on slurm: "),
        (["--on", "kubernetes"], "--on kubernetes: "),
        (["--on", "dask://"], "must be local, dask://HOST:PORT"),
    ],
)
def test_bad_places(capsys, options, says):
    assert main(["sweep", "quickstart", "--seeds", "2", *options]) == 2
    assert says in capsys.readouterr().err


def test_other_code_is_another_identity(monkeypatch):
    from penstock_net import identity

    def hashed() -> str:
        remote.identity.cache_clear()
        return remote.identity()[1]

    before = hashed()
    assert hashed() == before
    monkeypatch.setattr(identity, "code_hash", lambda schemes: "other")
    assert hashed() == "other" != before
    remote.identity.cache_clear()
