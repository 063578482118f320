from penstock_net.fabric.state cimport *
from penstock_net.sim.core.sender cimport park

cdef void keep_if_paused(Node* node, Port* port, Packet* pkt) noexcept nogil
