"""Programs as they are, over TAPs, through the switch: iperf3, redis, memcached, nginx; and a slow one among them."""

import json
import re
import shutil
import socket
import time

import pytest
from test_devices import THERE, plugged, rows
from test_lab import FORBIDDEN

pytestmark = pytest.mark.skipif(bool(FORBIDDEN), reason="; ".join(FORBIDDEN))


def needs(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} not installed")


def listening(space, port, seconds=10):
    """Wait until something accepts connections there."""
    end = time.monotonic() + seconds
    while True:
        with space.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(1)
            if s.connect_ex((THERE, port)) == 0:
                return
        assert time.monotonic() < end, f"nothing listens at {port}"
        time.sleep(0.05)


def nothing_lost(daemon):
    for row in rows(daemon).values():
        assert not row["drops"] and row["nonsense"] == 0
        device = row["device"]
        assert device["malformed"] == device["errors_out"] == device["too_long"] == device["lost"] == 0, device


@needs("iperf3")
@pytest.mark.parametrize("workers", [1, 2])
def test_iperf3(tmp_path, workers):
    with plugged(tmp_path, workers=workers) as (left, right, daemon):
        server = right.start("iperf3", "-s", "-1", "--forceflush")
        while "listening" not in server.stdout.readline():
            pass
        end = json.loads(left.run("iperf3", "-c", THERE, "-t", "2", "-P", "4", "-J"))["end"]
        assert end["sum_received"]["bytes"] > 10_000_000
        print(f"iperf3 through the switch, {workers} workers: {end['sum_received']['bits_per_second'] / 1e9:.1f} Gbit/s")
        nothing_lost(daemon)


@needs("redis-server", "redis-benchmark")
def test_redis(tmp_path):
    with plugged(tmp_path) as (left, right, daemon):
        right.start("redis-server", "--port", "6379", "--bind", THERE, "--save", "", "--protected-mode", "no",
                    "--dir", str(tmp_path))
        listening(left, 6379)
        out = left.run("redis-benchmark", "-h", THERE, "-t", "set,get", "-n", "20000", "-c", "20", "-d", "100", "--csv",
                       timeout=60)
        rates = dict(re.findall(r'^"(SET|GET)","([\d.]+)"', out, re.M))
        assert set(rates) == {"SET", "GET"} and all(float(rate) > 0 for rate in rates.values())
        print(f"redis through the switch: {rates}")
        nothing_lost(daemon)


@needs("memcached")
def test_memcached(tmp_path):
    """Everything that was stored comes back as it was."""
    with plugged(tmp_path) as (left, right, daemon):
        right.start("memcached", "-u", "nobody", "-l", THERE, "-p", "11211", "-U", "0")
        listening(left, 11211)
        with left.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(10)
            s.connect((THERE, 11211))
            stream = s.makefile("rwb")
            for i in range(2000):
                value = b"%d," % i * (i % 300 + 1)
                stream.write(b"set k%d 0 0 %d\r\n%b\r\n" % (i, len(value), value))
            stream.flush()
            assert all(stream.readline() == b"STORED\r\n" for _ in range(2000))
            for i in range(2000):
                stream.write(b"get k%d\r\n" % i)
            stream.flush()
            for i in range(2000):
                value = b"%d," % i * (i % 300 + 1)
                assert stream.readline() == b"VALUE k%d 0 %d\r\n" % (i, len(value))
                assert stream.readline() == value + b"\r\n" and stream.readline() == b"END\r\n"
        nothing_lost(daemon)


@needs("nginx", "wrk")
def test_nginx_and_wrk(tmp_path):
    page = bytes(range(32, 127)) * 50
    (tmp_path / "index.html").write_bytes(page)
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log stderr crit; user root; worker_processes 1; events {{}}\n"
        f"http {{ access_log off; server {{ listen 8080; root {tmp_path}; }} }}\n")
    with plugged(tmp_path) as (left, right, daemon):
        right.start("nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"))
        listening(left, 8080)
        with left.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
            s.settimeout(10)
            s.connect((THERE, 8080))
            s.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with s.makefile("rb") as answer:
                assert answer.read().partition(b"\r\n\r\n")[2] == page
        out = left.run("wrk", "-t1", "-c20", "-d2s", "--latency", f"http://{THERE}:8080/", timeout=30)
        assert "Socket errors" not in out and "Non-2xx" not in out
        assert int(re.search(r"(\d+) requests in", out)[1]) > 500
        print("wrk through the switch:", re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
        nothing_lost(daemon)


@needs("iperf3")
def test_a_tcp_receiver_that_is_stopped_again_and_again(tmp_path):
    """A program that works one millisecond in ten loses nothing, and another one beside it is not slowed down to its pace."""
    with plugged(tmp_path) as (left, right, daemon):
        slow = right.start("iperf3", "-s", "-p", "5201", "-1", "--forceflush")
        fast = right.start("iperf3", "-s", "-p", "5202", "-1", "--forceflush")
        for server in (slow, fast):
            while "listening" not in server.stdout.readline():
                pass
        with right.slow(slow, work=0.001, rest=0.009):
            ends = [left.start("iperf3", "-c", THERE, "-p", port, "-t", "2", "-J") for port in ("5201", "5202")]
            rates = [json.loads(each.communicate(timeout=40)[0])["end"]["sum_received"]["bits_per_second"] for each in ends]
        assert rates[1] > 2 * rates[0] > 0
        nothing_lost(daemon)
