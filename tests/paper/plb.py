"""PLB (Qureshi et al., SIGCOMM 2022), as Linux has it: net/ipv4/tcp_plb.c, and its calls in tcp_dctcp.c and tcp_timer.c.

Once a round trip the share of marked bytes of the last one is compared with the threshold: tcp_plb_update_state, then
tcp_plb_check_rehash.  The latter is called when the first packet after an idle period is sent, too (CA_EVENT_TX_START).  A
timeout rehashes at once (tcp_write_timeout), and suspends all others (tcp_plb_update_state_upon_rto).
"""


class Connection:
    """`draw()`: a random label.  una: the first byte that is not acknowledged; nxt: the next one to be sent."""

    def __init__(self, draw, suspend, threshold=0.5, rehash_rounds=12, idle_rehash_rounds=3):
        self.draw, self.suspend, self.threshold = draw, suspend, threshold
        self.rehash_rounds, self.idle_rehash_rounds = rehash_rounds, idle_rehash_rounds
        self.label, self.rehashes = 0, 0
        self.consecutive, self.pause_until = 0, None
        self.next_seq, self.delivered_ce, self.old_una = 0, 0, 0

    def rehash(self):
        self.label = self.draw()
        self.rehashes += 1
        self.consecutive = 0

    def check_rehash(self, now, packets_out):
        forced = self.consecutive >= self.rehash_rounds
        idle = self.idle_rehash_rounds and not packets_out and self.consecutive >= self.idle_rehash_rounds
        if not forced and not idle:
            return
        if self.pause_until is not None and now < self.pause_until:
            return
        self.rehash()

    def send(self, now, una, nxt):
        """Before the packet at nxt is sent -> its label."""
        if una == nxt:
            self.check_rehash(now, 0)
        return self.label

    def ack(self, now, una, nxt, size, ce):
        if ce:
            self.delivered_ce += size
        if una < self.next_seq or una == self.old_una:
            return
        congested = self.delivered_ce / (una - self.old_una) >= self.threshold
        self.consecutive = min(self.consecutive + 1, self.rehash_rounds) if congested else 0
        self.next_seq, self.delivered_ce, self.old_una = nxt, 0, una
        self.check_rehash(now, nxt - una)

    def timeout(self, now):
        self.rehash()
        self.pause_until = now + int(self.suspend * (1 + self.draw() / 2**31))
