"""SIRD (NSDI 2025, and its authors' simulator) as pseudocode of receiver, sender and switch, on a star.

    receiver, parameters in bytes: B, bucket, floors of the two loops
        on REQUEST(m): remember m.  On the first packet of a message with an unsolicited part u: b += u, sb[s] += u
        on DATA from s: both loops of s; b -= packet; sb[s] -= packet
        when the line has had the time of the last credit, over messages with bytes to credit, fewest bytes missing first:
            b + packet > B: stop
            sb[s] + packet <= bucket and sb[s] <= min(net[s], host[s]): b += packet, sb[s] += packet, CREDIT; stop
    loop, per data packet, limit l, MSS of a full packet, SB = min(net, host) before this packet:
        once in SB / MSS packets: ratio = (1 - g) ratio + g (marked / packets)
        not marked: l += MSS^2 / SB.  Marked, and 1.5 SB / MSS packets since the last cut: l -= l ratio / 2
        floor <= l <= bucket
    sender
        size <= UnschT: unsolicited at once, as far as unused credit of this receiver leaves room in the bucket, a packet at least
        else REQUEST; csn on each packet: another message has unsent bytes and credit of more than SThr is unused
        NIC: n messages have credit: weight fair / n, and 1 - fair for the one with the fewest bytes unsent
    switch
        data that leaves more than NThr bytes at its port is marked; unsolicited packets first

Choices: credit is of a message; a message with credit again starts at the turn of the one that is served; the one with the fewest
bytes is that of those that were given credit, or served, since the last one ran out of it or ended.
"""

from dataclasses import dataclass, field
from functools import partial

from paper.star import ACK, CONTROL, HEADER, START, TIMER, Packet, Star
from paper.turns import turn

MTU = 1000
MSS = MTU + HEADER


def wire(size):
    return sum(min(MTU, size - at) + HEADER for at in range(0, size, MTU))


class Port:
    """Two strict priorities; marks what leaves a long queue."""

    def __init__(self, p):
        self.p, self.high, self.low = p, [], []

    def store(self, packet):
        (self.high if packet.info["unsolicited"] else self.low).append(packet)
        return True

    def backlog(self):
        return bool(self.high or self.low)

    def take(self):
        queue = self.high or self.low
        if not queue:
            return None
        packet = queue.pop(0)
        packet.info["ce"] = sum(p.size for p in self.high + self.low) > self.p["NThr"]
        return packet


@dataclass
class Message:
    number: int
    src: int
    dst: int
    size: int
    unsolicited: int = 0
    sent: int = 0
    credited: int = 0
    vtime: int = 0


@dataclass
class Inbound:
    number: int
    src: int
    size: int
    credited: int = 0
    received: int = 0


@dataclass
class Loop:
    limit: float
    until_cut: int
    ratio: float = 0.0
    marked: int = 0
    since_cut: int = 0


@dataclass
class Peer:
    """A sender, as its receiver sees it."""

    bucket: int
    sb: int = 0
    net: Loop = None
    host: Loop = None
    packets: int = 0
    period: int = 1
    SB: float = field(init=False)

    def __post_init__(self):
        self.SB = float(self.bucket)
        self.net, self.host = (Loop(float(self.bucket), self.bucket // MSS) for _ in range(2))


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.messages, self.inbound, self.peers = {}, {}, {}
        self.b, self.next_credit, self.armed = 0, 0, set()
        self.served, self.shortest = 0, None

    # sender

    def unused(self, dst=None):
        return sum(wire(m.credited) - wire(m.sent) for m in self.messages.values() if dst is None or m.dst == dst)

    def has_credit(self):
        return [m for m in self.messages.values() if m.sent < m.credited]

    def start(self, m):
        if wire(m.size) <= self.p["UnschT"]:
            room = max((self.p["bucket"] - self.unused(m.dst)) // MSS, 1)
            m.unsolicited = min(m.size, room * MTU)
            self.messages[m.number] = m
            self.give(m, m.unsolicited)
            self.net.kick(self.net.up, self.number)
        else:
            self.messages[m.number] = m
            self.net.control(Packet(m.src, m.dst, m.number, size=CONTROL, kind="request", info=m.size))

    def give(self, m, credited):
        if m.sent == m.credited:
            m.vtime = max(m.vtime, self.served)
            self.look(m)
        m.credited = credited

    def look(self, m):
        if self.shortest in (None, m) or m.size - m.sent < self.shortest.size - self.shortest.sent:
            self.shortest = m

    def backlog(self):
        return bool(self.has_credit())

    def take(self):
        ready = self.has_credit()
        if not ready:
            return None
        m = min(ready, key=lambda m: (m.vtime, turn(m.number, self.number, m.vtime)))
        payload = min(MTU, m.size - m.sent)
        info = {"unsolicited": m.sent < m.unsolicited, "size": m.size, "u": m.unsolicited}
        packet = Packet(m.src, m.dst, m.number, m.sent, payload, payload + HEADER, "data", info)
        unsent = sum(o.sent < o.size for o in self.messages.values())
        m.sent += payload
        self.look(m)
        self.served = m.vtime
        weight = self.p["fair"] / len(ready)
        if self.shortest is m:
            weight += 1.0 - self.p["fair"]
        m.vtime += int(1024.0 / weight)
        if m.sent == m.credited and self.shortest is m:
            self.shortest = None
        info["csn"] = unsent > 1 and self.unused() > self.p["SThr"]
        return packet

    # receiver

    def receive(self, packet):
        if packet.kind == "credit":
            self.net.credits.append((self.net.now, self.number, packet.flow))
            self.give(self.messages[packet.flow], packet.info)
            self.net.kick(self.net.up, self.number)
        elif packet.kind == "request":
            self.inbound[packet.flow] = Inbound(packet.flow, packet.src, packet.info)
            self.peers.setdefault(packet.src, Peer(self.p["bucket"]))
            self.credit()
        elif packet.kind == "data":
            self.receive_data(packet)

    def receive_data(self, packet):
        peer = self.peers.setdefault(packet.src, Peer(self.p["bucket"]))
        m = self.inbound.get(packet.flow)
        if m is None:
            u = packet.info["u"]
            m = self.inbound[packet.flow] = Inbound(packet.flow, packet.src, packet.info["size"], u)
            self.b += wire(u)
            peer.sb += wire(u)
        self.run_loops(peer, packet.info["ce"], packet.info["csn"])
        self.b -= packet.size
        peer.sb -= packet.size
        m.received += packet.payload
        self.credit()
        if m.received == m.size:
            self.net.control(Packet(self.number, m.src, m.number, size=ACK, kind="ack"))

    def run_loops(self, peer, ce, csn):
        peer.packets += 1
        ended = peer.packets >= peer.period
        for loop, mark, floor in ((peer.net, ce, "floor"), (peer.host, csn, "host_floor")):
            loop.since_cut += 1
            loop.marked += mark
            if ended:
                loop.ratio = (1.0 - self.p["g"]) * loop.ratio + self.p["g"] * loop.marked / peer.packets
                loop.marked = 0
            change = 0.0
            if not mark or self.p["always"]:
                change = float(MSS) * MSS / peer.SB
            if mark and loop.since_cut >= loop.until_cut:
                change -= loop.limit * loop.ratio / 2.0
                loop.since_cut, loop.until_cut = 0, int(1.5 * peer.SB / MSS)
            loop.limit = min(max(loop.limit + change, self.p[floor] * self.p["bucket"]), float(self.p["bucket"]))
        peer.SB = min(peer.net.limit, peer.host.limit)
        if ended:
            peer.packets, peer.period = 0, max(int(peer.SB / MSS), 1)

    def credit(self):
        waiting = [m for m in self.inbound.values() if m.credited < m.size]
        if not waiting:
            return
        if self.net.now < self.next_credit:
            self.wake(self.next_credit)
            return
        for m in sorted(waiting, key=lambda m: (m.size - m.received, turn(m.number, self.number))):
            peer, payload = self.peers[m.src], min(MTU, m.size - m.credited)
            packet = payload + HEADER
            if self.b + packet > self.p["B"]:
                return
            if peer.sb + packet <= self.p["bucket"] and peer.sb <= peer.SB:
                m.credited += payload
                self.b += packet
                peer.sb += packet
                self.next_credit = self.net.now + packet * self.net.gap
                self.net.control(Packet(self.number, m.src, m.number, size=CONTROL, kind="credit", info=m.credited))
                if len(waiting) > 1 or m.credited < m.size:
                    self.wake(self.next_credit)
                return

    def wake(self, when):
        if when not in self.armed:
            self.armed.add(when)
            self.net.at(when, TIMER, 0, lambda: (self.armed.discard(when), self.credit()))


def run(hosts, flows, **changes):
    """flows: (src, dst, size, start in ps).  Returns (time, port, flow, offset, size) of each data packet sent by the switch, and
    (time, host, flow) of each credit that arrives."""
    p = {"B": 60_000, "bucket": 40_000, "UnschT": 40_000, "NThr": 50_000, "SThr": 20_000}
    p |= {"g": 0.08, "floor": 0.03, "host_floor": 0.1, "fair": 0.5, "always": False} | changes
    net = Star()
    net.credits = []
    for number in range(hosts):
        net.add(Host(net, number, p), Port(p))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, partial(net.hosts[src].start, Message(number, src, dst, size)))
    net.run()
    return net.sent, net.credits
