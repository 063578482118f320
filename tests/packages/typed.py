"""What type checkers of another project say of code that uses an installed penstock."""

import fcntl
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
ANNOTATED = """

def tail(run: ps.Run, topo: ps.Topology, flows: ps.Flows) -> float:
    scheme: ps.Scheme = ps.scheme("bfc+dqa")
    other: ps.Run = ps.simulate(topo, flows, scheme=scheme, seed=1)
    ps.plot.save(ps.plot.slowdown(run, other), "fct.pdf")
    return float(run.slowdown(99)["slowdown"][0])


def remedy(error: ps.SpecError) -> str:
    return error.remedy
"""


@cache
def has_pyright() -> bool:
    """Whether pyright starts.  Its package fetches the program from npm when it first runs: one process at a time."""
    with (Path(tempfile.gettempdir()) / "pyright-is-fetched").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            done = subprocess.run([sys.executable, "-m", "pyright", "--version"], capture_output=True, timeout=300)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def user_file(folder: Path) -> Path:
    """The Python blocks of README.md, and functions with types of their own."""
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.M | re.S)
    assert len(blocks) > 1
    path = folder / "user.py"
    path.write_text("".join(blocks) + ANNOTATED)
    return path


def needs_pyright() -> None:
    """Skip the test where pyright does not start."""
    if not has_pyright():
        pytest.skip("pyright does not start here: it needs Node.js and npm")


def wrong_in(path: Path, checker: str, python: str) -> str:
    """What a checker finds in a file, of which `python` is the interpreter; "" if nothing."""
    if checker == "pyright":
        needs_pyright()
    options = ["--strict", "--python-executable", python] if checker == "mypy" else ["--pythonpath", python]
    done = subprocess.run([sys.executable, "-m", checker, *options, path.name], cwd=path.parent, capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stdout + done.stderr
