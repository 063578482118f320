from penstock.vswitch.dataplane.state cimport *
from penstock.vswitch.memory.rings_inline cimport pop, find_queue, is_open, answer_bell, ring_bell, slot_of, give_ring, give
from penstock.vswitch.dataplane.forward cimport deliver, settle
from penstock.vswitch.dataplane.flowtable cimport age
from penstock.vswitch.dataplane.schedule cimport activate, take_head, pause_input, release

cdef enum:
    MOST_SLEEP_NS = 500000000

cdef void loop(Worker* w, int64_t until) noexcept nogil
cdef int64_t turn(Worker* w, int64_t now) noexcept nogil
cdef int64_t answer(Worker* w, Port* port) noexcept nogil
cdef void ask_for(Worker* w, View* view, Input* input) noexcept nogil
cdef void look_ahead(Worker* w, Port* port, int64_t level) noexcept nogil
cdef int64_t scan(Port* port) noexcept nogil
cdef int64_t serve(Worker* w, Port* port, int64_t now) noexcept nogil
cdef uint64_t next_word(View* view, Input* input, int side, int64_t number) noexcept nogil
cdef void flush(Port* port) noexcept nogil
cdef void nap(Worker* w, int64_t now) noexcept nogil
cdef bint any_news(Worker* w, int64_t now) noexcept nogil
cdef void set_sleeping(Worker* w, uint64_t value) noexcept nogil
