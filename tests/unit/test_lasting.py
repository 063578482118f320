"""Runs that last: signals, resumption, the lock on a folder, workers that end with their parent."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fake_simulator
import polars as pl
import pytest
from usual_signals import SIGNALS, usual_signals

from penstock_net.cli import _signals, main
from penstock_net.errors import SpecError
from penstock_net.results import rundir
from penstock_net.results.run import Run
from penstock_net.sweeps import jobs

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def fake(monkeypatch, tmp_path: Path):
    fake_simulator.install(monkeypatch)
    monkeypatch.chdir(tmp_path)


@contextmanager
def program(*arguments: str, slow: bool = True, **options: object) -> Iterator["subprocess.Popen[str]"]:
    """`penstock ARGUMENTS` over the fake simulator; what is left of it at the end is killed."""
    command = [sys.executable, str(HERE / "fake_cli.py"), *arguments]
    environment = {**os.environ, **({"FAKE_SLOW": "1"} if slow else {})}
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": usual_signals, **options}
    with subprocess.Popen(command, text=True, env=environment, **given) as process:
        try:
            yield process
        finally:
            process.kill()


def says_simulating(process: "subprocess.Popen[str]") -> int:
    """Wait until a run has begun; the process that it is in."""
    assert process.stdout is not None
    word, pid = process.stdout.readline().split()
    assert word == "simulating"
    return int(pid)


def fails(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 2
    return capsys.readouterr().err


# -- signals


@pytest.mark.parametrize("number", SIGNALS, ids=lambda n: n.name)
def test_a_signal_keeps_what_there_is(number: signal.Signals):
    with program("run", "quickstart", "--scheme", "bfc", "--out", "out") as process:
        says_simulating(process)
        process.send_signal(number)
        _, error = process.communicate(timeout=120)
    assert process.returncode == 128 + number and "Traceback" not in error
    assert "partial results are in out" in error and os.listdir(".") == ["out"]
    assert Run.load("out").summary["interrupted"] is True


def test_a_signal_that_is_ignored_stays_so():
    def as_nohup() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with program("run", "quickstart", "--scheme", "bfc", "--out", "out", preexec_fn=as_nohup) as process:
        says_simulating(process)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 130


def test_a_terminal_that_is_closed(tmp_path: Path):
    """Its processes get SIGHUP, and whatever they write to it fails."""
    master, slave = pty.openpty()

    def own_terminal() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    with program(
        "run", "quickstart", "--scheme", "bfc", "--out", "out", stdin=slave, stderr=slave, preexec_fn=own_terminal
    ) as process:
        os.close(slave)
        shown = b""
        while b"simulating" not in shown:  # the progress bar shows above it what a run prints
            shown += os.read(master, 1000)
        os.close(master)
        process.wait(timeout=120)
    assert process.returncode == 128 + signal.SIGHUP
    assert Run.load("out").summary["interrupted"] is True


def test_a_signal_while_results_are_saved(monkeypatch):
    """The results are saved, and the next scheme does not begin."""
    save = Run.save

    def interrupted(run: Run, *arguments: object, **options: object) -> Path:
        os.kill(os.getpid(), signal.SIGTERM)
        return save(run, *arguments, **options)

    monkeypatch.setattr(Run, "save", interrupted)
    assert main(["run", "quickstart", "--out", "out"]) == 143
    assert Run.load("out/bfc").summary.get("interrupted") is None and not Path("out/hpcc").exists()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_while_ctrl_c_is_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), _signals.as_ctrl_c():
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
    finally:
        signal.signal(signal.SIGINT, before)
    assert _signals.status() == 143


REAL = """
import sys
from penstock_net import progress as bars
from penstock_net.cli import main
bars.PLAIN_EVERY_S = 0.0
sys.exit(main(sys.argv[1:]))
"""


def test_a_signal_in_the_real_core():
    Path("long.toml").write_text("""
        run = {duration = "1000s"}
        topology = {kind = "star", hosts = 2}
        scheme = {name = "bfc"}
        measure = {sample = "1ms"}
        workload = {kind = "list", flows = [[0, 1, "1TB"]]}""")
    command = [sys.executable, "-c", REAL, "run", "long.toml", "--out", "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while "hops/s" not in (line := process.stderr.readline()) or " 0 M hops/s" in line:
                assert line, "it ended too early"
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=120)
        finally:
            process.kill()
    run = Run.load("out")
    assert process.returncode == 143 and run.summary["interrupted"] is True and run.summary["packet_hops"] > 0


def test_ctrl_c_while_penstock_is_imported():
    code = """
import os, signal, sys

class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
from penstock_net.cli import main
sys.exit(main(["schemes"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize("arguments", [["topologies"], ["run", "quickstart", "--dry-run"], ["--help"], ["--version"]])
def test_output_that_cannot_be_written(arguments: list[str]):
    with open("/dev/full", "w") as full, program(*arguments, slow=False, stdout=full) as process:
        _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (1, "error: output: No space left on device\n")


def test_neither_can_the_error():
    with open("/dev/full", "w") as full, program("run", "nope", slow=False, stderr=full) as process:
        output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (2, "")


# -- resumption


def test_several_schemes_go_on_where_they_were(capsys):
    fake_simulator.interrupt_at.append("hpcc")
    assert main(["run", "quickstart", "--out", "out"]) == 130
    fake_simulator.interrupt_at.clear()
    fake_simulator.calls.clear()
    assert main(["run", "quickstart", "--out", "out"]) == 0
    assert [call["scheme"].name for call in fake_simulator.calls] == ["hpcc", "dcqcn:bfc", "ideal_fq"]
    assert "bfc: finished before" in capsys.readouterr().err
    assert pl.read_csv("out/comparison.csv")["scheme"].to_list() == ["bfc", "hpcc", "dcqcn-bfc", "ideal_fq"]
    assert not Run.load("out/hpcc").summary.get("interrupted")
    assert main(["run", "quickstart", "--out", "out"]) == 0 and len(fake_simulator.calls) == 3
    assert main(["run", "quickstart", "--out", "out", "--threads", "3"]) == 0 and len(fake_simulator.calls) == 3
    assert main(["run", "quickstart", "--out", "out", "--force"]) == 0 and len(fake_simulator.calls) == 7


def test_other_runs_are_not_taken_for_the_same(capsys):
    assert main(["run", "quickstart", "--scheme", "bfc", "--out", "out"]) == 0
    for change in (["--seed", "2"], ["--set", "scheme.queues=64"], ["--set", "measure.pauses=true"]):
        assert "--force" in fails(capsys, "run", "quickstart", "--scheme", "bfc", *change, "--out", "out")
    assert len(fake_simulator.calls) == 1


def test_without_out_the_last_folder_is_finished_first():
    assert main(["run", "quickstart", "--scheme", "bfc"]) == 0
    fake_simulator.interrupt_at.append("hpcc")
    assert main(["run", "quickstart"]) == 130
    fake_simulator.interrupt_at.clear()
    assert main(["run", "quickstart", "--seed", "2"]) == 0
    assert main(["run", "quickstart"]) == 0  # the last one is another experiment
    assert sorted(os.listdir("runs")) == [f"quickstart{end}" for end in ("", "-2", "-3", "-4")]
    fake_simulator.interrupt_at.append("hpcc")
    assert main(["run", "quickstart"]) == 130
    fake_simulator.interrupt_at.clear()
    fake_simulator.calls.clear()
    assert main(["run", "quickstart"]) == 0 and len(fake_simulator.calls) == 3
    assert sorted(os.listdir("runs")) == [f"quickstart{end}" for end in ("", "-2", "-3", "-4", "-5")]


def test_what_a_killed_process_left_is_put_right():
    assert main(["run", "quickstart", "--scheme", "bfc", "--out", "out"]) == 0
    Path("out").rename(".out.old-1")
    (Path(".out.partial-1")).mkdir()
    Path(".out.old-1/notes.txt").write_text("mine")
    assert main(["run", "quickstart", "--scheme", "bfc", "--out", "out", "--force"]) == 0
    assert os.listdir(".") == ["out"] and Path("out/notes.txt").read_text() == "mine"


# -- the lock


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "quickstart", "--scheme", "bfc"],
        ["run", "quickstart"],
        ["sweep", "quickstart", "--param", "run.seed=1,2", "--workers", "1"],
    ],
)
def test_a_folder_is_written_by_one_process_at_a_time(capsys, arguments: list[str]):
    arguments = [*arguments, "--out", "new/out"]
    with program(*arguments) as process:
        pid = says_simulating(process)
        message = fails(capsys, *arguments, *(["--force"] if arguments[0] == "run" else []))
        assert message.startswith(f"error: new/out: is being written by process {pid} on ") and "quickstart" in message
        assert not fake_simulator.calls
        process.kill()
        process.wait()
    assert Path("new/.out.lock").exists()
    assert main(arguments) == 0
    assert os.listdir("new") == ["out"]


def test_a_refused_command_leaves_no_folder(capsys):
    assert "--force" in fails(capsys, "run", "quickstart", "--set", "workload.0.load=3", "--out", "new/deep/out")
    assert os.listdir(".") == []


def test_a_file_system_without_locks(monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with rundir.locked(Path("out")):
        assert os.listdir(".") == [".out.lock"]


def test_a_lock_file_that_its_holder_removes_meanwhile(monkeypatch):
    """Who has opened the file before it was removed tries again: a lock on a removed file locks nobody out."""
    flock, files = fcntl.flock, []

    def removed_at_first(lock: int, how: int) -> None:
        files.append(os.fstat(lock).st_ino)
        flock(lock, how)
        if len(files) == 1:
            Path(".out.lock").rename("gone")

    monkeypatch.setattr(fcntl, "flock", removed_at_first)
    with rundir.locked(Path("out")):
        assert len(files) == 2 and Path(".out.lock").stat().st_ino == files[1]
        with pytest.raises(SpecError, match="is being written by process"), rundir.locked(Path("../" + Path.cwd().name + "/out")):
            pass


# -- workers


def test_workers_end_with_their_parent():
    """Also when it is killed."""
    with program(
        "sweep", "quickstart", "--param", "run.seed=1,2", "--param", "scheme=bfc", "--workers", "2", "--out", "o"
    ) as process:
        workers = [os.pidfd_open(says_simulating(process)) for _ in range(2)]
        process.kill()
        process.wait()
        try:
            for worker in workers:
                assert select.select([worker], [], [], 120)[0], "the worker lives on"
        finally:
            for worker in workers:
                os.close(worker)


def test_a_sweep_that_is_terminated():
    with program(
        "sweep", "quickstart", "--param", "run.seed=1,2", "--param", "scheme=bfc", "--workers", "2", "--out", "o"
    ) as process:
        workers = [os.pidfd_open(says_simulating(process)) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=120)
        for worker in workers:
            assert select.select([worker], [], [], 120)[0], "the worker lives on"
            os.close(worker)
    assert process.returncode == 143 and error.endswith("error: interrupted\n") and "Traceback" not in error


def test_an_input_that_changes_during_a_sweep(capsys):
    Path("flows.csv").write_text("a")
    text = fake_sweep_spec()
    key = text_key(text)
    Path("flows.csv").write_text("b")
    with pytest.raises(SpecError, match="was changed since the sweep began"):
        jobs.compute(text, key, False)


def fake_sweep_spec() -> str:
    from penstock_net.spec import load_spec

    loaded = load_spec("quickstart", schemes=["bfc"], sets=["workload.0.sizes=./flows.csv"])
    return loaded.to_toml()


def text_key(text: str) -> str:
    from penstock_net.spec import parse_spec

    return parse_spec(text).key()
