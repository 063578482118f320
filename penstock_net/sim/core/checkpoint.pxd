from penstock_net.fabric.heap_inline cimport grow
from penstock_net.fabric.queueing_inline cimport alloc_frame, alloc_packet, set_event
from penstock_net.fabric.ranking cimport ranking_of, restore
from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_held, new_incoming, new_int32, new_int64, new_masks, new_sinks
from penstock_net.sim.core.agenda cimport set_time
from penstock_net.sim.core.receiver cimport find_sink
from penstock_net.sim.core.stream cimport OF_FLOW, OF_FRAME, OF_HOST, OF_INCOMING, OF_LLR, OF_NODE, OF_PACKET, OF_PORT
from penstock_net.sim.core.stream cimport OF_QUEUE, OF_SCHEME, OF_SINK, Stream, begin, begin_loading, bytes_of, flow_in, free_stream
from penstock_net.sim.core.stream cimport incoming_in, installed_in, keep, keep_fields, keep_number, keep_tables, outbox_of, own_of
from penstock_net.sim.core.stream cimport place_of, put_rows, set_layout, sizes_of, world_of
from penstock_net.sim.core.nodes cimport totals_of
from penstock_net.sim.core.pointers cimport rows_of

cdef Packet* keep_packets(Stream* stream, Worker* worker, Packet* first) noexcept nogil
cdef Packet* last_of(Packet* pkt) noexcept nogil
cdef int64_t keep_reference(Stream* stream, int64_t number, int64_t count) noexcept nogil
cdef void keep_queue(Stream* stream, Worker* worker, Queue* queue) noexcept nogil
cdef Queue* keep_place(Stream* stream, Port* port, Queue* queue) noexcept nogil
cdef void keep_port(Stream* stream, Node* node, Port* port) noexcept nogil
cdef void keep_llr(Stream* stream, Worker* worker, Llr* llr) noexcept nogil
cdef void keep_wire(Stream* stream, Node* node, Port* port) noexcept nogil
cdef Flow* keep_flow(Stream* stream, Worker* worker, Flow* flow) noexcept nogil
cdef void keep_flows(Stream* stream, Node* node) noexcept nogil
cdef void keep_heap(Stream* stream, Worker* worker, Heap* heap) noexcept nogil
cdef void keep_timers(Stream* stream, Worker* worker, Host* host) noexcept nogil
cdef void make_room(Stream* stream, Worker* worker, Heap* heap, int64_t size) noexcept nogil
cdef Incoming* keep_incoming(Stream* stream, Host* host, Incoming* incoming) noexcept nogil
cdef void keep_sinks(Stream* stream, Worker* worker, Host* host) noexcept nogil
cdef void keep_bitmaps(Stream* stream, Worker* worker, Host* host) noexcept nogil
cdef void keep_acks(Stream* stream, Worker* worker, Host* host) noexcept nogil
cdef void keep_nic(Stream* stream, Worker* worker, Host* host) noexcept nogil
cdef void keep_host(Stream* stream, Node* node) noexcept nogil
cdef void keep_node(Stream* stream, Node* node) noexcept nogil

cdef class Archive:
    cdef World* world
    cdef Stream stream
    cdef object installed, kept, beyond

cdef inline Stream* stream_of(Archive archive): return &archive.stream
