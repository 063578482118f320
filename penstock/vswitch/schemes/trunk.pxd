from penstock.vswitch.schemes.state cimport *
from penstock.fabric.queueing_inline cimport free_frame, free_packet, set_event, alloc_frame, alloc_packet
from penstock.fabric.line cimport pause_port, resume_port
from penstock.vswitch.schemes.edge cimport note_next
from penstock.vswitch.dataplane.parse cimport parse
from penstock.vswitch.ports.base cimport port_flush, port_receive, port_send

cdef enum:
    FEW = 1 << 30

cdef void collect_out(Fabric* f) noexcept nogil
cdef int64_t push_out(Fabric* f) noexcept nogil
cdef void give(Fabric* f, Packet* pkt) noexcept nogil
cdef int64_t encode(Fabric* f, Trunk* trunk, Packet* pkt) noexcept nogil
cdef uint64_t sealed(char* frame, int64_t length, uint64_t secret) noexcept nogil
cdef int64_t pull_in(Fabric* f) noexcept nogil
cdef bint accept(Fabric* f, Trunk* trunk, int64_t length) noexcept nogil
