from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.dataplane.mirror cimport mirror_drop, mirror_frame
from penstock_net.vswitch.dataplane.buffers cimport AT_ONCE, return_buffers, take_buffers
from penstock_net.vswitch.dataplane.flowtable cimport find_flow, new_flow
from penstock_net.vswitch.dataplane.station_flows cimport other_flow
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.receiver cimport SAMPLE_NS, UNKNOWN_NS, measure, open_flow, pace, pause_time
from penstock_net.vswitch.dataplane.steps_inline cimport ADMITTED, account, admit, classify, copy_frame, copy_with_prefix, frame_in, give_back
from penstock_net.vswitch.dataplane.steps_inline cimport last_flow, receive_buffer
from penstock_net.vswitch.memory.rings_inline cimport push, slot_of, take, take_ring
from penstock_net.vswitch.ports.base cimport complete_copy

cdef int64_t deliver(Worker* worker, SwitchPort* port, TxQueue* txq, uint64_t word, int64_t now) noexcept nogil
cdef bint sent_direct(Worker* worker, SwitchPort* port, SwitchPort* to, Flow* flow, char* frame, int64_t size, int64_t now) noexcept nogil
cdef int64_t reject(Worker* worker, SwitchPort* port, TxQueue* txq, uint64_t word, int64_t reason, int64_t now) noexcept nogil
cdef int64_t drop(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, uint64_t word, int64_t reason) noexcept nogil
cdef int64_t backpressure(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, uint64_t word, int64_t reason, int64_t now) noexcept nogil
