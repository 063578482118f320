from penstock_net.fabric.routing cimport group_towards, path_count
from penstock_net.fabric.state cimport *

cdef int32_t pinned_slot(Node* node, int64_t number, int src, int dst) noexcept nogil
cdef int32_t hop_at(Node* node, int group, int slot) noexcept nogil
cdef int32_t otherwise(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef int32_t choose_pinned(void* me, Node* node, Port* port, Packet* pkt) noexcept nogil
cdef int32_t choose_turn(void* me, Node* node, Port* port, Packet* pkt) noexcept nogil
