"""Credit-based flow control of links (CBFC; Ultra Ethernet specification 1.0, section 5.2, as OCP's SAI documents quote it).

Every ingress has a buffer of its own for each virtual channel, of `limit` credits.  A packet of s bytes takes
ceil((s + overhead) / credit) of them, and leaves only if the neighbour has these free: nothing is sent that has no place, so
nothing is paused, dropped, or kept for what comes late.  The sender counts the credits that it has consumed, CC, and knows how
many have been freed, CF; the receiver counts RCC as packets come, and RCF once their last bit has left it, at hosts at once.

* CF_Update, 8 B for each channel whose count has changed: RCF, at most one in `cf_spacing` bytes of the line.  It is sent again
  after `cf_refresh`, a few times if nothing changes, as it may have been lost
* CC_Update, a control frame, at multiples of `cc_timer` while credits are out: CC.  What the receiver has counted less was lost
  on the wire with its packets, so that much is freed

Counters have 20 bits, and wrap.  With `vcs` above 1 each priority of flows is a channel, with a queue at every egress and NIC, or
each class of links where a part such as valiant chooses queues by these; else a link is one channel.  `pool` credits of a
link are for all its channels, beside their own: at most `pool_most` for one, or `pool_share` of what is free of them, as a power
of two.  `port_limit` is a limit of all channels together.

The default limit is what a channel needs to have its link for itself: packets for two delays of the link, the time of one on the
line, that of another one which a switch sends on, and the spacing.  Buffers that are less than all of their credits are refused.
Limits stay what they are when links change their rate.  A sender knows no packet of a NIC before it is sent, nor which one is
next on a link that is one channel: then it waits until a full packet fits.
"""

title = "CBFC"
structs = {
    "need": {"lossless": "int64", "full_rate": "int64", "flows": "int32", "classes": "int32"},
    "channel": {  # of a port: its egress, then its ingress
        "consumed": "int64",
        "freed": "int64",
        "limit": "int64",
        "stored": "int64",
        "gone": "int64",
        "told": "int64",
    },
    "end": {  # of a link
        "due": "time",  # of the next CF_Update
        "earliest": "time",
        "spacing": "time",
        "refresh": "time",
        "again": "int32",  # times that it is sent without a change
        "first": "int32",  # of the egresses that are sending a packet from this ingress, plus one; 0: none
        "next": "int32",  # here as an egress: the next one of these
        "from_slot": "int32",  # the ingress of the packet that it is sending, plus one; 0: it is not
        "credits": "int32",
        "vc": "int32",
        "until": "time",
    },
}
packet_state = {"credits": "int16", "vc": "int16"}
frame_state = {"counts": "int64[8]"}
port_state = {"buffer": "need[1]"}
node_state = {
    "channels": "channel[ports * vcs]",
    "ends": "end[ports]",
    "agenda": "time[4 * ports]",  # a tournament of when CF_Updates are due: agenda[leaves + slot]; agenda[1] is the earliest
    "leaves": "int32",  # 0: nothing is set up
    "extra": "int32",  # what packets have beside their header and payload
    "cc_due": "time",
    "reserved": "int64",  # bytes of the buffer
    "lacking": "int64",  # credits of a full packet, if a channel can never have them
}
parameters = {
    "vcs": ("int32 1..8", 1, "virtual channels: priorities of flows with credits of their own; 1 = a link is one"),
    "credit": (
        "bytes 32..65536",
        128,
        "bytes of a credit (128 B, or the largest that the sender supports and the receiver's cell)",
    ),
    "overhead": ("int32 -16..127", 0, "bytes counted for each packet beside its own"),
    "limit": ("int32 0..1048575", 0, "credits of each channel; 0 = what it needs for the rate of its link"),
    "limits": ("int64[8] 0..1048575", [], "of each channel from 0 on; 0 or none given = limit"),
    "port_limit": ("int32 0..1048575", 0, "credits of all channels of a link together; 0 = no limit but theirs"),
    "pool": ("int32 0..1048575", 0, "credits of a link that its channels share, beside their own"),
    "sharing": (
        "choice static dynamic",
        "static",
        "a channel may have pool_most of them, or 2^pool_share of what is free of them",
    ),
    "pool_most": ("int32 0..1048575", 0, "with static: 0 = all"),
    "pool_share": ("int32 -7..7", 0, "with dynamic: the exponent"),
    "cf_spacing": ("bytes 800..1000000", 6400, "bytes of line between two CF_Updates of a link at least"),
    "cf_refresh": ("bytes 16384..1048576", 262144, "bytes of line after which one is sent again"),
    "cc_timer": ("time 0..250000000000", "256us", "period of CC_Updates (1 us to 250 ms); 0 = none"),
    "start": ("int32 0..1048575", 0, "what every counter begins with"),
}
fabric = {
    "lossless": 1,
    "priorities": "vcs * (vcs > 1)",
    "counts_packets": 1,
    "counts_by_port": "vcs == 1",
    "replaces": "pfc trim",
}

MASK = 1048575  # 20 bits
FREED = 3  # commands of frames
CONSUMED = 4
SET = 8  # bytes of a control ordered set
AGAIN = 4
DYNAMIC = 1
QUEUED = 2


def cost(cbfc, size):
    """Credits of a packet."""
    return max(size + cbfc.overhead + cbfc.credit - 1, 1) // cbfc.credit


def channel_of(cbfc, index):
    """The channel of the packets of a queue."""
    if cbfc.vcs == 1:
        return 0
    return max(min(index, cbfc.vcs - 1), 0)


def channel_at(cbfc, node, slot, vc) -> channel:
    return channels_at(my_node(cbfc, node), slot * cbfc.vcs + vc)


# ---- Set-up ----


def needed(cbfc, port, outward, forwards):
    """Credits with which one channel has a link for itself: that of a port's packets, or of its neighbour's; whether the node
    that gets them forwards them."""
    full = cbfc.at.world.quantum
    gap = port.ps_per_byte if outward else port.peer_ps_per_byte
    back = port.peer_ps_per_byte if outward else port.ps_per_byte
    packet = full * gap
    turn = 2 * port.delay + packet + (cbfc.cf_spacing + SET) * back
    if forwards:
        turn += packet
    return min(ceil(turn / packet) * cost(cbfc, full), MASK)


def limit_of(cbfc, vc, most):
    if cbfc.limits[vc] > 0:
        return cbfc.limits[vc]
    return cbfc.limit if cbfc.limit > 0 else most


def set_up_node(cbfc, node):
    """Limits of all links; at hosts when something is sent or comes."""
    mine = my_node(cbfc, node)
    if mine.leaves > 0:
        return
    mine.leaves = 1
    while mine.leaves < node.port_count:
        mine.leaves *= 2
    for i in range(mine.agenda_count):
        mine.agenda[i] = NEVER
    mine.cc_due = NEVER
    for slot in range(node.port_count):
        port = port_at(node, slot)
        end = ends_at(mine, slot)
        end.due = NEVER
        end.spacing = ceil(cbfc.cf_spacing * port.ps_per_byte)
        end.refresh = ceil(cbfc.cf_refresh * port.ps_per_byte)
        there = 0 if port.peer_node < cbfc.at.world.host_count else 1
        out = needed(cbfc, port, 1, there)
        most = needed(cbfc, port, 0, 1)
        need = buffer_at(my_port(cbfc, port), 0)
        need.lossless = cost(cbfc, cbfc.at.world.quantum) * cbfc.credit
        need.full_rate = most * cbfc.credit
        need.flows = 1
        need.classes = cbfc.vcs
        reserved = cbfc.pool
        for vc in range(cbfc.vcs):
            channel = channel_at(cbfc, node, slot, vc)
            channel.limit = limit_of(cbfc, vc, out)
            channel.consumed = cbfc.start
            channel.freed = cbfc.start
            channel.stored = cbfc.start
            channel.gone = cbfc.start
            channel.told = cbfc.start
            reserved += limit_of(cbfc, vc, most)
        for vc in range(cbfc.vcs):
            if not has_room(cbfc, node, slot, vc, cost(cbfc, cbfc.at.world.quantum)):
                mine.lacking = cost(cbfc, cbfc.at.world.quantum)
        if cbfc.port_limit > 0:
            reserved = min(reserved, cbfc.port_limit)
        mine.reserved += reserved * (cbfc.credit + max(-cbfc.overhead, 0))


def prepare(cbfc, node):
    """Set up a host."""
    if my_node(cbfc, node).leaves == 0:
        set_up_node(cbfc, node)


# ---- The sender of a link ----


def used(cbfc, node, slot, vc):
    """Credits that are consumed and not known to be free."""
    mine = channel_at(cbfc, node, slot, vc)
    return (mine.consumed - mine.freed) & MASK


def has_room(cbfc, node, slot, vc, credits):
    """Whether a packet of so many credits may leave by a channel."""
    if cbfc.port_limit > 0:
        total = credits
        for i in range(cbfc.vcs):
            total += used(cbfc, node, slot, i)
        if total > cbfc.port_limit:
            return 0
    limit = channel_at(cbfc, node, slot, vc).limit
    after = used(cbfc, node, slot, vc) + credits
    if after <= limit:
        return 1
    if cbfc.pool == 0:
        return 0
    free = cbfc.pool
    for i in range(cbfc.vcs):
        free -= max(used(cbfc, node, slot, i) - channel_at(cbfc, node, slot, i).limit, 0)
    if after - max(used(cbfc, node, slot, vc), limit) > free:
        return 0
    most = cbfc.pool_most
    if cbfc.sharing == DYNAMIC:
        most = free << cbfc.pool_share if cbfc.pool_share >= 0 else free >> -cbfc.pool_share
    elif most == 0:
        return 1
    return 1 if after - limit <= most else 0


def next_cost(cbfc, node, port, vc):
    """Credits of the packet that a channel sends next, or of a full one where it is not known which that is; 0: none waits."""
    if cbfc.vcs > 1:
        queue = queue_at(port, vc)
        if queue.length > 0:
            return cost(cbfc, queue.head.size)
        if not node.is_host:
            return 0
    return cost(cbfc, cbfc.at.world.quantum + my_node(cbfc, node).extra)


def look(cbfc, node, port, vc):
    """Stop a channel, or let it go on, by what its next packet needs."""
    room = 1 if port.watched < 0 else has_room(cbfc, node, port.slot, vc, next_cost(cbfc, node, port, vc))
    if cbfc.vcs == 1:
        if room:
            resume_port(node, port, cbfc.at.bit)
        else:
            pause_port(node, port, cbfc.at.bit)
    elif room:
        resume_queue(node, port, vc, cbfc.at.bit)
    else:
        pause_queue(node, port, vc, cbfc.at.bit)


def look_at_all(cbfc, node, port, vc):
    """The same of all channels that share credits with this one."""
    if cbfc.pool == 0 and cbfc.port_limit == 0:
        look(cbfc, node, port, vc)
        return
    for i in range(cbfc.vcs):
        look(cbfc, node, port, i)


def consume(cbfc, node, port, vc, size):
    """A packet leaves, not into nowhere."""
    if port.watched < 0:
        return
    mine = my_node(cbfc, node)
    channel = channel_at(cbfc, node, port.slot, vc)
    channel.consumed = (channel.consumed + cost(cbfc, size)) & MASK
    if mine.cc_due == NEVER:
        expect_consumed(cbfc, node)
    look_at_all(cbfc, node, port, vc)


def on_send(cbfc, node, flow, pkt):
    """A packet leaves its NIC, unless packets wait at hosts: these are counted when they do."""
    world = cbfc.at.world
    prepare(cbfc, node)
    mine = my_node(cbfc, node)
    mine.extra = max(pkt.size - pkt.payload - world.header, mine.extra)
    if world.ranked != QUEUED:
        consume(cbfc, node, port_of(flow), channel_of(cbfc, pkt.queue), pkt.size)


def on_enqueue(cbfc, node, port, queue, pkt):
    """The first packet of a queue may need more than there is."""
    if cbfc.vcs > 1 and queue.length == 1:
        look(cbfc, node, port, channel_of(cbfc, queue.index))


def on_dequeue(cbfc, node, port, queue, pkt):
    prepare(cbfc, node)
    if not node.is_host:
        begin_to_leave(cbfc, node, port, pkt)
    consume(cbfc, node, port, channel_of(cbfc, queue.index), pkt.size)


def expect_consumed(cbfc, node):
    """Credits are out: CC_Updates are due."""
    if cbfc.cc_timer > 0:
        mine = my_node(cbfc, node)
        mine.cc_due = (node.now // cbfc.cc_timer + 1) * cbfc.cc_timer
        wake_by(node, cbfc.at.index, mine.cc_due)


def send_consumed(cbfc, node):
    """A CC_Update on each link of which credits are out."""
    mine = my_node(cbfc, node)
    mine.cc_due = NEVER
    for slot in range(node.port_count):
        out = 0
        for vc in range(cbfc.vcs):
            out += used(cbfc, node, slot, vc)
        if out > 0:
            frame = new_frame(node, cbfc.at.kind, CONSUMED)
            for vc in range(cbfc.vcs):
                my_frame(cbfc, frame).counts[vc] = channel_at(cbfc, node, slot, vc).consumed
            send_frame(node, slot, frame)
            expect_consumed(cbfc, node)


# ---- The receiver ----


def admit(cbfc, node, port, pkt):
    """A packet is stored; one that this switch has made itself is in no ingress."""
    mine = my_packet(cbfc, pkt)
    mine.credits = 0
    if pkt.kind > ACK and pkt.src == node.id:
        return ADMITTED
    ours = my_node(cbfc, node)
    if pkt.kind == DATA:
        ours.extra = max(pkt.size - pkt.payload - cbfc.at.world.header, ours.extra)
    mine.vc = channel_of(cbfc, pkt.queue)
    mine.credits = cost(cbfc, pkt.size)
    channel = channel_at(cbfc, node, pkt.in_port, mine.vc)
    channel.stored = (channel.stored + mine.credits) & MASK
    return ADMITTED


def on_arrival(cbfc, node, port, pkt):
    """Hosts take what comes at once."""
    prepare(cbfc, node)
    channel = channel_at(cbfc, node, port.slot, channel_of(cbfc, pkt.queue))
    channel.stored = (channel.stored + cost(cbfc, pkt.size)) & MASK
    channel.gone = (channel.gone + cost(cbfc, pkt.size)) & MASK
    announce(cbfc, node, port.slot, node.now)


def begin_to_leave(cbfc, node, port, pkt):
    """A packet begins to leave by an egress: note when its last bit has, and whose credits are free then."""
    mine = my_packet(cbfc, pkt)
    ours = my_node(cbfc, node)
    egress = ends_at(ours, port.slot)
    if egress.from_slot > 0:
        end_leaving(cbfc, node, port.slot)
    if mine.credits == 0:
        return
    ingress = ends_at(ours, pkt.in_port)
    egress.from_slot = pkt.in_port + 1
    egress.credits = mine.credits
    egress.vc = mine.vc
    egress.until = node.now + ceil(pkt.size * port.ps_per_byte)
    egress.next = ingress.first
    ingress.first = port.slot + 1
    announce(cbfc, node, pkt.in_port, egress.until)


def end_leaving(cbfc, node, slot):
    """What an egress was sending has left: its credits are free."""
    mine = my_node(cbfc, node)
    egress = ends_at(mine, slot)
    ingress = ends_at(mine, egress.from_slot - 1)
    if ingress.first == slot + 1:
        ingress.first = egress.next
    else:
        before = ends_at(mine, ingress.first - 1)
        while before.next != slot + 1:
            before = ends_at(mine, before.next - 1)
        before.next = egress.next
    channel = channel_at(cbfc, node, egress.from_slot - 1, egress.vc)
    channel.gone = (channel.gone + egress.credits) & MASK
    egress.from_slot = 0


def end_all(cbfc, node, slot):
    """All packets of an ingress that have left by now; returns when the next one will have."""
    mine = my_node(cbfc, node)
    soonest = NEVER
    place = ends_at(mine, slot).first
    while place > 0:
        egress = ends_at(mine, place - 1)
        following = egress.next
        if egress.until <= node.now:
            end_leaving(cbfc, node, place - 1)
        else:
            soonest = min(egress.until, soonest)
        place = following
    return soonest


def announce(cbfc, node, slot, when):
    """Send a CF_Update of an ingress at a time, or as soon after it as the spacing allows."""
    end = ends_at(my_node(cbfc, node), slot)
    end.again = AGAIN
    when = max(end.earliest, when)
    if when <= node.now:
        send_freed(cbfc, node, slot)
    elif when < end.due:
        set_due(cbfc, node, slot, when)


def set_due(cbfc, node, slot, when):
    """When the next CF_Update of an ingress is due."""
    mine = my_node(cbfc, node)
    ends_at(mine, slot).due = when
    i = mine.leaves + slot
    mine.agenda[i] = when
    while i > 1:
        when = min(mine.agenda[i ^ 1], when)
        i = i // 2
        mine.agenda[i] = when
    wake_by(node, cbfc.at.index, when)


def send_freed(cbfc, node, slot):
    """A CF_Update of what has left by now."""
    end = ends_at(my_node(cbfc, node), slot)
    soonest = end_all(cbfc, node, slot)
    frame = new_frame(node, cbfc.at.kind, FREED)
    changed = 0
    for vc in range(cbfc.vcs):
        channel = channel_at(cbfc, node, slot, vc)
        if channel.told != channel.gone:
            changed += 1
        channel.told = channel.gone
        my_frame(cbfc, frame).counts[vc] = channel.gone
    frame.size = SET * (changed if changed > 0 else cbfc.vcs)
    send_frame(node, slot, frame)
    end.earliest = node.now + end.spacing
    due = NEVER
    if soonest < NEVER:
        due = max(end.earliest, soonest)
    elif end.again > 0:
        end.again -= 1
        due = node.now + end.refresh
    set_due(cbfc, node, slot, due)


def find_lost(cbfc, node, slot, pkt):
    """A CC_Update: what was sent before it on this link and has not come is lost."""
    for vc in range(cbfc.vcs):
        channel = channel_at(cbfc, node, slot, vc)
        consumed = my_frame(cbfc, pkt).counts[vc]
        channel.gone = (channel.gone + consumed - channel.stored) & MASK
        channel.stored = consumed
    announce(cbfc, node, slot, node.now)


def on_control(cbfc, node, port, pkt):
    prepare(cbfc, node)
    if command_of(pkt) == CONSUMED:
        find_lost(cbfc, node, port.slot, pkt)
        return
    for vc in range(cbfc.vcs):
        channel = channel_at(cbfc, node, port.slot, vc)
        if channel.freed != my_frame(cbfc, pkt).counts[vc]:
            channel.freed = my_frame(cbfc, pkt).counts[vc]
            look_at_all(cbfc, node, port, vc)
            if channel.freed != channel.consumed and my_node(cbfc, node).cc_due == NEVER:
                expect_consumed(cbfc, node)


def on_timer(cbfc, node):
    mine = my_node(cbfc, node)
    while mine.agenda[1] <= node.now:
        i = 1
        while i < mine.leaves:
            i = 2 * i if mine.agenda[2 * i] == mine.agenda[1] else 2 * i + 1
        send_freed(cbfc, node, i - mine.leaves)
    if mine.cc_due <= node.now:
        send_consumed(cbfc, node)
    wake_by(node, cbfc.at.index, min(mine.cc_due, mine.agenda[1]))
