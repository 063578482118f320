from penstock_net.fabric.heap_inline cimport add, fix, goes_first, remove, sooner, put, sift_up, sift_down, grow
from penstock_net.fabric.queueing_inline cimport set_node_event
from penstock_net.fabric.state cimport *

cdef void set_flow_timer(Node* node, Incoming* incoming, int64_t when) noexcept nogil
cdef int64_t next_flow_timer(Heap* heap) noexcept nogil
cdef bint precedes(Node* node, Incoming* a, Incoming* b) noexcept nogil
cdef void rank_incoming(Node* node, Incoming* incoming, int64_t rank) noexcept nogil
cdef void unrank_incoming(Node* node, Incoming* incoming) noexcept nogil
cdef Incoming* first_ranked(Node* node) noexcept nogil
cdef void about_incoming(Packet* frame, Incoming* incoming) noexcept nogil
cdef void about_sent(Packet* frame, Flow* flow) noexcept nogil
cdef Incoming* incoming_of(Node* node, Packet* frame) noexcept nogil
cdef Incoming* incoming_at(Node* node, int32_t number) noexcept nogil
cdef double inbound_ps_per_byte(Node* node) noexcept nogil
