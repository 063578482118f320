from penstock_net.fabric.line_inline cimport kick, new_frame
from penstock_net.fabric.queueing_inline cimport push_control
from penstock_net.fabric.state cimport *

cdef Packet* new_chunk(Node* node, int seat, int command, int64_t seq, int payload) noexcept nogil
cdef void pass_on(Node* node, int slot, int seat, int command, int64_t seq, int payload) noexcept nogil
cdef void spread(Node* node, Seat* seat, int command, int64_t seq, int payload) noexcept nogil
cdef void ascend(Node* node, Seat* seat, int above, int below, int64_t seq, int payload) noexcept nogil
cdef void begin(Node* node, Seat* seat) noexcept nogil
cdef void end(Node* node, Seat* seat) noexcept nogil
cdef void add(Node* node, Seat* seat, Packet* pkt) noexcept nogil
cdef void pass_down(Node* node, Seat* seat, int64_t seq, int payload) noexcept nogil
cdef void reduce(void* me, Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void enter(Node* node, Flow* flow, int seat) noexcept nogil
cdef Packet* next_chunk(Node* node, Flow* flow, int64_t seq) noexcept nogil
