"""ExpressPass (SIGCOMM 2017) around one switch: credits, their token buckets, and Algorithm 1 as the paper has it.

Chosen here: gaps and sizes of credits do not vary; a credit is 64 B; the first RTT ends with the first packet; the smoothed RTT
takes a fifth of each sample; the time since the last update counts from the first credit; rate (1 - loss) is the rate of the
credits that came through, since the losses are an RTT old; a receiver stops when all has arrived. One flow per sender, no data
lost.
"""

from collections import deque

from .one_switch import FLOW_TIMER, SEND, START, Net, Packet

CREDIT, MTU, HEADER = 64, 1000, 48


class Bucket:
    """Credits within C credit / (credit + data), at most two at once; kept in ps of line time."""

    def __init__(self, net, queue):
        self.net, self.queue = net, queue
        self.slot = (CREDIT + MTU + HEADER) * net.ps_per_byte
        self.credits, self.others = deque(), deque()
        self.level, self.at = 0, 0
        self.dropped = 0

    def put(self, pkt):
        if pkt.kind != "credit":
            self.others.append(pkt)
        elif len(self.credits) < self.queue:
            self.credits.append(pkt)
        else:
            self.dropped += 1
            return False
        return True

    def pick(self):
        now = self.net.now
        self.level, self.at = min(self.level + now - self.at, 2 * self.slot), now
        if self.credits and self.level >= self.slot:
            self.level -= self.slot
            return self.credits.popleft()
        if self.others:
            return self.others.popleft()
        return now + self.slot - self.level if self.credits else None

    def __bool__(self):
        return bool(self.credits or self.others)


class Sender:
    def __init__(self, net, flow, dst, size, start, queue):
        self.net, self.flow, self.dst, self.size, self.start = net, flow, dst, size, start
        self.packets, self.next = -(-size // MTU), 0
        self.bucket, self.data, self.wasted = Bucket(net, queue), deque(), 0

    def begin(self):
        request = Packet("request", self.flow, self.flow, CREDIT, self.dst, {"src": self.number})
        self.net.at(self.start, self, (START, 0), lambda: self.soon(request))

    def soon(self, pkt):
        self.bucket.put(pkt)
        self.net.at(self.net.now, self, (SEND, 0), self.line.kick)

    def backlog(self, _):
        return self.bucket or self.data

    def pick(self, _):
        found = self.bucket.pick()
        if isinstance(found, Packet) or not self.data:
            return found
        pkt = self.data.popleft()
        if pkt.says["last"]:
            self.bucket.put(Packet("stop", self.flow, self.flow, CREDIT, self.dst))
        return pkt

    def arrive(self, pkt, _):
        if pkt.kind != "credit":
            return
        if self.next == self.packets:
            self.wasted += 1
            return
        payload = min(self.size - self.next * MTU, MTU)
        says = {"credit": pkt.says["number"], "sent": pkt.says["sent"], "last": self.next == self.packets - 1}
        self.data.append(Packet("data", self.flow, self.next * MTU, payload + HEADER, self.dst, says))
        self.next += 1
        self.line.kick()


class Flow:
    """What a receiver knows: Algorithm 1.  Rates are shares of the maximum."""

    def __init__(self, src, now, rate, w):
        self.src, self.rate, self.w, self.updated = src, rate, w, now
        self.number, self.next, self.total, self.lost = 0, 0, 0, 0
        self.srtt, self.increased, self.active, self.bytes = None, False, True, 0

    def feedback(self, now, slot, target, w_min, w_max):
        credit_loss = self.lost / self.total
        if credit_loss <= target:
            if self.increased:
                self.w = (self.w + w_max) / 2
            self.rate = (1 - self.w) * self.rate + self.w * (1 + target)
            self.increased = True
        else:
            came = (self.total - self.lost) * slot / (now - self.updated)
            self.rate = min(self.rate, came * (1 + target))
            self.w = max(self.w / 2, w_min)
            self.increased = False
        self.rate = min(max(self.rate, slot / self.srtt), 1 + target)
        self.updated, self.total, self.lost = now, 0, 0


class Receiver:
    def __init__(self, net, queue, sizes, alpha, w_init, target=0.1, w_min=0.01, w_max=0.5):
        self.net, self.sizes, self.alpha, self.w_init = net, sizes, alpha, w_init
        self.bounds = target, w_min, w_max
        self.bucket, self.answers, self.flows, self.finished = Bucket(net, queue), deque(), {}, {}
        self.updates = []

    def backlog(self, _):
        return self.answers or self.bucket

    def pick(self, _):
        return self.answers.popleft() if self.answers else self.bucket.pick()

    def send_credit(self, number):
        flow = self.flows[number]
        now = self.net.now
        if not flow.active:
            return
        if flow.total and now - flow.updated >= flow.srtt:
            flow.feedback(now, self.bucket.slot, *self.bounds)
            self.updates.append((now, number, flow.rate, flow.w))
        says = {"number": flow.number, "sent": now}
        if self.bucket.put(Packet("credit", number, number, CREDIT, flow.src, says)):
            self.net.at(now, self, (SEND, 0), self.line.kick)
        flow.number += 1
        self.net.at(now + max(int(self.bucket.slot / flow.rate), 1), self, (FLOW_TIMER, 0), lambda: self.send_credit(number))

    def arrive(self, pkt, _):
        if pkt.kind == "request":
            self.flows[pkt.flow] = Flow(pkt.says["src"], self.net.now, self.alpha, self.w_init)
            self.send_credit(pkt.flow)
        elif pkt.kind == "data":
            flow = self.flows[pkt.flow]
            sample = self.net.now - pkt.says["sent"]
            flow.srtt = sample if flow.srtt is None else 0.8 * flow.srtt + 0.2 * sample
            distance = pkt.says["credit"] - flow.next
            flow.total += distance + 1
            flow.lost += distance
            flow.next = pkt.says["credit"] + 1
            flow.bytes += pkt.size - HEADER
            if flow.bytes == self.sizes[pkt.flow]:
                flow.active = False
                self.finished[pkt.flow] = self.net.now
                self.answers.append(Packet("ack", pkt.flow, flow.bytes, 60, flow.src))
                self.line.kick()


class Switch:
    def __init__(self, net, ports, queue):
        self.net, self.lines, self.out = net, [], []
        self.buckets = [Bucket(net, queue) for _ in range(ports)]
        self.answers = [deque() for _ in range(ports)]

    def arrive(self, pkt, _):
        if pkt.kind == "ack":
            self.answers[pkt.dst].append(pkt)
        elif not self.buckets[pkt.dst].put(pkt):
            return
        self.lines[pkt.dst].kick()

    def backlog(self, i):
        return self.answers[i] or self.buckets[i]

    def pick(self, i):
        if self.answers[i]:
            return self.answers[i].popleft()
        found = self.buckets[i].pick()
        if isinstance(found, Packet):
            self.out.append((self.net.now, i, found.kind, found.flow, found.offset, found.size))
        return found


def transfer(flows, hosts, alpha, w_init=1 / 16, queue=8, ps_per_byte=80, delay=1_000_000):
    """flows: (src, dst, bytes, start), one per sender -> the switch and the hosts."""
    net = Net(ps_per_byte, delay)
    sizes = [size for _, _, size, _ in flows]
    nodes = [Receiver(net, queue, sizes, alpha, w_init) for _ in range(hosts)]
    for flow, (src, dst, size, start) in enumerate(flows):
        nodes[src] = Sender(net, flow, dst, size, start, queue)
    switch = Switch(net, hosts, queue)
    net.connect(switch, nodes)
    for node in nodes:
        if isinstance(node, Sender):
            node.begin()
    net.run()
    return switch, nodes


def bounds(ps_per_byte, host_delay, uplink_delay, queue=8):
    """Section 3.1, equation 1, in a leaf-spine: the largest data queue of each kind of port, bytes.

    d_p: from a credit's arrival at port p to that of its data, [least, most]; its spread is what p may have to store. A credit
    waits for those before it and for a packet on the line. A host's spread is two packets in a burst, and one on its line.
    """
    slot, packet = (CREDIT + MTU + HEADER) * ps_per_byte, (MTU + HEADER) * ps_per_byte
    most_credit = queue * slot + packet

    def port(*nexts):
        """nexts: (t, least, most, data queued) of the next hops' ports -> least, most, spread."""
        least = min(t + low for t, low, _, _ in nexts)
        most = most_credit + max(t + high + stored for t, _, high, stored in nexts)
        return least, most, most - least

    to_host, to_switch = (slot + 2 * delay for delay in (host_delay, uplink_delay))  # credit there, data back
    nic = to_host, 0, 3 * slot, 0
    up = port(nic)
    spine = port((to_switch, *up))
    down = port(nic, (to_switch, *spine))
    return {name: spread / ps_per_byte + MTU + HEADER for name, (_, _, spread) in (("up", up), ("spine", spine), ("down", down))}
