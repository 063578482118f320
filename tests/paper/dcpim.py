"""dcPIM (SIGCOMM 2022, and its authors' simulator) as pseudocode of receiver and sender, on a star.

round T = beta cRTT; round i of epoch e begins at (e r + i) T; a link is k channels
    at its start, a receiver: accepts grants of the last round: shortest flow first if that was the first one of its epoch, in
        random order else, each as far as channels of the epoch are left; then REQUEST to each sender s it waits for: with f the
        shortest flow of s, ceil(left(f) / F) - channels that s has in epochs e and e - 1, at most those that are left
        F: packets that a channel carries in an epoch
    at its middle, a sender: GRANTs, in the same order, as far as channels are left: k - those accepted in epoch e
    a message of another round is ignored; an ACCEPT counts in its epoch; what it has beyond k is REFUSEd
epoch e + 1: each receiver, for each sender s with c channels of epoch e
    every k / c packet times: a token for the shortest flow of s that needs some, if out <= W c / k
    out > W c / k: wait until timeout after the newest token, then out = W c / k - 1
    turns are skipped, all channels together, as a new short flow has packets
flow at the receiver: tokens in the order of packets; after the last one, `again` later, for those that have not arrived
sender: short flow: at once, before others.  Token (packet, until): the packet, if until has not passed; shortest first
"""

from dataclasses import dataclass, field
from functools import partial

from paper.star import ACK, HEADER, START, TIMER, Packet, Star
from paper.turns import hashed, turn

MTU = 1000
FULL = MTU + HEADER
FRAME = 40
FAR = 10**12


class Port:
    """Strict priorities by the size of a packet's flow."""

    def __init__(self):
        self.levels = {}

    def store(self, packet):
        self.levels.setdefault(packet.info["level"], []).append(packet)
        return True

    def backlog(self):
        return any(self.levels.values())

    def take(self):
        for level in sorted(self.levels):
            if self.levels[level]:
                return self.levels[level].pop(0)
        return None


@dataclass
class Outgoing:
    number: int
    dst: int
    size: int
    short: bool
    sent: int = 0
    rank: int = 0
    tokens: list = field(default_factory=list)  # (token, packet, until)
    done: bool = False

    @property
    def packets(self):
        return -(-self.size // MTU)


@dataclass
class Inbound:
    number: int
    src: int
    size: int
    arrived: set = field(default_factory=set)
    received: int = 0
    tokens: int = 0
    used: int = 0
    next: int = 0
    last: int = 0
    wants: bool = False
    again: int = 0

    @property
    def packets(self):
        return -(-self.size // MTU)

    @property
    def left(self):
        return self.size - self.received

    def missing(self, number):
        while number in self.arrived:
            number += 1
        return number


@dataclass
class Match:
    """Channels of one sender in one epoch."""

    src: int
    channels: int = 0
    turn: int | None = None
    blocked: bool = False  # `turn` is the timeout of a full window


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.out, self.inbound = {}, {}
        self.armed = set()
        self.asking = None  # the next round at whose start this receiver acts
        self.requests, self.grants = {}, {}  # round -> [(host, channels, left)]
        self.matches, self.taken = {}, {}  # epoch -> those of this receiver; how many channels they are
        self.given = {}  # epoch -> channels of this sender
        self.held_back = 0

    def say(self, dst, kind, info):
        self.net.control(Packet(self.number, dst, 0, size=FRAME, kind=kind, info=info))

    def wake(self, when):
        if when not in self.armed:
            self.armed.add(when)
            self.net.at(when, TIMER, 0, partial(self.timer, when))

    def timer(self, when):
        self.armed.discard(when)
        if self.asking is not None and self.asking * self.p["T"] == when:
            self.round(self.asking)
        number = when // self.p["T"]
        if self.requests and when - number * self.p["T"] == self.p["T"] // 2:
            self.grant(number)
        self.turns()

    # matching

    def order(self, offers, number):
        """Shortest first, or at random."""
        if number % self.p["r"] < self.p["min_rounds"]:
            return sorted(offers, key=lambda offer: (offer[2], offer[0]))
        return sorted(offers, key=lambda offer: (hashed(offer[0], hashed(self.number, number)), offer[0]))

    def join(self):
        if self.asking is None:
            self.asking = self.net.now // self.p["T"] + 1
            self.wake(self.asking * self.p["T"])

    def waiting(self):
        flows = [f for f in self.inbound.values() if f.wants]
        return sorted(flows, key=lambda f: (f.left, turn(f.number, self.number)))

    def channels_of(self, epoch, src):
        return sum(match.channels for match in self.matches.get(epoch, ()) if match.src == src)

    def round(self, number):
        epoch = number // self.p["r"]
        for src, channels, _ in self.order(self.grants.pop(number - 1, ()), number - 1):
            self.accept(number - 1, src, channels)
        if number % self.p["r"] == 0:
            for match in self.matches.get(epoch - 1, ()):
                match.turn, match.blocked = self.net.now, False
        seen, left = set(), self.p["k"] - self.taken.get(epoch, 0)
        for f in self.waiting():
            if f.src in seen:
                continue
            seen.add(f.src)
            has = self.channels_of(epoch, f.src) + self.channels_of(epoch - 1, f.src)
            missing = (f.left + MTU - 1) // MTU
            wanted = min(-(-missing // self.p["F"]) - has, left)
            if wanted > 0:
                self.say(f.src, "request", (number, wanted, f.left))
        busy = seen or self.waiting() or self.matches.get(epoch) or self.matches.get(epoch - 1)
        self.asking = number + 1 if busy else None
        if busy:
            self.wake(self.asking * self.p["T"])

    def accept(self, number, src, channels):
        epoch = number // self.p["r"]
        channels = min(channels, self.p["k"] - self.taken.get(epoch, 0))
        if channels <= 0:
            return
        self.taken[epoch] = self.taken.get(epoch, 0) + channels
        matches = self.matches.setdefault(epoch, [])
        match = next((m for m in matches if m.src == src), None)
        if match is None:
            match = Match(src)
            matches.append(match)
        match.channels += channels
        self.say(src, "accept", (number, channels, 0))

    def grant(self, number):
        left = self.p["k"] - self.given.get(number // self.p["r"], 0)
        for dst, channels, size in self.order(self.requests.pop(number, ()), number):
            channels = min(channels, left)
            if channels > 0:
                left -= channels
                self.say(dst, "grant", (number, channels, size))

    def match(self, packet):
        number, channels, left = packet.info
        epoch = number // self.p["r"]
        if packet.kind == "request":
            middle = number * self.p["T"] + self.p["T"] // 2
            if self.net.now <= middle:
                self.requests.setdefault(number, []).append((packet.src, channels, left))
                self.wake(middle)
        elif packet.kind == "grant":
            if self.asking == number + 1:
                self.grants.setdefault(number, []).append((packet.src, channels, left))
        elif packet.kind == "accept":
            if epoch >= max(self.given, default=0):
                over = max(self.given.get(epoch, 0) + channels - self.p["k"], 0)
                self.given[epoch] = self.given.get(epoch, 0) + channels - over
                if over:
                    self.net.refused += 1
                    self.say(packet.src, "refuse", (number, over, 0))
        else:
            for m in self.matches.get(epoch, ()):
                if m.src == packet.src:
                    m.channels = max(m.channels - channels, 0)

    # tokens

    def shortest(self, src):
        return next((f for f in self.waiting() if f.src == src), None)

    def hear_first(self, number, src, size):
        if number in self.inbound:
            return
        f = self.inbound[number] = Inbound(number, src, size)
        if f.packets > self.p["short"]:
            self.want(f)
        else:
            f.tokens = f.next = f.packets
            self.held_back = f.packets
            self.later(f, self.net.now + f.packets * FULL * self.net.gap + self.p["again"])

    def later(self, f, when):
        f.again = when
        self.net.at(when, TIMER, 1, partial(self.once_more, f, when))

    def once_more(self, f, when):
        if f.again == when and f.left > 0:
            f.next = f.missing(0)
            self.net.repeats += 1
            self.want(f)

    def want(self, f):
        f.wants = True
        self.join()
        self.go_on(f)

    def go_on(self, f):
        for m in self.matches.get(self.net.now // (self.p["r"] * self.p["T"]) - 1, ()):
            if m.src == f.src and (m.turn is None or m.blocked) and self.shortest(f.src) is f:
                m.turn, m.blocked = self.net.now, False
                self.wake(self.net.now)

    def turns(self):
        length = self.p["r"] * self.p["T"]
        epoch = self.net.now // length - 1
        for m in self.matches.get(epoch, ()):
            if m.turn is not None and m.turn <= self.net.now:
                m.turn, m.blocked = self.turn(m, (epoch + 2) * length)
            if m.turn is not None and m.turn < (epoch + 2) * length:
                self.wake(m.turn)

    def turn(self, m, end):
        """A token, if there may be one: when the next turn is, and whether what arrives may come before."""
        if m.channels == 0:
            return None, False
        packet = FULL * self.net.gap
        following = self.net.now + packet * self.p["k"] // m.channels
        if self.held_back:
            self.held_back -= 1
            return following, False
        f = self.shortest(m.src)
        if f is None:
            return None, False
        share = self.p["W"] * m.channels // self.p["k"]
        if f.tokens - f.used > share:
            if self.net.now < f.last + self.p["silence"]:
                return f.last + self.p["silence"], True
            f.used = f.tokens - (share - 1)
        until = end + self.p["cRTT"] // 2 + self.p["k"] * packet
        self.net.control(Packet(self.number, f.src, f.number, size=FRAME, kind="token", info=(f.tokens, f.next, f.left, until)))
        f.tokens += 1
        f.last = self.net.now
        f.next = f.missing(f.next + 1)
        if f.next >= f.packets:
            f.wants = False
            self.later(f, self.net.now + self.p["again"])
        return following, False

    def receive_data(self, packet):
        info = packet.info
        self.hear_first(packet.flow, packet.src, info["size"])
        f = self.inbound[packet.flow]
        number = packet.offset // MTU
        if number not in f.arrived:
            f.arrived.add(number)
            f.received += packet.payload
        if f.left == 0:
            f.wants, f.again = False, 0
            self.net.control(Packet(self.number, f.src, f.number, size=ACK, kind="ack"))
            return
        f.used = max(f.used, info["token"] + 1)
        if f.wants:
            f.next = f.missing(f.next)
            self.go_on(f)

    # sender

    def start(self, f):
        self.out[f.number] = f
        f.rank = f.size if f.short else FAR + f.size
        self.net.control(Packet(self.number, f.dst, f.number, size=FRAME, kind="notify", info=f.size))
        self.net.kick(self.net.up, self.number)

    def sendable(self):
        for f in self.out.values():
            f.tokens = [token for token in f.tokens if token[2] >= self.net.now]
        return [f for f in self.out.values() if f.tokens or (f.short and f.sent < f.size)]

    def backlog(self):
        return bool(self.sendable())

    def take(self):
        able = self.sendable()
        if not able:
            return None
        f = min(able, key=lambda f: (f.rank, turn(f.number, self.number, f.rank)))
        if f.tokens:
            token, number, _ = f.tokens.pop(0)
            offset = min(number * MTU, f.sent)
        else:
            token, offset = f.sent // MTU, f.sent
        payload = min(MTU, f.size - offset)
        f.sent = max(f.sent, offset + payload)
        if f.short:
            f.rank = f.size - f.sent
        level = next((i for i in range(5) if f.packets <= 7 ** (i + 1)), 5)
        info = {"token": token, "size": f.size, "level": level}
        return Packet(self.number, f.dst, f.number, offset, payload, payload + HEADER, "data", info)

    def receive(self, packet):
        if packet.kind == "token":
            self.net.tokens.append((self.net.now, self.number, packet.flow))
            f = self.out[packet.flow]
            token, number, left, until = packet.info
            if not f.done:
                f.tokens.append((token, number, until))
                f.rank = FAR + left
                self.net.kick(self.net.up, self.number)
        elif packet.kind == "notify":
            self.hear_first(packet.flow, packet.src, packet.info)
        elif packet.kind == "data":
            self.receive_data(packet)
        elif packet.kind == "ack":
            if not self.out[packet.flow].done:
                self.net.ended = self.net.now
            self.out[packet.flow].done = True
            self.out[packet.flow].tokens.clear()
        else:
            self.match(packet)


def run(hosts, flows, **changes):
    """flows: (src, dst, size, start in ps).  Returns (time, port, flow, offset, size) of each data packet sent by the switch,
    (time, host, flow) of each token that arrives, both until the last flow has ended; and what counts them."""
    p = {"r": 4, "k": 4, "beta": 1.3, "cRTT": 4_000_000, "min_rounds": 1, "W": 50, "silence": 1.1, "again": 1.2} | changes
    net = Star()
    net.tokens, net.refused, net.repeats = [], 0, 0
    packet = FULL * net.gap
    p["T"] = int(p["beta"] * p["cRTT"])
    p["F"] = max(p["r"] * p["T"] // packet // p["k"], 1)
    p["silence"], p["again"] = (int(p[name] * p["W"] * packet) for name in ("silence", "again"))
    p.setdefault("short", p["W"])
    for number in range(hosts):
        net.add(Host(net, number, p), Port())
    for number, (src, dst, size, start) in enumerate(flows):
        flow = Outgoing(number, dst, size, -(-size // MTU) <= p["short"])
        net.at(start, START, src, partial(net.hosts[src].start, flow))
    net.run()
    sent, tokens = ([event for event in events if event[0] <= net.ended] for events in (net.sent, net.tokens))
    return sent, tokens, net
