from penstock.vswitch.dataplane.driver_state cimport *
from penstock.vswitch.memory.rings_inline cimport push, open_queue, close_queue, is_drained, take_buffer, slot_of, take, take_ring
from penstock.vswitch.dataplane.broadcast cimport flood, is_carried
from penstock.vswitch.dataplane.buffers cimport return_buffers
from penstock.vswitch.dataplane.cutting cimport cut_if_needed, next_cut
from penstock.vswitch.dataplane.neighbours cimport SOLICITATION_BYTES, answer_address_request, answer_solicitation, learn
from penstock.vswitch.dataplane.parse cimport parse
from penstock.vswitch.dataplane.flowtable cimport find_flow, hash_of, owner_of
from penstock.vswitch.dataplane.mirror cimport mirror_drop
from penstock.vswitch.dataplane.receiver cimport FEW
from penstock.vswitch.dataplane.schedule cimport activate
from penstock.vswitch.dataplane.flowmap cimport add_name, copy_key, find_name, remove_name
from penstock.vswitch.dataplane.overlay cimport overlay_receive, send_pause, taken_from
from penstock.vswitch.dataplane.socket_room cimport BUSY_SINCE, report_pressed, store_in
from penstock.vswitch.ports.base cimport port_receive

cdef enum:
    LONG_FRAME = 1024       # bytes: a device's turn is worth so many for each frame
    UNREAD_NS = 5000        # an empty device is not read again before
    NO_ROOM_NS = 100000     # the same without buffers, or for a device without room
    AGED_AT_ONCE = 64       # transmit queues looked at every ms
    QUEUE_LOOKS = 16        # transmit queues looked at to find one for a new flow
    PRESS_NS = 50000        # between two evictions for want of buffers
    PRESSED_BYTES = 65536   # of one flow that wait to get into the switch: the edge is told
    BUSY_NS = 2000000       # the same of a device that was not seen empty for so long

cdef int64_t take_in(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef void find_room(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint take_spare(Worker* worker, Driver* driver) noexcept nogil
cdef bint stops_device(Worker* worker, Driver* driver) noexcept nogil
cdef void take_frame(Worker* worker, Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef bint may_hold(Worker* worker, Driver* driver, int64_t held) noexcept nogil
cdef void drop_over(Worker* worker, Driver* driver, SwitchPort* port, int64_t number, int64_t length) noexcept nogil
cdef int64_t tx_flow_for(Worker* worker, Driver* driver, Key* key, int64_t now) noexcept nogil
cdef void name_tx_flow(Worker* worker, Driver* driver, int64_t number, Key* key, int64_t now) noexcept nogil
cdef int64_t reclaim_tx_flow(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef void evict(Driver* driver, SwitchPort* port, int64_t number, int64_t sent) noexcept nogil
cdef void note_progress(TxFlow* tx_flow, TxQueue* txq, int64_t now) noexcept nogil
cdef int64_t longest_stuck(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint put_in(Worker* worker, Driver* driver, SwitchPort* port, int64_t number, uint64_t word) noexcept nogil
cdef void note_held(Driver* driver, TxFlow* tx_flow, int64_t held) noexcept nogil
cdef void note_busy(Driver* driver, int64_t now) noexcept nogil
cdef void wake_queue(Worker* worker, SwitchPort* port, int64_t number) noexcept nogil
cdef void forget_idle_tx_flows(Worker* worker, Driver* driver, int64_t now) noexcept nogil
