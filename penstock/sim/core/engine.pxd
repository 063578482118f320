from penstock.fabric.line cimport drop, receive_control, run_timers
from penstock.fabric.queueing_inline cimport draw, set_event
from penstock.fabric.sampling cimport sample
from penstock.fabric.state cimport *
from penstock.fabric.switch cimport receive, transmit
from penstock.sim.core.agenda cimport bring_forward, clear_mail, least, next_time, take_mail
from penstock.sim.core.receiver cimport receive_data, run_flow_timers
from penstock.sim.core.sender cimport receive_ack, receive_returned, run_pacer, run_starts, run_tick, transmit_host

cdef void wait_for_all(World* world) noexcept nogil
cdef uint64_t arrived_at(Worker* worker, int word) noexcept nogil
cdef void collect(Node* node, int slot, int parity) noexcept nogil
cdef void deliver(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void collect_arrivals(Node* node) noexcept nogil
cdef bint lost(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void arrive(Node* node, int slot) noexcept nogil
cdef void run_leaf(Node* node, int which) noexcept nogil
cdef int64_t process(Node* node, int64_t limit) noexcept nogil
cdef int64_t visit(Worker* worker, long block, int64_t end) noexcept nogil
cdef int64_t advance(Worker* worker, long block, int64_t soonest, int64_t end) noexcept nogil
cdef int64_t end_of_window(Worker* worker) noexcept nogil
cdef int64_t busy(Worker* worker) noexcept nogil
cdef int64_t look_ahead(Worker* worker) noexcept nogil
cdef int64_t run_window(Worker* worker) noexcept nogil
cdef void run_windows(Worker* worker, long count) noexcept nogil
