"""Honest traffic of a soak: frames of native applications, datagrams and streams of the kernel's, each checked to the byte.

All of it is driven by one thread: `offer` sends what may be under way, `take` receives what has come.
"""

import contextlib
import hashlib
import random
import socket
import struct
import time

from frames import payload_of, udp
from proven import certain

A, B = "10.79.0.11", "10.79.0.12"
CLOSED = 7  # the state of a TCP socket in TCP_INFO: TCP_CLOSE of linux/tcp_states.h
SHORTEST, LONGEST = 16, 1400  # bytes of a datagram
GIVEN_UP_S = 5.0  # a datagram that has not come within this time no longer holds back others; it may still come


class Frames:
    """A native application sends to another, which finds every frame, once and in order."""

    steady = True  # it goes on whatever else happens

    def __init__(self, sender, receiver):
        self.sender, self.receiver = sender, receiver
        self.sent = self.received = self.foreign = 0

    def offer(self):
        if self.sent - self.received < 200:
            self.sent += self.sender.send(0, [udp(A, B, payload=b"%d" % (self.sent + i)) for i in range(8)])

    def take(self):
        self.sender.receive(1000)
        for _, frame in self.receiver.receive(1000):
            if frame[26:30] != socket.inet_aton(A):
                self.foreign += 1
                continue
            expected = int(payload_of(frame)) == self.received
            certain(expected, "a frame between native applications is lost, doubled or overtaken")
            self.received += 1

    def under_way(self):
        return self.sent - self.received

    def progress(self):
        return self.received


class Datagrams:
    """Datagrams of many sizes between two sockets: which have not come, and how many came twice or changed."""

    steady = True

    def __init__(self, left, right, address, seed, window=64):
        self.rng, self.window = random.Random(seed), window
        self.here, self.there = (space.socket(socket.AF_INET, socket.SOCK_DGRAM) for space in (left, right))
        self.there.bind((address, 0))
        self.here.connect(self.there.getsockname())
        for sock in (self.here, self.there):
            sock.setblocking(False)
        self.sent = self.received = 0
        self.missing = {}  # number -> when it was sent

    def content(self, number):
        body = struct.pack("!Q", number)
        return body + hashlib.shake_128(body).digest(random.Random(number).choice((SHORTEST, 100, LONGEST)) - 8)

    def offer(self, most=8):
        with contextlib.suppress(BlockingIOError):
            while most and self.under_way() < self.window:
                self.here.send(self.content(self.sent))
                self.missing[self.sent] = time.monotonic()
                self.sent, most = self.sent + 1, most - 1

    def take(self):
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self.there.recv(2048)
                number = struct.unpack_from("!Q", data)[0]
                certain(data == self.content(number), "a datagram has changed")
                certain(self.missing.pop(number, None) is not None, f"datagram {number} of {self.sent} has come twice")
                self.received += 1

    def under_way(self):
        """How many are sent and not given up."""
        now = time.monotonic()
        return sum(now - at < GIVEN_UP_S for at in self.missing.values())

    def progress(self):
        return self.received

    def close(self):
        self.here.close(), self.there.close()


class Streams:
    """TCP connections, one after the other, of few or many bytes: each arrives as it was sent.

    Not `steady`: the interface of the other end goes and comes. The kernel there forgets a handshake if it has no route when it
    is to repeat its part, and resets the connection when the sender, for which it was complete, goes on: it is begun anew.
    """

    def __init__(self, left, right, address, seed, steady=True):
        self.left, self.rng, self.steady = left, random.Random(seed), steady
        self.server = right.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.server.bind((address, 0))
        self.server.listen()
        self.server.setblocking(False)
        self.complete = self.bytes = self.at = self.forgotten = 0
        self.here = self.there = None
        self.last = False  # begin no other connection

    def begin(self):
        self.content = random.Random(self.rng.random()).randbytes(self.rng.choice((1, 1000, 100_000, 2_000_000)))
        self.at, self.digest = 0, hashlib.sha256()
        self.here = self.left.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.here.setblocking(False)
        self.here.connect_ex(self.server.getsockname())

    def offer(self):
        if self.here is None and not self.last:
            self.begin()
        if self.here is None:
            return
        if self.is_forgotten():
            self.here.close()
            self.here, self.at, self.forgotten = None, 0, self.forgotten + 1
            return
        if self.at == len(self.content):
            return
        try:
            self.at += self.here.send(self.content[self.at : self.at + 262_144])
            if self.at == len(self.content):
                self.here.shutdown(socket.SHUT_WR)
        except (BlockingIOError, BrokenPipeError):  # the latter: it is not connected yet
            pass
        except (ConnectionResetError, ConnectionRefusedError):
            if not self.is_forgotten():
                raise

    def take(self):
        with contextlib.suppress(BlockingIOError):
            if self.there is None and self.here is not None:
                self.there, _ = self.server.accept()
                self.there.setblocking(False)
            while self.there is not None:
                if data := self.there.recv(1 << 20):
                    self.digest.update(data)
                    continue
                certain(self.digest.digest() == hashlib.sha256(self.content).digest(), "a stream has changed")
                self.complete, self.bytes = self.complete + 1, self.bytes + len(self.content)
                self.here.close(), self.there.close()
                self.here, self.there, self.at = None, None, 0

    def is_forgotten(self):
        """Whether it was reset before the other end has accepted it."""
        if self.steady or self.there is not None:
            return False
        return self.here.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == CLOSED

    def under_way(self):
        return int(self.here is not None)

    def progress(self):
        """It rises with what has been taken from us or has arrived."""
        return self.complete + self.bytes + self.at

    def close(self):
        for sock in (self.here, self.there, self.server):
            if sock:
                sock.close()
