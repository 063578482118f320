"""Floodgate: per-destination windows between switches against incast (Liu et al., CoNEXT 2021), sections 3.2, 4 and 8.

A switch limits the bytes in flight to each destination by a window; packets beyond it wait in a virtual output queue of the
destination until the next switch has forwarded some and returned a credit.  Credits are cumulative: next_psn counts the bytes
sent for a destination, each packet carries it (psn), and a credit returns the last psn received less the bytes still stored.
So the next credit makes up for lost packets and credits, and a switchSYN for the last ones (section 4.3).

Windows, thresholds and sequence numbers are in bytes on the wire; a window is per switch and destination, whatever the port.
The last hop has none (section 3.2).  A credit is earned when the packet leaves the switch (section 7.2), since at the last hop
nothing else could slow the senders down.  `t` = 0 is the ideal design (section 3.2): a credit for every packet, at once,
and none delayed.  `host_pause` is the optional host support (section 4.3); a pause is a lease and has to be renewed.
Packets for a link that is down, and those that came down and go up again to avoid it, are not held and use no window.
"""

includes = ["pfc"]
structs = {
    "cell": {
        "next_psn": "int64",
        "last_credit": "int64",
        "heard": "time",  # of the last credit; these three: towards a destination
        "queued": "int64",
        "apart": "int64",  # bytes in egress queues; those of a link that is down or dead
        "received": "int64",
        "stored": "int64",
        "credited": "int64",
    },  # these three: from upstream
    "destination": {"inflight": "int64", "held": "int64", "voq": "int32", "pausing": "int32"},
}
packet_state = {"psn": "int64"}
frame_state = {"psns": "int64[32]", "dsts": "int32[32]", "voqs": "int16[32]", "count": "int32"}
port_state = {
    "window": "int64",
    "hop_bdp": "int64",
    "owed": "int64",
    "due": "time",
    "phase": "time",
    "pending": "mask[hosts // 64 + 1]",
    "pending_words": "mask[hosts // 4096 + 1]",  # those of `pending` that are not 0
    "paused": "mask[hosts // 64 + 1]",
}
node_state = {
    "cells": "cell[hosts * ports * switch]",
    "destinations": "destination[hosts * switch]",
    "open": "mask[(hosts // 64 + 1) * switch]",
    "open_words": "mask[(hosts // 4096 + 1) * switch]",
    "lease": "time[hosts * host_pause * (1 - switch)]",
    "leased": "mask[(hosts // 64 + 1) * (1 - switch)]",
    "syn_due": "time",
    "renew_due": "time",
    "thre": "int64",
    "middle": "int32",
}
parameters = {
    "m": ("float64 0.01..1000", 1.0, "window in BDP_nextHop, beside C_out T (sections 3.2, 4.2; ideal: 1.5)"),
    "t": ("time", "10us", "credit timer T of each ingress (section 4.1); 0 = a credit for every packet (section 3.2)"),
    "thre_credit": ("float64", 10.0, "VOQ of a destination in BDP_nextHop beyond which its credits wait (section 4.1)"),
    "credit_bytes": ("bytes", 0, "an ingress that owes so much does not wait for T (authors' code: 10240); 0 = it does"),
    "voqs": ("int32 1..4096", 100, "virtual output queues of a switch (section 6)"),
    "groups": ("int32 1..2", 2, "groups of them where traffic goes up and down: 2 apart, 1 mixed (section 4.2)"),
    "down": ("bool", True, "windows also down from the middle of three tiers (the authors' code has none there)"),
    "syn_timeout": ("time 1..1e15", "1ms", "without a credit for so long, ask for one: switchSYN (section 4.3)"),
    "host_pause": ("bool", False, "per-dst PAUSE of the hosts by their first switch (section 4.3)"),
    "thre_off": ("float64", 1.0, "VOQ of a destination in one-hop BDPs of a host beyond which hosts pause (section 4.3)"),
    "thre_on": ("float64", 1.0, "and up to which they go on"),
    "lease": ("time 1..1e15", "50us", "how long a dstPause holds; renewed at half of it"),
    "entry": ("bytes", 8, "of a frame, beside 58 B, for each destination (the authors' code counts 22)"),
}
presets = {
    "ideal": {"m": 1.5, "t": 0, "host_pause": True},
    # the authors' simulator
    "ns3": {"m": 1.5, "thre_credit": 1.5, "credit_bytes": "10240B", "down": False, "entry": 22},
    "ns3_ideal": {"m": 1.5, "t": 0, "host_pause": True, "thre_off": 1.5, "thre_on": 1.3, "down": False, "entry": 0},
}
fabric = {"voqs": "max(voqs, groups)", "nic_by_destination": "host_pause"}

CREDIT = 3  # commands of frames, beside PAUSE and RESUME for dstPause and dstResume
SYN = 4
DOWN = 1  # of a port whose link has no routes; one that is dark has 2
HEADER = 58
ENTRIES = 32  # of a frame


# ---- Set-up ----


def bdp_of(port):
    return whole(2 * port.delay / port.ps_per_byte)


def set_up_node(floodgate, node):
    """Windows and thresholds.  BDP_nextHop is propagation delay alone, so a window has some slack: a packet, another one that
    delays the credit on its way back, the credit, and the SYN.  thre_credit is in BDPs of the largest port."""
    mine = my_node(floodgate, node)
    slack = 3 * floodgate.at.world.quantum + HEADER + floodgate.entry
    up = 0
    down = 0
    largest = 0
    for slot in range(node.port_count):
        port = port_at(node, slot)
        largest = max(largest, bdp_of(port))
        if port.peer_node >= floodgate.at.world.host_count:
            if port.up >= 0:
                up = 1
            else:
                down = 1
    mine.middle = up * down
    mine.thre = whole(floodgate.thre_credit * largest)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        ours = my_port(floodgate, port)
        ours.hop_bdp = bdp_of(port)
        ours.window = 0
        if port.peer_node >= floodgate.at.world.host_count and (floodgate.down or port.up >= 0 or not mine.middle):
            ours.window = whole(floodgate.m * ours.hop_bdp) + whole(floodgate.t / port.ps_per_byte) + slack


def set_up_port(floodgate, node, port):
    mine = my_port(floodgate, port)
    mine.due = NEVER
    if floodgate.t > 0:
        mine.phase = hash31(port.slot, node.random_seed) % floodgate.t
    my_node(floodgate, node).syn_due = NEVER
    my_node(floodgate, node).renew_due = NEVER


def cell_of(floodgate, node, slot, dst) -> cell:
    return cells_at(my_node(floodgate, node), dst * node.port_count + slot)


# ---- Upstream switch (section 4.2) ----


def on_send(floodgate, node, flow, pkt):
    my_packet(floodgate, pkt).psn = 0  # hosts have no window


def is_gone(port):
    """Whether no credit comes back over a link: it is down, or loses everything."""
    return 1 if port.down == DOWN or port.watched < 0 else 0


def window_of(floodgate, node, port, pkt):
    """The window that applies to a packet, in bytes; 0 = none.  Packets that came down and go up again, to avoid a link that is
    down, are not held: the switches above and this one would wait for each other."""
    if port.up > 0 and port_at(node, pkt.in_port).up > 0:
        return 0
    return my_port(floodgate, port).window


def fits(floodgate, node, port, pkt):
    """Whether the window has room; a packet larger than the window is sent alone."""
    to = destinations_at(my_node(floodgate, node), pkt.dst)
    return to.inflight == 0 or to.inflight + pkt.size <= my_port(floodgate, port).window


def choose_voq(floodgate, node, port, pkt):
    """A data packet has arrived: note its psn; store it in a VOQ if its destination has one, or no window left."""
    if pkt.kind != DATA:
        return -1
    psn = my_packet(floodgate, pkt).psn
    if psn > 0:
        cell = cell_of(floodgate, node, pkt.in_port, pkt.dst)
        cell.received = psn
        cell.stored += pkt.size
    if window_of(floodgate, node, port, pkt) == 0:
        return -1
    to = destinations_at(my_node(floodgate, node), pkt.dst)
    if to.voq == 0:
        if fits(floodgate, node, port, pkt):
            return -1
        to.voq = allocate(floodgate, node, port, pkt.dst) + 1
    to.held += pkt.size
    if floodgate.host_pause:
        pause_host(floodgate, node, pkt)
    return to.voq - 1


def allocate(floodgate, node, port, dst):
    """An empty VOQ of the packet's group; if there is none, the one that the destination hashes to."""
    first = 0
    count = floodgate.voqs
    if floodgate.groups == 2 and my_node(floodgate, node).middle:
        half = max(floodgate.voqs // 2, 1)
        first = half if port.up < 0 else 0
        count = max(floodgate.voqs - half, 1) if port.up < 0 else half
    for i in range(first, first + count):
        if voq_at(node, i).length == 0:
            return i
    return first + pick(dst, 0, count)


def on_enqueue(floodgate, node, port, queue, pkt):
    """A packet is forwarded to its egress queue."""
    if pkt.kind != DATA or window_of(floodgate, node, port, pkt) == 0:
        return
    cell = cell_of(floodgate, node, port.slot, pkt.dst)
    if is_gone(port):
        cell.apart += pkt.size
    else:
        cell.queued += pkt.size
        spend(floodgate, node, pkt.dst, pkt.size)


def on_dequeue(floodgate, node, port, queue, pkt):
    """A packet leaves the switch: it earns a credit for the switch before, and is counted for the next one."""
    if pkt.kind != DATA:
        return
    mine = my_packet(floodgate, pkt)
    if mine.psn > 0:
        cell_of(floodgate, node, pkt.in_port, pkt.dst).stored -= pkt.size
        owe(floodgate, node, port_at(node, pkt.in_port), pkt.dst, pkt.size)
    mine.psn = 0
    if window_of(floodgate, node, port, pkt) > 0:
        cell = cell_of(floodgate, node, port.slot, pkt.dst)
        dead = 1 if port.watched < 0 else 0
        late = min(cell.apart, pkt.size)  # stored while the link was down
        if late > 0:
            cell.apart -= late
            if not dead:
                spend(floodgate, node, pkt.dst, late)
        cell.queued -= pkt.size - late
        if cell.last_credit == cell.next_psn:
            cell.heard = node.now
        cell.next_psn += pkt.size - late * dead
        mine.psn = cell.next_psn


def spend(floodgate, node, dst, amount):
    """`amount` more bytes are in flight to a destination."""
    mine = my_node(floodgate, node)
    destinations_at(mine, dst).inflight += amount
    set_bit(mine.open, dst)
    set_bit(mine.open_words, dst >> 6)
    if mine.syn_due == NEVER:
        mine.syn_due = node.now + floodgate.syn_timeout
        wake_by(node, floodgate.at.index, mine.syn_due)


def close(floodgate, node, dst, amount):
    """`amount` bytes are no longer in flight to a destination."""
    mine = my_node(floodgate, node)
    to = destinations_at(mine, dst)
    to.inflight -= amount
    if to.inflight == 0:
        clear_bit(mine.open, dst)
        if mine.open[dst >> 6] == 0:
            clear_bit(mine.open_words, dst >> 6)


def take_credit(floodgate, node, slot, dst, psn):
    cell = cell_of(floodgate, node, slot, dst)
    if cell.last_credit < psn and psn <= cell.next_psn:
        close(floodgate, node, dst, psn - cell.last_credit)
        cell.last_credit = psn
        cell.heard = node.now


def forward_credited(floodgate, node, pkt):
    """Forward what the credits of a frame allow: a packet of each of their VOQs in turn.  The VOQs are noted before, since a
    destination whose last packet goes gives its VOQ up, and those that share it may have had their credits long ago."""
    frame = my_frame(floodgate, pkt)
    for i in range(frame.count):
        frame.voqs[i] = destinations_at(my_node(floodgate, node), frame.dsts[i]).voq
    again = 1
    while again:
        again = 0
        for i in range(frame.count):
            if frame.voqs[i] > 0:
                again |= forward(floodgate, node, frame.voqs[i] - 1)


def forward(floodgate, node, index):
    """Forward the first packet of a VOQ if its destination's window has room; whether it was."""
    if voq_at(node, index).length == 0:
        return 0
    pkt = voq_at(node, index).head
    if not fits(floodgate, node, port_at(node, pkt.out_port), pkt):
        return 0
    to = destinations_at(my_node(floodgate, node), pkt.dst)
    dst = pkt.dst
    to.held -= pkt.size
    if to.held == 0:
        to.voq = 0
    release(node, index)
    if to.pausing > 0:
        resume_hosts(floodgate, node, dst)
    return 1


# ---- Downstream switch (section 4.1) ----


def owe(floodgate, node, port, dst, size):
    """The upstream switch at this port has earned a credit."""
    mine = my_port(floodgate, port)
    set_bit(mine.pending, dst)
    set_bit(mine.pending_words, dst >> 6)
    mine.owed += size
    if floodgate.t > 0 and mine.due == NEVER:
        mine.due = (node.now + floodgate.t - mine.phase) // floodgate.t * floodgate.t + mine.phase
        wake_by(node, floodgate.at.index, mine.due)
    if floodgate.t == 0 or (floodgate.credit_bytes > 0 and mine.owed >= floodgate.credit_bytes):
        send_credits(floodgate, node, port)


def send_credits(floodgate, node, port):
    """Send all credits that this ingress owes, except for destinations with a long VOQ (delayCredit)."""
    mine = my_port(floodgate, port)
    mine.owed = 0
    frame = NO_PACKET
    for i in range(mine.pending_words_count):
        words = mine.pending_words[i]
        while words:
            w = (i << 6) + lowest_bit(words)
            words &= words - 1
            frame = credit_word(floodgate, node, port, frame, w)
    post(floodgate, node, port, frame)


def credit_word(floodgate, node, port, pkt, w) -> packet:
    """Add the credits for the destinations of one word of `pending` to a frame; returns the frame."""
    mine = my_port(floodgate, port)
    waiting = mine.pending[w]
    while waiting:
        dst = (w << 6) + lowest_bit(waiting)
        waiting &= waiting - 1
        if floodgate.t == 0 or destinations_at(my_node(floodgate, node), dst).held <= my_node(floodgate, node).thre:
            clear_bit(mine.pending, dst)
            cell = cell_of(floodgate, node, port.slot, dst)
            if cell.credited != cell.received - cell.stored:
                cell.credited = cell.received - cell.stored
                pkt = add_entry(floodgate, node, port, pkt, CREDIT, dst, cell.credited)
    if mine.pending[w] == 0:
        clear_bit(mine.pending_words, w)
    return pkt


def add_entry(floodgate, node, port, pkt, command, dst, psn) -> packet:
    """Add <destination, psn> to a frame, or to a new one if it is full or NO_PACKET; returns the frame."""
    if pkt and my_frame(floodgate, pkt).count == ENTRIES:
        post(floodgate, node, port, pkt)
        pkt = NO_PACKET
    if not pkt:
        pkt = new_frame(node, floodgate.at.kind, command)
        my_frame(floodgate, pkt).count = 0
    frame = my_frame(floodgate, pkt)
    frame.dsts[frame.count] = dst
    frame.psns[frame.count] = psn
    frame.count += 1
    return pkt


def post(floodgate, node, port, pkt):
    if pkt:
        pkt.size = max(HEADER + floodgate.entry * my_frame(floodgate, pkt).count, floodgate.at.world.control)
        send_frame(node, port.slot, pkt)


# ---- Loss: switchSYN (section 4.3) ----


def send_syns(floodgate, node):
    """Check every destination with bytes in flight for credits that are overdue."""
    mine = my_node(floodgate, node)
    mine.syn_due = NEVER
    soonest = NEVER
    for i in range(mine.open_words_count):
        words = mine.open_words[i]
        while words:
            k = lowest_bit(words)
            soonest = min(soonest, check_word(floodgate, node, (i << 6) + k))
            words = mine.open_words[i] & ~(bit(k) | (bit(k) - 1))  # what is forwarded opens others
    mine.syn_due = min(mine.syn_due, soonest)


def check_word(floodgate, node, w):
    """The same for the destinations of one word of `open`; returns the time of the next check."""
    mine = my_node(floodgate, node)
    soonest = NEVER
    waiting = mine.open[w]
    while waiting:
        dst = (w << 6) + lowest_bit(waiting)
        waiting &= waiting - 1
        for slot in range(node.port_count):
            soonest = min(soonest, check_credits(floodgate, node, port_at(node, slot), dst))
        voq = destinations_at(mine, dst).voq
        again = voq
        while again:
            again = forward(floodgate, node, voq - 1)
    return soonest


def check_credits(floodgate, node, port, dst):
    """Send a SYN if credits are overdue, write off what was sent over a link that is down; returns the time of the next check."""
    cell = cell_of(floodgate, node, port.slot, dst)
    if cell.queued == 0 and cell.last_credit == cell.next_psn:
        return NEVER
    if is_gone(port):
        close(floodgate, node, dst, cell.queued + cell.next_psn - cell.last_credit)
        cell.apart += cell.queued
        cell.queued = 0
        cell.last_credit = cell.next_psn
        return NEVER
    if cell.last_credit == cell.next_psn:
        return node.now + floodgate.syn_timeout
    if cell.heard + floodgate.syn_timeout <= node.now:
        post(floodgate, node, port, add_entry(floodgate, node, port, NO_PACKET, SYN, dst, cell.next_psn))
        cell.heard = node.now
    return cell.heard + floodgate.syn_timeout


def answer_syn(floodgate, node, port, pkt):
    """Links keep the order, so what was sent before the SYN has arrived or is lost.  Packets for a link that is down may stay
    for ever, and are credited: the upstream switch may know another path."""
    frame = my_frame(floodgate, pkt)
    dst = frame.dsts[0]
    cell = cell_of(floodgate, node, port.slot, dst)
    cell.received = frame.psns[0]
    cell.credited = cell.received - cell.stored
    for slot in range(node.port_count):
        if port_at(node, slot).down == DOWN:
            for i in range(port_at(node, slot).queue_count):
                cell.credited += bytes_of(floodgate, queue_at(port_at(node, slot), i), port.slot, dst)
    post(floodgate, node, port, add_entry(floodgate, node, port, NO_PACKET, CREDIT, dst, cell.credited))


def bytes_of(floodgate, queue, slot, dst):
    """Bytes in a queue for a destination from one ingress."""
    total = 0
    pkt = queue.head if queue.length > 0 else NO_PACKET
    while pkt:
        if pkt.kind == DATA and pkt.in_port == slot and pkt.dst == dst:
            total += pkt.size
        pkt = pkt.next
    return total


# ---- Hosts' support: per-dst PAUSE (section 4.3) ----


def pause_host(floodgate, node, pkt):
    """A packet of a host was stored in a VOQ: pause its destination at the host if the VOQ is long enough."""
    port = port_at(node, pkt.in_port)
    mine = my_port(floodgate, port)
    if port.peer_node >= floodgate.at.world.host_count or has_bit(mine.paused, pkt.dst):
        return
    ours = my_node(floodgate, node)
    to = destinations_at(ours, pkt.dst)
    if to.held > floodgate.thre_off * mine.hop_bdp:
        set_bit(mine.paused, pkt.dst)
        to.pausing += 1
        send_control(node, port.slot, floodgate.at.kind, PAUSE, pkt.dst, 0)
        if ours.renew_due == NEVER:
            ours.renew_due = node.now + floodgate.lease // 2
            wake_by(node, floodgate.at.index, ours.renew_due)


def resume_hosts(floodgate, node, dst):
    to = destinations_at(my_node(floodgate, node), dst)
    for slot in range(node.port_count):
        mine = my_port(floodgate, port_at(node, slot))
        if has_bit(mine.paused, dst) and to.held <= floodgate.thre_on * mine.hop_bdp:
            clear_bit(mine.paused, dst)
            to.pausing -= 1
            send_control(node, slot, floodgate.at.kind, RESUME, dst, 0)


def renew_pauses(floodgate, node):
    ours = my_node(floodgate, node)
    ours.renew_due = NEVER
    for slot in range(node.port_count):
        mine = my_port(floodgate, port_at(node, slot))
        for w in range(mine.paused_count):
            held = mine.paused[w]
            while held:
                send_control(node, slot, floodgate.at.kind, PAUSE, (w << 6) + lowest_bit(held), 0)
                held &= held - 1
                ours.renew_due = node.now + max(floodgate.lease // 2, 1)


def apply_pause(floodgate, node, port, pkt):
    """At a host: the NIC has a queue for each destination."""
    mine = my_node(floodgate, node)
    dst = value_of(pkt)
    if command_of(pkt) == PAUSE:
        mine.lease[dst] = node.now + floodgate.lease
        set_bit(mine.leased, dst)
        pause_queue(node, port, dst, floodgate.at.bit)
        wake_by(node, floodgate.at.index, mine.lease[dst])
    else:
        if node.port_count == 1:  # another port may be paused, too: until the lease ends
            clear_bit(mine.leased, dst)
        resume_queue(node, port, dst, floodgate.at.bit)


def end_leases(floodgate, node):
    """At a host: resume the destinations whose lease was not renewed."""
    mine = my_node(floodgate, node)
    soonest = NEVER
    for w in range(mine.leased_count):
        held = mine.leased[w]
        while held:
            dst = (w << 6) + lowest_bit(held)
            held &= held - 1
            if mine.lease[dst] <= node.now:
                clear_bit(mine.leased, dst)
                for slot in range(node.port_count):
                    resume_queue(node, port_at(node, slot), dst, floodgate.at.bit)
            else:
                soonest = min(soonest, mine.lease[dst])
    wake_by(node, floodgate.at.index, soonest)


# ---- Frames and timers ----


def on_control(floodgate, node, port, pkt):
    if command_of(pkt) == CREDIT:
        frame = my_frame(floodgate, pkt)
        for i in range(frame.count):
            take_credit(floodgate, node, port.slot, frame.dsts[i], frame.psns[i])
        forward_credited(floodgate, node, pkt)
    elif command_of(pkt) == SYN:
        answer_syn(floodgate, node, port, pkt)
    elif node.is_host:
        apply_pause(floodgate, node, port, pkt)


def on_timer(floodgate, node):
    if node.is_host:
        end_leases(floodgate, node)
        return
    mine = my_node(floodgate, node)
    soonest = NEVER
    for slot in range(node.port_count):
        ingress = my_port(floodgate, port_at(node, slot))
        if ingress.due <= node.now:
            send_credits(floodgate, node, port_at(node, slot))
            ingress.due = NEVER
            for i in range(ingress.pending_words_count):
                if ingress.pending_words[i]:  # some are delayed
                    ingress.due = node.now + floodgate.t
        soonest = min(soonest, ingress.due)
    if mine.syn_due <= node.now:
        send_syns(floodgate, node)
    if mine.renew_due <= node.now:
        renew_pauses(floodgate, node)
    wake_by(node, floodgate.at.index, min(soonest, min(mine.syn_due, mine.renew_due)))
