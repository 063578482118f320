from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.memory.rings_inline cimport answer_bell, find_queue, give, give_ring, is_open, pop, ring_bell, slot_of
from penstock_net.vswitch.dataplane.forward cimport deliver
from penstock_net.vswitch.dataplane.buffers cimport return_buffers
from penstock_net.vswitch.dataplane.steps_inline cimport next_word
from penstock_net.vswitch.dataplane.flowtable cimport age
from penstock_net.vswitch.dataplane.schedule cimport activate, take_head, pause_txq, release

cdef enum:
    MOST_SLEEP_NS = 500000000
    AGE_NS = 1000000        # between two looks for idle flows
    FRAMES_AT_ONCE = 32     # that are read from all devices in a turn, about
    LEAST_AT_ONCE = 4       # of them from each
    NEWS_NS = 5000          # between two looks for news while there is other work, or while it spins
    FRESH_NS = 20000        # what it was told when it woke is news for so long: until it sleeps again, mostly
    MOST_LUCK = 16
    MISHAP = 3              # it finds work three times as often as not, or it does not pay
    SPINS_EVERY = 16

cdef void loop(Worker* worker, int64_t until) noexcept nogil
cdef void nap(Worker* worker, int64_t now) noexcept nogil
cdef void set_sleeping(Worker* worker, uint64_t value) noexcept nogil
cdef void prepare_worker(Worker* worker) noexcept nogil
cdef int64_t turn(Worker* worker, int64_t now) noexcept nogil
cdef void begin_wait(SwitchPort* port, int64_t now) noexcept nogil
cdef void end_wait(SwitchPort* port, int64_t now) noexcept nogil
cdef int64_t idle_time_of_ports(Worker* worker, int64_t now) noexcept nogil
cdef int64_t has_pending(Worker* worker, int64_t now) noexcept nogil
cdef int64_t begin_turn(Worker* worker, int64_t now) noexcept nogil
cdef int64_t end_turn(Worker* worker, int64_t now) noexcept nogil
cdef void check_protocol(Worker* worker, SwitchPort* port) noexcept nogil
cdef void age_some(Worker* worker, int64_t now) noexcept nogil
cdef int64_t read_doorbells(Worker* worker, SwitchPort* port) noexcept nogil
cdef void prefetch_queue(Worker* worker, View* view, TxQueue* txq) noexcept nogil
cdef void prefetch_heads(Worker* worker, SwitchPort* port, int64_t level) noexcept nogil
cdef int64_t scan(SwitchPort* port) noexcept nogil
cdef int64_t serve(Worker* worker, SwitchPort* port, int64_t now) noexcept nogil
cdef int64_t serve_queue(Worker* worker, SwitchPort* port, int64_t level, int64_t budget, int64_t now) noexcept nogil
cdef void ring_doorbells(SwitchPort* port) noexcept nogil
