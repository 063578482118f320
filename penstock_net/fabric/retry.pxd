from penstock_net.fabric.line_inline cimport arm, disarm, kick, new_frame
from penstock_net.fabric.llr cimport copy_of, free_copy, is_full, look_at
from penstock_net.fabric.losses cimport drop
from penstock_net.fabric.queueing_inline cimport draw, free_frame, set_node_event
from penstock_net.fabric.state cimport *
from penstock_net.fabric.wire cimport post, time_on_wire

cdef void hold(Node* node, Port* port) noexcept nogil
cdef void let_go(Port* port) noexcept nogil
cdef void send_again(Node* node, Port* port) noexcept nogil
cdef void flush(Node* node, Port* port) noexcept nogil
cdef Packet* take_first(Port* port) noexcept nogil
cdef void acknowledged(Node* node, Port* port, int number) noexcept nogil
cdef void give_up(Node* node, Port* port, int expected, int reason) noexcept nogil
cdef void take_set(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void send_set(Node* node, Port* port, int command, int number) noexcept nogil
cdef void answer(Node* node, Port* port) noexcept nogil
cdef void ask(Node* node, Port* port) noexcept nogil
cdef void throw_away(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef bint is_kept_back(Node* node, Port* port, Packet* pkt, bint damaged) noexcept nogil
cdef void run_retries(Node* node) noexcept nogil
cdef void look_at_progress(Node* node, Port* port) noexcept nogil
cdef void lose_from_wire(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void begin_anew(Node* sender, Port* end) noexcept nogil
cdef void bring_up(Node* node, Port* port) noexcept nogil
