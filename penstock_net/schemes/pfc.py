"""Priority flow control (IEEE 802.1Qbb) on a shared buffer with dynamic thresholds: of whole links, or of up to eight priorities.

An ingress port may use `alpha` of the free shared buffer (HPCC section 5.1 and BFC section 6.2.1: 11 %).  Beyond that it pauses
the upstream port, and what still arrives is charged to its headroom; it resumes when its headroom is empty and its share is `xon`
below the threshold.  A packet is dropped only when the headroom is full too; it pauses as well, however small the headroom.  A
pause lasts until the resume; the state of a port is sent again every `refresh`, so that a lost frame does not stop it for ever.

With `priorities` above 1 each priority of flows has a queue at every egress and NIC, and at every ingress a group with its own
share, reserve, headroom, pauses. Those not in `lossless` have no headroom and pause nobody: beyond their share they are dropped.
A static threshold is a `reserve` with `alpha = 0`.

The `watchdog` of a switch (the one of SONiC; off by default) looks at ports that have packets and were paused without a break for
so long: such a port ignores pauses until none has come for `restoration`. Its neighbour drops what has no room; with `action`
"drop" the switch itself drops what waits there, and what comes meanwhile. With several priorities it looks at each queue, with
`poll` only at multiples of this time.
`storm_host` is a server whose NIC is stuck: from `storm_start` to `storm_until` its switch hears `storm_priorities` pause every
10 us, then a resume.  A port falls silent, or sends again, `response` after the frame came; of more than 64 commands that wait,
resumes that a pause follows at once are left out.

With `cell` a packet takes whole cells of the buffer: all shares and headrooms count them.  Headroom is then for packets of the
smallest size, or, with `small_packets`, for this share of them among full ones.  With `headroom_pool` the headrooms are limits,
and all of a switch together hold no more than the pool, which alone is set aside: "headroom pool full" is the reason of drops.
`rates` names rates of neighbours; `rate_alpha` and `rate_headroom` are for these in turn, `host_...` for ports to servers.
"""

title = "PFC"
structs = {
    "group": {  # a priority at a port: its ingress, and the watchdog of its egress
        "shared": "int64",
        "headroom": "int64",
        "headroom_size": "int64",
        "reserve": "int64",
        "late": "int64",  # bytes that may arrive while a pause waits behind a slow packet
        "alpha": "float64",
        "pausing": "int64",
        "obeyed_since": "time",
        "ignored_until": "time",  # 0: it obeys them
    },
    "need": {"lossless": "int64", "full_rate": "int64", "flows": "int32", "classes": "int32"},
    "told": {"next": "int32", "waiting": "int32"},  # a priority at an egress: the ring of its commands that wait
}
port_state = {"first": "group[1]", "others": "group[priorities - 1]", "buffer": "need[1]", "quiet": "int32"}
node_state = {
    "shared_used": "int64",
    "shared_size": "int64",
    "pool_used": "int64",
    "hungry": "int32",  # an ingress may pause that holds nothing
    "due": "time",  # of the first command that waits
    "told": "told[ports * priorities * (response > 0)]",
    "commands": "int64[ports * priorities * 64 * (response > 0)]",  # twice the time at which it takes effect, plus 1 for a pause
}
scheme_state = {"special": "int32"}
parameters = {
    "alpha": ("float64 0..128", 0.11, "share of the free buffer that one ingress may hold (BFC section 6.2.1)"),
    "xon": ("bytes", 3072, "resume this far below the threshold (reference simulator)"),
    "headroom": ("float64", 3.0, "headroom in rate x delay of the link (reference simulator); never less than what can arrive"),
    "reserve": ("bytes", 0, "buffer of each ingress that no other can use"),
    "refresh": ("time", "50us", "period in which the state of a port is sent again; 0 = never"),
    "senders": ("choice all edge", "all", "edge: only virtual switches pause, others drop what has no room (Backdraft table 3)"),
    "watchdog": ("time", 0, "a port with packets that is paused for so long ignores pauses (SONiC: 200 to 400 ms); 0 = never"),
    "restoration": ("time", "400ms", "until no pause has come for so long (SONiC: 200 ms to 2 s)"),
    "action": ("choice forward drop", "forward", "what the watchdog does with packets that wait and come (SONiC: drop)"),
    "poll": ("time", 0, "the watchdog looks at multiples of this time (SONiC: 100 ms to 1 s); 0 = at any time"),
    "storm_host": ("int32 -1..65535", -1, "a server whose NIC sends pauses without end; -1 = none"),
    "storm_start": ("time", 0, "from then on"),
    "storm_until": ("time", "1s", "and until then, when it resumes"),
    "storm_priorities": ("set 0..7", [0, 1, 2, 3, 4, 5, 6, 7], "the priorities that it pauses"),
    "priorities": ("int32 1..8", 1, "priorities of flows with pauses of their own; 1 = pauses stop the whole link"),
    "lossless": ("set 0..7", [0, 1, 2, 3, 4, 5, 6, 7], "priorities that pause; the others are dropped beyond their share"),
    "priority_alpha": ("float64[8] 0..128", [], "alpha of each priority, from 0 on; 0 or none given = alpha"),
    "priority_reserve": ("bytes[8]", [], "reserve of each priority, from 0 on; 0 or none given = reserve"),
    "headroom_bytes": ("bytes", 0, "headroom as configured in a switch, whatever its links need; 0 = by headroom"),
    "response": ("time 0..1e9", 0, "from a pause's arrival to the port's silence (2.1 to 2.3 us in headroom tables of switches)"),
    "cell": ("bytes 0..65536", 0, "a packet takes whole cells of the buffer (Spectrum-4: 192, Tomahawk 5: 254); 0 = its bytes"),
    "small_packets": ("float64 0..1", 1.0, "share of the bytes that come in the smallest packets, for headroom in cells"),
    "headroom_pool": ("bytes", 0, "what all headrooms of a switch may hold together; 0 = each has its own"),
    "lossless_mtu": ("bytes", 0, "largest packet, with its header, for which headroom is; 0 = the hosts' own"),
    "rates": ("rate[8]", [], "rates of neighbours with values of their own"),
    "rate_alpha": ("float64[8] 0..128", [], "alpha at each of these rates; 0 or none given = alpha"),
    "rate_headroom": ("bytes[8]", [], "headroom_bytes at each of these rates; 0 or none given = headroom_bytes"),
    "host_alpha": ("float64[8] 0..128", [], "alpha of ports to servers at each rate; 0 or none given = rate_alpha"),
    "host_headroom": ("bytes[8]", [], "headroom of ports to servers at each rate; 0 or none given = rate_headroom"),
}
presets = {"ns3": {"alpha": 0.125, "reserve": 4096}}
governs = {
    "storm_host": ["storm_start", "storm_until", "storm_priorities"],
    "rates": ["rate_alpha", "rate_headroom", "host_alpha", "host_headroom"],
    "watchdog": ["restoration", "action", "poll"],
}
fabric = {
    "lossless": "senders == 0 and watchdog == 0 and headroom_bytes == 0 and headroom_pool == 0 and lossless_mtu == 0"
    " and (cell == 0 or small_packets == 1) and rate_headroom == host_headroom == (0, 0, 0, 0, 0, 0, 0, 0)"
    " and (lossless + 1) % (2, 4, 8, 16, 32, 64, 128, 256)[priorities - 1] == 0",
    "priorities": "priorities * (priorities > 1)",
}

EDGE = 1  # senders
DROP = 1
STORM = 10000000  # period of a storm's pauses, ps
PERIODS = 64  # refreshes that still go out after a resume
WAITING = 64  # commands of a priority that may wait
RATES = 8


def set_up(pfc):
    pfc.special = 1 if pfc.senders == EDGE or pfc.priorities > 1 or pfc.cell > 0 or pfc.action == DROP else 0
    given = pfc.headroom_bytes + pfc.headroom_pool + pfc.lossless_mtu
    for i in range(RATES):
        given += pfc.rate_headroom[i] + pfc.host_headroom[i]
    pfc.special = 1 if given > 0 else pfc.special  # it may be less than a packet


def group_of(pfc, port, i) -> group:
    """The priority group of a port; the first one is all there is if whole links are paused."""
    mine = my_port(pfc, port)
    return first_at(mine, 0) if i == 0 else others_at(mine, i - 1)


def priority_of(pfc, pkt):
    return min(pkt.priority, pfc.priorities - 1)


def set_up_node(pfc, node):
    """Thresholds and headroom of each ingress."""
    mine = my_node(pfc, node)
    mine.shared_size = node.buffer_size
    if node.buffer_size == NEVER:
        mine.shared_size = bit(56)
    elif pfc.priorities > 1 or pfc.headroom_pool > 0:
        most = node.worker.world.quantum + node.worker.world.control
        mine.shared_size -= stored(pfc, most)  # an alpha above 1 may take so much more than what is free
    for slot in range(node.port_count):
        port = port_at(node, slot)
        size = headroom_of(pfc, node, port)
        if port.peer_node == pfc.storm_host:
            wake_by(node, pfc.at.index, max(pfc.storm_start, node.now))
        for i in range(pfc.priorities):
            group = group_of(pfc, port, i)
            group.alpha = pfc.priority_alpha[i] if pfc.priority_alpha[i] > 0 else alpha_of(pfc, node, port)
            group.reserve = pfc.priority_reserve[i] if pfc.priority_reserve[i] > 0 else pfc.reserve
            if node.buffer_size != NEVER:
                group.late = max(late_of(pfc, node, port), group.late)
                if pfc.lossless & 1 << i:
                    group.headroom_size = max(size, group.headroom_size)
                mine.shared_size -= group.headroom_size + group.reserve
                if pfc.headroom_pool > 0:
                    mine.shared_size += group.headroom_size
    if node.buffer_size != NEVER:
        mine.shared_size -= pfc.headroom_pool


def class_of(pfc, port):
    """The place of a neighbour's rate in `rates`; -1: it is not there."""
    rate = 8e12 / port.peer_ps_per_byte
    for i in range(RATES):
        if pfc.rates[i] > 0 and abs(rate - pfc.rates[i]) <= 1e-6 * rate:
            return i
    return -1


def is_edge(pfc, node, port):
    """Whether a port leads to a server."""
    if port.peer_node < pfc.at.world.host_count:
        return 1
    return 1 if node.tier == 1 and port.up < 0 else 0


def alpha_of(pfc, node, port) -> float:
    i = class_of(pfc, port)
    if i >= 0 and pfc.host_alpha[i] > 0 and is_edge(pfc, node, port):
        return pfc.host_alpha[i]
    if i >= 0 and pfc.rate_alpha[i] > 0:
        return pfc.rate_alpha[i]
    return pfc.alpha


def configured(pfc, node, port):
    """The headroom that a port is given whatever it needs; 0: none."""
    i = class_of(pfc, port)
    if i >= 0 and pfc.host_headroom[i] > 0 and is_edge(pfc, node, port):
        return pfc.host_headroom[i]
    if i >= 0 and pfc.rate_headroom[i] > 0:
        return pfc.rate_headroom[i]
    return pfc.headroom_bytes


def stored(pfc, size):
    """What a packet takes of the buffer."""
    if pfc.cell == 0:
        return size
    return (size + pfc.cell - 1) // pfc.cell * pfc.cell


def in_cells(pfc, size, full):
    """What so many bytes of packets may take: of the smallest ones, or of those a byte above whole cells, and of full ones."""
    if pfc.cell == 0:
        return size
    world = pfc.at.world
    smallest = min(world.header + 1, world.control)
    if world.ack_lane:
        smallest = min(smallest, world.ack_min)
    cells = (smallest + pfc.cell - 2) // pfc.cell
    worst = max(stored(pfc, smallest) / float(smallest), (cells + 1) * pfc.cell / float(cells * pfc.cell + 1))
    return ceil(size * (pfc.small_packets * worst + (1 - pfc.small_packets) * stored(pfc, full) / float(full)))


def headroom_of(pfc, node, port):
    """Headroom of a priority: at least what can arrive after the decision, at the highest rate of the neighbour so far.

    That is two delays of the link, the response time, three frames, and what comes while pauses of other priorities go first; in
    cells, if these are counted.  As much but a frame is to be stored `xon` below the threshold, or the link idles after a resume.
    """
    need = buffer_at(my_port(pfc, port), 0)
    control = pfc.at.world.control
    frame = (pfc.lossless_mtu if pfc.lossless_mtu > 0 else pfc.at.world.quantum) + control
    bdp = whole(port.delay / port.peer_ps_per_byte) + 1
    answer = whole(pfc.response / port.peer_ps_per_byte) + 1 if pfc.response > 0 else 0
    most = 2 * bdp + answer + 3 * frame + control * (pfc.priorities - 1)
    need.lossless = max(in_cells(pfc, most, frame - control), need.lossless)
    need.full_rate = max(need.lossless + pfc.xon + in_cells(pfc, most - frame, frame - control), need.full_rate)
    need.flows = 1
    need.classes = bits_set(pfc.lossless & (bit(pfc.priorities) - 1))
    if configured(pfc, node, port) > 0:
        return configured(pfc, node, port)
    return max(whole(pfc.headroom * bdp), need.lossless)


def late_of(pfc, node, port):
    """What can arrive while a pause waits behind a packet, where this direction of the link is slower than the other one.

    It is no headroom, which would take from what others may have: such an ingress pauses so much earlier, then uses what is free.
    """
    quantum = pfc.at.world.quantum
    frame = quantum + pfc.at.world.control
    return in_cells(pfc, frame * max(whole(port.ps_per_byte / port.peer_ps_per_byte) - 1, 0), quantum)


def threshold(pfc, node, group):
    mine = my_node(pfc, node)
    return max(whole(group.alpha * max(mine.shared_size - mine.shared_used, 0)) - group.late, 0)


def admit(pfc, node, port, pkt):
    """Charge a packet to its ingress: its reserve and share of the buffer, or its headroom; pause beyond the threshold."""
    group = first_at(my_port(pfc, port_at(node, pkt.in_port)), 0)
    size = pkt.size
    if pfc.special:
        if pfc.senders == EDGE and node.tier > 0:
            return ADMITTED
        if pfc.action == DROP and node.now < group_of(pfc, port, priority_of(pfc, pkt)).ignored_until:
            return DROPPED
        group = group_of(pfc, port_at(node, pkt.in_port), priority_of(pfc, pkt))
        size = stored(pfc, pkt.size)
    if group.shared + size <= group.reserve + threshold(pfc, node, group) and group.headroom == 0:
        charge(pfc, node, group, size)
    elif group.headroom + size <= group.headroom_size:
        if not take(pfc, node, size):
            spare(pfc, node, group, pkt)
            return NO_HEADROOM
        group.headroom += size
    elif not lend(pfc, node, group, size):
        spare(pfc, node, group, pkt)
        return DROPPED
    if not group.pausing:
        if group.headroom > 0 or group.shared >= group.reserve + threshold(pfc, node, group):
            pause(pfc, node, pkt)
    return ADMITTED


def take(pfc, node, size):
    """Take bytes of the pool of headroom, if there is one; whether it had them."""
    mine = my_node(pfc, node)
    if pfc.headroom_pool > 0 and mine.pool_used + size > pfc.headroom_pool:
        return 0
    mine.pool_used += size
    return 1


def lend(pfc, node, group, size):
    """Take a packet beyond the headroom, which came because the pause was late, into what is free; whether there was room."""
    mine = my_node(pfc, node)
    held = group.headroom + size - group.headroom_size
    if not group.pausing or held > group.late or mine.shared_used + size > mine.shared_size:
        return 0
    if not take(pfc, node, size - min(held, size)):
        return 0
    mine.shared_used += min(held, size)
    group.headroom += size
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


def spare(pfc, node, group, pkt):
    """A packet is dropped: pause before more are, unless nothing is stored that could leave and make room."""
    mine = my_node(pfc, node)
    if not group.pausing and mine.shared_used + mine.pool_used + group.shared > 0:
        pause(pfc, node, pkt)
        mine.hungry = 1


def feed(pfc, node):
    """Resume ingresses that hold nothing, once a full packet of theirs has room, or no more can be made."""
    mine = my_node(pfc, node)
    mine.hungry = 0
    for slot in range(node.port_count):
        for i in range(pfc.priorities):
            group = group_of(pfc, port_at(node, slot), i)
            if group.pausing and group.shared + group.headroom == 0:
                full = stored(pfc, node.worker.world.quantum)
                if full <= group.reserve + threshold(pfc, node, group) or mine.shared_used + mine.pool_used == 0:
                    group.pausing = 0
                    send_control(node, slot, pfc.at.kind, RESUME, 1 << i, 0)
                else:
                    mine.hungry = 1


def charge(pfc, node, group, size):
    """Add to (or take from) what a priority group holds of its reserve and of the shared buffer."""
    mine = my_node(pfc, node)
    before = max(group.shared - group.reserve, 0)
    group.shared += size
    mine.shared_used += max(group.shared - group.reserve, 0) - before


def give_back(pfc, node, group, size):
    """Credit a departing packet to the headroom, first to what was lent; the bytes of it that were there."""
    mine = my_node(pfc, node)
    from_headroom = min(group.headroom, size)
    mine.pool_used -= from_headroom
    if group.headroom > group.headroom_size:
        lent = min(group.headroom - group.headroom_size, from_headroom)
        mine.shared_used -= lent
        mine.pool_used += lent
    group.headroom -= from_headroom
    return from_headroom


def on_dequeue(pfc, node, port, queue, pkt):
    """A departing packet is credited to the headroom first."""
    group = first_at(my_port(pfc, port_at(node, pkt.in_port)), 0)
    size = pkt.size
    hungry = 0
    if pfc.special:
        if pfc.senders == EDGE and node.tier > 0:
            return
        hungry = my_node(pfc, node).hungry
        group = group_of(pfc, port_at(node, pkt.in_port), priority_of(pfc, pkt))
        size = stored(pfc, pkt.size)
    if group.headroom > 0:
        size -= give_back(pfc, node, group, size)
    charge(pfc, node, group, -size)
    if group.pausing and group.headroom == 0:
        if group.shared == 0 or group.shared + pfc.xon <= group.reserve + threshold(pfc, node, group):
            group.pausing = 0
            send_control(node, pkt.in_port, pfc.at.kind, RESUME, 1 << priority_of(pfc, pkt), 0)
    if hungry:
        feed(pfc, node)


def on_control(pfc, node, port, pkt):
    """A frame names priorities, one bit each: those to pause or to resume; a refresh those that are paused, of all."""
    named = value_of(pkt)
    for i in range(pfc.priorities):
        if named & 1 << i and command_of(pkt) != RESUME:
            heed(pfc, node, port, i, 1)
        elif named & 1 << i or command_of(pkt) == REFRESH:
            heed(pfc, node, port, i, 0)


def heed(pfc, node, port, i, pausing):
    """A command for a priority of an egress has arrived."""
    if pfc.response > 0:
        postpone(pfc, node, port, i, pausing)
    else:
        follow(pfc, node, port, i, pausing)


def follow(pfc, node, port, i, pausing):
    """It takes effect."""
    if not pausing:
        restart(pfc, node, port, i)
    elif pfc.watchdog and not node.is_host:
        obey(pfc, node, port, i)
    else:
        stop(pfc, node, port, i)


def command_at(pfc, node, ring, k):
    """The k-th command that waits in a ring, that of a port and priority."""
    mine = my_node(pfc, node)
    return mine.commands[ring * WAITING + (told_at(mine, ring).next + k) % WAITING]


def will_be_stopped(pfc, node, port, i):
    """What a priority of an egress will be once all commands have taken effect."""
    ring = port.slot * pfc.priorities + i
    count = told_at(my_node(pfc, node), ring).waiting
    if count == 0:
        return 1 if is_stopped(pfc, port, i) else 0
    return command_at(pfc, node, ring, count - 1) & 1


def postpone(pfc, node, port, i, pausing):
    """Keep a command until the response time is over, if it changes something or a watchdog has to know of it."""
    if will_be_stopped(pfc, node, port, i) == pausing and not (pausing and pfc.watchdog):
        return
    mine = my_node(pfc, node)
    ring = port.slot * pfc.priorities + i
    told = told_at(mine, ring)
    if told.waiting == WAITING:
        if not pausing:
            told.waiting -= 1
        while told.waiting > 0 and not will_be_stopped(pfc, node, port, i):
            told.waiting -= 1
    due = node.now + pfc.response
    mine.commands[ring * WAITING + (told.next + told.waiting) % WAITING] = 2 * due + pausing
    told.waiting += 1
    mine.due = min(mine.due, due)
    wake_by(node, pfc.at.index, due)


def follow_due(pfc, node):
    """All commands whose time has come take effect, those of a priority in the order of their arrival."""
    mine = my_node(pfc, node)
    if node.now >= mine.due:
        mine.due = NEVER
        for slot in range(node.port_count):
            for i in range(pfc.priorities):
                mine.due = min(mine.due, follow_one(pfc, node, port_at(node, slot), i))
    wake_by(node, pfc.at.index, mine.due)


def follow_one(pfc, node, port, i):
    """The commands for one priority; when the next one is due."""
    ring = port.slot * pfc.priorities + i
    told = told_at(my_node(pfc, node), ring)
    while told.waiting > 0:
        command = command_at(pfc, node, ring, 0)
        if command // 2 > node.now:
            return command // 2
        told.next = (told.next + 1) % WAITING
        told.waiting -= 1
        follow(pfc, node, port, i, command & 1)
    return NEVER


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
    look_by(pfc, node, max(egress.obeyed_since + pfc.watchdog, node.now))


def look_by(pfc, node, when):
    """The watchdog looks at all egresses at a time, or at the first poll that is not before it."""
    if pfc.poll > 0:
        when = (when + pfc.poll - 1) // pfc.poll * pfc.poll
    wake_by(node, pfc.at.index, when)


def on_timer(pfc, node):
    if pfc.response > 0:
        follow_due(pfc, node)
    if node.is_host:
        return
    if pfc.storm_host >= 0:
        storm(pfc, node)
    if pfc.watchdog:
        look_at_all(pfc, node)
    if pfc.refresh:
        send_states(pfc, node)


def storm(pfc, node):
    """The pauses of a stuck NIC as its switch hears them, and the resume at the end."""
    if node.now > pfc.storm_until:
        return
    pausing = 1 if node.now < pfc.storm_until else 0
    again = pfc.storm_start if node.now < pfc.storm_start else min(node.now + STORM, pfc.storm_until)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        if port.peer_node == pfc.storm_host:
            if pausing:
                wake_by(node, pfc.at.index, again)
            for i in range(pfc.priorities):
                if node.now >= pfc.storm_start and pfc.storm_priorities & 1 << i:
                    heed(pfc, node, port, i, pausing)


def look_at_all(pfc, node):
    if pfc.poll > 0 and node.now % pfc.poll != 0:
        look_by(pfc, node, node.now)
        return
    for slot in range(node.port_count):
        for i in range(pfc.priorities):
            look_at(pfc, node, port_at(node, slot), i)


def look_at(pfc, node, port, i):
    """An egress that has had packets, and been paused, for the detection time sends again, and ignores pauses for a while."""
    egress = group_of(pfc, port, i)
    if egress.ignored_until > 0:
        if node.now < egress.ignored_until:
            look_by(pfc, node, egress.ignored_until)
            return
        egress.ignored_until = 0
        port.restored += 1
    if not is_stopped(pfc, port, i):
        return
    if waiting(pfc, port, i) == 0:
        egress.obeyed_since = node.now
    if node.now - egress.obeyed_since >= pfc.watchdog:
        egress.ignored_until = node.now + pfc.restoration
        port.storms += 1
        if pfc.action == DROP:
            empty(pfc, node, port, i)
        restart(pfc, node, port, i)
        look_by(pfc, node, egress.ignored_until)
    else:
        look_by(pfc, node, egress.obeyed_since + pfc.watchdog)


def empty(pfc, node, port, i):
    """Drop what waits at an egress."""
    for index in range(port.queue_count):
        if pfc.priorities == 1 or index == i:
            discard(node, port, queue_at(port, index))


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
