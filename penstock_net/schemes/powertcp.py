"""PowerTCP (Addanki et al., NSDI 2022), sections 3.3 and 4, Algorithm 1: windows by the power of the links on the path.

The power of a link is its current, the rate at which bytes arrive for it (lambda = dq/dt + txRate), times its voltage, its
queue and its bandwidth-delay product; Gamma is the power relative to b^2 tau, that of a full link without a queue, of the
link where it is largest.  The window moves towards cwnd_old / Gamma + beta, where cwnd_old is the window of an RTT ago; flows
are paced by cwnd / tau. The links are known by HPCC's telemetry (telemetry.py).  In equilibrium the queue is the sum of the
flows' beta.

What the paper leaves open: the first ACK, and the first one of another path, is only recorded; Gamma starts at 1; cwnd stays
within min_rate tau and HostBw tau, where flows start.  beta = HostBw tau / N without a value for N: here r_ai tau, the
authors' simulator's. Line 20 of the algorithm compares Gamma' where it must mean its normalised value.

Equation 7 averages with the present window, which every ACK of an RTT has changed (`average = "cwnd"`).  Then windows swing:
of a link of 100 Gbit/s four flows use 74 to 99 %, by the seed.  Averaged with cwnd_old, as in the authors' simulator, they
use 99 %, with the queue that theorem 1 states; that is the default.

`ns3` is the authors' simulator as it was read: Gamma is divided by a target of 95 %, the current of a link is no less than
half its rate, and the first ACK counts with this least current (`first`): it is compared with records that are zero.  With
Gamma 1 instead a lone flow is some per cent slower, since the target holds for its first RTT.
"""

title = "PowerTCP"
includes = ["pfc", "telemetry"]
packet_state = "telemetry"
flow_state = {
    "cwnd": "float64",
    "cwnd_old": "float64",
    "cwnd_most": "float64",
    "smooth": "float64",
    "last_update_seq": "int64",
    "hops": "int32",
    "path": "int32",
    "prev_int": "link[5]",
}
scheme_state = {"tau": "float64", "beta": "float64"}
parameters = {
    "gamma": ("float64 0.01..1", 0.9, "EWMA parameter: weight of the new window (section 3.3)"),
    "r_ai": ("rate", "150Mbps", "additive increase: beta = r_ai tau"),
    "t": ("time", 0, "base RTT tau; 0 = the network's own, the largest of any pair"),
    "eta": ("float64 0.01..1", 1.0, "target utilisation, by which the power is divided (not in the paper)"),
    "least_current": ("float64 0..1", 0.0, "least current of a link, relative to its rate (not in the paper)"),
    "first": (
        "float64 0..10",
        0.0,
        "Gamma of the first ACK if it meets no queue, with the full weight (authors' simulator); 0 = that is only recorded",
    ),
    "average": ("choice cwnd cwnd_old", "cwnd_old", "what a new window is averaged with: the present one is equation 7"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
}
presets = {
    "default": {"host.pacing": "from start"},
    "ns3": {
        "uses": ["pfc:ns3"],
        "eta": 0.95,
        "least_current": 0.5,
        "first": 0.5,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
}

MAX_HOP = 5
CWND = 0  # what a new window is averaged with


def set_up(powertcp):
    powertcp.tau = powertcp.t if powertcp.t > 0 else powertcp.at.world.base_rtt
    powertcp.beta = powertcp.r_ai * powertcp.tau / 8e12


def on_start(powertcp, node, flow, pkt):
    mine = my_flow(powertcp, flow)
    mine.cwnd_most = powertcp.tau / port_of(flow).ps_per_byte  # HostBw tau
    mine.cwnd = mine.cwnd_most
    mine.cwnd_old = mine.cwnd
    mine.smooth = 1.0
    mine.hops = -1
    set_window(powertcp, node, flow)


def set_window(powertcp, node, flow):
    """Apply cwnd and rate = cwnd / tau; the next packet is rescheduled as well."""
    mine = my_flow(powertcp, flow)
    flow.window = max(whole(mine.cwnd), 1)
    set_rate(flow, mine.cwnd * 8e12 / powertcp.tau)
    repace(node, flow)


def power_of(powertcp, flow, link, hop) -> float:
    """Lines 11 to 19: the normalised power of a link."""
    old = prev_int_at(my_flow(powertcp, flow), hop)
    dt = float(link.ts - old.ts)
    q_dot = (link.qlen - old.qlen) / dt
    mu = (link.tx_bytes - old.tx_bytes) / dt
    current = max((q_dot + mu) * link.ps_per_byte, powertcp.least_current)  # lambda / b
    return current * voltage_of(powertcp, link)


def voltage_of(powertcp, link) -> float:
    """nu / (b tau)."""
    return link.qlen / powertcp.tau * link.ps_per_byte + 1


def first_power(powertcp, flow, pkt) -> float:
    """The power of the first ACK, where every link has the current `first`."""
    mine = my_flow(powertcp, flow)
    ack = my_packet(powertcp, pkt)
    mine.smooth = powertcp.first
    for i in range(ack.hops):
        mine.smooth = max(mine.smooth, powertcp.first * voltage_of(powertcp, ack_l_at(ack, i)))
    return mine.smooth


def norm_power(powertcp, flow, pkt) -> float:
    """Lines 8 to 25."""
    mine = my_flow(powertcp, flow)
    ack = my_packet(powertcp, pkt)
    norm = 0.0
    delta_t = 0.0
    for i in range(ack.hops):
        link = ack_l_at(ack, i)
        dt = link.ts - prev_int_at(mine, i).ts
        if dt > 0:
            power = power_of(powertcp, flow, link, i)
            if power > norm:
                norm = power
                delta_t = float(dt)
    weight = min(delta_t, powertcp.tau) / powertcp.tau
    mine.smooth = (1 - weight) * mine.smooth + weight * norm
    return mine.smooth


def update_window(powertcp, flow, power: float):
    """Lines 26 to 30."""
    mine = my_flow(powertcp, flow)
    present = mine.cwnd if powertcp.average == CWND else mine.cwnd_old
    cwnd = powertcp.gamma * (mine.cwnd_old * powertcp.eta / power + powertcp.beta) + (1 - powertcp.gamma) * present
    mine.cwnd = min(max(cwnd, powertcp.min_rate * powertcp.tau / 8e12), mine.cwnd_most)


def remember(powertcp, flow, pkt):
    """Line 7: prevInt = ack.H."""
    mine = my_flow(powertcp, flow)
    ack = my_packet(powertcp, pkt)
    for i in range(ack.hops):
        link = ack_l_at(ack, i)
        old = prev_int_at(mine, i)
        old.ts = link.ts
        old.tx_bytes = link.tx_bytes
        old.qlen = link.qlen


def on_ack(powertcp, node, flow, pkt):
    """NEWACK."""
    mine = my_flow(powertcp, flow)
    ack = my_packet(powertcp, pkt)
    if ack.hops == mine.hops and ack.path == mine.path:
        update_window(powertcp, flow, norm_power(powertcp, flow, pkt))
        set_window(powertcp, node, flow)
    elif mine.hops < 0 and powertcp.first > 0:
        update_window(powertcp, flow, first_power(powertcp, flow, pkt))
        set_window(powertcp, node, flow)
    mine.hops = ack.hops
    mine.path = ack.path
    remember(powertcp, flow, pkt)
    if pkt.seq > mine.last_update_seq:  # UPDATEOLD, once per RTT
        mine.cwnd_old = mine.cwnd
        mine.last_update_seq = flow.sent
