from libc.stdint cimport int64_t, uint64_t
from penstock_net.vswitch.memory.layout cimport lines, load64, now_ns, store64

cdef extern from "stdlib.h":
    void free(void* p)

cdef enum:
    CLOSE = 1           # what ends the answers; turns count on from it

cdef inline uint64_t* new_word(): return <uint64_t*>lines(256)  # no line beside it is fetched with it

cdef class CacheLine:
    cdef uint64_t* asked
    cdef uint64_t* answered
    cdef uint64_t turn
    cdef bint rounds(self, int64_t count, int64_t until) noexcept nogil
    cdef void answers(self, int64_t until) noexcept nogil

cdef inline bint rounds_released(CacheLine line, int64_t count, int64_t until):
    with nogil:
        return line.rounds(count, until)
cdef inline void answers_released(CacheLine line, int64_t until):
    with nogil:
        line.answers(until)
