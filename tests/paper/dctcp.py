"""DCTCP (SIGCOMM 2010, section 3), in two forms: `Rate`, as the HPCC simulator runs it (a rate with a window that
follows it, no slow start, an ACK per packet), and `Window`, the paper's (1): alpha = (1 - g) alpha + g F and
(2): W = W (1 - alpha/2).

`seq` is the cumulative sequence number of an ACK, `snd_nxt` the sender's when it handles the ACK. Choices made here:
* a window of data ends with the first ACK beyond snd_nxt at the end of the previous window; that ACK's mark belongs to
  the window that ends; the first window begins at the first ACK, and its end is the first to change alpha;
* on an ACK, in this order: alpha, leaving CWR, the cut (with the new alpha), the additive increase;
* an ACK of several packets counts as so many, which are marked if it is (RFC 8257, section 3.2);
* `Rate` takes F = marked ACKs / (bytes outstanding when the window began / MTU + 1), at most 1, and the first ACK of
  the flow opens a window too (one increase); `Window` takes F = marked ACKs / ACKs;
* alpha starts at 1; both reduce at once at the first marked ACK, at most once per window of data;
* `slow_start` (not in the papers of HPCC and BFC, but for BFC's figure 23): until the first mark every ACK is a packet more, for
  `Rate` the part of the line that a packet is of W_max, and the increase of a window is no other one.
"""


class Rate:
    def __init__(self, line, R_AI, R_min, mtu=1000, g=1 / 16, W_max=None, slow_start=0):
        self.line, self.R_AI, self.R_min, self.mtu, self.g = line, R_AI, R_min, mtu, g
        self.slow_start, self.packet = slow_start > 0, line * mtu / W_max if W_max else 0
        self.rate = min(line, slow_start * self.packet) if slow_start else line
        self.alpha = 1.0
        self.window_end = None  # lastUpdateSeq
        self.marked = 0
        self.packets = 0  # of the window, an estimate
        self.cwr_end = None  # in CWR until an ACK beyond this

    def on_ack(self, now, seq, snd_nxt, ecn, packets=1):
        self.marked += packets if ecn else 0
        self.slow_start = self.slow_start and not ecn
        new_window = self.window_end is None or seq > self.window_end
        if self.window_end is None:
            self.packets = snd_nxt // self.mtu + 1
            self.window_end = snd_nxt
        elif new_window:
            F = min(1.0, self.marked / self.packets)
            self.alpha = (1 - self.g) * self.alpha + self.g * F
            self.marked = 0
            self.packets = (snd_nxt - seq) // self.mtu + 1
            self.window_end = snd_nxt
        if self.cwr_end is not None and seq > self.cwr_end:
            self.cwr_end = None
        if ecn and self.cwr_end is None:
            self.rate = max(self.R_min, self.rate * (1 - self.alpha / 2))
            self.cwr_end = snd_nxt
        if self.slow_start:
            self.rate = min(self.line, self.rate + self.packet)
        elif new_window and self.cwr_end is None:
            self.rate = min(self.line, self.rate + self.R_AI)
        return self.rate


class Window:
    def __init__(self, W, mss=1000, g=1 / 16, alpha=1.0, slow_start=False):
        self.W, self.mss, self.g, self.alpha, self.slow_start = W, mss, g, alpha, slow_start
        self.window_end = None
        self.acks = self.marked = 0
        self.cwr_end = None

    def on_ack(self, now, seq, snd_nxt, ecn, packets=1):
        self.acks += packets
        self.marked += packets if ecn else 0
        self.slow_start = self.slow_start and not ecn
        new_window = False
        if self.window_end is None:
            self.window_end = snd_nxt
        elif seq > self.window_end:
            new_window = True
            F = self.marked / self.acks
            self.alpha = (1 - self.g) * self.alpha + self.g * F
            self.acks = self.marked = 0
            self.window_end = snd_nxt
        if self.cwr_end is not None and seq > self.cwr_end:
            self.cwr_end = None
        if ecn and self.cwr_end is None:
            self.W = max(self.mss, self.W * (1 - self.alpha / 2))
            self.cwr_end = snd_nxt
        elif self.slow_start or (new_window and self.cwr_end is None):
            self.W += self.mss
        return self.W
