"""theta-PowerTCP (Addanki et al., NSDI 2022), section 3.5 and Algorithm 2: PowerTCP by RTTs alone, without telemetry.

With a busy link, q / b + tau is the RTT and dq/dt / b its gradient, so that the normalised power is (dRTT/dt + 1) RTT / tau.
 It is computed from every ACK; the window moves towards cwnd_old / Gamma + beta once per RTT, with the first ACK of what was
sent after the last change; flows are paced by cwnd / tau.  Every data packet carries its transmission time, which its ACK
returns.

What the paper leaves open: the first ACK is only recorded; Gamma starts at 1; cwnd_old is the window after the last change,
an RTT ago; cwnd stays within min_rate tau and HostBw tau, where flows start; beta is r_ai tau (powertcp.py).  An RTT that
falls faster than time passes would make the power negative: the gradient is no less than -1/2, as in the authors' simulator.

`ns3` is that simulator as it was read: tau is the smallest RTT that the flow has seen (section 3.3 allows that), and 5 % more
than it is no congestion.
"""

title = "ThetaPowerTCP"
includes = ["pfc"]
packet_state = {"stamp": "time"}
flow_state = {
    "cwnd": "float64",
    "cwnd_most": "float64",
    "smooth": "float64",
    "tau": "time",
    "prev_rtt": "time",
    "prev_t_c": "time",
    "last_updated": "int64",
}
scheme_state = {"base_rtt": "time"}
parameters = {
    "gamma": ("float64 0.01..1", 0.9, "EWMA parameter: weight of the new window (section 3.3)"),
    "r_ai": ("rate", "150Mbps", "additive increase: beta = r_ai tau (authors' simulator)"),
    "t": ("time", 0, "base RTT tau; 0 = the network's own, the largest of any pair"),
    "observe": ("bool", False, "tau is the smallest RTT that the flow has seen, if that is smaller"),
    "margin": ("float64 1..10", 1.0, "RTT relative to tau up to which there is no congestion (not in the paper)"),
    "least_current": ("float64 0.01..1", 0.5, "least value of gradient + 1 (authors' simulator)"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
    "stamp_bytes": ("bytes 0..1000", 8, "the time stamp on every data packet and ACK"),
}
presets = {
    "ns3": {
        "uses": ["pfc:ns3"],
        "gamma": 0.7,
        "observe": True,
        "margin": 1.05,
        "host.ack_priority": "data",
    },
}


def set_up(theta):
    theta.base_rtt = theta.t if theta.t > 0 else theta.at.world.base_rtt


def on_send(theta, node, flow, pkt):
    my_packet(theta, pkt).stamp = node.now
    pkt.size += theta.stamp_bytes


def on_start(theta, node, flow, pkt):
    mine = my_flow(theta, flow)
    mine.tau = theta.base_rtt
    mine.cwnd_most = float(theta.base_rtt) / port_of(flow).ps_per_byte  # HostBw tau
    mine.cwnd = mine.cwnd_most
    mine.smooth = 1.0
    set_window(theta, node, flow)


def set_window(theta, node, flow):
    """Apply cwnd and rate = cwnd / tau; the next packet is rescheduled as well."""
    mine = my_flow(theta, flow)
    flow.window = max(whole(mine.cwnd), 1)
    set_rate(flow, mine.cwnd * 8e12 / theta.base_rtt)
    repace(node, flow)


def norm_power(theta, node, flow, rtt):
    """Lines 9 to 14."""
    mine = my_flow(theta, flow)
    dt = node.now - mine.prev_t_c
    current = max(float(rtt - mine.prev_rtt) / dt + 1, theta.least_current)
    norm = current * rtt / (theta.margin * mine.tau)
    weight = min(float(dt) / mine.tau, 1.0)
    mine.smooth = (1 - weight) * mine.smooth + weight * norm


def update_window(theta, flow):
    """Lines 15 to 23."""
    mine = my_flow(theta, flow)
    beta = theta.r_ai * theta.base_rtt / 8e12
    cwnd = theta.gamma * (mine.cwnd / mine.smooth + beta) + (1 - theta.gamma) * mine.cwnd
    mine.cwnd = min(max(cwnd, theta.min_rate * theta.base_rtt / 8e12), mine.cwnd_most)


def on_ack(theta, node, flow, pkt):
    """NEWACK."""
    mine = my_flow(theta, flow)
    rtt = node.now - my_packet(theta, pkt).stamp
    if theta.observe:
        mine.tau = min(mine.tau, rtt)
    if mine.prev_t_c == 0:
        mine.last_updated = flow.sent
    else:
        norm_power(theta, node, flow, rtt)
        if pkt.seq > mine.last_updated:
            update_window(theta, flow)
            set_window(theta, node, flow)
            mine.last_updated = flow.sent
    mine.prev_rtt = rtt
    mine.prev_t_c = node.now
