from penstock_net.fabric.failure cimport fail
from penstock_net.fabric.line_inline cimport arm, disarm, has_queue, kick, send, wait
from penstock_net.fabric.losses cimport drop
from penstock_net.fabric.queueing_inline cimport call_packet_hooks, list_queue, next_queue, pop, push, push_control, set_event, unlist_first
from penstock_net.fabric.ranking cimport is_ranked, lead, rank_tail, withdraw
from penstock_net.fabric.retry cimport hold
from penstock_net.fabric.routing_inline cimport tabulated_group
from penstock_net.fabric.sampling cimport trace
from penstock_net.fabric.state cimport *
from penstock_net.fabric.wire cimport send_uneven
from penstock_net.fabric.wire_inline cimport note_mail, post

cdef int chosen(Node* node, int slot, Packet* pkt, int count) noexcept nogil
cdef void receive(Node* node, int slot, Packet* pkt) noexcept nogil
cdef void enqueue(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint admitted(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint refused(Node* node, Port* port, Packet* pkt, int answer) noexcept nogil
cdef void exchange_with_tail(Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef bint unlink(Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void move_to_head(Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void drop_queued(Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void discard(Node* node, Port* port, Queue* queue) noexcept nogil
cdef bint has_voq(Node* node, int index) noexcept nogil
cdef void enqueue_voq(Node* node, Port* port, Packet* pkt, int index) noexcept nogil
cdef void release(Node* node, int index) noexcept nogil
cdef void requeue(Node* node, int index, int other) noexcept nogil
cdef void enqueue_egress(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef Packet* dequeue(Node* node, Port* port) noexcept nogil
cdef Queue* scheduled_queue(Node* node, Port* port) noexcept nogil
cdef void count_queueing_delay(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint may_transmit(Port* port) noexcept nogil
cdef void transmit(Node* node, Port* port) noexcept nogil
cdef void wake(Node* node, Port* port, Queue* queue) noexcept nogil
