"""pFabric (Alizadeh et al., SIGCOMM 2013): the packet of the flow with the fewest bytes left goes first; the worst is dropped.

Packets carry the bytes that their flow has left, which are those neither acknowledged nor known to have arrived (section 4).
A port stores `capacity` bytes.  When it is full, the packet with the most bytes left is dropped, the latest of these.  It sends
the earliest packet of the flow that has the packet with the fewest bytes left, so that packets of a flow do not overtake each
other and old packets with larger numbers do not starve (section 4.1).

Rate control is minimal (4.2): a window of one bandwidth-delay product from the start; after a timeout, a small fixed one
(`host.rto`), a window of one packet that every ACK of new data enlarges by one, up to `largest`.  No other reaction to losses,
none to duplicate ACKs.  ACKs tell how much has arrived, which enlarges the window.  A timeout sends everything from the first
missing byte on again.  It comes with the first quarter of an RTO that begins one RTO or more after the last new ACK: after 45 to
56 us.  A flow that times out repeatedly sends a packet per RTO; the paper's probes with packets without payload after five
timeouts.

The authors' simulator YAPS has other rules, each a parameter here, and `simulator` has all of them:

* Packets go into the NIC's queue as soon as the window lets them (`stamp = "queue"`), with the bytes that are left then.  That
  queue is a port like those of switches, of `nic` bytes, and has most of the drops, as in the paper.
* What has arrived is not sent again (`again = "missing"`).  There the sender looks into the receiver's set; here ACKs tell it
  which packets have arrived, so that it does not know of the last half RTT, nor of more than 1024 packets behind a missing one.
* Windows begin with 12 packets of 1460 B and grow to 15 (`largest`).  `windows = "code"`: only ACKs of new data let packets go;
  after a timeout the window grows by a packet per ACK up to half of what it was, from there on by a packet per window; timeouts
  come 45 us after the last new ACK, or the last timeout.

In three small cases beside YAPS (tests/schemes/test_beside_yaps.py), its events of equal time put in order, each flow ends within
40 ns of its time there, with as many drops; equal flows of an incast take turns in another order after timeouts, their sum within
0.5 %.  What is left: an ACK has no place in a NIC's queue here, but goes first, as there.
"""

title = "PFabric"
parameters = {
    "capacity": ("bytes", 0, "of a port (section 4.1); 0 = two bandwidth-delay products"),
    "window": ("bytes", 0, "of a flow at its start (section 4.2); 0 = one bandwidth-delay product"),
    "largest": ("bytes", 0, "window to which new ACKs let a flow grow; less than `window` = that"),
    "stamp": (
        "choice send queue",
        "send",
        "when the bytes left are written: when a packet is sent, or may be and enters the NIC's queue (authors' simulator)",
    ),
    "nic": ("bytes", 0, 'of a NIC\'s queue with `stamp = "queue"`; 0 = packets wait without limit'),
    "again": (
        "choice all missing",
        "all",
        "what a timeout sends again: all from the first missing byte on, or what is not known to have arrived",
    ),
    "windows": (
        "choice paper code",
        "paper",
        "which ACKs open windows, how these grow after a timeout, and when that comes; code: authors' simulator",
    ),
}
presets = {
    "default": {"host.rto": "45us"},
    "simulator": {
        "capacity": "36864B",
        "window": "17520B",
        "largest": "21900B",
        "stamp": "queue",
        "nic": "36864B",
        "again": "missing",
        "windows": "code",
        "host.rto": "45us",
    },
}
fabric = {"reordering": 1, "nic_order": "1 + stamp", "exact_rto": "windows"}
packet_state = {"bytes": "int64", "number": "int32"}
flow_state = {
    "w": "int64",
    "acked": "int64",
    "arrived": "int64",
    "next": "int64",  # before it nothing is sent again
    "clear": "int64",  # bits of packets before this one are clear
    "known": "mask[16]",  # packets that have arrived behind a missing one, by their number modulo RING
    "half": "int64",  # window up to which it grows by a packet per ACK; 0: without a timeout
    "grown": "int32",  # ACKs since it grew last, beyond that
}
scheme_state = {"most": "int64", "room": "int64", "w_first": "int64", "w_max": "int64"}

RING = 1024
LAST_BIT = 1023  # mask of the ring
NONE = -1
QUEUE = 1  # stamp
MISSING = 1  # again
CODE = 1  # windows


def set_up(pfabric):
    pfabric.most = pfabric.capacity if pfabric.capacity > 0 else 2 * pfabric.at.world.bdp
    pfabric.room = pfabric.nic if pfabric.nic > 0 else NEVER
    pfabric.w_first = pfabric.window if pfabric.window > 0 else pfabric.at.world.bdp
    pfabric.w_max = max(pfabric.w_first, pfabric.largest)


# ---- Port, of a switch or with `stamp = "queue"` of a host ----


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
    most = pfabric.room if node.is_host else pfabric.most
    while port.bytes + pkt.size > most:
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
    set_rank(node, flow, flow.size - mine.arrived)
    if pfabric.again == MISSING:
        flow.resend = next_missing(pfabric, flow) != NONE


def grow(pfabric, flow):
    """An ACK of new data."""
    mine = my_flow(pfabric, flow)
    mtu = pfabric.at.world.mtu
    if mine.half > 0 and mine.w >= mine.half:
        mine.grown += 1
        if mine.grown * mtu < mine.w:
            return
        mine.grown = 0
    mine.w = min(mine.w + mtu, pfabric.w_max)


def note_arrival(pfabric, flow, number):
    """Remember that this packet has arrived."""
    mine = my_flow(pfabric, flow)
    while (mine.clear + 1) * pfabric.at.world.mtu <= flow.acked:
        clear_bit(mine.known, mine.clear & LAST_BIT)
        mine.clear += 1
    if number >= mine.clear and number < mine.clear + RING:
        set_bit(mine.known, number & LAST_BIT)


def next_missing(pfabric, flow):
    """First byte of the next packet that is to be sent again; NONE if there is none within the window."""
    mine = my_flow(pfabric, flow)
    mtu = pfabric.at.world.mtu
    end = min(flow.sent, flow.acked + flow.window)
    mine.next = max(mine.next, flow.acked)
    while mine.next < end:
        number = mine.next // mtu
        if number >= mine.clear + RING or not has_bit(mine.known, number & LAST_BIT):
            return mine.next
        mine.next += mtu
    return NONE


def choose_packet(pfabric, node, flow):
    return next_missing(pfabric, flow)


def on_start(pfabric, node, flow, pkt):
    my_flow(pfabric, flow).w = pfabric.w_first
    set_window(pfabric, node, flow)


def on_send(pfabric, node, flow, pkt):
    mine = my_flow(pfabric, flow)
    pkt.priority = 0
    my_packet(pfabric, pkt).bytes = flow.size - mine.arrived
    if pfabric.again == MISSING:
        mine.next = max(mine.next, pkt.seq + pkt.payload)
        flow.resend = next_missing(pfabric, flow) != NONE


def on_data(pfabric, node, incoming, pkt):
    my_packet(pfabric, pkt).bytes = incoming.received
    my_packet(pfabric, pkt).number = pkt.seq // pfabric.at.world.mtu
    return 1


def on_ack(pfabric, node, flow, pkt):
    mine = my_flow(pfabric, flow)
    before = mine.acked
    mine.acked = flow.acked
    mine.arrived = max(mine.arrived, min(my_packet(pfabric, pkt).bytes, flow.size))
    if pfabric.again == MISSING:
        note_arrival(pfabric, flow, my_packet(pfabric, pkt).number)
    if mine.acked > before:
        grow(pfabric, flow)
    if mine.acked > before or pfabric.windows != CODE:
        set_window(pfabric, node, flow)


def on_timeout(pfabric, node, flow):
    flow.backoff = 0
    mine = my_flow(pfabric, flow)
    mtu = pfabric.at.world.mtu
    if pfabric.windows == CODE:
        mine.half = max(mine.w // mtu // 2, 2) * mtu
    mine.w = mtu
    mine.next = flow.acked
    set_window(pfabric, node, flow)
    if pfabric.again == MISSING:
        try_send(node, flow)
    else:
        send_from(node, flow, flow.acked)
