from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.memory.rings_inline cimport open_queue, push, slot_of, take, take_ring

cdef enum:
    SAMPLE_NS = 200000      # between measurements of a receive rate
    MEMORY_NS = 5000000     # of the moving average of a rate
    STALE_NS = 5000000      # then nothing received counts as a measurement
    LEAST_NS = 10000        # of a pause, and the unevenness that pacing may have
    MOST_NS = 5000000
    UNKNOWN_NS = 50000      # a pause while no rate is known
    LEAST_FRAMES = 8        # frames that a flow may hold of a driven port's buffers however many others hold

cdef extern from *:         # of a pacing rate to the rate of the receiver
    """
    #define LEAST_GAIN 0.5
    #define MOST_GAIN 2.0
    """
    double LEAST_GAIN       # from one and a half times th_goal on
    double MOST_GAIN        # at an empty queue

# The ratio of a pacing rate to the receiver's when so many bytes wait: 1 at th_goal.
cdef inline double gain(double queued, int64_t goal) noexcept nogil:
    return max(LEAST_GAIN, min(MOST_GAIN, MOST_GAIN - queued / max(goal, 1)))

cdef bint open_flow(Worker* worker, Flow* flow, View* view) noexcept nogil
cdef void measure(Worker* worker, Flow* flow, View* view, int64_t now) noexcept nogil
cdef int64_t taken_by_now(Flow* flow, View* view) noexcept nogil
cdef int64_t waiting_now(Worker* worker, Flow* flow) noexcept nogil
cdef void set_limits(Worker* worker, Flow* flow, View* view) noexcept nogil
cdef int64_t room_at_driver(Worker* worker, SwitchPort* to, Flow* flow, View* view) noexcept nogil
cdef int64_t pause_time(Worker* worker, Flow* flow) noexcept nogil
cdef int64_t drain_ns(int64_t excess, double rate) noexcept nogil
cdef void pace(Worker* worker, TxQueue* txq, Flow* flow, int64_t length, int64_t now) noexcept nogil
