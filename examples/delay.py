"""Delay-based windows after Swift (Kumar et al., SIGCOMM 2020), without its scaling of the target.

Each ACK returns the time at which its packet was sent.

Below the target the window grows by `add` packets per RTT; above it, at most once per RTT, it shrinks in proportion to the
excess.
"""

includes = ["pfc"]
packet_state = {"stamp": "time"}
flow_state = {"w": "float64", "cut_at": "time"}
parameters = {
    "target": ("float64 1..100", 1.5, "target delay, as a multiple of the base RTT"),
    "add": ("float64 0..100", 1.0, "additive increase, packets per RTT"),
    "beta": ("float64 0..1", 0.8, "multiplicative decrease factor"),
    "most": ("float64 0..1", 0.5, "the largest cut at a time"),
}


def on_start(delay, node, flow, pkt):
    mine = my_flow(delay, flow)
    mine.w = delay.at.world.bdp * 1.0
    flow.window = whole(mine.w)


def on_send(delay, node, flow, pkt):
    """The memory of packets is reused: their state is set here."""
    my_packet(delay, pkt).stamp = node.now
    pkt.size += 8


def on_ack(delay, node, flow, pkt):
    mine = my_flow(delay, flow)
    rtt = node.now - my_packet(delay, pkt).stamp
    target = delay.target * delay.at.world.base_rtt
    mtu = float(delay.at.world.mtu)
    if rtt < target:
        mine.w += delay.add * mtu * mtu / mine.w
    elif node.now - mine.cut_at > rtt:
        mine.w *= max(1.0 - delay.beta * (rtt - target) / rtt, 1.0 - delay.most)
        mine.cut_at = node.now
    mine.w = min(max(mine.w, mtu), delay.at.world.bdp * 1.0)
    flow.window = whole(mine.w)
