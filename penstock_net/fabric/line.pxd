from penstock_net.fabric.failure cimport fail
from penstock_net.fabric.queueing_inline cimport alloc_frame, free_frame, set_event, set_node_event
from penstock_net.fabric.routing_inline cimport group_towards
from penstock_net.fabric.sampling cimport log_pause, trace
from penstock_net.fabric.state cimport *
from penstock_net.fabric.wire cimport send_uneven
from penstock_net.fabric.wire_inline cimport note_mail, post

cdef bint has_queue(Node* node, Port* port, int index) noexcept nogil
cdef bint may_pause(Node* node, Port* port, int index) noexcept nogil
cdef void arm(Node* node, Port* port) noexcept nogil
cdef void disarm(Node* node, Port* port) noexcept nogil
cdef void wake_port(Node* node, Port* port, int64_t when) noexcept nogil
cdef void wait(Node* node, Port* port) noexcept nogil
cdef void send(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void kick(Node* node, Port* port) noexcept nogil
cdef bint is_stopped(Node* node, Port* port) noexcept nogil
cdef void pause_queue(Node* node, Port* port, int index, int bit) noexcept nogil
cdef void resume_queue(Node* node, Port* port, int index, int bit) noexcept nogil
cdef void pause_port(Node* node, Port* port, int bit) noexcept nogil
cdef void resume_port(Node* node, Port* port, int bit) noexcept nogil
cdef Packet* new_frame(Node* node, int kind, int command) noexcept nogil
cdef void push_frame(Port* port, Packet* pkt) noexcept nogil
cdef void send_frame(Node* node, int slot, Packet* pkt) noexcept nogil
cdef void send_control(Node* node, int slot, int kind, int command, int value, int64_t mask) noexcept nogil
cdef int slot_towards(Node* node, int dst, Packet* pkt) noexcept nogil
cdef void send_with_data(Node* node, int dst, Packet* pkt) noexcept nogil
cdef void send_along(Node* node, int slot, int dst, int64_t way, Packet* pkt) noexcept nogil
cdef void send_to_host(Node* node, int dst, Packet* pkt) noexcept nogil
cdef void receive_control(Node* node, int slot, Packet* pkt) noexcept nogil
cdef void set_timer(Node* node, int index, int64_t when) noexcept nogil
cdef void schedule_timers(Node* node) noexcept nogil
cdef void wake_by(Node* node, int index, int64_t when) noexcept nogil
cdef void run_timers(Node* node) noexcept nogil
