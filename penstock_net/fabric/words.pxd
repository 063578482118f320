# What is in words of frames and tables: a part of state.pxd, which includes it.

# What a control frame says: its command, a number and a mask.
cdef inline int32_t command_of(Packet* frame) noexcept nogil:
    return frame.number
cdef inline int32_t value_of(Packet* frame) noexcept nogil:
    return frame.slot
cdef inline int64_t mask_of(Packet* frame) noexcept nogil:
    return frame.seq

# Bitmaps: tables of 64-bit words.
cdef inline bint has_bit(uint64_t* bitmap, int64_t i) noexcept nogil:
    return bitmap[i >> 6] >> (i & 63) & 1
cdef inline void set_bit(uint64_t* bitmap, int64_t i) noexcept nogil:
    bitmap[i >> 6] |= bit(i & 63)
cdef inline void clear_bit(uint64_t* bitmap, int64_t i) noexcept nogil:
    bitmap[i >> 6] &= ~bit(i & 63)
