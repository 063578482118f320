"""VLANs of ports; vlan.py describes them."""
from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport owner_of
from penstock_net.vswitch.dataplane.overlay cimport overlay_receive, overlay_send
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.ports.base cimport VIRTIO_NET_HDR_F_NEEDS_CSUM, header_of, port_receive, port_send

cdef extern from "string.h" nogil:
    void* memmove(void* to, const void* source, size_t n)

cdef enum:
    TAG_BYTES = 4
    TAGGED = 0x8100
    VLANS = 4096

# The VLAN of a frame, from its Ethernet header on; 0: it has no tag, or that of a priority only.
cdef inline int64_t vlan_of(char* frame) noexcept nogil:
    return short_at(frame, 14) & 0xFFF if short_at(frame, 12) == TAGGED else 0
cdef inline bint carries(Driver* driver, int64_t vlan) noexcept nogil: return driver.vlans != NULL and driver.vlans[vlan] != 0
# A unicast ARP request with a tag, which is of the link as one without.
cdef inline bint asks_in_vlan(char* frame, int64_t size) noexcept nogil:
    return size >= 18 and short_at(frame, 12) == TAGGED and short_at(frame, 16) == 0x0806
cdef inline Driver* driver_at(Worker* worker, int64_t port) noexcept nogil: return <Driver*>worker.sides[port]
cdef inline void carry(Driver* driver, int64_t vlan) noexcept: driver.vlans[vlan] = 1
cdef inline void make_vlans(Driver* driver) noexcept:
    if driver.vlans == NULL:
        driver.vlans = <char*>calloc(1, VLANS)

cdef bint may_meet(Driver* source, Driver* to, int64_t vlan) noexcept nogil
cdef char* without_tag(char* frame, int64_t header) noexcept nogil
cdef char* with_tag(char* frame, int64_t header, int64_t vlan) noexcept nogil
cdef void shift_header(char* frame, int64_t count) noexcept nogil
cdef int64_t receive_queued(Worker* worker, Driver* driver, char* frame, int64_t room, int64_t now) noexcept nogil
cdef int64_t receive_tagged(Worker* worker, Driver* driver, char* frame, int64_t room, int64_t now) noexcept nogil
cdef int64_t give_tag(Driver* driver, char* frame, int64_t length, int64_t gap) noexcept nogil
cdef bint is_for_its_vlan(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
cdef int64_t send_queued(Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
