"""FNCC: Fast Notification Congestion Control (Xu et al., arXiv 2405.07608): HPCC with telemetry that ACKs take on their way back.

Sources: the abstract and a public summary of the paper were read, its text was not, and no code of its authors was found.  From
these: switches put the telemetry of the request path into the ACKs of the return path; the receiver says how many flows are
concurrent, and a sender whose last hop is congested takes its fair share at once.  That switches keep the telemetry in a table
(All_INT_Table), alpha, beta and W = B T beta / N are as others describe the paper.  All else is HPCC's (Li et al.,
SIGCOMM 2019, Algorithm 1) or was decided here; no number of the paper is claimed.

Switches: the port by which an ACK comes in is the one by which its data leaves.  Its telemetry, ts, txBytes, qLen and B, is
written into the ACK, as it is then, or with `table_period` as it was when the table was last filled.  txBytes counts what has
left by then, of a packet on the line the part that has: between two ACKs whole packets would be up to one too many or too few.
Data carries no telemetry.

Receivers: N, the flows of which data has come by this port and more is to come, is written into every ACK.

Senders: HPCC's window W and rate W / T.  Last-hop congestion speedup (LHCS, `lhcs`): where the load u' of the last hop (lines 4
and 5), the first one that an ACK meets, exceeds alpha, W and W^c are B T beta / N of that link, and incStage is 0.  The first
ACK, and the first one of another path, is only recorded; U starts at 1; W stays within R_min T and B_NIC T.

ACKs have to meet the switches of their data.  So all switches of a tier hash alike, and an ACK has the hash of its data.  Where
the next hops are not as many both ways (hosts with several links, networks that are not layered), while routes change, and
under most load balancers, ACKs take other ways and tell of other links, which the sender does not notice: `astray` counts them.
Switches see ACKs only among the data, where these wait, are paused and may be dropped (host.ack_priority = "data").

Expected beside `hpcc` before any run, and found (100 Gbit/s, links of 1 us, a second flow that joins after 40 to 100 us).  News
of the first of three switches is 1.01 us old when it reaches the sender, not 7.3 us, that of the last 3.02 us, not 5.1 us: so
it is.  At a shared link that is no last hop: no speedup, the longest queue 10 to 45 % shorter; found 19 to 24 %.  There the
flow that was first hears of the other one before that has an ACK, and keeps less: after 20 base RTTs the windows still differ
by 11 to 52 %, by 1 to 7 % with `hpcc`.  At a last hop: two base RTTs later the windows within 10 % of each other and at most
half of B T, and so they are, equal; the longest queue no longer, found 9 to 13 % shorter; windows that differ by more than 30
% with `hpcc`: wrong in four of five runs, 3 to 41 %.
"""

title = "FNCC"
includes = ["pfc"]
structs = {"link": {"ts": "time", "tx_bytes": "int64", "ps_per_byte": "float64", "qlen": "int64"}}
packet_state = {"size": "int64", "way": "int64", "n": "int32", "hops": "int32", "path": "int32", "ack_l": "link[5]"}
flow_state = {
    "w": "float64",
    "wc": "float64",
    "u": "float64",
    "w_init": "float64",
    "last_update_seq": "int64",
    "inc_stage": "int32",
    "hops": "int32",
    "path": "int32",
    "l": "link[5]",
}
incoming_state = {"size": "int64", "port": "int32", "counted": "int32"}
port_state = {"n": "int32", "row": "link[1]"}
flow_counts = {
    "speedups": "ACKs by which W became the fair share of the last hop",
    "astray": "ACKs that did not meet the switches of their data: what they tell is of other links",
}
scheme_state = {"base_rtt": "float64"}
parameters = {
    "eta": ("float64 0.01..1", 0.95, "target utilisation (HPCC section 3.3)"),
    "max_stage": ("int32", 5, "additive rounds before a multiplicative one (HPCC section 3.3)"),
    "w_ai": ("bytes", "80B", "additive increase W_AI of the window (HPCC section 5.1)"),
    "t": ("time", 0, "base RTT T that all flows share; 0 = the network's own, the largest of any pair"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
    "lhcs": ("bool", True, "last-hop congestion speedup"),
    "alpha": ("float64 0..100", 1.05, "load of the last hop beyond which it is congested"),
    "beta": ("float64 0.01..1", 0.9, "share of the last hop that its flows take together when it is"),
    "table_period": ("time 0..1e15", 0, "switches fill the table of their ports' telemetry so often; 0 = as an ACK passes"),
    "int_bytes": ("bytes 0..1000", 44, "on every ACK: HPCC's 42 (section 4.1) and 2 for N"),
}
when = {"on_timer": "table_period"}
fabric = {"symmetric": 1, "queued_acks": 1, "by_message": 0}
presets = {"default": {"host.ack_priority": "data", "host.pacing": "from start"}}

MAX_HOP = 5


# ---- Switches ----


def set_up_node(fncc, node):
    if fncc.table_period > 0:
        wake_by(node, fncc.at.index, node.now + fncc.table_period)


def on_timer(fncc, node):
    """Fill the table."""
    for i in range(node.port_count):
        port = port_at(node, i)
        read(node, port, row_at(my_port(fncc, port), 0))
    set_timer(node, fncc.at.index, node.now + fncc.table_period)


def read(node, port, link):
    """The telemetry of a port, as it is now."""
    link.ts = node.now
    link.tx_bytes = port.tx_bytes - whole(max(port.free_at - node.now, 0) / port.ps_per_byte)
    link.qlen = port.bytes - port.held
    link.ps_per_byte = port.ps_per_byte


def look_up(fncc, port, link):
    """The same, as the table has it."""
    row = row_at(my_port(fncc, port), 0)
    link.ts = row.ts
    link.tx_bytes = row.tx_bytes
    link.qlen = row.qlen
    link.ps_per_byte = row.ps_per_byte


def on_dequeue(fncc, node, port, queue, pkt):
    mine = my_packet(fncc, pkt)
    if pkt.kind == DATA:
        mine.way += hash31(node.id, 0)
    elif pkt.kind == ACK and mine.n > 0:
        mine.way -= hash31(node.id, 0)
        mine.path ^= node.id
        if mine.hops < MAX_HOP:
            of_data = port_at(node, pkt.in_port)
            if fncc.table_period > 0:
                look_up(fncc, of_data, ack_l_at(mine, mine.hops))
            else:
                read(node, of_data, ack_l_at(mine, mine.hops))
            mine.hops += 1


# ---- Receivers ----


def on_data(fncc, node, incoming, pkt):
    """Write N, which counts this flow, and make room for telemetry."""
    mine = my_incoming(fncc, incoming)
    says = my_packet(fncc, pkt)
    if not mine.counted:
        mine.counted = 1
        mine.port = pkt.in_port
        my_port(fncc, port_at(node, mine.port)).n += 1
    here = my_port(fncc, port_at(node, mine.port))
    says.n = here.n
    pkt.size += fncc.int_bytes
    mine.size = max(mine.size, says.size)
    if incoming.expected >= mine.size:
        mine.counted = 0
        here.n -= 1
    return BY_DEFAULT


# ---- Senders: HPCC's Algorithm 1, and LHCS ----


def set_up(fncc):
    fncc.base_rtt = fncc.t if fncc.t > 0 else fncc.at.world.base_rtt


def on_start(fncc, node, flow, pkt):
    mine = my_flow(fncc, flow)
    mine.w_init = fncc.base_rtt / port_of(flow).ps_per_byte  # B_NIC T
    mine.w = mine.w_init
    mine.wc = mine.w_init
    mine.u = 1.0
    mine.hops = -1
    set_window(fncc, node, flow)


def set_window(fncc, node, flow):
    """Apply W and R = W / T; the next packet is rescheduled as well."""
    mine = my_flow(fncc, flow)
    flow.window = max(whole(mine.w), 1)
    set_rate(flow, mine.w * 8e12 / fncc.base_rtt)
    repace(node, flow)


def on_send(fncc, node, flow, pkt):
    """What the receiver takes from the last packet of a message: up to where there is data now."""
    mine = my_packet(fncc, pkt)
    mine.size = flow.size
    mine.n = 0
    mine.hops = 0
    mine.path = 0
    mine.way = 0


def bound(fncc, flow, w: float) -> float:
    return min(max(w, fncc.min_rate * fncc.base_rtt / 8e12), my_flow(fncc, flow).w_init)


def load_of(fncc, flow, link, hop) -> float:
    """u' (lines 4 and 5): inflight bytes of a link relative to B T; 0 if the telemetry is no newer."""
    old = l_at(my_flow(fncc, flow), hop)
    if link.ts <= old.ts:
        return 0.0
    tx_rate = float(link.tx_bytes - old.tx_bytes) / float(link.ts - old.ts)
    return (min(link.qlen, old.qlen) / fncc.base_rtt + tx_rate) * link.ps_per_byte


def measure_inflight(fncc, flow, pkt) -> float:
    """Lines 1 to 10: U, that of the busiest link."""
    mine = my_flow(fncc, flow)
    ack = my_packet(fncc, pkt)
    u = 0.0
    tau = 0.0
    for i in range(ack.hops):
        u_link = load_of(fncc, flow, ack_l_at(ack, i), i)
        if u_link > u:
            u = u_link
            tau = float(ack_l_at(ack, i).ts - l_at(mine, i).ts)
    weight = min(tau, fncc.base_rtt) / fncc.base_rtt
    mine.u = (1 - weight) * mine.u + weight * u
    return mine.u


def compute_wind(fncc, flow, u: float, update_wc) -> float:
    """Lines 11 to 20."""
    mine = my_flow(fncc, flow)
    if u >= fncc.eta or mine.inc_stage >= fncc.max_stage:
        w = bound(fncc, flow, mine.wc / (u / fncc.eta) + fncc.w_ai)
        if update_wc:
            mine.inc_stage = 0
            mine.wc = w
    else:
        w = bound(fncc, flow, mine.wc + fncc.w_ai)
        if update_wc:
            mine.inc_stage += 1
            mine.wc = w
    return w


def speed_up(fncc, flow, pkt):
    """LHCS: the fair share of the last hop, if that is congested."""
    mine = my_flow(fncc, flow)
    ack = my_packet(fncc, pkt)
    last = ack_l_at(ack, 0)
    if load_of(fncc, flow, last, 0) > fncc.alpha:
        mine.wc = bound(fncc, flow, fncc.base_rtt / last.ps_per_byte * fncc.beta / ack.n)
        mine.w = mine.wc
        mine.inc_stage = 0
        mine.speedups += 1


def remember(fncc, flow, pkt):
    """L = ack.L (line 27)."""
    mine = my_flow(fncc, flow)
    ack = my_packet(fncc, pkt)
    for i in range(ack.hops):
        new = ack_l_at(ack, i)
        old = l_at(mine, i)
        old.ts = new.ts
        old.tx_bytes = new.tx_bytes
        old.qlen = new.qlen
        old.ps_per_byte = new.ps_per_byte


def on_ack(fncc, node, flow, pkt):
    """NewAck, lines 21 to 27.  An ACK of a flow that has ended at its receiver tells nothing."""
    mine = my_flow(fncc, flow)
    ack = my_packet(fncc, pkt)
    if ack.hops == 0:
        return
    if ack.way:
        mine.astray += 1
    if ack.hops != mine.hops or ack.path != mine.path:  # no L to compare with
        mine.hops = ack.hops
        mine.path = ack.path
        mine.last_update_seq = flow.sent
        remember(fncc, flow, pkt)
        return
    if pkt.seq > mine.last_update_seq:
        mine.w = compute_wind(fncc, flow, measure_inflight(fncc, flow, pkt), 1)
        mine.last_update_seq = flow.sent
    else:
        mine.w = compute_wind(fncc, flow, measure_inflight(fncc, flow, pkt), 0)
    if fncc.lhcs:
        speed_up(fncc, flow, pkt)
    set_window(fncc, node, flow)
    remember(fncc, flow, pkt)
