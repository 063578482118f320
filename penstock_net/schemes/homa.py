"""Homa (Montazeri et al., SIGCOMM 2018), section 3: RTTbytes are unscheduled ("blind"), the rest waits for grants.

Receivers grant a packet at a time to the K messages with the fewest bytes to grant, one of each sender; each of them has at
most RTTbytes, and a packet, that are granted or unscheduled and have not arrived (sections 3.3 and 3.5).  Receivers also choose
the priorities (3.4).  Unscheduled packets use the first `unscheduled` levels, by the bytes that the message has left at that
packet, and `cutoffs`.  The m messages that are granted use the lowest m levels, the best one the highest of these, so that a new
one with fewer bytes goes above them.  Packets of the last RTTbytes use a level of unscheduled packets if that is higher.  Senders
send the message with the fewest bytes unsent (3.2).  As in the authors' simulator, the message with the fewest bytes not granted
is the best one, and a message is granted a packet in the time in which the receiver's link brings one.

RTTbytes is one number for the network, by its longest base RTT, or with `own_rtt` each message's own: its sender sends blindly
what its link carries in the base RTT of the path, and its receiver, whom the packets tell it, grants what its own link brings.

Nothing is acknowledged but the whole message.  A receiver that hears nothing for `resend`, of a message of which bytes are
missing, asks for the first of them (3.7): one packet if later ones have arrived, else all.  It grants no more than the 4095
packets from there on that a receiver here can note, so that silence follows a loss.  A sender that has never been
granted anything, or has sent everything, sends the first packet again after each RTO until it is answered, because all
that was blind may be lost, or the acknowledgement.  The networks of the paper spray packets (`homa+spray`) and drop none.
"""

parameters = {
    "rtt_bytes": ("bytes", 0, "RTTbytes, of payload, rounded up to whole packets; 0 = one bandwidth-delay product"),
    "own_rtt": ("bool", False, "RTTbytes of each message, by the base RTT of its path and the host's link, not rtt_bytes"),
    "priorities": ("int32 2..32", 8, "levels P (section 3.4)"),
    "unscheduled": ("int32 1..31", 4, "levels of blind packets, by their share of the bytes (section 3.4)"),
    "cutoffs": (
        "bytes[30]",
        [],
        "most bytes left at each level of blind packets but the last (docs/schemes.md, Cutoffs of Homa)",
    ),
    "k": ("int32 0..31", 0, "messages that are granted (section 3.5); 0 = a level for each: P - unscheduled"),
    "resend": ("time", "5ms", "silence after which a receiver asks for what is missing (the authors' kernel module)"),
}
fabric = {"queues": "priorities", "reordering": 1, "nic_order": 1, "one_link": 1, "own_answers": 1, "round_trips": "own_rtt"}
packet_state = {"size": "int64", "rtt": "time"}
flow_state = {"ahead": "int64", "missing": "int64", "level": "int32", "heard": "int32"}
frame_state = {"offset": "int64", "granted": "int64", "level": "int32"}
incoming_state = {
    "size": "int64",
    "ahead": "int64",
    "granted": "int64",
    "next_grant": "time",
    "heard_at": "time",
    "arrived": "int64",
}
node_state = {"sources": "int32[32]"}
scheme_state = {"ahead": "int64", "most": "int64", "last": "int64"}

GRANT = 3  # commands of frames
RESEND = 4
NOTED = 4095  # packets from the first missing one on: a receiver has no place for others


def set_up(homa):
    """RTTbytes in whole packets; K; the last level of blind packets."""
    homa.ahead = in_packets(homa, homa.rtt_bytes if homa.rtt_bytes > 0 else homa.at.world.bdp)
    homa.most = homa.k if homa.k > 0 else max(homa.priorities - homa.unscheduled, 1)
    homa.last = min(homa.unscheduled, homa.priorities) - 1


def in_packets(homa, bytes):
    """Rounded up to whole packets."""
    mtu = homa.at.world.mtu
    return (bytes + mtu - 1) // mtu * mtu


def own_ahead(homa, rtt, ps_per_byte: float):
    """RTTbytes of a message whose path has this base RTT, by what its sender's link takes or its receiver's brings."""
    return in_packets(homa, ceil(rtt / ps_per_byte))


def blind_level(homa, left):
    """The level of a blind packet of a message that has so many bytes left, with those of the packet."""
    for level in range(homa.last):
        if left <= homa.cutoffs[level]:
            return level
    return homa.last


# ---- Sender ----


def on_start(homa, node, flow, pkt):
    mine = my_flow(homa, flow)
    mine.ahead = homa.ahead
    if homa.own_rtt:
        mine.ahead = own_ahead(homa, round_trip_of(node, flow), port_of(flow).ps_per_byte)
    flow.window = mine.ahead
    set_rank(node, flow, flow.size)


def on_send(homa, node, flow, pkt):
    mine = my_flow(homa, flow)
    left = flow.size - pkt.seq
    level = blind_level(homa, left)
    if pkt.seq >= mine.ahead and (left > mine.ahead or level > mine.level):
        level = mine.level
    pkt.priority = level
    my_packet(homa, pkt).size = flow.size
    if homa.own_rtt:
        my_packet(homa, pkt).rtt = round_trip_of(node, flow)
    set_rank(node, flow, flow.size - flow.sent)


def on_control(homa, node, port, pkt):
    """GRANT: send up to a byte, at a level.  RESEND: the same, and send again what has been sent from an offset on."""
    flow = flow_of(node, pkt)
    if flow == NO_FLOW:
        return
    mine = my_flow(homa, flow)
    frame = my_frame(homa, pkt)
    mine.heard = 1
    flow.window = max(flow.window, frame.granted)
    if command_of(pkt) == GRANT:
        mine.level = frame.level
    else:
        mtu = homa.at.world.mtu
        mine.missing = frame.offset
        flow.resend = max(min(frame.granted, flow.sent) - frame.offset + mtu - 1, 0) // mtu
    try_send(node, flow)


def choose_packet(homa, node, flow):
    mine = my_flow(homa, flow)
    offset = mine.missing
    mine.missing += homa.at.world.mtu
    return offset


def on_timeout(homa, node, flow):
    flow.backoff = 0
    if flow.sent > 0 and (not my_flow(homa, flow).heard or flow.sent == flow.size):
        my_flow(homa, flow).missing = 0
        flow.resend = 1
        try_send(node, flow)


# ---- Receiver ----


def on_data(homa, node, incoming, pkt):
    mine = my_incoming(homa, incoming)
    if incoming.received > mine.arrived:  # what a sender repeats for lack of an answer is not news
        mine.arrived = incoming.received
        mine.heard_at = node.now
    if incoming.complete:
        set_flow_timer(node, incoming, NEVER)
    elif mine.size == 0:
        mine.size = my_packet(homa, pkt).size
        mine.ahead = homa.ahead
        if homa.own_rtt:
            mine.ahead = own_ahead(homa, my_packet(homa, pkt).rtt, inbound_ps_per_byte(node))
        mine.granted = min(mine.size, mine.ahead)
        if mine.granted < mine.size:
            rank_incoming(node, incoming, mine.size - mine.granted)
        set_flow_timer(node, incoming, node.now + homa.resend)
    elif pkt.flags & RETRANSMITTED and incoming.received > incoming.expected:
        ask_again(homa, node, incoming)
    grant(homa, node)
    return incoming.complete


def on_timer(homa, node):
    grant(homa, node)


def is_other(homa, node, count, src):
    """Whether a sender is none of those noted; it is noted then."""
    sources = my_node(homa, node).sources
    for i in range(count):
        if sources[i] == src:
            return 0
    sources[count] = src
    return 1


def grant(homa, node):
    """Grant a packet to each of the K best messages, of different senders, that has room and whose time it is."""
    m = 0
    incoming = first_ranked(node)
    while incoming != NO_INCOMING and m < homa.most:
        m += is_other(homa, node, m, incoming.src)
        incoming = incoming.after
    rank = 0
    incoming = first_ranked(node)
    while incoming != NO_INCOMING and rank < m:
        following = incoming.after
        if is_other(homa, node, rank, incoming.src):
            level = max(homa.priorities - m + rank, min(homa.unscheduled, homa.priorities - 1))
            grant_one(homa, node, incoming, level)
            rank += 1
        incoming = following


def grant_one(homa, node, incoming, level):
    mine = my_incoming(homa, incoming)
    if mine.granted - incoming.received >= mine.ahead:
        return
    if node.now < mine.next_grant:
        wake_by(node, homa.at.index, mine.next_grant)
        return
    payload = min(mine.size - mine.granted, homa.at.world.mtu)
    if mine.granted + payload - incoming.expected > NOTED * homa.at.world.mtu:
        return
    mine.granted += payload
    mine.next_grant = node.now + whole((payload + homa.at.world.header) * inbound_ps_per_byte(node))
    tell(homa, node, incoming, GRANT, mine.granted, level)
    if mine.granted == mine.size:
        unrank_incoming(node, incoming)
        return
    rank_incoming(node, incoming, mine.size - mine.granted)
    if mine.granted - incoming.received < mine.ahead:
        wake_by(node, homa.at.index, mine.next_grant)


def tell(homa, node, incoming, command, granted, level):
    frame = new_frame(node, homa.at.kind, command)
    about_incoming(frame, incoming)
    my_frame(homa, frame).offset = incoming.expected
    my_frame(homa, frame).granted = granted
    my_frame(homa, frame).level = level
    send_to_host(node, incoming.src, frame)


def ask_again(homa, node, incoming):
    """Ask for the first missing packet if later ones have arrived, else for all that was granted."""
    missing_to = my_incoming(homa, incoming).granted
    if incoming.received > incoming.expected:
        missing_to = incoming.expected + homa.at.world.mtu
    tell(homa, node, incoming, RESEND, missing_to, 0)


def on_flow_timer(homa, node, incoming):
    mine = my_incoming(homa, incoming)
    if mine.granted == incoming.received:
        mine.heard_at = node.now
    elif node.now >= mine.heard_at + homa.resend:
        mine.heard_at = node.now
        ask_again(homa, node, incoming)
    set_flow_timer(node, incoming, mine.heard_at + homa.resend)
