"""theta-PowerTCP (Addanki et al., NSDI 2022), section 3.5 and Algorithm 2: PowerTCP by RTTs alone, without telemetry.

With a busy link, q / b + tau is the RTT and dq/dt / b its gradient, so that the normalised power is (dRTT/dt + 1) RTT / tau.
It is computed from every ACK; the window moves towards cwnd_old / Gamma + beta once per RTT, with the first ACK of what was
sent after the last change; flows are paced by cwnd / tau.  Every data packet carries its transmission time, which its ACK
returns.

What the paper leaves open: the first ACK is only recorded; Gamma starts at 1; cwnd_old is the window after the last change,
an RTT ago; cwnd stays within min_rate tau and HostBw tau, where flows start; beta is r_ai tau (powertcp.py).  An RTT that
falls faster than time passes would make the power negative: the gradient is no less than -1/2, as in the authors' simulator.

Code and text differ.  The default is Algorithm 2, `ns3` what the authors' simulator does instead:

* every ACK sets window and rate, from cwnd_old, as with telemetry (`reaction`);
* tau is the smallest RTT that the flow has seen (section 3.3 allows that), and 5 % more than it is no congestion; the window is
  the rate times this tau (`observe`, `margin`);
* the first ACK counts, with a gradient of 0 and the full weight (`first`);
* the header of the telemetry stays in the packets, 42 B (`stamp_bytes`).

Of two flows of 1 MB from two hosts through three switches to a third, each takes 347 us by Algorithm 2, 190 us by the code, as
in the authors' simulator, and 222 us by the code with one reaction per RTT; PowerTCP's take 190 us.
"""

title = "ThetaPowerTCP"
includes = ["pfc"]
packet_state = {"stamp": "time"}
flow_state = {
    "cwnd": "float64",
    "cwnd_old": "float64",
    "cwnd_most": "float64",
    "smooth": "float64",
    "tau": "time",
    "prev_rtt": "time",
    "prev_t_c": "time",
    "last_updated": "int64",
}
fabric = {"each_acked": 1}
scheme_state = {"base_rtt": "time"}
parameters = {
    "gamma": ("float64 0.01..1", 0.9, "EWMA parameter: weight of the new window (section 3.3)"),
    "r_ai": ("rate", "150Mbps", "additive increase: beta = r_ai tau (authors' simulator)"),
    "t": ("time", 0, "base RTT tau; 0 = the network's own, the largest of any pair"),
    "observe": ("bool", False, "tau is the smallest RTT that the flow has seen, if that is smaller"),
    "reaction": ("choice per_rtt per_ack", "per_rtt", "when window and rate change: per_rtt is Algorithm 2"),
    "first": ("bool", False, "the first ACK counts, too: its power is RTT / tau (authors' simulator)"),
    "margin": ("float64 1..10", 1.0, "RTT relative to tau up to which there is no congestion (not in the paper)"),
    "least_current": ("float64 0.01..1", 0.5, "least value of gradient + 1 (authors' simulator)"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
    "stamp_bytes": ("bytes 0..1000", 8, "the time stamp on every data packet and ACK"),
}
presets = {
    "default": {"host.pacing": "from start"},
    "ns3": {
        "uses": ["pfc:ns3"],
        "gamma": 0.7,
        "observe": True,
        "reaction": "per_ack",
        "first": True,
        "margin": 1.05,
        "stamp_bytes": 42,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
}


PER_ACK = 1  # reactions


def set_up(theta):
    theta.base_rtt = theta.t if theta.t > 0 else theta.at.world.base_rtt


def on_send(theta, node, flow, pkt):
    my_packet(theta, pkt).stamp = node.now
    pkt.size += theta.stamp_bytes


def on_start(theta, node, flow, pkt):
    mine = my_flow(theta, flow)
    set_tau(theta, flow, theta.base_rtt)
    mine.cwnd = mine.cwnd_most
    mine.cwnd_old = mine.cwnd
    mine.smooth = 1.0
    set_window(theta, node, flow)


def set_tau(theta, flow, tau):
    mine = my_flow(theta, flow)
    mine.tau = tau
    mine.cwnd_most = float(tau) / port_of(flow).ps_per_byte  # HostBw tau


def lower_tau(theta, flow, tau):
    """A smaller RTT: the rates stay, and windows are rates times tau."""
    mine = my_flow(theta, flow)
    ratio = float(tau) / mine.tau
    mine.cwnd *= ratio
    mine.cwnd_old *= ratio
    set_tau(theta, flow, tau)


def set_window(theta, node, flow):
    """Apply cwnd and rate = cwnd / tau; the next packet is rescheduled as well."""
    mine = my_flow(theta, flow)
    flow.window = max(whole(mine.cwnd), 1)
    set_rate(flow, mine.cwnd * 8e12 / mine.tau)
    repace(node, flow)


def norm_power(theta, node, flow, rtt):
    """Lines 9 to 14."""
    mine = my_flow(theta, flow)
    if mine.prev_t_c == 0:
        mine.smooth = rtt / (theta.margin * mine.tau)
        return
    dt = node.now - mine.prev_t_c
    current = max(float(rtt - mine.prev_rtt) / dt + 1, theta.least_current)
    norm = current * rtt / (theta.margin * mine.tau)
    weight = min(float(dt) / mine.tau, 1.0)
    mine.smooth = (1 - weight) * mine.smooth + weight * norm


def update_window(theta, flow):
    """Lines 15 to 23."""
    mine = my_flow(theta, flow)
    beta = theta.r_ai * mine.tau / 8e12
    cwnd = theta.gamma * (mine.cwnd_old / mine.smooth + beta) + (1 - theta.gamma) * mine.cwnd_old
    mine.cwnd = min(max(cwnd, theta.min_rate * mine.tau / 8e12), mine.cwnd_most)


def on_ack(theta, node, flow, pkt):
    """NEWACK."""
    mine = my_flow(theta, flow)
    rtt = node.now - my_packet(theta, pkt).stamp
    if theta.observe and rtt < mine.tau:
        lower_tau(theta, flow, rtt)
        set_window(theta, node, flow)
    if mine.prev_t_c == 0 and not theta.first:
        mine.last_updated = flow.sent
    else:
        norm_power(theta, node, flow, rtt)
        if theta.reaction == PER_ACK or pkt.seq > mine.last_updated:
            update_window(theta, flow)
            set_window(theta, node, flow)
        if pkt.seq > mine.last_updated:
            mine.cwnd_old = mine.cwnd
            mine.last_updated = flow.sent
    mine.prev_rtt = rtt
    mine.prev_t_c = node.now
