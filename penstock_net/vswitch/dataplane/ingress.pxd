from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.memory.rings_inline cimport push, open_queue, close_queue, is_drained, take_buffer, slot_of, take, take_ring
from penstock_net.vswitch.dataplane.broadcast cimport flood, is_carried
from penstock_net.vswitch.dataplane.buffers cimport return_buffers
from penstock_net.vswitch.dataplane.cutting cimport cut_if_needed, next_cut
from penstock_net.vswitch.dataplane.learning cimport is_left, pass_on, take_sender
from penstock_net.vswitch.dataplane.neighbours cimport SOLICITATION_BYTES, answer_address_request, answer_solicitation, learn
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.flowtable cimport find_flow, hash_of, owner_of
from penstock_net.vswitch.dataplane.mirror cimport mirror_drop
from penstock_net.vswitch.dataplane.receiver cimport LEAST_FRAMES
from penstock_net.vswitch.dataplane.schedule cimport activate
from penstock_net.vswitch.dataplane.flowmap cimport add_name, copy_key, find_name, remove_name
from penstock_net.vswitch.dataplane.overlay cimport send_pause, taken_from
from penstock_net.vswitch.dataplane.vlan cimport TAG_BYTES, asks_in_vlan, receive_queued, vlan_of, with_tag, without_tag
from penstock_net.vswitch.dataplane.socket_room cimport BUSY_SINCE, has_several, note_peer, report_pressed, store_in, swapped
from penstock_net.vswitch.ports.base cimport port_flush, port_receive

cdef enum:
    LONG_FRAME = 1024       # bytes: a device's turn is worth so many for each frame
    UNREAD_NS = 5000        # an empty device is not read again before
    NO_ROOM_NS = 100000     # the same without buffers, or for a device without room
    AGED_AT_ONCE = 64       # transmit queues looked at every ms
    QUEUE_LOOKS = 16        # transmit queues looked at to find one for a new flow
    PRESS_NS = 50000        # between two evictions for want of buffers
    PRESSED_BYTES = 65536   # of one flow that wait to get into the switch: the edge is told
    BUSY_NS = 2000000       # the same of a device that was not seen empty for so long

# ARP, broadcast or multicast.
cdef inline bint is_of_the_link(char* frame) noexcept nogil: return short_at(frame, 12) == 0x0806 or byte_at(frame, 0) & 1
cdef inline int64_t port_of_sender(Key* key) noexcept nogil: return swapped(key.words[4] >> 32 & 0xFFFF)
# Learn the sender's Ethernet address, note the peer of its UDP port, and since when frames come that are not TCP's: TCP sends no more than its peer takes.
cdef inline void note_sender(Worker* worker, Driver* driver, Key* key, char* frame, int64_t now) noexcept nogil:
    if driver.rewrites and driver.mac == 0 and owner_of(worker, key.words[0], key.words[1]) == driver.port:
        learn(driver, key.words[0], key.words[1], ethernet(frame + 6))
    if driver.limited and key.words[4] >> 16 & 0xFF == 17:
        note_peer(driver.table, port_of_sender(key), key.words[2], key.words[3], key.words[4] >> 48, now)
    if driver.busy_since == 0 and key.words[4] >> 16 & 0xFF != 6:
        driver.busy_since = now

cdef int64_t take_in(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef int64_t receive_inspected(Worker* worker, Driver* driver, char* frame, int64_t room, int64_t now) noexcept nogil
cdef int64_t not_for_stations(Worker* worker, Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef void pass_of_the_link(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef void find_room(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint take_spare(Worker* worker, Driver* driver) noexcept nogil
cdef bint stops_device(Worker* worker, Driver* driver) noexcept nogil
cdef void take_frame(Worker* worker, Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef void take_frame_of_the_link(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef int64_t not_of_the_link(Worker* worker, Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef bint is_answered(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
cdef bint may_hold(Worker* worker, Driver* driver, int64_t held) noexcept nogil
cdef void drop_over(Worker* worker, Driver* driver, SwitchPort* port, int64_t number, int64_t length, int64_t now) noexcept nogil
cdef int64_t tx_flow_for(Worker* worker, Driver* driver, Key* key, int64_t now) noexcept nogil
cdef void name_tx_flow(Worker* worker, Driver* driver, int64_t number, Key* key, int64_t now) noexcept nogil
cdef int64_t reclaim_tx_flow(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef void evict(Driver* driver, SwitchPort* port, int64_t number, int64_t sent) noexcept nogil
cdef int64_t longest_stuck(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint put_in(Worker* worker, Driver* driver, SwitchPort* port, int64_t number, uint64_t word) noexcept nogil
cdef void note_held(Driver* driver, TxFlow* tx_flow, int64_t held) noexcept nogil
cdef void note_busy(Driver* driver, int64_t now) noexcept nogil
cdef void wake_queue(Worker* worker, SwitchPort* port, int64_t number) noexcept nogil
cdef void forget_idle_tx_flows(Worker* worker, Driver* driver, int64_t now) noexcept nogil
