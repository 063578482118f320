from penstock.fabric.queueing_inline cimport set_node_event
from penstock.fabric.state cimport *

cdef bint sooner(Flow* a, Flow* b) noexcept nogil
cdef void put_flow(Host* host, int i, Flow* flow) noexcept nogil
cdef void sift_up(Host* host, int i) noexcept nogil
cdef void sift_down(Host* host, int i) noexcept nogil
cdef void grow_heap(Node* node) noexcept nogil
cdef void set_pace_timer(Node* node) noexcept nogil
cdef void add_paced(Node* node, Flow* flow) noexcept nogil
cdef void remove_paced(Node* node, Flow* flow) noexcept nogil
cdef void fix_paced(Node* node, Flow* flow) noexcept nogil
cdef void set_rate(Flow* flow, double bits_per_second) noexcept nogil
cdef void repace(Node* node, Flow* flow) noexcept nogil
cdef Flow* flow_of(Node* node, Packet* pkt) noexcept nogil
cdef void about_flow(Packet* frame, Packet* pkt) noexcept nogil
cdef void hold_flow(Node* node, Flow* flow, int64_t until) noexcept nogil
