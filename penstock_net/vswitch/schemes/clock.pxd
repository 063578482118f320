from penstock_net.vswitch.schemes.state cimport *
from penstock_net.fabric.queueing_inline cimport set_event
from penstock_net.fabric.state cimport agenda_of
from penstock_net.sim.core.agenda cimport clear_mail, next_time, set_time, take_mail
from penstock_net.sim.core.engine cimport process
from penstock_net.vswitch.schemes.endpoint cimport retry_delivery, run_host, start_line
from penstock_net.vswitch.schemes.trunk cimport collect_out, pull_in, push_out
from penstock_net.vswitch.dataplane.buffers cimport return_buffers
from penstock_net.vswitch.dataplane.worker cimport MOST_SLEEP_NS, age_some, begin_turn, check_protocol, end_turn, read_doorbells, ring_doorbells, scan

cdef void prepare_emulation(Emulation* emulation) noexcept nogil
cdef int64_t real_time_turn(Worker* worker, int64_t now) noexcept nogil
cdef int64_t turn(Emulation* emulation, int64_t now, int64_t until) noexcept nogil
cdef int64_t poll_doorbells(Emulation* emulation) noexcept nogil
cdef void advance(Emulation* emulation, int64_t until) noexcept nogil
cdef int64_t idle_time_of_emulation(Worker* worker, int64_t now) noexcept nogil
cdef bint is_held(Endpoint* endpoint) noexcept nogil
cdef bint has_unrung(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef int64_t has_doorbell(Worker* worker, int64_t now) noexcept nogil
cdef bint is_empty(Emulation* emulation) noexcept nogil
