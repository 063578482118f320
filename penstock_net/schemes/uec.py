"""Ultra Ethernet's transport (UEC specification 1.0, 2025) as uet-htsim has it: windows of senders (NSCC, the default), credit of
receivers (`uec:rccc`), or both (`uec:both`).

NSCC.  The network has a bandwidth-delay product, BDP, and a round trip R; a is BDP / 150 KB and T, the target delay, 3/4 R.  The
window is at most 1.5 BDP of the smallest round trip that the flow has seen, and begins so, unless with `first_window`.  For every
ACK of n bytes and delay d:

* unmarked, d >= T: fair increase, by 5 packets a for each window.  d < T: proportional increase, by T - d; or, once a window has
  been acknowledged with d below 1 us, fast increase, by a / 4 for each byte
* marked, d >= T: if avg, the average delay with a gain of 1/80, is above T, multiplicative decrease once per round trip, by
  0.8 (avg - T) / avg, and by half at most.  Marked, d < T: nothing
* increases are applied every 8 packets, or after R; then 0.15 packets a are added, too
* quick adapt: looked at once per round trip and T.  If something was cut, or d > 4 T, and less than 1/8 of the largest window has
  arrived in that time, the window becomes what has, and marks are ignored for as many bytes as are in flight then
* a NACK takes the size of its packet off the window, unless quick adapt acts, or the last switch cut it and
  receivers give credit

RCCC.  A flow asks for credit for all that it has to send, up to 1.5 BDP, with NSCC too up to its window and a packet, less what
it has; flows of a host that have credit share what they ask for.  `uec_receiver` says what credit is, and what receivers do.

A packet asks for an answer (AR) if window or credit let no other one go, if it is the last, or is sent again.  One that `trim`
has cut is answered by a NACK, and sent again before new ones.  After a timeout, 15 us and the time of six queues, packets that
have been in flight for so long are sent again; a sixteenth more passes until that is seen.  Who has no credit then asks for it.

With `ack_stall`, as in the simulator, a sender may have to wait for its timeout: its last packet did not ask, and the window has
shrunk below what is in flight, of which the receiver owes no answer.  Without it one packet more is sent, which asks.
The presets `_htsim` have that, but for RCCC alone, and cut windows and increments to whole bytes, averages and the time that a
quantum of credit takes to whole ps.  Not here: the simulator's RTS frames of a sender that has credit and no window.

A flow has one path, unless a load balancer is named: `uec+mixed`, the simulator's default, `uec+reps` or `uec+oblivious`.  The
window of a flow as results show it is what may be in flight at that moment.
"""

title = "UEC"
includes = ["trim", "uec_receiver"]
packet_state = "uec_receiver"
flow_state = {
    "out": "mask[32]",  # packets that are neither acknowledged nor to be sent again, by their number modulo RING
    "again": "mask[32]",  # packets to be sent again
    "twice": "mask[32]",  # packets that have been sent again
    "early": "mask[32]",  # packets in flight that were sent before `early_at`, or soon after it
    "early_at": "time",
    "count": "int64",  # packets to be sent again
    "cum": "int64",  # packets acknowledged
    "total": "int64",
    "in_flight": "int64",
    "asked": "int64",  # the last packet sent had AR
    "cwnd": "float64",
    "largest": "float64",
    "inc": "float64",
    "average": "float64",
    "base": "time",
    "achieved": "int64",
    "received": "int64",
    "ignored": "int64",
    "to_ignore": "int64",
    "fast_count": "int64",
    "growing": "int32",
    "trigger": "int32",
    "adapt_at": "time",
    "adjusted_at": "time",
    "decreased_at": "time",
    "credit": "int64",  # as the last packet or answer said
    "most": "int64",  # for which credit is asked, bytes
    "owed": "int64",
    "timeout": "time",
    "progress_at": "time",
    "ports": "float64",  # whose turns the packets take
}
parameters = {
    "control": ("choice nscc rccc both", "nscc", "senders' windows, receivers' credit (`uec_receiver.credits`), or both"),
    "target": ("time", 0, "T, target delay; 0 = 3/4 of the base RTT"),
    "first_window": ("bytes 0..1000000000000", 0, "of a flow on each port whose turns it takes; 0 = the largest, 1.5 BDP"),
    "reference_bdp": ("bytes 1..1000000000000", "150KB", "bytes for which a is 1"),
    "reference_rtt": ("time 1..1e15", "12us", "T for which the proportional increase is 4 packets a"),
    "fast_below": ("time", "1us", "delay below which windows grow fast"),
    "rto": ("time", 0, "timeout; 0 = 15 us and six times what a queue of one bandwidth-delay product takes"),
    "truncate": ("bool", False, "windows and increments are whole bytes, averages whole ps"),
    "ack_stall": ("bool", False, "a window that shrinks may leave a sender waiting for its timeout"),
}
presets = {
    "default": {"host.rto": "100us"},
    "nscc": {"host.rto": "100us"},
    "nscc_htsim": {"host.rto": "100us", "truncate": True, "ack_stall": True},
    "rccc": {
        "host.rto": "100us",
        "control": "rccc",
        "uec_receiver.credits": True,
        "uec_receiver.rates": True,
        "trim.mark_last": False,
    },
    "rccc_htsim": {
        "host.rto": "100us",
        "control": "rccc",
        "uec_receiver.credits": True,
        "uec_receiver.rates": True,
        "uec_receiver.whole_ps": True,
        "trim.mark_last": False,
        "truncate": True,
    },
    "both": {"host.rto": "100us", "control": "both", "uec_receiver.credits": True, "trim.mark_last": False},
    "both_htsim": {
        "host.rto": "100us",
        "control": "both",
        "uec_receiver.credits": True,
        "uec_receiver.whole_ps": True,
        "trim.mark_last": False,
        "truncate": True,
        "ack_stall": True,
    },
}
scheme_state = {
    "wire": "int64",
    "t": "float64",
    "alpha": "float64",
    "fair": "float64",
    "eta": "float64",
    "fast": "float64",
    "adjust_bytes": "int64",
    "windows": "int32",
    "credits": "int32",
}
fabric = {"reordering": 1, "each_acked": 1}

RING = 2048
WORDS = 32
SPAN = 1920  # packets from the first one missing to the last one sent
GAMMA = 0.8
LEAST = 0.5
GAIN = 0.0125
GATE = 8.0
FAR = 4.0
QUANTUM = 256
ONLY_RCCC = 1
SHARE = 16  # of the timeout: packets sent within so much of it are taken for one group
PATIENT = 6  # a flow that waits for credit, and for nothing else, asks again after twice as long each time, up to 2 ** this


def set_up(uec):
    world = uec.at.world
    uec.wire = world.mtu + world.header
    a = float(world.bdp) / uec.reference_bdp
    uec.t = float(uec.target) if uec.target > 0 else 0.75 * world.base_rtt
    b = uec.t / uec.reference_rtt
    uec.alpha = 4.0 * world.mtu * a * b / uec.t
    uec.fair = 5.0 * world.mtu * a
    uec.eta = 0.15 * world.mtu * a
    uec.fast = 0.25 * a
    uec.adjust_bytes = 8 * uec.wire
    uec.windows = 1 if uec.control != ONLY_RCCC else 0
    uec.credits = 1 if uec.control > 0 else 0


def cut(uec, x: float) -> float:
    return float(whole(x)) if uec.truncate else x


def size_of(uec, flow, index):
    """Bytes of a packet on the wire."""
    return min(flow.size - index * uec.at.world.mtu, uec.at.world.mtu) + uec.at.world.header


# ---- Senders: what is sent ----


def on_start(uec, node, flow, pkt):
    mine = my_flow(uec, flow)
    mine.ports = float(node.port_count) if uec.at.world.in_turn else 1.0
    mine.base = uec.at.world.base_rtt
    mine.largest = window_of(uec, flow, mine.base)
    mine.cwnd = mine.largest
    if uec.first_window > 0:
        mine.cwnd = max(min(uec.first_window * mine.ports, mine.largest), float(uec.wire))
    flow.rto = uec.rto
    if uec.rto == 0:
        depth = (uec.at.world.bdp + uec.wire - 1) // uec.wire
        flow.rto = 15000000 + whole(6.0 * depth * uec.wire * port_of(flow).ps_per_byte)
    flow.rto += flow.rto // SHARE
    mine.timeout = flow.rto
    mine.progress_at = node.now
    mine.early_at = node.now
    mine.most = whole(mine.largest)
    mine.credit = mine.most
    permit(uec, flow)


def window_of(uec, flow, base) -> float:
    """1.5 bandwidth-delay products, of all ports whose turns the packets take."""
    return cut(uec, 1.5 * cut(uec, base * 1e-6 * (1e6 / port_of(flow).ps_per_byte))) * my_flow(uec, flow).ports


def permit(uec, flow):
    """Let the flow send one packet if window and credit have room for it: one to be sent again, else a new one.

    What credit alone forbids is told to `uec_receiver` by the window: that many bytes below those in flight.
    """
    mine = my_flow(uec, flow)
    flying = flow.sent - flow.acked
    lacks = 1 if uec.credits and mine.credit <= 0 else 0
    flow.window = max(flying - 2 * lacks, 0)
    flow.resend = 0
    index = lowest(uec, flow) if mine.count > 0 else flow.sent // uec.at.world.mtu
    if index - mine.cum >= SPAN or (mine.count == 0 and flow.sent >= flow.size):
        return
    if uec.windows and mine.in_flight + size_of(uec, flow, index) > mine.cwnd:
        if uec.ack_stall or mine.asked or mine.in_flight >= mine.owed:
            return
    if lacks:
        flow.window = flying - 1 if mine.count > 0 else flying
    elif mine.count > 0:
        flow.resend = 1
    else:
        flow.window += 1


def target_of(uec, flow, pkt):
    """Up to where credit is asked for, in quanta."""
    mine = my_flow(uec, flow)
    carried = my_packet(uec, pkt)
    mtu = uec.at.world.mtu
    left = max(flow.size - flow.sent, 0)
    asked = left + (left + mtu - 1) // mtu * uec.at.world.header + mine.count * uec.wire
    if mine.count > 0 and left == 0:
        last = (flow.size - 1) // mtu
        if has_bit(mine.again, last % RING):
            asked -= uec.wire - size_of(uec, flow, last)
    if uec.windows:
        asked = min(asked, whole(mine.cwnd) + uec.wire)
    asked = min(asked, mine.most) - carried.credit
    if carried.speculates and left > 0:
        asked = max(asked, uec.wire)
    if carried.waiting > 1 and asked > 0:
        asked = asked // carried.waiting
    return carried.pulled + ((asked + QUANTUM - 1) >> 8)


def lowest(uec, flow):
    """The first packet that is to be sent again; there is one."""
    mine = my_flow(uec, flow)
    for k in range(WORDS + 1):
        word = (mine.cum >> 6) + k
        bits = mine.again[word % WORDS]
        if k == 0:
            bits &= ~(bit(mine.cum & 63) - 1)
        if bits:
            return (word << 6) + lowest_bit(bits)
    return mine.cum


def choose_packet(uec, node, flow):
    mine = my_flow(uec, flow)
    if mine.count == 0:
        return -1
    index = lowest(uec, flow)
    clear_bit(mine.again, index % RING)
    mine.count -= 1
    return index * uec.at.world.mtu


def on_send(uec, node, flow, pkt):
    mine = my_flow(uec, flow)
    carried = my_packet(uec, pkt)
    index = carried.index
    mine.owed = carried.owed
    if uec.credits:
        mine.credit = carried.credit
        wait_for(uec, node, flow, pkt)
    mine.in_flight += pkt.size
    set_bit(mine.out, index % RING)
    if mine.in_flight == pkt.size:
        mine.early_at = node.now
    if node.now - mine.early_at <= mine.timeout // (SHARE + 1):
        set_bit(mine.early, index % RING)
    else:
        clear_bit(mine.early, index % RING)
    if carried.again:
        set_bit(mine.twice, index % RING)
        mine.asked = 1
    else:
        clear_bit(mine.twice, index % RING)
        mine.asked = 1 if (flow.sent >= flow.size and mine.count == 0) or mine.in_flight + pkt.size >= mine.cwnd else 0
    if uec.credits:
        if not uec.windows and not carried.again:
            mine.asked = 1 if flow.sent >= flow.size else 0
        if mine.credit <= 0:
            mine.asked = 1
        carried.target = target_of(uec, flow, pkt)
    carried.asks = mine.asked
    permit(uec, flow)


def wait_for(uec, node, flow, pkt):
    """The timeout of the first packet in flight counts from now, not from when the flow began to wait for credit."""
    mine = my_flow(uec, flow)
    if flow.sent - pkt.payload <= flow.acked:
        mine.progress_at = node.now
        flow.rto = mine.timeout
    elif mine.in_flight <= 0:
        flow.rto = mine.timeout + node.now - mine.progress_at


# ---- Senders: answers ----


def on_ack(uec, node, flow, pkt):
    mine = my_flow(uec, flow)
    answer = my_packet(uec, pkt)
    index = answer.index
    known = 1 if index >= mine.cum and has_bit(mine.out, index % RING) else 0
    timed = 1 if known and has_bit(mine.twice, index % RING) == answer.again else 0
    if answer.cut:
        forget(uec, node, flow)
        if known:
            refuse(uec, node, flow, index, timed, node.now - answer.stamp, answer.far)
    else:
        gained = max(answer.total - mine.total, 0)
        mine.total += gained
        mine.achieved += gained
        mine.received += gained
        mine.ignored += gained
        mine.in_flight -= gained
        delay = whole(mine.average)
        if timed:
            delay = measure(uec, flow, node.now - answer.stamp)
            sample = 0.25 * mine.base if not pkt.ecn and delay > uec.t else float(delay)
            smooth(uec, flow, sample)
        forget(uec, node, flow)
        if answer.bits:
            forget_bits(uec, flow, pkt)
        if uec.windows:
            react(uec, node, flow, gained, delay, pkt.ecn)
    if uec.credits:
        mine.credit = answer.credit
    permit(uec, flow)


def measure(uec, flow, rtt):
    """The delay of a round trip, which may be the shortest so far."""
    mine = my_flow(uec, flow)
    if rtt < mine.base:
        mine.base = rtt
        mine.largest = window_of(uec, flow, rtt)
    return rtt - mine.base


def smooth(uec, flow, sample: float):
    mine = my_flow(uec, flow)
    mine.average = cut(uec, GAIN * sample + (1.0 - GAIN) * mine.average)


def forget(uec, node, flow):
    """The packets before the first missing one have arrived."""
    mine = my_flow(uec, flow)
    cum = (flow.acked + uec.at.world.mtu - 1) // uec.at.world.mtu
    for i in range(mine.cum, cum):
        clear_bit(mine.out, i % RING)
        if mine.count > 0 and has_bit(mine.again, i % RING):
            clear_bit(mine.again, i % RING)
            mine.count -= 1
            mine.in_flight += size_of(uec, flow, i)
    if cum > mine.cum:
        mine.cum = cum
        flow.rto = mine.timeout
        mine.progress_at = node.now
        regroup(uec, node, flow)


def regroup(uec, node, flow):
    """All packets in flight are of those that the next timeout is for."""
    mine = my_flow(uec, flow)
    mine.early_at = node.now
    end = flow.sent // uec.at.world.mtu + 64
    for word in range(mine.cum >> 6, end >> 6):
        mine.early[word % WORDS] = mine.out[word % WORDS]


def forget_bits(uec, flow, pkt):
    """And those of the bitmap, which is about two words here."""
    mine = my_flow(uec, flow)
    first = my_packet(uec, pkt).first
    shift = first & 63
    found = my_packet(uec, pkt).bits
    if shift > 0:
        found = (found & (bit(64 - shift) - 1)) << shift
    for k in range(2):
        if k == 1:
            if shift == 0:
                break
            found = my_packet(uec, pkt).bits >> (64 - shift)
        word = ((first >> 6) + k) % WORDS
        mine.out[word] &= ~found
        hit = mine.again[word] & found
        while hit:
            i = lowest_bit(hit)
            hit &= ~bit(i)
            mine.again[word] &= ~bit(i)
            mine.count -= 1
            mine.in_flight += size_of(uec, flow, ((first >> 6) + k << 6) + i)


def refuse(uec, node, flow, index, timed, rtt, far):
    """A NACK of a packet in flight."""
    mine = my_flow(uec, flow)
    size = size_of(uec, flow, index)
    if timed:
        measure(uec, flow, rtt)
    mine.ignored += size
    smooth(uec, flow, float(uec.at.world.base_rtt))
    mine.trigger = 1
    if not quick_adapt(uec, node, flow, 0, 1):
        if far or not uec.credits:
            mine.cwnd -= size
            clamp(uec, flow)
    lose(uec, flow, index)


def lose(uec, flow, index):
    """A packet is to be sent again."""
    mine = my_flow(uec, flow)
    mine.in_flight -= size_of(uec, flow, index)
    clear_bit(mine.out, index % RING)
    set_bit(mine.again, index % RING)
    mine.count += 1


def on_loss(uec, node, flow):
    """A packet in flight has been lost: its path is what is wrong, so that the window stays as it is."""
    mine = my_flow(uec, flow)
    index = flow.lost // uec.at.world.mtu
    if index >= mine.cum and has_bit(mine.out, index % RING):
        lose(uec, flow, index)
        permit(uec, flow)


def on_timeout(uec, node, flow):
    """Of all packets that have been in flight since the timer was set."""
    mine = my_flow(uec, flow)
    flow.backoff = 0
    mine.credit = flow.resend  # whether there is any, as `uec_receiver` has just said
    left = mine.early_at + mine.timeout - node.now
    if left > 0:  # they were sent after others had been acknowledged
        flow.rto = left
        permit(uec, flow)
        try_send(node, flow)
        return
    waited = flow.rto if mine.in_flight <= 0 else 0
    end = (flow.sent + uec.at.world.mtu - 1) // uec.at.world.mtu
    flying = 0
    for index in range(mine.cum, end):
        if has_bit(mine.out, index % RING):
            if has_bit(mine.early, index % RING):
                mine.cwnd = max(mine.cwnd - size_of(uec, flow, index), float(uec.wire))
                report_loss(node, flow, index * uec.at.world.mtu)
            else:
                flying = 1
    if not flying:
        mine.in_flight = 0  # what arrived last was not answered, since the packet that asked for it was cut
    regroup(uec, node, flow)
    mine.progress_at = node.now
    flow.rto = max(mine.timeout, min(2 * waited, mine.timeout << PATIENT))
    permit(uec, flow)
    try_send(node, flow)


# ---- Senders: NSCC ----


def clamp(uec, flow):
    mine = my_flow(uec, flow)
    mine.cwnd = max(min(mine.cwnd, mine.largest), float(uec.wire))


def hurts(uec, flow, delay):
    return 1 if my_flow(uec, flow).trigger or delay > FAR * uec.t else 0


def quick_adapt(uec, node, flow, delay, marked):
    """Returns whether nothing else is to be done: the window has been adapted, or the answer is of before that."""
    mine = my_flow(uec, flow)
    if marked and mine.ignored < mine.to_ignore:
        mine.inc = 0.0
        mine.received = 0
        return True
    adapted = False
    if node.now > mine.adapt_at:
        if mine.adapt_at != 0 and hurts(uec, flow, delay) and mine.achieved < cut(uec, mine.largest / GATE):
            mine.cwnd = float(max(mine.achieved, uec.wire))
            mine.to_ignore = mine.in_flight
            mine.ignored = 0
            mine.trigger = 0
            mine.inc = 0.0
            mine.received = 0
            adapted = True
        mine.achieved = 0
        mine.adapt_at = node.now + mine.base + whole(uec.t)
    return adapted


def grow_fast(uec, flow, gained, delay):
    """Returns whether the window has grown."""
    mine = my_flow(uec, flow)
    if delay < uec.fast_below:
        mine.fast_count += gained
        if mine.fast_count > mine.cwnd or mine.growing:
            mine.cwnd = cut(uec, mine.cwnd + uec.fast * gained * mine.ports)
            mine.growing = 1
            return True
    else:
        mine.fast_count = 0
    mine.growing = 0
    return False


def react(uec, node, flow, gained, delay, marked):
    mine = my_flow(uec, flow)
    if quick_adapt(uec, node, flow, delay, marked):
        return
    if not marked:
        if delay >= uec.t:
            mine.inc = cut(uec, mine.inc + uec.fair * gained * mine.ports)
        elif not grow_fast(uec, flow, gained, delay):
            mine.inc = cut(uec, mine.inc + uec.alpha * gained * (uec.t - delay) * mine.ports)
    elif delay >= uec.t:
        mine.growing = 0
        mine.fast_count = 0
        if mine.average > uec.t and node.now - mine.decreased_at > mine.base:
            left = max(1.0 - GAMMA * (mine.average - uec.t) / mine.average, LEAST)
            mine.cwnd = cut(uec, max(mine.cwnd * left, float(uec.wire)))
            mine.decreased_at = node.now
    clamp(uec, flow)
    adjust(uec, node, flow)


def adjust(uec, node, flow):
    mine = my_flow(uec, flow)
    since = node.now - mine.adjusted_at
    period = uec.at.world.base_rtt
    if mine.received > uec.adjust_bytes or since > period:
        mine.cwnd = cut(uec, mine.cwnd + mine.inc / mine.cwnd)
        if since >= period:
            mine.cwnd = cut(uec, mine.cwnd + uec.eta * mine.ports)
            mine.adjusted_at = node.now
        mine.inc = 0.0
        mine.received = 0
        clamp(uec, flow)
