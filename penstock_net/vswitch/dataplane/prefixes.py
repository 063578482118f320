"""Longest-prefix match of addresses to ports; an exact address is the longest prefix.

The table is written while all workers are stopped, and they read it without a lock.  A lookup probes a hash index once for each
prefix length in use, so its cost does not depend on the number of prefixes.
"""

import cython

from penstock_net.errors import SpecError
from penstock_net.vswitch.support.settings import address_text, address_words

if not cython.compiled:
    from penstock_net.vswitch.dataplane.prefixes import (
        EXACT,
        INDEX_SLOTS,
        MOST_ADDRESSES,
        free,
        is_ipv4,
        new_prefixes,
        prefix_at,
        slot_of,
    )
    from penstock_net.vswitch.memory.layout import NO_HIGH

MASKS = [((1 << 128) - (1 << 128 - bits)).to_bytes(16, "big") for bits in [*range(129)]]  # by bits of a prefix


def port_of(prefixes, high, low_half):
    """The port of an address, or -1."""
    least = shortest_match(high, low_half)
    for i in range(prefixes.length_count):
        bits = prefixes.lengths[i]
        if bits < least:
            return -1
        above = high & prefixes.high_mask[bits]
        below = low_half & prefixes.low_mask[bits]
        at = slot_of(above, below, bits)
        while prefixes.index[at]:
            prefix = prefix_at(prefixes, prefixes.index[at] - 1)
            if prefix.low == below and prefix.high == above and prefix.bits == bits:
                return prefix.port
            at = (at + 1) & (INDEX_SLOTS - 1)
    return -1


def shortest_match(high, low_half):
    """Length of the shortest prefix that may match an address.

    Exact matches only: Ethernet addresses, and addresses that no host has outside of its link (unspecified, loopback,
    link-local of IPv6, multicast, reserved).  An IPv4 address is in no shorter prefix of IPv6.
    """
    if high == NO_HIGH:
        return EXACT
    if is_ipv4(high, low_half):
        first = low_half >> 32 & 0xFF
        return EXACT if first == 0 or first == 127 or first >= 224 else 96
    if high & 0xFF == 0xFF or high & 0xC0FF == 0x80FE or (high == 0 and low_half << 8 == 0 and low_half >> 56 <= 1):
        return EXACT
    return 0


class AddressTable:
    """The addresses and prefixes of the ports of a switch."""

    def __init__(self):
        self.prefixes = new_prefixes()
        self.in_use = set()  # lengths of prefixes
        for bits, mask in enumerate(MASKS):
            self.prefixes.high_mask[bits] = int.from_bytes(mask[:8], "little")
            self.prefixes.low_mask[bits] = int.from_bytes(mask[8:], "little")

    def __dealloc__(self):
        free(self.prefixes)

    def __len__(self):
        return self.prefixes.count

    def add(self, texts, port, names):
        """Add the addresses and prefixes of a port, all or none.  SpecError: one is taken, or there are too many."""
        found, own = [address_words(text) for text in texts], set()
        for words, text in zip(found, texts):
            owner = port if words in own else self.owner(*words)
            if owner >= 0:
                what = "prefix" if "/" in text else "address"
                whose = f"port {names[owner]!r} has it" if owner != port else "it stands there twice"
                raise SpecError(f"{what} {text}: {whose}", remedy="take another one")
            own.add(words)
        if self.prefixes.count + len(found) > MOST_ADDRESSES:
            raise SpecError(f"{len(found)} more addresses: the switch holds {MOST_ADDRESSES}", remedy="take fewer, or prefixes")
        for high, low_half, bits in found:
            prefix = prefix_at(self.prefixes, self.prefixes.count)
            prefix.high, prefix.low, prefix.bits, prefix.port = high, low_half, bits, port
            self.prefixes.count += 1
            self.index_one(self.prefixes.count - 1)
        self.set_lengths()

    def remove(self, port):
        """Remove the addresses of a port."""
        kept = 0
        for i in range(self.prefixes.count):
            prefix, to = prefix_at(self.prefixes, i), prefix_at(self.prefixes, kept)
            if prefix.port != port:
                to.high, to.low, to.bits, to.port = prefix.high, prefix.low, prefix.bits, prefix.port
                kept += 1
        if kept < self.prefixes.count:
            self.prefixes.count = kept
            self.index_all()

    def clear(self):
        """Remove all addresses."""
        self.prefixes.count = 0
        self.index_all()

    def index_all(self):
        for i in range(INDEX_SLOTS):
            self.prefixes.index[i] = 0
        self.in_use.clear()
        for i in range(self.prefixes.count):
            self.index_one(i)
        self.set_lengths()

    def index_one(self, i):
        prefix = prefix_at(self.prefixes, i)
        self.in_use.add(prefix.bits)
        at = slot_of(prefix.high, prefix.low, prefix.bits)
        while self.prefixes.index[at]:
            at = (at + 1) & (INDEX_SLOTS - 1)
        self.prefixes.index[at] = i + 1

    def set_lengths(self):
        self.prefixes.length_count = len(self.in_use)
        for i, bits in enumerate(sorted(self.in_use, reverse=True)):
            self.prefixes.lengths[i] = bits

    def owner(self, high, low_half, bits):
        """The port that has exactly this prefix, or -1."""
        at = slot_of(high, low_half, bits)
        while self.prefixes.index[at]:
            prefix = prefix_at(self.prefixes, self.prefixes.index[at] - 1)
            if prefix.low == low_half and prefix.high == high and prefix.bits == bits:
                return prefix.port
            at = (at + 1) & (INDEX_SLOTS - 1)
        return -1

    def of(self, port):
        """The addresses of a port as text, in the order in which they were added."""
        found = []
        for i in range(self.prefixes.count):
            prefix = prefix_at(self.prefixes, i)
            if prefix.port == port:
                found.append(address_text(prefix.high, prefix.low, prefix.bits))
        return found

    def find(self, text):
        """The port of an address (text), or -1."""
        high, low_half, _ = address_words(text)
        return port_of(self.prefixes, high, low_half)
