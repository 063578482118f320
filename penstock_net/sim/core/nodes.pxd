from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport later_int32, new_flow_rings, new_host, new_int64, new_packet_refs, new_ports, new_queues, new_rings
from penstock_net.fabric.tables cimport new_sinks
from penstock_net.fabric.line cimport disarm, is_stopped, resume_port, resume_queue
from penstock_net.fabric.losses cimport drop
from penstock_net.fabric.queueing_inline cimport pop, set_event, set_node_event
from penstock_net.fabric.ranking cimport is_ranked, withdraw_first
from penstock_net.fabric.rows cimport NodeCounters, PortCounters
from penstock_net.fabric.retry cimport begin_anew, bring_up, lose_from_wire
from penstock_net.fabric.wire cimport transmission
from penstock_net.sim.core.cutthrough cimport complete_all
from penstock_net.sim.core.pointers cimport add_first, add_reduction, int32_table, int64_table, queue_area
from penstock_net.sim.core.pointers cimport recorded_table, seat_table

cdef void new_node(World* world, int number, int degree, Node* node, long port_size, long queue_size, int queue_count, int voq_count) noexcept
cdef void new_nic(World* world, Node* node, int nic_queues) noexcept
cdef void begin_acks(World* world, object settings, object composition) except *
cdef void own_scheduling(World* world) noexcept
cdef void set_rate(World* world, Node* node, Port* port, double ps_per_byte) noexcept
cdef void link(World* world, int a, int slot_a, int b, int slot_b, double ps_per_byte, int64_t delay, int near) noexcept
cdef void set_loss(Port* port, int64_t loss, int64_t control_loss) noexcept
cdef void watch_hosts(World* world) noexcept
cdef void cut(World* world, Node* node, int slot) noexcept
cdef void end_pauses(Node* node, Port* port) noexcept
cdef void lose(Node* node, Port* port, Packet* pkt) noexcept
cdef void empty_port(Node* node, Port* port) noexcept
cdef void set_state(World* world, Node* node, int slot, int state) noexcept
cdef void go_on(Node* node, Port* port, int state) noexcept
cdef void tell_of_link(Node* node, Port* port) noexcept nogil
cdef void empty_switch(World* world, Node* node) noexcept
cdef void clear_queues(Node* node, long at, long size) noexcept
cdef int64_t chain_bytes(Packet* pkt) noexcept
cdef int paused_queues(Port* port) noexcept
cdef set ingresses(Packet* pkt)
cdef void count_node(Node* node, int64_t end, NodeCounters* row) noexcept
cdef void count_port(Node* node, int slot, int64_t end, PortCounters* row) noexcept
cdef void restart_maxima_of(Node* node) noexcept
cdef list stopped_queues_of(Node* node)
cdef void plant(World* world, object seat_of, object seats, object parts, int64_t chunks, int groups_wait) except *
cdef void guide(World* world, dict tables) except *
cdef dict totals_of(World* world)
cdef list queueing_of(Node* node)
cdef list flow_samples_of(Node* node)
cdef list active_flows_of(Node* node)
cdef void record_fields(World* world, object counted, object recorded, int64_t print_limit) except *
cdef list counts_of(World* world, int number, int owner, long area, long at)
cdef list flow_counts_of(World* world, int number)
