"""PIAS (Bai et al., NSDI 2015): strict priorities without knowledge of flow sizes, by the bytes that a flow has sent; over DCTCP.

A flow begins at the highest of eight levels and is demoted by one at each of the `thresholds`, so that short flows end at high
levels and long ones share the lowest, as in a multi-level feedback queue.  Within a flow no packet overtakes an earlier one.
A flow that has timed out `timeouts` times in succession is at the highest level again, for it may have starved.

A packet is marked when its port, not its queue, has more than `k` bytes.  `ecn`, which marks by queue, marks no others if its
k_min is not smaller.  The best thresholds depend on workload and load; those here are of the authors' simulation
(HKUST-SING/PIAS-NS2): web search, and data mining at a load of 0.8.  There NICs, too, send by level (`nic = "levels"`): a
short flow does not wait for a turn among the long ones of its host.
"""

title = "PIAS"
includes = ["dctcp"]
parameters = {
    "thresholds": (
        "bytes[7]",
        [67160, 1582640, 2506820, 2836780, 2903940, 2918540, 2921460],
        "bytes sent from which on a flow is at the second level, the third, ...",
    ),
    "k": ("bytes", "100KB", "a packet is marked at a port with more bytes; as k_min of ecn (paper: 65 packets at 10 Gbit/s)"),
    "nic": ("choice turns levels", "turns", "whose packet a NIC sends: each flow in turn, or those of the highest level in turn"),
    "timeouts": ("int32 0..6", 3, "timeouts in succession that end the demotion of a flow; 0 = none do"),
}
presets = {"data_mining": {"thresholds": [1087700, 1581180, 2030860, 19985940, 21806560, 30877540, 39777700]}}
fabric = {"nic_order": "nic", "by_message": 1}
flow_state = {"since": "int64"}
node_state = {"turns": "int64"}

LEVELS = 8
A_LEVEL = 281474976710656  # more than there are turns


def level_of(pias, sent):
    """The level of a packet before which a flow has sent so many bytes."""
    level = 0
    while level < LEVELS - 1 and pias.thresholds[level] > 0 and sent >= pias.thresholds[level]:
        level += 1
    return level


def take_turn(pias, node, flow):
    """Wait at the NIC behind the other flows of the level of the next packet."""
    turns = my_node(pias, node)
    turns.turns += 1
    set_rank(node, flow, level_of(pias, flow.sent - my_flow(pias, flow).since) * A_LEVEL + turns.turns)


def on_start(pias, node, flow, pkt):
    if pias.nic:
        take_turn(pias, node, flow)


def on_send(pias, node, flow, pkt):
    pkt.priority = level_of(pias, pkt.seq - my_flow(pias, flow).since)
    if pias.nic:
        take_turn(pias, node, flow)


def on_dequeue(pias, node, port, queue, pkt):
    if pkt.kind == DATA and port.bytes > pias.k and not pkt.ecn:
        pkt.ecn = 1
        port.ecn_marks += 1


def on_timeout(pias, node, flow):
    if flow.backoff == pias.timeouts:
        my_flow(pias, flow).since = flow.acked
    send_from(node, flow, flow.acked)
    if pias.nic:
        take_turn(pias, node, flow)
