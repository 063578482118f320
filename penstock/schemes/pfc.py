"""Priority flow control (IEEE 802.1Qbb) on a shared buffer with dynamic thresholds, one lossless class.

An ingress port may use `alpha` of the free shared buffer (HPCC section 5.1 and BFC section 6.2.1: 11 %).  Beyond that it pauses
the upstream port, and what still arrives is charged to its headroom; it resumes when its headroom is empty and its share is `xon`
below the threshold.  A packet is dropped only when the headroom is full too.  A pause lasts until the resume; the state of a port
is sent again every `refresh`, so that a lost frame does not stop a port for ever.

The `watchdog` of a switch (the one of SONiC with action "forward"; off by default) looks at ports that have packets and were
paused without a break for so long: such a port ignores pauses until none has come for `restoration`. Its neighbour drops what has
no room.
"""

title = "PFC"
port_state = {
    "shared": "int64",
    "headroom": "int64",
    "headroom_size": "int64",
    "line": "int64",
    "pausing": "int32",
    "quiet": "int32",
    "obeyed_since": "time",
    "ignored_until": "time",
}
node_state = {"shared_used": "int64", "shared_size": "int64"}
parameters = {
    "alpha": ("float64 0..16", 0.11, "share of the free buffer that one ingress may hold (BFC section 6.2.1)"),
    "xon": ("bytes", 3072, "resume this far below the threshold (reference simulator)"),
    "headroom": ("float64", 3.0, "headroom in rate x delay of the link (reference simulator); never less than what can arrive"),
    "reserve": ("bytes", 0, "buffer of each ingress that no other can use"),
    "refresh": ("time", "50us", "period in which the state of a port is sent again; 0 = never"),
    "senders": ("choice all edge", "all", "edge: only virtual switches pause, others drop what has no room (Backdraft table 3)"),
    "watchdog": (
        "time",
        0,
        "a switch's port with packets that is paused for so long ignores pauses (SONiC: 200 to 400 ms); 0 = never",
    ),
    "restoration": ("time", "400ms", "until no pause has come for so long (SONiC: 200 ms to 2 s)"),
}
presets = {"ns3": {"alpha": 0.125, "reserve": 4096}}
fabric = {"lossless": "senders == 0 and watchdog == 0"}

EDGE = 1  # senders
PERIODS = 64  # refreshes that still go out after a resume


def set_up_node(pfc, node):
    """Headroom of each ingress.  It grows if a link gets slower: if only this direction does, a pause waits for a slow packet."""
    mine = my_node(pfc, node)
    frame = node.worker.world.quantum + 64
    mine.shared_size = node.buffer_size
    if node.buffer_size == NEVER:
        mine.shared_size = bit(56)
        return
    for slot in range(node.port_count):
        port = port_at(node, slot)
        ingress = my_port(pfc, port)
        if ingress.line == 0 or port.ps_per_byte < ingress.line:
            ingress.line = port.ps_per_byte
        bdp = port.delay // ingress.line + 1
        size = max(whole(pfc.headroom * bdp), 2 * bdp + 3 * frame) + frame * (port.ps_per_byte // ingress.line - 1)
        size = max(size, ingress.headroom_size)
        ingress.headroom_size = size
        mine.shared_size -= size + pfc.reserve


def threshold(pfc, node):
    mine = my_node(pfc, node)
    return whole(pfc.alpha * max(mine.shared_size - mine.shared_used, 0))


def admit(pfc, node, port, pkt):
    """Charge a packet to its ingress: its reserve and share of the buffer, or its headroom; pause beyond the threshold."""
    if pfc.senders == EDGE and node.tier > 0:
        return 1
    ingress = my_port(pfc, port_at(node, pkt.in_port))
    if ingress.shared + pkt.size <= pfc.reserve + threshold(pfc, node) and ingress.headroom == 0:
        charge(pfc, node, port_at(node, pkt.in_port), pkt.size)
    elif ingress.headroom + pkt.size <= ingress.headroom_size:
        ingress.headroom += pkt.size
    else:
        return 0
    if not ingress.pausing:
        if ingress.headroom > 0 or ingress.shared >= pfc.reserve + threshold(pfc, node):
            pause(pfc, node, pkt.in_port)
    return 1


def pause(pfc, node, slot):
    ingress = my_port(pfc, port_at(node, slot))
    ingress.pausing = 1
    ingress.quiet = PERIODS
    send_control(node, slot, pfc.at.kind, PAUSE, 0, 0)
    if pfc.refresh:
        wake_by(node, pfc.at.index, (node.now // pfc.refresh + 1) * pfc.refresh)


def charge(pfc, node, port, size):
    """Add to (or take from) what an ingress port holds of its reserve and of the shared buffer."""
    mine = my_node(pfc, node)
    ingress = my_port(pfc, port)
    before = max(ingress.shared - pfc.reserve, 0)
    ingress.shared += size
    mine.shared_used += max(ingress.shared - pfc.reserve, 0) - before


def on_dequeue(pfc, node, port, queue, pkt):
    """A departing packet is credited to the headroom first."""
    if pfc.senders == EDGE and node.tier > 0:
        return
    ingress = my_port(pfc, port_at(node, pkt.in_port))
    from_headroom = min(ingress.headroom, pkt.size)
    ingress.headroom -= from_headroom
    charge(pfc, node, port_at(node, pkt.in_port), from_headroom - pkt.size)
    if ingress.pausing and ingress.headroom == 0:
        if ingress.shared == 0 or ingress.shared + pfc.xon <= pfc.reserve + threshold(pfc, node):
            ingress.pausing = 0
            send_control(node, pkt.in_port, pfc.at.kind, RESUME, 0, 0)


def on_control(pfc, node, port, pkt):
    if command_of(pkt) != PAUSE and (command_of(pkt) != REFRESH or not value_of(pkt)):
        resume_port(node, port, pfc.at.bit)
    elif pfc.watchdog and not node.is_host:
        obey(pfc, node, port)
    else:
        pause_port(node, port, pfc.at.bit)


def obey(pfc, node, port):
    """Pause a port that the watchdog looks at, unless it ignores pauses."""
    egress = my_port(pfc, port)
    if node.now < egress.ignored_until:
        egress.ignored_until = node.now + pfc.restoration
        return
    if not port.paused & pfc.at.bit:
        egress.obeyed_since = node.now
    pause_port(node, port, pfc.at.bit)
    wake_by(node, pfc.at.index, max(egress.obeyed_since + pfc.watchdog, node.now))


def on_timer(pfc, node):
    if pfc.watchdog:
        look_at_paused(pfc, node)
    if pfc.refresh:
        send_states(pfc, node)


def look_at_paused(pfc, node):
    """Ports that have had packets, and been paused, for the detection time send again and ignore pauses."""
    for slot in range(node.port_count):
        port = port_at(node, slot)
        egress = my_port(pfc, port)
        if port.paused & pfc.at.bit:
            if port.bytes == 0:
                egress.obeyed_since = node.now
            if node.now - egress.obeyed_since >= pfc.watchdog:
                egress.ignored_until = node.now + pfc.restoration
                resume_port(node, port, pfc.at.bit)
            else:
                wake_by(node, pfc.at.index, egress.obeyed_since + pfc.watchdog)


def send_states(pfc, node):
    """At multiples of the period: the state of each port that pauses its neighbour, or has done so recently."""
    due = node.now // pfc.refresh * pfc.refresh
    again = 0
    for slot in range(node.port_count):
        ingress = my_port(pfc, port_at(node, slot))
        if ingress.pausing:
            ingress.quiet = PERIODS
        if ingress.quiet > 0:
            again = 1
            if node.now == due:
                ingress.quiet -= 1
                send_control(node, slot, pfc.at.kind, REFRESH, ingress.pausing, 0)
    if again:
        wake_by(node, pfc.at.index, (node.now // pfc.refresh + 1) * pfc.refresh)
