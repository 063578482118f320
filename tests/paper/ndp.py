"""NDP (SIGCOMM 2017), section 3, around one switch: sender, receiver and the switch's queues, in the words of the paper.

Chosen here: a pull with nothing to send is kept; a flow that
is complete is not pulled; the queue of headers has as many bytes as the queue of data; the packet on the line counts.
`trims_arriving(now, arriving, tail)` is the coin.  One flow per sender.  `Scoreboard` is the path penalty of section 3.2.3.
"""

from collections import OrderedDict, deque
from fractions import Fraction
from math import inf

from .one_switch import SEND, START, TIMER, Net, Packet

HISTORY = 12


class Sender:
    """One flow: `iw` packets blind, then one for each pull."""

    def __init__(self, net, flow, dst, size, start, iw, mtu=1000, header=48):
        self.net, self.flow, self.dst, self.size, self.mtu, self.header = net, flow, dst, size, mtu, header
        self.start, self.packets = start, -(-size // mtu)
        self.next_new, self.may_send_new = 0, min(iw, self.packets)
        self.rtx, self.may_retransmit = deque(), 0
        self.last_pull = self.kept = self.awaiting_pulls = 0
        self.first_window = min(iw, self.packets)
        self.history = deque(maxlen=HISTORY)
        self.resent = 0  # bytes

    def begin(self):
        self.net.at(self.start, self, (START, 0), self.line.kick)

    def backlog(self, _):
        return self.may_retransmit or self.next_new < self.may_send_new

    def pick(self, _):
        if self.may_retransmit:
            self.may_retransmit -= 1
            n = self.rtx.popleft()
            self.resent += min(self.size - n * self.mtu, self.mtu)
        elif self.next_new < self.may_send_new:
            n = self.next_new
            self.next_new += 1
        else:
            return None
        payload = min(self.size - n * self.mtu, self.mtu)
        return Packet(
            "data", self.flow, n * self.mtu, payload + self.header, self.dst, {"src": self.number, "last": n == self.packets - 1}
        )

    def pulled(self):
        if self.may_retransmit < len(self.rtx):
            self.may_retransmit += 1
        elif self.may_send_new < self.packets:
            self.may_send_new += 1
        else:
            self.kept += 1

    def pull(self, number):
        while self.last_pull < number:
            self.last_pull += 1
            self.awaiting_pulls -= 1
            self.pulled()

    def arrive(self, pkt, _):
        if pkt.kind == "pull":
            self.pull(pkt.says["number"])
        else:
            self.first_window -= 1
            self.history.append(pkt.kind)
            if pkt.kind != "ack":
                put = self.rtx.append if pkt.kind == "nack" else self.rtx.appendleft
                put(pkt.says["seq"] // self.mtu)
                if self.kept:
                    self.kept -= 1
                    self.pulled()
            if pkt.kind == "bounce":
                acks = self.history.count("ack")
                if (self.awaiting_pulls == 0 and self.first_window <= 1) or 4 * acks > len(self.history):
                    self.pulled()
            else:
                self.awaiting_pulls += 1
                self.pull(pkt.says["number"])
        self.line.kick()


class Scoreboard:
    """ACKs and NACKs of each path of a sender, and the paths that the next permutation is made of.

    Outliers are those of the authors' code, but for paths with at most ten ACKs, which it never takes for one.  "Temporarily
    removes" is read as: for one permutation more with each answer that finds the path an outlier, one less with each other.
    """

    def __init__(self, paths):
        self.acks, self.nacks = dict.fromkeys(paths, 0), dict.fromkeys(paths, 0)
        self.sentence, self.served = dict.fromkeys(paths, 0), dict.fromkeys(paths, 0)

    def outlier(self, path):
        acks, nacks = self.acks[path], self.nacks[path]
        if acks + nacks <= 100 or sum(self.acks.values()) == 0:
            return False
        ratio = Fraction(nacks, acks) if acks else inf
        mean = Fraction(sum(self.nacks.values()), sum(self.acks.values()))
        return ratio > Fraction(3, 10) and ratio > Fraction(5, 4) * mean

    def answer(self, path, kind):
        if kind == "ack":
            self.acks[path] += 1
        else:
            self.nacks[path] += {"nack": 1, "bounce": 3}[kind]
        self.sentence[path] = self.sentence[path] + 1 if self.outlier(path) else max(self.sentence[path] - 1, 0)

    def permutation(self):
        """The set of its paths; all, should none be left."""
        kept = set()
        for path, sentence in self.sentence.items():
            if self.served[path] < sentence:
                self.served[path] += 1
            else:
                self.served[path] = 0
                kept.add(path)
        return kept or set(self.sentence)


class Receiver:
    """Answers at once; one pull for each packet that came, every T, round robin."""

    def __init__(self, net, T, header_size=64, ack_size=60, mtu=1000):
        self.net, self.T, self.header_size, self.ack_size, self.mtu = net, T, header_size, ack_size, mtu
        self.answers, self.pulls = deque(), deque()
        self.came, self.length, self.pull_no = {}, {}, {}
        self.pull_queue = OrderedDict()  # flow -> pulls
        self.source = {}
        self.next_pull, self.timer, self.finished = 0, None, {}

    def backlog(self, _):
        return self.answers or self.pulls

    def pick(self, _):
        if self.answers:
            return self.answers.popleft()
        return self.pulls.popleft() if self.pulls else None

    def arrive(self, pkt, _):
        flow, now = pkt.flow, self.net.now
        came = self.came.setdefault(flow, set())
        self.source[flow] = pkt.says["src"]
        trimmed = pkt.kind == "header"
        if not trimmed:
            came.add(pkt.offset // self.mtu)
            if pkt.says["last"]:
                self.length[flow] = pkt.offset // self.mtu + 1, pkt.offset + pkt.size - 48
        number = 0
        if len(came) == self.length.get(flow, (-1, 0))[0]:
            self.finished.setdefault(flow, now)
            self.pull_queue.pop(flow, None)
        elif not self.pull_queue and now >= self.next_pull:
            self.pull_no[flow] = number = self.pull_no.get(flow, 0) + 1
            self.next_pull = now + self.T
        else:
            self.pull_queue[flow] = self.pull_queue.get(flow, 0) + 1
            self.pace(max(self.next_pull, now))
        cumulative = next(n for n in range(len(came) + 1) if n not in came) * self.mtu
        if flow in self.finished:
            cumulative = self.length[flow][1]
        says = {"seq": pkt.offset, "number": number}
        kind = "nack" if trimmed else "ack"
        self.answers.append(Packet(kind, flow, cumulative, self.ack_size, self.source[flow], says))
        self.line.kick()

    def pace(self, when):
        if self.timer is None:
            self.timer = when
            self.net.at(when, self, (TIMER, 0), self.on_time)

    def on_time(self):
        self.timer = None
        if not self.pull_queue:
            return
        flow, owed = self.pull_queue.popitem(last=False)
        if owed > 1:
            self.pull_queue[flow] = owed - 1
        self.pull_no[flow] = self.pull_no.get(flow, 0) + 1
        self.pulls.append(Packet("pull", flow, flow, self.header_size, self.source[flow], {"number": self.pull_no[flow]}))
        self.net.at(self.net.now, self, (SEND, 0), self.line.kick)
        self.next_pull = self.net.now + self.T
        if self.pull_queue:
            self.pace(self.next_pull)


class Switch:
    """Per port: `queue` packets of data, as many bytes of headers, and `weight` headers to one of data when both wait."""

    def __init__(self, net, ports, queue, trims_arriving, weight=10, largest=1048, header_size=64):
        self.net, self.limit, self.trims_arriving, self.weight = net, queue * largest, trims_arriving, weight
        self.header_size, self.lines = header_size, []
        self.headers, self.data = ([deque() for _ in range(ports)] for _ in range(2))
        self.served = [0] * ports
        self.on_line = [(0, 0)] * ports  # size of the packet of data on the line, until when
        self.out, self.trims, self.bounces, self.most = [], 0, 0, 0

    def stored(self, i):
        size, until = self.on_line[i]
        return sum(p.size for p in self.data[i]) + (size if until > self.net.now else 0)

    def arrive(self, pkt, slot):
        i = pkt.dst
        if pkt.kind != "data":
            if sum(p.size for p in self.headers[i]) + pkt.size > self.limit:
                if pkt.kind == "header":
                    self.bounce(pkt)
                return
            self.headers[i].append(pkt)
        elif self.stored(i) + pkt.size <= self.limit:
            self.data[i].append(pkt)
            self.most = max(self.most, self.stored(i))
        else:
            if not self.trims_arriving(self.net.now, pkt, self.data[i][-1] if self.data[i] else pkt):
                tail = self.data[i].pop()
                self.data[i].append(pkt)
                pkt = tail
            pkt = Packet("header", pkt.flow, pkt.offset, self.header_size, pkt.dst, pkt.says)
            if sum(p.size for p in self.headers[i]) + pkt.size > self.limit:
                self.bounce(pkt)
                return
            self.trims += 1
            self.headers[i].append(pkt)
        self.lines[i].kick()

    def bounce(self, pkt):
        self.bounces += 1
        back = Packet("bounce", pkt.flow, pkt.offset, self.header_size, pkt.says["src"], {"seq": pkt.offset})
        self.arrive(back, pkt.dst)

    def backlog(self, i):
        return self.headers[i] or self.data[i]

    def pick(self, i):
        now = self.net.now
        headers, data = self.headers[i], self.data[i]
        if headers and (not data or self.served[i] < self.weight):
            self.served[i] += bool(data)
            pkt = headers.popleft()
        elif data:
            if headers:
                self.served[i] = 0
            pkt = data.popleft()
            self.on_line[i] = pkt.size, now + pkt.size * self.net.ps_per_byte
        else:
            return None
        self.out.append((now, i, pkt.kind, pkt.flow, pkt.offset, pkt.size))
        return pkt


def incast(flows, hosts, iw, queue, trims_arriving, ps_per_byte=80, delay=1_000_000, weight=10):
    """flows: (src, dst, bytes, start), one per sender -> the switch, the senders and the receivers by number."""
    net = Net(ps_per_byte, delay)
    T = 1048 * ps_per_byte
    nodes = [Receiver(net, T) for _ in range(hosts)]
    for flow, (src, dst, size, start) in enumerate(flows):
        nodes[src] = Sender(net, flow, dst, size, start, iw)
    switch = Switch(net, hosts, queue, trims_arriving, weight)
    net.connect(switch, nodes)
    for node in nodes:
        if isinstance(node, Sender):
            node.begin()
    net.run()
    return switch, nodes
