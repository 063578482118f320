from penstock_net.vswitch.schemes.state cimport *
from penstock_net.fabric.queueing_inline cimport free_frame, free_packet, set_event, alloc_frame, alloc_packet
from penstock_net.fabric.line cimport pause_port, resume_port
from penstock_net.vswitch.schemes.endpoint cimport note_next
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.ports.base cimport port_flush, port_receive, port_send

cdef enum:
    FEW = 1 << 30           # frames; sequence numbers begin at the time of the start, in ns

cdef inline bint is_host(Emulation* emulation, int64_t number) noexcept nogil: return 0 <= number < emulation.world.host_count

cdef void collect_out(Emulation* emulation) noexcept nogil
cdef int64_t push_out(Emulation* emulation) noexcept nogil
cdef void free_any(Emulation* emulation, Packet* pkt) noexcept nogil
cdef void pack(Wire* wire, Packet* pkt) noexcept nogil
cdef void unpack(Wire* wire, Packet* pkt) noexcept nogil
cdef int64_t encode(Emulation* emulation, Trunk* trunk, Packet* pkt) noexcept nogil
cdef uint64_t sealed(char* frame, int64_t length, uint64_t secret) noexcept nogil
cdef int64_t pull_in(Emulation* emulation) noexcept nogil
cdef bint accept(Emulation* emulation, Trunk* trunk, int64_t length) noexcept nogil
cdef bint is_authentic(Emulation* emulation, Trunk* trunk, Wire* wire, int64_t length) noexcept nogil
cdef bint is_possible(Emulation* emulation, Line* line, Wire* wire, int64_t body) noexcept nogil
cdef bint is_possible_packet(Emulation* emulation, Line* line, Wire* wire, int64_t body) noexcept nogil
cdef bint is_possible_control(Emulation* emulation, Wire* wire, int64_t body) noexcept nogil
cdef void count_missing(Trunk* trunk, uint64_t sequence) noexcept nogil
cdef void append(Emulation* emulation, Trunk* trunk, Line* line, Packet* pkt) noexcept nogil
