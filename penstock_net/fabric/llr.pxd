from penstock_net.fabric.queueing_inline cimport alloc_frame, alloc_packet, free_frame, free_packet, set_node_event
from penstock_net.fabric.state cimport *

cdef Packet* copy_of(Node* node, Packet* pkt) noexcept nogil
cdef void free_copy(Node* node, Packet* pkt) noexcept nogil
cdef bint is_full(Llr* llr) noexcept nogil
cdef void protect(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void look_at(Node* node, int64_t when) noexcept nogil
