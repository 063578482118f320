"""Whatever a run directory holds, and whatever a command's outputs are, a command ends with a result or with an error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from fake_simulator import synthetic

from penstock_net.cli import main
from penstock_net.composition.load import to_library
from penstock_net.errors import SchemeError

SUMMARIES = [
    ("nominal", -1),
    ("drain", None),
    ("drain", {"ns": "1"}),
    ("spec", "not TOML"),
    ("drops", 10**400),
    ("wall_s", float("inf")),
    ("end_ns", True),
    ("warnings", "text"),
    ("window_ns", [3, 1]),
    ("window_ns", [1]),
    ("code", {"sim": 1}),
    ("realised", []),
]
FRAMES = {
    "flows": [
        pl.col("bytes").cast(pl.String),
        pl.lit(float("nan")).alias("slowdown"),
        pl.lit(None, dtype=pl.Int32).alias("src"),
        pl.lit(2**40).alias("dst"),
        pl.col("start_ns").cast(pl.Datetime("ns")),
        pl.lit(True).alias("priority"),
    ],
    "switches": [pl.col("time_ns").cast(pl.String), pl.col("switch").cast(pl.Float64) + 0.5],
    "ports": [pl.col("drops") * 1.5, pl.col("drop_reason").is_null()],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    synthetic("bfc", 50).save("r")
    Path("r/SHA256SUMS").unlink()
    return Path("r")


def refused(run: Path, capsys, name: str) -> None:
    for command in (["report", "r", "-o", "r.html"], ["plot", "slowdown", "r", "-o", "r.png"], ["explain", "r"], ["check", "r"]):
        capsys.readouterr()
        assert main(command) != 0
        said = "".join(capsys.readouterr())
        assert f"r/{name}: cannot be read (" in said and "run the simulation again" in said
    assert not Path("r.html").exists()


@pytest.mark.parametrize(("key", "value"), SUMMARIES)
def test_a_summary_that_is_none_of_a_run(run: Path, key: str, value: object, capsys):
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {key: value}))
    refused(run, capsys, "summary.json")


@pytest.mark.parametrize(("name", "number"), [(name, i) for name, changes in FRAMES.items() for i in range(len(changes))])
def test_columns_that_are_none_of_a_run(run: Path, name: str, number: int, capsys):
    file = run / f"{name}.parquet"
    pl.read_parquet(file).with_columns(FRAMES[name][number]).write_parquet(file)
    refused(run, capsys, file.name)


def test_a_column_that_every_run_has(run: Path, capsys):
    pl.read_parquet(run / "flows.parquet").drop("class").write_parquet(run / "flows.parquet")
    refused(run, capsys, "flows.parquet")


CLOSED = """
import os, sys
os.close({closed})
program = "import sys; from penstock_net.cli import main; sys.exit(main())"
os.execv(sys.executable, [sys.executable, "-c", program, "explain", "r"])
"""


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_outputs(run: Path, closed: int):
    command = [sys.executable, "-c", CLOSED.format(closed=closed)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0 and done.stderr == b""
    assert (b"50 flows" in done.stdout) == (closed == 2)


@pytest.mark.parametrize(
    ("compiler", "says"),
    [
        ('"', 'CC = "\\"": is no command: No closing quotation; set CC to a C compiler'),
        (" ", "needs a C compiler (none is not installed)"),
        ("false", "the C compiler failed: no message, status 1; does false compile C? CC names another compiler"),
        ("true", "the C compiler failed: no message, status 0"),
    ],
)
def test_compilers_that_are_none(tmp_path: Path, compiler: str, says: str, monkeypatch):
    monkeypatch.setenv("CC", compiler)
    with pytest.raises(SchemeError) as error:
        to_library(tmp_path / "a.c", tmp_path / "a.so", tmp_path / "mine.py", True)
    assert says in str(error.value) and os.listdir(tmp_path) == []
