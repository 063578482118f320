from penstock.vswitch.dataplane.state cimport *
from penstock.vswitch.memory.rings_inline cimport close_queue, is_drained, is_open, push, slot_of, take, take_ring

cdef uint64_t hash_of(Worker* worker, Key* key) noexcept nogil
cdef Flow* find_flow(Worker* worker, Key* key) noexcept nogil
cdef int64_t owner_of(Worker* worker, uint64_t high, uint64_t low_half) noexcept nogil
cdef int64_t new_flow(Worker* worker, SwitchPort* port, Key* key, int64_t now) noexcept nogil
cdef void link_flow(Worker* worker, Flow* flow) noexcept nogil
cdef void unlink_flow(Worker* worker, Flow* flow) noexcept nogil
cdef void renew_flow(Worker* worker, Flow* flow) noexcept nogil
cdef bint is_misled(Worker* worker, Flow* flow) noexcept nogil
cdef void remove_flow(Worker* worker, Flow* flow) noexcept nogil
cdef bint close_flow(Worker* worker, Flow* flow) noexcept nogil
cdef void age(Worker* worker, int64_t now, int64_t count) noexcept nogil
