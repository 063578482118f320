"""Types: README's lines and a user's own pass strict checks; pyright finds nothing in plain Python."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typed import needs_pyright, user_file, wrong_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_users_lines_from_this_environment(tmp_path, checker):
    """In CI that is an editable install, the one of CONTRIBUTING.md; test_packages.py does the same from a wheel."""
    assert wrong_in(user_file(tmp_path), checker, sys.executable) == ""


def test_a_misspelt_parameter_is_found(tmp_path):
    (tmp_path / "wrong.py").write_text("import penstock_net as ps\n\nps.BFC(queus=32)\n")
    assert "queus" in wrong_in(tmp_path / "wrong.py", "mypy", sys.executable)


def test_pyright_finds_nothing_in_what_is_not_compiled():
    """Of compiled files it cannot know what Cython makes of them; schemes take names that they do not import."""
    needs_pyright()
    plain = [path for path in _sources() if not path.with_suffix(".pxd").exists() and path.parent.name != "schemes"]
    assert len(plain) > 250
    command = [sys.executable, "-m", "pyright", "--outputjson", *map(str, plain)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    assert not found, [(each["file"], each["range"]["start"]["line"] + 1, each["message"]) for each in found]


def _sources() -> list[Path]:
    return [path for folder in ("penstock_net", "penstock_papers") for path in sorted((ROOT / folder).rglob("*.py"))]
