from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.loadgen.frames cimport App, Call, Calls, Core, Inbox, Stream
from penstock_net.vswitch.loadgen.frames cimport ANSWER, BINS, DATA, HEAD, KINDS, MOST_CALLS, MOST_CORES, MOST_FRAMES, REQUEST, SMALLEST, SOURCE_PORT
from penstock_net.vswitch.loadgen.frames cimport bin_at, call_at, calls_at, core_at, note, real, stream_at
from penstock_net.vswitch.loadgen.apps cimport interval, step
from penstock_net.vswitch.loadgen.calls cimport next_gap
from penstock_net.vswitch.memory.region cimport Region
from penstock_net.vswitch.dataplane.switch cimport Switch
from penstock_net.vswitch.dataplane.worker cimport turn

cdef enum:
    MOST_APPS = 16

cdef struct Costs:          # of the switch, ns
    double turn, frame, byte, drop, bell, look

cdef struct Work:           # of the switch so far
    int64_t frames, bytes, drops, bells, looks

cdef inline Worker* worker_of(Switch switch): return switch.worker
cdef inline App* new_app(): return <App*>calloc(1, sizeof(App))
cdef inline void set_app_view(App* app, Region region): app.view = region.view
cdef inline End* new_places(int64_t n): return <End*>calloc(n, sizeof(End))
cdef inline char* new_marks(int64_t n): return <char*>calloc(n, 1)
cdef inline int64_t* new_totals(int64_t n): return <int64_t*>calloc(n, 8)
cdef inline Inbox* new_inboxes(int64_t n): return <Inbox*>calloc(n, sizeof(Inbox))
cdef inline Stream* new_streams(int64_t n): return <Stream*>calloc(n, sizeof(Stream))
cdef inline Call* new_calls(int64_t n): return <Call*>calloc(n, sizeof(Call))
cdef inline void set_calls_head(Calls* calls, bytes text): memcpy(calls.head, <const char*>text, HEAD)
cdef inline void set_head(Stream* stream, bytes text): memcpy(stream.head, <const char*>text, HEAD)

cdef void count_work(Worker* worker, Work* work) noexcept nogil

cdef class Harness:
    cdef readonly object switch
    cdef Worker* worker
    cdef App* apps[16]
    cdef double ready[17]
    cdef readonly int count
    cdef public double now
    cdef Costs costs
    cdef Work work
    cdef Work at_start
    cdef double started
    cdef readonly double working, wasted, looking
    cdef readonly int64_t turns
    cdef bint real_time
    cdef readonly list regions, names
    cdef void run_virtual(self, double until) noexcept nogil
    cdef void run_real(self, double until) noexcept nogil

cdef inline App* app_of(Harness harness, int64_t i): return harness.apps[i]
cdef inline void virtual_released(Harness harness, double until):
    with nogil:
        harness.run_virtual(until)
cdef inline void real_released(Harness harness, double until):
    with nogil:
        harness.run_real(until)
