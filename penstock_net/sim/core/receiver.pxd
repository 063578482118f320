from penstock_net.fabric.heap_inline cimport add, goes_first, grow, put, remove, sift_down, sift_up, sooner
from penstock_net.fabric.incoming cimport next_flow_timer, unrank_incoming
from penstock_net.fabric.line cimport kick
from penstock_net.fabric.losses cimport drop
from penstock_net.fabric.queueing_inline cimport free_packet, push_control, set_node_event
from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_incoming, new_int32, new_masks, new_sinks
from penstock_net.sim.core.acks cimport changes_mark, close_held, first_due, hold, leave, note_answer, schedule_acks, send_made
from penstock_net.sim.core.acks cimport take_held, waits
from penstock_net.sim.core.connections cimport begin_sink, next_arrived
from penstock_net.sim.core.lifetimes cimport release_children

cdef int64_t sink_slot(Host* host, int64_t number) noexcept nogil
cdef Sink* find_sink(Host* host, int64_t number) noexcept nogil
cdef void copy_sink(Sink* to, Sink* sink) noexcept nogil
cdef Sink* place_sink(Host* host, int64_t number) noexcept nogil
cdef void grow_sinks(Node* node) noexcept nogil
cdef Sink* add_sink(Node* node, int64_t number) noexcept nogil
cdef void remove_sink(Host* host, int64_t number) noexcept nogil
cdef void record_arrival(Node* node, int64_t number) noexcept nogil
cdef void record_messages(Node* node, Sink* sink, int64_t number) noexcept nogil
cdef void receive_data(Node* node, Packet* pkt) noexcept nogil
cdef void answer_gap(Node* node, Sink* sink, Packet* pkt) noexcept nogil
cdef void receive_in_any_order(Node* node, Sink* sink, Packet* pkt) noexcept nogil
cdef Sink* open_incoming(Node* node, int64_t number, int slot, int src, int hash, int priority) noexcept nogil
cdef void close_incoming(Node* node, Sink* sink) noexcept nogil
cdef Incoming* find_incoming(Node* node, Packet* frame) noexcept nogil
cdef Incoming* look_up_incoming(Node* node, int32_t number) noexcept nogil
cdef void receive_for_scheme(Node* node, Packet* pkt) noexcept nogil
cdef void close_if_done(Node* node, Incoming* incoming) noexcept nogil
cdef int64_t take_in(Node* node, Sink* sink, Packet* pkt) noexcept nogil
cdef bint already_ahead(Node* node, Sink* sink, Packet* pkt) noexcept nogil
cdef void run_flow_timers(Node* node) noexcept nogil
cdef bint note_ahead(Node* node, Sink* sink, Packet* pkt) noexcept nogil
cdef void advance(Node* node, Sink* sink) noexcept nogil
cdef int32_t alloc_ring(Node* node) noexcept nogil
cdef void grow_rings(Node* node) noexcept nogil
cdef void acknowledge(Node* node, Packet* pkt, int64_t seq, int flags) noexcept nogil
cdef void acknowledge_together(Node* node, Packet* pkt, int64_t seq, int flags) noexcept nogil
cdef bint is_urgent(World* world, Packet* pkt, int64_t seq, int flags) noexcept nogil
cdef void answer(Node* node, Packet* pkt, int64_t seq, int flags) noexcept nogil
cdef void run_acks(Node* node) noexcept nogil
