"""HPCC: High Precision Congestion Control (Li et al., SIGCOMM 2019), sections 3.2, 3.3, 4.1 and 5.4.

Every switch adds telemetry of the egress link to every data packet: ts, txBytes, qLen and B (telemetry.py).  The ACK returns it
to the sender, where Algorithm 1 (on_ack and the functions it calls; the comments give its lines) computes a window W and a pacing
rate R = W / T.  W and W^c are payload bytes, times are picoseconds, B is 1 / ps_per_byte.

What the paper leaves open: the first ACK, and the first one of another path, is only recorded; U starts at 1; W stays
within R_min T and B_NIC T.

multi_rate is a variant in the authors' simulator (MULTI_RATE), which the Floodgate authors ran: each hop has its own U, W^c
and incStage, Algorithm 1 computes a window for each hop, and W is the smallest of them.
"""

title = "HPCC"
includes = ["pfc", "telemetry"]
structs = {"reference": {"wc": "float64", "u": "float64", "inc_stage": "int32"}}
packet_state = "telemetry"
flow_state = {
    "w": "float64",
    "w_init": "float64",
    "base_rtt": "float64",
    "step": "float64",
    "last_update_seq": "int64",
    "hops": "int32",
    "path": "int32",
    "l": "link[5]",
    "r": "reference[5]",
}
parameters = {
    "eta": ("float64 0.01..1", 0.95, "target utilisation (section 3.3)"),
    "max_stage": ("int32", 5, "additive rounds before a multiplicative one (section 3.3; the simulations ran 0)"),
    "w_ai": ("bytes", "80B", "additive increase W_AI of the window (section 5.1)"),
    "r_ai": ("rate", 0, "the additive increase as a rate, W_AI = r_ai T, instead; 0 = as w_ai says"),
    "t": ("time", 0, "base RTT T that all flows share; 0 = the network's own, the largest of any pair"),
    "own_t": ("bool", False, "T of each flow is the base RTT of its own path, in place of t (GLOBAL_T 0 of the simulators)"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
    "reaction": ("choice hpcc per_ack per_rtt", "hpcc", "the paper's, or one of the simple alternatives (section 5.4)"),
    "multi_rate": ("bool", False, "U, W^c and incStage of each hop instead of one of the flow (MULTI_RATE of the simulators)"),
    "rate": ("choice tx rx", "tx", "a link's load is measured by bytes sent, or by bytes that arrived for it (section 3.4)"),
}
fabric = {"round_trips": "own_t"}
presets = {
    "default": {"host.pacing": "from start"},
    # the authors' simulator: ACKs queue behind data; 50 Mbit/s is the paper's 80 bytes per 13 us
    "ns3": {
        "uses": ["pfc:ns3"],
        "max_stage": 0,
        "r_ai": "50Mbps",
        "min_rate": "1Gbps",
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    # the BFC paper's baseline
    "bfc": {
        "uses": ["pfc:ns3"],
        "max_stage": 0,
        "r_ai": "50Mbps",
        "min_rate": "100Mbps",
        "host.ack_priority": "control",
        "host.pacing": "from start",
    },
    # the Floodgate authors' simulator
    "floodgate": {
        "uses": ["pfc:ns3"],
        "max_stage": 5,
        "r_ai": "50Mbps",
        "min_rate": "100Mbps",
        "multi_rate": True,
        "pfc.alpha": 0.25,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
}

MAX_HOP = 5
PER_ACK = 1  # reactions
PER_RTT = 2
RX = 1


# ---- Algorithm 1 ----


def on_start(hpcc, node, flow, pkt):
    mine = my_flow(hpcc, flow)
    mine.base_rtt = hpcc.t if hpcc.t > 0 else hpcc.at.world.base_rtt
    if hpcc.own_t:
        mine.base_rtt = round_trip_of(node, flow)
    mine.step = hpcc.r_ai * mine.base_rtt / 8e12 if hpcc.r_ai > 0 else hpcc.w_ai
    mine.w_init = mine.base_rtt / port_of(flow).ps_per_byte  # B_NIC T
    mine.w = mine.w_init
    mine.hops = -1
    for i in range(MAX_HOP if hpcc.multi_rate else 1):
        reference = r_at(mine, i)
        reference.wc = mine.w_init
        reference.u = 1.0
        reference.inc_stage = 0
    set_window(hpcc, node, flow)


def set_window(hpcc, node, flow):
    """Apply W and R = W / T; the next packet is rescheduled as well."""
    mine = my_flow(hpcc, flow)
    flow.window = max(whole(mine.w), 1)
    set_rate(flow, mine.w * 8e12 / mine.base_rtt)
    repace(node, flow)


def bound(hpcc, flow, w: float) -> float:
    mine = my_flow(hpcc, flow)
    return min(max(w, hpcc.min_rate * mine.base_rtt / 8e12), mine.w_init)


def load_of(hpcc, flow, link, hop) -> float:
    """Lines 4 and 5: inflight bytes of a link relative to B T."""
    mine = my_flow(hpcc, flow)
    old = l_at(mine, hop)
    count = link.tx_bytes - old.tx_bytes
    if hpcc.rate == RX:  # arrived = sent + queued
        count += link.qlen - old.qlen
    tx_rate = float(count) / float(link.ts - old.ts)
    return (min(link.qlen, old.qlen) / mine.base_rtt + tx_rate) * link.ps_per_byte


def average(hpcc, flow, reference, u: float, tau: float) -> float:
    """Lines 8 to 10."""
    T = my_flow(hpcc, flow).base_rtt
    weight = min(tau, T) / T
    reference.u = (1 - weight) * reference.u + weight * u
    return reference.u


def measure_inflight(hpcc, flow, pkt) -> float:
    """Lines 1 to 10: U, that of the busiest link."""
    mine = my_flow(hpcc, flow)
    ack = my_packet(hpcc, pkt)
    u = 0.0
    tau = 0.0
    for i in range(ack.hops):
        new = ack_l_at(ack, i)
        old = l_at(mine, i)
        if new.ts > old.ts:
            u_link = load_of(hpcc, flow, new, i)
            if u_link > u:
                u = u_link
                tau = float(new.ts - old.ts)
    return average(hpcc, flow, r_at(mine, 0), u, tau)


def compute_wind(hpcc, flow, reference, u: float, update_wc) -> float:
    """Lines 11 to 20."""
    mine = my_flow(hpcc, flow)
    if hpcc.reaction == PER_ACK:  # equation (3)
        return bound(hpcc, flow, mine.w / (u / hpcc.eta) + mine.step)
    if u >= hpcc.eta or reference.inc_stage >= hpcc.max_stage:
        w = bound(hpcc, flow, reference.wc / (u / hpcc.eta) + mine.step)
        if update_wc:
            reference.inc_stage = 0
            reference.wc = w
    else:
        w = bound(hpcc, flow, reference.wc + mine.step)
        if update_wc:
            reference.inc_stage += 1
            reference.wc = w
    return w


def new_wind(hpcc, flow, pkt, update_wc) -> float:
    """The window by the flow's reference, or the smallest by those of the hops."""
    if not hpcc.multi_rate:
        return compute_wind(hpcc, flow, r_at(my_flow(hpcc, flow), 0), measure_inflight(hpcc, flow, pkt), update_wc)
    mine = my_flow(hpcc, flow)
    ack = my_packet(hpcc, pkt)
    w = mine.w_init
    for i in range(ack.hops):
        new = ack_l_at(ack, i)
        old = l_at(mine, i)
        reference = r_at(mine, i)
        if new.ts > old.ts:
            average(hpcc, flow, reference, load_of(hpcc, flow, new, i), float(new.ts - old.ts))
        w = min(w, compute_wind(hpcc, flow, reference, reference.u, update_wc))
    return w


def remember(hpcc, flow, pkt):
    """L = ack.L (line 27)."""
    mine = my_flow(hpcc, flow)
    ack = my_packet(hpcc, pkt)
    for i in range(ack.hops):
        new = ack_l_at(ack, i)
        old = l_at(mine, i)
        old.ts = new.ts
        old.tx_bytes = new.tx_bytes
        old.qlen = new.qlen
        old.ps_per_byte = new.ps_per_byte


def on_ack(hpcc, node, flow, pkt):
    """NewAck, lines 21 to 27."""
    mine = my_flow(hpcc, flow)
    ack = my_packet(hpcc, pkt)
    if ack.hops != mine.hops or ack.path != mine.path:  # no L to compare with
        mine.hops = ack.hops
        mine.path = ack.path
        mine.last_update_seq = flow.sent
        remember(hpcc, flow, pkt)
        return
    if pkt.seq > mine.last_update_seq:
        mine.w = new_wind(hpcc, flow, pkt, 1)
        mine.last_update_seq = flow.sent
    elif hpcc.reaction == PER_RTT:
        return
    else:
        mine.w = new_wind(hpcc, flow, pkt, 0)
    set_window(hpcc, node, flow)
    remember(hpcc, flow, pkt)
