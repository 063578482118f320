"""ExpressPass (SIGCOMM 2017) around one switch: credits, their token buckets, and Algorithm 1 as the paper has it.

Chosen here: a credit is `control` and up to `spread` more, other frames are `request_size`; a queue has as many bytes of credits
as `credits` of mean size; the first RTT ends with the first packet; the smoothed RTT takes a fifth of each sample; the time since
the last update counts from the first credit; a receiver stops when all has arrived. One flow per sender, no data lost. How the
dice fall is told, for each credit first that of its size, then that of the gap after.

`feedback` "printed" is Algorithm 1; "came", the default, that with the cut of the authors' simulator, of the rate of the credits
that came through, since the losses are an RTT old; "code", that simulator's rule. Also of that simulator: `air`, a flow of less
than 40 packets begins at their share of alpha, and begins again at that of those that have not arrived; `ecs`, a sender looks
once per RTT (from the request to the first credit) whether the credits of the last RTT would do for what is left, and says STOP
then.  Chosen here: packets that wait for the line are left; the STOP goes before them and is the only one; two RTTs after a STOP
that came too early the receiver begins anew.
"""

from collections import deque

from .one_switch import FLOW_TIMER, SEND, START, Net, Packet

MTU, HEADER = 1000, 48
AIR = 40  # packets

PAPER = {"alpha": 1 / 16, "w_init": 1 / 16, "w_min": 0.01, "w_max": 0.5, "target": 0.1, "credits": 8, "feedback": "came"}
PAPER |= {"jitter": 0.1, "control": 64, "spread": 8, "request_size": 64, "air": False, "ecs": False}
CODE = {"alpha": 0.5, "target": 0.125, "feedback": "code", "air": True, "ecs": True}
CODE |= {"control": 76, "spread": 16, "request_size": 84}  # minCreditSize, maxCreditSize - minCreditSize, minEthernetSize
PRESETS = {"": PAPER, "code": {**PAPER, **CODE}, "bfc": {**PAPER, **CODE, "credits": 16}}


class Bucket:
    """Credits within C credit / (credit + data), at most two at once; kept in ps of line time, of credits of mean size."""

    def __init__(self, net, ps_per_byte, settings):
        self.net = net
        self.mean = settings["control"] + settings["spread"] // 2
        self.most = settings["credits"] * self.mean  # bytes
        self.slot = (self.mean + MTU + HEADER) * ps_per_byte
        self.credits, self.others = deque(), deque()
        self.level, self.at = 0, 0
        self.dropped = 0

    def put(self, pkt):
        if pkt.kind != "credit":
            self.others.append(pkt)
        elif sum(credit.size for credit in self.credits) + pkt.size <= self.most:
            self.credits.append(pkt)
        else:
            self.dropped += 1
            return False
        return True

    def pick(self):
        now = self.net.now
        self.level, self.at = min(self.level + now - self.at, 2 * self.slot), now
        cost = self.credits[0].size * self.slot // self.mean if self.credits else None
        if self.credits and self.level >= cost:
            self.level -= cost
            return self.credits.popleft()
        if self.others:
            return self.others.popleft()
        return now + cost - self.level if self.credits else None

    def __bool__(self):
        return bool(self.credits or self.others)


class Sender:
    def __init__(self, host, flow, dst, size, start):
        self.host, self.flow, self.dst, self.size, self.start = host, flow, dst, size, start
        self.ecs, self.frame = host.settings["ecs"], host.settings["request_size"]
        self.packets, self.next, self.wasted = -(-size // MTU), 0, 0
        self.rtt, self.since, self.used = None, None, 0
        self.stopped, self.acknowledged = None, None  # packets left then; when

    def begin(self):
        says = {"src": self.host.number, "packets": self.packets}
        request = Packet("request", self.flow, self.flow, self.frame, self.dst, says)
        self.host.net.at(self.start, self.host, (START, 0), lambda: self.host.soon(request))

    def left(self):
        return self.packets - self.next + len(self.host.data)

    def stop(self):
        self.stopped = self.left()
        self.host.bucket.put(Packet("stop", self.flow, self.flow, self.frame, self.dst))

    def sent(self, pkt):
        if pkt.says["last"] and self.stopped is None:
            self.stop()

    def credit(self, pkt, now):
        if self.rtt is None:
            self.rtt, self.since = now - self.start, now
        if self.next == self.packets:
            self.wasted += 1
            return
        payload = min(self.size - self.next * MTU, MTU)
        says = {"credit": pkt.says["number"], "sent": pkt.says["sent"], "last": self.next == self.packets - 1}
        self.host.data.append(Packet("data", self.flow, self.next * MTU, payload + HEADER, self.dst, says))
        self.next += 1
        self.used += 1
        if self.ecs and now - self.since >= self.rtt:
            if self.stopped is None and self.used >= self.left():
                self.stop()
            self.used, self.since = 0, now


class Flow:
    """What a receiver knows: Algorithm 1, and the rule of the authors' simulator.  Rates are shares of the maximum."""

    def __init__(self, src, packets, settings):
        self.src, self.packets, self.alpha, self.w_init = src, packets, settings["alpha"], settings["w_init"]
        self.air = AIR if settings["air"] else 0
        self.number, self.next, self.srtt, self.bytes, self.begun = 0, 0, None, 0, 0

    def begin(self, now):
        left = self.packets - self.bytes // MTU
        self.rate, self.w, self.updated = self.alpha * (left / self.air if left < self.air else 1), self.w_init, now
        self.total, self.lost, self.increased = 0, 0, False
        self.begun += 1

    def printed(self, now, slot, target, w_min, w_max):
        cut = self.rate * (1 - self.lost / self.total) * (1 + target)
        self.algorithm_1(now, slot, target, w_min, w_max, cut)

    def came(self, now, slot, target, w_min, w_max):
        """The cut of the authors' simulator."""
        came = (self.total - self.lost) * slot / (now - self.updated)
        self.algorithm_1(now, slot, target, w_min, w_max, min(self.rate, came * (1 + target)))

    def algorithm_1(self, now, slot, target, w_min, w_max, cut):
        """`cut`: the rate if too many credits were lost."""
        credit_loss = self.lost / self.total
        if credit_loss <= target:
            if self.increased:
                self.w = (self.w + w_max) / 2
            self.rate = (1 - self.w) * self.rate + self.w * (1 + target)
            self.increased = True
        else:
            self.rate = cut
            self.w = max(self.w / 2, w_min)
            self.increased = False
        self.rate = min(max(self.rate, slot / self.srtt), 1 + target)
        self.updated, self.total, self.lost = now, 0, 0

    def code(self, now, slot, scale, w_min, w_max):
        """The target falls to nothing as the rate nears its maximum; w rises by steps."""
        credit_loss = self.lost / self.total
        target = scale * (1 - self.rate)
        if credit_loss > target:
            came = (self.total - self.lost) * slot / (now - self.updated)
            self.rate = min(self.rate, came * (1 + target))
            self.w = max(self.w / 2, w_min)
            self.increased = False
        else:
            if self.increased:
                self.w = min(self.w + 0.05, w_max)
            self.increased = True
            if self.rate < 1:
                self.rate = self.w + (1 - self.w) * self.rate
        self.rate = min(max(self.rate, slot / self.srtt), 1)
        self.updated, self.total, self.lost = now, 0, 0


class Host:
    """The flow that it sends, if any, those that it receives, and its NIC.

    draws: 31-bit numbers; base_rtt: the least wait after a STOP is two of them.
    """

    def __init__(self, net, ps_per_byte, sizes, settings, draws, base_rtt):
        self.net, self.sizes, self.settings, self.draws, self.base_rtt = net, sizes, settings, draws, base_rtt
        self.bounds = settings["target"], settings["w_min"], settings["w_max"]
        self.bucket = Bucket(net, ps_per_byte, settings)
        self.answers, self.data, self.sender = deque(), deque(), None
        self.flows, self.timers, self.updates, self.finished = {}, {}, [], {}

    def backlog(self, _):
        return self.answers or self.bucket or self.data

    def pick(self, _):
        if self.answers:
            return self.answers.popleft()
        found = self.bucket.pick()
        if isinstance(found, Packet) or not self.data:
            return found
        pkt = self.data.popleft()
        self.sender.sent(pkt)
        return pkt

    def soon(self, pkt):
        """What a timer sends."""
        if self.bucket.put(pkt):
            self.net.at(self.net.now, self, (SEND, 0), self.line.kick)
            return True
        return False

    def set_timer(self, number, when, action):
        """One for each flow, instead of the one before."""
        self.timers[number] = when
        self.net.at(when, self, (FLOW_TIMER, number), lambda: self.timers.get(number) == when and action(number))

    def begin(self, number):
        self.flows[number].begin(self.net.now)
        self.send_credit(number)

    def send_credit(self, number):
        flow, now, settings = self.flows[number], self.net.now, self.settings
        if flow.total and now - flow.updated >= flow.srtt:
            getattr(flow, settings["feedback"])(now, self.bucket.slot, *self.bounds)
            self.updates.append((now, number, flow.rate, flow.w))
        more = next(self.draws) % (settings["spread"] + 1) if settings["spread"] else 0
        says = {"number": flow.number, "sent": now}
        self.soon(Packet("credit", number, number, settings["control"] + more, flow.src, says))
        flow.number += 1
        gap = self.bucket.slot / flow.rate
        if settings["jitter"]:
            gap *= 1 + settings["jitter"] * (next(self.draws) / 2**30 - 1)
        self.set_timer(number, now + max(int(gap), 1), self.send_credit)

    def arrive(self, pkt, _):
        number, now = pkt.flow, self.net.now
        if pkt.kind == "ack":
            self.sender.acknowledged = now
        elif pkt.kind == "credit":
            self.sender.credit(pkt, now)
            self.line.kick()
        elif pkt.kind == "request":
            self.flows[number] = Flow(pkt.says["src"], pkt.says["packets"], self.settings)
            self.begin(number)
        elif pkt.kind == "stop" and number not in self.finished:
            wait = max(int(2 * self.flows[number].srtt), 2 * self.base_rtt)
            self.set_timer(number, now + wait, self.begin)
        elif pkt.kind == "data":
            flow = self.flows[number]
            sample = now - pkt.says["sent"]
            flow.srtt = sample if flow.srtt is None else 0.8 * flow.srtt + 0.2 * sample
            distance = pkt.says["credit"] - flow.next
            flow.total += distance + 1
            flow.lost += distance
            flow.next = pkt.says["credit"] + 1
            flow.bytes += pkt.size - HEADER
            if flow.bytes == self.sizes[number]:
                del self.timers[number]
                self.finished[number] = now
                self.answers.append(Packet("ack", number, flow.bytes, 60, flow.src))
                self.line.kick()


class Switch:
    def __init__(self, net, ports, settings):
        self.net, self.lines, self.out = net, [], []
        self.buckets = [Bucket(net, net.line_of(i), settings) for i in range(ports)]
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


def transfer(flows, hosts, settings, draws=None, base_rtt=0, slower=None, ps_per_byte=80, delay=1_000_000):
    """flows: (src, dst, bytes, start), one per sender; draws(host): its dice -> the switch and the hosts."""
    net = Net(ps_per_byte, delay, slower)
    sizes = [size for _, _, size, _ in flows]
    nodes = [Host(net, net.line_of(i), sizes, settings, draws and draws(i), base_rtt) for i in range(hosts)]
    for flow, (src, dst, size, start) in enumerate(flows):
        nodes[src].sender = Sender(nodes[src], flow, dst, size, start)
    switch = Switch(net, hosts, settings)
    net.connect(switch, nodes)
    for node in nodes:
        if node.sender:
            node.sender.begin()
    net.run()
    return switch, nodes


def bounds(ps_per_byte, host_delay, uplink_delay, queue=8, credit=64):
    """Section 3.1, equation 1, in a leaf-spine: the largest data queue of each kind of port, bytes.

    d_p: from a credit's arrival at port p to that of its data, [least, most]; its spread is what p may have to store. A credit
    waits for those before it and for a packet on the line. A host's spread is two packets in a burst, and one on its line.
    """
    slot, packet = (credit + MTU + HEADER) * ps_per_byte, (MTU + HEADER) * ps_per_byte
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
