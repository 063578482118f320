"""TIMELY: RTT-based Congestion Control for the Datacenter (Mittal et al., SIGCOMM 2015), Algorithm 1.

Every data packet carries its transmission time, which its ACK returns: new_rtt is now minus that time.  A completion event
is the first ACK beyond what had been sent at the last one, so there is one per RTT; update is Algorithm 1, which computes a
rate from the RTT.  A new rate applies from the next packet on.  Times are picoseconds.

What the paper leaves open: the first event only records its RTT, and rtt_diff starts at 0; flows start at line rate; rates
stay within min_rate and line rate; the five events with a negative gradient (rtt_diff < 0) are counted over all branches,
including the present one.  Packets take the place of segments: new_rtt includes the transmission time of a packet.

hai = "increases" is the HPCC paper's simulator: HAI mode comes after five increases for whatever reason, and raises the
rate below T_low as well, by a constant.  That is where most of its increases are, because T_low, T_high and minRTT are the
paper's, whatever the network's RTT.  There alpha, the weight of the *new* sample, is 0.875.
"""

title = "TIMELY"
includes = ["pfc"]
packet_state = {"stamp": "time"}
flow_state = {
    "rate": "float64",
    "line": "float64",
    "rtt_diff": "float64",
    "prev_rtt": "time",
    "last_update_seq": "int64",
    "in_a_row": "int32",
}
scheme_state = {"hai_step": "float64"}
parameters = {
    "alpha": ("float64 0..1", 0.875, "EWMA weight of the new sample in rtt_diff (as HPCC's simulator has it)"),
    "beta": ("float64 0..1", 0.8, "multiplicative decrement factor"),
    "t_low": ("time", "50us", "T_low: below it the rate grows, whatever the gradient"),
    "t_high": ("time", "500us", "T_high: above it the rate falls, whatever the gradient"),
    "min_rtt": ("time 1..1e18", "20us", "minRTT, by which the gradient is normalised"),
    "delta": ("rate", "100Mbps", "additive increment step (10 Mbit/s for each 10 Gbit/s of the line)"),
    "n": ("float64 0..1e6", 5.0, "N: the increment in HAI mode is N delta"),
    "r_hai": ("rate", 0, "the increment in HAI mode as a rate, instead; 0 = N delta"),
    "hai_from": ("int32 1..1e9", 5, "HAI mode begins with this one of the events in a row that count for it"),
    "hai": ("choice gradient increases", "gradient", "events that count: a negative gradient, or any increase"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
    "window": ("bool", False, "TIMELY+win (HPCC section 5.1): a window of rate x base RTT; TIMELY has none"),
    "stamp_bytes": ("bytes 0..1000", 8, "the time stamp on every data packet and ACK"),
}
presets = {
    "default": {"host.pacing": "from start"},
    # the HPCC paper's simulator at 100 Gbit/s, without and with a window; five increases, then HAI
    "ns3": {
        "uses": ["pfc:ns3"],
        "delta": "100Mbps",
        "r_hai": "500Mbps",
        "hai": "increases",
        "hai_from": 6,
        "min_rate": "1Gbps",
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    "ns3_win": {
        "uses": ["pfc:ns3"],
        "delta": "100Mbps",
        "r_hai": "500Mbps",
        "hai": "increases",
        "hai_from": 6,
        "min_rate": "1Gbps",
        "window": True,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    # the Floodgate authors' simulator
    "floodgate": {
        "uses": ["pfc:ns3"],
        "delta": "50Mbps",
        "r_hai": "100Mbps",
        "hai": "increases",
        "hai_from": 6,
        "min_rate": "100Mbps",
        "window": True,
        "pfc.alpha": 0.25,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
}

GRADIENT = 0  # what counts for HAI mode
INCREASES = 1


def set_up(timely):
    timely.hai_step = timely.r_hai if timely.r_hai > 0 else timely.n * timely.delta


# ---- RTTs ----


def on_send(timely, node, flow, pkt):
    my_packet(timely, pkt).stamp = node.now
    pkt.size += timely.stamp_bytes


def on_ack(timely, node, flow, pkt):
    mine = my_flow(timely, flow)
    if pkt.seq <= mine.last_update_seq:
        return
    new_rtt = node.now - my_packet(timely, pkt).stamp
    if mine.prev_rtt > 0:
        update(timely, flow, new_rtt)
        apply_rate(timely, flow)
    mine.prev_rtt = new_rtt
    mine.last_update_seq = flow.sent


# ---- Rates ----


def on_start(timely, node, flow, pkt):
    mine = my_flow(timely, flow)
    mine.line = 8e12 / port_of(flow).ps_per_byte
    mine.rate = mine.line
    apply_rate(timely, flow)


def apply_rate(timely, flow):
    mine = my_flow(timely, flow)
    mine.rate = min(max(mine.rate, timely.min_rate), mine.line)
    set_rate(flow, mine.rate)
    if timely.window:
        flow.window = max(whole(timely.at.world.bdp * (mine.rate / mine.line)), 1)


def update(timely, flow, new_rtt):
    """Algorithm 1."""
    mine = my_flow(timely, flow)
    new_rtt_diff = new_rtt - mine.prev_rtt
    mine.rtt_diff = (1 - timely.alpha) * mine.rtt_diff + timely.alpha * new_rtt_diff
    normalized_gradient = mine.rtt_diff / timely.min_rtt
    if timely.hai == GRADIENT:
        mine.in_a_row = mine.in_a_row + 1 if normalized_gradient < 0 else 0
    if new_rtt < timely.t_low:
        increase(timely, flow, timely.hai == INCREASES)
    elif new_rtt > timely.t_high:
        decrease(timely, flow, 1 - float(timely.t_high) / new_rtt)
    elif normalized_gradient <= 0:
        increase(timely, flow, 1)
    else:
        decrease(timely, flow, normalized_gradient)


def increase(timely, flow, may_hai):
    """Raise the rate by delta, or by N delta in HAI mode if `may_hai`."""
    mine = my_flow(timely, flow)
    if timely.hai == INCREASES:
        mine.in_a_row += 1
    mine.rate += timely.hai_step if may_hai and mine.in_a_row >= timely.hai_from else timely.delta


def decrease(timely, flow, share: float):
    """Cut the rate by beta times `share`, which may exceed 1; apply_rate bounds it by min_rate."""
    mine = my_flow(timely, flow)
    if timely.hai == INCREASES:
        mine.in_a_row = 0
    mine.rate *= 1 - timely.beta * share
