"""What goes wrong during a soak: a fault is a generator, which begins it, goes on at each `next`, and ends it when closed.

A fault gets the soak (`soak.Soak`: namespaces, the switch's process and socket) and random numbers of its own.
"""

import contextlib
import json
import random
import signal
import socket
import subprocess
import sys
import time

from daemons import forked
from frames import udp
from fuzz_region import Hostile, frames_of
from soak_wire import CLEAN

from penstock_net.errors import PenstockError
from penstock_net.vswitch.attach.lab import DutyCycle
from penstock_net.vswitch.bench.networks import TRAFFIC, stopped, wait_for
from penstock_net.vswitch.client.client import connect
from penstock_net.vswitch.daemon import protocol

C, D = "10.79.0.13", "10.79.0.14"
COMMAND = [sys.executable, "-c", "import sys; from penstock_net.cli import main; sys.exit(main())", "vswitch"]
SHAPE = {"buffers": 256, "queues": 16, "rings": 64, "bells": 64, "buffer_bytes": 2048}


def hostile_application(path, seed):
    """Attaches to port c again and again, and writes anything into its region."""
    rng = random.Random(seed)
    while True:
        try:
            with connect("c", path, **SHAPE) as port:
                hostile = Hostile(port.region.fd, port.region.shape, rng, frames_of(rng))
                for _ in range(2000):
                    hostile.step()
                    if port.gone:
                        break
        except (PenstockError, OSError):  # detached for what it wrote: not again within a second
            time.sleep(0.05)


def busy_application(path, seed):
    """Sends to b and takes what comes, until it is killed."""
    rng = random.Random(seed)
    with connect("d", path, **SHAPE) as port:
        frames = [udp(D, "10.79.0.12", p, payload=bytes(rng.randrange(900))) for p in range(1, 40)]
        while True:
            rng.choice((lambda: port.send(rng.randrange(16), rng.choices(frames, k=9)), lambda: port.receive(5)))()


def hostile(soak, rng):
    with forked(hostile_application, soak.path, rng.randrange(1 << 30)):
        while True:
            yield


def killed(soak, rng):
    """An application is killed at any instant, and another one takes its port."""
    while True:
        with contextlib.suppress(PenstockError), forked(busy_application, soak.path, rng.randrange(1 << 30)):
            for _ in range(rng.randrange(5, 20)):
                yield


@contextlib.contextmanager
def program(space, *words):
    """A program of `bench.traffic`, ended with the `with`."""
    started = space.start(*TRAFFIC, *(str(word) for word in words))
    try:
        wait_for(started, "ready")
        yield started
    finally:
        started.send_signal(signal.SIGCONT)
        started.kill()
        started.wait()


@contextlib.contextmanager
def load(soak, rate, *words, ports=1, sink=()):
    """Datagrams from left to right; the receiver is given."""
    port = soak.free_ports(ports)
    with program(soak.right, "sink", port, "--ports", ports, *sink) as receiver:
        flows = "flows", f"{soak.there}:{port}", "--rate", rate, "--ports", ports, "--seconds", 3600
        with program(soak.left, *flows, *words):
            yield receiver, port


def slow_receiver(soak, rng):
    with load(soak, 8000, "--size", 1000) as (receiver, _), DutyCycle(receiver.pid, 0.001, 0.009):
        while True:
            yield


def unread_socket(soak, rng):
    with load(soak, 4000, "--size", 1000, sink=("--unread",)):
        while True:
            yield


def restarted_receiver(soak, rng):
    with load(soak, 2000, "--size", 500) as (receiver, port):
        while True:
            for _ in range(rng.randrange(10, 30)):
                yield
            receiver.kill()
            receiver.wait()
            yield
            with program(soak.right, "sink", port) as receiver:
                for _ in range(rng.randrange(10, 30)):
                    yield


def churn(soak, rng):
    with load(soak, rng.choice((1000, 5000)), "--sockets", 100, ports=20):
        while True:
            yield


def malformed_requests(soak, rng):
    """Bytes that are no requests, half requests, requests for nothing; some connections stay open for a while."""
    words = [b"\n", b"{}\n", b"[1]\n", b'{"show": 7}\n', b'{"attach": "zz"}\n', b'{"set": {"mode": 1}}\n', b'{"plug": null}\n']
    with contextlib.ExitStack() as stack:
        held = []
        while True:
            with contextlib.suppress(OSError):
                sock = stack.enter_context(socket.socket(socket.AF_UNIX))
                sock.settimeout(0)
                sock.connect(soak.path)
                text = rng.choice([*words, rng.randbytes(rng.randrange(1, 300)), b'{"show": "po', b"x" * 10_000])
                fds = [sock.fileno()] if rng.random() < 0.2 else []
                socket.send_fds(sock, [text], fds)
                held.append(sock)
            for sock in held[:-5]:
                sock.close()
            del held[:-5]
            yield


def captures(soak, rng):
    """Into a file that is thrown away; ended as the user would end it, or killed."""
    while True:
        capture = soak.left.start(*COMMAND, "capture", "--socket", soak.path, "-w", "/dev/null")
        try:
            for _ in range(rng.randrange(20, 60)):
                yield
        finally:
            how = rng.choice((signal.SIGTERM, signal.SIGKILL))  # SIGINT is ignored where the tests run in the background
            while capture.poll() is None:
                capture.send_signal(how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    capture.wait(1)


def settings(soak, rng):
    """Thresholds change, and wrong ones are refused; afterwards they are what they were."""
    before = protocol.ask(soak.path, {"show": "settings"})["settings"]
    keys = ("th_goal", "th_over", "th_net", "idle")
    try:
        while True:
            wrong = rng.random() < 0.3
            values = {"th_over": "0B"} if wrong else {"th_goal": "16KB", "th_over": f"{rng.choice((64, 128, 256))}KB"}
            if rng.random() < 0.3 and not wrong:
                values = {"idle": rng.choice(("20ms", "100ms", "500ms"))}
            with contextlib.suppress(PenstockError):
                protocol.ask(soak.path, {"set": values})
                assert not wrong, "a threshold of nothing was accepted"
            for _ in range(rng.randrange(1, 10)):
                yield
    finally:
        units = {"th_goal": "B", "th_over": "B", "th_net": "B", "idle": "ns"}
        protocol.ask(soak.path, {"set": {key: f"{before[key]}{units[key]}" for key in keys}})


def plugged(soak, rng):
    """Another process brings a TAP and takes it away again, at its leisure or killed, while it sends."""
    while True:
        plug = soak.third.start(*COMMAND, "plug", "p", "--socket", soak.path)
        try:
            for _ in range(rng.randrange(30, 90)):
                with contextlib.suppress(OSError), soak.third.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    sock.setblocking(False)
                    sock.sendto(json.dumps(rng.random()).encode(), (soak.there, 9))
                yield
        finally:
            plug.send_signal(rng.choice((signal.SIGTERM, signal.SIGKILL)))
            plug.wait()


@contextlib.contextmanager
def named(name):
    """A namespace of this name, as `ip netns` makes it, which may be another one in the end."""
    subprocess.run(("ip", "netns", "add", name), check=True)
    try:
        yield name
    finally:
        subprocess.run(("ip", "netns", "del", name), capture_output=True)


def renewed_namespace(soak, rng):
    """A container restarts: its namespace is deleted and made anew, while datagrams are sent there."""
    with soak.left.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)

        def steps(most):
            for _ in range(rng.randrange(1, most)):
                with contextlib.suppress(OSError):
                    for _ in range(20):
                        sock.sendto(bytes(200), (soak.renewed_at, 9))
                yield

        while True:
            subprocess.run(("ip", "netns", "del", soak.renewed), check=True)
            try:
                yield from steps(10)
            finally:
                subprocess.run(("ip", "netns", "add", soak.renewed), check=True)
            yield from steps(20)


def stops(soak, rng):
    """The switch has no processor for a while."""
    while True:
        with stopped(soak.switch.pid):
            time.sleep(rng.choice((0.01, 0.05, 0.2)))
        for _ in range(rng.randrange(5, 20)):
            yield


def bad_network(soak, rng):
    """The network between the two switches loses, doubles and reorders datagrams."""
    try:
        while True:
            soak.harm(drop=rng.choice((0, 0.001, 0.01)), double=rng.choice((0, 0.01, 0.02)), swap=rng.choice((0, 0.01)))
            for _ in range(rng.randrange(10, 40)):
                yield
    finally:
        soak.harm(**CLEAN)


def partition(soak, rng):
    """Nothing passes between the two switches for a while."""
    try:
        while True:
            soak.harm(drop=1)
            for _ in range(rng.randrange(5, 30)):
                yield
            soak.harm(**CLEAN)
            for _ in range(rng.randrange(10, 40)):
                yield
    finally:
        soak.harm(**CLEAN)


def restarted_peer(soak, rng):
    """The other switch is ended, with what it holds, and started again."""
    while True:
        soak.far_switch.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
        soak.far_switch.wait()
        try:
            yield
        finally:
            soak.start_far_switch()
        for _ in range(rng.randrange(20, 60)):
            yield


OF_TWO = {function.__name__: function for function in (bad_network, partition, restarted_peer)}
FAULTS = {
    function.__name__: function
    for function in (
        hostile,
        killed,
        slow_receiver,
        unread_socket,
        restarted_receiver,
        churn,
        malformed_requests,
        captures,
        settings,
        plugged,
        renewed_namespace,
        stops,
    )
}
