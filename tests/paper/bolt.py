"""Bolt (NSDI 2023): what a port does with a data packet, and what a sender does with ACKs, SRCs and losses, on a star.

    data packet at a port:
        supply tokens += C * time since the last one - size, at most `sm_max`
        queue >= threshold: clear INC; without DEC: set it, SRC to the source (seq, time stamp, q / C, C)
        else LAST: without FIRST a token of PRU, at most `pru_max`
        else INC, a token of PRU: it goes, INC stays
        else INC, supply >= MTU: MTU of it goes, INC stays
        else clear INC
    sender, cwnd = BDP at first:
        data: FIRST before any ACK; LAST: what is left fits cwnd, or the packet; INC: neither
              AI: the first one after the ACK of the last one that was marked so
        ACK: AI: cwnd += ai mss; INC and no DEC: cwnd += mss
        SRC: cwnd <= mss: cwnd *= 1 - max_md; else, if now - last_dec >= rtt_src / (q in packets * share), cwnd -= mss;
             share = cwnd / rtt / C, before the first ACK the rates of the two lines
        NACK, timeout: cwnd *= 1 - max_md at most once per RTT, go back N

Times in ps, all comparisons in whole numbers and fractions.  Choices: the packet that has come is not in the queue, nor is what
is on the line; last_dec is at first the start of the flow; a part of a window that is left lets a packet go; below one packet
one goes every rtt mss / cwnd, at a time fixed when the one before goes, and again when cwnd crosses one packet.
"""

from collections import deque
from dataclasses import dataclass, field
from fractions import Fraction

from paper.star import HEADER, START, TIMER, Packet, Star

FIRST, LAST, INC, DEC, AI = (1 << i for i in range(5))


@dataclass
class Parameters:
    bdp: int
    base_rtt: int
    stamp: int = 11
    mss: int = 1000
    threshold: int = 2 * 1059
    pru_max: int = 256
    sm_max: int = 1059
    ai: float = 1
    max_md: Fraction = Fraction(1, 2)
    target_q: int = 0
    least: int = 15
    largest: int = 0  # 0: bdp
    ack: int = 60

    @property
    def mtu(self):
        return self.mss + HEADER + self.stamp


@dataclass
class Src:
    """What an SRC says."""

    stamp: int
    queue: int
    gap: int  # ps per byte of the link


class Tokens:
    """A port's state and what it decides about a data packet."""

    def __init__(self, p, gap):
        self.p, self.gap = p, gap
        self.pru, self.supply, self.seen = 0, Fraction(0), 0
        self.kept = {"pru": 0, "supply": 0}  # INCs that were kept, by what let them be
        self.most = [0, Fraction(0)]

    def decide(self, now, size, flags, queue):
        """-> the packet's flags, and whether an SRC is sent."""
        self.supply = min(self.supply + Fraction(now - self.seen, self.gap) - size, Fraction(self.p.sm_max))
        self.seen = now
        if queue >= self.p.threshold:
            return (flags | DEC) & ~INC, not flags & DEC
        if flags & LAST:
            if not flags & FIRST:
                self.pru = min(self.pru + 1, self.p.pru_max)
        elif flags & INC and self.pru > 0:
            self.pru -= 1
            self.kept["pru"] += 1
        elif flags & INC and self.supply >= self.p.mtu:
            self.supply -= self.p.mtu
            self.kept["supply"] += 1
        else:
            flags &= ~INC
        self.most = [max(self.most[0], self.pru), max(self.most[1], self.supply)]
        return flags, False


class Port:
    def __init__(self, net, p):
        self.net, self.queue, self.bytes, self.longest = net, deque(), 0, 0
        self.tokens = Tokens(p, net.gap)

    def store(self, packet):
        stamp, flags = packet.info
        flags, told = self.tokens.decide(self.net.now, packet.size, flags, self.bytes)
        packet.info = stamp, flags
        if told:
            line = self.net.down[packet.src]
            line.control.append(
                Packet(packet.dst, packet.src, packet.flow, kind="src", info=Src(stamp, self.bytes, self.net.gap))
            )
            self.net.kick(self.net.down, packet.src)
        self.queue.append(packet)
        self.bytes += packet.size
        self.longest = max(self.longest, self.bytes)
        return True

    def backlog(self):
        return bool(self.queue)

    def take(self):
        if not self.queue:
            return None
        packet = self.queue.popleft()
        self.bytes -= packet.size
        return packet


@dataclass
class Sender:
    """The window of one flow on a line of `gap` ps per byte."""

    p: Parameters
    gap: int
    size: int
    start: int
    cwnd: int = 0
    rtt: int = 0
    least_cwnd: int = 0  # so far
    ai_seq: int = 0  # the packet that is marked AI starts here
    events: list = field(default_factory=list)

    def __post_init__(self):
        self.cwnd = self.p.bdp
        self.last_dec = self.start
        self.bound("start")

    def bound(self, event):
        self.cwnd = max(self.p.least, min(self.cwnd, self.p.largest or self.p.bdp))
        self.least_cwnd = min(self.least_cwnd or self.cwnd, self.cwnd)
        self.events.append(event)

    def flags(self, seq, payload):
        out = 0
        if self.rtt == 0:
            out |= FIRST
        elif seq + self.cwnd < self.size and seq + payload < self.size:
            out |= INC
        if seq + payload >= self.size or seq + self.cwnd >= self.size:
            out |= LAST
        if seq == self.ai_seq:
            out |= AI
        return out

    def on_ack(self, now, stamp, flags, snd_nxt):
        self.rtt = now - stamp
        if flags & AI:
            self.ai_seq = snd_nxt
            self.cwnd += int(self.p.ai * self.p.mss)
        if flags & INC and not flags & DEC:
            self.cwnd += self.p.mss
        self.bound("inc" if flags & INC else "ai" if flags & AI else "ack")

    def on_src(self, now, src):
        if self.cwnd <= self.p.mss:
            self.halve("halved")
            return
        share = Fraction(self.cwnd * src.gap, self.rtt) if self.rtt else Fraction(src.gap, self.gap)
        packets = Fraction(src.queue - self.p.target_q, self.p.mtu)
        dec = packets > 0 and now - self.last_dec >= (now - src.stamp) / (packets * share)
        if dec:
            self.cwnd -= self.p.mss
            self.last_dec = now
        self.bound("dec" if dec else "too early")

    def on_loss(self, now, stamp=None):
        """Of a NACK, which gives an RTT, or a timeout."""
        self.rtt = self.rtt if stamp is None else now - stamp
        if now - self.last_dec >= self.rtt:
            self.last_dec = now
            self.halve("loss")
        else:
            self.bound("loss again")

    def halve(self, event):
        self.cwnd = int(self.cwnd * (1 - self.p.max_md))
        self.bound(event)

    @property
    def pacing_delay(self):
        """Between two packets, 0: none."""
        return Fraction((self.rtt or self.p.base_rtt) * self.p.mss, self.cwnd) if self.cwnd < self.p.mss else 0


class Host:
    """Sends one flow at most, and acknowledges what comes."""

    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.model = None
        self.sent = self.acked = self.due = self.last = 0
        self.expected = {}

    def start(self, flow, dst, size):
        self.flow, self.dst, self.size = flow, dst, size
        self.model = Sender(self.p, self.net.gap, size, self.net.now)
        self.net.kick(self.net.up, self.number)

    def backlog(self):
        return self.model is not None and self.sent < self.size

    def take(self):
        model = self.model
        if model is None or self.sent == self.size or self.sent - self.acked >= model.cwnd or self.net.now < self.due:
            return None
        payload = min(self.p.mss, self.size - self.sent)
        info = self.net.now, model.flags(self.sent, payload)
        size = payload + HEADER + self.p.stamp
        packet = Packet(self.number, self.dst, self.flow, self.sent, payload, size, info=info)
        self.sent, self.last = self.sent + payload, self.net.now
        self.pace(size)
        return packet

    def pace(self, size):
        """The next packet may go when this one's pace allows."""
        self.last_size = size
        self.due = max(self.last + int(self.model.pacing_delay * size / self.p.mtu), self.net.now)
        if self.due > self.net.now:
            self.net.at(self.due, TIMER, self.number, lambda: self.net.kick(self.net.up, self.number))

    def receive(self, packet):
        if packet.kind == "data":
            self.expected[packet.flow] = packet.offset + packet.payload
            answer = Packet(self.number, packet.src, packet.flow, self.expected[packet.flow], size=self.p.ack, kind="ack")
            answer.info = packet.info
            self.net.control(answer)
            return
        model = self.model
        if model is None:
            return
        before = model.cwnd < self.p.mss
        if packet.kind == "src":
            self.net.srcs.append((self.net.now, packet.flow))
            model.on_src(self.net.now, packet.info)
        else:
            self.acked = packet.offset
            stamp, flags = packet.info
            model.on_ack(self.net.now, stamp, flags, self.sent)
            if self.acked == self.size:
                self.net.done.append(model)
                self.model = None
                return
        self.net.windows.append((self.net.now, packet.flow, model.cwnd))
        if before != (model.cwnd < self.p.mss) and self.sent > 0:
            self.pace(self.last_size)
        self.net.kick(self.net.up, self.number)


def run(hosts, flows, p, gap=80):
    """flows: (src, dst, size, start in ps), one of a source at most.  -> the network: `sent` of the switch, `srcs` as they
    arrive (time, flow), `windows` (time, flow, cwnd) after each ACK and SRC, `done`: the senders."""
    net = Star(gap)
    net.srcs, net.windows, net.done = [], [], []
    for number in range(hosts):
        net.add(Host(net, number, p), Port(net, p))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, lambda a=(number, dst, size), src=src: net.hosts[src].start(*a))
    net.run()
    return net
