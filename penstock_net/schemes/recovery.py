"""Recovery of lost packets, for any transport that leaves it to the hosts: `dcqcn+recovery:irn`, named last.

* `go_back_n`: what hosts do without this scheme (docs/modelling.md). A receiver takes packets in order and answers a gap by one
  NACK; the sender goes back to the first missing byte, as it does after `host.rto` without progress
* `irn`: IRN (Mittal et al., SIGCOMM 2018, section 3), selective repeat with at most `cap` in flight and two timeouts
* `perfect`: a bound on any recovery (BFC, Goyal et al., NSDI 2022, section 6.2.1, HPCC-PFC). The node that drops a packet tells
  its sender, which sends exactly this one again, before others

IRN.  Receivers keep what comes early, and every ACK names the packet that it answers: the paper's NACK, if that one was early.
A packet that is missing below one that has arrived is lost.  It is sent again, once, before new ones and whatever the window;
if it is lost again it waits for a timeout: RTO_low (`host.rto`) with at most three packets in flight, else RTO_high, since the
last progress.  A timeout sends the first missing packet again, and then others by the same rule, each once more.  Windows and
rates do not react to losses.  Without the paper's recovery sequence, which would send some packets twice: those that were new in
one recovery and are missing when it ends.  Not in the paper: an ACK that advances and answers a packet sent again after a
timeout shows that all is lost that was sent before the timeout and has not arrived.

`recovery:sack` is this selective repeat alone, for a transport that has a window of its own: no cap, and one timeout, the hosts'.
A packet is lost there once one that is more than three further on has arrived (RFC 6675, DupThresh).  Packets that take several
paths overtake one another by more: with `distance`, say 32, few are sent twice; of a tail that is shorter all waits for timeouts.

perfect.  With `least_rate` a sender that is told of a loss has this rate until its next ACK, that is, it sends nothing for the
time of a packet, as in the simulator of the BFC authors (preeyshah/High-Precision-Congestion-Control, branch Retransmission,
rdma-hw.cc: ChangeRate(qp, m_minRate) at a NACK, and HPCC's rate again at an ACK).  Notices are among the control frames, which
are not dropped.  If links lose them, or the last ACK of a flow, `host.rto` repairs it.  With all kinds but go-back-N a flow has
at most 2048 packets in flight.
"""

title = "Recovery"
packet_state = {"index": "int32", "again": "int32"}
frame_state = {"index": "int64"}
flow_state = {
    "marks": "mask[32]",  # irn: packets that have arrived; perfect: packets to be sent again
    "cum": "int64",  # packets acknowledged
    "next": "int64",  # nothing before it is to be sent again
    "highest": "int64",  # irn: what has not arrived before it is lost
    "before": "int64",  # irn: packets sent when a timeout last expired
    "timeouts": "int32",
    "slow": "int32",  # perfect: it has `least_rate`
}
scheme_state = {"bound": "int64", "slot": "time"}  # slot: of a packet at the least rate
parameters = {
    "kind": ("choice go_back_n irn perfect", "go_back_n", "how lost packets are recovered"),
    "cap": ("bytes", 0, "irn: bytes in flight (IRN section 3.2); 0 = one bandwidth-delay product"),
    "distance": ("int32 0..2000", 0, "irn: a missing packet is lost once one more than so many further on has come"),
    "least_rate": (
        "rate",
        0,
        "perfect: a sender that is told of a loss has this rate until its next ACK; 0 = it does not slow down",
    ),
    "rto_high": ("time", "320us", "irn: timeout with more than three packets in flight (IRN section 4.1); 0 = RTO_low"),
}
presets = {
    "irn": {"kind": "irn", "host.rto": "100us"},  # RTO_low (IRN section 4.1)
    "sack": {"kind": "irn", "cap": "1GB", "rto_high": 0, "distance": 3},
    "perfect": {"kind": "perfect"},
    "bfc": {"kind": "perfect", "least_rate": "100Mbps"},  # the BFC authors' HPCC-PFC, mix/config.txt, MIN_RATE
}
fabric = {"absent": "kind == 0", "reordering": 1, "acts": 0}

IRN = 1
PERFECT = 2
LOST = 3  # command
SLOTS = 2048
FEW = 3  # N, packets in flight


def set_up(recovery):
    recovery.bound = SLOTS * recovery.at.world.mtu
    recovery.slot = whole(8e12 * recovery.at.world.mtu / recovery.least_rate) if recovery.least_rate > 0 else 0
    if recovery.kind == IRN:
        recovery.bound = min(recovery.bound, recovery.cap if recovery.cap > 0 else recovery.at.world.bdp)


def packets_sent(recovery, flow):
    return (flow.sent + recovery.at.world.mtu - 1) // recovery.at.world.mtu


# ---- What is sent again ----


def next_lost(recovery, flow):
    """The first packet that is to be sent again; -1: none."""
    mine = my_flow(recovery, flow)
    end = packets_sent(recovery, flow) if recovery.kind == PERFECT else mine.highest
    while mine.next < end:
        if has_bit(mine.marks, mine.next % SLOTS) == (recovery.kind == PERFECT):
            return mine.next
        mine.next += 1
    return -1


def choose_packet(recovery, node, flow):
    mine = my_flow(recovery, flow)
    index = next_lost(recovery, flow)
    if index < 0:
        return -1
    mine.next = index + 1
    if recovery.kind == PERFECT:
        clear_bit(mine.marks, index % SLOTS)
    flow.resend = 1 if next_lost(recovery, flow) >= 0 else 0
    return index * recovery.at.world.mtu


# ---- The sender ----


def set_timeout(recovery, flow):
    """IRN section 3.1: RTO_high, or RTO_low with few packets in flight."""
    if recovery.kind == IRN:
        flow.rto = recovery.rto_high if flow.sent - flow.acked > FEW * recovery.at.world.mtu else 0


def on_start(recovery, node, flow, pkt):
    flow.window = min(flow.window, recovery.bound)


def on_send(recovery, node, flow, pkt):
    mine = my_packet(recovery, pkt)
    mine.index = pkt.seq // recovery.at.world.mtu
    mine.again = my_flow(recovery, flow).timeouts if pkt.flags & RETRANSMITTED else 0
    set_timeout(recovery, flow)


def selective_ack(recovery, flow, pkt, gained):
    """IRN: the packet that an ACK answers has arrived."""
    mine = my_flow(recovery, flow)
    index = my_packet(recovery, pkt).index
    if index >= mine.cum:
        set_bit(mine.marks, index % SLOTS)
        mine.highest = max(mine.highest, index - recovery.distance)
    elif gained > 0 and mine.timeouts > 0 and my_packet(recovery, pkt).again == mine.timeouts:
        mine.highest = max(mine.highest, mine.before)
    flow.resend = 1 if next_lost(recovery, flow) >= 0 else 0


def on_ack(recovery, node, flow, pkt):
    mine = my_flow(recovery, flow)
    cum = flow.acked // recovery.at.world.mtu
    gained = cum - mine.cum
    for i in range(mine.cum, cum):
        clear_bit(mine.marks, i % SLOTS)
    mine.cum = cum
    mine.next = max(mine.next, cum)
    flow.window = min(flow.window, recovery.bound)
    if mine.slow > 0:
        mine.slow = 0
        hold_flow(node, flow, node.now)
        repace(node, flow)
    if recovery.kind == IRN:
        selective_ack(recovery, flow, pkt, gained)
        set_timeout(recovery, flow)


def on_timeout(recovery, node, flow):
    """Also of flows that have nothing in flight, which may not send yet."""
    if recovery.kind == IRN or flow.sent == flow.acked:
        flow.backoff = 0
    if flow.sent == flow.acked:
        return
    mine = my_flow(recovery, flow)
    mine.next = mine.cum
    if recovery.kind == PERFECT:
        set_bit(mine.marks, mine.cum % SLOTS)
    else:
        mine.timeouts += 1
        mine.before = packets_sent(recovery, flow)
        mine.highest = max(mine.highest, mine.cum + 1)
    flow.resend = 1
    try_send(node, flow)


# ---- Notices of lost packets ----


def on_drop(recovery, node, port, pkt):
    if recovery.kind == PERFECT and pkt.kind == DATA:
        frame = new_frame(node, recovery.at.kind, LOST)
        about_flow(frame, pkt)
        my_frame(recovery, frame).index = my_packet(recovery, pkt).index
        send_to_host(node, pkt.src, frame)


def on_control(recovery, node, port, pkt):
    flow = flow_of(node, pkt)
    index = my_frame(recovery, pkt).index
    if flow == NO_FLOW or index < my_flow(recovery, flow).cum:
        return
    mine = my_flow(recovery, flow)
    set_bit(mine.marks, index % SLOTS)
    mine.next = min(mine.next, index)
    flow.resend = 1
    if recovery.least_rate > 0:
        mine.slow = 1
        hold_flow(node, flow, node.now + recovery.slot)
    try_send(node, flow)
