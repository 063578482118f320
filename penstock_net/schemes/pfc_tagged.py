"""PFC with a destination tag ("PFC w/ tag", Floodgate, CoNEXT 2021, appendix B): pauses for one destination, hop by hop.

When the egress queue of a last hop exceeds a threshold, the switch pauses the destination at the neighbour that sent the
packet; the neighbour stores packets to it in a virtual output queue, and pauses its own neighbours when that is too long.
A switch remembers which neighbours it paused for which destination and resumes them all when the queue is short again.
Where a server has a virtual switch, both are last hops: it, and the switch that the server is attached to.

Virtual output queues are served round robin, and only when the egress queue is empty (in section 7.2 other traffic goes first).
Open in the paper: the thresholds (here one BDP of its network), whether hosts are paused (`host_pause`), lost frames: a
pause is a lease here, renewed at half of it.
"""

title = "PFCTagged"
includes = ["pfc"]
structs = {
    "cell": {"lease": "time"},  # by destination and port
    "destination": {"held": "int64", "voq": "int32", "paused": "int32", "pausing": "int32"},
}
port_state = {"pausing": "mask[hosts // 64 + 1]", "behind": "mask[hosts // 64 + 1]", "tagged": "int32"}
node_state = {
    "cells": "cell[hosts * ports]",
    "leased": "mask[hosts * ports // 64 + 1]",
    "destinations": "destination[hosts]",
    "used": "mask[voqs // 64 + 1]",
    "turn": "int32",
    "renew_due": "time",
}
parameters = {
    "xoff": ("bytes", "64KB", "egress queue of a last hop, or VOQ, beyond which a destination is paused"),
    "xon": ("bytes", "32KB", "and up to which it is resumed"),
    "voqs": ("int32 1..4096", 1000, "virtual output queues of a switch; when they run out destinations share"),
    "host_pause": ("bool", False, "hosts are paused as well; their NICs have a queue for each destination then"),
    "lease": ("time 1..1e15", "50us", "how long a pause holds; renewed at half of it"),
}
fabric = {"voqs": "voqs", "nic_by_destination": "host_pause"}


def set_up_port(pfc_tagged, node, port):
    my_node(pfc_tagged, node).renew_due = NEVER  # here: the set-up of a node is repeated when a rate changes


def destination_of(pfc_tagged, node, dst) -> destination:
    return destinations_at(my_node(pfc_tagged, node), dst)


# ---- Downstream: the switch that pauses ----


def pause_upstream(pfc_tagged, node, pkt):
    """Pause this packet's destination at the neighbour that sent the packet."""
    port = port_at(node, pkt.in_port)
    mine = my_port(pfc_tagged, port)
    if has_bit(mine.pausing, pkt.dst):
        return
    if port.peer_node < pfc_tagged.at.world.host_count and not pfc_tagged.host_pause:
        return
    set_bit(mine.pausing, pkt.dst)
    destination_of(pfc_tagged, node, pkt.dst).pausing += 1
    send_control(node, port.slot, pfc_tagged.at.kind, PAUSE, pkt.dst, 0)
    ours = my_node(pfc_tagged, node)
    if ours.renew_due == NEVER:
        ours.renew_due = node.now + pfc_tagged.lease // 2
        wake_by(node, pfc_tagged.at.index, ours.renew_due)


def resume_upstream(pfc_tagged, node, dst):
    for slot in range(node.port_count):
        mine = my_port(pfc_tagged, port_at(node, slot))
        if has_bit(mine.pausing, dst):
            clear_bit(mine.pausing, dst)
            send_control(node, slot, pfc_tagged.at.kind, RESUME, dst, 0)
    destination_of(pfc_tagged, node, dst).pausing = 0


def is_last(pfc_tagged, node, port, dst):
    """Whether a port leads to a server: to the destination, or to the virtual switch before it."""
    if port.peer_node == dst:
        return 1
    return 1 if node.tier == 1 and port.up < 0 else 0


def on_enqueue(pfc_tagged, node, port, queue, pkt):
    """At a last hop the egress queue triggers the pause."""
    if pkt.kind == DATA and port.bytes - port.held > pfc_tagged.xoff and is_last(pfc_tagged, node, port, pkt.dst):
        pause_upstream(pfc_tagged, node, pkt)
        mine = my_port(pfc_tagged, port)
        if not has_bit(mine.behind, pkt.dst):
            set_bit(mine.behind, pkt.dst)
            mine.tagged += 1


def on_dequeue(pfc_tagged, node, port, queue, pkt):
    if my_port(pfc_tagged, port).tagged > 0 and port.bytes - port.held <= pfc_tagged.xon:
        resume_behind(pfc_tagged, node, port)
    if port.held > 0 and port.held == port.bytes:
        serve(pfc_tagged, node, port)


def resume_behind(pfc_tagged, node, port):
    """The egress queue of a last hop is short again: resume the destinations that were paused for it."""
    mine = my_port(pfc_tagged, port)
    mine.tagged = 0
    for w in range(mine.behind_count):
        while mine.behind[w]:
            dst = (w << 6) + lowest_bit(mine.behind[w])
            clear_bit(mine.behind, dst)
            if destination_of(pfc_tagged, node, dst).pausing > 0:
                resume_upstream(pfc_tagged, node, dst)


def renew(pfc_tagged, node):
    ours = my_node(pfc_tagged, node)
    ours.renew_due = NEVER
    for slot in range(node.port_count):
        mine = my_port(pfc_tagged, port_at(node, slot))
        for w in range(mine.pausing_count):
            held = mine.pausing[w]
            while held:
                send_control(node, slot, pfc_tagged.at.kind, PAUSE, (w << 6) + lowest_bit(held), 0)
                held &= held - 1
                ours.renew_due = node.now + max(pfc_tagged.lease // 2, 1)


# ---- Upstream: the switch or host that is paused ----


def choose_voq(pfc_tagged, node, port, pkt):
    if pkt.kind != DATA or port.peer_node == pkt.dst:
        return -1
    to = destination_of(pfc_tagged, node, pkt.dst)
    if to.voq == 0:
        if to.paused == 0:
            return -1
        to.voq = allocate(pfc_tagged, node, pkt.dst) + 1
    to.held += pkt.size
    if to.held > pfc_tagged.xoff:
        pause_upstream(pfc_tagged, node, pkt)
    return to.voq - 1


def allocate(pfc_tagged, node, dst):
    """An empty VOQ; if there is none, the one that the destination hashes to."""
    chosen = pick(dst, 0, pfc_tagged.voqs)
    for i in range(pfc_tagged.voqs):
        if voq_at(node, i).length == 0:
            chosen = i
            break
    set_bit(my_node(pfc_tagged, node).used, chosen)
    return chosen


def serve(pfc_tagged, node, port):
    """Forward a packet of the next VOQ in turn that may send to this port."""
    mine = my_node(pfc_tagged, node)
    first = mine.turn + 1
    words = mine.used_count
    for k in range(words + 1):
        w = ((first >> 6) + k) % words
        candidates = mine.used[w]
        if k == 0:
            candidates &= ~(bit(first & 63) - 1)
        while candidates:
            i = (w << 6) + lowest_bit(candidates)
            candidates &= candidates - 1
            if may_go(pfc_tagged, node, port, i):
                mine.turn = i % pfc_tagged.voqs
                start(pfc_tagged, node, i)
                return


def may_go(pfc_tagged, node, port, index):
    pkt = voq_at(node, index).head
    return pkt.out_port == port.slot and destination_of(pfc_tagged, node, pkt.dst).paused == 0


def go(pfc_tagged, node, index):
    """Forward the first packet of a VOQ."""
    dst = voq_at(node, index).head.dst
    to = destination_of(pfc_tagged, node, dst)
    to.held -= voq_at(node, index).head.size
    if to.held == 0:
        to.voq = 0
    if voq_at(node, index).length == 1:
        clear_bit(my_node(pfc_tagged, node).used, index)
    release(node, index)
    if to.pausing > 0 and to.held <= pfc_tagged.xon:
        resume_upstream(pfc_tagged, node, dst)


def start(pfc_tagged, node, index):
    """Forward packets of a VOQ while their egress queue is empty; those of one VOQ may leave by several ports."""
    while voq_at(node, index).length > 0:
        port = port_at(node, voq_at(node, index).head.out_port)
        if port.held < port.bytes or not may_go(pfc_tagged, node, port, index):
            return
        go(pfc_tagged, node, index)


def on_control(pfc_tagged, node, port, pkt):
    i = value_of(pkt) * node.port_count + port.slot
    if command_of(pkt) == RESUME:
        end_pause(pfc_tagged, node, i)
        return
    mine = my_node(pfc_tagged, node)
    cells_at(mine, i).lease = node.now + pfc_tagged.lease
    wake_by(node, pfc_tagged.at.index, node.now + pfc_tagged.lease)
    if has_bit(mine.leased, i):
        return
    set_bit(mine.leased, i)
    destination_of(pfc_tagged, node, value_of(pkt)).paused += 1
    if node.is_host:
        pause_queue(node, port, value_of(pkt), pfc_tagged.at.bit)


def end_pause(pfc_tagged, node, i):
    """End a pause; i: its destination times ports, plus the port on which it came."""
    mine = my_node(pfc_tagged, node)
    if not has_bit(mine.leased, i):
        return
    clear_bit(mine.leased, i)
    to = destination_of(pfc_tagged, node, i // node.port_count)
    to.paused -= 1
    if node.is_host:
        resume_queue(node, port_at(node, i % node.port_count), i // node.port_count, pfc_tagged.at.bit)
    elif to.paused == 0 and to.voq > 0:
        start(pfc_tagged, node, to.voq - 1)


def expire(pfc_tagged, node):
    """End the pauses that were not renewed; returns the time at which the next one expires."""
    mine = my_node(pfc_tagged, node)
    soonest = NEVER
    for w in range(mine.leased_count):
        held = mine.leased[w]
        while held:
            i = (w << 6) + lowest_bit(held)
            held &= held - 1
            if cells_at(mine, i).lease <= node.now:
                end_pause(pfc_tagged, node, i)
            else:
                soonest = min(soonest, cells_at(mine, i).lease)
    return soonest


def on_timer(pfc_tagged, node):
    mine = my_node(pfc_tagged, node)
    if mine.renew_due <= node.now:
        renew(pfc_tagged, node)
    wake_by(node, pfc_tagged.at.index, min(mine.renew_due, expire(pfc_tagged, node)))
