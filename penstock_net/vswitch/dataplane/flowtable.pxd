from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.dataplane.prefixes cimport port_of
from penstock_net.vswitch.memory.rings_inline cimport close_queue, is_drained, is_open, push, slot_of, take, take_ring

cdef enum:
    LOOKS = 4               # flows that are looked at to find one that may be removed for a new one
    PROBES = 16             # queues that are looked at to find one of the same sender
    RECENT_NS = 1000000     # a flow used since is not removed for another

cdef uint64_t hash_of(Worker* worker, Key* key) noexcept nogil
cdef Flow* find_flow(Worker* worker, Key* key) noexcept nogil
cdef int64_t owner_of(Worker* worker, uint64_t high, uint64_t low_half) noexcept nogil
cdef int64_t new_flow(Worker* worker, SwitchPort* port, Key* key, int64_t now) noexcept nogil
cdef bint may_send_from(Worker* worker, SwitchPort* port, Key* key) noexcept nogil
cdef int64_t flow_between(Worker* worker, SwitchPort* port, SwitchPort* to, Key* key, int64_t now) noexcept nogil
cdef bint may_open(Worker* worker, SwitchPort* port, SwitchPort* to) noexcept nogil
cdef bint reclaim(Worker* worker, SwitchPort* port, SwitchPort* to, int64_t now) noexcept nogil
cdef Flow* host_of(Worker* worker, SwitchPort* port, SwitchPort* to, Key* key) noexcept nogil
cdef void join_ring(Worker* worker, SwitchPort* to, Flow* flow) noexcept nogil
cdef void leave_ring(Worker* worker, SwitchPort* to, Flow* flow) noexcept nogil
cdef void link_flow(Worker* worker, Flow* flow) noexcept nogil
cdef void unlink_flow(Worker* worker, Flow* flow) noexcept nogil
cdef void enter_flows(Worker* worker) noexcept nogil
cdef void renew_flow(Worker* worker, Flow* flow) noexcept nogil
cdef bint is_misled(Worker* worker, Flow* flow) noexcept nogil
cdef void remove_flow(Worker* worker, Flow* flow) noexcept nogil
cdef bint close_flow(Worker* worker, Flow* flow) noexcept nogil
cdef void age(Worker* worker, int64_t now, int64_t count) noexcept nogil
