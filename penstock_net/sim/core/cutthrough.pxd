from penstock_net.fabric.losses cimport drop
from penstock_net.fabric.queueing_inline cimport set_event
from penstock_net.fabric.routing cimport group_towards
from penstock_net.fabric.state cimport *
from penstock_net.fabric.switch cimport chosen, enqueue
from penstock_net.fabric.wire cimport transmission

cdef int64_t rest_of(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint is_forwarded(Packet* pkt) noexcept nogil
cdef void complete_later(Node* node, Port* port, Packet* pkt, int64_t rest, int slot) noexcept nogil
cdef bint cuts_through(Node* node, Port* port, Packet* pkt, int64_t rest) noexcept nogil
cdef void forward_header(Node* node, Port* port, Packet* pkt, int64_t rest) noexcept nogil
cdef void store(Node* node, Packet* pkt) noexcept nogil
cdef void complete_all(Node* node, Port* port) noexcept nogil
cdef int await_last_bits(Node* node, Port* port, Packet* pkt, int count) noexcept nogil
