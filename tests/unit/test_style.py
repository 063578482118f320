"""The linter and the type checker report nothing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_ruff():
    run("ruff", "check", ".")


def test_format():
    run("ruff", "format", "--check", ".")


def test_mypy():
    run("mypy")
