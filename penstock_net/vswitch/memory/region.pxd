from penstock_net.vswitch.memory.layout cimport *
from penstock_net.vswitch.memory.rings cimport (
    answer_bell, close_queue, fill, find_queue, give_buffer, is_drained, lay_out,
    open_queue, pop, push, ring_bell, size_of, take_buffer
)

cdef extern from "stdlib.h":
    void* calloc(size_t n, size_t size)
    void free(void* p)
cdef extern from "guard.h":
    char* map_guarded(int fd, int64_t length, char** reserved)
    void unmap_guarded(char* reserved, int64_t length)
cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)
    char* PyBytes_AS_STRING(object text)

cdef inline End* end_at(End* ends, int64_t i) noexcept nogil: return &ends[i]
cdef inline size_t base_of(char* base) noexcept nogil: return <size_t>base
cdef inline End* new_ends(int64_t n): return <End*>calloc(n, sizeof(End))
cdef inline int64_t* new_counts(int64_t n): return <int64_t*>calloc(n, 8)
cdef inline int64_t signed_of(uint64_t word) noexcept nogil: return <int64_t>word
cdef inline char* new_flags(int64_t n): return <char*>calloc(n, 1)

cdef class Region:
    cdef View view
    cdef readonly int fd
    cdef readonly dict shape
    cdef char* reserved     # the mapping with its guard pages
    cdef public bint doorbells      # whether we ring them; else the other side polls
    cdef public int wakes           # an eventfd that wakes the switch; -1: it does not sleep
    cdef End* out           # where we are in each queue that we fill
    cdef int64_t* sent      # bytes that we have put into each queue
    cdef End* into          # and in each that we empty
    cdef char* known[2]     # whether it is open
    cdef int32_t bell_out           # our place in the ring that we ring
    cdef int32_t bell_in[4]         # and in those of the other side: one of an application, one of each worker
    cdef int bell_rings, bell_turn
    cdef int side           # on which we write: 0 an application, 1 the switch
    cdef int64_t last, queue      # frames that the last doorbell announced and that are still to come, and their queue
    cdef bint wake_other(self) noexcept
    cdef bint put(self, End* end, const char* frame, int64_t length) noexcept
    cdef uint64_t next_bell(self, int side) noexcept
    cdef uint64_t next_word(self, int side) noexcept
