from penstock_net.fabric.heap_inline cimport add, fix, goes_first, remove, sooner, put, sift_up, sift_down, grow
from penstock_net.fabric.queueing_inline cimport set_node_event
from penstock_net.fabric.state cimport *
from penstock_net.fabric.wire cimport in_grains

cdef void set_pace_timer(Node* node) noexcept nogil
cdef void add_paced(Node* node, Flow* flow) noexcept nogil
cdef void add_to_paced(Node* node, Flow* flow) noexcept nogil
cdef void fix_among_paced(Node* node, Flow* flow) noexcept nogil
cdef void remove_paced(Node* node, Flow* flow) noexcept nogil
cdef void fix_paced(Node* node, Flow* flow) noexcept nogil
cdef void set_rank(Node* node, Flow* flow, int64_t rank) noexcept nogil
cdef void set_rate(Flow* flow, double bits_per_second) noexcept nogil
cdef int64_t paced(Node* node, double time) noexcept nogil
cdef void repace_in_grains(Node* node, Flow* flow) noexcept nogil
cdef void send_after(Node* node, Flow* flow, int64_t gap) noexcept nogil
cdef void repace(Node* node, Flow* flow) noexcept nogil
cdef Flow* flow_of(Node* node, Packet* pkt) noexcept nogil
cdef void about_flow(Packet* frame, Packet* pkt) noexcept nogil
cdef void try_send(Node* node, Flow* flow) noexcept nogil
cdef void send_from(Node* node, Flow* flow, int64_t offset) noexcept nogil
cdef void report_loss(Node* node, Flow* flow, int64_t offset) noexcept nogil
cdef void avoid_ports(Flow* flow, uint64_t ports) noexcept nogil
cdef void hold_flow(Node* node, Flow* flow, int64_t until) noexcept nogil
cdef void let_go(Node* node, Flow* flow) noexcept nogil
cdef Flow* first_flow_of(Node* node) noexcept nogil
