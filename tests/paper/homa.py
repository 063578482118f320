"""Homa (SIGCOMM 2018, section 3) as its authors' simulator runs it: the pseudocode of sender, receiver and switch, on a star.

    message(size): U = min(size, RTTbytes); send U blindly; priority of each packet = class of the *remaining* bytes
    GRANT(offset, len, prio): send that packet
    NIC idle: grants first; else the message with the fewest bytes unsent that has a packet to send (tie: by turn)

    per message: to_grant = size - U; in_flight = blind and granted bytes that have not arrived
    rank: a sender's messages by to_grant, senders by their best message; only the top K senders get grants, one message each
    grant one packet if in_flight < RTTbytes and the time of the last granted packet has passed; fully granted: leave the list
    priority (0 best): unscheduled 0..U-1, scheduled U..P-1; m active: rank r gets P-m+r
    the last RTTbytes of a granted message use the unscheduled classes if better

Choices: bytes are those of payload; a granted packet has the priority of the last grant that arrived; in_flight is compared
before a grant, so that it stays below RTTbytes and a packet; of equals the one of the least turn goes first.
"""

from bisect import bisect_left
from functools import partial

from paper.star import ACK, CONTROL, HEADER, START, TIMER, Packet, Star
from paper.turns import turn


class Port:
    """Strict priorities, FIFO within one."""

    def __init__(self, levels):
        self.queues = [[] for _ in range(levels)]

    def store(self, packet):
        self.queues[packet.info["prio"]].append(packet)
        return True

    def backlog(self):
        return any(self.queues)

    def take(self):
        queue = next((q for q in self.queues if q), None)
        return queue.pop(0) if queue else None


class Message:
    def __init__(self, number, src, dst, size):
        self.number, self.src, self.dst, self.size = number, src, dst, size
        self.sent = self.granted = 0  # at the sender
        self.prio = 0


class Inbound:
    def __init__(self, packet, rtt_bytes):
        self.number, self.src, self.size = packet.flow, packet.src, packet.info["size"]
        self.granted = min(self.size, rtt_bytes)
        self.received, self.next_grant = 0, 0

    def to_grant(self):
        return self.size - self.granted


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.messages, self.inbound, self.wakes = {}, {}, set()

    def unscheduled(self, remaining):
        return bisect_left(self.p["cutoffs"], remaining)

    # sender

    def start(self, message):
        message.granted = min(message.size, self.p["rtt_bytes"])
        self.messages[message.number] = message
        self.net.kick(self.net.up, self.number)

    def backlog(self):
        return any(m.sent < m.granted for m in self.messages.values())

    def take(self):
        ready = [m for m in self.messages.values() if m.sent < m.granted]
        if not ready:
            return None
        m = min(ready, key=lambda m: (m.size - m.sent, turn(m.number, self.number, m.size - m.sent)))
        remaining = m.size - m.sent
        payload = min(self.p["mtu"], remaining)
        prio = self.unscheduled(remaining)
        if m.sent >= self.p["rtt_bytes"]:
            prio = min(prio, m.prio) if remaining <= self.p["rtt_bytes"] else m.prio
        packet = Packet(m.src, m.dst, m.number, m.sent, payload, payload + HEADER, "data", {"prio": prio, "size": m.size})
        m.sent += payload
        return packet

    # receiver

    def receive(self, packet):
        if packet.kind == "grant":
            self.net.grants.append((self.net.now, self.number, packet.flow))
            m = self.messages[packet.flow]
            m.granted, m.prio = packet.info
            self.net.kick(self.net.up, self.number)
        elif packet.kind == "data":
            m = self.inbound.setdefault(packet.flow, None) or Inbound(packet, self.p["rtt_bytes"])
            self.inbound[packet.flow] = m
            m.received += packet.payload
            self.send_grants()
            if m.received == m.size:
                self.net.control(Packet(self.number, m.src, m.number, size=ACK, kind="ack"))

    def send_grants(self):
        best = {}  # by sender
        waiting = [m for m in self.inbound.values() if m.to_grant()]
        for m in sorted(waiting, key=lambda m: (m.to_grant(), turn(m.number, self.number))):
            best.setdefault(m.src, m)
        top = list(best.values())[: self.p["K"]]
        for r, m in enumerate(top):
            if m.granted - m.received >= self.p["rtt_bytes"]:
                continue
            if self.net.now < m.next_grant:
                self.wake(m.next_grant)
                continue
            payload = min(self.p["mtu"], m.to_grant())
            m.granted += payload
            m.next_grant = self.net.now + (payload + HEADER) * self.net.gap
            if m.to_grant() and m.granted - m.received < self.p["rtt_bytes"]:
                self.wake(m.next_grant)
            info = (m.granted, max(self.p["P"] - len(top) + r, self.p["U"]))
            self.net.control(Packet(self.number, m.src, m.number, size=CONTROL, kind="grant", info=info))

    def wake(self, when):
        if when not in self.wakes:
            self.wakes.add(when)
            self.net.at(when, TIMER, 0, lambda: (self.wakes.discard(when), self.send_grants()))


def run(hosts, flows, rtt_bytes, P=8, U=4, K=4, cutoffs=(), mtu=1000, **links):
    """flows: (src, dst, size, start in ps).  Returns (time, port, flow, offset, size) of each data packet sent by the switch, and
    (time, host, flow) of each grant that arrives."""
    net = Star(**links)
    net.grants = []
    p = {"rtt_bytes": rtt_bytes, "P": P, "U": U, "K": K, "cutoffs": list(cutoffs), "mtu": mtu}
    for number in range(hosts):
        net.add(Host(net, number, p), Port(P))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, partial(net.hosts[src].start, Message(number, src, dst, size)))
    net.run()
    return net.sent, net.grants
