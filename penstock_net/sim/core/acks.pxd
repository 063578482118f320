from penstock_net.fabric.incoming cimport next_flow_timer
from penstock_net.fabric.line cimport kick
from penstock_net.fabric.queueing_inline cimport free_packet, push_control, set_node_event
from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_held

cdef void grow_held(Node* node) noexcept nogil
cdef int32_t open_held(Node* node) noexcept nogil
cdef void close_held(Host* host, int32_t place) noexcept nogil
cdef bint changes_mark(Node* node, Sink* sink, Packet* pkt) noexcept nogil
cdef bint waits(Node* node, Sink* sink) noexcept nogil
cdef int32_t hold(Node* node, Sink* sink, Packet* pkt, int64_t seq) noexcept nogil
cdef Packet* take_held(Node* node, int32_t place) noexcept nogil
cdef void note_answer(Node* node, Packet* pkt, int32_t packets, int64_t waited) noexcept nogil
cdef int32_t first_due(Node* node) noexcept nogil
cdef void leave(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void send_ack(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void send_made(Node* node) noexcept nogil
cdef void schedule_acks(Node* node) noexcept nogil
