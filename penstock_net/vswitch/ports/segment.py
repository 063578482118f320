"""TCP frames of up to 64 KB (GSO) cut into segments that fit a path, and consecutive segments joined again (GRO).

Frames of several UDP datagrams (UDP_SEGMENT) are cut into these, of which none can be cut any further.

Every frame here has a virtio_net_hdr before its Ethernet header.  What is cut leaves check sums to the network card, as the frame
did: the field holds the sum of the pseudo header, and `complete_checksum` (ports/base.py) computes the rest where that is needed.
"""

import cython

if not cython.compiled:
    from penstock_net.vswitch.memory.layout import memcpy
    from penstock_net.vswitch.ports.base import header_of, octet
    from penstock_net.vswitch.ports.segment import (
        ACK,
        CWR,
        FIN,
        GSO_ECN,
        GSO_TCPV4,
        GSO_TCPV6,
        GSO_UDP_L4,
        LONGEST_JOINED,
        MOST_DATAGRAMS,
        PARTIAL_SUM,
        PSH,
        VNET,
        PyByteArray_AS_STRING,
        clear_header,
        follows,
        internet_sum,
        is_single_segment,
        long_at,
        put_long,
        put_short,
        sequence,
        set_byte,
        shape_of_cut,
        shape_of_joint,
        short_at,
    )


def find_transport(frame, size, shape, protocol):
    """Where the headers of a frame of this protocol (from its Ethernet header on) begin; False: it is none, or not whole."""
    at = 14
    kind = short_at(frame, 12)
    if (kind == 0x8100 or kind == 0x88A8) and size >= 18:
        kind = short_at(frame, 16)
        at = 18
    shape.ip = at
    shape.size = size
    if kind == 0x0800:
        if size < at + 20 or octet(frame, at) >> 4 != 4 or octet(frame, at + 9) != protocol or short_at(frame, at + 6) & 0x3FFF:
            return False
        shape.version = 4
        shape.tcp = at + 4 * (octet(frame, at) & 15)
        end = at + short_at(frame, at + 2)
        if shape.tcp < at + 20:
            return False
    elif kind == 0x86DD:
        if size < at + 40 or octet(frame, at) >> 4 != 6:
            return False
        shape.version = 6
        shape.tcp = after_options(frame, size, at + 40, octet(frame, at + 6), protocol)
        end = at + 40 + short_at(frame, at + 4)
        if shape.tcp == 0:
            return False
    else:
        return False
    return end == size


def after_options(frame, size, at, kind, protocol):
    """Where the header of a protocol begins behind options of IPv6, if there are any; 0: something else follows.

    Not behind a routing header: the sum of the pseudo header is of the address at its end.
    """
    while kind == 0 or kind == 60:  # hop-by-hop, destination
        if at + 8 > size:
            return 0
        kind = octet(frame, at)
        at += 8 * (octet(frame, at + 1) + 1)
    return at if kind == protocol else 0


def find_tcp(frame, size, shape):
    """Where the headers of a TCP frame begin and end; False: it is none, or not whole."""
    if not find_transport(frame, size, shape, 6) or size < shape.tcp + 20:
        return False
    shape.head = shape.tcp + 4 * (octet(frame, shape.tcp + 12) >> 4)
    return shape.tcp + 20 <= shape.head <= size


def find_udp(frame, size, shape):
    """The same of a UDP frame with content."""
    if not find_transport(frame, size, shape, 17) or size <= shape.tcp + 8:
        return False
    shape.head = shape.tcp + 8
    return short_at(frame, shape.tcp + 4) == size - shape.tcp


def set_lengths(frame, shape, size, protocol, sum_at):
    """Write the lengths and the check sum of IP, and the sum of the pseudo header, at so many bytes of the header of TCP or UDP,
    for a frame of `size` bytes."""
    ip = shape.ip
    length = size - shape.tcp
    if shape.version == 4:
        put_short(frame + ip + 2, size - ip)
        put_short(frame + ip + 10, 0)
        total = internet_sum(frame + ip, shape.tcp - ip)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        put_short(frame + ip + 10, ~total)
        total = internet_sum(frame + ip + 12, 8)
    else:
        put_short(frame + ip + 4, size - ip - 40)  # with its options
        total = internet_sum(frame + ip + 8, 32)
    total += protocol + length
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    put_short(frame + shape.tcp + sum_at, total)


# ---- Cutting ----


def begin_cut(cut, frame, length, room):
    """Prepare to cut a frame so that no segment is longer than `room`; False: it is of neither TCP nor several UDP datagrams, or
    the room is too small."""
    header = header_of(frame)
    shape = shape_of_cut(cut)
    kind = header.gso_type & ~GSO_ECN
    if header.gso_type == GSO_UDP_L4:
        if header.gso_size == 0 or not find_udp(frame + VNET, length - VNET, shape):
            return False
        cut.most = 0 + header.gso_size
        cut.at = 0
        cut.total = shape.size - shape.head
        return cut.most <= cut.total <= MOST_DATAGRAMS * cut.most and VNET + shape.head + cut.most <= room
    if (kind != GSO_TCPV4 and kind != GSO_TCPV6) or not find_tcp(frame + VNET, length - VNET, shape):
        return False
    cut.most = min(room - VNET - shape.head, header.gso_size if header.gso_size else room)
    cut.at = 0
    cut.total = shape.size - shape.head
    return cut.most > 0 and cut.total > 0


def next_segment(cut, frame, to):
    """Write the next segment to `to`; its length, or 0: there are no more."""
    shape = shape_of_cut(cut)
    left = cut.total - cut.at
    if left <= 0:
        return 0
    count = min(left, cut.most)
    if header_of(frame).gso_type == GSO_UDP_L4:
        return next_datagram(cut, frame, to, count)
    source = frame + VNET
    segment = to + VNET
    tcp = 0 + shape.tcp
    clear_header(to)
    header = header_of(to)
    header.flags = PARTIAL_SUM
    header.hdr_len = shape.head
    header.csum_start = shape.tcp
    header.csum_offset = 16
    memcpy(segment, source, shape.head)
    memcpy(segment + shape.head, source + shape.head + cut.at, count)
    if shape.version == 4:
        put_short(segment + shape.ip + 4, short_at(source, shape.ip + 4) + cut.at // cut.most)
    put_long(segment + tcp + 4, long_at(source, tcp + 4) + cut.at)
    flags = octet(source, tcp + 13)
    if cut.at:
        flags &= ~CWR
    if count < left:
        flags &= ~(FIN | PSH)
    set_byte(segment, tcp + 13, flags)
    set_lengths(segment, shape, shape.head + count, 6, 16)
    cut.at += count
    return VNET + shape.head + count


def next_datagram(cut, frame, to, count):
    """Write the next UDP datagram, of `count` bytes of payload; its length as a frame."""
    shape = shape_of_cut(cut)
    source = frame + VNET
    datagram = to + VNET
    clear_header(to)
    header = header_of(to)
    header.flags = PARTIAL_SUM
    header.hdr_len = shape.head
    header.csum_start = shape.tcp
    header.csum_offset = 6
    memcpy(datagram, source, shape.head)
    memcpy(datagram + shape.head, source + shape.head + cut.at, count)
    if shape.version == 4:
        put_short(datagram + shape.ip + 4, short_at(source, shape.ip + 4) + cut.at // cut.most)
    put_short(datagram + shape.tcp + 4, count + 8)
    set_lengths(datagram, shape, shape.head + count, 17, 6)
    cut.at += count
    return VNET + shape.head + count


# ---- Joining ----


def begin_join(joint, frame, length):
    """Whether, and what, may follow a frame in the same super-frame."""
    header = header_of(frame)
    shape = shape_of_joint(joint)
    joint.count = 0
    if not is_single_segment(header):
        return
    if not find_tcp(frame + VNET, length - VNET, shape) or header.csum_start != shape.tcp:
        return
    if octet(frame, VNET + shape.tcp + 13) != ACK or shape.size == shape.head:
        return
    joint.count = 1
    joint.full = 0
    joint.most = shape.size - shape.head
    joint.following = sequence(long_at(frame, VNET + shape.tcp + 4) + joint.most)


def joined(joint, to, length, frame, more, room):
    """The length of the frame at `to` with the payload of the next one appended; 0: they do not belong together."""
    shape = shape_of_joint(joint)
    payload = more - VNET - shape.head
    if joint.count == 0 or joint.full or payload <= 0 or payload > joint.most or length + payload > min(room, LONGEST_JOINED):
        return 0
    if not follows(joint, to + VNET, frame, more - VNET):
        return 0
    memcpy(to + length, frame + VNET + shape.head, payload)
    flags = octet(frame, VNET + shape.tcp + 13)
    set_byte(to, VNET + shape.tcp + 13, flags)
    joint.count += 1
    joint.following = sequence(joint.following + payload)
    joint.full = 1 if payload < joint.most or flags != ACK else 0
    return length + payload


def finish_join(joint, to, length):
    """Complete the headers of a frame that has been joined."""
    if joint.count < 2:
        return
    shape = shape_of_joint(joint)
    header = header_of(to)
    header.gso_type = GSO_TCPV4 if shape.version == 4 else GSO_TCPV6
    header.gso_size = joint.most
    header.hdr_len = shape.head
    set_lengths(to + VNET, shape, length - VNET, 6, 16)


# ---- For Python ----


class Cutter:
    """Cuts and joins frames (bytes with a virtio_net_hdr), for tests."""

    def segments(self, frame, room):
        """The segments of a frame, none longer than `room`; None: it cannot be cut."""
        source, to, found = bytearray(frame), bytearray(room), []
        if not begin_cut(cython.address(self.cut), PyByteArray_AS_STRING(source), len(source), room):
            return None
        while length := next_segment(cython.address(self.cut), PyByteArray_AS_STRING(source), PyByteArray_AS_STRING(to)):
            found.append(bytes(to[:length]))
        return found

    def join(self, frames, room=65560):
        """The frames with those joined that belong together."""
        found, to, length = [], bytearray(room), 0
        joint = cython.address(self.joint)
        for frame in frames:
            text = bytearray(frame)
            if length:
                more = joined(joint, PyByteArray_AS_STRING(to), length, PyByteArray_AS_STRING(text), len(text), room)
                if more:
                    length = more
                    continue
                finish_join(joint, PyByteArray_AS_STRING(to), length)
                found.append(bytes(to[:length]))
            to[: len(text)] = text
            length = len(text)
            begin_join(joint, PyByteArray_AS_STRING(to), length)
        if length:
            finish_join(joint, PyByteArray_AS_STRING(to), length)
            found.append(bytes(to[:length]))
        return found
