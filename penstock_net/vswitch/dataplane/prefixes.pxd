"""The addresses of all ports: prefixes in the order in which they were added, and a hash index of them."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from penstock_net.vswitch.memory.layout cimport NO_HIGH, lines, mixed

cdef extern from "stdlib.h":
    void free(void* p)

cdef enum:
    MOST_ADDRESSES = 4096   # and prefixes
    INDEX_SLOTS = 16384     # a power of two
    EXACT = 128             # bits of a prefix that is one address

cdef struct Prefix:         # IPv4 as ::ffff:a.b.c.d/96+n; an Ethernet address has NO_HIGH
    uint64_t high, low
    int32_t bits, port

cdef struct Prefixes:
    int32_t count
    int32_t length_count
    int32_t lengths[129]    # that occur, longest first
    uint64_t high_mask[129]
    uint64_t low_mask[129]
    int32_t index[16384]    # open addressing: number of a prefix plus one
    Prefix prefixes[4096]

cdef inline Prefixes* new_prefixes() noexcept: return <Prefixes*>lines(sizeof(Prefixes))
cdef inline Prefix* prefix_at(Prefixes* prefixes, int64_t i) noexcept nogil: return &prefixes.prefixes[i]
cdef inline int64_t slot_of(uint64_t high, uint64_t low_half, int64_t bits) noexcept nogil: return mixed(mixed(bits, high), low_half) & (INDEX_SLOTS - 1)
cdef inline bint is_ipv4(uint64_t high, uint64_t low_half) noexcept nogil: return high == 0 and (low_half & 0xFFFFFFFFU) == 0xFFFF0000U
cdef inline bint is_zero_ipv4(uint64_t low_half) noexcept nogil: return low_half == 0xFFFF0000U
cdef int64_t port_of(Prefixes* prefixes, uint64_t high, uint64_t low_half) noexcept nogil
cdef int64_t shortest_match(uint64_t high, uint64_t low_half) noexcept nogil

cdef class AddressTable:
    cdef Prefixes* prefixes
    cdef set in_use
