"""pFabric (SIGCOMM 2013, section 4), the pseudocode of hosts and switch, on a star.

    priority of a packet = bytes of its flow neither ACKed nor SACKed when it is sent
    host: window BDP from the start; RTO fixed; timeout: window 1 packet, go back to the first missing byte, +1 per new ACK
    switch, full: drop the packet with the most bytes left (tie: the latest)
    dequeue: find the fewest, send *that flow's earliest*

The authors' simulator YAPS: the window starts at `window` and grows to `largest`, and, function by function of coresim/flow.cpp,
ext/pfabricflow.cpp and ext/pfabricqueue.cpp (`code`: which of them):

    "queue"    send: the packet goes into the NIC's queue, of the same kind as a switch's, with get_priority of this moment
    "missing"  send_pending_data: what is in the receiver's set is not sent; here, what ACKs have told of that set
    "windows"  receive_ack: send_pending_data only if ack > last_unacked_seq; increase_cwnd: slow start up to ssthresh, which
               handle_timeout sets to max(cwnd / 2, 2), then one per cwnd ACKs; RetxTimeoutEvent at exactly 45 us after the last
               new ACK, the last timeout or the first packet

Choices: bytes are those of payload; ACKs carry the bytes that have arrived, the SACKed ones enlarge the window; a host without a
queue sends packets of the flow with the fewest bytes left; timeouts are looked for at multiples of a quarter of the RTO, younger
flows first.
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
        self.next, self.sent, self.acked, self.arrived, self.progress = 0, 0, 0, 0, 0
        self.seen = set()  # packets that ACKs have told of
        self.end = 0  # packets that begin before it may be sent
        self.ssthresh, self.count = 100_000, 0  # packets
        self.timeout = None

    def left(self):
        return self.size - self.arrived


class Host:
    def __init__(self, net, number, p):
        self.net, self.number, self.p = net, number, p
        self.flows, self.received = {}, {}
        self.nic = Port(net, p["nic"]) if "queue" in p["code"] else None
        self.tick_at = None

    def start(self, flow):
        flow.progress = self.net.now
        self.flows[flow.number] = flow
        self.open(flow)
        self.arm(flow)
        self.kick()

    def kick(self):
        """A queue is served after the events of this instant: what they store in it is there."""
        if not self.nic:
            self.net.kick(self.net.up, self.number)
        elif self.nic.backlog() and not self.net.up[self.number].armed:
            self.net.arm(self.net.up, self.number)

    # ---- timeouts ----

    def arm(self, flow):
        """The event of a flow, which finds out whether it was moved; else the one of a host that looks for all."""
        if "windows" in self.p["code"]:
            flow.timeout = self.net.now + self.p["rto"]
            self.net.at(flow.timeout, TIMER, 0, partial(self.expired, flow, flow.timeout))
        elif self.tick_at is None:
            quarter = self.p["rto"] // 4
            self.tick_at = (self.net.now // quarter + 1) * quarter
            self.net.at(self.tick_at, TIMER, 0, self.tick)

    def expired(self, flow, timeout):
        if flow.number in self.flows and flow.timeout == timeout:
            self.handle_timeout(flow)
            self.arm(flow)

    def tick(self):
        self.tick_at = None
        for f in reversed(self.flows.values()):
            if f.sent > f.acked and self.net.now - f.progress >= self.p["rto"]:
                f.progress = self.net.now
                self.handle_timeout(f)
        if self.flows:
            self.arm(None)

    def handle_timeout(self, f):
        if "windows" in self.p["code"]:
            f.ssthresh = max(f.window // self.p["mtu"] // 2, 2)
        f.window, f.next = self.p["mtu"], f.acked
        if "missing" not in self.p["code"]:
            f.sent = f.acked
        self.open(f)
        self.kick()

    # ---- what may be sent ----

    def open(self, f):
        """send_pending_data: packets may be sent up to the window, and what has arrived extends it."""
        f.end = min(f.acked + f.window + max(f.arrived - f.acked, 0), f.size)
        if self.nic:
            while self.may_send(f):
                self.nic.store(self.make(f))

    def may_send(self, f):
        if "missing" in self.p["code"]:
            while f.next < f.end and f.next in f.seen:
                f.next += self.p["mtu"]
        return f.next < f.end

    def make(self, f):
        payload = min(self.p["mtu"], f.size - f.next)
        packet = Packet(f.src, f.dst, f.number, f.next, payload, payload + HEADER, "data", f.left())
        if f.sent == f.acked:  # nothing was under way
            f.progress = self.net.now
            if "windows" in self.p["code"]:
                self.arm(f)
        f.next += payload
        f.sent = max(f.sent, f.next)
        return packet

    def backlog(self):
        return self.nic.backlog() if self.nic else any(self.may_send(f) for f in self.flows.values())

    def take(self):
        if self.nic:
            return self.nic.take()
        ready = [f for f in self.flows.values() if self.may_send(f)]
        if not ready:
            return None
        return self.make(min(ready, key=lambda f: (f.left(), turn(f.number, self.number, f.left()))))

    # ---- what arrives ----

    def receive(self, packet):
        if packet.kind == "data":
            got = self.received.setdefault(packet.flow, {})
            if packet.offset not in got:
                self.net.arrived_at = self.net.now
            got[packet.offset] = packet.payload
            expected = 0
            while expected in got:
                expected += got[expected]
            info = (expected, sum(got.values()), packet.offset)
            self.net.control(Packet(self.number, packet.src, packet.flow, size=ACK, kind="ack", info=info))
        elif packet.flow in self.flows:
            self.receive_ack(self.flows[packet.flow], *packet.info)

    def receive_ack(self, f, acked, arrived, offset):
        f.arrived = max(f.arrived, arrived)
        f.seen.add(offset)
        newer = acked > f.acked
        if newer:
            f.acked, f.progress = acked, self.net.now
            f.next, f.sent = max(f.next, acked), max(f.sent, acked)
            self.increase_window(f)
        if newer or "windows" not in self.p["code"]:
            self.open(f)
        if newer and "windows" in self.p["code"]:
            self.arm(f)
        if f.acked == f.size:
            del self.flows[f.number]
        self.kick()

    def increase_window(self, f):
        mtu = self.p["mtu"]
        f.count += f.window >= f.ssthresh * mtu
        if f.window < f.ssthresh * mtu or f.count * mtu >= f.window:
            f.count *= f.window < f.ssthresh * mtu
            f.window = min(f.window + mtu, self.p["largest"])


def run(hosts, flows, window, queue, rto, mtu=1000, largest=None, code=(), nic=1 << 60, **links):
    """flows: (src, dst, size, start in ps).  Returns the data packets that the switch sent until everything had arrived, and the
    times of its drops and those of the NICs."""
    net = Star(**links)
    p = {"largest": largest or window, "code": code, "rto": rto, "mtu": mtu, "nic": nic}
    for number in range(hosts):
        net.add(Host(net, number, p), Port(net, queue))
    for number, (src, dst, size, start) in enumerate(flows):
        net.at(start, START, src, partial(net.hosts[src].start, Flow(number, src, dst, size, window)))
    net.run()
    dropped = [[time for port in ports for time in port.dropped] for ports in (net.ports, [h.nic for h in net.hosts if h.nic])]
    sent = [s for s in net.sent if s[0] < net.arrived_at]
    return sent, *([time for time in times if time < net.arrived_at] for times in dropped)
