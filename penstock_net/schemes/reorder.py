"""Gaps that are losses, beside `uec`: a packet is lost if another one that was sent more than `bound` after it has come.

Packets that take several paths overtake one another by what the queues of these differ in.  A full queue of `trim` takes one base
RTT; two of them, at an uplink and at a downlink, are the default.  What is lost is sent again ahead of new packets, without a
change of the window; without this part it waits for a timeout.  What comes after all has been sent twice, and does no harm.

Load balancers hear which packet it was (`on_loss`).  `mrc` brings this part along.  It learns of packets by the bitmaps of ACKs,
which leave some out unless every packet is answered: `uec+reorder` needs `uec_receiver.ack_bytes = 1` and `uec_receiver.back`.
"""

includes = ["uec_receiver"]
packet_state = "uec_receiver"
flow_state = {
    "out": "mask[32]",  # packets of which nothing is known, by their number modulo RING
    "twice": "mask[32]",  # packets that have been sent again
    "sent_at": "int32[2048]",  # 1024 ps, modulo 2^31
    "cum": "int64",  # packets acknowledged
}
parameters = {"bound": ("time", 0, "a packet counts as lost when one that was sent so much later has come; 0 = two base RTTs")}
flow_counts = {"lost": "packets that were taken for lost"}
fabric = {"acts": 0}

RING = 2048
WORDS = 32
TICK = 10
SPAN = 2147483647


def on_send(reorder, node, flow, pkt):
    mine = my_flow(reorder, flow)
    index = my_packet(reorder, pkt).index % RING
    set_bit(mine.out, index)
    if my_packet(reorder, pkt).again:
        set_bit(mine.twice, index)
    else:
        clear_bit(mine.twice, index)
    mine.sent_at[index] = (node.now >> TICK) & SPAN


def on_ack(reorder, node, flow, pkt):
    mine = my_flow(reorder, flow)
    answer = my_packet(reorder, pkt)
    cum = (flow.acked + reorder.at.world.mtu - 1) // reorder.at.world.mtu
    for i in range(mine.cum, cum):
        clear_bit(mine.out, i % RING)
    mine.cum = max(mine.cum, cum)
    if answer.index >= mine.cum:
        clear_bit(mine.out, answer.index % RING)
    if answer.cut:
        return
    if answer.bits:
        forget(reorder, flow, pkt)
    find_lost(reorder, node, flow, answer.stamp >> TICK)


def forget(reorder, flow, pkt):
    """What the bitmap of an answer says has come: about two words here."""
    mine = my_flow(reorder, flow)
    found = my_packet(reorder, pkt).bits
    word = my_packet(reorder, pkt).first >> 6
    shift = my_packet(reorder, pkt).first & 63
    if shift == 0:
        mine.out[word % WORDS] &= ~found
    else:
        mine.out[word % WORDS] &= ~((found & (bit(64 - shift) - 1)) << shift)
        mine.out[(word + 1) % WORDS] &= ~(found >> (64 - shift))


def find_lost(reorder, node, flow, stamp):
    """Report what was sent more than the bound before a packet that has come."""
    mine = my_flow(reorder, flow)
    mtu = reorder.at.world.mtu
    bound = (reorder.bound if reorder.bound > 0 else 2 * reorder.at.world.base_rtt) >> TICK
    for k in range(WORDS):
        word = (mine.cum >> 6) + k
        if (word << 6) * mtu >= flow.sent:
            return
        bits = mine.out[word % WORDS]
        if k == 0:
            bits &= ~(bit(mine.cum & 63) - 1)
        while bits:
            index = (word << 6) + lowest_bit(bits)
            bits &= ~bit(index & 63)
            older = (stamp - mine.sent_at[index % RING]) & SPAN
            if bound < older and older < SPAN // 2:
                clear_bit(mine.out, index % RING)
                mine.lost += 1
                report_loss(node, flow, index * mtu)
            elif not has_bit(mine.twice, index % RING):
                return  # all behind it were sent later, or again
