"""Unmodified programs of two network namespaces that talk through the switch; skipped where the machine forbids them."""

import contextlib
import hashlib
import socket
import threading
import time

import pytest
from frames import udp
from test_lab import FORBIDDEN, PONG

from penstock.errors import SpecError
from penstock.vswitch.client import connect
from penstock.vswitch.daemon import Daemon
from penstock.vswitch.gateway import Gateway, answer, flow_of, mac_of
from penstock.vswitch.lab import Namespace
from penstock.vswitch.messages import ask

HERE, THERE = "10.77.0.1", "10.77.0.2"
permitted = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))
SINK = """
import hashlib, socket, sys
s = socket.create_server(("0.0.0.0", 9001))
print("ready", flush=True)
c, _ = s.accept()
digest, count = hashlib.sha256(), 0
while data := c.recv(1 << 16):
    digest.update(data); count += len(data)
c.close()
print(count, digest.hexdigest(), flush=True)
"""


@contextlib.contextmanager
def plugged(tmp_path, mode="backdraft"):
    """Two namespaces, a TAP in each, and a switch between them."""
    spec = {"switch": {"mode": mode}, "port": [{"name": "a", "addresses": [HERE]}, {"name": "b", "addresses": [THERE]}]}
    daemon = Daemon(spec, str(tmp_path / "switch.sock"))
    thread = threading.Thread(target=daemon.serve)
    thread.start()
    try:
        with contextlib.ExitStack() as stack:
            names, gateways = [], []
            for name, address in (("a", HERE), ("b", THERE)):
                space = stack.enter_context(Namespace(name))
                tap = stack.enter_context(space.tap(f"{address}/24", headers=False))
                app = stack.enter_context(connect(name, daemon.path))
                gateways.append(stack.enter_context(Gateway(tap, app)))
                names.append(space)
            yield (*names, *gateways)
    finally:
        daemon.over.set()
        thread.join()


@permitted
@pytest.mark.parametrize("mode", ["backdraft", "dpfq", "lossy"])
def test_datagrams_there_and_back(tmp_path, mode):
    with plugged(tmp_path, mode) as (left, right, a, b):
        pong = right.start("python3", "-c", PONG)
        assert pong.stdout.readline().strip() == "ready"
        with left.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.settimeout(5)
            took = []
            for i in range(200):
                began = time.perf_counter()
                s.sendto(b"%d" % i + bytes(i), (THERE, 9000))
                assert s.recv(2000) == b"%d" % i + bytes(i)
                took.append(time.perf_counter() - began)
        rows = ask(str(tmp_path / "switch.sock"), {"show": "ports"})["ports"]
        assert all(row["received_frames"] >= 200 and not row["drops"] for row in rows), "they went through the switch"
        assert a.counters["answered"] >= 1 and a.kernel.counters["kernel_lost"] == b.kernel.counters["kernel_lost"] == 0
        assert sorted(took)[100] < 0.1, "half of the round trips take less than 100 ms, on the busiest machine"


@permitted
def test_a_stream_arrives_whole(tmp_path):
    """TCP, of the kernel's own, 8 MB through the switch."""
    content = hashlib.shake_128(b"stream").digest(8_000_000)
    with plugged(tmp_path) as (left, right, a, b):
        sink = right.start("python3", "-c", SINK)
        assert sink.stdout.readline().strip() == "ready"
        with left.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(20)
            s.connect((THERE, 9001))
            s.sendall(content)
        count, digest = sink.stdout.readline().split()
        assert int(count) == len(content) and digest == hashlib.sha256(content).hexdigest()
        assert a.counters["not_ipv4"] >= 0 and b.waiting == 0


@permitted
def test_a_gateway_wants_plain_frames(tmp_path):
    with Namespace("plain") as space, space.tap("10.77.0.9/24") as tap, pytest.raises(SpecError, match="headers=False"):
        Gateway(tap, None)


def test_answers_to_address_requests():
    me, you = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
    ask = b"\xff" * 6 + b"\x0a" * 6 + b"\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01" + b"\x0a" * 6 + me + bytes(6) + you
    reply = answer(ask)
    assert reply[:6] == b"\x0a" * 6 and reply[20:22] == b"\x00\x02" and reply[22:28] == mac_of(you) and reply[28:32] == you
    assert reply[32:38] == b"\x0a" * 6 and reply[38:42] == me and answer(reply) is None
    assert answer(ask[:28] + bytes(4) + ask[32:]) is None, "a probe for an address that is free"
    assert answer(ask[:38] + me) is None and answer(ask[:40]) is None and answer(udp(HERE, THERE, payload=b"x")) is None


def test_a_flow_keeps_its_queue():
    assert flow_of(udp(HERE, THERE, payload=b"x"), 64) == flow_of(udp(HERE, THERE, payload=b"yy" * 50), 64)
    assert len({flow_of(udp(HERE, THERE, p, p), 64) for p in range(500)}) > 50
    later = bytearray(udp(HERE, THERE, 1, 1, b"x" * 30))
    later[21] = 5                   # a later fragment has no ports
    other = bytearray(udp(HERE, THERE, 2, 2, b"x" * 30))
    other[21] = 5
    assert flow_of(bytes(later), 64) == flow_of(bytes(other), 64)
