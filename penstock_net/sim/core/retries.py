"""Links with retry: how they are set up, switched on and off, and what they count.  See fabric/retry.py."""

import cython

if not cython.compiled:
    from penstock_net.fabric.state import NEVER, node_at, port_at, whole
    from penstock_net.fabric.tables import new_llr

FIRST_WAIT = 5_000_000  # ps: without a timeout of its own, a link waits so long, and the time there and back


def act_on_retry(world, ends, on, given):
    """Set up ends of links, (node, port), with a profile, in numbers as topology/llr.py has them; switch them on (1) or off (0);
    without ends return what all have counted."""
    if given:
        set_up(world, ends, given)
    for number, slot in ends:
        port_at(node_at(world, number), slot).llr.on = on
    return [] if ends else counters(world)


def set_up(world, ends, given):
    """Give ends of links retry."""
    for number, slot in ends:
        port = port_at(node_at(world, number), slot)
        llr = new_llr(world.arena)
        port.llr = llr
        port.uneven = 1
        port.watched = 1
        llr.due = NEVER
        llr.largest = world.quantum
        llr.spacing = whole(given["spacing"] * port.ps_per_byte)
        llr.most_frames = given["frames"]
        llr.most_bytes = given["bytes"]
        if not given["bytes"]:
            llr.most_bytes = whole(2 * port.delay / port.ps_per_byte) + given["spacing"] + 5 * world.quantum
        llr.timeout = given["timeout"]
        if not given["timeout"]:
            llr.timeout = FIRST_WAIT + 2 * port.delay
        llr.most_replays, llr.on_flush, llr.silent = given["replays"], given["on_flush"], given["silent"]
        llr.set_loss, llr.unseen = given["ack_loss"], given["unseen"]


def counters(world):
    """A row for each port that has retry: node, port, peer, then what results/columns.py lists of the frame `llr`, and the bytes
    of frames that were sent again or given up there, and that were thrown away there."""
    out = []
    for number in range(world.node_count if world.retries else 0):
        node = node_at(world, number)
        for slot in range(node.port_count):
            port = port_at(node, slot)
            if port.llr:
                llr = port.llr
                row = [number, slot, port.peer_node, llr.tx_ok, llr.tx_replay, llr.tx_discard, llr.rx_ok, llr.rx_bad]
                row += [llr.rx_missing_seq, llr.rx_duplicate_seq, llr.rx_replay, llr.ack_tx, llr.ack_rx, llr.nack_tx, llr.nack_rx]
                out.append([*row, llr.timeouts, llr.flushes, llr.most_bytes_kept, llr.again_bytes, llr.thrown_bytes])
    return out
