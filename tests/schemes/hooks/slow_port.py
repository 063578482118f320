"""What uet-htsim's `-failed` makes of a port at a quarter of the rate: queue and thresholds of `trim` are a quarter there, too.

`depth` is that of `trim` at the other ports.  Marks and coins are drawn as there.
"""

port_state = {"size": "int32", "until": "time"}  # the data packet on the line
parameters = {
    "depth": ("int32 1..1000000", 43, "packets in a queue of data at other ports"),
    "slow": ("float64 0..1e9", 300.0, "ps for a byte from which a port is a slow one"),
}
fabric = {"acts": 0}

PAYLOADS = 1
ALWAYS = 2147483648.0


def room(slow_port, fifths):
    """Bytes: a quarter of so many fifths of the queue, these in packets rounded up."""
    return (slow_port.depth * fifths + 4) // 5 * slow_port.at.world.quantum // 4


def admit(slow_port, node, port, pkt):
    if pkt.kind != DATA or pkt.flags & TRIMMED or port.ps_per_byte < slow_port.slow:
        return ADMITTED
    data = queue_at(port, PAYLOADS)
    mine = my_port(slow_port, port)
    stored = data.bytes + (mine.size if mine.until > node.now else 0)
    if stored + pkt.size <= room(slow_port, 5):
        return ADMITTED
    if draw(node, RANDOM_QUEUE) & 1:
        exchange_with_tail(node, port, data, pkt)
    return TRIM


def on_dequeue(slow_port, node, port, queue, pkt):
    if queue.index != PAYLOADS or pkt.kind != DATA or port.ps_per_byte < slow_port.slow:
        return
    mine = my_port(slow_port, port)
    mine.size = pkt.size
    mine.until = node.now + whole(pkt.size * port.ps_per_byte)
    above = queue.bytes - room(slow_port, 1)
    if above > 0 and draw(node, RANDOM_MARK) < ALWAYS * above / (room(slow_port, 4) - room(slow_port, 1)):
        pkt.ecn = 1
        port.ecn_marks += 1
