"""Notes how fast the links of a host bring data, in thousandths of a picosecond per byte."""

counts = {"last": "when the last packet came", "most": "the most at any time"}


def on_data(inbound, node, incoming, pkt):
    mine = my_node(inbound, node)
    mine.last = whole(1000.0 * inbound_ps_per_byte(node) + 0.5)
    mine.most = max(mine.most, mine.last)
    return BY_DEFAULT
