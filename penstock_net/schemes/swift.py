"""Swift: Delay is Simple and Effective for Congestion Control in the Datacenter (Kumar et al., SIGCOMM 2020), Algorithm 1.

AIMD on the delay of every ACK.  Below the target delay cwnd grows by ai packets per RTT; above it, at most once per RTT, it
shrinks in proportion to the excess.  A loss that a NACK tells of, and a timeout, cut it by max_mdf, at most once per RTT; the
fifth timeout in succession sets it to min_cwnd.  A cwnd below one packet is a packet every rtt / cwnd.

The target delay of the fabric grows with the path and with the number of flows, which a small cwnd tells of: base_target +
hops * hop_scale + max(0, min(alpha / sqrt(fcwnd) + beta, fs_range)), alpha = fs_range / (1 / sqrt(fs_min_cwnd) - 1 /
sqrt(fs_max_cwnd)), beta = - alpha / sqrt(fs_max_cwnd).  hops are the switches that the packet has passed.

There are two windows, fcwnd by the fabric's delay and ecwnd by the endpoint's, and the smaller one holds.  The delay of the
endpoint is what the ACK has waited at the receiver (`host.ack_after`, `host.ack_delay`) and, where servers have a virtual switch,
the time that the packet has waited in the receiver's one; all else is the fabric's. Left out: delays in the sender's and on the
receiver's NIC and stack, and the EWMA of the endpoint's delay, which is noise there.

What the paper leaves open: the first window (here one bandwidth-delay product), the rtt of "once per RTT" and of rtt / cwnd
(that of the last ACK), and the parameters; their values are those of two simulators: the default of SIRD's (100 Gbit/s), and
`htsim`. A window of cwnd packets lets a packet go if it fits in it whole.  A packet that is scheduled by the pace keeps its
time.
"""

includes = ["pfc"]
structs = {"window": {"cwnd": "float64", "cut_at": "time"}}
packet_state = {"stamp": "time", "arrived": "time", "endpoint": "time", "hops": "int32"}
flow_state = {"w": "window[2]", "rtt": "time", "acked": "int64", "retransmit_cnt": "int32", "paced": "int32"}
scheme_state = {"alpha": "float64", "shift": "float64"}
parameters = {
    "ai": ("float64 0..1e6", 1.0, "additive increment, packets per RTT"),
    "beta": ("float64 0..1", 0.8, "multiplicative decrease constant"),
    "max_mdf": ("float64 0..1", 0.5, "maximum multiplicative decrease factor: the largest cut at a time"),
    "base_target": ("time", "15us", "target delay of one hop and a few flows"),
    "hop_scale": ("time", "1us", "more target delay for each hop: topology-based scaling"),
    "fs_range": ("time", "75us", "largest additional target delay of flow-based scaling"),
    "fs_min_cwnd": ("float64 1e-6..9.99", 0.1, "packets: window at which the additional target is fs_range"),
    "fs_max_cwnd": ("float64 10..1e6", 100.0, "packets: window from which on there is none"),
    "endpoint_target": ("time", "15us", "target delay of the endpoint (open)"),
    "min_cwnd": ("float64 1e-6..1e6", 0.001, "packets: smallest window"),
    "max_cwnd": ("float64 1e-6..1e6", 1000.0, "packets: largest window"),
    "retx_reset_threshold": ("int32 1..1000", 5, "timeouts in succession that set the window to min_cwnd"),
    "stamp_bytes": ("bytes 0..1000", 8, "the time stamp on every data packet and ACK"),
}
presets = {
    # csg-htsim, whose parameters are guesses, in its words
    "htsim": {"base_target": "20us", "hop_scale": "3053435ps", "fs_range": "100us", "min_cwnd": 0.01},
}

FABRIC = 0
ENDPOINT = 1


def set_up(swift):
    swift.alpha = swift.fs_range / (1 / sqrt(swift.fs_min_cwnd) - 1 / sqrt(swift.fs_max_cwnd))
    swift.shift = -swift.alpha / sqrt(swift.fs_max_cwnd)


# ---- Delays ----


def on_send(swift, node, flow, pkt):
    mine = my_packet(swift, pkt)
    mine.stamp = node.now
    mine.endpoint = 0
    mine.hops = 0
    pkt.size += swift.stamp_bytes


def on_enqueue(swift, node, port, queue, pkt):
    if node.tier == 0:
        my_packet(swift, pkt).arrived = node.now


def on_dequeue(swift, node, port, queue, pkt):
    """Count the hops of a data packet; at the receiver's virtual switch, whose port leads to an application, add up its delay."""
    if pkt.kind != DATA:
        return
    mine = my_packet(swift, pkt)
    if node.tier > 0:
        mine.hops += 1
    elif port.up == 0:
        mine.endpoint += node.now - mine.arrived


def target_delay(swift, fcwnd: float, hops) -> float:
    scaling = min(swift.alpha / sqrt(fcwnd) + swift.shift, float(swift.fs_range))
    return swift.base_target + float(hops * swift.hop_scale) + max(scaling, 0.0)


# ---- Algorithm 1 ----


def on_start(swift, node, flow, pkt):
    mine = my_flow(swift, flow)
    mine.rtt = swift.at.world.base_rtt
    for i in range(2):
        w_at(mine, i).cwnd = float(swift.at.world.bdp) / swift.at.world.mtu
        w_at(mine, i).cut_at = -NEVER
    apply(swift, node, flow)


def on_ack(swift, node, flow, pkt):
    mine = my_flow(swift, flow)
    ack = my_packet(swift, pkt)
    mine.rtt = node.now - ack.stamp
    mine.retransmit_cnt = 0
    num_acked = float(flow.acked - mine.acked) / swift.at.world.mtu
    mine.acked = flow.acked
    endpoint = ack.endpoint + time_waited(node, pkt)
    fabric = w_at(mine, FABRIC)
    if pkt.flags & NACK:  # "On Fast Recovery"
        decrease(swift, node, flow, fabric, swift.max_mdf)
    else:
        react(swift, node, flow, fabric, mine.rtt - endpoint, target_delay(swift, fabric.cwnd, ack.hops), num_acked)
        react(swift, node, flow, w_at(mine, ENDPOINT), endpoint, float(swift.endpoint_target), num_acked)
    apply(swift, node, flow)


def react(swift, node, flow, window, delay, target: float, num_acked: float):
    """ "On Receiving ACK"."""
    if delay < target:
        window.cwnd += swift.ai * num_acked / max(window.cwnd, 1.0)
    else:
        decrease(swift, node, flow, window, min(swift.beta * (delay - target) / delay, swift.max_mdf))


def decrease(swift, node, flow, window, share: float):
    """Cut the window by this share of it, at most once per RTT."""
    if node.now - my_flow(swift, flow).rtt >= window.cut_at:
        window.cwnd *= 1 - share
        window.cut_at = node.now


def on_timeout(swift, node, flow):
    if flow.sent == flow.acked:  # its pace makes it wait
        flow.backoff = 0
        return
    mine = my_flow(swift, flow)
    mine.retransmit_cnt += 1
    if mine.retransmit_cnt >= swift.retx_reset_threshold:
        w_at(mine, FABRIC).cwnd = swift.min_cwnd
    else:
        decrease(swift, node, flow, w_at(mine, FABRIC), swift.max_mdf)
    apply(swift, node, flow)
    send_from(node, flow, flow.acked)


def apply(swift, node, flow):
    """Set bounds to both windows and apply the smaller one, as a window or as a pace; when these change over, at once."""
    mine = my_flow(swift, flow)
    for i in range(2):
        window = w_at(mine, i)
        window.cwnd = min(max(window.cwnd, swift.min_cwnd), swift.max_cwnd)
    cwnd = min(w_at(mine, FABRIC).cwnd, w_at(mine, ENDPOINT).cwnd)
    mtu = swift.at.world.mtu
    flow.window = whole(max(cwnd - 1, 0.0) * mtu) + 1
    paced = 1 if cwnd < 1 else 0
    size = mtu + swift.at.world.header + swift.stamp_bytes
    set_rate(flow, size * 8e12 * cwnd / mine.rtt if paced else 8e12 / port_of(flow).ps_per_byte)
    if paced != mine.paced:
        mine.paced = paced
        repace(node, flow)
