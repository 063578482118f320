from penstock_net.fabric.losses cimport settle
from penstock_net.fabric.queueing_inline cimport free_packet
from penstock_net.fabric.state cimport *
from penstock_net.sim.core.lifetimes cimport finish_flow
from penstock_net.sim.core.receiver cimport record_arrival

cdef void launch(Node* node, Flow* flow, Packet* pkt) noexcept nogil
cdef bint end_if_sent(Node* node, Flow* flow) noexcept nogil
cdef void receive_unanswered(Node* node, Packet* pkt) noexcept nogil
