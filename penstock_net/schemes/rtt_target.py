"""Algorithm 1 of BFC (Goyal et al., NSDI 2022, appendix A.1): end-to-end control that aims at an RTT, as `bfc+rtt_target`.

Each ACK changes the window w by (RTTTarget - RTT) / RTT packets, so that w becomes about w RTTTarget / RTT within an RTT. It need
not react to bursts or be fair, which BFC's backpressure is; it bounds what a long flow has in the network: BFC 32 (CC) of figures
15 and 16.

What the paper leaves open: the base RTT is the longest of the network; a packet is an MTU; w is at least one packet, and at most
the bandwidth-delay product of RTTTarget, beyond which it cannot be kept. The RTT includes the ACK's way back.
"""

title = "RTTTarget"
packet_state = {"stamp": "time"}
flow_state = {"w": "float64"}
scheme_state = {"rtt_target": "float64", "most": "float64"}
parameters = {
    "target": ("float64 1..1e6", 2.5, "RTTTarget in base RTTs"),
    "stamp_bytes": ("bytes 0..1000", 8, "the time stamp on every data packet and ACK"),
}


def set_up(rtt_target):
    rtt_target.rtt_target = rtt_target.target * rtt_target.at.world.base_rtt
    rtt_target.most = max(rtt_target.target * rtt_target.at.world.bdp, float(rtt_target.at.world.mtu))


def on_start(rtt_target, node, flow, pkt):
    set_window(rtt_target, flow, float(rtt_target.at.world.bdp))


def on_send(rtt_target, node, flow, pkt):
    my_packet(rtt_target, pkt).stamp = node.now
    pkt.size += rtt_target.stamp_bytes


def on_ack(rtt_target, node, flow, pkt):
    """Algorithm 1, whose two cases are one expression."""
    rtt = float(node.now - my_packet(rtt_target, pkt).stamp)
    packets = (rtt_target.rtt_target - rtt) / rtt
    set_window(rtt_target, flow, my_flow(rtt_target, flow).w + packets * rtt_target.at.world.mtu)


def set_window(rtt_target, flow, w: float):
    mine = my_flow(rtt_target, flow)
    mine.w = min(max(w, float(rtt_target.at.world.mtu)), rtt_target.most)
    flow.window = whole(mine.w)
