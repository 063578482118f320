from penstock_net.vswitch.schemes.state cimport *
from penstock_net.fabric.queueing_inline cimport free_packet, set_event, alloc_packet
from penstock_net.fabric.line cimport arm, pause_port, pause_queue, receive_control, resume_port, resume_queue, run_timers, send
from penstock_net.sim.core.agenda cimport set_time
from penstock_net.sim.core.engine cimport collect_arrivals
from penstock_net.vswitch.dataplane.forward cimport drop
from penstock_net.vswitch.dataplane.receiver cimport SAMPLE_NS, measure, open_flow
from penstock_net.vswitch.dataplane.flowtable cimport find_flow, new_flow, owner_of
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.memory.rings_inline cimport push, open_queue, take, give, take_ring, give_ring, take_buffer, give_buffer, slot_of
from penstock_net.vswitch.dataplane.schedule cimport activate, take_head
from penstock_net.vswitch.dataplane.steps cimport next_word

cdef void run_host(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef void arrive(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef void start_line(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef void begin(Node* node, Line* line) noexcept nogil
cdef void woken(Node* node, Line* line, Queue* queue) noexcept nogil
cdef void park(Endpoint* endpoint, SwitchPort* port, int64_t number, int64_t queue) noexcept nogil
cdef void unpark(Endpoint* endpoint, SwitchPort* port, Line* line) noexcept nogil
cdef bint has_memory(Emulation* emulation) noexcept nogil
cdef Packet* fetch(Emulation* emulation, Endpoint* endpoint, SwitchPort* port, int64_t number) noexcept nogil
cdef int64_t address(Emulation* emulation, SwitchPort* port, Packet* pkt, int64_t length) noexcept nogil
cdef int64_t far_host(Emulation* emulation, Key* key) noexcept nogil
cdef int64_t far_name(Emulation* emulation, Key* key) noexcept nogil
cdef int64_t flow_number(Emulation* emulation, SwitchPort* port, Key* key) noexcept nogil
cdef void count_taken(View* view, TxQueue* txq, int64_t number, int64_t length) noexcept nogil
cdef void describe(Emulation* emulation, Endpoint* endpoint, TxQueue* txq, int64_t number, Packet* pkt, int64_t flow) noexcept nogil
cdef Packet* next_packet(Emulation* emulation, Endpoint* endpoint, SwitchPort* port, Line* line) noexcept nogil
cdef void transmit(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef bint discard(Emulation* emulation, Endpoint* endpoint, Packet* pkt) noexcept nogil
cdef void mark(char* frame) noexcept nogil
cdef bint store(Emulation* emulation, Endpoint* endpoint, Packet* pkt) noexcept nogil
cdef void stop(Emulation* emulation, Endpoint* endpoint, Flow* flow, Packet* pkt) noexcept nogil
cdef void take_in(Emulation* emulation, Endpoint* endpoint, Packet* pkt) noexcept nogil
cdef bint retry_delivery(Emulation* emulation, Endpoint* endpoint) noexcept nogil
cdef void note_next(Emulation* emulation, Node* node) noexcept nogil
