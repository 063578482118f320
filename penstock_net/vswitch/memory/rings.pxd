from penstock_net.vswitch.memory.layout cimport *

cdef int64_t size_of(int64_t rings, int64_t queues, int64_t bells, int64_t buffers, int64_t buffer_bytes) noexcept nogil
cdef void lay_out(View* view, char* base, int64_t rings, int64_t queues, int64_t bells, int64_t buffers, int64_t buffer_bytes) noexcept nogil
cdef void fill(View* view) noexcept nogil
cdef int64_t take(uint64_t* stack, uint32_t* following, int64_t count) noexcept nogil
cdef void give(uint64_t* stack, uint32_t* following, int64_t number) noexcept nogil
cdef int64_t take_some(uint64_t* stack, uint32_t* following, int64_t count, int32_t* found, int64_t most) noexcept nogil
cdef void give_some(uint64_t* stack, uint32_t* following, int32_t* numbers, int64_t count) noexcept nogil
cdef int64_t take_ring(View* view) noexcept nogil
cdef void give_ring(View* view, int64_t ring) noexcept nogil
cdef int64_t take_buffer(View* view, int side) noexcept nogil
cdef void give_buffer(View* view, int side, int64_t buffer) noexcept nogil
cdef uint64_t* slot_of(View* view, End* end) noexcept nogil
cdef bint open_queue(View* view, End* end, int side, int64_t queue) noexcept nogil
cdef bint find_queue(View* view, End* end, int side, int64_t queue) noexcept nogil
cdef bint push(View* view, End* end, uint64_t word) noexcept nogil
cdef uint64_t pop_special(View* view, End* end) noexcept nogil
cdef uint64_t pop(View* view, End* end) noexcept nogil
cdef bint is_open(View* view, int side, int64_t queue) noexcept nogil
cdef bint is_drained(View* view, End* end) noexcept nogil
cdef bint close_queue(View* view, End* end, int side, int64_t queue) noexcept nogil
cdef int32_t next_place(View* view, int32_t at) noexcept nogil
cdef bint ring_bell(View* view, int32_t* at, int side, uint64_t word) noexcept nogil
cdef uint64_t answer_bell(View* view, int32_t* at, int side) noexcept nogil
