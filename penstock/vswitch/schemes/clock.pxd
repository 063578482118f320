from penstock.vswitch.schemes.state cimport *
from penstock.fabric.queueing_inline cimport set_event
from penstock.fabric.switch cimport receive_control, run_timers
from penstock.sim.core.engine cimport collect_mail, has_work, process
from penstock.vswitch.schemes.endpoint cimport begin, note_next, retry_delivery, take_in, transmit
from penstock.vswitch.schemes.trunk cimport collect_out, pull_in, push_out
from penstock.vswitch.dataplane.forward cimport return_buffers
from penstock.vswitch.dataplane.flowtable cimport age
from penstock.vswitch.dataplane.schedule cimport release
from penstock.vswitch.dataplane.worker cimport MOST_SLEEP_NS, read_doorbells, ring_doorbells, scan, set_sleeping

cdef void advance(Emulation* emulation, int64_t until) noexcept nogil
cdef int64_t next_event_time(World* world) noexcept nogil
cdef void run_endpoint(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef void arrive(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef int64_t turn(Emulation* emulation, int64_t now, int64_t until) noexcept nogil
cdef int64_t poll_doorbells(Emulation* emulation) noexcept nogil
cdef void loop(Emulation* emulation, int64_t until) noexcept nogil
cdef void nap(Emulation* emulation, int64_t now) noexcept nogil
cdef bint is_held(Endpoint* endpoint) noexcept nogil
cdef bint has_unrung(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef bint any_doorbell(Emulation* emulation) noexcept nogil
cdef bint is_empty(Emulation* emulation) noexcept nogil
