"""DCQCN (Zhu et al., SIGCOMM 2015), its reaction point as the HPCC paper's simulator runs it: by timers alone.

ACKs echo ECN marks.  Every `alpha_interval`, alpha moves towards 1 if an echo arrived in that slot, else towards 0.  A
`decrease_interval` in which one arrived cuts the rate by alpha / 2.  Every `increase_interval` since the last cut raises it: F
times half way back to the target, then by R_AI, finally by R_HAI.  The first echo sets alpha to 1, starts the two clocks, and
halves the rate at once (`cut_at_once`).  There is no byte counter.  Flows start at line rate; a new rate applies from the next
packet on.

With `cnp_interval` receivers send notification packets (CNPs) instead, as in section 3.1 of the paper: one for the first marked
packet of a flow, then one at the end of every interval in which a packet was marked.  Each CNP cuts the rate by alpha / 2, moves
alpha towards 1, and starts the clocks of alpha and of the increases anew; ACKs echo nothing, and `decrease_interval`
and `cut_at_once` mean nothing.  A CNP leaves `cnp_delay` after it was due.  It is ahead of all data, or, with
`cnp_priority`, stored, queued, paused and dropped as data of that priority is.

No timer is set.  What the timers would have done is computed when a packet of the flow is sent or acknowledged, in the order
in which they would have expired (at one instant: alpha, increase, decrease, then the packet), so that rates are the same at
every packet.

The defaults are those of the DCQCN paper, with the BFC paper's marking.  BFC's own settings are not published: `bfc` has what is
nearest to its table 1, of 28 combinations of DCQCN's paper and simulator and of HPCC's simulator: the defaults, and a window
(penstock_papers/bfc/_dcqcn.py; docs/differences.md, bfc/table1).
"""

title = "DCQCN"
includes = ["ecn", "pfc"]
flow_state = {
    "rate": "float64",
    "target": "float64",
    "line": "float64",
    "alpha": "float64",
    "alpha_at": "time",
    "decrease_at": "time",
    "increase_at": "time",
    "stage": "int32",
    "started": "int16",
    "alpha_echo": "int8",
    "decrease_echo": "int8",
}
incoming_state = {"cnp_after": "time", "cnp_due": "int8", "marked": "int8"}
parameters = {
    "g": ("float64 0..1", 0.00390625, "weight of a slot in alpha (DCQCN: 1/256)"),
    "alpha_interval": ("time 1..1e18", "55us", "slot of alpha"),
    "decrease_interval": ("time 1..1e18", "50us", "slot of the cuts: at most one in each (DCQCN: of notifications)"),
    "increase_interval": ("time 1..1e18", "55us", "time between two increases"),
    "fast_recovery": ("int32", 5, "increases F that go half way to the target, before the additive one"),
    "r_ai": ("rate", "40Mbps", "additive increase R_AI of the target"),
    "r_hai": ("rate", "200Mbps", "hyper increase R_HAI of the target"),
    "min_rate": ("rate 1..1e15", "100Mbps", "minimum pacing rate"),
    "clamp_target": ("bool", True, "the target follows every cut, not only the first after an increase"),
    "cut_at_once": ("bool", True, "the first echo cuts the rate (DCQCN), not only starts the clocks (HPCC's simulator)"),
    "cnp_interval": ("time 0..1e18", 0, "receivers send a CNP at most once in it (DCQCN: 50us); 0: ACKs echo marks"),
    "cnp_delay": ("time 0..1e18", 0, "time that a receiver takes to make a CNP; at most cnp_interval"),
    "cnp_priority": ("int32 -1..7", -1, "priority of CNPs among data; -1: they are control, ahead of data and never too many"),
    "window": ("bool", False, "DCQCN+win (HPCC section 5.1): a window of rate x base RTT"),
}
when = {"on_data": "cnp_interval", "on_flow_timer": "cnp_interval", "on_control": "cnp_interval"}
fabric = {"queues": "(cnp_interval > 0) * (cnp_priority + 1)", "by_message": 0, "rate_step": "r_ai"}
presets = {
    "default": {"host.pacing": "from start"},
    # the paper's notification point
    "cnp": {"cnp_interval": "50us", "host.pacing": "from start"},
    # the BFC paper's baseline, by its table 1
    "bfc": {"window": True, "host.pacing": "from start"},
    # the HPCC paper's simulator at 100 Gbit/s; with the DCQCN paper's intervals; its shipped configuration file
    "ns3": {
        "uses": ["ecn:ns3", "pfc:ns3"],
        "alpha_interval": "1us",
        "decrease_interval": "4us",
        "increase_interval": "300us",
        "fast_recovery": 1,
        "r_ai": "20Mbps",
        "r_hai": "200Mbps",
        "min_rate": "1Gbps",
        "clamp_target": False,
        "cut_at_once": False,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    "ns3_paper": {
        "uses": ["ecn:ns3", "pfc:ns3"],
        "alpha_interval": "50us",
        "decrease_interval": "50us",
        "increase_interval": "55us",
        "fast_recovery": 1,
        "r_ai": "20Mbps",
        "r_hai": "200Mbps",
        "min_rate": "1Gbps",
        "clamp_target": False,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
    "config": {
        "uses": ["ecn:ns3", "pfc:ns3"],
        "alpha_interval": "1us",
        "decrease_interval": "4us",
        "increase_interval": "900us",
        "fast_recovery": 1,
        "r_ai": "50Mbps",
        "r_hai": "100Mbps",
        "min_rate": "100Mbps",
        "clamp_target": False,
        "cut_at_once": False,
        "host.ack_priority": "data",
        "host.pacing": "from start",
    },
}

CNP = 3  # command of its frames
PHASE = 1000  # the clock of the cuts starts 1 ns after that of alpha


def on_start(dcqcn, node, flow, pkt):
    mine = my_flow(dcqcn, flow)
    mine.line = 8e12 / port_of(flow).ps_per_byte
    mine.rate = mine.line
    mine.target = mine.line
    mine.increase_at = NEVER
    apply_rate(dcqcn, flow)


def apply_rate(dcqcn, flow):
    mine = my_flow(dcqcn, flow)
    set_rate(flow, mine.rate)
    if dcqcn.window:
        flow.window = max(whole(dcqcn.at.world.bdp * (mine.rate / mine.line)), 1)


def on_ack(dcqcn, node, flow, pkt):
    mine = my_flow(dcqcn, flow)
    catch_up(dcqcn, node, flow)
    if pkt.ecn:
        mine.decrease_echo = 1
        if mine.started:
            mine.alpha_echo = 1
        else:
            start(dcqcn, node, flow)


def on_send(dcqcn, node, flow, pkt):
    catch_up(dcqcn, node, flow)


def begin(dcqcn, flow):
    mine = my_flow(dcqcn, flow)
    mine.started = 1
    mine.alpha = 1.0


def start(dcqcn, node, flow):
    """The first echo: start alpha and the clocks."""
    mine = my_flow(dcqcn, flow)
    begin(dcqcn, flow)
    mine.alpha_at = node.now + dcqcn.alpha_interval
    mine.decrease_at = node.now + dcqcn.decrease_interval + PHASE
    mine.target = mine.rate
    if dcqcn.cut_at_once:
        mine.rate = max(mine.rate * (1 - mine.alpha / 2), dcqcn.min_rate)
        mine.decrease_echo = 0
        mine.increase_at = node.now + dcqcn.increase_interval
    apply_rate(dcqcn, flow)


def catch_up(dcqcn, node, flow):
    """Do what the timers would have done until now.  No echo arrived meanwhile, so at most one slot can cut the rate."""
    mine = my_flow(dcqcn, flow)
    if not mine.started:
        return
    if mine.decrease_at <= node.now:
        if mine.decrease_echo:
            update_alpha(dcqcn, flow, mine.decrease_at)
            increase(dcqcn, flow, mine.decrease_at)
            decrease(dcqcn, flow)
        mine.decrease_at += ((node.now - mine.decrease_at) // dcqcn.decrease_interval + 1) * dcqcn.decrease_interval
    update_alpha(dcqcn, flow, node.now)
    increase(dcqcn, flow, node.now)


def power(base: float, n) -> float:
    """base ** n by repeated squaring: the same on every machine."""
    result = 1.0
    while n > 0:
        if n & 1:
            result *= base
        base *= base
        n >>= 1
    return result


def update_alpha(dcqcn, flow, until):
    """Apply the slots of alpha that end by `until`; only the first of them can have an echo."""
    mine = my_flow(dcqcn, flow)
    if mine.alpha_at > until:
        return
    slots = (until - mine.alpha_at) // dcqcn.alpha_interval + 1
    mine.alpha_at += slots * dcqcn.alpha_interval
    mine.alpha = (1 - dcqcn.g) * mine.alpha
    if mine.alpha_echo:
        mine.alpha += dcqcn.g
        mine.alpha_echo = 0
    if slots > 1:
        mine.alpha *= power(1 - dcqcn.g, slots - 1)


def increase(dcqcn, flow, until):
    """Apply the increases due by `until`: fast recovery, one additive increase, hyper increases."""
    mine = my_flow(dcqcn, flow)
    if mine.increase_at > until:
        return
    while mine.increase_at <= until:
        mine.increase_at += dcqcn.increase_interval
        if mine.stage == dcqcn.fast_recovery:
            mine.target += dcqcn.r_ai
        elif mine.stage > dcqcn.fast_recovery:
            mine.target += dcqcn.r_hai
        mine.target = min(mine.target, mine.line)
        mine.rate = (mine.rate + mine.target) / 2
        mine.stage += 1
    apply_rate(dcqcn, flow)


def decrease(dcqcn, flow):
    mine = my_flow(dcqcn, flow)
    mine.decrease_echo = 0
    if mine.stage > 0 or dcqcn.clamp_target:
        mine.target = mine.rate
    mine.rate = max(mine.rate * (1 - mine.alpha / 2), dcqcn.min_rate)
    mine.stage = 0
    mine.increase_at = mine.decrease_at + dcqcn.increase_interval
    apply_rate(dcqcn, flow)


# ---- Notification packets ----


def on_data(dcqcn, node, incoming, pkt):
    """The notification point."""
    if pkt.ecn:
        pkt.ecn = 0
        mine = my_incoming(dcqcn, incoming)
        if mine.cnp_due:
            if node.now >= mine.cnp_after - dcqcn.cnp_interval:
                mine.marked = 1
        else:
            notify_at(dcqcn, node, incoming, max(node.now, mine.cnp_after))
    return BY_DEFAULT


def notify_at(dcqcn, node, incoming, when):
    """Send a CNP that is due at `when`; the next one is due an interval later at the earliest."""
    mine = my_incoming(dcqcn, incoming)
    mine.cnp_after = when + dcqcn.cnp_interval
    mine.marked = 0
    if when + dcqcn.cnp_delay > node.now:
        mine.cnp_due = 1
        set_flow_timer(node, incoming, when + dcqcn.cnp_delay)
    else:
        notify(dcqcn, node, incoming)


def on_flow_timer(dcqcn, node, incoming):
    mine = my_incoming(dcqcn, incoming)
    mine.cnp_due = 0
    notify(dcqcn, node, incoming)
    if mine.marked:
        notify_at(dcqcn, node, incoming, mine.cnp_after)


def notify(dcqcn, node, incoming):
    frame = new_frame(node, dcqcn.at.kind, CNP)
    about_incoming(frame, incoming)
    if dcqcn.cnp_priority < 0:
        send_to_host(node, incoming.src, frame)
    else:
        frame.priority = dcqcn.cnp_priority
        send_with_data(node, incoming.src, frame)


def on_control(dcqcn, node, port, pkt):
    """The reaction point: a slot of the cuts and one of alpha end now, with an echo."""
    flow = flow_of(node, pkt)
    if not flow:
        return
    mine = my_flow(dcqcn, flow)
    if mine.started:
        catch_up(dcqcn, node, flow)
    else:
        begin(dcqcn, flow)
    mine.decrease_at = node.now
    decrease(dcqcn, flow)
    mine.alpha_at = node.now
    mine.alpha_echo = 1
    update_alpha(dcqcn, flow, mine.alpha_at)
