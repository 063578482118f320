"""The speed of the kernel's ports on this machine, one core each way, and of TCP over two TAPs beside a plain veth pair.

    python tools/port_speed.py            # needs root, and iperf3 for the second table; about a minute

A port's two directions are measured apart: some frames are sent, then taken, and each is timed by itself; the best of five.
"""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from penstock_net.vswitch.attach.lab import Namespace, veth
from penstock_net.vswitch.attach.open import open_link, open_port
from penstock_net.vswitch.ports.base import Bridge, Clock, Port

ETHERTYPE = b"\x88\xb5"  # an experimental one: the kernel lets go of it at once
SECONDS = 0.3


def frame_of(size: int, headers: bool) -> bytes:
    return (bytes(10) if headers else b"") + b"\x02" + bytes(11) + ETHERTYPE + bytes(size - 14)


def speed(a: Port, b: Port, frame: bytes, clock: Clock | None = None, sent_only: bool = False) -> tuple[float, float]:
    """Frames per second out of a, and into b."""
    best = [0.0, 0.0]
    for _ in range(5):
        times, counts, end = [0.0, 0.0], [0, 0], time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            start = time.perf_counter()
            counts[0] += a.flood(frame, 256)
            middle = time.perf_counter()
            if clock:
                clock.ns += 10**9
            if not sent_only:
                counts[1] += b.swallow(256)
            times[0] += middle - start
            times[1] += time.perf_counter() - middle
        best = [max(x, n / t) for x, n, t in zip(best, counts, times)]
    return best[0], 0.0 if sent_only else best[1]


@contextlib.contextmanager
def pairs(kind: str, left: Namespace, right: Namespace) -> Iterator[tuple[Port, Port, Clock | None]]:
    """Two ports such that what goes out of the one comes into the other."""
    with contextlib.ExitStack() as stack:
        if kind == "tap":
            tap = stack.enter_context(left.tap("10.77.0.1/24"))
            with left.enter():
                packet = stack.enter_context(open_port("packet", device="tap0"))
            yield packet, tap, None
        elif kind in ("packet", "xdp"):
            stack.enter_context(veth(left, right))
            ends = []
            for side in (left, right):
                with side.enter():
                    ends.append(stack.enter_context(open_port(kind, device="veth0", batch=64)))
            yield ends[0], ends[1], None
        elif kind.startswith("udp"):
            many = {"segments": kind == "udp", "batch": 64}
            if kind == "udp veth":
                stack.enter_context(veth(left, right, ("10.78.0.1/24", "10.78.0.2/24")))
                with left.enter():
                    a = open_port("udp", local="10.78.0.1:7000", peer="10.78.0.2:7000", batch=64)
                with right.enter():
                    b = open_port("udp", local="10.78.0.2:7000", peer="10.78.0.1:7000", batch=64)
            else:
                a = open_port("udp", local="127.0.0.1:47101", peer="127.0.0.1:47102", **many)
                b = open_port("udp", local="127.0.0.1:47102", peer="127.0.0.1:47101", **many)
            yield stack.enter_context(a), stack.enter_context(b), None
        else:
            clock = Clock()
            a, b = open_link(rate="1Tbps", delay=0, clock=clock, memory="32MiB")
            yield a, b, clock


def ports() -> None:
    print("| port | frames of | out, Mpps | in, Mpps | out, Gbit/s | in, Gbit/s |\n|---|---|---|---|---|---|")
    for kind in ("tap", "packet", "xdp", "udp", "udp one by one", "udp veth", "link"):
        with Namespace("left") as left, Namespace("right") as right, pairs(kind, left, right) as (a, b, clock):
            for size in (64, 1500):
                frame = frame_of(size, a.headers)
                out, into = speed(a, b, frame, clock)
                if kind == "tap":
                    out, _ = speed(b, a, frame, None, True)
                row(kind, size, out, into)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.pcapng"
        for size in (64, 1500):
            frame = frame_of(size, True)
            with open_port("pcap", write=path) as sink:
                start = time.perf_counter()
                sink.flood(frame, 100_000)
                out = 1e5 / (time.perf_counter() - start)
            with open_port("pcap", read=path, timing="fast") as tape:
                start = time.perf_counter()
                tape.swallow(100_000)
                row("pcap", size, out, 1e5 / (time.perf_counter() - start))


def row(kind: str, size: int, out: float, into: float) -> None:
    bits = 8e-9 * size
    print(f"| {kind} | {size} B | {out / 1e6:.2f} | {into / 1e6:.2f} | {bits * out:.1f} | {bits * into:.1f} |", flush=True)


def tcp(left: Namespace, right: Namespace, address: str) -> float:
    server = right.start("iperf3", "-s", "-1", "--forceflush")
    assert server.stdout
    while "listening" not in server.stdout.readline():
        pass
    end = json.loads(left.run("iperf3", "-c", address, "-t", "3", "-J"))["end"]
    return float(end["sum_received"]["bits_per_second"]) / 1e9


def applications(rounds: int = 3) -> None:
    found: dict[str, list[float]] = {"veth": [], "tap": [], "tap, no headers": [], "tap, udp, tap": []}
    for _ in range(rounds):
        with Namespace("left") as left, Namespace("right") as right:
            with veth(left, right, ("10.78.0.1/24", "10.78.0.2/24")):
                found["veth"].append(tcp(left, right, "10.78.0.2"))
            for headers in (True, False):
                with (
                    left.tap("10.77.0.1/24", headers=headers) as a,
                    right.tap("10.77.0.2/24", headers=headers) as b,
                    Bridge(a, b),
                ):
                    found["tap" if headers else "tap, no headers"].append(tcp(left, right, "10.77.0.2"))
            with (
                left.tap("10.77.0.1/24") as a,
                right.tap("10.77.0.2/24") as b,
                open_port("udp", local="127.0.0.1:47001", peer="127.0.0.1:47002", receive_buffer="64MB") as u,
                open_port("udp", local="127.0.0.1:47002", peer="127.0.0.1:47001", receive_buffer="64MB") as v,
                Bridge(a, u),
                Bridge(v, b),
            ):
                found["tap, udp, tap"].append(tcp(left, right, "10.77.0.2"))
    print("\n| between two namespaces | TCP, Gbit/s, best | median | median beside veth |\n|---|---|---|---|")
    middle = {name: sorted(rates)[rounds // 2] for name, rates in found.items()}
    for name, rates in found.items():
        print(f"| {name} | {max(rates):.1f} | {middle[name]:.1f} | {100 * middle[name] / middle['veth']:.0f} % |")


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    ports()
    if shutil.which("iperf3"):
        applications()
    else:
        sys.exit("iperf3 is not installed: no second table")
