"""Link-level retry: what is lost on a link is sent again by its sending end, in order, before the other end passes on anything.

The receiving end passes on the frame that it expects. A frame that is damaged, or comes after a missing one, makes it ask once
for what it expects (SET_NACK); until that comes it throws away all others. It acknowledges what it has passed on, of several
frames together, in ordered sets, which take no time on the wire and go between frames. The sending end keeps frames until then,
and stops when it may keep no more. Asked, or when nothing has been acknowledged for some time, it sends all that it keeps again.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import arm, disarm, kick, new_frame
    from penstock_net.fabric.llr import copy_of, free_copy, is_full, look_at
    from penstock_net.fabric.losses import drop
    from penstock_net.fabric.queueing import draw, free_frame, set_node_event
    from penstock_net.fabric.state import (
        BLOCK,
        DROP_DOWN,
        DROP_LOSS,
        NEVER,
        NO_PACKET,
        ORDERED,
        RANDOM_LOSS,
        RETRY,
        SET_ACK,
        SET_ECHO,
        SET_INIT,
        SET_NACK,
        THROWN_AWAY,
        beyond,
        port_at,
    )
    from penstock_net.fabric.wire import post, time_on_wire

# ---- Where frames leave ----


def hold(node, port):
    """A port that is down or retrying may send: what is to be sent again; nothing else."""
    if port.down or not port.llr.again:
        disarm(node, port)
        return
    llr = port.llr
    pkt = copy_of(node, llr.again)
    pkt.held = llr.first
    llr.first = 0
    llr.again = llr.again.next
    port.free_at = node.now + time_on_wire(node, port, pkt)
    pkt.time = port.free_at + port.delay
    llr.tx_replay += 1
    llr.again_bytes += pkt.size
    post(node, port, pkt)
    if not llr.again:
        llr.progress_at = node.now
        let_go(port)
    arm(node, port)


def let_go(port):
    """The port goes on, unless there is a reason."""
    llr = port.llr
    if not llr.again and not is_full(llr) and (not llr.flushing or llr.on_flush != BLOCK):
        port.retrying = 0


def send_again(node, port):
    """Send all frames again that wait for an acknowledgement; after too many times without one, flush."""
    llr = port.llr
    if not llr.head or llr.flushing:
        return
    llr.replays += 1
    if llr.most_replays and llr.replays > llr.most_replays:
        flush(node, port)
        return
    llr.again = llr.head
    llr.first = 1
    llr.progress_at = node.now
    port.retrying = 1
    kick(node, port)


def flush(node, port):
    """Give up: ask the other end which frames it has, and go on with those that follow."""
    llr = port.llr
    llr.flushes += 1
    llr.flushing = 1
    llr.again = NO_PACKET
    llr.due = NEVER
    if llr.on_flush == BLOCK:
        port.retrying = 1
    send_set(node, port, SET_INIT, llr.next)
    let_go(port)
    kick(node, port)


def take_first(port):
    """Take the first frame of those that wait for an acknowledgement."""
    llr = port.llr
    copy = llr.head
    llr.head = copy.next
    llr.frames -= 1
    llr.bytes -= copy.size
    if llr.again == copy:
        llr.again = copy.next
    return copy


def acknowledged(node, port, number):
    """The other end has all frames up to this one."""
    llr = port.llr
    while llr.head and beyond(number, llr.head.out_port) >= 0:
        free_copy(node, take_first(port))
        llr.replays = 0
        llr.progress_at = node.now


def give_up(node, port, expected, reason):
    """Of the frames that wait, those before `expected` have arrived; the others are lost."""
    llr = port.llr
    acknowledged(node, port, (expected - 1) & 32767)
    while llr.head:
        copy = take_first(port)
        llr.again_bytes += copy.size
        copy.in_port = port.slot
        drop(node, port, copy, reason)
    llr.flushing = 0
    llr.replays = 0


def take_set(node, port, pkt):
    """An ordered set has arrived."""
    llr = port.llr
    command = pkt.number
    number = pkt.slot
    free_frame(node.worker, pkt)
    if command == SET_INIT:
        send_set(node, port, SET_ECHO, llr.expected)
        llr.echoed = llr.expected
        llr.expected = number
        llr.asked = 0
        llr.owed = 0
        return
    if command == SET_ECHO:
        give_up(node, port, number, DROP_LOSS)
    else:
        if llr.set_loss and draw(node, RANDOM_LOSS) < llr.set_loss:
            return
        acknowledged(node, port, number)
        if command == SET_NACK:
            llr.nack_rx += 1
            send_again(node, port)
            return
        llr.ack_rx += 1
    if port.retrying:
        let_go(port)
        kick(node, port)


# ---- Where frames arrive ----


def send_set(node, port, command, number):
    """Send an ordered set: after the frame that is on the wire."""
    pkt = new_frame(node, ORDERED, command)
    pkt.size = 0
    pkt.slot = number
    pkt.time = max(node.now, port.free_at) + port.delay
    post(node, port, pkt)
    port.tx_packets -= 1


def answer(node, port):
    """Acknowledge what has been passed on, now or when an acknowledgement may be sent again."""
    llr = port.llr
    llr.owed = 1
    if port.down:
        return
    if node.now < llr.answer_at:
        look_at(node, llr.answer_at)
        return
    llr.owed = 0
    llr.answer_at = node.now + llr.spacing
    llr.ack_tx += 1
    send_set(node, port, SET_ACK, (llr.expected - 1) & 32767)


def ask(node, port):
    """Ask for the frame that is expected, and for all that follow it; once."""
    llr = port.llr
    if llr.asked or port.down:
        return
    llr.asked = 1
    llr.owed = 0
    llr.answer_at = node.now + llr.spacing
    llr.nack_tx += 1
    send_set(node, port, SET_NACK, (llr.expected - 1) & 32767)


def throw_away(node, port, pkt):
    """Throw away a frame that has arrived; it will come again."""
    port.rx_bytes -= pkt.size
    port.llr.thrown_bytes += pkt.size
    free_copy(node, pkt)


def is_kept_back(node, port, pkt, damaged):
    """Whether what has arrived is not to be passed on: an ordered set, a damaged frame, one that is not expected."""
    llr = port.llr
    if damaged and llr.unseen and pkt.out_port >= 0 and draw(node, RANDOM_LOSS) < llr.unseen:
        throw_away(node, port, pkt)
        return True
    if pkt.out_port < 0:
        if damaged or pkt.out_port == THROWN_AWAY:
            drop(node, port, pkt, DROP_LOSS)
            return True
        return False
    if pkt.held:
        llr.rx_replay += 1
        if not llr.silent:
            llr.asked = 0
    ahead = beyond(pkt.out_port, llr.expected)
    pkt.held = 0
    if ahead == 0 and not damaged:
        llr.rx_ok += 1
        llr.expected = (llr.expected + 1) & 32767
        llr.asked = 0
        answer(node, port)
        return False
    if damaged:
        llr.rx_bad += 1
        ask(node, port)
    elif ahead < 0:
        llr.rx_duplicate_seq += 1
        answer(node, port)
    else:
        llr.rx_missing_seq += 1
        ask(node, port)
    throw_away(node, port, pkt)
    return True


# ---- Timers, and links that change ----


def run_retries(node):
    """Send the acknowledgements that are due, and send again what has not been acknowledged for too long."""
    set_node_event(node, RETRY, NEVER)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        if port.llr:
            if port.llr.owed and port.llr.answer_at <= node.now:
                answer(node, port)
            if port.llr.due <= node.now:
                look_at_progress(node, port)
    for slot in range(node.port_count):
        port = port_at(node, slot)
        if port.llr:
            if port.llr.owed and not port.down:
                look_at(node, port.llr.answer_at)
            look_at(node, port.llr.due)


def look_at_progress(node, port):
    """The timer of a port has expired, which is set anew only then."""
    llr = port.llr
    if not llr.head:
        llr.due = NEVER
        return
    if llr.again or port.down:
        llr.due = node.now + llr.timeout
        return
    if llr.progress_at + llr.timeout <= node.now:
        llr.timeouts += 1
        send_again(node, port)
        if llr.flushing:
            return
    llr.due = llr.progress_at + llr.timeout


def lose_from_wire(node, port, pkt):
    """The link has failed: a packet on the wire towards a port is lost. Of one that is kept the copy counts."""
    port.cut_bytes += pkt.size
    pkt.in_port = port.slot
    if port.llr and (pkt.kind == ORDERED or pkt.out_port >= 0):
        port.dropped_bytes += pkt.size
        free_copy(node, pkt)
    else:
        drop(node, port, pkt, DROP_DOWN)


def begin_anew(sender, end):
    """The link to a port has failed, and nothing is on it: what it has not received is lost where it was sent."""
    port = port_at(sender, end.peer_slot)
    llr = port.llr
    expected = end.llr.expected
    if llr.flushing and expected == llr.next:
        expected = end.llr.echoed
    give_up(sender, port, expected, DROP_DOWN)
    port.retrying = 0
    llr.due = NEVER
    llr.next = end.llr.expected
    end.llr.asked = 0
    end.llr.owed = 0


def bring_up(node, port):
    """A link is up again."""
    port.down = 0
    kick(node, port)
    if port.llr and port.llr.owed:
        answer(node, port)
