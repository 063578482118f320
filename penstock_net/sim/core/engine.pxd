from penstock_net.fabric.line_inline cimport run_timers
from penstock_net.fabric.queueing_inline cimport set_event
from penstock_net.fabric.retry cimport run_retries
from penstock_net.fabric.sampling cimport sample
from penstock_net.fabric.state cimport *
from penstock_net.fabric.switch_inline cimport transmit
from penstock_net.sim.core.agenda_inline cimport bring_forward, clear_mail, least, next_time, take_mail
from penstock_net.sim.core.arrivals_inline cimport arrive
from penstock_net.sim.core.receiver cimport run_flow_timers
from penstock_net.sim.core.lifetimes cimport run_starts
from penstock_net.sim.core.sender cimport run_pacer, run_tick, transmit_host

cdef void wait_for_all(World* world) noexcept nogil
cdef uint64_t arrived_at(Worker* worker, int word) noexcept nogil
cdef void collect(Node* node, int slot, int parity) noexcept nogil
cdef void deliver(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void collect_arrivals(Node* node) noexcept nogil
cdef void run_leaf(Node* node, int which) noexcept nogil
cdef int64_t process(Node* node, int64_t limit) noexcept nogil
cdef int64_t visit(Worker* worker, long block, int64_t end) noexcept nogil
cdef int64_t advance(Worker* worker, long block, int64_t soonest, int64_t end) noexcept nogil
cdef int64_t end_of_window(Worker* worker) noexcept nogil
cdef double fastest(Node* node) noexcept nogil
cdef int64_t busy(Worker* worker) noexcept nogil
cdef int64_t look_ahead(Worker* worker) noexcept nogil
cdef int64_t run_window(Worker* worker) noexcept nogil
cdef void run_windows(Worker* worker, long count) noexcept nogil
