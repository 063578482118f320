"""Credit-based flow control of Ultra Ethernet's link layer (specification 1.0, section 5.2), as OCP's SAI proposal for it and the
Ultra Ethernet papers state its rules; the counters are those of SAI: CC, CF of a sender, RCC, RCF of a receiver.

Sender, per virtual channel:  CU = CC - CF, cyclic.  A packet of s bytes costs k = ceil((s + overhead) / credit).  It may leave if
CU + k <= CL; then CC += k.
Receiver:  a packet is stored: RCC += k.  It has left the buffer, its last bit sent on: RCF += k.
CF_Update, 8 bytes, carries RCF: sent when RCF has changed and `spacing` bytes of line have passed since the last one.
CC_Update carries CC:  RCF += CC - RCC, then RCC = CC.

`chain` is packets of one channel that go over links one after the other, each switch forwarding in order.
"""

import heapq
from dataclasses import dataclass, field

BITS = 20
WRAP = 1 << BITS
CF_UPDATE = 8  # bytes


@dataclass
class Sender:
    limit: int  # CL
    CC: int = 0
    CF: int = 0

    @property
    def CU(self):
        return (self.CC - self.CF) % WRAP

    def may_send(self, k):
        return self.CU + k <= self.limit

    def send(self, k):
        assert self.may_send(k)
        self.CC = (self.CC + k) % WRAP

    def on_cf_update(self, count):
        self.CF = count


@dataclass
class Receiver:
    RCC: int = 0
    RCF: int = 0

    def store(self, k):
        self.RCC = (self.RCC + k) % WRAP

    def free(self, k):
        self.RCF = (self.RCF + k) % WRAP

    def on_cc_update(self, count):
        """What was sent before it on this wire and has not come is lost: its credits are given back."""
        self.RCF = (self.RCF + count - self.RCC) % WRAP
        self.RCC = count

    @property
    def stored(self):
        return (self.RCC - self.RCF) % WRAP


def cost(size, credit=128, overhead=0):
    return -(-(size + overhead) // credit)


@dataclass
class Link:
    ps_per_byte: int
    delay: int
    limit: int
    spacing: int = 6400  # bytes of line
    sender: Sender = field(init=False)
    receiver: Receiver = field(init=False)

    def __post_init__(self):
        self.sender, self.receiver = Sender(self.limit), Receiver()
        self.free_at = self.earliest = 0
        self.waiting = []  # sizes
        self.announced = 0
        self.update_at = None


def chain(sizes, links, credit=128, overhead=0, **mistake):
    """-> for each link the times, ps, at which packets begin to leave by it.  The last receiver takes packets at once."""
    events, order = [], 0
    left = [[] for _ in links]

    def at(time, rank, what, *arguments):
        nonlocal order
        order += 1
        heapq.heappush(events, (time, rank, order, what, arguments))

    def k(size):
        if mistake.get("rounds_down"):
            return max((size + overhead) // credit, 1)
        return cost(size, credit, overhead)

    def try_to_send(now, i):
        link = links[i]
        if not link.waiting or now < link.free_at:
            return
        size = link.waiting[0]
        if not link.sender.may_send(k(size) + mistake.get("one_less", 0)):
            return
        link.waiting.pop(0)
        link.sender.send(k(size))
        left[i].append(now)
        link.free_at = now + size * link.ps_per_byte
        at(link.free_at + link.delay, 0, arrive, i, size)
        at(link.free_at, 1, try_to_send, i)
        if i > 0 and not mistake.get("frees_when_stored"):
            at(now if mistake.get("frees_at_once") else link.free_at, 2, freed, i - 1, size)

    def arrive(now, i, size):
        links[i].receiver.store(k(size))
        if i + 1 == len(links):
            freed(now, i, size)
            return
        links[i + 1].waiting.append(size)
        if mistake.get("frees_when_stored"):
            freed(now, i, size)
        try_to_send(now, i + 1)

    def freed(now, i, size):
        link = links[i]
        link.receiver.free(k(size))
        when = now if mistake.get("no_spacing") else max(now, link.earliest)
        if link.update_at is None or when < link.update_at:
            link.update_at = when
            at(when, 3, update, i)

    def update(now, i):
        link = links[i]
        if link.update_at != now:
            return
        link.update_at = None
        link.earliest = now + link.spacing * link.ps_per_byte
        took = (64 if mistake.get("long_update") else CF_UPDATE) * link.ps_per_byte
        at(now + took + link.delay, 0, on_update, i, link.receiver.RCF)

    def on_update(now, i, count):
        links[i].sender.on_cf_update(count)
        try_to_send(now, i)

    links[0].waiting = list(sizes)
    at(0, 1, try_to_send, 0)
    while events:
        now, _, _, what, arguments = heapq.heappop(events)
        what(now, *arguments)
    assert all(link.sender.CU == 0 and link.receiver.stored == 0 for link in links) or mistake
    return left


def throughput(ps_per_byte, delay, limit, size, held, credit=128, spacing=6400):
    """Share of the line that one channel has over one hop, at least: min(1, n t / (2 d + t + h + u))."""
    t = size * ps_per_byte
    return min(1.0, limit // cost(size, credit) * t / (2 * delay + t + held + (spacing + CF_UPDATE) * ps_per_byte))


def for_full_rate(ps_per_byte, delay, size, held, credit=128, spacing=6400):
    """Credits: ceil((2 d + t + h + u) / t) k."""
    t = size * ps_per_byte
    return -(-(2 * delay + t + held + spacing * ps_per_byte) // t) * cost(size, credit)


@dataclass
class Shared:
    """The sender's pool: reserves of the channels, what all of them share beyond, and a total that the receiver has given.

    static: a channel may have so many of the pool; dynamic: 2^n times what is free of it.  Neither: all.
    """

    reserves: list[int]
    pool: int = 0
    total: int | None = None
    static: int | None = None
    dynamic: int | None = None

    def __post_init__(self):
        self.CU = [0] * len(self.reserves)

    def borrowed(self, i, more=0):
        return max(self.CU[i] + more - self.reserves[i], 0)

    def may_send(self, i, k):
        if self.total is not None and sum(self.CU) + k > self.total:
            return False
        free = self.pool - sum(self.borrowed(j) for j in range(len(self.CU)))
        more = self.borrowed(i, k) - self.borrowed(i)
        if more > free:
            return False
        if not self.borrowed(i, k):
            return True
        if self.dynamic is not None:
            return self.borrowed(i, k) <= int(free * 2.0**self.dynamic)
        return self.static is None or self.borrowed(i, k) <= self.static

    def burst(self, i, k):
        """How many packets a channel sends before credits come back."""
        count = 0
        while self.may_send(i, k):
            self.CU[i] += k
            count += 1
        return count
