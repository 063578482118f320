from penstock.vswitch.schemes.state cimport *
from penstock.fabric.queueing_inline cimport free_packet, set_event, alloc_packet
from penstock.fabric.line cimport arm, pause_port, pause_queue, resume_port, resume_queue, send
from penstock.vswitch.dataplane.forward cimport SAMPLE_NS, drop, measure, set_limits
from penstock.vswitch.dataplane.flowtable cimport find_flow, new_flow, owner_of
from penstock.vswitch.dataplane.parse cimport parse
from penstock.vswitch.memory.rings_inline cimport push, open_queue, take, give, take_ring, give_ring, take_buffer, give_buffer, slot_of
from penstock.vswitch.dataplane.schedule cimport activate, take_head
from penstock.vswitch.dataplane.worker cimport next_word

cdef void begin(Node* node, Line* line) noexcept nogil
cdef void woken(Node* node, Line* line, Queue* queue) noexcept nogil
cdef void park(Edge* edge, Port* port, int64_t number, int64_t queue) noexcept nogil
cdef void unpark(Edge* edge, Port* port, Line* line) noexcept nogil
cdef bint has_memory(Fabric* f) noexcept nogil
cdef Packet* fetch(Fabric* f, Edge* edge, Port* port, int64_t number) noexcept nogil
cdef int64_t address(Fabric* f, Port* port, Packet* pkt, int64_t length) noexcept nogil
cdef int64_t far_host(Fabric* f, Key* key) noexcept nogil
cdef int64_t far_name(Fabric* f, Key* key) noexcept nogil
cdef int64_t flow_number(Fabric* f, Port* port, Key* key) noexcept nogil
cdef void describe(Fabric* f, Edge* edge, Input* input, int64_t number, Packet* pkt, int64_t flow) noexcept nogil
cdef Packet* next_packet(Fabric* f, Edge* edge, Port* port, Line* line) noexcept nogil
cdef void transmit(Fabric* f, Edge* edge) noexcept nogil
cdef bint discard(Fabric* f, Edge* edge, Packet* pkt) noexcept nogil
cdef void mark(char* frame) noexcept nogil
cdef bint store(Fabric* f, Edge* edge, Packet* pkt) noexcept nogil
cdef void stop(Fabric* f, Edge* edge, Flow* flow, Packet* pkt) noexcept nogil
cdef void take_in(Fabric* f, Edge* edge, Packet* pkt) noexcept nogil
cdef bint relieve(Fabric* f, Edge* edge) noexcept nogil
cdef void note_next(Fabric* f, Node* node) noexcept nogil
