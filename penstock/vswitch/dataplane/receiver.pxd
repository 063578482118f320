from penstock.vswitch.dataplane.state cimport *
from penstock.vswitch.memory.rings_inline cimport open_queue, push, slot_of, take, take_ring

cdef enum:
    SAMPLE_NS = 200000      # between measurements of a receive rate
    MEMORY_NS = 5000000     # of the moving average of a rate
    STALE_NS = 5000000      # then nothing received counts as a measurement
    LEAST_NS = 10000        # of a pause, and the unevenness that pacing may have
    MOST_NS = 5000000
    UNKNOWN_NS = 50000      # a pause while no rate is known
    FEW = 8                 # frames that a flow may hold of a driven port's buffers however many others hold

cdef bint open_flow(Worker* worker, Flow* flow, View* view) noexcept nogil
cdef void measure(Worker* worker, Flow* flow, View* view, int64_t now) noexcept nogil
cdef void set_limits(Worker* worker, Flow* flow, View* view) noexcept nogil
cdef int64_t room_at_driver(Worker* worker, SwitchPort* to, Flow* flow, View* view) noexcept nogil
cdef int64_t pause_time(Worker* worker, Flow* flow) noexcept nogil
cdef void pace(Worker* worker, TxQueue* txq, Flow* flow, int64_t length, int64_t now) noexcept nogil
