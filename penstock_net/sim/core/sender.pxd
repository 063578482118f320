from penstock_net.fabric.failure cimport fail
from penstock_net.fabric.heap cimport add, remove
from penstock_net.fabric.line cimport arm, disarm, kick, send, wait
from penstock_net.fabric.pacing cimport add_paced, paced, remove_paced, set_pace_timer
from penstock_net.fabric.queueing_inline cimport alloc_packet, call_flow_hooks, free_packet, list_queue, set_node_event
from penstock_net.fabric.reduction cimport next_chunk
from penstock_net.fabric.retry cimport hold
from penstock_net.fabric.state cimport *
from penstock_net.fabric.switch cimport dequeue
from penstock_net.sim.core.connections cimport end_with_message, goes_on
from penstock_net.sim.core.lifetimes cimport arm_tick, awaits_answer, count_pause, count_timeout, finish_flow, finish_messages
from penstock_net.sim.core.nics cimport kick_others, next_nic
from penstock_net.sim.core.openloop cimport end_if_sent, launch, receive_unanswered

cdef void append_flow(FlowRing* ring, Flow* flow) noexcept nogil
cdef Flow* take_first(FlowRing* ring) noexcept nogil
cdef void make_ready(Node* node, Flow* flow) noexcept nogil
cdef void queue_packets(Node* node, Flow* flow) noexcept nogil
cdef Flow* take_ready(Host* host) noexcept nogil
cdef bint may_send(Flow* flow) noexcept nogil
cdef void reschedule_flow(Node* node, Flow* flow) noexcept nogil
cdef void park(Node* node, Flow* flow) noexcept nogil
cdef void wake_flows(Node* node, Port* port, Queue* queue) noexcept nogil
cdef Flow* next_flow(Node* node, Port* port) noexcept nogil
cdef int64_t resent_offset(Node* node, Flow* flow) noexcept nogil
cdef Packet* make_packet(Node* node, Flow* flow, int64_t seq) noexcept nogil
cdef bint may_acknowledge(Port* port) noexcept nogil
cdef bint may_transmit_host(Node* node, Port* port) noexcept nogil
cdef void serve(Node* node, Port* port, Flow* flow) noexcept nogil
cdef void transmit_host(Node* node, Port* port) noexcept nogil
cdef void go_on(Node* node, Flow* flow) noexcept nogil
cdef void run_pacer(Node* node) noexcept nogil
cdef void go_back(Node* node, Flow* flow, int64_t seq) noexcept nogil
cdef void reschedule(Node* node, Flow* flow) noexcept nogil
cdef void receive_apart(Node* node, Packet* pkt) noexcept nogil
cdef void receive_returned(Node* node, Packet* pkt) noexcept nogil
cdef void receive_ack(Node* node, Packet* pkt) noexcept nogil
cdef void run_tick(Node* node) noexcept nogil
