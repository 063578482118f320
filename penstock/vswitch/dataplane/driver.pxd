from penstock.vswitch.dataplane.driver_state cimport *
from penstock.vswitch.memory.rings_inline cimport (push, pop, open_queue, find_queue, close_queue, is_open, is_drained, ring_bell, answer_bell,
                                            take_buffer, give_buffer, slot_of, take, give, take_ring, give_ring)
from penstock.vswitch.dataplane.neighbours cimport SOLICITATION_BYTES, answer_address_request, answer_solicitation, learn, mac_for
from penstock.vswitch.dataplane.parse cimport parse
from penstock.vswitch.dataplane.flowtable cimport hash_of, owner_of
from penstock.vswitch.dataplane.schedule cimport activate, take_head, pause_txq
from penstock.vswitch.dataplane.steps cimport next_word
from penstock.vswitch.dataplane.flowmap cimport Names, add_name, copy_key, find_name, free_names, make_names, name_at, remove_name
from penstock.vswitch.dataplane.overlay cimport begin_session, free_overlay, new_overlay, overlay_may_send, overlay_receive, overlay_row, overlay_send, overlay_turn
from penstock.vswitch.dataplane.overlay cimport LEASE_NS, send_pause, taken_from
from penstock.vswitch.dataplane.receiver cimport LEAST_NS, MOST_NS
from penstock.vswitch.ports.base cimport port_flush, port_receive, port_send
from penstock.vswitch.ports.base cimport PortHandle
from penstock.vswitch.memory.region cimport Region
from penstock.vswitch.dataplane.switch cimport Switch

cdef enum:
    FRAMES_AT_ONCE = 32
    BYTES_AT_ONCE = 262144
    UNREAD_NS = 5000        # an empty device is not read again before
    NO_ROOM_NS = 100000     # the same without buffers, or for a device without room
    HELD_NS = 200000        # a frame for a full socket is tried again after

cdef int64_t drive(Worker* worker, void* own, int64_t now) noexcept nogil
cdef int64_t take_in(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef void admit(Worker* worker, Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef int64_t tx_flow_for(Worker* worker, Driver* driver, Key* key) noexcept nogil
cdef bint put_in(Worker* worker, Driver* driver, int64_t number, uint64_t word) noexcept nogil
cdef bint bells_have_room(View* view, int64_t at) noexcept nogil
cdef void forget_idle_tx_flows(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef int64_t poll_doorbells(Driver* driver) noexcept nogil
cdef int64_t has_doorbell(Worker* worker, void* own, int64_t now) noexcept nogil
cdef int64_t put_out(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint fits(Driver* driver, int64_t number, int64_t length) noexcept nogil
cdef bint send_out(Worker* worker, Driver* driver, TxQueue* txq, int64_t number, uint64_t word, int64_t now) noexcept nogil

cdef inline Driver* new_driver(): return <Driver*>calloc(1, sizeof(Driver))
cdef inline TxFlow* new_tx_flows(int64_t n): return <TxFlow*>calloc(n, sizeof(TxFlow))
cdef inline RxQueueState* new_rxqs(int64_t n): return <RxQueueState*>calloc(n, sizeof(RxQueueState))
cdef inline KernelPort* pointer_to(PortHandle port) noexcept: return &port.port
cdef inline void set_side(Driver* driver, Region region) noexcept: driver.side.view = region.view
cdef inline Worker* worker_of(Switch switch, int64_t k) noexcept: return switch.worker.peers[k]
cdef inline object epoll_of(Switch switch, int64_t k): return switch.epolls[k]
cdef inline int64_t* numbers_at(size_t address) noexcept: return <int64_t*>address
cdef inline int64_t load_signed(int64_t* p) noexcept nogil: return <int64_t>load64(<uint64_t*>p)
cdef inline int64_t swapped(uint64_t port) noexcept nogil: return (port & 0xFF) << 8 | port >> 8
cdef inline int control_of(Switch switch, int64_t k): return switch.controls[k]
cdef inline void add_driver(Worker* worker, int64_t number, Driver* driver) noexcept:
    worker.drivers[worker.driver_count] = driver
    worker.driver_count += 1
    worker.sides[number] = &driver.side
cdef inline void remove_driver(Worker* worker, int64_t number) noexcept:
    cdef int64_t i
    for i in range(worker.driver_count):
        if (<Driver*>worker.drivers[i]).port == number:
            worker.driver_count -= 1
            worker.drivers[i] = worker.drivers[worker.driver_count]
            break
    worker.sides[number] = NULL

cdef class PortDriver:
    cdef Driver* driver
    cdef readonly Region region
    cdef readonly PortHandle kernel
    cdef int home
    cdef object table
    cdef public object edge     # the Edge of the device, if there is one
