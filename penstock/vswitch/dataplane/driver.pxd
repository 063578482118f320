from penstock.vswitch.dataplane.driver_state cimport *
from penstock.vswitch.dataplane.broadcast cimport new_frame
from penstock.vswitch.dataplane.cutting cimport new_cutting
from penstock.vswitch.dataplane.direct cimport send_direct
from penstock.vswitch.dataplane.egress cimport BYTES_AT_ONCE, hand_over, has_doorbell, poll_doorbells, put_out
from penstock.vswitch.dataplane.ingress cimport forget_idle_tx_flows, take_in
from penstock.vswitch.dataplane.flowmap cimport copy_key, find_name, free_names, make_names
from penstock.vswitch.dataplane.overlay cimport begin_session, free_overlay, new_overlay, overlay_row, overlay_turn, taken_from
from penstock.vswitch.dataplane.socket_room cimport table_at
from penstock.vswitch.ports.base cimport PortHandle
from penstock.vswitch.memory.region cimport Region
from penstock.vswitch.dataplane.switch cimport Switch

cdef int64_t read_device(Worker* worker, void* own, int64_t now) noexcept nogil
cdef int64_t write_device(Worker* worker, void* own, int64_t now) noexcept nogil

cdef inline Driver* new_driver(): return <Driver*>calloc(1, sizeof(Driver))
cdef inline TxFlow* new_tx_flows(int64_t n): return <TxFlow*>calloc(n, sizeof(TxFlow))
cdef inline RxQueueState* new_rxqs(int64_t n): return <RxQueueState*>calloc(n, sizeof(RxQueueState))
cdef inline KernelPort* pointer_to(PortHandle port) noexcept: return &port.port
cdef inline void set_side(Driver* driver, Region region) noexcept: driver.side.view = region.view
cdef inline Worker* worker_of(Switch switch, int64_t k) noexcept: return switch.worker.peers[k]
cdef inline object epoll_of(Switch switch, int64_t k): return switch.epolls[k]
cdef inline int64_t* new_counters(int64_t n): return <int64_t*>calloc(n, 8)
cdef inline void set_returned(SwitchPort* port, Driver* driver) noexcept:
    port.returned = driver.returned
    port.kept = driver.kept
cdef inline void set_at(Driver* driver, SwitchPort* port) noexcept: driver.at = port
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
            (<Driver*>worker.drivers[i]).at = NULL
            worker.drivers[i] = worker.drivers[worker.driver_count]
            break
    worker.sides[number] = NULL

cdef class PortDriver:
    cdef Driver* driver
    cdef readonly Region region
    cdef readonly PortHandle kernel
    cdef int home
    cdef object table
    cdef readonly list own      # addresses of the device itself
    cdef public object edge     # the Edge of the device, if there is one
    cdef public int64_t not_read    # frames that the kernel still held for the port when it ended
