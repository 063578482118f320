"""The switch as a service: its notifications to the manager, and its operation under the restrictions of the unit."""

import configparser
import contextlib
import ctypes
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from daemons import ended, running
from frames import udp
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from waiting import until

from penstock_net.errors import PenstockError
from penstock_net.vswitch.client.capture import capture
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import doctor, log, places, protocol, systemd
from penstock_net.vswitch.daemon.systemd import Pulse, notify
from penstock_net.vswitch.linux import scheduling

A, B = "10.0.0.1", "10.0.0.2"
ROOT = Path(__file__).parents[2]
UNIT = ROOT / "packaging/penstock-vswitch@.service"
PORTS = [{"name": "a", "addresses": [A]}, {"name": "b", "addresses": [B]}]


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A socket as systemd's; calling it gives the next message."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        path = str(tmp_path / "notify")
        sock.bind(path)
        sock.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        yield lambda: sock.recv(4096).decode().split("\n")


def test_what_the_manager_is_told(manager, tmp_path):
    path = str(tmp_path / "s.sock")
    with running(path, {"port": PORTS}) as daemon:
        assert manager() == ["READY=1", "STATUS=mode backdraft, 2 ports, attached: none"]
        with connect("b", path):
            assert manager() == ["STATUS=mode backdraft, 2 ports, attached: b"]
        assert manager() == ["STATUS=mode backdraft, 2 ports, attached: none"]
        daemon.over.set()
        assert manager() == ["STOPPING=1"]


def test_the_watchdog_asks_the_worker(manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    now = 5.0
    monkeypatch.setattr(systemd.time, "monotonic", lambda: now)
    pulse, alive = Pulse(), []
    pulse.beat(lambda: alive.append(1))
    assert manager() == ["WATCHDOG=1"]
    now += 0.009
    pulse.beat(lambda: alive.append(2))
    now += 0.002

    def dead():
        raise RuntimeError("the worker has ended")

    pulse.beat(dead)
    assert alive == [1] and notify("X=1") and manager() == ["X=1"], "nothing was said of a dead worker"
    for name, value in (("WATCHDOG_PID", "1"), ("WATCHDOG_USEC", "")):
        monkeypatch.setenv(name, value)
        assert Pulse().period == 0


def test_without_a_manager(monkeypatch):
    for path in ("", "relative", "/nowhere/at/all", "@nobody-listens-there"):
        monkeypatch.setenv("NOTIFY_SOCKET", path)
        assert not notify("READY=1")


def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser["Service"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")
def test_systemd_understands_the_units(tmp_path):
    """Also with each of the drop-ins."""
    text = re.sub(r"^(Exec\w+=-?)penstock\b", rf"\1{sys.executable}", UNIT.read_text(), flags=re.M)
    (tmp_path / "penstock-vswitch@.service").write_text(text)
    for extra in (None, "tap.conf", "packet.conf", "namespaces.conf", "realtime.conf"):
        folder = tmp_path / "penstock-vswitch@x.service.d"
        shutil.rmtree(folder, ignore_errors=True)
        if extra:
            folder.mkdir()
            shutil.copy(ROOT / "packaging" / extra, folder)
        command = ["systemd-analyze", "verify", "--man=no", "./penstock-vswitch@x.service"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done.stderr
        rules = ["systemd-analyze", "security", "--offline=yes", "--json=short", "./penstock-vswitch@x.service"]
        done = subprocess.run(rules, cwd=tmp_path, capture_output=True, text=True)
        kept = {row["json_field"]: row["set"] for row in json.loads(done.stdout)}
        assert kept["RestrictRealtime"] == (extra != "realtime.conf"), "workers may be SCHED_RR with it, and only then"
        assert kept["NoNewPrivileges"] and kept["MemoryDenyWriteExecute"]
        if extra == "realtime.conf":  # what is said when they may not names it, and what it has
            said = str(scheduling.refusal_of(PermissionError(errno.EPERM, "no")))
            written = [line for line in (folder / extra).read_text().splitlines() if "=" in line and line[0] != "#"]
            assert written == ["LimitRTPRIO=1", "RestrictRealtime=no"] and all(line in said for line in [*written, extra])


def syscalls(group, seen=()):
    """Names of a group such as @system-service."""
    done = subprocess.run(["systemd-analyze", "syscall-filter", group], capture_output=True, text=True)
    names = [line.strip() for line in done.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    for name in names:
        if name.startswith("@") and name not in seen:
            yield from syscalls(name, (*seen, name))
        elif not name.startswith("@"):
            yield name


def can_confine():
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return os.getuid() == 0 and all(map(shutil.which, ("setpriv", "systemd-analyze")))


def answers(path):
    try:
        return protocol.ask(path, {"show": "settings"})
    except PenstockError:
        return None


@pytest.mark.skipif(not can_confine(), reason="needs root, setpriv, libseccomp and systemd-analyze")
def test_all_works_with_what_the_unit_leaves(tmp_path):
    """Without capabilities, with the unit's system calls and address families: attach, send, look, capture, change, die."""
    service = unit()
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == ""
    assert [service[key] for key in ("MemoryDenyWriteExecute", "NoNewPrivileges")] == ["yes", "yes"]
    allowed = sorted(set(syscalls(service["SystemCallFilter"])))
    families = {int(getattr(socket, name)) for name in service["RestrictAddressFamilies"].split()}
    assert len(allowed) > 200 and "memfd_create" in allowed
    folder = tmp_path / "run"
    folder.mkdir()
    path = str(folder / "s.sock")
    code = f"""
import signal, socket, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests/vswitch")!r}]
from confinement import confine
from penstock_net.vswitch.daemon.server import Daemon
confine({allowed!r}, {families!r})
daemon = Daemon({{"switch": {{"metrics": "127.0.0.1:0"}}, "port": {PORTS!r}}}, {path!r})
signal.signal(signal.SIGTERM, lambda *_: daemon.over.set())
try:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
except OSError as error:
    print(error.errno, daemon.metrics.port, flush=True)
daemon.serve()
print("down", flush=True)
"""
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", sys.executable, "-c", code]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        said = process.stdout.readline().split()
        assert said and said[0] == "97", process.communicate(timeout=120)
        until(lambda: answers(path))
        with connect("a", path) as a, connect("b", path) as b:
            done = {}
            thread = threading.Thread(target=lambda: done.update(capture(["a"], None, count=20, path=path, seconds=120)))
            thread.start()
            while not protocol.ask(path, {"show": "captures"})["captures"]:
                time.sleep(0.005)
            assert a.send_all(0, [udp(A, B)] * 50, timeout=60) == 50
            got = 0
            while got < 50 and (found := b.receive(64, timeout=120)):
                got += len(found)
            thread.join(60)
            assert got == 50 and done["frames"] == 20
            change = {"th_net": "1MB", "port.a.addresses": [A, "10.9.0.1"]}
            assert protocol.ask(path, {"set": change})["settings"]["th_net"] == 10**6
            text = urllib.request.urlopen(f"http://127.0.0.1:{said[1]}/metrics", timeout=120).read().decode()
            assert len(list(text_string_to_metric_families(text))) > 20
        code = (
            f"from penstock_net.vswitch.client.client import connect\n"
            f"p = connect('a', {path!r}); print(1, flush=True); p.receive(1, 60)"
        )
        with ended(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)) as child:
            child.stdout.readline()
        until(lambda: not protocol.ask(path, {"show": "ports"})["ports"], "the death of an application is seen")
        assert protocol.ask(path, {"drain": True})["drained"]
        process.terminate()
        assert process.wait(60) == 0 and process.stdout.read() == "down\n"


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
@pytest.mark.parametrize("file, ability, capability", [("tap.conf", "tap", "net_admin"), ("packet.conf", "packet", "net_raw")])
def test_a_drop_in_has_the_least_capability(file, ability, capability):
    """With it the port can be opened, without it not."""
    if not {a.name: a for a in doctor.doctor()}[ability].permitted:
        pytest.skip(f"{ability} ports are not permitted here")
    text = (ROOT / "packaging" / file).read_text()
    assert re.search(rf"^AmbientCapabilities=CAP_{capability.upper()}$", text, re.M)
    code = f"from penstock_net.vswitch.daemon import doctor; assert doctor.ability({ability!r}).permitted"
    for caps, works in ((f"-all,+{capability}", True), ("-all", False)):
        options = [f"--bounding-set={caps}", f"--inh-caps={caps}", "--no-new-privs"]
        done = subprocess.run(["setpriv", *options, sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode == 0) == works, done.stderr


def test_the_doctor_says_what_each_kind_of_port_needs(monkeypatch):
    """Every name that a kind needs is one that is tried; without it the kind cannot be used."""
    found = doctor.doctor()
    kinds = doctor.kinds(found)
    assert {name for kind in kinds for name in doctor.needs()[kind]} <= {a.name for a in found}
    without = [a._replace(permitted=a.name != "packet") for a in found]
    assert doctor.kinds(without)["packet"] == ["packet"] and doctor.kinds(without)["udp"] == []
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: (256, 256))
    monkeypatch.setattr(places, "ROOTS_FOLDER", Path("/nowhere/penstock"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
    rows = {row["what"]: row for row in doctor.examine()}
    assert not rows["descriptors"]["ok"] and "ulimit -n 640" in rows["descriptors"]["detail"]
    assert not rows["socket"]["ok"] and "not permitted: " in rows["port shm"]["detail"] and "socket" in rows["port shm"]["detail"]


def test_the_switch_runs_where_no_memory_becomes_executable():
    """MemoryDenyWriteExecute= makes mprotect fail, with which polars looks at the processor: the switch does without it."""
    code = (
        "import ctypes, sys\n"
        "refused = ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)\n"  # PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN; Linux 6.3
        "from penstock_net.vswitch.daemon.server import Daemon\n"
        "from penstock_net.vswitch.client import capture, client, plug\n"
        f"Daemon({{'port': {PORTS!r}}}, sys.argv[1])\n"
        "print([name for name in ('polars', 'networkx', 'pydantic') if name in sys.modules])\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", code, f"{folder}/s"], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr


class Into(logging.Handler):
    """Keeps the messages of the log, by level."""

    def __init__(self, lines):
        super().__init__()
        self.lines = lines

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))


def test_what_is_logged(tmp_path, monkeypatch):
    """Who attaches, asks and changes; refusals of connections in one line, however many."""
    path, lines = str(tmp_path / "s.sock"), []
    handler, before = Into(lines), log.log.level
    log.log.addHandler(handler)
    log.log.setLevel("DEBUG")
    try:
        with running(path, {"port": PORTS}) as daemon:
            with connect("a", path):
                protocol.ask(path, {"set": {"burst": 7}})
                with pytest.raises(PenstockError):
                    protocol.ask(path, {"set": {"burst": 0}})
            with contextlib.ExitStack() as stack:
                for _ in range(60):
                    stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
                until(lambda: daemon.refused)
            until(lambda: not daemon.requesting and not daemon.attached)
    finally:
        log.log.removeHandler(handler)
        log.log.setLevel(before)
    me = f"process {os.getpid()} of user {os.getuid()}"
    for level, text in (
        ("INFO", f"attached: port a: application of {me}"),
        ("INFO", f"{me} sets {{'burst': 7}}"),
        ("INFO", f"{me}: refused: switch.burst = 0: must be between 1 and 1048576; nearest: 1"),
        ("INFO", "detached: port a: it has closed its connection"),
        ("INFO", "down"),
    ):
        assert (level, text) in lines, lines
    refusals = [text for level, text in lines if level == "WARNING"]
    assert len(refusals) == 1 and "connections refused, the last one of user" in refusals[0]
    assert any(level == "DEBUG" and "'set': {'burst': 7}" in text for level, text in lines)


def test_where_the_log_goes(tmp_path, monkeypatch, capfd):
    """A file, standard error, or the journal with priorities; quieter levels leave lines out."""
    before = list(log.log.handlers), log.log.level, log.log.propagate
    monkeypatch.setattr(log, "LAST_S", 60)  # a busy machine may not get to the writing thread within a second
    try:
        log.start("warning", tmp_path / "log")
        log.log.info("quiet")
        log.log.warning("loud")
        log.log.handlers[0].flush()
        assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:,]+ WARNING loud\n", (tmp_path / "log").read_text())
        found = os.fstat(2)
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        log.start("info")
        log.log.info("two\nlines")
        log.log.error("bad")
        log.log.handlers[0].flush()
        assert capfd.readouterr().err == "<6>two lines\n<3>bad\n"
        with pytest.raises(PenstockError, match="--log"):
            log.start("info", tmp_path / "none" / "log")
    finally:
        log.log.handlers[:], log.log.propagate = before[0], before[2]
        log.log.setLevel(before[1])


def test_a_log_that_nobody_reads_delays_nothing(tmp_path):
    """Requests that are logged are answered while standard error is a full pipe, and the switch ends."""
    (tmp_path / "s.toml").write_text("".join(f'[[port]]\nname = "{p["name"]}"\naddresses = {p["addresses"]}\n' for p in PORTS))
    path = str(tmp_path / "s.sock")
    up = [sys.executable, "-c", "import sys; from penstock_net.cli import main; sys.exit(main())", "vswitch", "up"]
    reader, writer = os.pipe()
    with os.fdopen(reader) as said:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        with subprocess.Popen(
            [*up, str(tmp_path / "s.toml"), "--socket", path], stderr=writer, stdout=subprocess.DEVNULL
        ) as program:
            os.close(writer)
            try:
                until(lambda: answers(path))
                for number in range(200):
                    protocol.ask(path, {"set": {"burst": 7 + number % 20}})
                protocol.ask(path, {"down": True})
                assert program.wait(60) == 0
            finally:
                program.kill()
        assert sum("'burst'" in line for line in said) > 20


def test_lines_beyond_a_thousand_are_dropped_and_counted():
    reader, writer = os.pipe()
    with os.fdopen(reader) as said:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        handler = log.Writer(writer)
        for number in range(3000):
            handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "line %d " + 40 * ".", (number,), None))
        written = told = 0
        while written + told < 3000:
            line = said.readline()
            written += line.startswith("line")
            told += int(line[1:].split()[0]) if "dropped" in line else 0
        assert written + told == 3000 and told > 1000
        os.close(writer)
