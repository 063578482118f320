"""What changed in a run since it was written is found, named, and made again."""

import shutil
import subprocess
from pathlib import Path

import fake_simulator
import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.results import digests
from penstock_net.results.run import Run
from penstock_net.results.sweep import Sweep

RUN = ["run", "quickstart", "--scheme", "bfc", "--out", "r"]
SWEEP = ["sweep", "quickstart", "--param", "scheme=bfc,hpcc", "--seeds", "2", "--workers", "1", "--out", "sw"]


@pytest.fixture
def fake(monkeypatch, tmp_path: Path) -> None:
    fake_simulator.install(monkeypatch)
    monkeypatch.chdir(tmp_path)


def whole(tmp_path: Path) -> Path:
    run = synthetic("bfc", 50)
    run.inputs = {"inputs/a.csv": b"a\n", "inputs/2/odd\nname\\.csv": b"b\n", "inputs/empty.csv": b""}
    run.summary["spec"] = "run = {}"
    return run.save(tmp_path / "r")


def test_the_digests_are_those_of_sha256sum(tmp_path: Path):
    path = whole(tmp_path)
    assert digests.problems(path) == []
    done = subprocess.run(["sha256sum", "--strict", "--check", digests.FILE], cwd=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(digests.names_in(path) or ()) == len(Run.load(path).frames) + 5


def test_every_damage_is_named(tmp_path: Path, capsys):
    path, draw = whole(tmp_path), np.random.default_rng(1)
    for name in digests.names_in(path) or ():
        content = (path / name).read_bytes()
        cases: list[tuple[bytes | None, str]] = [(content + b"x", "is not what the run wrote"), (None, "is missing")]
        if content:
            at, bit = int(draw.integers(len(content))), 1 << int(draw.integers(8))
            flipped = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
            cases += [(b"", "is empty"), (flipped, "is not what the run wrote")]
        if len(content) > 1:
            cases += [(content[: len(content) // 2], "cut off, edited or damaged")]
        for damaged, says in cases:
            (path / name).unlink() if damaged is None else (path / name).write_bytes(damaged)
            with pytest.raises(SpecError) as error:
                Run.load(path)
            assert error.value.place == str(path / name) and says in str(error.value)
            assert main(["check", str(path)]) == 1
            assert f"FAILED {path / name} " in capsys.readouterr().out
            (path / name).write_bytes(content)
    assert main(["check", str(path)]) == 0 and "all checks passed" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"x", b"\n", b"0" * 64 + b"  ../r/flows.parquet\n", b"0" * 64 + b"  a"])
def test_a_list_of_digests_that_is_none(tmp_path: Path, content: bytes):
    path = whole(tmp_path)
    (path / digests.FILE).write_bytes(content)
    with pytest.raises(SpecError, match=r"SHA256SUMS: is (empty|cut off|not a list of digests)"):
        Run.load(path)


def test_what_was_added_is_not_of_the_run(tmp_path: Path):
    path = whole(tmp_path)
    shutil.copy(path / "ports.parquet", path / "queues.parquet")
    (path / "inputs/b.csv").touch()
    run = Run.load(path)
    assert run.queues is None and "inputs/b.csv" not in run.inputs


def test_a_run_without_digests_can_be_read(tmp_path: Path, capsys):
    path = whole(tmp_path)
    (path / digests.FILE).unlink()
    assert main(["check", str(path)]) == 0
    assert f"ok     {path}: it can be read, but has no SHA256SUMS: an older version wrote it" in capsys.readouterr().out
    (path / "ports.parquet").write_bytes(b"")
    assert main(["check", str(path)]) == 1


@pytest.mark.parametrize("name", ["flows.parquet", "summary.json", "ports.parquet", digests.FILE])
@pytest.mark.parametrize("damage", ["emptied", "removed"])
def test_a_sweep_repeats_what_is_damaged(fake, name: str, damage: str, capsys):
    assert main(SWEEP) == 0
    before, runs = Sweep.load("sw").runs, len(fake_simulator.calls)
    victim = Path("sw", before["key"][2], name)
    victim.unlink() if damage == "removed" else victim.write_bytes(b"")
    (victim.parent / "notes.txt").write_text("mine")
    capsys.readouterr()
    if name != digests.FILE or damage == "emptied":
        assert main(["check", "sw"]) == 1 and f"FAILED {victim} is " in capsys.readouterr().out
        assert main(SWEEP) == 0
        assert f"{victim} is {'missing' if damage == 'removed' else 'empty'}; it runs again" in capsys.readouterr().err
        assert len(fake_simulator.calls) == runs + 1 and (victim.parent / "notes.txt").read_text() == "mine"
    assert main(["check", "sw"]) == 0 and Sweep.load("sw").runs.drop("wall_s", strict=False).height == 4


def test_the_table_of_a_sweep_is_checked(fake, capsys):
    assert main(SWEEP) == 0
    runs = Sweep.load("sw").runs
    metadata = pl.read_parquet_metadata("sw/sweep.parquet")
    changed = runs.with_columns(drops=pl.col("drops") + 1)
    changed.write_parquet("sw/sweep.parquet", metadata={"digest": metadata["digest"]})
    with pytest.raises(SpecError, match="is not what the sweep wrote: it was edited or damaged; repeat the sweep"):
        Sweep.load("sw")
    assert main(SWEEP) == 0 and main(["check", "sw"]) == 0
    one, other = (Path("sw", key) for key in runs["key"][:2])
    shutil.rmtree(one)
    assert main(["check", "sw"]) == 1 and f"names the run {one.name}, which is missing" in capsys.readouterr().out
    other.rename(one)
    assert main(["check", "sw"]) == 1 and "which is " in capsys.readouterr().out


def test_a_run_that_is_damaged_runs_again(fake, capsys):
    assert main(RUN) == 0
    Path("r/ports.parquet").write_bytes(b"")
    assert main(RUN) == 0
    assert "bfc: r/ports.parquet is empty; it runs again" in capsys.readouterr().err and len(fake_simulator.calls) == 2
    Path("r/summary.json").write_bytes(b"")
    assert main(RUN) == 2
    assert "r: holds a run already: r/summary.json is empty; give another --out, --force to replace it" in capsys.readouterr().err
    assert main([*RUN, "--force"]) == 0 and main(["check", "r"]) == 0
