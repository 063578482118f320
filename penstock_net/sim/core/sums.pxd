from penstock_net.fabric.state cimport *
from penstock_net.sim.core.lifetimes cimport finish_flow
from penstock_net.sim.core.receiver cimport record_arrival
from penstock_net.sim.core.sender cimport reschedule

cdef void receive_sum(void* me, Node* node, Port* port, Packet* pkt) noexcept nogil
