"""Floodgate (CoNEXT 2021): the switch of sections 3.2 and 4, in bytes.

Names are the paper's.  Where the paper leaves a choice open, this file chooses:
* the window of a destination is the whole switch's, that of the port by which a packet leaves is what it must fit;
* inflight = next_send_data - last_recv_credit over all ports, where next_send counts what was forwarded to an egress queue;
  the PSN on the wire counts what has left the switch, and a credit is "the last PSN received less what is still here";
* a packet has been forwarded (section 4.1) when it leaves the switch (section 7.2);
* with nothing in flight a packet may always go;
* a destination has its VOQ as long as a packet of it is there; the first empty VOQ of the group is taken;
* a credit frame triggers the VOQs of its destinations in turn, a packet each, until nothing more may go;
* "VOQ length" of a destination: its own bytes there; "does not exceed" is <=, "exceeds" is >.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple


class Packet(NamedTuple):
    name: object
    ingress: int
    egress: int
    dst: int
    size: int
    psn: int | None = None  # None: from a host


@dataclass
class Switch:
    """`window`: egress port -> initial window, for those that lead to a switch and have one."""

    window: dict
    voqs: int = 100
    group: dict = field(default_factory=dict)  # egress port -> range of VOQs; all of them if not given
    thre_credit: float = float("inf")
    delays: bool = True  # delayCredit
    thre_off: dict = field(default_factory=dict)  # ingress port of a host -> bytes; none: no host support
    thre_on: dict = field(default_factory=dict)

    def __post_init__(self):
        self.voq = [deque() for _ in range(self.voqs)]
        self.voq_of = {}  # destination -> VOQ, as long as packets of it are there
        self.here = {}  # name -> packets in this switch
        self.next_send_data, self.on_the_wire, self.last_recv_credit = Counter(), Counter(), Counter()  # <port, dst> -> PSN
        self.last_recv_data, self.last_sent_credit = Counter(), Counter()
        self.emitting = set()  # <ingress port, dst> with packets forwarded since the last credit
        self.hosts_paused = set()  # <ingress port, dst>
        self.most = 0  # VOQs in use at the same time

    # Upstream (section 4.2)

    def inflight(self, dst):
        return sum(psn - self.last_recv_credit[port, d] for (port, d), psn in self.next_send_data.items() if d == dst)

    def remaining(self, packet):
        return self.window[packet.egress] - self.inflight(packet.dst)

    def may_go(self, packet):
        return packet.size <= self.remaining(packet) or self.inflight(packet.dst) == 0

    def voq_length(self, dst):
        return sum(p.size for q in self.voq for p in q if p.dst == dst)

    def on_data(self, packet, hashed=None):
        """-> None: it goes to its egress queue; else its VOQ.  `hashed` is taken when no VOQ of the group is empty."""
        self.here[packet.name] = packet
        if packet.psn is not None:
            self.last_recv_data[packet.ingress, packet.dst] = packet.psn
        if packet.egress not in self.window:
            return None
        if packet.dst not in self.voq_of:
            if self.may_go(packet):
                self.forward(packet)
                return None
            group = self.group.get(packet.egress, range(self.voqs))
            self.voq_of[packet.dst] = next((i for i in group if not self.voq[i]), hashed)
        self.voq[self.voq_of[packet.dst]].append(packet)
        self.most = max(self.most, sum(bool(q) for q in self.voq))
        return self.voq_of[packet.dst]

    def forward(self, packet):
        self.next_send_data[packet.egress, packet.dst] += packet.size

    def on_leave(self, name):
        """A packet begins its way to the next hop -> its PSN; its ingress is owed a credit from now on."""
        packet = self.here.pop(name)
        if packet.psn is not None:
            self.emitting.add((packet.ingress, packet.dst))
        if packet.egress not in self.window:
            return None
        self.on_the_wire[packet.egress, packet.dst] += packet.size
        return self.on_the_wire[packet.egress, packet.dst]

    def on_credit(self, port, credits):
        """<destination, PSN>s of one frame -> the packets that go to their egress queues, in order."""
        for dst, psn in credits:
            self.last_recv_credit[port, dst] = max(self.last_recv_credit[port, dst], psn)
        turns, released, go_on = [self.voq_of[dst] for dst, _ in credits if dst in self.voq_of], [], True
        while go_on:
            go_on = False
            for i in turns:
                if self.voq[i] and self.may_go(self.voq[i][0]):
                    packet = self.voq[i].popleft()
                    self.forward(packet)
                    if not self.voq_length(packet.dst):
                        del self.voq_of[packet.dst]
                    released.append(packet)
                    go_on = True
        return released

    # Downstream (section 4.1)

    def stored(self, ingress, dst):
        return sum(p.size for p in self.here.values() if (p.ingress, p.dst) == (ingress, dst))

    def credit(self, ingress, dst):
        return self.last_recv_data[ingress, dst] - self.stored(ingress, dst)

    def credits(self, ingress):
        """The timer T of an ingress -> what one frame tells: <destination, PSN>s; those of long VOQs are delayed."""
        told = []
        for _, dst in sorted(pair for pair in self.emitting if pair[0] == ingress):
            if self.delays and self.voq_length(dst) > self.thre_credit:
                continue
            self.emitting.remove((ingress, dst))
            psn = self.credit(ingress, dst)
            if psn != self.last_sent_credit[ingress, dst]:
                self.last_sent_credit[ingress, dst] = psn
                told.append((dst, psn))
        return told

    # Loss (section 4.3)

    def switch_syn(self, port, dst):
        """What is asked after the timeout: the PSN that a credit should reach; None: all is well."""
        psn = self.on_the_wire[port, dst]
        return psn if self.last_recv_credit[port, dst] < psn else None

    def on_switch_syn(self, ingress, dst, psn):
        """-> the credit.  What was sent before and is not here will not come."""
        self.last_recv_data[ingress, dst] = psn
        self.last_sent_credit[ingress, dst] = self.credit(ingress, dst)
        return self.credit(ingress, dst)

    # Hosts' support (section 4.3): asked after each packet that was held or released

    def dst_pause(self, packet):
        """Whether a dstPause goes to the host that sent this packet, which has just been held."""
        key = packet.ingress, packet.dst
        if packet.ingress not in self.thre_off or key in self.hosts_paused:
            return False
        if self.voq_length(packet.dst) <= self.thre_off[packet.ingress]:
            return False
        self.hosts_paused.add(key)
        return True

    def dst_resume(self, dst, length=None):
        """-> ingress ports out of which a dstResume goes, now that the destination's VOQ is so long."""
        length = self.voq_length(dst) if length is None else length
        ports = sorted(p for p, d in self.hosts_paused if d == dst and length <= self.thre_on[p])
        self.hosts_paused -= {(p, dst) for p in ports}
        return ports
