from penstock.vswitch.dataplane.state cimport *

cdef struct Remains:        # frames that wait, found in memory that an application writes
    int64_t frames, bytes
    int64_t steps           # that may still be made

cdef int64_t next_queue(SwitchPort* port, int64_t number, Remains* found) noexcept nogil
cdef void follow(View* view, int64_t queue, int64_t ring, int64_t at, Remains* found) noexcept nogil
cdef int64_t not_taken(View* view) noexcept nogil
