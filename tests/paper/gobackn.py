"""Go-back-N as RoCE NICs do it, with the HPCC simulator's receiver and a retransmission timeout so that nothing hangs.

Receiver: in order -> ACK with the next expected byte; a gap -> NACK, once per expected byte or again after 500 us,
otherwise silence; a duplicate -> the ACK again (that simulator is silent, which hangs when the last ACK is lost).
Sender: ACKs are cumulative; a NACK acknowledges as well, then snd_nxt goes back to snd_una, and so it does at the RTO.
The RTO runs while bytes are in flight; it starts with the first of them and again with every advance of snd_una.
"""

from dataclasses import dataclass
from typing import NamedTuple

NACK_INTERVAL = 500_000_000  # ps


class Reply(NamedTuple):
    kind: str  # "ack" | "nack"
    seq: int  # the byte expected next
    echo: bool  # the mark of the packet answered


@dataclass
class Receiver:
    expected: int = 0
    nacked: int | None = None  # expected byte of the last NACK
    nacked_at: int = 0

    def on_packet(self, now, seq, payload, marked=False):
        """-> Reply or None."""
        if seq == self.expected:
            self.expected += payload
            return Reply("ack", self.expected, marked)
        if seq < self.expected:
            return Reply("ack", self.expected, marked)
        if self.nacked != self.expected or now - self.nacked_at >= NACK_INTERVAL:
            self.nacked = self.expected
            self.nacked_at = now
            return Reply("nack", self.expected, marked)
        return None


class Sender:
    def __init__(self, size, mtu=1000, W=0, rto=4_000_000_000):
        self.size, self.mtu, self.W, self.rto = size, mtu, W, rto
        self.snd_una = self.snd_nxt = 0
        self.highest = 0  # bytes below this were sent before
        self.retransmitted = 0
        self.rto_at = None

    def finished(self):
        return self.snd_una == self.size

    def may_send(self):
        """In flight below W (which may be overshot by less than a packet); W = 0 is no limit."""
        return self.snd_nxt < self.size and (self.W == 0 or self.snd_nxt - self.snd_una < self.W)

    def send(self, now):
        """-> (seq, payload)."""
        seq, payload = self.snd_nxt, min(self.mtu, self.size - self.snd_nxt)
        self.snd_nxt += payload
        self.retransmitted += max(0, min(self.highest, self.snd_nxt) - seq)
        self.highest = max(self.highest, self.snd_nxt)
        if self.rto_at is None:
            self.rto_at = now + self.rto
        return seq, payload

    def on_reply(self, now, reply):
        advanced = reply.seq > self.snd_una
        if advanced:
            self.snd_una = reply.seq
            self.snd_nxt = max(self.snd_nxt, self.snd_una)
        if reply.kind == "nack":
            self.snd_nxt = self.snd_una
        if self.snd_nxt == self.snd_una:
            self.rto_at = None  # nothing in flight; the next send starts it
        elif advanced:
            self.rto_at = now + self.rto

    def on_rto(self, now):
        """To be called at rto_at."""
        assert now == self.rto_at
        self.snd_nxt = self.snd_una
        self.rto_at = None
