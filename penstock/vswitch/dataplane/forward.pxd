from penstock.vswitch.dataplane.state cimport *
from penstock.vswitch.memory.rings_inline cimport push, open_queue, take, give, take_ring, give_ring, take_some, give_some, slot_of
from penstock.vswitch.dataplane.parse cimport parse
from penstock.vswitch.dataplane.flowtable cimport find_flow, new_flow
from penstock.vswitch.ports.base cimport complete_copy
from penstock.vswitch.dataplane.mirror cimport mirror_frame, mirror_drop

cdef enum:
    SAMPLE_NS = 200000      # between measurements of a receive rate
    MEMORY_NS = 5000000     # of the moving average of a rate
    STALE_NS = 5000000      # then nothing received counts as a measurement
    LEAST_NS = 10000        # of a pause, and the unevenness that pacing may have
    MOST_NS = 5000000
    AT_ONCE = 32            # buffers taken or given back
    UNKNOWN_NS = 50000      # a pause while no rate is known
    ADMITTED = -1           # instead of a reason to drop a frame

cdef int64_t deliver(Worker* worker, SwitchPort* port, TxQueue* txq, uint64_t word, int64_t now) noexcept nogil
cdef int64_t classify(Worker* worker, SwitchPort* port, TxQueue* txq, uint64_t word, int64_t now) noexcept nogil
cdef int64_t reject(Worker* worker, SwitchPort* port, TxQueue* txq, uint64_t word, int64_t reason, int64_t now) noexcept nogil
cdef int64_t admit(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, int64_t size, int64_t now) noexcept nogil
cdef bint open_flow(Worker* worker, Flow* flow, View* view) noexcept nogil
cdef int64_t copy_frame(Worker* worker, SwitchPort* port, Flow* flow, uint64_t word, int64_t size) noexcept nogil
cdef void account(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, uint64_t word, int64_t size, int64_t now) noexcept nogil
cdef char* frame_in(View* view, SwitchPort* port, uint64_t word) noexcept nogil
cdef int64_t drop(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, uint64_t word, int64_t reason) noexcept nogil
cdef int64_t backpressure(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, uint64_t word, int64_t reason, int64_t now) noexcept nogil
cdef void measure(Worker* worker, Flow* flow, View* view, int64_t now) noexcept nogil
cdef void set_limits(Worker* worker, Flow* flow, View* view) noexcept nogil
cdef int64_t pause_time(Worker* worker, Flow* flow) noexcept nogil
cdef void pace(Worker* worker, TxQueue* txq, Flow* flow, int64_t length, int64_t now) noexcept nogil
cdef Flow* last_flow(Worker* worker, TxQueue* txq, Key* key) noexcept nogil
cdef int64_t receive_buffer(SwitchPort* port) noexcept nogil
cdef void give_back(SwitchPort* port, int64_t buffer) noexcept nogil
cdef void return_buffers(SwitchPort* port) noexcept nogil
cdef void copy_with_prefix(Worker* worker, SwitchPort* port, SwitchPort* to, char* frame, char* to_frame, int64_t length) noexcept nogil
