"""Two ends of the overlay's protocol, as compiled, and a hostile wire between them, in virtual time.

Everything is drawn from a seed.  The wire loses, duplicates, reorders, delays, damages and partitions; ends stop reading and
restart; somebody forges and replays.  After `CALM` the wire is good again.
"""

import heapq
import random
import struct
from dataclasses import dataclass, field

from penstock_net.vswitch.dataplane.session_view import Endpoint

PAUSE, FRAME = 4, 5
MS = 1_000_000
CALM = 800 * MS
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
            restarts=maybe(2, 8),
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
        self.faults, self.secret, self.traffic, self.calm = faults or Faults.drawn(rng), secret, traffic, calm
        self.ends = [End(i, secret, rng) for i in range(2)]
        self.wire, self.order, self.now = [], 0, 0  # of (arrives, order, sender, datagram, whether as it was sent)
        self.cut = [0, 0]  # by direction: until when nothing passes
        self.seen = []  # what somebody has recorded
        self.checks = 0

    @property
    def troubled(self):
        return self.now < self.calm

    def put(self, sender, datagram):
        """A datagram onto the wire, with whatever happens to it."""
        rng, faults = self.rng, self.faults
        if len(self.seen) < 300:
            self.seen.append((sender, datagram))
        elif rng.random() < 0.1:
            self.seen[rng.randrange(300)] = (sender, datagram)
        if not self.troubled:
            self.fly(sender, datagram, 50_000, True)
            return
        for copy in range(2 if rng.random() < faults.duplicate else 1):
            if rng.random() < faults.loss or self.now < self.cut[sender]:
                continue
            harmed = rng.random() < faults.damage
            delay = 50_000 + rng.randrange(int(faults.jitter) + 1)
            if rng.random() < faults.late:
                delay += rng.randrange(200 * MS)
            self.fly(sender, self.damaged(datagram) if harmed else datagram, delay, not harmed and copy == 0)

    def fly(self, sender, datagram, delay, original):
        self.order += 1
        heapq.heappush(self.wire, (self.now + delay, self.order, sender, datagram, original))

    def damaged(self, data):
        """Flipped or missing bytes; without a secret those of the content are caught by the check sum of UDP: the header only."""
        data, rng = bytearray(data), self.rng
        end = len(data) if self.secret else HEADER
        if rng.random() < 0.2:
            return bytes(data[: rng.randrange(end)])
        for _ in range(rng.choice((1, 1, 4))):
            data[rng.randrange(end)] ^= 1 << rng.randrange(8)
        return bytes(data)

    def forge(self):
        """A datagram of somebody else: noise, something like ours, or a recorded one, perhaps to the one who sent it."""
        rng, choice = self.rng, self.rng.random()
        sender = rng.randrange(2)
        if choice < 0.4 and self.seen:
            recorded, data = rng.choice(self.seen)
            self.fly(recorded if rng.random() < 0.7 else 1 - recorded, data, 0, False)
            return
        data = rng.randbytes(rng.randrange(120))
        if choice > 0.5:
            kind = rng.choice((1, 1, 2, 3, 4, 5))
            words = [0x5350 | 2 << 16 | kind << 24 | 1000 << 32, *(rng.choice((0, 1, rng.getrandbits(64))) for _ in range(4))]
            if self.secret and self.seen and rng.random() < 0.7:  # of a session that was seen, with a higher number
                words[1] = struct.unpack_from("<Q", rng.choice(self.seen)[1].ljust(HEADER), 8)[0]
                words[2], words[3] = rng.randrange(1 << 20), rng.randrange(1 << 20)
            data = struct.pack("<5Q", *words) + rng.randbytes(rng.choice((0, 56, 100)))
        self.fly(sender, data, 0, False)

    def step(self):
        """A short while: faults, arrivals, and a turn of both ends."""
        rng, faults = self.rng, self.faults
        passed = rng.choice((50_000, 300_000, 1 * MS, 2 * MS))
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
            if rng.random() < faults.forged * seconds:
                self.forge()
        while self.wire and self.wire[0][0] <= self.now:
            _, _, sender, data, original = heapq.heappop(self.wire)
            self.ends[1 - sender].socket.append((data, original))
        for end in self.ends:
            if end.stopped_until <= self.now or not self.troubled:
                self.turn(end)

    def turn(self, end):
        """What a switch does in a turn: read its socket, send what is due, send frames."""
        peer, protocol = self.ends[1 - end.name], end.protocol
        for data, _ in end.socket:
            if (found := protocol.take(data, self.now)) is not None:
                content = found[1]
                assert content in peer.sent, "only what the peer has sent is delivered"
                assert content not in end.got, "and once"
                end.got[content] = self.now
        end.socket.clear()
        while (message := protocol.message(self.now)) is not None:
            self.put(end.name, message)
        if self.rng.random() < self.traffic:
            for _ in range(self.rng.choice((1, 1, 2, 30))):
                if not self.send(end):
                    break

    def send(self, end):
        """A frame or a pause frame, if the peer permits it."""
        content = struct.pack("<BHQ", end.name, end.lives, end.made) + bytes(self.rng.choice((30, 1400)))
        datagram = end.protocol.send(self.rng.choice((PAUSE, FRAME)), content, self.now)
        if datagram is None:
            return False
        end.made += 1
        end.sent[content] = self.now
        self.put(end.name, datagram)
        _, flying, granted, _, _ = end.protocol.counts
        assert flying <= granted <= end.window or flying == cost(len(datagram))
        if self.rng.random() < 0.03:
            self.check(end, datagram)
        return True

    def check(self, end, datagram):
        """Count from outside what is on the wire or in the peer's socket, and not given up by the peer: it was permitted."""
        peer = self.ends[1 - end.name]
        _, _, _, cum_ack, session = peer.protocol.counts
        if struct.unpack_from("<Q", datagram, 8)[0] != session:
            return  # the peer has left this session
        there = [data for _, _, sender, data, original in self.wire if sender == end.name and original]
        there += [data for data, original in peer.socket if original]
        mine = [d for d in there if d[3] >= PAUSE and d[8:16] == datagram[8:16] and struct.unpack_from("<Q", d, 16)[0] > cum_ack]
        assert sum(cost(len(d)) for d in mine) <= end.window
        self.checks += 1

    def run(self, until):
        while self.now < until:
            self.step()

    def agree(self):
        """Whether something that each end has sent since the wire is good has arrived."""
        return all(
            max((end.sent[content] for content in self.ends[1 - end.name].got), default=0) >= self.calm for end in self.ends
        )

    def rows(self):
        return [end.protocol.row(self.now) for end in self.ends]
