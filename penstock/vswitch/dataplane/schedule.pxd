from penstock.vswitch.dataplane.state cimport *

cdef void activate(Port* port, int64_t number) noexcept nogil
cdef void take_head(Port* port, int64_t level) noexcept nogil
cdef void pause_input(Worker* w, Port* port, int64_t number, int64_t until) noexcept nogil
cdef void add_timer(Worker* w, int64_t at, int64_t port, int64_t input) noexcept nogil
cdef void take_timer(Worker* w) noexcept nogil
cdef void sift_down(Worker* w, int64_t i) noexcept nogil
cdef void set_timer(Worker* w, int64_t i, int64_t at, int64_t port, int64_t input) noexcept nogil
cdef void forget_timers(Worker* w, int64_t port) noexcept nogil
cdef void release(Worker* w, int64_t now) noexcept nogil
