"""Which port an address belongs to: the longest matching prefix among those of all ports, of which an exact address is one.

Written while all workers rest, and read by them without a lock.  A lookup probes a hash index once for each prefix length
that occurs, so its cost does not depend on the number of prefixes.
"""

import cython

if not cython.compiled:
    from penstock.vswitch.dataplane.prefixes import EXACT, MOST_ADDRESSES, free, is_ipv4, new_prefixes, prefix_at, slot_of
    from penstock.vswitch.memory.layout import NO_HIGH


from penstock.errors import SpecError
from penstock.vswitch.support.settings import address_text, address_words

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
            at = (at + 1) & 4095
    return -1


def shortest_match(high, low_half):
    """Bits of the shortest prefix that may match an address.

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
        for bits, mask in enumerate(MASKS):
            self.prefixes.high_mask[bits] = int.from_bytes(mask[:8], "little")
            self.prefixes.low_mask[bits] = int.from_bytes(mask[8:], "little")

    def __dealloc__(self):
        free(self.prefixes)

    def __len__(self):
        return self.prefixes.count

    def add(self, texts, port, names):
        """Add the addresses and prefixes of a port, all or none.  SpecError: one is taken, or there are too many."""
        found = [address_words(text) for text in texts]
        owners = self.owners()
        for words, text in zip(found, texts):
            if words in owners:
                what = "prefix" if "/" in text else "address"
                owner = f"port {names[owners[words]]!r} has it" if owners[words] != port else "it stands there twice"
                raise SpecError(f"{what} {text}: {owner}", remedy="take another one")
            owners[words] = port
        if self.prefixes.count + len(found) > MOST_ADDRESSES:
            raise SpecError(f"{len(found)} more addresses: the switch holds {MOST_ADDRESSES}", remedy="take fewer, or prefixes")
        for high, low_half, bits in found:
            prefix = prefix_at(self.prefixes, self.prefixes.count)
            prefix.high, prefix.low, prefix.bits, prefix.port = high, low_half, bits, port
            self.prefixes.count += 1
        self.index_all()

    def remove(self, port):
        """Forget the addresses of a port."""
        kept = 0
        for i in range(self.prefixes.count):
            prefix, to = prefix_at(self.prefixes, i), prefix_at(self.prefixes, kept)
            if prefix.port != port:
                to.high, to.low, to.bits, to.port = prefix.high, prefix.low, prefix.bits, prefix.port
                kept += 1
        self.prefixes.count = kept
        self.index_all()

    def clear(self):
        """Forget all of them."""
        self.prefixes.count = 0
        self.index_all()

    def index_all(self):
        prefixes = self.prefixes
        for i in range(4096):
            prefixes.index[i] = 0
        lengths = set()
        for i in range(prefixes.count):
            prefix = prefix_at(prefixes, i)
            lengths.add(prefix.bits)
            at = slot_of(prefix.high, prefix.low, prefix.bits)
            while prefixes.index[at]:
                at = (at + 1) & 4095
            prefixes.index[at] = i + 1
        prefixes.length_count = len(lengths)
        for i, bits in enumerate(sorted(lengths, reverse=True)):
            prefixes.lengths[i] = bits

    def owners(self):
        """Numbers of ports by the words of their prefixes."""
        found = {}
        for i in range(self.prefixes.count):
            prefix = prefix_at(self.prefixes, i)
            found[prefix.high, prefix.low, prefix.bits] = prefix.port
        return found

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
