"""The flow key of a frame, parsed from the switch's own copy of the header."""

import cython

if not cython.compiled:
    from penstock_net.vswitch.dataplane.state import byte_at, short_at
    from penstock_net.vswitch.memory.layout import NO_HIGH, ethernet, half_from, mapped, word_from


def parse(frame, length, port, key):
    """Extract the flow key of a frame; False: the frame is malformed.

    IPv4 and IPv6 give addresses, protocol and TCP or UDP ports; anything else gives the Ethernet addresses and type.
    """
    if length < 14:
        return False
    at = 14
    kind = short_at(frame, 12)
    if kind == 0x8100:
        if length < 18:
            return False
        kind = short_at(frame, 16)
        at = 18
    if kind == 0x0800:
        if length < at + 20 or byte_at(frame, at) >> 4 != 4:
            return False
        start = at + 4 * (byte_at(frame, at) & 15)
        end = at + short_at(frame, at + 2)
        if start < at + 20 or start > end or end > length:
            return False
        key.words[0] = 0
        key.words[1] = mapped(frame + at + 12)
        key.words[2] = 0
        key.words[3] = mapped(frame + at + 16)
        protocol = byte_at(frame, at + 9)
        if short_at(frame, at + 6) & 0x3FFF:  # a fragment
            key.words[4] = protocol << 16 | port
            return True
        return transport(frame, start, end, protocol, port, key)
    if kind == 0x86DD:
        if length < at + 40 or byte_at(frame, at) >> 4 != 6:
            return False
        end = at + 40 + short_at(frame, at + 4)
        if end > length:
            return False
        key.words[0] = word_from(frame + at + 8)
        key.words[1] = word_from(frame + at + 16)
        key.words[2] = word_from(frame + at + 24)
        key.words[3] = word_from(frame + at + 32)
        return transport(frame, at + 40, end, byte_at(frame, at + 6), port, key)
    key.words[0] = NO_HIGH
    key.words[1] = ethernet(frame + 6)
    key.words[2] = NO_HIGH
    key.words[3] = ethernet(frame)
    key.words[4] = kind << 32 | 1 << 24 | port
    return True


def transport(frame, at, end, protocol, port, key):
    key.words[4] = protocol << 16 | port
    if protocol == 17 or protocol == 6:
        if end < at + (8 if protocol == 17 else 20):
            return False
        key.words[4] |= half_from(frame + at) << 32
    return True
