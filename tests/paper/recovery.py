"""Recovery of lost packets on a star: IRN (Mittal et al., SIGCOMM 2018) and perfect retransmission (BFC, section 6.2.1).

    IRN, sender: new if next - cum < CAP; ACK(cum, seq), seq early: mark it; missing below a marked one: send again, once;
         with a distance D, missing below a marked one less D
         RTO with <= 3 in flight RTO_low, else RTO_high: the first missing one, and others by the rule above, once more
         receiver: keeps what is early; every packet is answered by ACK(cum, seq)
    perfect: a drop is told to the source on the control lane, which sends this packet again before others; no timeout

Choices: an ACK that advances and answers a packet sent again since a timeout shows that all sent before the timeout is lost;
timeouts are looked for at multiples of a quarter of RTO_low, younger flows first; of several flows of a host, each sends a
packet in turn.  Packets are numbers here.
"""

from collections import deque
from functools import partial

from paper.star import ACK, HEADER, START, Packet, Star

TICK = START + 1


class Port:
    """FIFO; all ports share the switch's `buffer`, a dict with `used` and `limit`."""

    def __init__(self, net, buffer, told):
        self.net, self.buffer, self.told, self.packets = net, buffer, told, deque()

    def store(self, packet):
        if self.buffer["used"] + packet.size > self.buffer["limit"]:
            self.buffer["drops"].append(self.net.now)
            if self.told:
                self.tell(packet)
            return False
        self.buffer["used"] += packet.size
        self.packets.append(packet)
        return True

    def tell(self, packet):
        """A notice to the source: behind other notices, before ACKs."""
        line = self.net.down[packet.src]
        place = sum(1 for waiting in line.control if waiting.kind == "lost")
        line.control.insert(place, Packet(packet.dst, packet.src, packet.flow, packet.offset, kind="lost"))
        if not line.armed:
            self.net.arm(self.net.down, packet.src)

    def backlog(self):
        return bool(self.packets)

    def take(self):
        if not self.packets:
            return None
        packet = self.packets.popleft()
        self.buffer["used"] -= packet.size
        return packet


class Flow:
    def __init__(self, number, src, dst, size, mtu, distance=0):
        self.number, self.src, self.dst, self.size, self.mtu = number, src, dst, size, mtu
        self.count = -(-size // mtu)
        self.cum = self.next = self.progress = 0
        self.marked, self.resent, self.told = set(), set(), set()
        self.timeouts, self.lost_before = 0, 0
        self.distance = distance

    def in_flight(self):
        return min(self.next * self.mtu, self.size) - self.cum * self.mtu

    def lost(self):
        """Packets to be sent again now."""
        below = max(self.marked, default=0) - self.distance
        inferred = {p for p in range(self.cum, max(below, self.lost_before)) if p not in self.marked | self.resent}
        return sorted(inferred | {p for p in self.told if p >= self.cum})


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.flows, self.received = {}, {}
        self.ring, self.tick_at = deque(), None

    # ---- sender ----

    def may_send(self, f):
        return bool(f.lost()) or (f.next < f.count and f.in_flight() < self.p["cap"])

    def ready(self, f):
        if f not in self.ring and self.may_send(f):
            self.ring.append(f)
        if self.ring:
            self.net.kick(self.net.up, self.number)

    def start(self, f):
        f.progress = self.net.now
        self.flows[f.number] = f
        self.arm_tick()
        self.ready(f)

    def backlog(self):
        return bool(self.ring)

    def take(self):
        while self.ring:
            f = self.ring.popleft()
            if self.may_send(f):
                packet = self.send(f)
                if self.may_send(f):
                    self.ring.append(f)
                return packet
        return None

    def send(self, f):
        lost, again = f.lost(), 0
        if lost:
            seq, again = lost[0], f.timeouts
            f.resent.add(seq)
            f.told.discard(seq)
        else:
            if f.next == f.cum:
                f.progress = self.net.now
            seq = f.next
            f.next += 1
        payload = min(f.mtu, f.size - seq * f.mtu)
        return Packet(f.src, f.dst, f.number, seq, payload, payload + HEADER, "data", again)

    def arm_tick(self):
        if self.p["rto_low"] and self.tick_at is None:
            quarter = self.p["rto_low"] // 4
            self.tick_at = (self.net.now // quarter + 1) * quarter
            self.net.at(self.tick_at, TICK, 0, self.tick)

    def tick(self):
        self.tick_at = None
        for f in reversed(list(self.flows.values())):
            wait = self.p["rto_high"] if f.in_flight() > 3 * f.mtu else self.p["rto_low"]
            if f.in_flight() and self.net.now - f.progress >= wait:
                f.progress = self.net.now
                f.timeouts += 1
                f.resent = set()
                f.lost_before, f.before = max(f.lost_before, f.cum + 1), f.next
                self.ready(f)
        if self.flows:
            self.arm_tick()

    def acknowledged(self, f, cum, seq, again):
        advances = cum > f.cum
        if advances:
            f.cum, f.progress = cum, self.net.now
        if seq >= cum:
            f.marked.add(seq)
        elif advances and again and again == f.timeouts:
            f.lost_before = f.before
        if f.cum == f.count:
            del self.flows[f.number]
            if f in self.ring:
                self.ring.remove(f)
        else:
            self.ready(f)

    # ---- receiver ----

    def receive(self, packet):
        if packet.kind == "data":
            got = self.received.setdefault(packet.flow, set())
            if packet.offset in got:
                self.net.duplicates += 1
            else:
                self.net.arrived_at = self.net.now
            got.add(packet.offset)
            cum = next(i for i in range(len(got) + 1) if i not in got)
            info = (cum, packet.offset, packet.info)
            self.net.control(Packet(self.number, packet.src, packet.flow, size=ACK, kind="ack", info=info))
            return
        f = self.flows.get(packet.flow)
        if f and packet.kind == "ack":
            self.acknowledged(f, *packet.info)
        elif f and packet.offset >= f.cum:
            f.told.add(packet.offset)
            self.ready(f)


def run(kind, hosts, flows, buffer, cap, rto_low=0, rto_high=0, mtu=1000, distance=0, **links):
    """kind: irn, perfect.  flows: (src, dst, size, start in ps).  Returns the data packets that the switch sent until everything
    had arrived, as (time, port, flow, packet, size), the times of its drops, and the number of duplicates at receivers."""
    net = Star(**links)
    net.duplicates = 0
    p = {"cap": cap, "rto_low": rto_low if kind == "irn" else 0, "rto_high": rto_high}
    shared = {"used": 0, "limit": buffer, "drops": []}
    for number in range(hosts):
        net.add(Host(net, number, p), Port(net, shared, kind == "perfect"))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, partial(net.hosts[src].start, Flow(number, src, dst, size, mtu, distance)))
    net.run()
    return [s for s in net.sent if s[0] < net.arrived_at], [t for t in shared["drops"] if t < net.arrived_at], net.duplicates
