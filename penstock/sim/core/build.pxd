from penstock.fabric.state cimport *
from penstock.fabric.flow_results cimport set_flow_result
from penstock.fabric.queueing_inline cimport set_event, set_node_event
from penstock.fabric.line cimport drop, kick
from penstock.sim.core.nodes cimport link, new_nic, new_node, set_loss
from penstock.sim.core.pointers cimport *
from penstock.sim.core.sender cimport set_start_timer

cdef int64_t chain_bytes(Packet* pkt) noexcept
cdef void cut(World* world, Node* node, int slot) noexcept

cdef class Simulation:
    cdef World* world
    cdef object kept, kept_starts, installed
