from penstock.vswitch.schemes.state cimport *
from penstock.fabric.queueing_inline cimport set_event
from penstock.fabric.line cimport receive_control, run_timers
from penstock.sim.core.engine cimport collect_arrivals, has_work, process
from penstock.vswitch.schemes.edge cimport begin, note_next, relieve, take_in, transmit
from penstock.vswitch.schemes.trunk cimport collect_out, pull_in, push_out
from penstock.vswitch.dataplane.forward cimport settle
from penstock.vswitch.dataplane.flowtable cimport age
from penstock.vswitch.dataplane.schedule cimport release
from penstock.vswitch.dataplane.worker cimport MOST_SLEEP_NS, answer, flush, scan, set_sleeping

cdef void advance(Fabric* f, int64_t until) noexcept nogil
cdef int64_t soonest(World* world) noexcept nogil
cdef void run_edge(Fabric* f, Edge* edge) noexcept nogil
cdef void arrive(Fabric* f, Edge* edge) noexcept nogil
cdef int64_t turn(Fabric* f, int64_t now, int64_t until) noexcept nogil
cdef int64_t hear(Fabric* f) noexcept nogil
cdef void loop(Fabric* f, int64_t until) noexcept nogil
cdef void nap(Fabric* f, int64_t now) noexcept nogil
cdef bint is_held(Edge* edge) noexcept nogil
cdef bint has_news(Fabric* f, Edge* edge) noexcept nogil
cdef bint any_bell(Fabric* f) noexcept nogil
cdef bint is_empty(Fabric* f) noexcept nogil
