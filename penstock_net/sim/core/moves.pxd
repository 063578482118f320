from penstock_net.fabric.line cimport kick
from penstock_net.fabric.state cimport *
from penstock_net.sim.core.lifetimes cimport claim_queue, own_queues, release_queue, withdraw
from penstock_net.sim.core.nics cimport choose_nic
from penstock_net.sim.core.nodes cimport tell_of_link
from penstock_net.sim.core.sender cimport reschedule_flow

cdef void move_flows(Node* node) noexcept nogil
cdef void move_flow(Node* node, Flow* flow, Host* nic) noexcept nogil
