"""Priority flow control (IEEE 802.1Qbb) on a shared buffer with dynamic thresholds: of whole links, or of up to eight priorities.

An ingress port may use `alpha` of the free shared buffer (HPCC section 5.1 and BFC section 6.2.1: 11 %).  Beyond that it pauses
the upstream port, and what still arrives is charged to its headroom; it resumes when its headroom is empty and its share is `xon`
below the threshold.  A packet is dropped only when the headroom is full too.  A pause lasts until the resume; the state of a port
is sent again every `refresh`, so that a lost frame does not stop a port for ever.

With `priorities` above 1 each priority of flows has a queue at every egress and NIC, and at every ingress a priority group:
its own share, reserve, headroom and pauses. Those that are not in `lossless` have no headroom and pause nobody: beyond their
share they are dropped. A static threshold is a `reserve` with `alpha = 0`.

The `watchdog` of a switch (the one of SONiC with action "forward"; off by default) looks at ports that have packets and were
paused without a break for so long: such a port ignores pauses until none has come for `restoration`. Its neighbour drops what has
no room. With several priorities it looks at each queue.
"""

title = "PFC"
structs = {
    "group": {  # a priority at a port: its ingress, and the watchdog of its egress
        "shared": "int64",
        "headroom": "int64",
        "headroom_size": "int64",
        "reserve": "int64",
        "alpha": "float64",
        "pausing": "int64",
        "obeyed_since": "time",
        "ignored_until": "time",
    }
}
port_state = {"first": "group[1]", "others": "group[priorities - 1]", "line": "int64", "quiet": "int32"}
node_state = {"shared_used": "int64", "shared_size": "int64"}
scheme_state = {"special": "int32"}
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
    "priorities": ("int32 1..8", 1, "priorities of flows with pauses of their own; 1 = pauses stop the whole link"),
    "lossless": ("set 0..7", [0, 1, 2, 3, 4, 5, 6, 7], "priorities that pause; the others are dropped beyond their share"),
    "priority_alpha": ("float64[8] 0..16", [], "alpha of each priority, from 0 on; 0 or none given = alpha"),
    "priority_reserve": ("bytes[8]", [], "reserve of each priority, from 0 on; 0 or none given = reserve"),
    "headroom_bytes": ("bytes", 0, "headroom as configured in a switch, whatever its links need; 0 = by headroom"),
}
presets = {"ns3": {"alpha": 0.125, "reserve": 4096}}
fabric = {
    "lossless": "senders == 0 and watchdog == 0 and headroom_bytes == 0"
    " and (lossless + 1) % (2, 4, 8, 16, 32, 64, 128, 256)[priorities - 1] == 0",
    "priorities": "priorities * (priorities > 1)",
}

EDGE = 1  # senders
PERIODS = 64  # refreshes that still go out after a resume
FRAME = 64  # bytes of a pause


def set_up(pfc):
    pfc.special = 1 if pfc.senders == EDGE or pfc.priorities > 1 else 0


def group_of(pfc, port, i) -> group:
    """The priority group of a port; the first one is all there is if whole links are paused."""
    mine = my_port(pfc, port)
    if i == 0:
        return first_at(mine, 0)
    return others_at(mine, i - 1)


def priority_of(pfc, pkt):
    return min(pkt.priority, pfc.priorities - 1)


def set_up_node(pfc, node):
    """Thresholds and headroom of each ingress."""
    mine = my_node(pfc, node)
    mine.shared_size = node.buffer_size
    if node.buffer_size == NEVER:
        mine.shared_size = bit(56)
    elif pfc.priorities > 1:
        mine.shared_size -= node.worker.world.quantum + FRAME  # an alpha above 1 may take so much more than what is free
    for slot in range(node.port_count):
        port = port_at(node, slot)
        size = headroom_of(pfc, node, port)
        for i in range(pfc.priorities):
            group = group_of(pfc, port, i)
            group.alpha = pfc.priority_alpha[i] if pfc.priority_alpha[i] > 0 else pfc.alpha
            group.reserve = pfc.priority_reserve[i] if pfc.priority_reserve[i] > 0 else pfc.reserve
            if node.buffer_size != NEVER:
                if pfc.lossless & 1 << i:
                    group.headroom_size = max(size, group.headroom_size)
                mine.shared_size -= group.headroom_size + group.reserve


def headroom_of(pfc, node, port):
    """Headroom of a priority.  It grows if a link gets slower: if only this direction does, a pause waits for a slow packet.

    What can arrive after the decision: two delays, three frames, and what is sent while pauses of other priorities go first.
    """
    if pfc.headroom_bytes > 0:
        return pfc.headroom_bytes
    ingress = my_port(pfc, port)
    frame = node.worker.world.quantum + FRAME
    if ingress.line == 0 or port.ps_per_byte < ingress.line:
        ingress.line = port.ps_per_byte
    bdp = port.delay // ingress.line + 1
    size = max(whole(pfc.headroom * bdp), 2 * bdp + 3 * frame + FRAME * (pfc.priorities - 1))
    return size + frame * (port.ps_per_byte // ingress.line - 1)


def threshold(pfc, node, group):
    mine = my_node(pfc, node)
    return whole(group.alpha * max(mine.shared_size - mine.shared_used, 0))


def admit(pfc, node, port, pkt):
    """Charge a packet to its ingress: its reserve and share of the buffer, or its headroom; pause beyond the threshold."""
    group = first_at(my_port(pfc, port_at(node, pkt.in_port)), 0)
    if pfc.special:
        if pfc.senders == EDGE and node.tier > 0:
            return 1
        group = group_of(pfc, port_at(node, pkt.in_port), priority_of(pfc, pkt))
    if group.shared + pkt.size <= group.reserve + threshold(pfc, node, group) and group.headroom == 0:
        charge(pfc, node, group, pkt.size)
    elif group.headroom + pkt.size <= group.headroom_size:
        group.headroom += pkt.size
    else:
        return 0
    if not group.pausing:
        if group.headroom > 0 or group.shared >= group.reserve + threshold(pfc, node, group):
            pause(pfc, node, pkt)
    return 1


def pause(pfc, node, pkt):
    """Pause the priority of a packet at the neighbour that sent it, if it is lossless."""
    i = priority_of(pfc, pkt)
    slot = pkt.in_port
    if not pfc.lossless & 1 << i:
        return
    group_of(pfc, port_at(node, slot), i).pausing = 1
    my_port(pfc, port_at(node, slot)).quiet = PERIODS
    send_control(node, slot, pfc.at.kind, PAUSE, 1 << i, 0)
    if pfc.refresh:
        wake_by(node, pfc.at.index, (node.now // pfc.refresh + 1) * pfc.refresh)


def charge(pfc, node, group, size):
    """Add to (or take from) what a priority group holds of its reserve and of the shared buffer."""
    mine = my_node(pfc, node)
    before = max(group.shared - group.reserve, 0)
    group.shared += size
    mine.shared_used += max(group.shared - group.reserve, 0) - before


def on_dequeue(pfc, node, port, queue, pkt):
    """A departing packet is credited to the headroom first."""
    group = first_at(my_port(pfc, port_at(node, pkt.in_port)), 0)
    if pfc.special:
        if pfc.senders == EDGE and node.tier > 0:
            return
        group = group_of(pfc, port_at(node, pkt.in_port), priority_of(pfc, pkt))
    from_headroom = min(group.headroom, pkt.size)
    group.headroom -= from_headroom
    charge(pfc, node, group, from_headroom - pkt.size)
    if group.pausing and group.headroom == 0:
        if group.shared == 0 or group.shared + pfc.xon <= group.reserve + threshold(pfc, node, group):
            group.pausing = 0
            send_control(node, pkt.in_port, pfc.at.kind, RESUME, 1 << priority_of(pfc, pkt), 0)


def on_control(pfc, node, port, pkt):
    """A frame names priorities, one bit each: those to pause or to resume; a refresh those that are paused, of all."""
    named = value_of(pkt)
    for i in range(pfc.priorities):
        if named & 1 << i and command_of(pkt) != RESUME:
            if pfc.watchdog and not node.is_host:
                obey(pfc, node, port, i)
            else:
                stop(pfc, node, port, i)
        elif named & 1 << i or command_of(pkt) == REFRESH:
            restart(pfc, node, port, i)


def stop(pfc, node, port, i):
    """An egress sends nothing more of a priority, or nothing at all."""
    if pfc.priorities == 1:
        pause_port(node, port, pfc.at.bit)
    else:
        pause_queue(node, port, i, pfc.at.bit)


def restart(pfc, node, port, i):
    if pfc.priorities == 1:
        resume_port(node, port, pfc.at.bit)
    else:
        resume_queue(node, port, i, pfc.at.bit)


def is_stopped(pfc, port, i):
    if pfc.priorities == 1:
        return port.paused & pfc.at.bit
    return queue_at(port, i).paused & pfc.at.bit


def waiting(pfc, port, i):
    """Bytes of a priority that wait at an egress."""
    if pfc.priorities == 1:
        return port.bytes
    return queue_at(port, i).bytes


def obey(pfc, node, port, i):
    """Pause an egress that the watchdog looks at, unless it ignores pauses."""
    egress = group_of(pfc, port, i)
    if node.now < egress.ignored_until:
        egress.ignored_until = node.now + pfc.restoration
        return
    if not is_stopped(pfc, port, i):
        egress.obeyed_since = node.now
    stop(pfc, node, port, i)
    wake_by(node, pfc.at.index, max(egress.obeyed_since + pfc.watchdog, node.now))


def on_timer(pfc, node):
    if pfc.watchdog:
        for slot in range(node.port_count):
            for i in range(pfc.priorities):
                look_at(pfc, node, port_at(node, slot), i)
    if pfc.refresh:
        send_states(pfc, node)


def look_at(pfc, node, port, i):
    """An egress that has had packets, and been paused, for the detection time sends again and ignores pauses."""
    if not is_stopped(pfc, port, i):
        return
    egress = group_of(pfc, port, i)
    if waiting(pfc, port, i) == 0:
        egress.obeyed_since = node.now
    if node.now - egress.obeyed_since >= pfc.watchdog:
        egress.ignored_until = node.now + pfc.restoration
        restart(pfc, node, port, i)
    else:
        wake_by(node, pfc.at.index, egress.obeyed_since + pfc.watchdog)


def paused_by(pfc, port):
    """The priorities that an ingress pauses, one bit each."""
    found = 0
    for i in range(pfc.priorities):
        if group_of(pfc, port, i).pausing:
            found |= 1 << i
    return found


def send_states(pfc, node):
    """At multiples of the period: the state of each port that pauses its neighbour, or has done so recently."""
    due = node.now // pfc.refresh * pfc.refresh
    again = 0
    for slot in range(node.port_count):
        ingress = my_port(pfc, port_at(node, slot))
        paused = paused_by(pfc, port_at(node, slot))
        if paused:
            ingress.quiet = PERIODS
        if ingress.quiet > 0:
            again = 1
            if node.now == due:
                ingress.quiet -= 1
                send_control(node, slot, pfc.at.kind, REFRESH, paused, 0)
    if again:
        wake_by(node, pfc.at.index, (node.now // pfc.refresh + 1) * pfc.refresh)
