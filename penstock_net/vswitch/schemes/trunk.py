"""Links between switches that run the same scheme in different processes: packets and control frames as real Ethernet frames.

Both switches build the same world (topology and scheme), and each runs one node of it.  What that node sends to another one
leaves by a port of the kernel as a frame of Ethernet type 0x88B5, with the state that the scheme keeps in the packet.  Frames
that come in are checked; those that the other end cannot have sent are counted and dropped.
"""

import cython

if not cython.compiled:
    from penstock_net.fabric.line import pause_port, resume_port
    from penstock_net.fabric.queueing import alloc_frame, alloc_packet, free_frame, free_packet, set_event
    from penstock_net.fabric.state import ACK, ADDRESSED, CONTROL, DATA_LANE, KEY_BITS, NO_PACKET, outbox_at
    from penstock_net.fabric.state import port_at as line_at
    from penstock_net.vswitch.dataplane.parse import parse
    from penstock_net.vswitch.dataplane.state import LEVELS, byte_at
    from penstock_net.vswitch.memory.layout import bytes_at, memcpy, mixed, word_from
    from penstock_net.vswitch.ports.base import port_flush, port_receive, port_send
    from penstock_net.vswitch.schemes.endpoint import note_next
    from penstock_net.vswitch.schemes.state import (
        FAR,
        FULL_BIT,
        bytes_of,
        carried_by,
        carried_key,
        clear_wire,
        has_type,
        set_type,
        state_of,
        trunk_at,
        wire_at,
        wire_bytes,
    )
    from penstock_net.vswitch.schemes.trunk import FEW, is_host


def collect_out(emulation):
    """Take the packets that our node has sent to other nodes in this window out of its outboxes."""
    for i in range(emulation.trunk_count):
        trunk = trunk_at(emulation, i)
        outbox = outbox_at(emulation.engine, emulation.engine.parity, trunk.node.first_port + trunk.slot)
        if outbox.head:
            if trunk.out:
                trunk.last_out.next = outbox.head
            else:
                trunk.out = outbox.head
            trunk.last_out = outbox.tail
            outbox.head = NO_PACKET


def push_out(emulation):
    """Send the packets that have left our line by now; how many.  While the port has no room, the line is paused."""
    done = 0
    for i in range(emulation.trunk_count):
        trunk = trunk_at(emulation, i)
        line = line_at(trunk.node, trunk.slot)
        while trunk.out and trunk.out.time - line.delay <= emulation.time:
            pkt = trunk.out
            length = encode(emulation, trunk, pkt)
            if not port_send(trunk.port, trunk.scratch, length):
                trunk.sequence -= 1
                if not line.paused & FULL_BIT:
                    trunk.node.now = max(trunk.node.now, emulation.time)
                    pause_port(trunk.node, line, FULL_BIT)
                break
            trunk.out = pkt.next
            trunk.sent_frames += 1
            free_any(emulation, pkt)
            done += 1
        if line.paused & FULL_BIT:
            if not trunk.out or trunk.out.time - line.delay > emulation.time:
                trunk.node.now = max(trunk.node.now, emulation.time)
                resume_port(trunk.node, line, FULL_BIT)
                note_next(emulation, trunk.node)
        if done:
            port_flush(trunk.port)
    return done


def free_any(emulation, pkt):
    """Free a packet or a control frame."""
    if pkt.kind >= CONTROL:
        free_frame(emulation.engine, pkt)
    else:
        free_packet(emulation.engine, pkt)


def pack(wire, pkt):
    """The fields of a packet or control frame that travel between switches; `unpack` is its inverse."""
    wire.number = pkt.number
    wire.slot = pkt.slot
    wire.seq = pkt.seq
    wire.hash = pkt.hash
    wire.src = pkt.src
    wire.dst = pkt.dst
    wire.size = pkt.size
    wire.payload = pkt.payload
    wire.queue = pkt.queue
    wire.kind = pkt.kind
    wire.lane = pkt.lane
    wire.flags = pkt.flags
    wire.ecn = pkt.ecn
    wire.priority = pkt.priority


def unpack(wire, pkt):
    pkt.number = wire.number
    pkt.slot = wire.slot
    pkt.seq = wire.seq
    pkt.hash = wire.hash
    pkt.src = wire.src
    pkt.dst = wire.dst
    pkt.size = wire.size
    pkt.payload = wire.payload
    pkt.queue = wire.queue
    pkt.kind = wire.kind
    pkt.lane = wire.lane
    pkt.flags = wire.flags
    pkt.ecn = wire.ecn
    pkt.priority = wire.priority


def encode(emulation, trunk, pkt):
    """Write a packet or control frame to the trunk's scratch buffer; bytes, with the port's own header."""
    start = trunk.port.header
    wire = wire_at(trunk.scratch, start)
    trunk.sequence += 1
    clear_wire(trunk.scratch, start)
    set_type(wire)
    wire.sequence = trunk.sequence
    wire.digest = emulation.digest
    pack(wire, pkt)
    body = state_of(emulation, pkt)
    at = start + wire_bytes()
    state = emulation.frame_state if pkt.kind >= CONTROL else emulation.packet_state
    memcpy(bytes_at(trunk.scratch, at), body, state)
    at += state
    if pkt.kind < CONTROL:
        memcpy(bytes_at(trunk.scratch, at), bytes_of(emulation, pkt), carried_by(emulation, pkt).length)
        at += carried_by(emulation, pkt).length
    wire.seal = 0
    wire.seal = sealed(bytes_at(trunk.scratch, start), at - start, emulation.secret)
    return at


def sealed(frame, length, secret):
    """A keyed checksum over all bytes: against accidents, and strangers who do not know the secret."""
    hash = mixed(secret, length)
    at = 0
    while at + 8 <= length:
        hash = mixed(hash, word_from(bytes_at(frame, at)))
        at += 8
    while at < length:
        hash = mixed(hash, byte_at(frame, at))
        at += 1
    return mixed(hash, secret)


def pull_in(emulation):
    """Accept the frames that have come from other switches; how many."""
    done = 0
    for i in range(emulation.trunk_count):
        trunk = trunk_at(emulation, i)
        for _ in range(emulation.worker.burst):
            length = port_receive(trunk.port, trunk.scratch, trunk.room)
            if length <= 0:
                break
            done += 1
            if not accept(emulation, trunk, length):
                trunk.malformed += 1
        if done:
            note_next(emulation, trunk.node)
    return done


def accept(emulation, trunk, length):
    """Make a packet of a frame from the other switch; False: that switch cannot have sent it."""
    start = trunk.port.header
    wire = wire_at(trunk.scratch, start)
    length -= start
    if not is_authentic(emulation, trunk, wire, length):
        return False
    if wire.sequence <= trunk.heard:
        trunk.replayed += 1
        return False
    control = 1 if wire.kind >= CONTROL else 0
    state = emulation.frame_state if control else emulation.packet_state
    body = length - wire_bytes() - state
    line = line_at(trunk.node, trunk.slot)
    if not is_possible(emulation, line, wire, body):
        return False
    if control == 0 and not emulation.engine.free and emulation.engine.packets >= 2 * emulation.most_packets:
        trunk.no_memory += 1
        trunk.heard = wire.sequence
        return True
    count_missing(trunk, wire.sequence)
    pkt = alloc_frame(emulation.engine) if control else alloc_packet(emulation.engine)
    unpack(wire, pkt)
    memcpy(state_of(emulation, pkt), bytes_at(trunk.scratch, start + wire_bytes()), state)
    if control == 0:
        carried = carried_by(emulation, pkt)
        memcpy(bytes_of(emulation, pkt), bytes_at(trunk.scratch, start + wire_bytes() + state), body)
        carried.length = body
        carried.source = FAR
        if not parse(bytes_of(emulation, pkt), body, 0, carried_key(carried)):
            free_packet(emulation.engine, pkt)
            return False
    trunk.came_frames += 1
    append(emulation, trunk, line, pkt)
    return True


def is_authentic(emulation, trunk, wire, length):
    """Whether a frame has the type, the world and the seal of a frame of the other switch."""
    if length < wire_bytes() or not has_type(wire) or wire.digest != emulation.digest:
        return False
    seal = wire.seal
    wire.seal = 0
    return sealed(bytes_at(trunk.scratch, trunk.port.header), length, emulation.secret) == seal


def is_possible(emulation, line, wire, body):
    """Whether every field is one that the node at the other end of the line can have set; `body`: bytes after the state."""
    if wire.kind < 0 or wire.kind == ACK or wire.kind >= CONTROL + emulation.world.scheme_count or wire.size < 1 or body < 0:
        return False
    return is_possible_control(emulation, wire, body) if wire.kind >= CONTROL else is_possible_packet(emulation, line, wire, body)


def is_possible_packet(emulation, line, wire, body):
    if body != wire.size or body > emulation.longest or wire.lane != DATA_LANE or wire.flags != 0:
        return False
    if wire.queue < 0 or wire.queue >= line.peer_queues or wire.priority < 0 or wire.priority >= LEVELS or wire.slot < 0:
        return False
    return is_host(emulation, wire.src) and is_host(emulation, wire.dst)


def is_possible_control(emulation, wire, body):
    """The same for a control frame, which carries nothing and may have an address."""
    if body > 0 or wire.lane != 0:
        return False
    return is_host(emulation, wire.dst) if wire.flags == ADDRESSED else wire.flags == 0


def count_missing(trunk, sequence):
    """Count the frames that were lost before this one; a gap too large to be losses is a restart of the other switch."""
    missing = sequence - trunk.heard - 1
    if missing < FEW:
        trunk.lost += missing
    else:
        trunk.restarts += 1  # sequence numbers begin at the time of the start
    trunk.heard = sequence


def append(emulation, trunk, line, pkt):
    """The packet arrives at our node now, behind those that have arrived by this line."""
    pkt.time = emulation.time
    pkt.next = NO_PACKET
    if line.in_head:
        line.in_tail.next = pkt
    else:
        line.in_head = pkt
        set_event(trunk.node, trunk.slot, pkt.time << KEY_BITS | trunk.slot)
    line.in_tail = pkt
