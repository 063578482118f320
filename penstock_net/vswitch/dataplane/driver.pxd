from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.broadcast cimport new_frame
from penstock_net.vswitch.dataplane.cutting cimport Cutting, count_cut_before, cut_row, give_up_cut, new_cutting
from penstock_net.vswitch.dataplane.direct cimport send_direct
from penstock_net.vswitch.dataplane.egress cimport BYTES_AT_ONCE, flush_device, has_doorbell, poll_doorbells, put_out, try_held
from penstock_net.vswitch.dataplane.ingress cimport AGED_AT_ONCE, NO_ROOM_NS, forget_idle_tx_flows, take_in
from penstock_net.vswitch.dataplane.flowmap cimport add_name, copy_key, find_name, free_names, make_names, name_at
from penstock_net.vswitch.dataplane.overlay cimport begin_session, free_overlay, new_overlay, overlay_row, overlay_turn, taken_from
from penstock_net.vswitch.dataplane.socket_room cimport table_at
from penstock_net.vswitch.dataplane.stations cimport MOST_STATIONS, Stations, forget_all, forget_idle, list_of, mac_of_word, new_stations, see, station_at
from penstock_net.vswitch.dataplane.vlan cimport carry, make_vlans
from penstock_net.vswitch.ports.base cimport PortHandle
from penstock_net.vswitch.memory.region cimport Region
from penstock_net.vswitch.dataplane.switch cimport Switch

cdef int64_t read_device(Worker* worker, void* own, int64_t now) noexcept nogil
cdef int64_t write_device(Worker* worker, void* own, int64_t now) noexcept nogil

cdef inline dict sizes_of_structs():
    return {
        "Worker": sizeof(Worker),
        "SwitchPort": sizeof(SwitchPort),
        "TxQueue": sizeof(TxQueue),
        "Flow": sizeof(Flow),
        "Timer": sizeof(Timer),
        "Driver": sizeof(Driver),
        "TxFlow": sizeof(TxFlow),
        "RxQueueState": sizeof(RxQueueState),
        "Overlay": sizeof(Overlay),
        "Cutting": sizeof(Cutting),
        "KernelPort": sizeof(KernelPort),
    }
cdef inline size_t place_of(Driver* driver) noexcept: return <size_t>driver
cdef inline Driver* new_driver(): return <Driver*>calloc(1, sizeof(Driver))
cdef inline TxFlow* new_tx_flows(int64_t n): return <TxFlow*>calloc(n, sizeof(TxFlow))
cdef inline RxQueueState* new_rxqs(int64_t n): return <RxQueueState*>calloc(n, sizeof(RxQueueState))
cdef inline KernelPort* pointer_to(PortHandle port) noexcept: return &port.port
cdef inline void watch_kernel(object epoll, KernelPort* kernel) except *:
    kernel.empty = 0
    add_news(epoll, kernel.fd, &kernel.empty)
cdef inline void set_side(Driver* driver, Region region) noexcept: driver.side.view = region.view
cdef inline Worker* worker_of(Switch switch, int64_t k) noexcept: return switch.worker.peers[k]
cdef inline object epoll_of(Switch switch, int64_t k): return switch.epolls[k]
# Have frames of ports looked at where that may be needed: in VLANs, from another switch, or where there are stations in their domain.
cdef inline void inspect_drivers(Worker* worker) noexcept:
    cdef int64_t i
    cdef Driver* driver
    for i in range(worker.driver_count):
        driver = <Driver*>worker.drivers[i]
        driver.in_domain = worker.stations != NULL and driver.broadcasts
        driver.inspected = driver.only_queued or driver.in_domain
cdef inline Stations* no_stations() noexcept: return NULL
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
    cdef public object theirs   # the switch's side of it, until the port is attached
    cdef readonly PortHandle kernel
    cdef int home
    cdef object table
    cdef Stations* stations     # of the worker, once the port is one that learns
    cdef readonly int most_stations
    cdef int64_t station_idle_ns
    cdef readonly list own      # addresses of the device itself
    cdef public object edge     # the Edge of the device, if there is one
    cdef readonly int waker     # an eventfd that wakes its worker; -1: it is not installed
    cdef public int64_t not_read    # frames that the kernel still held for the port when it ended
    cdef public str state, why      # of the interface, and what is wrong with it; "up" and ""
    cdef PortHandle absent          # counts what is sent while the interface is away
    cdef int64_t queued, refused    # frames that were in the switch when it went, and that came while it was away: lost
    cdef int64_t queued_now         # of the present absence; -1: the interface is there
    cdef object before              # counters of interfaces that this port had before
    cdef dict edge_seen             # counters of the edge, when they could last be read
    cdef object edge_before         # losses in spite of edges that this port had before
    cdef int64_t swallowed          # of `not_read`: frames of the device's ring
    cdef int begin_stations(self, Worker* worker) except -1
    cdef int end_stations(self, Worker* worker) except -1
