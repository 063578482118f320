"""A switch in its own process: applications attach, exchange frames, die and break the protocol; the commands of the CLI."""

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from daemons import A, B, C, ended, forked, up
from frames import payload_of, udp
from waiting import Stopwatch, until

from penstock_net.cli import main
from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.attach import ending
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol
from penstock_net.vswitch.daemon.config import validate_spec
from penstock_net.vswitch.daemon.server import Daemon
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region
from penstock_net.vswitch.support.threads import Crew


@pytest.fixture(scope="module")
def switch(tmp_path_factory):
    with up(tmp_path_factory.mktemp("switch")) as (process, path):
        yield process, path
        assert process.poll() is None, "the switch has died"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and not Path(path).exists()


def ports(path):
    return {p["port"]: p for p in protocol.ask(path, {"show": "ports"})["ports"]}


def gone(path, *names):
    """Wait until ports have been detached."""
    until(lambda: not set(names) & set(ports(path)), f"ports {names} are detached")


def send_numbers(path, count):
    with connect("a", path) as port:
        assert port.send_all(0, [udp(A, B, payload=b"%d" % i) for i in range(count)], timeout=120) == count
        while port.waiting(0) and not port.gone:
            time.sleep(0.001)


def test_two_processes_and_a_slow_receiver(switch):
    """Nothing is lost, doubled or overtaken, though the receiver pauses now and then."""
    _, path = switch
    count = 4000
    with connect("b", path) as port:
        with forked(send_numbers, path, count) as child:
            found, end = [], time.monotonic() + 120
            while len(found) < count and time.monotonic() < end:
                found += [int(payload_of(f)) for _, f in port.receive(64, timeout=120)]
                if len(found) % 5 == 0:
                    time.sleep(0.001)
            child.join(60)
            assert found == list(range(count)) and child.exitcode == 0
        assert ports(path)["b"]["nonsense"] == 0
    gone(path, "a", "b")
    last = [p for p in protocol.ask(path, {"show": "detached"})["detached"] if p["port"] == "a"][-1]
    assert last["received_frames"] == count and last["drops"] == {}


def test_asyncio(switch):
    _, path = switch

    async def answer(port):
        for _ in range(50):
            for _, frame in await port.receive_async():
                assert port.send(0, [udp(B, A, payload=payload_of(frame))]) == 1

    async def talk():
        with connect("a", path) as a, connect("b", path) as b:
            server = asyncio.create_task(answer(b))
            for i in range(50):
                assert a.send(0, [udp(A, B, payload=b"%d" % i)]) == 1
                assert [payload_of(f) for _, f in await asyncio.wait_for(a.receive_async(), 60)] == [b"%d" % i]
            await server

    asyncio.run(talk())
    gone(path, "a", "b")


def blast(path, seed):
    rng = random.Random(seed)
    with connect("c", path, buffers=256, queues=16) as port:
        while True:
            port.send(
                rng.randrange(16), [udp(C, B, rng.randrange(1, 40), payload=bytes(rng.randrange(900)))] * rng.randrange(1, 20)
            )
            port.receive(5)
            if rng.random() < 0.1:
                port.close_queue(rng.randrange(16))


def test_an_application_killed_at_any_instant(switch):
    """Its memory is given back at once, others lose nothing, it can come again; more often: tests/simulated/test_killed.py."""
    process, path = switch
    rng, times = random.Random(7), []
    with connect("a", path) as a, connect("b", path) as b:
        sent, found = 0, []
        for seed in range(4):
            with forked(blast, path, seed) as child:
                until(lambda: "c" in ports(path))
                end = time.monotonic() + rng.uniform(0.0, 0.1)
                while time.monotonic() < end or sent <= 10 * seed:
                    sent += a.send(0, [udp(A, B, payload=b"%d" % sent)])
                    found += [int(payload_of(f)) for _, f in b.receive(64) if f[26:30] == bytes([10, 0, 0, 1])]
                os.kill(child.pid, signal.SIGKILL)
                child.join(60)
                watch = Stopwatch(process.pid)
                gone(path, "c")
                times.append(watch.elapsed())
        end = time.monotonic() + 120
        while len(found) < sent and time.monotonic() < end:
            found += [int(payload_of(f)) for _, f in b.receive(64, timeout=0.1) if f[26:30] == bytes([10, 0, 0, 1])]
        assert found == list(range(sent)) and sent > 100
        assert ports(path)["a"]["drops"] == {}
    assert sorted(times)[len(times) // 2] < 0.1, times
    gone(path, "a", "b")


def mapped_regions(process):
    return Path(f"/proc/{process.pid}/maps").read_text().count("memfd:penstock")


def test_nothing_is_left_of_detached_applications(switch):
    process, path = switch

    def descriptors():
        return len(os.listdir(f"/proc/{process.pid}/fd"))

    with connect("a", path):
        pass
    until(lambda: mapped_regions(process) == 0)
    before = descriptors()
    for _ in range(20):
        with connect("a", path) as port:
            port.send(0, [udp(A, B)])
    until(lambda: mapped_regions(process) == 0 and descriptors() <= before + 2)


def test_admission(switch):
    _, path = switch
    with connect("a", path):
        with pytest.raises(SpecError, match="attached"):
            connect("a", path)
        with pytest.raises(SpecError, match="no such port"):
            connect("z", path)
        with pytest.raises(SpecError, match="too large"):
            connect("b", path, buffers=1 << 16)
    with pytest.raises(SpecError, match="no switch answers"):
        connect("a", path + "x")
    gone(path, "a")


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"[]\n",
        b"{}\n",
        b'{"show": "x"}\n',
        b'{"attach": 3}\n',
        b'{"attach": "a", "shape": {"rings": -1}}\n',
        b"\xff\n",
        b'{"attach": "a"}\n',
        b"[" * 60000 + b"\n",
        b"x" * 70000,
        b'{"set": {"th_goal": {}}}\n',
        b'{"set": {"mode": []}}\n',
        b'{"set": {"port.a.addresses": [3]}}\n',
        b'{"set": {"port.": 3}}\n',
        b'{"set": {"port.a.addresses": {"x": []}}}\n',
        b'{"reload": {"port": [{}]}}\n',
        b'{"reload": {}}\n',
        b'{"capture": 3}\n',
        b'{"capture": ["a"], "memory": -1}\n',
        b'{"capture": ["a"], "snap": "x"}\n',
        b'{"capture": [], "x": 1}\n',
        b'{"drain": true, "seconds": "x"}\n',
        b'{"show": "flows", "most": -1}\n',
    ],
)
def test_a_request_may_be_anything(switch, data):
    _, path = switch
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(path)
        try:
            connection.sendall(data)
            if not data.endswith(b"\n"):
                connection.shutdown(socket.SHUT_WR)  # the switch would wait for the rest of it
            answer = connection.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        assert answer == b"" or "error" in json.loads(answer)
    assert ports(path) == {}


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_of_a_processor(process, seconds):
    """That a process uses for so long."""
    before = cpu_seconds(process)
    time.sleep(seconds)
    return (cpu_seconds(process) - before) / seconds


def test_idle_costs_nearly_nothing(switch):
    process, path = switch
    with connect("a", path) as a, connect("b", path) as b:
        a.send(0, [udp(A, B)])
        assert b.receive(1, timeout=120)
        until(lambda: share_of_a_processor(process, 0.2) < 0.03, "it goes to sleep")
        assert share_of_a_processor(process, 2) < 0.03
        watch = Stopwatch(process.pid)
        a.send(0, [udp(A, B)])
        assert b.receive(1, timeout=120) and watch.elapsed() < 0.2, "and it wakes up at once"
    gone(path, "a", "b")


def test_commands(switch, capsys):
    _, path = switch

    def run(*arguments):
        status = main(["vswitch", *arguments, "--socket", path])
        out = capsys.readouterr()
        return status, out.out, out.err

    status, out, err = run("show", "ports")
    assert (status, err) == (0, "") and re.match("no ports\nlost since the switch was started, in all: ", out)
    status, out, _ = run("show", "settings", "--json")
    assert status == 0 and json.loads(out)["mode"] == "backdraft"
    assert run("set", "th_goal=16KB", "burst=64")[:2] == (0, "th_goal=16000  burst=64\n")
    for wrong, message in (
        ("th_goal=16MB", "must rise"),
        ("th_gaol=1KB", 'did you mean "th_goal"'),
        ("burst", "KEY=VALUE"),
        ("mode=fast", "one of"),
    ):
        status, _, err = run("set", wrong)
        assert status == 2 and message in err and len(err.splitlines()) <= 2
    status, _, err = run("show", "port")
    assert status == 2 and 'did you mean "ports"' in err
    assert main(["vswitch", "show", "--socket", path + "x"]) == 2
    assert main(["vswitch", "shw"]) == 2 and 'did you mean "show"' in capsys.readouterr().err
    assert main(["vswitch", "doctor"]) == 0
    for name in ("up", "show", "capture", "set", "reload", "drain", "down", "doctor"):
        assert main(["vswitch", name, "--help"]) == 0 and f"penstock vswitch {name}" in capsys.readouterr().out


def test_drain_and_down(tmp_path, capsys):
    with up(tmp_path, "dpfq") as (process, path), connect("a", path) as a, connect("b", path):
        a.send(0, [udp(A, B)] * 3)
        assert main(["vswitch", "drain", "--socket", path]) == 0 and "drained" in capsys.readouterr().out
        with pytest.raises(SpecError, match="drained"):
            connect("c", path)
        assert main(["vswitch", "down", "--socket", path]) == 0
        assert process.wait(60) == 0 and a.gone


@pytest.mark.parametrize(
    "content, message",
    [
        ({}, "no \\[\\[port"),
        ({"swich": {}}, "did you mean"),
        ({"port": [{"name": 3}]}, "name"),
        ({"port": [{"name": "a", "addresses": ["x"]}]}, "must be an IPv4"),
        ({"port": 3}, "tables"),
        ({"port": [{"name": "a", "addresses": [A]}], "switch": {"cpu": 999}}, "cpu"),
        ({"port": [{"name": "a", "addresses": [A], "uid": "me"}]}, "uid"),
        ({"port": [{"name": "a", "addresses": [A], "memory": "x"}]}, "memory"),
    ],
)
def test_specs_may_be_anything(content, message):
    with pytest.raises(SpecError, match=message):
        validate_spec(content)


def test_a_switch_that_closes_the_connection_between_request_and_answer(tmp_path):
    """It is reported in one line, whether the request or the answer is lost."""
    for last_word in (b"", b"{"):
        path = tmp_path / f"s{len(last_word)}"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()

            def hang_up(listener=listener, last_word=last_word):
                connection, _ = listener.accept()
                connection.sendall(last_word)
                connection.close()

            thread = threading.Thread(target=hang_up)
            thread.start()
            with pytest.raises(SpecError, match="closed the connection"):
                protocol.ask(str(path), {"show": "x" * 4_000_000})
            thread.join()


def test_the_switch_ends_even_if_a_part_of_its_end_fails(tmp_path, monkeypatch):
    """Its workers went on, and nobody was told, in a program of which it was one part."""
    errors, before = [], set(threading.enumerate())

    def serve():
        try:
            daemon.serve()
        except PenstockError as error:
            errors.append(str(error))

    def fails(devices):
        raise PenstockError("an edge")

    monkeypatch.setattr(ending, "release_all", fails)
    daemon = Daemon({"port": [{"name": "a", "addresses": [A]}]}, str(tmp_path / "s.sock"))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        until(lambda: daemon.keeper)
    finally:
        daemon.over.set()
        thread.join(60)
    assert errors == ["could not be ended: the edges (an edge)"] and daemon.ended.is_set()
    until(lambda: set(threading.enumerate()) <= before, "its threads have ended")


def test_devices_stay_open_while_a_worker_may_use_their_memory(tmp_path, monkeypatch):
    """A worker that had not ended went on with memory and descriptors that were somebody else's by then."""
    errors = []

    def serve():
        try:
            daemon.serve(daemon.over.set)
        except PenstockError as error:
            errors.append(str(error))

    def fails(crew):
        raise RuntimeError("a worker goes on")

    monkeypatch.setattr(Crew, "stop", fails)
    overlay = {"name": "a", "addresses": [A], "kind": "udp", "local": "127.0.0.1:0", "peer": "127.0.0.1:9"}
    daemon = Daemon({"port": [overlay]}, str(tmp_path / "s.sock"))
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        thread.join(60)
        assert errors == ["could not be ended: the workers (a worker goes on)"] and daemon.ended.is_set()
        assert not daemon.devices["a"].port.closed
    finally:
        monkeypatch.undo()
        daemon.switch.stop()
        ending.close_all(daemon.devices.values())


STUCK = """
import sys
from penstock_net.cli import main
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.support import threads
threads.PATIENCE_S = 0.1
class Stuck(threads.threading.Thread):
    def is_alive(self):
        return self.name.startswith("worker") or super().is_alive()
threads.threading.Thread = Stuck
sys.exit(main())
"""


def test_a_switch_whose_workers_do_not_end_says_so_in_a_line(tmp_path):
    """It ended with a traceback; whoever had asked for `down` was told that all was well."""
    path, spec, log = tmp_path / "s.sock", tmp_path / "s.toml", tmp_path / "log"
    spec.write_text(f'[switch]\nsocket = "{path}"\n[[port]]\nname = "a"\naddresses = ["{A}"]\n')
    command = [sys.executable, "-c", STUCK, "vswitch", "up", str(spec), "--log", str(log)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stdout.readline().startswith("up: ")
        why = "could not be ended: the workers (a worker has not ended for 0 s: the machine is overloaded)"
        with pytest.raises(SpecError, match=re.escape(why)):
            protocol.ask(str(path), {"down": True}, 60)
        assert process.wait(60) == 1
        assert process.stderr.read() == f"error: {why}\n"
        assert not path.exists() and f"ERROR {why}\n" in log.read_text()


class Stuck:
    """A worker's thread that is waited for in vain."""

    def __init__(self, thread):
        self.thread = thread

    def join(self, timeout):
        self.thread.join()

    def is_alive(self):
        return True


def test_a_worker_that_does_not_end_is_reported():
    """Its ports were removed, and it went on with them."""
    with contextlib.closing(Switch()) as switch:
        switch.attach("a", Region.create(), [A])
        switch.start()
        switch.crew.threads[0] = Stuck(switch.crew.threads[0])
        with pytest.raises(RuntimeError, match="a worker has not ended"):
            switch.stop()
        assert "a" in switch.numbers
