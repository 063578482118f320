from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport owner_of
from penstock_net.vswitch.dataplane.vlan cimport TAG_BYTES, driver_at, may_meet, memmove, with_tag
from penstock_net.vswitch.ports.base cimport A_COPY, A_FRAME, port_flush, port_send, set_sends

cdef enum:
    ARP_BYTES = 42
    SOLICITATION_BYTES = 78  # without options
    ADVERTISEMENT_BYTES = 86
    GROUP = 1               # of the first byte of an Ethernet address, the lowest of the number: it is that of a group

cdef bint answer_address_request(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
cdef bint answer_solicitation(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
cdef void send_reply(Driver* driver, int64_t length) noexcept nogil
cdef void learn(Driver* driver, uint64_t high, uint64_t low_half, uint64_t mac) noexcept nogil
cdef uint64_t mac_for(Driver* driver, Key* key) noexcept nogil
