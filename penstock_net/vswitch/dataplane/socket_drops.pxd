"""What the sockets behind a device have lost, by their cookies."""
from libc.stdint cimport int64_t, uint64_t

cdef extern from "stdlib.h" nogil:
    void* calloc(size_t n, size_t size)
    void free(void* p)
cdef extern from "string.h" nogil:
    void* memset(void* p, int value, size_t n)

cdef struct Drops:          # of one socket, since it was opened
    uint64_t cookie
    int64_t count

cdef struct DropTable:
    Drops* drops[2]         # by cookie: of the list that is being read, of the one before
    int64_t mask[2]
    int64_t sockets[2]
    int64_t lost            # by all, since `lost` was 0

cdef inline Drops* drops_at(Drops* drops, int64_t i) noexcept nogil: return &drops[i]
cdef inline Drops* new_drops(int64_t n) noexcept nogil: return <Drops*>calloc(n, sizeof(Drops))
cdef inline void clear_drops(Drops* drops, int64_t n) noexcept nogil: memset(drops, 0, n * sizeof(Drops))
cdef inline int64_t slot_of(uint64_t cookie, int64_t mask) noexcept nogil: return <int64_t>((cookie * <uint64_t>0x9E3779B97F4A7C15) >> 40) & mask

cdef void make_drops(DropTable* table) noexcept
cdef void free_drops(DropTable* table) noexcept
cdef Drops* drops_before(DropTable* table, uint64_t cookie) noexcept nogil
cdef void note_drops(DropTable* table, uint64_t cookie, int64_t count) noexcept nogil
cdef void note_drops_of_one(DropTable* table, uint64_t cookie, int64_t count) noexcept nogil
cdef void end_list(DropTable* table) noexcept nogil
cdef bint make_room_for_drops(DropTable* table) noexcept nogil
