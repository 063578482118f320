"""Two ends of the overlay's protocol, as compiled, and a hostile wire between them, in virtual time.

Everything is drawn from a seed.  The wire loses, duplicates, reorders, delays, damages and partitions; ends stop reading and
restart; somebody forges and replays.  After `CALM` the wire is good again.
"""

import heapq
import random
import struct
from dataclasses import dataclass, field

from penstock.vswitch.dataplane.session import Endpoint

PAUSE, FRAME = 4, 5
MS = 1_000_000
CALM = 1500 * MS
WINDOW = 400_000
HEADER = 40


def cost(length):
    """Bytes of a socket's memory, as the protocol counts."""
    return 2 * length + 2304


@dataclass
class Faults:
    """Shares of the datagrams, and rates per second of what happens to ends."""

    loss: float = 0.0
    duplicate: float = 0.0
    damage: float = 0.0
    jitter: int = 0  # ns
    late: float = 0.0  # share that is delayed by up to 200 ms
    partitions: float = 0.0
    one_way: float = 0.0
    stops: float = 0.0
    restarts: float = 0.0
    forged: float = 0.0

    @classmethod
    def drawn(cls, rng):
        """Some of the faults, each mild or severe."""

        def maybe(*values):
            return rng.choice((0, *values))

        return cls(
            loss=maybe(0.01, 0.1, 0.4),
            duplicate=maybe(0.02, 0.3),
            damage=maybe(0.02, 0.3),
            jitter=maybe(0.2 * MS, 5 * MS, 40 * MS),
            late=maybe(0.01, 0.1),
            partitions=maybe(1, 4),
            one_way=maybe(1, 4),
            stops=maybe(2, 8),
            restarts=maybe(1, 4),
            forged=maybe(20, 500),
        )


@dataclass
class End:
    """A switch: its protocol, its socket, and what it has sent and received."""

    name: int
    secret: bytes
    rng: random.Random
    window: int = WINDOW
    socket: list = field(default_factory=list)
    sent: dict = field(default_factory=dict)  # content: time
    got: dict = field(default_factory=dict)
    made: int = 0
    stopped_until: int = 0
    lives: int = 0
    refused: int = 0

    def __post_init__(self):
        self.start()

    def start(self):
        """Begin anew, as after kill -9."""
        self.lives += 1
        self.socket = []
        self.protocol = Endpoint(self.rng.randbytes(16), self.secret, self.window)


class World:
    """Two ends and the wire; `run` until a time, with the faults until `calm`."""

    def __init__(self, seed, faults, secret=b"", traffic=0.5, calm=CALM):
        self.rng = rng = random.Random(seed)
        self.faults, self.secret, self.traffic, self.calm = faults, secret, traffic, calm
        self.ends = [End(i, secret, rng) for i in range(2)]
        self.wire, self.order, self.now = [], 0, 0
        self.flying = [{}, {}]  # by sender: number: cost, of datagrams of the present session on the wire or in the socket
        self.cut = [0, 0]  # by direction: until when nothing passes
        self.seen = []  # what a replayer has recorded
        self.most_flying = 0

    def put(self, sender, datagram):
        """A datagram onto the wire, with whatever happens to it."""
        rng, faults = self.rng, self.faults
        if len(self.seen) < 500 or rng.random() < 0.1:
            self.seen.append((sender, datagram))
        for _ in range(2 if self.troubled and rng.random() < faults.duplicate else 1):
            data, delay = datagram, 50_000
            if self.troubled:
                if rng.random() < faults.loss or self.now < self.cut[sender]:
                    continue
                if rng.random() < faults.damage:
                    data = self.damaged(data)
                delay += rng.randrange(int(faults.jitter) + 1)
                if rng.random() < faults.late:
                    delay += rng.randrange(200 * MS)
            self.order += 1
            heapq.heappush(self.wire, (self.now + delay, self.order, sender, data))

    @property
    def troubled(self):
        return self.now < self.calm

    def damaged(self, data):
        """Flipped or missing bytes; without a secret those of the content are caught by the check sum of UDP: the header only."""
        data = bytearray(data)
        if self.rng.random() < 0.2:
            return bytes(data[: self.rng.randrange(len(data))]) if self.secret else bytes(data[: self.rng.randrange(HEADER)])
        for _ in range(self.rng.choice((1, 1, 4))):
            data[self.rng.randrange(len(data) if self.secret else HEADER)] ^= 1 << self.rng.randrange(8)
        return bytes(data)

    def forge(self):
        """A datagram of somebody else: noise, something like ours, or a recorded one again."""
        rng = self.rng
        target = rng.randrange(2)
        choice = rng.random()
        if choice < 0.4 and self.seen:
            sender, data = rng.choice(self.seen)
            if rng.random() < 0.3:
                sender = 1 - sender  # sent back to who sent it
            heapq.heappush(self.wire, (self.now, self.count(), sender, data))
            return
        if choice < 0.5:
            data = rng.randbytes(rng.randrange(120))
        else:
            kind = rng.choice((1, 1, 2, 3, 4, 5))
            words = [0x5350 | 2 << 16 | kind << 24 | 1000 << 32, *(rng.choice((0, 1, rng.getrandbits(64))) for _ in range(4))]
            if self.secret and self.seen and rng.random() < 0.7:  # with a session that was seen, and a greater number
                words[1] = struct.unpack_from("<Q", rng.choice(self.seen)[1], 8)[0]
                words[2], words[3] = rng.randrange(1 << 20), rng.randrange(1 << 20)
            data = struct.pack("<5Q", *words) + rng.randbytes(rng.choice((0, 56, 100)))
        heapq.heappush(self.wire, (self.now, self.count(), 1 - target, data))

    def count(self):
        self.order += 1
        return self.order

    def transmit(self, end, datagram):
        """A datagram of an end: note what it has in flight."""
        if datagram[3] & 0x7F != 1:
            self.flying[end.name][struct.unpack_from("<Q", datagram, 16)[0]] = cost(len(datagram))
        self.put(end.name, datagram)

    def step(self):
        """A short while: faults, arrivals, and both ends."""
        rng, faults = self.rng, self.faults
        passed = rng.choice((20_000, 100_000, 300_000, 1 * MS))
        self.now += passed
        seconds = passed / 1e9
        if self.troubled:
            if rng.random() < faults.partitions * seconds:
                self.cut = [self.now + rng.randrange(700 * MS)] * 2
            if rng.random() < faults.one_way * seconds:
                self.cut[rng.randrange(2)] = self.now + rng.randrange(700 * MS)
            for end in self.ends:
                if rng.random() < faults.stops * seconds:
                    end.stopped_until = self.now + rng.randrange(1500 * MS)
                if rng.random() < faults.restarts * seconds:
                    end.start()
                    self.flying = [{}, {}]
            if rng.random() < faults.forged * seconds:
                self.forge()
        while self.wire and self.wire[0][0] <= self.now:
            _, _, sender, data = heapq.heappop(self.wire)
            self.ends[1 - sender].socket.append(data)
        for end in self.ends:
            if end.stopped_until <= self.now or not self.troubled:
                self.turn(end)

    def turn(self, end):
        """What a switch does in a turn: read its socket, send frames, send what is due."""
        peer = self.ends[1 - end.name]
        before = end.protocol.row(self.now)["sessions"]
        for data in end.socket:
            if (found := end.protocol.take(data, self.now)) is not None:
                kind, content = found
                assert content in peer.sent, "only what the peer has sent is delivered"
                assert content not in end.got, "and once"
                end.got[content] = self.now
        end.socket.clear()
        if end.protocol.row(self.now)["sessions"] != before:
            self.flying = [{}, {}]
        while (message := end.protocol.message(self.now)) is not None:
            self.transmit(end, message)
        if self.rng.random() < self.traffic:
            for _ in range(self.rng.choice((1, 1, 3, 40))):
                self.send(end)
        assert end.protocol.due > self.now or not end.protocol.message(self.now)

    def send(self, end):
        content = struct.pack("<BHQ", end.name, end.lives, end.made) + bytes(self.rng.choice((30, 1400)))
        datagram = end.protocol.send(self.rng.choice((PAUSE, FRAME)), content, self.now)
        if datagram is None:
            end.refused += 1
            return None
        end.made += 1
        end.sent[content] = self.now
        self.transmit(end, datagram)
        row = end.protocol.row(self.now)
        assert row["under_way"] <= row["granted"] <= end.window or row["under_way"] == cost(len(datagram))
        return content

    def truly_flying(self, name):
        """Cost of what an end has on the wire or in the peer's socket, by number: counted from outside."""
        there = [data for _, _, sender, data in self.wire if sender == name] + self.ends[1 - name].socket
        numbers = {}
        for data in there:
            if len(data) >= HEADER and data[3] & 0x7F != 1:
                numbers[struct.unpack_from("<QQ", data, 8)] = cost(len(data))
        return sum(numbers.values())

    def run(self, until):
        while self.now < until:
            self.step()

    def rows(self):
        return [end.protocol.row(self.now) for end in self.ends]
