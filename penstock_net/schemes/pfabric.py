"""pFabric (Alizadeh et al., SIGCOMM 2013): the packet of the flow with the fewest bytes left goes first; the worst is dropped.

Packets carry the bytes that their flow has left, which are those neither acknowledged nor known to have arrived (section 4).
A port stores `capacity` bytes.  When it is full, the packet with the most bytes left is dropped, the latest of these.  It sends
the earliest packet of the flow that has the packet with the fewest bytes left, so that packets of a flow do not overtake each
other and old packets with larger numbers do not starve (section 4.1).

Rate control is minimal (4.2): a window of one bandwidth-delay product from the start; after a timeout, a small fixed one
(`host.rto`), a window of one packet that every ACK of new data enlarges by one, up to `largest`.  No other reaction to losses,
none to duplicate ACKs.  As in the simulator YAPS, ACKs tell how much has arrived, which enlarges the window.  A timeout sends
everything from the first missing byte on again.  It comes with the first quarter of an RTO that begins one RTO or more after the
last new ACK: after 45 to 56 us.  A flow that times out repeatedly sends a packet per RTO; the paper's probes with packets without
payload after five timeouts.

`simulator` is YAPS as far as it goes: a window of 12 packets of 1460 B that grows to 15, and the bytes left are those when the
window lets a packet into the NIC's queue (`stamp`), not when it is sent; of more than 16 such moments whose packets wait, the
last ones count as one.  What YAPS has beyond that: its NICs' queues have the same capacity and drop most of all that is dropped,
where here packets wait without limit, so that counts of drops cannot be compared; what has arrived is not sent again, since the
sender looks into the receiver's set; timeouts come after 45 us exactly; after one, windows grow by a packet per RTT from half on.
"""

title = "PFabric"
parameters = {
    "capacity": ("bytes", 0, "of a port (section 4.1); 0 = two bandwidth-delay products"),
    "window": ("bytes", 0, "of a flow at its start (section 4.2); 0 = one bandwidth-delay product"),
    "largest": ("bytes", 0, "window to which new ACKs let a flow grow; less than `window` = that"),
    "stamp": (
        "choice send queue",
        "send",
        "when the bytes left are written: when a packet is sent, or may be (authors' simulator)",
    ),
}
presets = {
    "default": {"host.rto": "45us"},
    "simulator": {"capacity": "36864B", "window": "17520B", "largest": "21900B", "stamp": "queue", "host.rto": "45us"},
}
fabric = {"reordering": 1, "nic_order": 1}
packet_state = {"bytes": "int64"}
flow_state = {
    "w": "int64",
    "acked": "int64",
    "arrived": "int64",
    "stamps": "int64[16]",  # of packets that may be sent, a ring of WAITING: bytes left, and the end of those with so many
    "ends": "int64[16]",
    "first": "int32",
    "count": "int32",
}
scheme_state = {"most": "int64", "w_first": "int64", "w_max": "int64"}

WAITING = 16
LAST_WAITING = 15  # mask of the ring
QUEUE = 1  # stamp


def set_up(pfabric):
    pfabric.most = pfabric.capacity if pfabric.capacity > 0 else 2 * pfabric.at.world.bdp
    pfabric.w_first = pfabric.window if pfabric.window > 0 else pfabric.at.world.bdp
    pfabric.w_max = max(pfabric.w_first, pfabric.largest)


# ---- Switch ----


def left(pfabric, pkt):
    """Bytes that the flow of a queued packet has left; 0 of an ACK, which is queued with the data if hosts say so."""
    if pkt.kind == DATA:
        return my_packet(pfabric, pkt).bytes
    return 0


def rank_packet(pfabric, node, port, pkt):
    return left(pfabric, pkt)


def admit(pfabric, node, port, pkt):
    """Make room by dropping what has more bytes left than the arriving packet."""
    mine = left(pfabric, pkt)
    while port.bytes + pkt.size > pfabric.most:
        worst = worst_packet(node, port)
        if worst == NO_PACKET or left(pfabric, worst) <= mine:
            return DROPPED
        drop_queued(node, port, queue_at(port, 0), worst)
    return ADMITTED


def next_queue(pfabric, node, port):
    best = best_packet(node, port)
    if best != NO_PACKET:
        move_to_head(node, port, queue_at(port, 0), earliest_packet(node, port, best))
    return 0


# ---- Host ----


def set_window(pfabric, node, flow):
    """Bytes that have arrived behind a missing one are no longer under way."""
    mine = my_flow(pfabric, flow)
    flow.window = mine.w + max(mine.arrived - flow.acked, 0)
    rank = flow.size - mine.arrived
    if pfabric.stamp == QUEUE:
        rank = newest_stamp(pfabric, flow, rank)
    set_rank(node, flow, rank)


def newest_stamp(pfabric, flow, stamp):
    """Note that packets which may be sent from now on have this stamp; returns that of the last ones."""
    mine = my_flow(pfabric, flow)
    end = flow.acked + flow.window
    while mine.count > 0 and mine.ends[mine.first] <= flow.sent:
        mine.first = (mine.first + 1) & LAST_WAITING
        mine.count -= 1
    if mine.count == 0 or mine.ends[(mine.first + mine.count - 1) & LAST_WAITING] < min(end, flow.size):
        mine.count = min(mine.count + 1, WAITING)
        i = (mine.first + mine.count - 1) & LAST_WAITING
        mine.stamps[i] = stamp
        mine.ends[i] = end
    return mine.stamps[(mine.first + mine.count - 1) & LAST_WAITING]


def stamp_of(pfabric, flow, offset):
    """The stamp of the packet that is being sent."""
    mine = my_flow(pfabric, flow)
    while mine.count > 1 and mine.ends[mine.first] <= offset:
        mine.first = (mine.first + 1) & LAST_WAITING
        mine.count -= 1
    return mine.stamps[mine.first]


def on_start(pfabric, node, flow, pkt):
    my_flow(pfabric, flow).w = pfabric.w_first
    set_window(pfabric, node, flow)


def on_send(pfabric, node, flow, pkt):
    pkt.priority = 0
    my_packet(pfabric, pkt).bytes = flow.size - my_flow(pfabric, flow).arrived
    if pfabric.stamp == QUEUE:
        my_packet(pfabric, pkt).bytes = stamp_of(pfabric, flow, pkt.seq)


def on_data(pfabric, node, incoming, pkt):
    my_packet(pfabric, pkt).bytes = incoming.received
    return 1


def on_ack(pfabric, node, flow, pkt):
    mine = my_flow(pfabric, flow)
    if flow.acked > mine.acked:
        mine.acked = flow.acked
        mine.w = min(mine.w + pfabric.at.world.mtu, pfabric.w_max)
    mine.arrived = max(mine.arrived, min(my_packet(pfabric, pkt).bytes, flow.size))
    set_window(pfabric, node, flow)


def on_timeout(pfabric, node, flow):
    flow.backoff = 0
    mine = my_flow(pfabric, flow)
    mine.w = pfabric.at.world.mtu
    mine.count = 0
    set_window(pfabric, node, flow)
    send_from(node, flow, flow.acked)
