"""DCTCP (Alizadeh et al., SIGCOMM 2010), section 3.3: alpha = (1 - g) alpha + g F, and W = W (1 - alpha / 2).

F is the fraction of the packets of the last window of data whose ACKs echoed a mark.  A window of data ends with the first ACK
beyond what had been sent when the previous one ended.  W is cut at the first echo, at most once per window of data,
and grows by one packet in each window without one.  As in the papers of HPCC (section 5.1) and BFC (sections 6.2.1, A.6) flows
start at line rate with a window of one bandwidth-delay product, which is also the maximum; packets are clocked by ACKs, not
paced.  With `slow_start` they start with a few packets instead, one more for every ACK until the first mark, which doubles the
window in each RTT.

form = "rate" is the HPCC paper's simulator: the same law controls a pacing rate, by r_ai instead of a packet, and the
window follows it.  There F is estimated as echoes / (bytes in flight when the window began / MTU + 1), and the very first
ACK is an increase too.  Slow start raises the rate so that the window grows by a packet.
"""

title = "DCTCP"
includes = ["ecn", "pfc"]
flow_state = {
    "w": "float64",
    "rate": "float64",
    "line": "float64",
    "alpha": "float64",
    "window_end": "int64",
    "cwr_end": "int64",
    "acks": "int32",
    "marked": "int32",
    "packets": "int32",
    "growing": "int32",
}
parameters = {
    "form": ("choice window rate", "window", "what the law moves: the paper's window, or the HPCC simulator's rate"),
    "g": ("float64 0..1", 0.0625, "weight of a window in alpha (DCTCP: 1/16)"),
    "alpha": ("float64 0..1", 1.0, "at the start"),
    "slow_start": ("int32 0..100000", 0, "packets in the first window, to be doubled (BFC A.6: 10); 0 = no slow start"),
    "w_max": ("bytes", 0, "largest window; 0 = one bandwidth-delay product"),
    "r_ai": ("rate", "615Mbps", "form rate: increase in each window (one packet per 13 us)"),
    "min_rate": ("rate 1..1e15", "100Mbps", "form rate: minimum pacing rate"),
}
presets = {
    # the HPCC paper's simulator, 30 KB x Bw / 10 Gbit/s (section 5.1)
    "ns3": {
        "uses": ["pfc:ns3"],
        "form": "rate",
        "min_rate": "1Gbps",
        "ecn.k_min": "300KB",
        "ecn.k_max": "300KB",
        "ecn.per": "100Gbps",
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    # the BFC paper's baseline
    "bfc": {"form": "rate", "g": 0.00390625, "r_ai": "500Mbps", "uses": ["pfc:ns3"], "host.pacing": "from start"},
    # the same in its figure 23
    "bfc_slow_start": {
        "form": "rate",
        "g": 0.00390625,
        "r_ai": "500Mbps",
        "slow_start": 10,
        "uses": ["pfc:ns3"],
        "host.pacing": "from start",
    },
    # the Floodgate authors' simulator: DCQCN's marking instead of a step
    "floodgate": {
        "uses": ["ecn:ns3", "pfc:ns3"],
        "form": "rate",
        "g": 0.00390625,
        "r_ai": "1Gbps",
        "pfc.alpha": 0.25,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    "slow_start": {"slow_start": 10},
}
scheme_state = {"most": "int64"}

WINDOW = 0  # forms
RATE = 1
NONE = -1  # no window of data has begun, or none has been cut


def set_up(dctcp):
    dctcp.most = dctcp.w_max if dctcp.w_max > 0 else dctcp.at.world.bdp


def on_start(dctcp, node, flow, pkt):
    mine = my_flow(dctcp, flow)
    mine.alpha = dctcp.alpha
    mine.window_end = NONE
    mine.cwr_end = NONE
    mine.line = 8e12 / port_of(flow).ps_per_byte
    mine.rate = mine.line
    mine.w = dctcp.most
    if dctcp.slow_start > 0:
        mine.growing = 1
        mine.w = min(dctcp.slow_start * dctcp.at.world.mtu, dctcp.most)
        mine.rate = mine.line * (mine.w / dctcp.most)
    set_window(dctcp, flow)


def set_window(dctcp, flow):
    mine = my_flow(dctcp, flow)
    if dctcp.form == RATE:
        mine.w = dctcp.most * (mine.rate / mine.line)
        set_rate(flow, mine.rate)
    flow.window = max(whole(mine.w), 1)


def end_window(dctcp, node, flow, pkt):
    """Count what an ACK answers; if it ends a window of data, update alpha, begin the next window and return 1."""
    mine = my_flow(dctcp, flow)
    packets = packets_answered(node, pkt)
    mine.acks += packets
    if pkt.ecn:
        mine.marked += packets
        mine.growing = 0
    if pkt.seq <= mine.window_end:
        return 0
    if mine.window_end == NONE:  # the very first ACK
        mine.window_end = flow.sent
        mine.packets = flow.sent // dctcp.at.world.mtu + 1
        return dctcp.form == RATE
    if dctcp.form == WINDOW:
        mine.packets = mine.acks
    mine.alpha = (1 - dctcp.g) * mine.alpha + dctcp.g * min(float(mine.marked) / mine.packets, 1.0)
    mine.acks = 0
    mine.marked = 0
    mine.packets = (flow.sent - pkt.seq) // dctcp.at.world.mtu + 1
    mine.window_end = flow.sent
    return 1


def cut(dctcp, flow):
    mine = my_flow(dctcp, flow)
    mine.w = max(mine.w * (1 - mine.alpha / 2), dctcp.at.world.mtu)
    mine.rate = max(mine.rate * (1 - mine.alpha / 2), dctcp.min_rate)


def grow(dctcp, flow):
    mine = my_flow(dctcp, flow)
    mine.w = min(mine.w + dctcp.at.world.mtu, dctcp.most)
    step = mine.line * dctcp.at.world.mtu / dctcp.most if mine.growing else dctcp.r_ai
    mine.rate = min(mine.rate + step, mine.line)


def on_ack(dctcp, node, flow, pkt):
    mine = my_flow(dctcp, flow)
    ended = end_window(dctcp, node, flow, pkt)
    if pkt.seq > mine.cwr_end:
        mine.cwr_end = NONE
    if mine.cwr_end == NONE:
        if pkt.ecn:
            cut(dctcp, flow)
            mine.cwr_end = flow.sent
        elif ended or mine.growing:
            grow(dctcp, flow)
        set_window(dctcp, flow)
