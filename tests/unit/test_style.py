"""The linter and the type checker report nothing."""

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
