from penstock_net.fabric.losses cimport drop
from penstock_net.fabric.queueing_inline cimport draw, free_frame
from penstock_net.fabric.retry cimport is_kept_back, take_set
from penstock_net.fabric.state cimport *
from penstock_net.sim.core.cutthrough cimport complete_later, forward_header, is_forwarded, rest_of, store

cdef void lose(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint lost(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint kept_back(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint stops(Node* node, Port* port, Packet* pkt) noexcept nogil
