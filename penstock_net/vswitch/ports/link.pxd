from penstock_net.vswitch.ports.base cimport *

cdef enum:
    RECORD = 16             # bytes before a frame: its length, or -1 for the rest of the ring, and the time in ps

cdef struct Wire:           # one direction of a link: frames in a ring of bytes, each after its length and the time that it arrives
    char* bytes
    int64_t size
    uint64_t head, tail     # bytes that were put in and taken out, ever
    double ps_per_byte
    int64_t delay_ps, burst_ps
    int64_t free_at         # ps: when the token bucket would be full again, plus burst_ps
    uint64_t random
    uint64_t loss           # of 2**32

cdef struct Ends:
    Wire* out
    Wire* into

cdef inline Ends* ends_of(KernelPort* port) noexcept nogil: return <Ends*>port.own
cdef inline Ends* new_ends(PortHandle port) except NULL: return <Ends*>keep(port, bytearray(sizeof(Ends)))
cdef inline Wire* new_wire(PortHandle port) except NULL: return <Wire*>keep(port, bytearray(sizeof(Wire)))
cdef inline uint64_t* head_of(Wire* wire) noexcept nogil: return &wire.head
cdef inline uint64_t* tail_of(Wire* wire) noexcept nogil: return &wire.tail
cdef inline int64_t* number_at(char* base, int64_t offset) noexcept nogil: return <int64_t*>(base + offset)
# xorshift64*: the high half of the product is good random
cdef inline uint64_t next_random(uint64_t* state) noexcept nogil:
    state[0] ^= state[0] >> 12
    state[0] ^= state[0] << 25
    state[0] ^= state[0] >> 27
    return (state[0] * <uint64_t>2685821657736338717ULL) >> 32
cdef inline int64_t time_of_bytes(Wire* wire, int64_t count) noexcept nogil: return <int64_t>(count * wire.ps_per_byte)
cdef inline uint64_t* random_of(Wire* wire) noexcept nogil: return &wire.random

cdef bint link_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef int64_t link_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef Wire* make_wire(PortHandle handle, double ps_per_byte, int64_t delay_ps, int64_t burst, uint64_t loss, uint64_t seed, int64_t size) except NULL
cdef void join(PortHandle handle, Wire* out, Wire* into) except *
cdef void connect(PortHandle a, PortHandle b, list way_a, list way_b) except *
