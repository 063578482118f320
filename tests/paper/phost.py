"""pHost (CoNEXT 2015, section 3), as its authors' simulator runs it: sender, receiver and switch, on a star.

    flow arrives: send RTS; the first `free` packets need no token
    TOKEN: store, valid for `expiry` packet times; NIC idle: packet of the flow with the fewest bytes left that may send
    receiver, every packet time: of the flows that are not paused, the one with the fewest bytes left: TOKEN for its next
    missing packet
    a flow is heard of: `hold` (code): no tokens at the next turns, as many as it has free packets
    tokens sent - newest token used = `ahead`: pause until `pause` packet times after the last one, then relax: one more
    all tokens sent, packets missing: `reissue` packet times after the last one, begin again with the first missing
    all received: one ACK, and one for each packet that comes again
    switch: short flows before long ones, unless there is one level; full: the newest packet of a long flow gives way to a short
    flow's

Choices: a token for a packet that is not sent yet sends the next new one; it goes before the flow's free packets; these count as
tokens sent every packet time from the RTS on, when all has to be sent again; `left` of a flow is what its last token says, or
what is not sent if it sends without one.  No losses on links; timeouts of senders are not modelled.
"""

from dataclasses import dataclass, field
from functools import partial

from paper.star import HEADER, START, TIMER, Packet, Star
from paper.turns import turn

FLOW_TIMER = START + 1


class Port:
    def __init__(self, net, limit):
        self.net, self.limit, self.short, self.long, self.dropped = net, limit, [], [], []

    def store(self, packet):
        queue = self.long if packet.info["long"] else self.short
        while sum(p.size for p in self.short + self.long) + packet.size > self.limit:
            self.dropped.append(self.net.now)
            if queue is self.long or not self.long:
                return False
            self.long.pop()
        queue.append(packet)
        return True

    def backlog(self):
        return bool(self.short or self.long)

    def take(self):
        queue = self.short or self.long
        return queue.pop(0) if queue else None


@dataclass
class Sending:
    number: int
    src: int
    dst: int
    size: int
    free: int  # packets
    left: int
    sent: int = 0  # packets
    tokens: list = field(default_factory=list)  # (token, packet, until)


@dataclass
class Receiving:
    number: int
    src: int
    size: int
    next: int  # packet
    last: int  # time of the last token
    got: dict = field(default_factory=dict)  # packet -> bytes
    tokens: int = 0
    used: int = 0

    def left(self):
        return self.size - sum(self.got.values())


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.T = (p["mtu"] + HEADER) * net.gap
        self.flows, self.coming, self.done = {}, {}, set()
        self.turns, self.timers = {}, {}
        self.next_token, self.wake_at = 0, None
        self.hold = 0  # turns

    def packets(self, size):
        return -(-size // self.p["mtu"])

    def free(self, size):
        packets = self.packets(size)
        return 0 if self.p["free_for_short"] and packets > self.p["free"] else min(packets, self.p["free"])

    # sender

    def start(self, flow):
        flow.free = self.free(flow.size)
        self.flows[flow.number] = flow
        self.net.control(Packet(flow.src, flow.dst, flow.number, size=self.p["control"], kind="rts", info=flow.size))

    def ready(self):
        for f in self.flows.values():
            f.tokens = [t for t in f.tokens if self.net.now <= t[2]]
        return [f for f in self.flows.values() if f.tokens or f.sent < f.free]

    def backlog(self):
        return bool(self.ready())

    def take(self):
        ready = self.ready()
        if not ready:
            return None
        f = min(ready, key=lambda f: (f.left, turn(f.number, self.number, f.left)))
        token, packet = None, f.sent
        if f.tokens:
            token, named, _ = f.tokens.pop(0)
            packet = min(named, f.sent)
        f.sent = max(f.sent, packet + 1)
        offset = packet * self.p["mtu"]
        payload = min(self.p["mtu"], f.size - offset)
        if token is None:
            f.left = f.size - offset - payload
        info = {"long": self.p["levels"] == 1 or f.size > self.p["threshold"], "size": f.size, "token": token}
        return Packet(f.src, f.dst, f.number, offset, payload, payload + HEADER, "data", info)

    # receiver

    def receive(self, packet):
        if packet.kind == "ack":
            self.flows.pop(packet.flow, None)
        elif packet.kind == "token":
            self.net.tokens.append((self.net.now, self.number, packet.flow))
            f = self.flows.get(packet.flow)
            if f:
                token, number, f.left = packet.info
                f.tokens.append((token, number, self.net.now + int(self.p["expiry"] * self.T)))
                self.net.kick(self.net.up, self.number)
        elif packet.flow not in self.done:
            self.hear(packet)
        elif packet.kind == "data":
            self.acknowledge(packet)

    def hear(self, packet):
        size = packet.info if packet.kind == "rts" else packet.info["size"]
        if packet.flow not in self.coming:
            free = self.free(size)
            self.coming[packet.flow] = Receiving(packet.flow, packet.src, size, free, self.net.now + free * self.T)
            if self.p["hold"]:
                self.hold = free
                self.wake(max(self.next_token, self.net.now))
        m = self.coming[packet.flow]
        if packet.kind == "data":
            m.got[packet.offset // self.p["mtu"]] = packet.payload
            if packet.info["token"] is not None:
                m.used = max(m.used, packet.info["token"] + 1)
            if m.left() == 0:
                self.net.arrived_at = self.net.now
                self.done.add(packet.flow)
                self.turns.pop(packet.flow, None)
                self.timers.pop(packet.flow, None)
                del self.coming[packet.flow]
                self.acknowledge(packet)
                return
        self.schedule(m)

    def acknowledge(self, packet):
        self.net.control(Packet(self.number, packet.src, packet.flow, size=self.p["ack"], kind="ack"))

    def schedule(self, m):
        while m.next in m.got:
            m.next += 1
        waits = []
        if m.next >= self.packets(m.size):
            waits.append("reissue")
        if m.tokens - m.used >= self.p["ahead"]:
            waits.append("pause")
        until = m.last + max((self.p[w] for w in waits), default=0) * self.T
        self.turns.pop(m.number, None)
        self.timers.pop(m.number, None)
        if waits and self.net.now < until:
            self.timers[m.number] = until
            self.net.at(until, FLOW_TIMER, 0, self.expire)
            return
        if "reissue" in waits:
            m.next = min(set(range(self.packets(m.size))) - set(m.got))
        if "pause" in waits:
            m.used = m.tokens - self.p["ahead"] + 1
        self.turns[m.number] = m
        self.wake(max(self.next_token, self.net.now))

    def expire(self):
        for until, number in sorted((until, number) for number, until in self.timers.items()):
            if until <= self.net.now:
                self.schedule(self.coming[number])

    def wake(self, when):
        if self.wake_at is None or when < self.wake_at:
            self.wake_at = when
            self.net.at(when, TIMER, 0, lambda: self.wake_at == when and self.turn())

    def turn(self):
        self.wake_at = None
        if self.hold:
            self.hold -= 1
            self.next_token = self.net.now + self.T
            self.wake(self.next_token)
            return
        if not self.turns:
            return
        m = min(self.turns.values(), key=lambda m: (m.left(), turn(m.number, self.number)))
        info = m.tokens, m.next, m.left()
        self.net.control(Packet(self.number, m.src, m.number, size=self.p["control"], kind="token", info=info))
        m.tokens, m.next, m.last = m.tokens + 1, m.next + 1, self.net.now
        self.next_token = self.net.now + self.T
        self.schedule(m)
        if self.turns:
            self.wake(self.next_token)


def run(hosts, flows, capacity, **p):
    """flows: (src, dst, size, start in ps).  Returns (time, port, flow, offset, size) of each data packet sent by the switch,
    (time, host, flow) of each token that arrives, and the times of drops, until everything has arrived."""
    net = Star()
    net.tokens = []
    for number in range(hosts):
        net.add(Host(net, number, p), Port(net, capacity))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, partial(net.hosts[src].start, Sending(number, src, dst, size, 0, size)))
    net.run()
    sent, tokens = ([s for s in events if s[0] < net.arrived_at] for events in (net.sent, net.tokens))
    return sent, tokens, [time for port in net.ports for time in port.dropped if time < net.arrived_at]
