"""Link-level retry of Ultra Ethernet (specification 1.0, section 5.1), as OCP's SAI proposal, SONiC's design and a switch
vendor's test plan for it state its rules: one direction of a link, whose other direction carries ordered sets only.

Sender     keeps each frame until it is acknowledged; stops when it may keep no more. ACK(n) frees up to n. NACK(n) does, and all
           after n is sent again in order, once the frame on the wire is finished. Nothing acknowledged for `timeout`: the same.
           More than `replays` times without progress: it gives up, asks the receiver what it has, and goes on behind that.
Receiver   expected and good: delivered, an ACK is owed. Damaged, or beyond what is expected: NACK(last good), once, and silence
           until the expected frame has come; a replay that begins arms it again. Before what is expected: dropped, an ACK owed.
Sets       take the delay, and no time on the wire; ACKs are `spacing` apart, a NACK goes at once.
"""

import heapq
from dataclasses import dataclass, field

NEVER = float("inf")
MOST = 50_000  # frames that arrive, then it ends: a mistake may never do so


@dataclass
class Link:
    took: int  # ps that a frame is on the wire
    delay: int
    spacing: int  # ps
    timeout: int
    size: int = 1  # bytes of a frame
    bytes: float = NEVER  # that may wait
    frames: float = NEVER
    replays: float = NEVER
    silent: bool = False
    unseen: bool = False  # a lost frame leaves no trace
    acks_lost: bool = False
    mistake: str = ""

    due: list = field(default_factory=list)
    delivered: list = field(default_factory=list)  # (time, number) of what the receiver passes on
    left: list = field(default_factory=list)  # (time, number, again) of what begins to leave
    given_up: list = field(default_factory=list)
    flushes: int = 0
    nacks: int = 0
    acks: int = 0
    timeouts: int = 0
    bad: int = 0
    missing: int = 0
    duplicates: int = 0
    most: int = 0

    def at(self, time, what, *about):
        self.count += 1
        heapq.heappush(self.due, (time, self.count, what, about))

    def run(self, ready, lost):
        """`ready`: when each frame is there to be sent; `lost(i)`: whether the i-th frame to arrive, from 1, is."""
        self.count = self.arrived = 0
        self.ready, self.lost = ready, lost
        self.next = self.acked = 0  # the next frame that has not been sent; all before this one are acknowledged
        self.again = None  # the next one of those that are sent again
        self.begins = False
        self.free = self.progress = self.row = 0
        self.expected, self.asked, self.owed, self.may_answer = 0, False, False, 0
        self.open = False  # it has given up, and waits for the receiver
        for time in ready:
            self.at(time, "send")
        while self.due and self.arrived < MOST:
            self.now, _, what, about = heapq.heappop(self.due)
            getattr(self, what)(*about)
        return self

    # the sender

    def room(self):
        waiting = self.next - self.acked
        return waiting < self.frames and (waiting + 1) * self.size <= self.bytes

    def send(self):
        if self.now < self.free:
            return
        if self.again is not None and self.again < self.next:
            number, again = self.again, True
            self.again += 1
            first, self.begins = self.begins, False
            if self.again == self.next:
                self.again = None
                self.progress = self.now
        elif self.next < len(self.ready) and self.ready[self.next] <= self.now and self.room():
            number, again, first = self.next, False, False
            if self.next == self.acked:
                self.progress = self.now
                self.at(self.now + self.timeout, "look")
            self.next += 1
        else:
            return
        self.most = max(self.most, self.next - self.acked)
        self.left.append((self.now, number, again))
        self.free = self.now + self.took
        self.at(self.free + self.delay, "arrive", number, first)
        self.at(self.free, "send")

    def replay(self):
        if self.acked == self.next:
            return
        self.row += 1
        if self.row > self.replays:
            self.flushes += 1
            self.given_up += range(self.acked, self.next)
            self.acked = self.next
            self.again = None
            return
        self.again = self.acked
        if self.mistake == "from the next one on":
            self.again = min(self.acked + 1, self.next - 1)
        self.begins = True
        self.progress = self.now
        self.send()

    def look(self):
        """The replay timer; an event that is too early does nothing."""
        if self.acked == self.next:
            return
        if self.again is not None:
            self.at(self.now + self.timeout, "look")
        elif self.now >= self.progress + self.timeout:
            self.timeouts += 1
            self.replay()
            self.at(self.progress + self.timeout, "look")
        else:
            self.at(self.progress + self.timeout, "look")

    def on_set(self, number, nack):
        if self.acks_lost:
            return
        if number + 1 > self.acked:
            self.acked = number + 1
            self.row = 0
            self.progress = self.now
            if self.again is not None:
                self.again = max(self.again, self.acked)
                if self.again >= self.next:
                    self.again = None
        if nack:
            self.replay()
        else:
            self.send()

    # the receiver

    def arrive(self, number, first):
        self.arrived += 1
        damaged = self.lost(self.arrived)
        if damaged and self.unseen:
            return
        if first and not self.silent:
            self.asked = False
        if not damaged and number == self.expected:
            self.delivered.append((self.now, number))
            self.expected += 1
            self.asked = False
            self.answer()
        elif damaged or number > self.expected:
            self.bad += damaged
            self.missing += not damaged
            if not self.asked or self.mistake == "asks for each":
                self.asked = True
                self.owed = False
                self.may_answer = self.now + self.spacing
                self.nacks += 1
                self.at(self.now + self.delay, "on_set", self.expected - 1, True)
        else:
            self.duplicates += 1
            if self.mistake == "delivers twice":
                self.delivered.append((self.now, number))
            self.answer()

    def answer(self):
        self.owed = True
        self.tell()

    def tell(self):
        if not self.owed:
            return
        if self.now < self.may_answer:
            self.at(self.may_answer, "tell")
            return
        self.owed = False
        self.may_answer = self.now + self.spacing
        self.acks += 1
        self.at(self.now + self.delay, "on_set", self.expected - 1, False)


def efficiency(p, took, delay):
    """Share of the frames on a saturated link that are delivered: each one lost wastes those sent until it is sent again."""
    wasted = 1 + -(-2 * delay // took)
    return (1 - p) / ((1 - p) + p * wasted)
