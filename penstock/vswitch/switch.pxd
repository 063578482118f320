from penstock.vswitch.state cimport *
from penstock.vswitch.region cimport Region
from penstock.vswitch.flowtable cimport remove_flow
from penstock.vswitch.schedule cimport forget_timers
from penstock.vswitch.worker cimport loop, turn

cdef inline void run_released(Worker* w, int64_t until):
    with nogil:
        loop(w, until)
cdef inline uint64_t turns_released(Worker* w, int64_t count):
    cdef uint64_t start
    cdef int64_t i
    with nogil:
        start = cycles()
        for i in range(count):
            turn(w, now_ns())
        start = cycles() - start
    return start
cdef inline Worker* new_worker(): return <Worker*>calloc(1, sizeof(Worker))
cdef inline Flow* new_flows(int64_t n): return <Flow*>calloc(n, sizeof(Flow))
cdef inline Input* new_inputs(int64_t n): return <Input*>calloc(n, sizeof(Input))
cdef inline Timer* new_timers(int64_t n): return <Timer*>calloc(n, sizeof(Timer))
cdef inline int32_t* numbers(int64_t n): return <int32_t*>calloc(n, sizeof(int32_t))
cdef inline void set_view(Port* port, Region region): port.view = region.view
cdef inline void clear_port(Port* port): memset(port, 0, sizeof(Port))
cdef inline bint has_drops(Input* input) noexcept nogil:
    cdef int i
    for i in range(REASONS):
        if input.drops[i]:
            return True
    return False
cdef inline void clear_input(Input* input): memset(input, 0, sizeof(Input))

cdef class Switch:
    cdef Worker* w
    cdef readonly dict regions, names, fds
    cdef readonly list detached
    cdef readonly object epoll
    cdef object commands, thread
    cdef int control, serial
    cdef bint stopping
    cdef readonly dict settings
