"""NDP (Handley et al., SIGCOMM 2017), section 3: switches trim instead of dropping, receivers pull, packets take all paths.

A sender sends its first window, `iw` packets, blind.  A switch whose queue of data is full cuts the payload off the arriving
packet or, with probability 1/2, off the last one in the queue (section 3.1); headers and what receivers send have a queue of
their own, of which `weight` packets are sent for each data packet.  If that one is full, too, the header is sent back. The
receiver answers every packet at once, a header by a NACK, and pulls one packet for each that came: a full one every T, in which
its link brings an MTU, in turn for its flows (3.2).  Pull numbers are cumulative; ACK and NACK carry the pull if the pacer is
idle.  A pull sends what was trimmed, in the order of the NACKs, then new packets; one with nothing to send is kept. A flow
that has been received in full is pulled no further.  A header that came back goes before what was trimmed and is sent again at
once if nothing else makes the receiver pull, or if more than a quarter of the last answers were ACKs; else a pull sends it
(3.2.4 and authors' code).  Of more than 128 packets that wait to be sent again the rest go by sequence number.

Each packet takes the next path of a random permutation of all, which sender and switches spell as one digit per tier; pulls
take random ones.  Where next hops are gone, those that are left take turns in what was theirs, so that their shares are equal.

With `path_penalty` (3.2.3) a flow counts the ACKs and NACKs of each path, which it reads from the answer's hash, and leaves
outliers out of the next permutations.  The paper has no numbers; outliers are those of the authors' code: more than 100 answers,
a header that came back counting for three, and NACKs for more than 30 % of the ACKs and 1.25 times the mean of the paths.  With
each such answer a path is left out of one permutation more before it is tried again, with each other one of one less; in the
code none is tried again.  With more than 64 paths none is left out.  As in the code, losses (3.2.3) count for no path.

A timeout (of the hosts' RTO) is for answers and headers that found no room, and for what links lose.  If the flow has sent
nothing for half of it, all packets without an answer are lost, and as many as the first window has are sent; answers pull the
rest.  Else the first packet that is not acknowledged is sent.  The authors' code sends all whose own time has expired, at once.
"""

title = "NDP"
packet_state = {"seq": "int64", "pull": "int64", "trimmed": "int8"}
frame_state = {"pull": "int64"}
flow_state = {
    "out": "mask[32]",  # packets that were sent and not answered, by their number modulo RING
    "sent_at": "time",  # the last of them
    "missing": "mask[32]",  # packets to be sent again, by their number modulo RING; count: how many
    "count": "int64",
    "again": "int16[128]",  # the first of them, in the order in which they are sent: a ring
    "head": "int64",
    "queued": "int64",
    "clear": "int64",  # bits of packets before this one are clear
    "permitted": "int64",  # end of what may be sent, in bytes
    "pulled": "int64",  # the highest pull number received
    "spare": "int64",  # pulls that have not been used
    "awaited": "int64",  # answers whose pull has not come
    "first": "int64",  # packets of the first window less answers
    "answers": "int64",  # the last HISTORY ones, 1: an ACK
    "answered": "int64",
    "left": "int32",  # paths left in this permutation
    "order": "int8[256]",  # those that are left, less base and 128
    "base": "int64",
    "acks": "int32[64]",  # by path, with `path_penalty`
    "nacks": "int32[64]",
    "all_acks": "int64",
    "all_nacks": "int64",
    "penalty": "int32[64]",  # permutations that a path is left out of before it is tried again
    "idle": "int32[64]",  # permutations that it has been left out of
}
incoming_state = {"pulled": "int64", "owed": "int64", "before": "int64", "after": "int64"}
node_state = {"first": "int64", "last": "int64", "next_pull": "time"}  # flows that are owed pulls: their numbers plus one
port_state = {"headers": "int32", "size": "int32", "until": "time"}  # the data packet on the line
parameters = {
    "iw": (
        "int32 0..2000",
        0,
        "packets in the first window (section 3.2: 23 of 9 KB, 30 of 1.5 KB); 0 = one bandwidth-delay product",
    ),
    "depth": (
        "int32 1..100000",
        8,
        "packets in a queue of data, the one being sent included (section 3.1)",
    ),
    "headers": (
        "int32 0..1000000",
        0,
        "headers of 64 B in a queue of them (section 3.2.4: 1125 beside eight packets of 9 KB); 0 = as many bytes as of data",
    ),
    "weight": ("int32 1..1000000", 10, "headers sent for each data packet (section 3.1)"),
    "pull_gap": ("float64 0.1..10", 1.0, "time between two pulls in those of a full packet"),
    "path_penalty": ("bool", True, "leave out paths on which more is trimmed than on others (section 3.2.3)"),
}
presets = {"default": {"host.ack_priority": "data"}}
scheme_state = {
    "window": "int64",
    "limit": "int64",
    "most": "int64",
    "up": "int64[8]",
    "stride": "int64[8]",
    "paths": "int64",
    "ends": "int64",
    "scored": "int8",
}
fabric = {"queues": 2, "reordering": 1, "one_link": 1, "own_answers": 1, "yields_path": 1}

PULL = 3  # command of frames
HEADERS = 0  # queues
PAYLOADS = 1
RING = 2048
HISTORY = 12
MASK = 4095
TIERS = 8
POSITIVE = 2147483647
PLACES = 256
QUEUED = 128
SCORED = 64
ENOUGH = 100  # answers


def set_up(ndp):
    ndp.window = ndp.iw if ndp.iw > 0 else packets_of(ndp.at.world.bdp, ndp.at.world.quantum) + 1
    ndp.limit = ndp.depth * ndp.at.world.quantum
    ndp.most = ndp.headers * CONTROL_SIZE if ndp.headers > 0 else ndp.limit
    ndp.paths = 1


def packets_of(size, mtu):
    return (size + mtu - 1) // mtu


# ---- Paths: one digit for each tier ----


def set_up_node(ndp, node):
    """All switches of a tier have as many paths up as the one with the most; hashes are below a multiple of their number."""
    up = 0
    for slot in range(node.port_count):
        if port_at(node, slot).up > 0:
            up += 1
    tier = min(node.tier, TIERS - 1)
    ndp.up[tier] = max(ndp.up[tier], up)
    ndp.paths = 1
    for i in range(TIERS):
        ndp.stride[i] = ndp.paths
        ndp.paths *= max(ndp.up[i], 1)
    ndp.ends = max(POSITIVE // ndp.paths, 1) * ndp.paths
    ndp.scored = 1 if ndp.path_penalty and 1 < ndp.paths <= SCORED else 0


def choose_path(ndp, node, port, pkt):
    """The digit of this tier; where there are fewer next hops than it counts, the bases give each of them its turn."""
    count = path_count(node, pkt)
    if pkt.kind > ACK:
        return draw(node, RANDOM_PATH) % count
    return (pkt.hash & POSITIVE) // ndp.stride[min(node.tier, TIERS - 1)] % count


def next_path(ndp, node, flow):
    """The next one of a random order of them; with more than PLACES of them, of as many neighbours, anywhere."""
    mine = my_flow(ndp, flow)
    if mine.left == 0:
        mine.base = draw(node, RANDOM_PATH) % ndp.ends
        list_paths(ndp, flow, ndp.scored)
        if mine.left == 0:
            list_paths(ndp, flow, 0)
    chosen = draw(node, RANDOM_PATH) % mine.left
    path = (mine.base + 128 + mine.order[chosen]) % ndp.ends
    mine.left -= 1
    mine.order[chosen] = mine.order[mine.left]
    return path


def list_paths(ndp, flow, scored):
    """Those of the next permutation."""
    mine = my_flow(ndp, flow)
    for i in range(min(ndp.paths, PLACES)):
        if not (scored and is_left_out(ndp, flow, (mine.base + i) % ndp.paths)):
            mine.order[mine.left] = i - 128
            mine.left += 1


def is_left_out(ndp, flow, path):
    mine = my_flow(ndp, flow)
    if mine.idle[path] < mine.penalty[path]:
        mine.idle[path] += 1
        return True
    mine.idle[path] = 0
    return False


def count_answer(ndp, flow, ends, acks, nacks):
    """Of the path with this hash."""
    mine = my_flow(ndp, flow)
    path = (ends & POSITIVE) % ndp.paths
    mine.acks[path] += acks
    mine.nacks[path] += nacks
    mine.all_acks += acks
    mine.all_nacks += nacks
    if is_outlier(ndp, flow, path):
        mine.penalty[path] += 1
    elif mine.penalty[path] > 0:
        mine.penalty[path] -= 1


def is_outlier(ndp, flow, path):
    mine = my_flow(ndp, flow)
    acks = mine.acks[path]
    nacks = mine.nacks[path]
    return acks + nacks > ENOUGH and 10 * nacks > 3 * acks and 4 * nacks * mine.all_acks > 5 * mine.all_nacks * acks


# ---- Switches ----


def choose_queue(ndp, node, port, pkt):
    if pkt.kind == DATA and not pkt.flags & (TRIMMED | RETURNED):
        return PAYLOADS
    return HEADERS


def admit(ndp, node, port, pkt):
    headers = queue_at(port, HEADERS)
    if pkt.kind == DATA and not pkt.flags & (TRIMMED | RETURNED):
        data = queue_at(port, PAYLOADS)
        mine = my_port(ndp, port)
        stored = data.bytes + (mine.size if mine.until > node.now else 0)
        if stored + pkt.size <= ndp.limit:
            return ADMITTED
        if data.length > 0 and draw(node, RANDOM_QUEUE) & 1:
            exchange_with_tail(node, port, data, pkt)
        return TRIM if headers.bytes + CONTROL_SIZE <= ndp.most else RETURN
    if headers.bytes + pkt.size <= ndp.most:
        return ADMITTED
    if pkt.kind == DATA and not pkt.flags & RETURNED:
        return RETURN
    return DROPPED


def next_queue(ndp, node, port):
    if node.is_host or queue_at(port, PAYLOADS).length == 0:
        return HEADERS
    mine = my_port(ndp, port)
    if queue_at(port, HEADERS).length > 0:
        if mine.headers < ndp.weight:
            mine.headers += 1
            return HEADERS
        mine.headers = 0
    return PAYLOADS


def on_dequeue(ndp, node, port, queue, pkt):
    if queue.index == PAYLOADS:
        mine = my_port(ndp, port)
        mine.size = pkt.size
        mine.until = node.now + whole(pkt.size * port.ps_per_byte)


# ---- Receivers ----


def gap_of(ndp, node):
    """Time between two pulls."""
    return whole(ndp.pull_gap * ndp.at.world.quantum * inbound_ps_per_byte(node))


def on_data(ndp, node, incoming, pkt):
    """Answer the packet; pull one if the pacer is idle, else note that the flow is owed one more."""
    here = my_node(ndp, node)
    mine = my_incoming(ndp, incoming)
    if pkt.flags & TRIMMED:
        my_packet(ndp, pkt).trimmed = 1
    if incoming.complete:
        leave(ndp, node, incoming)
    elif here.first == 0 and node.now >= here.next_pull:
        mine.pulled += 1
        my_packet(ndp, pkt).pull = mine.pulled
        here.next_pull = node.now + gap_of(ndp, node)
    else:
        mine.owed += 1
        if mine.owed == 1:
            join(ndp, node, incoming)
        wake_by(node, ndp.at.index, max(here.next_pull, node.now))
    return True


def join(ndp, node, incoming):
    """Append a flow to those that are owed pulls."""
    here = my_node(ndp, node)
    mine = my_incoming(ndp, incoming)
    mine.before = here.last
    mine.after = 0
    if here.last > 0:
        my_incoming(ndp, incoming_at(node, here.last - 1)).after = incoming.number + 1
    else:
        here.first = incoming.number + 1
    here.last = incoming.number + 1


def leave(ndp, node, incoming):
    """Remove a flow from those that are owed pulls; nothing if it is owed none."""
    here = my_node(ndp, node)
    mine = my_incoming(ndp, incoming)
    if mine.owed == 0:
        return
    mine.owed = 0
    if mine.before > 0:
        my_incoming(ndp, incoming_at(node, mine.before - 1)).after = mine.after
    else:
        here.first = mine.after
    if mine.after > 0:
        my_incoming(ndp, incoming_at(node, mine.after - 1)).before = mine.before
    else:
        here.last = mine.before


def on_timer(ndp, node):
    """The pacer: pull a packet of the first flow, and move it behind the others if it is owed more."""
    here = my_node(ndp, node)
    if here.first == 0:
        return
    incoming = incoming_at(node, here.first - 1)
    mine = my_incoming(ndp, incoming)
    owed = mine.owed - 1
    leave(ndp, node, incoming)
    if owed > 0:
        mine.owed = owed
        join(ndp, node, incoming)
    mine.pulled += 1
    frame = new_frame(node, ndp.at.kind, PULL)
    about_incoming(frame, incoming)
    my_frame(ndp, frame).pull = mine.pulled
    send_with_data(node, incoming.src, frame)
    here.next_pull = node.now + gap_of(ndp, node)
    if here.first > 0:
        wake_by(node, ndp.at.index, here.next_pull)


# ---- Senders ----


def on_start(ndp, node, flow, pkt):
    mine = my_flow(ndp, flow)
    mtu = ndp.at.world.mtu
    mine.permitted = ndp.window * mtu
    mine.first = min(ndp.window, packets_of(flow.size, mtu))
    use_pulls(ndp, flow)


def on_send(ndp, node, flow, pkt):
    carried = my_packet(ndp, pkt)
    carried.seq = pkt.seq
    carried.pull = 0
    carried.trimmed = 0
    pkt.hash = next_path(ndp, node, flow)
    mine = my_flow(ndp, flow)
    set_bit(mine.out, pkt.seq // ndp.at.world.mtu % RING)
    mine.sent_at = node.now


def on_ack(ndp, node, flow, pkt):
    mine = my_flow(ndp, flow)
    carried = my_packet(ndp, pkt)
    clear_acknowledged(ndp, flow)
    clear_bit(mine.out, carried.seq // ndp.at.world.mtu % RING)
    note_answer(ndp, flow, 1 - carried.trimmed)
    if ndp.scored:
        count_answer(ndp, flow, ~pkt.hash, 1 - carried.trimmed, carried.trimmed)
    if carried.trimmed:
        add_missing(ndp, flow, carried.seq, False)
    mine.awaited += 1
    take_pulls(ndp, flow, carried.pull)
    use_pulls(ndp, flow)


def on_control(ndp, node, port, pkt):
    flow = flow_of(node, pkt)
    if flow != NO_FLOW:
        take_pulls(ndp, flow, my_frame(ndp, pkt).pull)
        use_pulls(ndp, flow)
        try_send(node, flow)


def on_return(ndp, node, flow, pkt):
    mine = my_flow(ndp, flow)
    clear_bit(mine.out, pkt.seq // ndp.at.world.mtu % RING)
    note_answer(ndp, flow, 0)
    if ndp.scored:
        count_answer(ndp, flow, pkt.hash, 0, 3)
    add_missing(ndp, flow, pkt.seq, True)
    acks = bits_set(mine.answers)
    if (mine.awaited == 0 and mine.first <= 1) or min(mine.answered, HISTORY) < 4 * acks:
        mine.spare += 1
    use_pulls(ndp, flow)


def on_timeout(ndp, node, flow):
    """Packets, answers, or the pulls that would have sent some, were lost."""
    mine = my_flow(ndp, flow)
    mtu = ndp.at.world.mtu
    if flow.sent > flow.acked:
        add_missing(ndp, flow, flow.acked, True)
        if node.now - mine.sent_at >= ndp.at.world.rto // 2:
            for number in range(flow.acked // mtu + 1, packets_of(flow.sent, mtu)):
                if has_bit(mine.out, number % RING):
                    clear_bit(mine.out, number % RING)
                    add_missing(ndp, flow, number * mtu, False)
    mine.spare = max(mine.spare, min(mine.count - flow.resend, ndp.window), 1)
    use_pulls(ndp, flow)
    try_send(node, flow)


def note_answer(ndp, flow, acknowledged):
    mine = my_flow(ndp, flow)
    mine.answers = (mine.answers << 1 | acknowledged) & MASK
    mine.answered += 1
    mine.first -= 1


def take_pulls(ndp, flow, number):
    """A pull, or an answer that carries one: `number` in all; pulls before it may have been lost."""
    mine = my_flow(ndp, flow)
    if number > mine.pulled:
        mine.spare += number - mine.pulled
        mine.awaited -= number - mine.pulled
        mine.pulled = number


def use_pulls(ndp, flow):
    """Each pull permits a packet: one that is missing, else a new one."""
    mine = my_flow(ndp, flow)
    mtu = ndp.at.world.mtu
    again = min(mine.spare, mine.count - flow.resend)
    flow.resend += again
    mine.spare -= again
    fresh = min(mine.spare, packets_of(max(flow.size - mine.permitted, 0), mtu))
    mine.permitted += fresh * mtu
    mine.spare -= fresh
    flow.window = min(mine.permitted - flow.acked, (RING - 1) * mtu)


def add_missing(ndp, flow, seq, first):
    """To be sent again before all others or behind them."""
    mine = my_flow(ndp, flow)
    i = seq // ndp.at.world.mtu % RING
    if seq >= flow.acked and not has_bit(mine.missing, i):
        set_bit(mine.missing, i)
        mine.count += 1
        if mine.queued < QUEUED:
            mine.head = (mine.head + QUEUED - first) % QUEUED
            mine.again[mine.head if first else (mine.head + mine.queued) % QUEUED] = i
            mine.queued += 1


def clear_acknowledged(ndp, flow):
    """Packets that have arrived are not sent again: after a timeout there are two of one."""
    mine = my_flow(ndp, flow)
    acked = flow.acked // ndp.at.world.mtu
    if mine.count > 0:
        for i in range(mine.clear, acked):
            if has_bit(mine.missing, i % RING):
                clear_bit(mine.missing, i % RING)
                mine.count -= 1
    mine.clear = acked
    if flow.resend > mine.count:
        mine.spare += flow.resend - mine.count
        flow.resend = mine.count


def choose_packet(ndp, node, flow):
    """The first one of the queue, but for those that have been acknowledged since, then those that did not fit into it."""
    mine = my_flow(ndp, flow)
    while mine.queued > 0:
        i = mine.again[mine.head]
        mine.head = (mine.head + 1) % QUEUED
        mine.queued -= 1
        if has_bit(mine.missing, i):
            return taken(ndp, flow, i)
    return lowest(ndp, flow)


def taken(ndp, flow, i):
    """The offset of a missing packet: the only one from the first one not acknowledged on with this number modulo RING."""
    mine = my_flow(ndp, flow)
    clear_bit(mine.missing, i)
    mine.count -= 1
    first = flow.acked // ndp.at.world.mtu
    return (first + (i + RING - first % RING) % RING) * ndp.at.world.mtu


def lowest(ndp, flow):
    """The missing packet with the lowest sequence number: the ring is read once round, from the first one not acknowledged."""
    mine = my_flow(ndp, flow)
    first = flow.acked // ndp.at.world.mtu
    for k in range(RING // 64 + 1):
        word = (first >> 6) + k
        bits = mine.missing[word % (RING // 64)]
        if k == 0:
            bits &= ~(bit(first & 63) - 1)
        if bits:
            return taken(ndp, flow, ((word << 6) + lowest_bit(bits)) % RING)
    return -1
