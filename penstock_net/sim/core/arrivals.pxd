from penstock_net.fabric.line_inline cimport receive_control
from penstock_net.fabric.queueing_inline cimport set_event
from penstock_net.fabric.state cimport *
from penstock_net.fabric.switch_inline cimport receive
from penstock_net.sim.core.receiver cimport receive_data
from penstock_net.sim.core.sender cimport receive_ack, receive_apart
from penstock_net.sim.core.watched cimport stops

cdef Packet* take(Node* node, Port* port) noexcept nogil
cdef void accept(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void take_sets(Node* node, int64_t end) noexcept nogil
cdef Packet* first_frame(Node* node, Packet* pkt, int64_t end) noexcept nogil
cdef int shuffle(Node* node, Packet* pkt, int64_t end) noexcept nogil
cdef void arrive(Node* node, int64_t key) noexcept nogil
