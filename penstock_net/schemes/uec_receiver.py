"""Receivers of Ultra Ethernet's transport, `uec`: what they answer, and the credit that they give (RCCC), as in uet-htsim.

Answers.  A receiver answers at once the first packet, what is marked, what asks for it (AR), the end of a gap, and every 16 KB.
An ACK says how many bytes have come, which is the first missing packet, and by a bitmap which of 64 have come: those from the
packet on if it is marked or asks, else those before it.  A packet that `trim` has cut is answered by a NACK.

Credit, with `credits`.  A flow begins with 1.5 BDP, of all ports whose turns its packets take; the first answer ends this
speculation and takes what is left.  While it has credit, one byte is enough, it may send a packet, which costs its size.  Every
packet says up to where it asks for credit, in units of 256 B.  A receiver pulls for one flow after the other, up to 64 units
each, at 0.99 of what its links bring, which may be less than what they take (`changes` with `of`).  Where no flow asks, those
that had what they asked for are pulled for until they are 1.5 BDP beyond it, or have come whole.  A flow's pulls take turns of
128 ways, as entropies of packets are, so that none of its credit hangs on one path.  A sender without credit whose timeout ends
asks for that of one packet (the simulator's RTS), each time by another way and another of its ports: it is pulled for in turn,
by the port at which it asked.  Pulls say how much credit a flow has had, so that one of them repairs all that were lost.

With `rates`, in a network where each switch of a tier has less capacity up than down, a receiver lowers the rate of its pulls
about every 1.5 base RTT: by the share of packets that were cut before the last switch; and if the share of marked ones, averaged,
is above 0.3, by half of what it is above.  Else it adds 0.01, without any mark twice as much each time; 0.9 of what the switches
have up, relative to down, is the least.

By itself every packet asks for an answer, and no flow for credit.  Not here: the simulator's receivers behind a slow PCIe bus.
"""

title = "UECReceiver"
packet_state = {
    "stamp": "time",
    "total": "int64",  # of an ACK: bytes on the wire of all packets that have come
    "bits": "mask",  # and which have, from `first` on
    "credit": "int64",  # of the sender, when it sent this packet or has this ACK
    "first": "int32",
    "index": "int32",  # the packet's number
    "target": "int32",  # up to where it asks for credit, in quanta
    "pulled": "int32",  # the sender's highest pull
    "owed": "int32",  # receivers owe no answer for this many bytes
    "waiting": "int32",  # flows of its host that have credit
    "asks": "int8",  # AR
    "again": "int8",  # it had been sent before
    "cut": "int8",  # of an answer: a NACK
    "far": "int8",  # cut before the last switch
    "speculates": "int8",  # no answer had come
}
frame_state = {
    "quanta": "int64",  # of a pull: all that have been granted; of one who asks: up to where
    "src": "int32",  # who asks
    "way": "int32",  # and by which one
}
flow_state = {
    "credit": "int64",
    "pulled": "int64",  # the highest pull, in quanta
    "most": "int64",
    "answered": "int32",  # speculation has ended
    "counted": "int32",  # among those that wait
    "way": "int32",  # by which it asked last
}
incoming_state = {
    "arrived": "mask[32]",
    "cum": "int64",
    "count": "int64",  # packets
    "total": "int64",
    "owed": "int64",  # bytes that have come since the last ACK
    "asked": "int64",  # a packet with AR came while one before it was missing
    "target": "int64",  # quanta
    "granted": "int64",
    "way": "int32",  # of the last pull
    "slot": "int32",  # of the port at which the last packet came
    "list": "int64",  # ASKING, IDLE or none
    "before": "int64",  # in it: numbers of flows plus one
    "after": "int64",
}
node_state = {
    "waiting": "int64",  # flows that may send
    "first": "int64[3]",  # by list
    "last": "int64[3]",
    "next_pull": "time",
    "step_at": "time",
    "slower": "float64",  # the rate of pulls is 0.99 of the link's, less this share of it
    "marked_share": "float64",
    "steps": "int64",  # without decrease
    "came": "int64",  # packets since the last step
    "marked": "int64",
    "cut_last": "int64",
    "cut_far": "int64",
}
parameters = {
    "ack_bytes": ("bytes 1..1000000000", "16384B", "a receiver answers at least every so many bytes"),
    "back": ("bool", False, "the bitmap of an ACK is always of the packets before the one that it answers, and of this one"),
    "credits": ("bool", False, "receivers give credit"),
    "rates": ("bool", False, "and less of it in an oversubscribed network"),
    "whole_ps": ("bool", False, "the time for a quantum of credit is whole ps"),
}
when = {
    "on_start": "credits",
    "on_ack": "credits",
    "on_finish": "credits",
    "on_expiry": "credits",
    "on_control": "credits",
    "on_timer": "credits",
    "on_enqueue": "credits",
}
scheme_state = {"ratio": "float64[8]"}  # of capacities down and up, by tier
fabric = {"reordering": 1, "acts": 0}

RING = 2048
WORDS = 32
PULL = 3  # commands of frames
ASK = 4
QUANTUM = 256
PULLED = 64  # quanta
WAYS = 128  # of pulls
LEAST_PULLED = 4
PULL_RATE = 0.99
ASKING = 1
IDLE = 2
TIERS = 8


def set_up_node(me, node):
    """The least ratio of a tier's switches."""
    up = 0.0
    down = 0.0
    for slot in range(node.port_count):
        port = port_at(node, slot)
        if port.up > 0:
            up += 1.0 / port.ps_per_byte
        elif port.up < 0:
            down += 1.0 / port.ps_per_byte
    if not node.is_host and up > 0.0:
        tier = min(node.tier, TIERS - 1)
        me.ratio[tier] = min(me.ratio[tier], down / up) if me.ratio[tier] > 0.0 else down / up


def on_enqueue(me, node, port, queue, pkt):
    if pkt.kind == DATA and pkt.flags & TRIMMED and port.peer_node >= me.at.world.host_count:
        my_packet(me, pkt).far = 1


# ---- Receivers: answers ----


def on_data(me, node, incoming, pkt):
    mine = my_incoming(me, incoming)
    mine.slot = pkt.in_port
    carried = my_packet(me, pkt)
    known = 1 if carried.index < mine.cum or has_bit(mine.arrived, carried.index % RING) else 0
    if me.credits:
        request(me, node, incoming, pkt, known)
    if pkt.flags & TRIMMED:
        carried.cut = 1 - known
    elif not known and not accept(me, incoming, pkt):
        return False
    mine.owed = 0
    carried.total = mine.total
    carried.first = carried.index
    if me.back or (not pkt.ecn and not carried.asks):
        carried.first = max(carried.index - 63, mine.cum + 1)
    carried.bits = 0
    if mine.count > mine.cum:
        word = (carried.first >> 6) % WORDS
        shift = carried.first & 63
        carried.bits = mine.arrived[word] >> shift
        if shift > 0:
            carried.bits |= (mine.arrived[(word + 1) % WORDS] & (bit(shift) - 1)) << (64 - shift)
    return True


def accept(me, incoming, pkt):
    """A packet that is new; returns whether it is answered at once."""
    mine = my_incoming(me, incoming)
    carried = my_packet(me, pkt)
    answers = 1 if pkt.ecn or carried.asks or mine.count == 0 or incoming.complete else 0
    early = mine.count - mine.cum
    set_bit(mine.arrived, carried.index % RING)
    mine.count += 1
    mine.total += pkt.size
    mine.owed += pkt.size
    cum = (incoming.expected + me.at.world.mtu - 1) // me.at.world.mtu
    for i in range(mine.cum, cum):
        clear_bit(mine.arrived, i % RING)
    mine.cum = cum
    if mine.count > cum:
        if carried.asks:
            mine.asked = 1
    elif early > 0 and mine.asked:
        mine.asked = 0
        return True
    return 1 if answers or mine.owed >= me.ack_bytes else 0


# ---- Receivers: credit ----


def request(me, node, incoming, pkt, known):
    """A flow joins those that ask if a packet asks for more than any before, or was cut."""
    mine = my_incoming(me, incoming)
    carried = my_packet(me, pkt)
    cut = 1 if pkt.flags & TRIMMED else 0
    if me.rates:
        count(me, node, pkt, cut)
    if incoming.complete:
        leave(me, node, incoming)
        return
    if cut and known:
        return
    if carried.target > mine.target or cut:
        line_up(me, node, incoming, carried.target)


def line_up(me, node, incoming, target):
    """A flow asks, if it does not yet."""
    mine = my_incoming(me, incoming)
    mine.target = max(mine.target, target)
    if mine.list != ASKING:
        leave(me, node, incoming)
        join(me, node, incoming, ASKING)
        wake_by(node, me.at.index, max(my_node(me, node).next_pull, node.now))


def join(me, node, incoming, which):
    here = my_node(me, node)
    mine = my_incoming(me, incoming)
    mine.list = which
    mine.before = here.last[which]
    mine.after = 0
    if here.last[which] > 0:
        my_incoming(me, incoming_at(node, here.last[which] - 1)).after = incoming.number + 1
    else:
        here.first[which] = incoming.number + 1
    here.last[which] = incoming.number + 1


def leave(me, node, incoming):
    """Nothing if it is in no list."""
    here = my_node(me, node)
    mine = my_incoming(me, incoming)
    if mine.list == 0:
        return
    if mine.before > 0:
        my_incoming(me, incoming_at(node, mine.before - 1)).after = mine.after
    else:
        here.first[mine.list] = mine.after
    if mine.after > 0:
        my_incoming(me, incoming_at(node, mine.after - 1)).before = mine.before
    else:
        here.last[mine.list] = mine.before
    mine.list = 0


def on_timer(me, node):
    """The pacer: a pull for the next flow that asks; if none does, for one that has had what it asked for."""
    here = my_node(me, node)
    which = ASKING if here.first[ASKING] > 0 else IDLE
    if here.first[which] == 0:
        return
    incoming = incoming_at(node, here.first[which] - 1)
    mine = my_incoming(me, incoming)
    leave(me, node, incoming)
    granted = PULLED
    if which == ASKING:
        granted = max(min(PULLED, mine.target - mine.granted), 0)
    mine.granted += granted
    if mine.target > mine.granted:
        join(me, node, incoming, ASKING)
    elif which == ASKING or mine.granted - mine.target < most_of(me, node, port_at(node, 0)) // QUANTUM:
        join(me, node, incoming, IDLE)
    frame = new_frame(node, me.at.kind, PULL)
    about_incoming(frame, incoming)
    my_frame(me, frame).quanta = mine.granted
    mine.way = (mine.way + 1) % WAYS
    send_by(node, mine.slot, incoming.src, hash31(incoming.hash, mine.way), frame)
    if me.rates:
        steps(me, node)
    gap = quantum_time(me, node)
    here.next_pull = node.now + whole(gap / (1.0 - here.slower) * (granted if granted > 0 else LEAST_PULLED))
    wake_by(node, me.at.index, here.next_pull)


def send_by(node, slot, dst, way, pkt):
    """A frame, by this port, or, if it is down, by another one: nothing else may come of a flow before it has credit."""
    if port_at(node, slot).down:
        send_to_host(node, dst, pkt)
    else:
        send_along(node, slot, dst, way, pkt)


def answer(me, node, port, pkt):
    """Of one who asks: of a flow that has come whole, which is sent again for its ACK, the packet has credit at once."""
    incoming = incoming_of(node, pkt)
    if incoming != NO_INCOMING and not incoming.complete:
        my_incoming(me, incoming).slot = port.slot
        line_up(me, node, incoming, my_frame(me, pkt).quanta)
        return
    frame = new_frame(node, me.at.kind, PULL)
    about_flow(frame, pkt)
    asked = my_frame(me, pkt)
    my_frame(me, frame).quanta = asked.quanta
    send_by(node, port.slot, asked.src, asked.way, frame)


def quantum_time(me, node) -> float:
    """Of a quantum of credit, ps: at 0.99 of what the links that are not down bring, which may be slower than what they take."""
    gap = QUANTUM * inbound_ps_per_byte(node) / PULL_RATE
    return float(whole(gap)) if me.whole_ps else gap


def most_of(me, node, port):
    """1.5 bandwidth-delay products, of all ports whose turns the packets take."""
    return whole(1.5 * whole(me.at.world.base_rtt / port.ps_per_byte)) * (node.port_count if me.at.world.in_turn else 1)


# ---- Receivers: the rate of pulls ----


def count(me, node, pkt, cut):
    here = my_node(me, node)
    steps(me, node)
    here.came += 1
    if not cut:
        here.marked += pkt.ecn
    elif my_packet(me, pkt).far:
        here.cut_far += 1
    else:
        here.cut_last += 1


def steps(me, node):
    """Those that were due since the last packet or pull; after a long pause there is nothing to remember."""
    here = my_node(me, node)
    if node.now < here.step_at:
        return
    ratio = 1.0
    for tier in range(TIERS):
        ratio *= max(me.ratio[tier], 1.0)
    if ratio <= 1.0:
        here.step_at = NEVER
        return
    if node.now - here.step_at > 100 * me.at.world.base_rtt:
        here.marked_share = 0.0
        here.slower = 0.0
        here.step_at = node.now
    while here.step_at <= node.now:
        step(me, node, ratio)
        here.step_at += whole((0.75 + draw(node, RANDOM_QUEUE) / 4294967296.0) * 1.5 * me.at.world.base_rtt)


def step(me, node, ratio: float):
    here = my_node(me, node)
    rate = 1.0 - here.slower
    uncut = here.came - here.cut_last - here.cut_far
    here.marked_share *= 0.5
    if uncut > 0:
        here.marked_share += 0.5 * here.marked / uncut
    here.steps += 1
    if here.cut_far > 0:
        rate -= 1.0 * here.cut_far / here.came
        here.steps = 0
    if here.marked_share > 0.3:
        rate *= 1.0 - 0.5 * (here.marked_share - 0.3)
        here.steps = 0
    if here.steps > 0:
        rate += 0.01 * (1 << min(here.steps - 1, 20)) if here.marked == 0 else 0.01
    here.slower = 1.0 - min(max(max(rate, 0.9 / ratio), 0.01), 1.0)
    here.came = 0
    here.marked = 0
    here.cut_last = 0
    here.cut_far = 0


# ---- Senders: credit; their windows are those of the part that includes this one ----


def on_start(me, node, flow, pkt):
    mine = my_flow(me, flow)
    mine.most = most_of(me, node, port_of(flow))
    mine.credit = mine.most
    count_waiting(me, node, flow)


def on_send(me, node, flow, pkt):
    mine = my_flow(me, flow)
    carried = my_packet(me, pkt)
    carried.index = pkt.seq // me.at.world.mtu
    carried.stamp = node.now
    carried.total = 0
    carried.bits = 0
    carried.first = 0
    carried.again = 1 if pkt.flags & RETRANSMITTED else 0
    carried.asks = 1
    carried.cut = 0
    carried.far = 0
    carried.owed = me.ack_bytes
    carried.target = 0
    carried.credit = 0
    if me.credits:
        mine.credit -= pkt.size
        carried.credit = mine.credit
        carried.pulled = mine.pulled
        carried.speculates = 1 - mine.answered
        carried.waiting = my_node(me, node).waiting
        count_waiting(me, node, flow)


def on_ack(me, node, flow, pkt):
    mine = my_flow(me, flow)
    end_speculation(me, flow)
    my_packet(me, pkt).credit = mine.credit
    count_waiting(me, node, flow)


def on_expiry(me, node, flow):
    """Ask for credit for one packet if there is none: it, or what asked for it, may have been lost.  `resend` tells `uec`."""
    mine = my_flow(me, flow)
    flow.resend = 1 if mine.credit > 0 else 0
    if mine.credit > 0:
        return
    mine.way = (mine.way + 1) % WAYS
    frame = new_frame(node, me.at.kind, ASK)
    about_sent(frame, flow)
    ask = my_frame(me, frame)
    ask.src = flow.src
    ask.way = hash31(flow.hash, mine.way)
    ask.quanta = mine.pulled + (me.at.world.mtu + me.at.world.header - mine.credit + QUANTUM - 1) // QUANTUM
    slot = mine.way % node.port_count if me.at.world.in_turn else port_of(flow).slot
    send_by(node, slot, flow.dst, ask.way, frame)


def on_control(me, node, port, pkt):
    if command_of(pkt) == ASK:
        answer(me, node, port, pkt)
        return
    flow = flow_of(node, pkt)
    if flow != NO_FLOW:
        take_pull(me, node, flow, pkt)


def take_pull(me, node, flow, pkt):
    mine = my_flow(me, flow)
    end_speculation(me, flow)
    before = mine.credit
    quanta = my_frame(me, pkt).quanta
    if quanta > mine.pulled:
        mine.credit = min(mine.credit + QUANTUM * (quanta - mine.pulled), mine.most)
        mine.pulled = quanta
    count_waiting(me, node, flow)
    if before <= 0 and mine.credit > 0:
        resume(flow)
        try_send(node, flow)


def resume(flow):
    """What waits for credit alone stands in the window: this many bytes below those in flight."""
    blocked = flow.sent - flow.acked - flow.window
    if blocked == 0:
        flow.window += 1
    elif blocked == 1:
        flow.resend = 1


def on_finish(me, node, flow, pkt):
    my_node(me, node).waiting -= my_flow(me, flow).counted
    my_flow(me, flow).counted = 0


def end_speculation(me, flow):
    mine = my_flow(me, flow)
    if not mine.answered:
        mine.answered = 1
        mine.credit = min(mine.credit, 0)


def count_waiting(me, node, flow):
    mine = my_flow(me, flow)
    waits = 1 if mine.credit > 0 and flow.sent < flow.size else 0
    my_node(me, node).waiting += waits - mine.counted
    mine.counted = waits
