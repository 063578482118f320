"""Packets of a flow have all priorities in turn, from that of its number on."""

parameters = {"count": ("int32 1..8", 8, "priorities")}
fabric = {"queues": "count", "reordering": 1}


def on_send(several, node, flow, pkt):
    pkt.priority = (flow.number + pkt.seq // several.at.world.mtu) % several.count
