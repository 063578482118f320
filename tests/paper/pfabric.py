"""pFabric (SIGCOMM 2013, section 4), the pseudocode of hosts and switch, on a star.

    priority of a packet = bytes of its flow neither ACKed nor SACKed when it is sent
    host: window BDP from the start; RTO fixed; timeout: window 1 packet, go back to the first missing byte, +1 per new ACK
    switch, full: drop the packet with the most bytes left (tie: the latest)
    dequeue: find the fewest, send *that flow's earliest*

The authors' simulator YAPS: the window starts at `window` and grows to `largest`; stamp "queue": a packet has the bytes left of
the time when the window lets it into the NIC's queue, which sends the earliest packet of the flow that has the fewest.

Choices: bytes are those of payload; ACKs carry the bytes that have arrived, the SACKed ones enlarge the window; a host sends
packets of the flow with the fewest bytes left; timeouts are looked for at multiples of a quarter of the RTO,
younger flows first.
"""

from functools import partial

from paper.star import ACK, HEADER, START, TIMER, Packet, Star
from paper.turns import turn


class Port:
    def __init__(self, net, limit):
        self.net, self.limit, self.packets, self.dropped = net, limit, [], []

    def store(self, packet):
        self.packets.append(packet)
        while sum(p.size for p in self.packets) > self.limit:
            worst = max(range(len(self.packets)), key=lambda i: (self.packets[i].info, i))
            self.packets.pop(worst)
            self.dropped.append(self.net.now)
        return packet in self.packets

    def backlog(self):
        return bool(self.packets)

    def take(self):
        if not self.packets:
            return None
        flow = min(self.packets, key=lambda p: p.info).flow
        return self.packets.pop(next(i for i, p in enumerate(self.packets) if p.flow == flow))


class Flow:
    def __init__(self, number, src, dst, size, window):
        self.number, self.src, self.dst, self.size, self.window = number, src, dst, size, window
        self.next, self.acked, self.arrived, self.progress = 0, 0, 0, 0
        self.admitted, self.queue = 0, []  # the NIC's: offset and bytes left of what waits

    def left(self):
        return self.size - self.arrived

    def end(self):
        """Packets that begin before it may be sent."""
        return min(self.acked + self.window + max(self.arrived - self.acked, 0), self.size)


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.flows, self.received = {}, {}
        self.tick_at = None

    def start(self, flow):
        flow.progress = self.net.now
        self.flows[flow.number] = flow
        self.let_in(flow)
        self.arm_tick()
        self.net.kick(self.net.up, self.number)

    def arm_tick(self):
        if self.tick_at is None:
            quarter = self.p["rto"] // 4
            self.tick_at = (self.net.now // quarter + 1) * quarter
            self.net.at(self.tick_at, TIMER, 0, self.tick)

    def tick(self):
        self.tick_at = None
        for f in reversed(self.flows.values()):
            if f.next > f.acked and self.net.now - f.progress >= self.p["rto"]:
                f.progress = self.net.now
                f.window, f.next = self.p["mtu"], f.acked
                f.admitted, f.queue = f.acked, []
                self.let_in(f)
                self.net.kick(self.net.up, self.number)
        if self.flows:
            self.arm_tick()

    def let_in(self, f):
        f.admitted = max(f.admitted, f.acked)
        f.queue = [waiting for waiting in f.queue if waiting[0] >= f.acked]
        while f.admitted < f.end():
            f.queue.append((f.admitted, f.left()))
            f.admitted += self.p["mtu"]

    def may_send(self, f):
        return bool(f.queue)

    def rank(self, f):
        return min(left for _, left in f.queue) if self.p["stamp"] == "queue" else f.left()

    def backlog(self):
        return any(self.may_send(f) for f in self.flows.values())

    def take(self):
        ready = [f for f in self.flows.values() if self.may_send(f)]
        if not ready:
            return None
        f = min(ready, key=lambda f: (self.rank(f), turn(f.number, self.number, self.rank(f))))
        offset, left = f.queue.pop(0)
        payload = min(self.p["mtu"], f.size - offset)
        left = left if self.p["stamp"] == "queue" else f.left()
        packet = Packet(f.src, f.dst, f.number, offset, payload, payload + HEADER, "data", left)
        if f.next == f.acked:
            f.progress = self.net.now
        f.next = offset + payload
        return packet

    def receive(self, packet):
        if packet.kind == "data":
            got = self.received.setdefault(packet.flow, {})
            if packet.offset not in got:
                self.net.arrived_at = self.net.now
            got[packet.offset] = packet.payload
            expected = 0
            while expected in got:
                expected += got[expected]
            info = (expected, sum(got.values()))
            self.net.control(Packet(self.number, packet.src, packet.flow, size=ACK, kind="ack", info=info))
            return
        f = self.flows.get(packet.flow)
        if not f:
            return
        acked, arrived = packet.info
        f.arrived = max(f.arrived, arrived)
        if acked > f.acked:
            f.acked, f.progress = acked, self.net.now
            f.next = max(f.next, acked)
            f.window = min(f.window + self.p["mtu"], self.p["largest"])
        self.let_in(f)
        if f.acked == f.size:
            del self.flows[f.number]
        self.net.kick(self.net.up, self.number)


def run(hosts, flows, window, queue, rto, mtu=1000, largest=None, stamp="send", **links):
    """flows: (src, dst, size, start in ps).  Returns the data packets that the switch sent until everything had arrived, and the
    times of its drops."""
    net = Star(**links)
    p = {"largest": largest or window, "stamp": stamp, "rto": rto, "mtu": mtu}
    for number in range(hosts):
        net.add(Host(net, number, p), Port(net, queue))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, partial(net.hosts[src].start, Flow(number, src, dst, size, window)))
    net.run()
    dropped = [time for port in net.ports for time in port.dropped]
    return [s for s in net.sent if s[0] < net.arrived_at], [time for time in dropped if time < net.arrived_at]
