"""Trimming as in Ultra Ethernet's switches (here: in uet-htsim): what finds no room keeps its header, which goes ahead of data.

Every port has a queue of `depth` packets of data, the one being sent included, and one of headers, of twice as many bytes, which
is served first.  Data that finds no room is cut to 64 B, or, with probability 1/2, the last packet in the queue is, in whose
place it is stored; a header that finds no room is dropped.  `uec` answers headers by NACKs; under a transport whose receivers do
not know of them they are ignored, and timeouts repair what was cut.

Data is marked (ECN) when it leaves, by the bytes left in its queue: above `marked` packets always, above `unmarked` with a
probability that rises linearly.  The simulator looks when the last bit has left, this part when the first one leaves.

All data has one priority, below that of headers; acknowledgements are in the control queue (`host.ack_priority`).
"""

port_state = {"size": "int32", "until": "time"}  # the data packet on the line
scheme_state = {"limit": "int64", "from_bytes": "int64", "to_bytes": "int64"}
parameters = {
    "depth": ("int32 0..1000000", 0, "packets in a queue of data; 0 = those of one bandwidth-delay product, rounded up"),
    "unmarked": ("int32 0..1000000", 0, "no packet is marked up to so many left; 0 = a fifth of the queue, rounded up"),
    "marked": ("int32 0..1000000", 0, "every packet is marked beyond so many left; 0 = four fifths of the queue, rounded up"),
    "marks": ("bool", True, "mark packets"),
    "mark_last": ("bool", True, "at the last switch, too"),
}
fabric = {"queues": 2, "reordering": 1, "yields_data": 1, "acts": 0}

HEADERS = 0  # priorities, and so queues
PAYLOADS = 1
ALWAYS = 2147483648.0  # draws are below it


def set_up(trim):
    quantum = trim.at.world.quantum
    depth = trim.depth if trim.depth > 0 else (trim.at.world.bdp + quantum - 1) // quantum
    trim.limit = depth * quantum
    trim.from_bytes = (trim.unmarked if trim.unmarked > 0 else (depth + 4) // 5) * quantum
    trim.to_bytes = (trim.marked if trim.marked > 0 else (4 * depth + 4) // 5) * quantum


def on_send(trim, node, flow, pkt):
    pkt.priority = PAYLOADS


def admit(trim, node, port, pkt):
    if pkt.kind != DATA:
        return ADMITTED
    headers = queue_at(port, HEADERS)
    if pkt.flags & TRIMMED:
        return ADMITTED if headers.bytes + pkt.size <= 2 * trim.limit else DROPPED
    data = queue_at(port, PAYLOADS)
    mine = my_port(trim, port)
    stored = data.bytes + (mine.size if mine.until > node.now else 0)
    if stored + pkt.size <= trim.limit:
        return ADMITTED
    if data.length > 0 and draw(node, RANDOM_QUEUE) & 1:
        exchange_with_tail(node, port, data, pkt)
    return TRIM if headers.bytes + CONTROL_SIZE <= 2 * trim.limit else DROPPED


def on_data(trim, node, incoming, pkt):
    """Where no other part decides: headers are not answered."""
    if pkt.flags & TRIMMED:
        return False
    return True


def on_dequeue(trim, node, port, queue, pkt):
    if queue.index != PAYLOADS:
        return
    mine = my_port(trim, port)
    mine.size = pkt.size
    mine.until = node.now + whole(pkt.size * port.ps_per_byte)
    left = queue.bytes
    if left <= trim.from_bytes or not trim.marks or pkt.kind != DATA:
        return
    if not trim.mark_last and port.peer_node < trim.at.world.host_count:
        return
    chance = ALWAYS
    if left <= trim.to_bytes:
        chance = ALWAYS * (left - trim.from_bytes) / (trim.to_bytes - trim.from_bytes)
    if draw(node, RANDOM_MARK) < chance:
        pkt.ecn = 1
        port.ecn_marks += 1
