from penstock_net.fabric.queueing_inline cimport free_frame, free_packet
from penstock_net.fabric.sampling cimport trace
from penstock_net.fabric.state cimport *

cdef void drop(Node* node, Port* port, Packet* pkt, int reason) noexcept nogil
cdef void settle(Node* node, int64_t lost) noexcept nogil
