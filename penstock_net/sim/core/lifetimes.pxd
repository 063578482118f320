from penstock_net.fabric.failure cimport fail
from penstock_net.fabric.heap cimport remove
from penstock_net.fabric.pacing cimport remove_paced, set_pace_timer
from penstock_net.fabric.queueing_inline cimport call_flow_hooks, draw, set_node_event
from penstock_net.fabric.reduction cimport enter
from penstock_net.fabric.state cimport *
from penstock_net.sim.core.connections cimport join, message_of, post
from penstock_net.sim.core.delayed cimport add_delayed, take_due
from penstock_net.sim.core.nics cimport choose_nic

cdef void unlink_flow(FlowRing* ring, Flow* flow) noexcept nogil
cdef void count_pause(Node* node, Flow* flow) noexcept nogil
cdef void count_timeout(Node* node, Flow* flow) noexcept nogil
cdef bint awaits_answer(Node* node, Flow* flow) noexcept nogil
cdef int64_t first_timeout(Node* node) noexcept nogil
cdef void arm_tick(Node* node) noexcept nogil
cdef void claim_queue(Node* node, Flow* flow) noexcept nogil
cdef void release_queue(Host* host, Flow* flow) noexcept nogil
cdef bint own_queues(Node* node) noexcept nogil
cdef Flow* alloc_flow(Node* node) noexcept nogil
cdef void finish_computation(Node* node, int64_t number) noexcept nogil
cdef void admit_flow(Node* node, Start* start) noexcept nogil
cdef void limit(World* world, Flow* flow) noexcept nogil
cdef bint follow(Node* node, Start* start) noexcept nogil
cdef void finish_messages(Node* node, Flow* flow) noexcept nogil
cdef void rest(Node* node, Flow* flow) noexcept nogil
cdef void store_results(Node* node, Flow* flow) noexcept nogil
cdef void finish_flow(Node* node, Flow* flow) noexcept nogil
cdef void withdraw(Node* node, Flow* flow) noexcept nogil
cdef void set_start_timer(Node* node) noexcept nogil
cdef void run_starts(Node* node) noexcept nogil
cdef void run_delayed(Node* node) noexcept nogil
cdef void release_children(Node* node, int64_t number) noexcept nogil
