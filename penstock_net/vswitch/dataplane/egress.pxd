from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.cutting cimport begin_datagram, is_last_datagram, make_datagram, payload_gone
from penstock_net.vswitch.memory.rings_inline cimport answer_bell, find_queue, give, give_ring, give_buffer, is_open, pop, slot_of
from penstock_net.vswitch.dataplane.flowmap cimport add_name, find_name, name_at, remove_name
from penstock_net.vswitch.dataplane.flowtable cimport may_open
from penstock_net.vswitch.dataplane.ingress cimport NO_ROOM_NS
from penstock_net.vswitch.dataplane.learning cimport address_frame
from penstock_net.vswitch.dataplane.neighbours cimport mac_for
from penstock_net.vswitch.dataplane.overlay cimport LEASE_NS, overlay_may_send
from penstock_net.vswitch.dataplane.vlan cimport send_queued
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.receiver cimport LEAST_NS, MOST_NS
from penstock_net.vswitch.dataplane.schedule cimport activate, hasten, pause_txq, release, take_head
from penstock_net.vswitch.dataplane.socket_room cimport HELD, LOOKED, WAKES, add_cost, load_in, may_cost, note_peer, store_in, swapped
from penstock_net.vswitch.dataplane.steps cimport next_word
from penstock_net.vswitch.ports.base cimport port_flush, port_send
from penstock_net.vswitch.ports.segment cimport is_of_datagrams

cdef enum:
    VISITS_AT_ONCE = 64     # receive queues looked at in a turn
    BYTES_AT_ONCE = 524288  # written to a device in a turn
    TURN_BYTES = 16384      # of a receive queue before the next one has its turn
    HELD_NS = 200000        # a frame for a full socket is tried again after, if no look at it wakes the worker
    WOKEN_NS = 20000000     # the same if one does

cdef int64_t poll_doorbells(Driver* driver) noexcept nogil
cdef int64_t has_doorbell(Worker* worker, void* own, int64_t now) noexcept nogil
cdef int64_t put_out(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef int64_t send_out(Worker* worker, Driver* driver, TxQueue* txq, int64_t number, uint64_t word, int64_t now) noexcept nogil
cdef bint is_held_back(Worker* worker, Driver* driver, TxQueue* txq, int64_t number, int64_t length, int64_t now) noexcept nogil
cdef void hold(Worker* worker, Driver* driver, TxQueue* txq, int64_t looks, int64_t now) noexcept nogil
cdef void try_held(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint has_news_of_sockets(Driver* driver) noexcept nogil
cdef bint is_evicted(Worker* worker, Driver* driver, RxQueueState* rxq, int64_t now) noexcept nogil
cdef bint is_crowded(Worker* worker, SwitchPort* port) noexcept nogil
cdef bint flush_device(Driver* driver) noexcept nogil
cdef bint fits_socket(Driver* driver, int64_t number, int64_t length, int64_t now) noexcept nogil
cdef void count_out(Driver* driver, int64_t number, int64_t length) noexcept nogil
cdef void count_bytes_out(Driver* driver, int64_t number, int64_t length) noexcept nogil
