"""How soon the switch's threads run once they have work."""

import ctypes
import os
import platform
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock_net.errors import SpecError
from penstock_net.vswitch.daemon.check import missing
from penstock_net.vswitch.daemon.config import validate_spec
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.linux import scheduling as of_threads
from penstock_net.vswitch.linux.netns import libc
from penstock_net.vswitch.linux.scheduling import CALLS, SLICE_NS, hasten_thread, refusal
from penstock_net.vswitch.support.threads import HASTE

LINUX = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
pytestmark = pytest.mark.skipif(
    platform.machine() not in CALLS or LINUX < (6, 12), reason="takes Linux 6.12 on x86-64 or aarch64"
)
NUMBER = CALLS.get(platform.machine(), 0)
AS_NOBODY = """
import os
from penstock_net.vswitch.linux.scheduling import hasten_thread
os.setgid(65534)
os.setuid(65534)
before = os.getpriority(os.PRIO_PROCESS, 0)
hasten_thread(5)
assert os.getpriority(os.PRIO_PROCESS, 0) == before
"""
REFUSED = """
import os, resource
from penstock_net.vswitch.linux.scheduling import refusal
resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))
if not os.geteuid():
    os.setgid(65534)
    os.setuid(65534)
assert "CAP_SYS_NICE" in str(refusal())
assert refusal(realtime=False) is None
assert os.sched_getscheduler(0) == os.SCHED_OTHER
"""
SPEC = {"switch": {"realtime": True}, "port": [{"name": "a", "addresses": ["10.0.0.1"]}]}


def scheduling():
    """Policy, nice and time slice (ns) of this thread."""
    found = ctypes.create_string_buffer(48)
    assert libc().syscall(NUMBER + 1, 0, found, 48, 0) == 0
    _, policy, _, nice, _, slice_ns, _, _ = struct.unpack("=IIQiIQQQ", found.raw)
    return policy, nice, slice_ns


def after(change):
    """Scheduling of a thread of its own after a change."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(change).result()
        return pool.submit(scheduling).result()


def test_a_worker_has_a_short_slice_and_goes_before_usual_threads():
    switch = Switch()
    switch.start()
    try:
        policy, nice, slice_ns = switch.call(scheduling)
    finally:
        switch.stop()
    here = os.getpriority(os.PRIO_PROCESS, 0)
    assert policy == os.SCHED_OTHER and slice_ns == SLICE_NS
    assert nice == max(-20, here - HASTE) if os.geteuid() == 0 else nice <= here
    assert scheduling()[2] != SLICE_NS, "and no other thread has"


def test_a_thread_of_another_class_stays_there():
    policy, nice, slice_ns = after(lambda: (os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)), hasten_thread(5)))
    assert policy == os.SCHED_BATCH and nice == os.getpriority(os.PRIO_PROCESS, 0) and slice_ns != SLICE_NS


def test_nice_stays_where_it_is_not_permitted_to_change():
    if os.geteuid():
        before = os.getpriority(os.PRIO_PROCESS, 0)
        assert after(lambda: hasten_thread(5))[1:] == (before, SLICE_NS)
    else:
        subprocess.run([sys.executable, "-c", AS_NOBODY], check=True)


def test_an_unknown_machine_changes_nothing(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "unknown")
    assert after(lambda: hasten_thread(5)) == scheduling()


@pytest.mark.skipif(refusal() is not None, reason="takes real-time priority")
def test_a_worker_with_realtime_precedes_all_usual_threads(tmp_path):
    daemon = Daemon(SPEC, str(tmp_path / "s"))
    with ThreadPoolExecutor(1) as pool:
        found = []
        serving = pool.submit(daemon.serve, lambda: found.append(daemon.switch.call(classes)))
        daemon.over.set()
        serving.result()
    assert found == [(os.SCHED_RR | os.SCHED_RESET_ON_FORK, 1)]
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def classes():
    """Scheduling class and priority of this thread."""
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority


def test_real_time_priority_that_is_refused_is_an_error_before_anything_is_opened(tmp_path, monkeypatch):
    def refuse():
        raise PermissionError(1, "Operation not permitted")

    subprocess.run([sys.executable, "-c", REFUSED], check=True)
    monkeypatch.setattr(of_threads, "precede", refuse)
    with pytest.raises(SpecError, match=r"switch\.realtime: real-time priority is refused \(Operation not permitted\); give it"):
        Daemon(SPEC, str(tmp_path / "s"))
    assert not list(tmp_path.iterdir())
    assert any(line.startswith("switch.realtime") for line in missing(SPEC, str(tmp_path / "s")))


def test_realtime_is_true_or_false():
    with pytest.raises(SpecError, match=r"switch\.realtime = 1: must be true or false"):
        validate_spec({**SPEC, "switch": {"realtime": 1}})
