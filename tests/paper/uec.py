"""Ultra Ethernet's transport with senders' windows (NSCC), receivers' credit (RCCC) or both, around one switch, in the words of
its description.

`exact` numbers are floats; else, as in the simulator uet-htsim, windows, increments and the bandwidth-delay product are whole
numbers, cut at every step.  `as_simulator` marks a packet when its last bit leaves, by what is left then, else when its first
bit does; and has the simulator's order of what arrives at one instant.  One flow per sender; nothing is trimmed.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop
from math import ceil

from .one_switch import START, TIMER, Net, Packet

ACK = 64
US = 1_000_000
BEFORE_ARRIVALS = -1
QUANTUM = 256


class Pipes(Net):
    """As the simulator orders what arrives at one instant: by when a line delivered the packet before, or this one entered it."""

    def __init__(self, *given):
        super().__init__(*given)
        self.last = {}

    def at(self, when, node, leaf, action):
        phase, slot = leaf
        if phase == 0:
            leaf = 0, (max(when - self.delay, self.last.get((node.number, slot), 0)), slot)
            self.last[node.number, slot] = when
        super().at(when, node, leaf, action)

    def run(self):
        while self.events:
            self.now, _, _, _, action = heappop(self.events)
            action()


@dataclass
class Constants:
    """Derived from the network's round trip R (ps), what a byte takes (ps) and packets; `target`: T, if not 3/4 of R."""

    R: int
    ps_per_byte: int = 80
    payload: int = 4086
    header: int = 64
    target: float | None = None
    exact: bool = False
    first: float | None = None  # window of a flow that begins
    bdp: float = field(init=False)

    def __post_init__(self):
        self.wire = self.payload + self.header
        self.bdp = self.R / self.ps_per_byte
        self.a = self.bdp / 150_000
        self.T = self.target if self.target is not None else 0.75 * self.R
        self.b = self.T / (12 * US)
        self.alpha = 4 * self.payload * self.a * self.b / self.T
        self.fi = 5 * self.payload * self.a
        self.eta = 0.15 * self.payload * self.a
        self.fast = 0.25 * self.a

    def cut(self, x):
        return x if self.exact else int(x)

    def window(self, base):
        bdp = base / self.ps_per_byte if self.exact else int(base * 1e-6 * (1e6 / self.ps_per_byte))
        return self.cut(1.5 * bdp)


class Window:
    """NSCC: what an ACK or a NACK does to cwnd."""

    def __init__(self, constants):
        self.k, self.base = constants, constants.R
        self.maxwnd = self.cwnd = constants.window(constants.R)
        if constants.first is not None:
            self.cwnd = constants.first
            self.clamp()
        self.avg = self.inc = self.received = self.achieved = self.ignored = self.to_ignore = self.fast_count = 0
        self.in_flight = 0
        self.growing = self.trigger = False
        self.qa_end = self.last_adjust = self.last_dec = 0

    def measured(self, rtt):
        if rtt < self.base:
            self.base, self.maxwnd = rtt, self.k.window(rtt)

    def clamp(self):
        self.cwnd = max(min(self.cwnd, self.maxwnd), self.k.wire)

    def quick_adapt(self, now, marked, lost, d):
        if marked and self.ignored < self.to_ignore:
            self.inc = self.received = 0
            return True
        adapted = False
        if now > self.qa_end:
            if self.qa_end and (self.trigger or lost or d > 4 * self.k.T) and self.achieved < self.k.cut(self.maxwnd / 8):
                self.cwnd = max(self.achieved, self.k.wire)
                self.to_ignore, self.ignored, self.trigger = self.in_flight, 0, False
                self.inc = self.received = 0
                adapted = True
            self.achieved, self.qa_end = 0, now + self.base + self.k.T
        return adapted

    def counted(self, n):
        self.achieved += n
        self.received += n
        self.ignored += n
        self.in_flight -= n

    def delay(self, rtt, marked):
        """-> d of an ACK whose round trip was measured."""
        self.measured(rtt)
        d = rtt - self.base
        self.average(self.base / 4 if not marked and d > self.k.T else d)
        return d

    def average(self, sample):
        self.avg = self.k.cut(0.0125 * sample + (1 - 0.0125) * self.avg)

    def ack(self, now, n, d, marked):
        k, cut = self.k, self.k.cut
        if self.quick_adapt(now, marked, False, d):
            return
        if not marked and d >= k.T:
            self.inc = cut(self.inc + k.fi * n)
        elif not marked:
            grown = False
            if d < US:
                self.fast_count += n
                if self.fast_count > self.cwnd or self.growing:
                    self.cwnd = cut(self.cwnd + k.fast * n)
                    self.growing = grown = True
            else:
                self.fast_count = 0
            if not grown:
                self.growing = False
                self.inc = cut(self.inc + k.alpha * n * (k.T - d))
        elif d >= k.T:
            self.growing, self.fast_count = False, 0
            if self.avg > k.T and now - self.last_dec > self.base:
                self.cwnd = cut(max(self.cwnd * max(1 - 0.8 * (self.avg - k.T) / self.avg, 0.5), k.wire))
                self.last_dec = now
        self.clamp()
        if self.received > 8 * k.wire or now - self.last_adjust > k.R:
            self.cwnd = cut(self.cwnd + self.inc / self.cwnd)
            if now - self.last_adjust >= k.R:
                self.cwnd = cut(self.cwnd + k.eta)
                self.last_adjust = now
            self.inc = self.received = 0
        self.clamp()

    def nack(self, now, size, rtt):
        if rtt is not None:
            self.measured(rtt)
        self.ignored += size
        self.average(self.k.R)
        self.trigger = True
        if not self.quick_adapt(now, True, True, 0):
            self.cwnd -= size
            self.clamp()
        self.in_flight -= size


class Sender:
    def __init__(self, net, flow, dst, size, start, constants, stall=True, windows=True, credit=False):
        self.net, self.flow, self.dst, self.size, self.start, self.k = net, flow, dst, size, start, constants
        self.packets = ceil(size / constants.payload)
        self.w, self.next, self.total, self.cum = Window(constants), 0, 0, 0
        self.sent_at, self.asked, self.stall = {}, False, stall
        self.done, self.log, self.acks = None, [], 0
        self.windows, self.has_credit = windows, credit
        self.credit = self.most = self.w.maxwnd
        self.pull, self.speculates, self.pulls = 0, True, []

    def begin(self):
        self.net.at(self.start, self, (START, 0), self.line.kick)

    def bytes_of(self, n):
        return min(self.size - n * self.k.payload, self.k.payload) + self.k.header

    def backlog(self, _):
        if self.next == self.packets:
            return False
        if self.has_credit and self.credit <= 0:
            return False
        fits = not self.windows or self.w.in_flight + self.bytes_of(self.next) <= self.w.cwnd
        return fits or (not self.stall and not self.asked and self.w.in_flight < 16_384)

    def pick(self, _):
        if not self.backlog(0):
            return None
        n, size = self.next, self.bytes_of(self.next)
        self.next += 1
        self.sent_at[n] = self.net.now
        self.w.in_flight += size
        self.asked = self.next == self.packets or (self.windows and self.w.in_flight + size >= self.w.cwnd)
        if self.has_credit:
            self.credit -= size
            self.asked = self.asked or self.credit <= 0
        says = {"src": self.number, "ar": self.asked, "ecn": False, "last": self.next == self.packets}
        says["target"] = self.target()
        return Packet("data", self.flow, n, size, self.dst, says)

    def target(self):
        """Quanta up to which credit is asked for."""
        backlog = max(self.size - self.next * self.k.payload, 0) + (self.packets - self.next) * self.k.header
        wanted = min(backlog, self.w.cwnd + self.k.wire if self.windows else backlog, self.most) - self.credit
        if self.speculates and backlog:
            wanted = max(wanted, self.k.wire)
        return self.pull + ceil(wanted / QUANTUM)

    def answered(self):
        """Speculation ends, and with it what was left of the first credit."""
        if self.speculates:
            self.speculates, self.credit = False, min(self.credit, 0)

    def arrive(self, pkt, _):
        now, w, says = self.net.now, self.w, pkt.says
        if pkt.kind == "pull":
            self.answered()
            self.pulls.append((now, says["number"]))
            self.credit = min(self.credit + QUANTUM * (says["number"] - self.pull), self.most)
            self.pull = says["number"]
            self.line.kick()
            return
        self.acks += 1
        n, self.total = says["total"] - self.total, says["total"]
        w.counted(n)
        d = w.avg
        if pkt.offset in self.sent_at:
            d = w.delay(now - self.sent_at[pkt.offset], says["ecn"])
        self.cum = says["cum"]
        for psn in range(self.cum):
            self.sent_at.pop(psn, None)
        before = w.cwnd
        if self.windows:
            w.ack(now, n, d, says["ecn"])
        self.answered()
        self.log.append((self.acks, now, self.cum, d, says["ecn"], before, w.cwnd))
        if self.cum == self.packets:
            self.done = now
        self.line.kick()


class Receiver:
    def __init__(self, net, pacer=None):
        self.net, self.answers, self.came, self.total, self.owed = net, deque(), {}, {}, {}
        self.pacer = pacer
        if pacer:
            pacer.owner = self

    def backlog(self, _):
        return self.answers

    def pick(self, _):
        return self.answers.popleft() if self.answers else None

    def arrive(self, pkt, _):
        flow, says = pkt.flow, pkt.says
        first = flow not in self.came
        self.came[flow] = self.came.get(flow, 0) + 1  # in order here
        self.total[flow] = self.total.get(flow, 0) + pkt.size
        self.owed[flow] = self.owed.get(flow, 0) + pkt.size
        if self.pacer:
            self.pacer.heard(flow, says)
        if says["ecn"] or self.owed[flow] >= 16_384 or first or says["ar"]:
            self.owed[flow] = 0
            answer = {"total": self.total[flow], "cum": self.came[flow], "ecn": says["ecn"]}
            self.answers.append(Packet("ack", flow, pkt.offset, ACK, says["src"], answer))
            self.line.kick()


class Pacer:
    """Pulls of one receiver: flows that ask, in turn; else those that had what they asked for, until `most` beyond it."""

    def __init__(self, net, most, exact, as_simulator):
        self.net, self.as_simulator = net, as_simulator
        self.time = net.ps_per_byte * QUANTUM / 0.99 if exact else int(net.ps_per_byte * QUANTUM / 0.99)
        self.limit = int(most) // QUANTUM
        self.asking, self.idle, self.target, self.granted, self.source = deque(), deque(), {}, {}, {}
        self.runs, self.until = False, 0

    def heard(self, flow, says):
        self.source[flow] = says["src"]
        self.granted.setdefault(flow, 0)
        if says["last"] and not self.as_simulator:
            for flows in (self.asking, self.idle):
                if flow in flows:
                    flows.remove(flow)
        elif says["target"] > self.target.get(flow, 0):
            self.target[flow] = says["target"]
            if flow not in self.asking:
                if not self.as_simulator and flow in self.idle:
                    self.idle.remove(flow)
                self.asking.append(flow)
                if not self.runs:
                    self.runs = True
                    self.net.at(max(self.net.now, self.until), self.owner, (TIMER, 0), self.turn)

    def turn(self):
        self.runs = bool(self.asking or self.idle)
        if self.asking:
            flow = self.asking.popleft()
            quanta = min(64, max(self.target[flow] - self.granted[flow], 0))
            self.granted[flow] += quanta
            (self.asking if self.granted[flow] < self.target[flow] else self.idle).append(flow)
        elif self.idle:
            flow, quanta = self.idle.popleft(), 64
            self.granted[flow] += quanta
            if self.granted[flow] - self.target[flow] < self.limit:
                self.idle.append(flow)
        else:
            return
        self.owner.answers.append(Packet("pull", flow, 0, ACK, self.source[flow], {"number": self.granted[flow]}))
        self.owner.line.kick()
        self.until = self.net.now + int(self.time * (quanta or 4))
        self.net.at(self.until, self.owner, (TIMER, 0), self.turn)


class Switch:
    """Control first; data that leaves is marked if more than `threshold` bytes are left."""

    def __init__(self, net, ports, threshold, late):
        self.net, self.threshold, self.late, self.lines = net, threshold, late, []
        self.control, self.data = ([deque() for _ in range(ports)] for _ in range(2))
        self.marks, self.out = 0, []

    def backlog(self, i):
        return self.control[i] or self.data[i]

    def arrive(self, pkt, _):
        (self.data if pkt.kind == "data" else self.control)[pkt.dst].append(pkt)
        self.lines[pkt.dst].kick()

    def pick(self, i):
        if self.control[i]:
            return self.control[i].popleft()
        if not self.data[i]:
            return None
        pkt = self.data[i].popleft()
        if self.late:
            end = self.net.now + pkt.size * self.net.ps_per_byte
            self.net.at(end, self, (BEFORE_ARRIVALS, i), lambda: self.mark(pkt, i))
        else:
            self.mark(pkt, i)
        self.out.append((self.net.now, pkt.flow, pkt.offset, pkt.says["ecn"]))
        return pkt

    def mark(self, pkt, i):
        if sum(p.size for p in self.data[i]) > self.threshold:
            pkt.says["ecn"] = True
            self.marks += 1


def run(flows, hosts, constants, threshold=24_900, as_simulator=False, stall=True, delay=US, windows=True, credit=False):
    """flows: (src, dst, bytes, start), one per sender -> the senders in order, and the switch."""
    net = (Pipes if as_simulator else Net)(constants.ps_per_byte, delay)
    pacer = lambda: Pacer(net, constants.window(constants.R), constants.exact, as_simulator) if credit else None  # noqa: E731
    nodes = [Receiver(net, pacer()) for _ in range(hosts)]
    senders = []
    for flow, (src, dst, size, start) in enumerate(flows):
        nodes[src] = Sender(net, flow, dst, size, start, constants, stall, windows, credit)
        senders.append(nodes[src])
    switch = Switch(net, hosts, threshold, as_simulator)
    net.connect(switch, nodes)
    for sender in senders:
        sender.begin()
    net.run()
    return senders, switch
