from penstock_net.vswitch.ports.base cimport *
from penstock_net.vswitch.ports.link cimport next_random
from penstock_net.vswitch.ports.pcap cimport record

cdef extern from * nogil:
    """
    #define FNV_BASIS 14695981039346656037ULL
    #define FNV_PRIME 1099511628211ULL
    """
    const uint64_t FNV_BASIS, FNV_PRIME

cdef struct Way:            # the faults of one direction
    uint64_t random
    uint64_t drop, duplicate, corrupt, reorder, no_room       # of 2**32
    char* kept              # a frame that goes again, or later
    int64_t length          # of it; 0: there is none
    int32_t due             # whether it is its turn
    int64_t dropped, duplicated, corrupted, reordered, put_off

cdef struct Faults:
    Way way[2]              # in, out
    char* work

cdef struct Passage:
    int64_t time, length    # length is negative on the way out
    uint64_t digest

cdef struct Trace:
    Passage* passages
    int64_t size, count

cdef inline Faults* faults_of(KernelPort* port) noexcept nogil: return <Faults*>port.own
cdef inline Faults* new_faults(PortHandle port) except NULL: return <Faults*>keep(port, bytearray(sizeof(Faults)))
cdef inline Way* way_of(Faults* faults, int i) noexcept nogil: return &faults.way[i]
cdef inline bint chance(Way* way, uint64_t of) noexcept nogil: return of and next_random(&way.random) < of
cdef inline uint64_t number(Way* way) noexcept nogil: return next_random(&way.random)
cdef inline Trace* trace_of(KernelPort* port) noexcept nogil: return <Trace*>port.own
cdef inline Trace* new_trace(PortHandle port) except NULL: return <Trace*>keep(port, bytearray(sizeof(Trace)))
cdef inline Passage* new_passages(PortHandle port, int64_t n) except NULL: return <Passage*>keep(port, bytearray(n * sizeof(Passage)))
cdef inline Passage* passage_at(Trace* trace, int64_t i) noexcept nogil: return &trace.passages[i % trace.size]

cdef int64_t capture_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint capture_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef bint capture_flush(KernelPort* port) noexcept nogil
cdef void copy_to_sink(KernelPort* port, char* frame, int64_t length, int64_t direction) noexcept nogil
cdef bint inner_flush(KernelPort* port) noexcept nogil
cdef int64_t changed(Way* way, char* frame, int64_t length, KernelPort* port) noexcept nogil
cdef int64_t faults_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint faults_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef bint faults_flush(KernelPort* port) noexcept nogil
cdef void note(KernelPort* port, char* frame, int64_t length, int64_t sign) noexcept nogil
cdef int64_t trace_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint trace_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef PortHandle wrapped(PortHandle inner, str kind)
cdef void connect_capture(PortHandle handle, PortHandle inner, PortHandle sink) except *
cdef void connect_faults(PortHandle handle, PortHandle inner, list ways) except *
cdef void connect_trace(PortHandle handle, PortHandle inner, int64_t size) except *
cdef class Report:
    cdef PortHandle port
