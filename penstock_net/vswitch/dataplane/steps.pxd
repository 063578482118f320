from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.memory.rings_inline cimport find_queue, give, give_ring, is_open, pop, push, slot_of, take, take_ring
from penstock_net.vswitch.dataplane.buffers cimport AT_ONCE, return_buffers, take_buffers
from penstock_net.vswitch.dataplane.flowtable cimport find_flow, new_flow
from penstock_net.vswitch.dataplane.station_flows cimport other_flow
from penstock_net.vswitch.dataplane.mirror cimport mirror_frame
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.receiver cimport SAMPLE_NS, measure, open_flow, pace
from penstock_net.vswitch.ports.base cimport complete_copy
from penstock_net.vswitch.ports.segment cimport is_of_datagrams

cdef extern from "copy.h" nogil:
    void copy_bytes(void* to, const void* source, size_t n)

cdef enum:
    ADMITTED = -1           # instead of a reason to drop a frame

cdef uint64_t next_word(View* view, TxQueue* txq, int side, int64_t number) noexcept nogil
cdef Flow* classify(Worker* worker, SwitchPort* port, TxQueue* txq, char* frame, uint64_t word, int64_t now) noexcept nogil
cdef Flow* last_flow(Worker* worker, TxQueue* txq, Key* key) noexcept nogil
cdef char* frame_in(View* view, SwitchPort* port, uint64_t word) noexcept nogil
cdef int64_t admit(Worker* worker, SwitchPort* port, TxQueue* txq, SwitchPort* to, Flow* flow, int64_t size, int64_t now) noexcept nogil
cdef int64_t copy_frame(Worker* worker, SwitchPort* port, SwitchPort* to, Flow* flow, char* frame, uint64_t word, int64_t size) noexcept nogil
cdef void copy_with_prefix(Worker* worker, SwitchPort* port, SwitchPort* to, char* frame, char* to_frame, int64_t length) noexcept nogil
cdef void copy_from_header(Worker* worker, char* frame, char* to_frame, int64_t length) noexcept nogil
cdef void account(Worker* worker, SwitchPort* port, TxQueue* txq, SwitchPort* to, Flow* flow, char* frame, uint64_t word, int64_t size, int64_t now) noexcept nogil
cdef int64_t receive_buffer(SwitchPort* port) noexcept nogil
cdef void give_back(SwitchPort* port, int64_t buffer) noexcept nogil
