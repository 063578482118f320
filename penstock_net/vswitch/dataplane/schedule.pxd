from penstock_net.vswitch.dataplane.state cimport *

cdef void activate(SwitchPort* port, int64_t number) noexcept nogil
cdef void take_head(SwitchPort* port, int64_t level) noexcept nogil
cdef void pause_txq(Worker* worker, SwitchPort* port, int64_t number, int64_t until) noexcept nogil
cdef void add_timer(Worker* worker, int64_t at, int64_t port, int64_t queue) noexcept nogil
cdef void take_timer(Worker* worker) noexcept nogil
cdef void sift_down(Worker* worker, int64_t i) noexcept nogil
cdef void set_timer(Worker* worker, int64_t i, int64_t at, int64_t port, int64_t queue) noexcept nogil
cdef void hasten(Worker* worker, int64_t port, int64_t now) noexcept nogil
cdef void order_timers(Worker* worker) noexcept nogil
cdef void forget_timers(Worker* worker, int64_t port) noexcept nogil
cdef void release(Worker* worker, int64_t now) noexcept nogil
