from penstock_net.fabric.state cimport *

cdef int32_t group_towards(Node* node, int dst) noexcept nogil
cdef int32_t tabulated_group(Node* node, int dst) noexcept nogil
cdef Port* port_towards(Node* node, Packet* pkt, int host) noexcept nogil
cdef Port* port_by_hash(Node* node, int host, int32_t hash) noexcept nogil
cdef bint passes(Node* node, Port* port, int host, int32_t hash, int switch, int slot) noexcept nogil
cdef int32_t path_count(Node* node, Packet* pkt) noexcept nogil
cdef Port* path_at(Node* node, Packet* pkt, int i) noexcept nogil
