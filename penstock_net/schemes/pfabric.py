"""pFabric (Alizadeh et al., SIGCOMM 2013): the packet of the flow with the fewest bytes left goes first; the worst is dropped.

Packets carry the bytes that their flow has left, which are those neither acknowledged nor known to have arrived (section 4).
A port stores `capacity` bytes.  When it is full, the packet with the most bytes left is dropped, the latest of these.  It sends
the earliest packet of the flow that has the packet with the fewest bytes left, so that packets of a flow do not overtake each
other and old packets with larger numbers do not starve (section 4.1).

Rate control is minimal (4.2): a window of one bandwidth-delay product from the start; after a timeout, a small fixed one
(`host.rto`), a window of one packet that every ACK of new data enlarges by one, up to the former.  No other reaction to losses,
none to duplicate ACKs.  As in the simulator YAPS, ACKs tell how much has arrived, which enlarges the window, and a timeout
sends everything from the first missing byte on again.  A flow that times out repeatedly sends a packet per RTO; the paper's
probes with packets without payload after five timeouts.
"""

title = "PFabric"
parameters = {
    "capacity": ("bytes", 0, "of a port (section 4.1); 0 = two bandwidth-delay products"),
    "window": ("bytes", 0, "of a flow (section 4.2); 0 = one bandwidth-delay product"),
}
presets = {
    "default": {"host.rto": "45us"},
    # 24 and 12 packets of 1500 B (YAPS)
    "simulator": {"capacity": "36KB", "window": "18KB", "host.rto": "45us"},
}
fabric = {"reordering": 1, "nic_order": 1}
packet_state = {"bytes": "int64"}
flow_state = {"w": "int64", "acked": "int64", "arrived": "int64"}
scheme_state = {"most": "int64", "w_max": "int64"}


def set_up(pfabric):
    pfabric.most = pfabric.capacity if pfabric.capacity > 0 else 2 * pfabric.at.world.bdp
    pfabric.w_max = pfabric.window if pfabric.window > 0 else pfabric.at.world.bdp


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


def set_window(pfabric, flow):
    """Bytes that have arrived behind a missing one are no longer under way."""
    mine = my_flow(pfabric, flow)
    flow.window = mine.w + max(mine.arrived - flow.acked, 0)


def on_start(pfabric, node, flow, pkt):
    my_flow(pfabric, flow).w = pfabric.w_max
    set_window(pfabric, flow)
    set_rank(node, flow, flow.size)


def on_send(pfabric, node, flow, pkt):
    pkt.priority = 0
    my_packet(pfabric, pkt).bytes = flow.size - my_flow(pfabric, flow).arrived


def on_data(pfabric, node, incoming, pkt):
    my_packet(pfabric, pkt).bytes = incoming.received
    return 1


def on_ack(pfabric, node, flow, pkt):
    mine = my_flow(pfabric, flow)
    if flow.acked > mine.acked:
        mine.acked = flow.acked
        mine.w = min(mine.w + pfabric.at.world.mtu, pfabric.w_max)
    mine.arrived = max(mine.arrived, min(my_packet(pfabric, pkt).bytes, flow.size))
    set_window(pfabric, flow)
    set_rank(node, flow, flow.size - mine.arrived)


def on_timeout(pfabric, node, flow):
    flow.backoff = 0
    my_flow(pfabric, flow).w = pfabric.at.world.mtu
    set_window(pfabric, flow)
    send_from(node, flow, flow.acked)
