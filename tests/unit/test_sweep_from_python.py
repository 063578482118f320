"""`ps.sweep` is the command `penstock sweep`: the same runs, keys and folder."""

import subprocess
import sys
from pathlib import Path

import pytest

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.results.sweep import Sweep

SPEC = """
[run]
duration = "20us"
[topology]
kind = "star"
hosts = 4
[scheme]
name = "fifo"
[[workload]]
kind = "poisson"
sizes = "google"
load = 0.5
load_on = "host"
"""
AXES = {"workload.0.load": [0.3, 0.6], "scheme": ["fifo", "bfc"]}


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SPEC)
    return "mine.toml"


def test_the_same_as_the_command(spec, capsys):
    sweep = ps.sweep(spec, AXES, seeds=[3, 5], sets={"run.threads": 2}, workers=1)
    assert len(sweep) == 8 and sweep.path == Path("runs/mine-sweep") and sweep.parameters == ("workload.0.load",)
    assert "8/8  workload.0.load=0.6  run.seed=5  bfc  done" in capsys.readouterr().err
    options = ["--param", "workload.0.load=0.3,0.6", "--param", "scheme=fifo,bfc", "--seeds", "3,5", "--set", "run.threads=2"]
    assert main(["sweep", spec, *options]) == 0
    assert "8 runs, 8 of them finished before" in capsys.readouterr().err
    assert Sweep.load(sweep.path).runs.equals(sweep.runs)
    again = ps.sweep(spec, AXES, seeds=[3, 5], sets={"run.threads": 2}, progress=False)
    assert again.runs.equals(sweep.runs) and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({}, "params: nothing varies"),
        ({"params": {"workload.0.load": 0.5}}, "params.workload.0.load = 0.5: must be a list of values"),
        ({"params": {"workload.0.load": []}}, "must be a list of values"),
        ({"params": {"workload.0.load": "0.5"}}, "must be a list of values"),
        ({"params": {"scheme": [None]}}, "scheme = None: must be a number, a text or true or false"),
        ({"params": {"run.seed": [1]}, "seeds": 2}, "seeds: and params of run.seed are the same"),
        ({"seeds": 2, "sets": {"run.seed": 4}}, "sets.run.seed: this key varies"),
        ({"seeds": [1, 1]}, "two combinations are the same run"),
        ({"seeds": 0}, "must be a list of values"),
        ({"params": {"workload.0.laod": [0.5]}}, "laod"),
        ({"seeds": 2, "on": "moon"}, "must be local"),
    ],
)
def test_bad_input(spec, arguments, rule):
    with pytest.raises(SpecError) as refused:
        ps.sweep(spec, **arguments)
    assert rule in str(refused.value) and not Path("runs").exists()


def test_runs_that_fail_are_named_and_the_others_are_kept(spec):
    with pytest.raises(ps.SweepFailed, match="1 of 2 runs failed, the first with: "):
        ps.sweep(spec, {"workload.0.load": [0.5, 1.5]}, workers=1)
    assert Sweep.load("runs/mine-sweep").runs["workload.0.load"].to_list() == [0.5]


def test_what_fails_all_runs_is_said_once(spec, capsys):
    with pytest.raises(ps.SweepFailed, match="3 of 3 runs failed"):
        ps.sweep(spec, {"workload.0.load": [1.5]}, seeds=3, workers=1)
    said = "".join(capsys.readouterr())
    assert said.count("more than the links can carry") == 1 and said.count("failed as before") == 2


def test_processes_of_a_script_that_is_not_guarded(spec):
    """The processes do not run the script again, and end with it."""
    Path("script.py").write_text(
        "import penstock_net as ps\nprint('begins')\n"
        f"sweep = ps.sweep('mine.toml', {AXES}, workers=2, progress=False)\nprint(len(sweep))\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.returncode) == ("begins\n4\n", 0), done.stderr
