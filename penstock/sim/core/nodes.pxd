from penstock.fabric.state cimport *
from penstock.fabric.line cimport drop
from penstock.fabric.queueing_inline cimport set_event

cdef void new_node(World* world, int number, int degree, Node* node, long port_size, long queue_size, int queue_count, int voq_count) noexcept
cdef void new_nic(World* world, Node* node, int nic_queues) noexcept
cdef void own_scheduling(World* world) noexcept
cdef void link(World* world, int a, int slot_a, int b, int slot_b, int64_t ps_per_byte, int64_t delay, int near) noexcept
cdef void set_loss(Port* port, int64_t loss, int64_t control_loss) noexcept
cdef void cut(World* world, Node* node, int slot) noexcept
