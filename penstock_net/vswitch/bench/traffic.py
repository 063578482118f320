"""Programs with plain sockets, for measurements over any network: `python -m penstock_net.vswitch.bench.traffic COMMAND ...`.

    echo PORT                    answers UDP datagrams and TCP messages of 64 B
    probe ADDRESS:PORT           requests at a constant rate, without waiting for answers; prints percentiles of round trips
    sink PORT --ports N          takes UDP datagrams at N ports from PORT on; --unread: binds the sockets and never reads
    flows ADDRESS:PORT           UDP datagrams from --sockets sockets to --ports ports each, at a constant rate in all: a flow for
                                 each pair of ports

Each prints "ready" when it is. Datagrams are sent and received in batches (sendmmsg, recvmmsg), so that 50 000 a second take a
small share of a processor. Only the standard library is imported: a program starts in a tenth of a second.
"""

import argparse
import contextlib
import ctypes
import json
import resource
import select
import socket
import struct
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

SIZE = 64  # bytes of a request and of its answer
LINGER_S = 2.0  # wait for answers after the last request
PERCENTILES = (50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100)
TICK_S = 0.001  # of `flows`: what is due is sent once a tick
MOST_AT_ONCE = 64
DONTWAIT = 0x40
LIBC = ctypes.CDLL(None, use_errno=True)


class Message(ctypes.Structure):
    """struct mmsghdr, with the padding of 64-bit Linux."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint64),
        ("parts", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_uint64),
        ("length", ctypes.c_uint64),
    )


class Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def precise() -> None:
    """Make sleeps of this thread precise: with the default timer slack Linux adds up to 50 us."""
    LIBC.prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK, ns


def ready() -> None:
    print("ready", flush=True)


def split(text: str) -> tuple[str, int]:
    """Address and port of "10.0.0.2:9000"."""
    address, _, port = text.rpartition(":")
    return address, int(port)


# ---- Requests and answers ----


def echo(port: int) -> None:
    """Answer every datagram, and every message of a TCP connection, until killed."""
    threading.Thread(target=echo_streams, args=(port,), daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("0.0.0.0", port))
        ready()
        data = bytearray(2048)
        while True:
            length, sender = sock.recvfrom_into(data)
            with contextlib.suppress(OSError):
                sock.sendto(memoryview(data)[:length], sender)


def echo_streams(port: int) -> None:
    with socket.create_server(("0.0.0.0", port)) as server:
        while True:
            connection, _ = server.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, contextlib.suppress(OSError):
                while data := connection.recv(1 << 16):
                    connection.sendall(data)


class Probe:
    """Requests at a constant rate over a non-blocking socket, and the time until each is answered (ns; -1: not yet).

    A latency counts from the time when the request was first offered to the socket. An unanswered request counts with its age.
    """

    def __init__(self, sock: socket.socket, rate: float, seconds: float) -> None:
        self.sock, self.gap, self.count = sock, 1e9 / rate, int(rate * seconds)
        self.offered, self.took = array("q", bytes(8 * self.count)), array("q", [-1]) * self.count
        self.next = self.answered = self.end = 0
        self.rest = b""  # of a stream: the beginning of an answer

    def run(self) -> None:
        """Send all requests, and wait for answers until LINGER_S after the last."""
        start = time.monotonic_ns()
        while self.answered < self.count:
            due = start + int(self.next * self.gap) if self.next < self.count else self.offered[-1] + int(1e9 * LINGER_S)
            now = time.monotonic_ns()
            blocked = False
            if now >= due:
                if self.next == self.count:
                    break
                blocked = not self.send(now)
            wait = None if blocked else max(0, due - now) / 1e9 if now < due else 0
            if select.select([self.sock], [self.sock] if blocked else [], [], wait)[0]:
                self.receive()
        self.end = time.monotonic_ns()

    def send(self, now: int) -> bool:
        """Offer the next request; false: the socket is full."""
        self.offered[self.next] = self.offered[self.next] or now
        try:
            self.sock.send(struct.pack("!Q", self.next).ljust(SIZE, b"."))
        except BlockingIOError:
            return False
        self.next += 1
        return True

    def receive(self) -> None:
        """Receive all pending answers."""
        with contextlib.suppress(BlockingIOError):
            while data := self.sock.recv(1 << 16):
                now = time.monotonic_ns()
                self.rest += data
                while len(self.rest) >= SIZE:
                    number = struct.unpack_from("!Q", self.rest)[0]
                    self.rest = self.rest[SIZE:]
                    if self.took[number] < 0:
                        self.took[number] = now - self.offered[number]
                        self.answered += 1

    def results(self, first: int) -> dict[str, Any]:
        """Number of requests from the `first` on, how many of them were not answered, and percentiles in us."""
        pairs = list(zip(self.offered[first:], self.took[first:], strict=True))
        lost = sum(took < 0 for _, took in pairs)
        return {"requests": len(pairs), "lost": lost} | percentiles([self.end - at if took < 0 else took for at, took in pairs])


def percentiles(took: Sequence[int]) -> dict[str, float]:
    """Percentiles, in us, of times in ns: the smallest time that so many per cent do not exceed."""
    ordered = sorted(took)
    return {f"p{p:g}": round(ordered[max(0, -int(-len(ordered) * p // 100) - 1)] / 1e3, 1) for p in PERCENTILES}


def probe(peer: str, tcp: bool, rate: float, seconds: float, skip: float) -> dict[str, Any]:
    """Percentiles (us) of the round trips, unanswered requests included; requests of the first `skip` seconds do not count."""
    precise()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
        sock.connect(split(peer))
        if tcp:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        ready()
        one = Probe(sock, rate, skip + seconds)
        one.run()
    return one.results(int(rate * skip))


# ---- Load ----


def sink(port: int, ports: int, unread: bool) -> None:
    """Receive datagrams at consecutive ports, in batches, until killed."""
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(ports)]
    for i, sock in enumerate(socks):
        sock.bind(("0.0.0.0", port + i))
    ready()
    if unread:
        while True:
            time.sleep(3600)
    data = ctypes.create_string_buffer(65536)
    part = Part(ctypes.addressof(data), 65536)  # all into the same memory: nobody looks at it
    messages = (Message * MOST_AT_ONCE)()
    for message in messages:
        message.parts, message.count = ctypes.addressof(part), 1
    poll = select.epoll()
    for sock in socks:
        poll.register(sock, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            LIBC.recvmmsg(fd, messages, MOST_AT_ONCE, DONTWAIT, None)


class Source:
    """A UDP socket and the messages it sends, one to each of its ports."""

    def __init__(self, address: str, port: int, ports: int, size: int) -> None:
        self.sock, self.at = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
        self.sock.bind(("0.0.0.0", 0))
        self.data = ctypes.create_string_buffer(size)
        self.part = Part(ctypes.addressof(self.data), size)
        names = [
            struct.pack("=H", socket.AF_INET) + struct.pack("!H", port + i) + socket.inet_aton(address) for i in range(ports)
        ]
        self.names = [ctypes.create_string_buffer(name.ljust(16, b"\0"), 16) for name in names]
        self.messages = (Message * ports)()
        for message, name in zip(self.messages, self.names, strict=True):
            message.name, message.name_length = ctypes.addressof(name), 16
            message.parts, message.count = ctypes.addressof(self.part), 1

    def send(self, most: int) -> int:
        """Send to the next ports, up to the last one; returns how many messages were offered to the kernel."""
        count = min(most, len(self.messages) - self.at)
        LIBC.sendmmsg(self.sock.fileno(), ctypes.byref(self.messages, self.at * ctypes.sizeof(Message)), count, DONTWAIT)
        self.at = (self.at + count) % len(self.messages)
        return count


def flows(peer: str, sockets: int, ports: int, rate: float, size: int, seconds: float) -> None:
    """Send datagrams of `size` bytes, `rate` a second in all; those that a full socket refuses are not sent again."""
    precise()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    address, port = split(peer)
    sources = [Source(address, port, ports, size) for _ in range(sockets)]
    ready()
    start = now = time.monotonic()
    due, at = 0.0, 0
    while now - start < seconds:
        time.sleep(TICK_S)
        before, now = now, time.monotonic()
        due += rate * min(now - before, 10 * TICK_S)  # what it missed while it had no processor is not made up for at once
        while due >= 1:
            due -= sources[at].send(min(int(due), MOST_AT_ONCE))
            if sources[at].at == 0:
                at = (at + 1) % sockets


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="traffic")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("echo")
    one.add_argument("port", type=int)
    one = commands.add_parser("probe")
    one.add_argument("peer")
    one.add_argument("--tcp", action="store_true")
    one.add_argument("--rate", type=float, default=2000)
    one.add_argument("--seconds", type=float, default=3)
    one.add_argument("--skip", type=float, default=0)
    one = commands.add_parser("sink")
    one.add_argument("port", type=int)
    one.add_argument("--ports", type=int, default=1)
    one.add_argument("--unread", action="store_true")
    one = commands.add_parser("flows")
    one.add_argument("peer")
    one.add_argument("--sockets", type=int, default=1)
    one.add_argument("--ports", type=int, default=1)
    one.add_argument("--rate", type=float, required=True)
    one.add_argument("--size", type=int, default=SIZE)
    one.add_argument("--seconds", type=float, default=60)
    given = vars(parser.parse_args(words))
    command = given.pop("command")
    if command == "probe":
        print(json.dumps(probe(**given)), flush=True)
    else:
        programs: dict[str, Callable[..., None]] = {"echo": echo, "sink": sink, "flows": flows}
        programs[command](**given)


if __name__ == "__main__":
    main()
