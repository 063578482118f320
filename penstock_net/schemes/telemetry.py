"""In-band network telemetry (INT), as HPCC defines it (Li et al., SIGCOMM 2019, section 4.1, figure 4), for schemes that read
it.

Every switch adds a record of the egress link to every data packet that it sends: ts, txBytes, qLen and B, as 1 / ps_per_byte;
`path` is the XOR of the switches, by which a sender notices another path.  The ACK returns it all.  txBytes and qLen do not
include the packet that carries them.  The header has `int_bytes` at any number of hops; the first five write into it.

A scheme that includes this one and declares packet_state = "telemetry" reads the records in on_ack.
"""

structs = {"link": {"ts": "time", "tx_bytes": "int64", "ps_per_byte": "float64", "qlen": "int32"}}
packet_state = {"hops": "int32", "path": "int32", "ack_l": "link[5]"}
parameters = {
    "int_bytes": ("bytes 0..1000", 42, "telemetry on every data packet and ACK (HPCC section 4.1: 5 hops of 8 B and 2 B)"),
}
fabric = {"acts": 0}

MAX_HOP = 5


def on_send(me, node, flow, pkt):
    mine = my_packet(me, pkt)
    mine.hops = 0
    mine.path = 0
    pkt.size += me.int_bytes


def on_dequeue(me, node, port, queue, pkt):
    """A packet has left its queue and is about to be sent."""
    if pkt.kind != DATA:
        return
    mine = my_packet(me, pkt)
    mine.path ^= node.id
    if mine.hops < MAX_HOP:
        link = ack_l_at(mine, mine.hops)
        mine.hops += 1
        link.ts = node.now
        link.tx_bytes = port.tx_bytes
        link.qlen = port.bytes
        if not pkt.held:  # Floodgate section 8: telemetry does not see what is held back
            link.qlen -= port.held
        link.ps_per_byte = port.ps_per_byte
