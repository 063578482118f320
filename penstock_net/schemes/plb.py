"""PLB (Qureshi et al., SIGCOMM 2022), as in Linux (net/ipv4/tcp_plb.c): a flow that meets congestion for long takes another path.

A round ends with the first ACK of all that had been sent when it began.  It is congested if at least `threshold` of the bytes
acknowledged in it had a mark.  After `idle_rounds` congested rounds in a row a flow that has nothing in flight takes another
path, at random, and after `rounds` of them one that has; then it begins to count again.  A flow that meets no congestion stays on
the path that it has without this part, and few packets are overtaken, since few flows move.

A timeout may mean that a link has failed: the flow takes another path at once, and for `suspend`, and a random part of as much,
none because of congestion, which might lead it back.

The path is a new number that switches hash with the flow's (`entropy`), where Linux changes the IPv6 flow label.  A packet that a
switch on the way has cut counts as a marked one.  Transports that cause no marks need `ecn`: `swift+ecn+plb`; of those that
answer several packets at once, such as `uec`, the bytes acknowledged are the growth of what has arrived without a gap.
"""

title = "PLB"
includes = ["entropy"]
packet_state = "entropy"
flow_state = {
    "entropy": "int32",  # 0: the path of the flow's hash
    "congested": "int32",  # rounds in a row
    "from_byte": "int64",  # acknowledged when the round began
    "round_end": "int64",
    "marked": "int64",  # bytes
    "suspended_until": "time",
}
flow_counts = {"repathed": "times that the flow took another path"}
parameters = {
    "threshold": ("float64 0..1", 0.5, "share of marked bytes from which on a round is congested (Linux: tcp_plb_cong_thresh)"),
    "rounds": ("int32 1..1000", 12, "congested rounds after which any flow moves (tcp_plb_rehash_rounds)"),
    "idle_rounds": ("int32 0..1000", 3, "after which an idle one does (tcp_plb_idle_rehash_rounds); 0 = none"),
    "suspend": ("time 0..1e15", "60s", "after a timeout a flow stays for once to twice this time (tcp_plb_suspend_rto_sec)"),
}
fabric = {"balances": 1, "acts": 0}


def on_send(plb, node, flow, pkt):
    mine = my_flow(plb, flow)
    if not pkt.flags & RETRANSMITTED and flow.sent - pkt.payload <= flow.acked:
        check(plb, node, flow, True)
    sent = my_packet(plb, pkt)
    sent.entropy = mine.entropy
    sent.way = flow.hash if mine.entropy == 0 else hash31(flow.hash, mine.entropy)


def on_ack(plb, node, flow, pkt):
    mine = my_flow(plb, flow)
    if pkt.ecn or my_packet(plb, pkt).rejected:
        mine.marked += pkt.payload * packets_answered(node, pkt)
    if flow.acked < mine.round_end or flow.acked == mine.from_byte:
        return
    if mine.marked < plb.threshold * (flow.acked - mine.from_byte):
        mine.congested = 0
    elif mine.congested < plb.rounds:
        mine.congested += 1
    mine.marked = 0
    mine.from_byte = flow.acked
    mine.round_end = flow.sent
    check(plb, node, flow, flow.sent == flow.acked)


def check(plb, node, flow, idle):
    """Move the flow if it has met congestion for long."""
    mine = my_flow(plb, flow)
    enough = 1 if mine.congested >= plb.rounds else 0
    if idle and 0 < plb.idle_rounds <= mine.congested:
        enough = 1
    if enough and node.now >= mine.suspended_until:
        move(plb, node, flow)


def move(plb, node, flow):
    mine = my_flow(plb, flow)
    mine.entropy = draw(node, RANDOM_PATH)
    mine.congested = 0
    mine.repathed += 1


def on_expiry(plb, node, flow):
    move(plb, node, flow)
    my_flow(plb, flow).suspended_until = node.now + whole(plb.suspend * (1.0 + draw(node, RANDOM_PATH) / 2147483648.0))
