from penstock.fabric.failure cimport fail
from penstock.fabric.heap cimport add, remove
from penstock.fabric.line cimport arm, disarm, kick, send, wait
from penstock.fabric.pacing cimport add_paced, remove_paced, set_pace_timer
from penstock.fabric.queueing_inline cimport alloc_packet, call_flow_hooks, draw, free_packet, list_queue, set_node_event
from penstock.fabric.state cimport *
from penstock.fabric.switch cimport dequeue

cdef void append_flow(FlowRing* ring, Flow* flow) noexcept nogil
cdef Flow* take_first(FlowRing* ring) noexcept nogil
cdef void unlink_flow(FlowRing* ring, Flow* flow) noexcept nogil
cdef void make_ready(Node* node, Flow* flow) noexcept nogil
cdef Flow* take_ready(Node* node) noexcept nogil
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
cdef void run_pacer(Node* node) noexcept nogil
cdef void claim_queue(Node* node, Flow* flow) noexcept nogil
cdef void release_queue(Host* host, Flow* flow) noexcept nogil
cdef Flow* alloc_flow(Node* node) noexcept nogil
cdef void finish_computation(Node* node, int64_t number) noexcept nogil
cdef void admit_flow(Node* node, Start* start) noexcept nogil
cdef void finish_flow(Node* node, Flow* flow) noexcept nogil
cdef void withdraw(Node* node, Flow* flow) noexcept nogil
cdef void set_start_timer(Node* node) noexcept nogil
cdef void run_starts(Node* node) noexcept nogil
cdef void run_delayed(Node* node) noexcept nogil
cdef void delay_start(Host* host, int i, Start* start) noexcept nogil
cdef void release_children(Node* node, int64_t number) noexcept nogil
cdef void go_back(Node* node, Flow* flow, int64_t seq) noexcept nogil
cdef void reschedule(Node* node, Flow* flow) noexcept nogil
cdef void receive_returned(Node* node, Packet* pkt) noexcept nogil
cdef void receive_ack(Node* node, Packet* pkt) noexcept nogil
cdef void arm_tick(Node* node) noexcept nogil
cdef void run_tick(Node* node) noexcept nogil
