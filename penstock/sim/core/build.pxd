from penstock.fabric.state cimport *
from penstock.fabric.flow_results cimport set_flow_result
from penstock.fabric.queueing_inline cimport set_event, set_node_event
from penstock.fabric.switch cimport drop, kick
from penstock.sim.core.pointers cimport *
from penstock.sim.core.sender cimport set_start_timer

cdef void new_node(World* world, int number, int degree, Node* node, long port_size, long queue_size, int queue_count, int voq_count) noexcept
cdef void new_nic(World* world, Node* node, int nic_queues) noexcept
cdef void link(World* world, int a, int slot_a, int b, int slot_b, int64_t ps_per_byte, int64_t delay) noexcept
cdef void set_lines(Port* port, int64_t loss, int64_t control_loss) noexcept
cdef int64_t chain_bytes(Packet* pkt) noexcept
cdef void cut(World* world, Node* node, int slot) noexcept

cdef class Simulation:
    cdef World* world
    cdef object kept, kept_starts, installed
