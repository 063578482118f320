"""Tests end what they have started, also when they fail, and say so when they have not (conftest.py, daemons.py)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_lab import FORBIDDEN
from waiting import until

from penstock_net.vswitch.attach.lab import Namespace

HERE = Path(__file__).parent
LEAVES = """
import subprocess

def test_that_fails():
    program = subprocess.Popen(["sh", "-c", "sleep 12345 & echo $!; exec sleep 12345"], stdout=subprocess.PIPE, text=True)
    orphan = program.stdout.readline()
    program.kill()
    program.wait()
    open("orphan", "w").write(orphan)
    raise ZeroDivisionError

def test_that_passes():
    pass
"""


def gone(pid):
    """Ended, whether or not anybody has waited for it."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == b""
    except OSError:
        return True


def test_what_a_failed_test_has_left_is_ended_and_named(tmp_path):
    for name in ("conftest.py", "daemons.py"):
        shutil.copy(HERE / name, tmp_path)
    (tmp_path / "test_it.py").write_text(LEAVES)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "the test has left processes running: sleep 12345" in done.stdout, done.stdout
    assert "1 failed, 1 passed, 1 error" in done.stdout, "the error is of the test that left it"
    assert gone(int((tmp_path / "orphan").read_text()))


@pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
def test_a_namespace_ends_what_its_programs_have_left():
    """Such as a worker of nginx whose master was killed: it is in the namespace, but in no process group known to us."""
    with Namespace() as space:
        program = space.start("sh", "-c", "setsid sleep 12345 & echo $!")
        orphan = int(program.stdout.readline())
        program.wait()
        until(lambda: b"sleep" in Path(f"/proc/{orphan}/cmdline").read_bytes())
        assert orphan in space.members() and os.getpid() not in space.members()
    assert gone(orphan)
