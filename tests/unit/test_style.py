"""The linter and the type checker report nothing; names and the guard of computed tests."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_ruff():
    run("ruff", "check", ".")


def test_format():
    run("ruff", "format", "--check", ".")


def test_imports_of_compiled_files():
    done = subprocess.run([sys.executable, "tools/imports.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr + "run python tools/imports.py"


def test_mypy():
    run("mypy")


def test_names_of_test_files_are_unique():
    """pytest imports them as modules of the top level; a run of one directory would not notice."""
    names = Counter(file.name for file in (ROOT / "tests").rglob("*.py") if file.name not in ("__init__.py", "conftest.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_what_is_thorough_is_said_once():
    """Of two lines for a test only the last one would count."""
    lines = [line for line in (ROOT / "tests/thorough.txt").read_text().splitlines() if line and line[0] != "#"]
    assert not [what for what, count in Counter(line.partition(" keep ")[0] for line in lines).items() if count > 1]


FONTS = """
import sys
sys.path.insert(0, "tests")
import conftest
conftest.GUARD.test = "a computed test"
import matplotlib.font_manager
"""


def test_the_first_computed_test_of_a_machine_may_draw(tmp_path):
    """matplotlib asks the system for its fonts, with a program and a thread, when its cache is empty."""
    empty = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FONTS], cwd=ROOT, env=empty, capture_output=True, text=True)
    assert done.returncode == 0 and list(tmp_path.glob("fontlist-*")), done.stderr
