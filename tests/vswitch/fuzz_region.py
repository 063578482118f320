"""A hostile application in its own process overwrites its region, while two well-behaved ones use the same switch.

    python tests/vswitch/fuzz_region.py --seconds 600 --seed 7

Checked: nothing crashes (regions lie between guard pages; tools/checked_build.sh runs this with sanitizers), the well-behaved
pair loses nothing and waits for a bounded number of steps, none of its frames is ever in the hostile one's memory, no other
application can send with its addresses, and queues, flows and rings are released when the hostile one has gone.
"""

import argparse
import contextlib
import mmap
import multiprocessing
import os
import random
import signal
import socket
import struct
import time

import numpy as np
from frames import udp

from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.memory.region import Region

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"
SIX_B, SIX_C = "fd00::2", "fd00::3"
HONEST = {"rings": 128, "queues": 64, "bells": 256, "buffers": 1024, "buffer_bytes": 256}
SHAPES = [
    {"rings": 32, "queues": 8, "bells": 32, "buffers": 64, "buffer_bytes": 128},
    {"rings": 8, "queues": 1, "bells": 1, "buffers": 4, "buffer_bytes": 64},
    {"rings": 64, "queues": 64, "bells": 64, "buffers": 256, "buffer_bytes": 192},
]
MODES = ["lossy", "pfc", "dpfq", "backdraft"]
MOST_STEPS = 8  # of 1 to 300 turns, that a frame of the well-behaved pair may take


# ---- The hostile one ----


class Hostile:
    """The writes of a hostile application to its region, chosen at random for each region."""

    def __init__(self, fd, shape, rng, frames):
        self.app, self.rng, self.frames = Region.attach(fd, shape, switch=False), rng, frames
        memory = mmap.mmap(fd, os.fstat(fd).st_size // 8 * 8)
        self.words, self.halves = np.frombuffer(memory, np.uint64), np.frombuffer(memory, np.uint32)
        rings, queues, bells, buffers, size = shape.values()
        self.shape, at = shape, 512 + 64 * rings
        self.slots = range(512, at)
        self.places = {"heads": [32, 48, 64], "sleeps": [80, 96], "totals": [112, 128]}
        for side in range(2):
            rung = (bells, 4 * bells)[side]  # by each worker in a ring of its own
            for name, count in (("first", queues), ("consumed", queues), ("bell", rung), ("buffer", buffers * size // 8)):
                self.places[f"{name}{side}"] = range(at, at + count)
                at += count
        self.nexts = range(2 * at, 2 * at + rings + 2 * buffers)
        every = [
            self.anything,
            self.descriptors,
            self.links,
            self.counts,
            self.flips,
            self.bells,
            self.stacks,
            self.send,
            self.lie,
            self.receive,
            self.heads,
            self.firsts,
            self.closes,
            self.endless,
        ]
        self.ways = [*rng.choices(every, k=rng.randint(1, 6)), self.send]

    def step(self):
        self.rng.choice(self.ways)()

    def word(self):
        """A plausible word."""
        r = self.rng
        number = r.choice([0, 1, 2, r.randrange(300), r.randrange(1 << 20), r.getrandbits(32), 0xFFFFFFFF])
        return r.choice(
            [
                r.getrandbits(64),
                number,
                number | 1 << 63,
                number | 1 << 61,
                1 << 61,
                number | r.randrange(0, 300) << 32,
                number | r.getrandbits(31) << 32,
                1 << 62 | number,
                2**64 - 1,
                2**63,
                number | r.getrandbits(32) << 32,
            ]
        )

    def some(self, name):
        return self.rng.choice(self.places[name])

    def anything(self):
        for _ in range(20):
            self.words[self.rng.randrange(len(self.words))] = self.word()

    def descriptors(self):
        for _ in range(20):
            most, buffers = self.shape["buffer_bytes"], self.shape["buffers"]
            length = self.rng.choice([0, 1, 13, 14, 42, most, most + 1, (1 << 31) - 1])
            buffer = self.rng.choice([0, 1, self.rng.randrange(buffers) + 1, buffers + 1, (1 << 32) - 1])
            self.words[self.rng.choice(self.slots)] = length << 32 | buffer
        self.bells()

    def links(self):
        """To rings in use, to itself, in circles, beyond the last."""
        for _ in range(10):
            a, b = self.rng.randrange(self.shape["rings"]), self.rng.randrange(self.shape["rings"] + 1)
            self.words[512 + 64 * a : 512 + 64 * a + 64] = 1 << 63 | b
            if b < self.shape["rings"]:
                self.words[512 + 64 * b] = 1 << 63 | a
        self.bells()

    def closes(self):
        self.words[self.rng.choice(self.slots)] = 1 << 61
        self.bells()

    def counts(self):
        for name in ("totals", "consumed0", "consumed1"):
            some = [0, 1, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, self.rng.getrandbits(64)]
            self.words[self.some(name)] = self.rng.choice(some)

    def lie(self):
        """A wrong count of frames taken, which advances like a correct one."""
        at = self.some("consumed1")
        self.words[at] = (int(self.words[at]) + self.rng.randrange(200)) & (1 << 64) - 1

    def flips(self):
        """Two values by turns, while the switch may be reading: of a slot, a head, a bell, a length within a frame."""
        name = self.rng.choice([*self.places, "slots"])
        at = self.rng.choice(self.slots) if name == "slots" else self.some(name)
        view = memoryview(self.words)[at : at + 1]
        one, two = int(view[0]), self.word()
        for _ in range(500):
            view[0] = two
            view[0] = one

    def bells(self):
        for _ in range(3):
            queue = self.rng.choice([0, self.rng.randrange(self.shape["queues"]), self.shape["queues"], (1 << 20) - 1])
            rest = self.rng.getrandbits(12) << 20 if self.rng.random() < 0.3 else 0
            self.words[self.some("bell0")] = 1 << 62 | self.rng.getrandbits(30) << 32 | rest | queue

    def stacks(self):
        for _ in range(5):
            self.halves[self.rng.choice(self.nexts)] = self.rng.choice([0, 1, self.rng.randrange(400), (1 << 32) - 1])

    def heads(self):
        self.words[self.some("heads")] = self.word()

    def firsts(self):
        self.words[self.some(self.rng.choice(["first0", "first1"]))] = self.rng.randrange(self.shape["rings"] + 3)

    def endless(self):
        """Stacks whose first number leads to itself."""
        start = self.nexts[0]
        for head, offset in zip(self.places["heads"], (0, self.shape["rings"], self.shape["rings"] + self.shape["buffers"])):
            first = int(self.words[head]) & 0xFFFFFFFF
            if first > 0 and offset + first - 1 < len(self.nexts):
                self.halves[start + offset + first - 1] = first

    def send(self):
        size = self.shape["buffer_bytes"]
        self.app.send(
            self.rng.randrange(self.shape["queues"]),
            [self.rng.choice(self.frames)[:size] for _ in range(8)],
            weight=self.rng.choice([0, 1, 255]),
            priority=self.rng.randrange(8),
        )

    def receive(self):
        self.app.receive(64)


def frames_of(rng):
    """Valid frames, frames with forged source addresses, with wrong inner lengths, and with nested headers."""
    out = [udp(C, B, p, 9, b"bad") for p in range(40)] + [
        udp(C, C),
        udp(A, B),
        udp(B, A),
        udp(C, A),
        udp(C, "10.9.9.9"),
        udp(SIX_C, SIX_B),
        udp(SIX_B, SIX_C),
        udp(f"::ffff:{C}", f"::ffff:{B}"),
        udp(f"::ffff:{A}", f"::ffff:{B}"),
    ]
    six = udp(SIX_C, SIX_B, payload=bytes(48))
    for header in (0, 43, 44, 50, 51, 58, 60, 59, 135):
        chain = bytes([header if rng.random() < 0.5 else 17, rng.randrange(256)]) + bytes(6)
        out.append(six[:20] + bytes([header]) + six[21:54] + chain * rng.randrange(1, 7))
    for good in rng.choices(out, k=60):
        frame = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            frame[rng.randrange(12, len(frame))] = rng.choice([0, 1, 0x45, 0x4F, 0x60, 0x81, 0xFF, rng.randrange(256)])
        out.append(bytes(frame[: rng.choice([len(frame), rng.randrange(1, len(frame) + 1)])]))
    out.append(b"\2" * 12 + b"\x81\0\0\1" * 20 + b"\x08\0")
    return out


def hostile_process(connection, others_end, seed):
    """Handle region after region (a byte each gives the shape) until killed."""
    others_end.close()  # so that it ends with the other side
    rng, hostile = random.Random(seed), None
    frames = frames_of(rng)
    connection.setblocking(False)
    while True:
        latest = None
        with contextlib.suppress(BlockingIOError):
            while True:
                data, fds, _, _ = socket.recv_fds(connection, 1, 1)
                if not data:
                    return
                if latest:
                    os.close(latest[1])
                latest = data[0], fds[0]
        if latest:
            hostile = Hostile(latest[1], SHAPES[latest[0]], rng, frames)
            os.close(latest[1])
        if hostile is None:
            time.sleep(0.0001)
        else:
            hostile.step()


# ---- The well-behaved pair, and the checks ----


class Run:
    def __init__(self, seed, mode, doorbells=True):
        self.rng, self.mode, self.seed = random.Random(seed), mode, seed
        self.switch = Switch(mode=mode, doorbells=doorbells, idle="500us", flows=1024)
        self.a, self.b = (self.attached(n, HONEST, x) for n, x in (("a", [A]), ("b", [B, SIX_B])))
        self.a.doorbells = doorbells
        self.secret = os.urandom(16)
        self.lives = self.nonsense = self.turns = self.steps = self.most_steps = 0
        self.sent = self.received = self.latest = self.foreign = 0
        self.slowest, self.due = 0.0, []
        self.child = self.connection = None
        self.free_rings = (self.a.free_rings(), self.b.free_rings())

    def attached(self, name, shape, addresses):
        app = Region.create(**shape)
        self.switch.attach(name, Region.attach(app.fd, app.shape), addresses)
        return app

    def spawn(self):
        self.kill()
        self.connection, theirs = socket.socketpair()
        arguments = (theirs, self.connection, self.rng.getrandbits(32))
        self.child = multiprocessing.get_context("fork").Process(target=hostile_process, args=arguments, daemon=True)
        self.child.start()
        theirs.close()

    def kill(self):
        if self.child:
            os.kill(self.child.pid, signal.SIGKILL)
            self.child.join()
            assert self.child.exitcode == -signal.SIGKILL, f"the hostile process has ended: {self.child.exitcode}"
            self.connection.close()
            self.child = None

    def step(self):
        """Some turns of the worker, with frames of the well-behaved pair before and after."""
        if self.sent - self.received < 200:
            frames = [udp(A, B, payload=struct.pack("!Q", self.sent + i) + self.secret) for i in range(self.rng.randrange(1, 9))]
            taken = self.a.send(0, frames)
            self.due += [self.steps] * taken
            self.sent += taken
        if self.mode != "pfc" and self.a.waiting(2) < 4000:  # in pfc, a receiver that takes no frames pauses its senders
            self.a.send(2, [udp(A, C, self.rng.randrange(50), payload=b"to c")] * 2)
        count = self.rng.choice([1, 2, 4, 40, 300])
        start = time.perf_counter()
        self.switch.turns(count)
        self.slowest = max(self.slowest, (time.perf_counter() - start) / count)
        self.turns += count
        self.steps += 1
        self.take()

    def take(self):
        self.foreign += len(self.a.receive(4096))
        for _, frame in self.b.receive(4096):
            if frame[26:30] == b"\x0a\0\0\1" and frame[12:14] == b"\x08\0":
                number = struct.unpack_from("!Q", frame, 42)[0]
                assert number == self.received and frame.endswith(self.secret), (
                    "a frame of the well-behaved pair is lost, doubled or changed"
                )
                self.most_steps = max(self.most_steps, self.steps - self.due[number - self.latest])
                self.received += 1
            else:
                self.foreign += 1
        if self.received - self.latest > 1000:
            del self.due[: self.received - self.latest]
            self.latest = self.received
        if self.received < self.sent:
            waits = self.steps - self.due[self.received - self.latest]
            assert waits <= MOST_STEPS, f"a frame of the well-behaved pair waits since {waits} steps"

    def life(self):
        """A hostile application attaches, writes to its region, and detaches."""
        if self.child is None or self.rng.random() < 0.05:
            self.spawn()
        kind = self.rng.randrange(len(SHAPES))
        bad = self.attached("c", SHAPES[kind], [C, SIX_C])
        memory = mmap.mmap(bad.fd, 0)
        socket.send_fds(self.connection, [bytes([kind])], [bad.fd])
        number = max(self.switch.regions)
        for _ in range(self.rng.randrange(20, 400)):
            self.step()
            if self.steps % 4 == 0 and self.switch.port_row(number)["state"] == "nonsense":
                self.nonsense += 1
                break
            if self.rng.random() < 0.01:
                assert memory.find(self.secret) < 0, "a frame of others is in the hostile one's memory"
        if self.rng.random() < 0.05:
            self.kill()
        assert memory.find(self.secret) < 0, "a frame of others is in the hostile one's memory"
        self.switch.detach(number)
        self.lives += 1
        self.check(self.lives % 16 == 0)

    def check(self, thoroughly):
        ports = {row["port"]: row for row in self.switch.ports()}
        assert set(ports) == {"a", "b"} and ports["a"]["nonsense"] == ports["b"]["nonsense"] == 0
        assert self.a.protocol_errors == self.b.protocol_errors == 0 and 0 not in ports["a"]["drops_by_queue"], ports["a"]
        assert set(ports["a"]["drops"]) <= {"no_route", "full", "no_buffer", "no_queue", "too_long"}, ports["a"]["drops"]
        if not thoroughly:
            return
        end = time.monotonic() + 120
        while (self.switch.counters()["flows"] or self.received < self.sent) and time.monotonic() < end:
            self.switch.turns(20)
            self.take()
            time.sleep(0.0001)
        self.take()
        counters = self.switch.counters()
        assert counters["flows"] == 0 and counters["free_flows"] == 1024, (counters, self.switch.flows())
        assert self.received == self.sent
        for queue in (0, 2):
            while not self.a.close(queue) and self.a.waiting(queue) and time.monotonic() < end:
                self.switch.turns(20)
        while (self.a.free_rings(), self.b.free_rings()) != self.free_rings and time.monotonic() < end:
            self.switch.turns(20)
            self.a.receive(4096), self.b.receive(4096)
        assert (self.a.free_rings(), self.b.free_rings()) == self.free_rings, (
            "rings are missing",
            self.a.free_rings(),
            self.b.free_rings(),
            self.free_rings,
            self.a.waiting(0),
            self.a.waiting(2),
        )

    def report(self):
        return (
            f"{self.mode:9} {self.lives} hostile lives ({self.nonsense} ended for nonsense), {self.turns} polls, {self.received} "
            f"honest frames in order, longest wait {self.most_steps} steps, slowest turn {1e3 * self.slowest:.2f} ms, "
            f"{self.foreign} frames of the hostile one"
        )


def run(seed, mode, turns, seconds, doorbells=True, lives=5):
    """Run at least this number of turns, seconds and hostile applications."""
    one, end = Run(seed, mode, doorbells), time.monotonic() + seconds
    try:
        while one.turns < turns or one.lives < lives or time.monotonic() < end:
            one.life()
        one.check(True)
    finally:
        one.kill()
    one.switch.close()
    return one


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--turns", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    chosen = parser.parse_args()
    print("seed", chosen.seed, flush=True)
    for i, mode in enumerate(MODES):
        print(run(chosen.seed + i, mode, chosen.turns // 4, chosen.seconds / 4, doorbells=i != 1).report(), flush=True)


if __name__ == "__main__":
    main()
