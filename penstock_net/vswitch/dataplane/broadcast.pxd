from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport owner_of
from penstock_net.vswitch.dataplane.prefixes cimport is_zero_ipv4
from penstock_net.vswitch.dataplane.station_flows cimport port_to
from penstock_net.vswitch.dataplane.vlan cimport TAG_BYTES, may_meet, vlan_of, with_tag, without_tag
from penstock_net.vswitch.ports.base cimport A_COPY, A_FRAME, complete_copy, port_flush, port_send, set_sends

cdef enum:
    FLOOD_BYTES = 65600     # of a frame, at most
    FLOOD_NS = 1000000      # between two of them, on average: 1000 a second from one port
    FLOOD_BURST_NS = 100000000  # which may come together after a rest: 100

cdef inline char* new_frame() noexcept: return <char*>calloc(1, FLOOD_BYTES)
cdef inline char* spare_frame(Driver* driver) noexcept nogil:
    return driver.side.view.buffer[0] + driver.spare * <int64_t>driver.side.view.buffer_bytes + driver.kernel.header
cdef inline bint same_driver(Driver* a, Driver* b) noexcept nogil: return a == b

cdef void flood(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef bint may_flood(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
cdef bint is_due(Driver* driver, int64_t now) noexcept nogil
cdef void copy_to(Driver* driver, Driver* to, char* frame, int64_t size, int64_t vlan) noexcept nogil
cdef bint is_its_own(Worker* worker, Driver* driver, uint64_t high, uint64_t low_half) noexcept nogil
cdef bint is_carried(Worker* worker, Driver* driver, Key* key, int64_t now) noexcept nogil
cdef bint send_untagged(Driver* driver, Driver* to, char* frame, int64_t size) noexcept nogil
cdef bint send_copy(Driver* driver, Driver* to, char* frame, int64_t size) noexcept nogil
