"""ExpressPass as its authors wrote it, around one switch: xpass.cc and xpass-drop-tail.cc of ns2-xpass, in seconds, B and B/s.

Read from preeyshah/ns2-xpass ce4d77a, with the settings of scripts/large-scale-fattree.tcl there.  Hosts' links have two queues
each, of credits and of all else.  The dice are Python's: their own are seeded anew for every packet by the hash of ECMP, which
leaves a lone flow one constant jitter.  No packet is lost, so that NACKs are left out.
"""

import heapq
import random
from itertools import count

LINE = 12.5e9  # B/s
DELAY = 1e-6
CONTROL, SMALLEST, LARGEST = 84, 76, 92  # B: requests and stops, credits
FRAME, HEADER = 1538, 78
ALPHA, W_INIT, W_MIN, TARGET, JITTER = 0.5, 0.0625, 0.01, 0.125, 0.1
MEAN = (SMALLEST + LARGEST) / 2
MOST_RATE = int(LINE * MEAN / (MEAN + FRAME))  # of credits
BURST = 84 * 2
START = 0.01  # buckets are full


class Link:
    """A port with its link: Queue, XPassDropTail and DelayLink."""

    def __init__(self, net, limit, deliver):
        self.net, self.limit, self.deliver = net, limit, deliver
        self.credits, self.others = [], []
        self.blocked, self.timer = False, 0
        self.tokens, self.clock = 0, 0.0
        self.dropped = 0

    def send(self, pkt):
        if pkt[0] != "credit":
            self.others.append(pkt)
        elif sum(size for _, _, size, _ in self.credits) + pkt[2] > self.limit:
            self.dropped += 1
        else:
            self.credits.append(pkt)
        self.expire()

    def expire(self):
        if self.blocked:
            return
        pkt = self.take()
        if pkt:
            self.blocked = True
            self.net.after(pkt[2] / LINE, lambda: self.sent(pkt))

    def sent(self, pkt):
        self.net.after(DELAY, lambda: self.deliver(pkt))
        self.blocked = False
        self.expire()

    def take(self):
        self.timer += 1
        new = int((self.net.now - self.clock) * MOST_RATE)
        self.tokens = min(self.tokens + new, BURST)
        self.clock += new / MOST_RATE
        if self.credits and self.tokens >= self.credits[0][2]:
            self.tokens -= self.credits[0][2]
            return self.credits.pop(0)
        if self.others:
            return self.others.pop(0)
        if self.credits:
            timer = self.timer
            wait = (self.credits[0][2] - self.tokens) / MOST_RATE
            self.net.after(wait, lambda: self.timer == timer and self.expire())
        return None


class Net:
    def __init__(self, hosts, credits, seed, even):
        self.now, self.events, self.number = 0.0, [], count()
        self.dice, self.even = random.Random(seed), even
        limit = 84 * credits
        self.down = [Link(self, limit, lambda pkt: self.flows[pkt[1]].arrive(pkt)) for _ in range(hosts)]
        self.up = [Link(self, limit, lambda pkt: self.down[pkt[3]["to"]].send(pkt)) for _ in range(hosts)]
        self.flows = []

    def after(self, wait, action):
        heapq.heappush(self.events, (self.now + wait, next(self.number), action))

    def run(self):
        while self.events:
            self.now, _, action = heapq.heappop(self.events)
            action()


class Flow:
    """Both agents of a flow."""

    def __init__(self, net, number, src, dst, size, start):
        self.net, self.number, self.src, self.dst, self.size = net, number, src, dst, size
        self.start, self.finish = START + start, None
        # sender
        self.state, self.sent, self.timer = "closed", 0, 0
        self.rtt, self.used, self.since, self.wasted, self.asked = 0.0, 0, 0.0, 0, 0
        # receiver
        self.sending, self.came, self.credit, self.next_credit = "closed", 0, 1, 1
        self.smoothed, self.total, self.dropped, self.can_increase, self.credit_timer = 0.0, 0, 0, False, 0
        net.after(self.start, self.ask)

    def send(self, kind, size, **says):
        to_receiver = kind != "credit"
        link = self.net.up[self.src if to_receiver else self.dst]
        link.send((kind, self.number, size, {"to": self.dst if to_receiver else self.src, **says}))

    def left(self):
        return -(-(self.size - self.sent) // (FRAME - HEADER))

    def arrive(self, pkt):
        kind, _, size, says = pkt
        {"request": self.requested, "credit": self.credited, "data": self.received, "stop": self.stopped}[kind](size, **says)

    def set_timer(self, wait):
        self.timer += 1
        timer = self.timer
        self.net.after(wait, lambda: self.timer == timer and self.sender_timeout())

    # ---- sender ----

    def ask(self):
        self.rtt = self.net.now
        self.asked += 1
        self.send("request", CONTROL, packets=self.left())
        self.state = "asked"
        self.set_timer(1e-4)

    def credited(self, size, to, number, at):
        self.used += 1
        if self.state == "asked":
            self.timer += 1
            self.state = "receiving"
            self.rtt = self.net.now - self.rtt
            self.since = self.net.now
        if self.state == "receiving":
            if self.sent < self.size:
                self.data(number, at)
            if self.sent == self.size:
                self.net.after(0, self.stop)
            elif self.net.now - self.since >= self.rtt:
                if self.used >= self.left():
                    self.net.after(0, self.stop)
                self.used, self.since = 0, self.net.now
        elif self.state == "stop sent" and self.sent < self.size:
            self.data(number, at)
        else:
            self.wasted += 1

    def data(self, number, at):
        payload = min(FRAME - HEADER, self.size - self.sent)
        self.send("data", max(CONTROL, HEADER + payload), payload=payload, number=number, at=at)
        self.sent += payload

    def stop(self):
        self.send("stop", CONTROL)
        self.state = "stop sent"
        self.set_timer(2 * self.rtt)

    def sender_timeout(self):
        if self.state == "asked" or (self.state == "stop sent" and self.sent < self.size):
            self.ask()
        else:
            self.state = "close wait"

    # ---- receiver ----

    def requested(self, size, to, packets):
        if self.sending == "sending":
            return
        self.w, self.updated = W_INIT, self.net.now
        self.rate = int(ALPHA * min(packets / 40.0, 1.0) * MOST_RATE)
        self.sending = "sending"
        self.send_credit()

    def send_credit(self):
        self.feedback()
        dice = self.net.dice
        size = int(MEAN) if self.net.even else dice.randint(SMALLEST, LARGEST)
        self.send("credit", size, number=self.credit, at=self.net.now)
        self.credit += 1
        gap = MEAN / self.rate * (1 if self.net.even else 1 + dice.uniform(-JITTER, JITTER))
        self.credit_timer += 1
        timer = self.credit_timer
        self.net.after(gap, lambda: self.credit_timer == timer and self.send_credit())

    def received(self, size, to, payload, number, at):
        self.total += number - self.next_credit + 1
        self.dropped += number - self.next_credit
        self.next_credit = number + 1
        self.came += payload
        if self.came == self.size:
            self.finish = self.net.now
        rtt = self.net.now - at
        self.smoothed = 0.8 * self.smoothed + 0.2 * rtt if self.smoothed > 0 else rtt

    def stopped(self, size, to):
        self.credit_timer += 1
        self.sending = "close wait"

    def feedback(self):
        if self.smoothed <= 0 or self.net.now - self.updated < self.smoothed or self.total == 0:
            return
        before, loss = self.rate, self.dropped / self.total
        target = (1.0 - self.rate / MOST_RATE) * TARGET
        least = int(MEAN / self.smoothed)
        if loss > target:
            through = MEAN * (self.total - self.dropped) / (self.net.now - self.updated)
            self.rate = min(int(through * (1.0 + target)), before)
            self.w = max(self.w / 2.0, W_MIN)
            self.can_increase = False
        else:
            if self.can_increase:
                self.w = min(self.w + 0.05, 0.5)
            self.can_increase = True
            if self.rate < MOST_RATE:
                self.rate = int(self.w * MOST_RATE + (1 - self.w) * self.rate)
        self.rate = max(min(self.rate, MOST_RATE), least)
        self.total, self.dropped, self.updated = 0, 0, self.net.now


def transfer(flows, hosts, seed, credits=8, even=False):
    """flows: (src, dst, bytes, start in s); even: gaps and sizes do not vary -> the flows and the network."""
    net = Net(hosts, credits, seed, even)
    net.flows = [Flow(net, number, *flow) for number, flow in enumerate(flows)]
    net.run()
    return net.flows, net
