from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport owner_of
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.socket_room cimport FURTHER_BYTES, FURTHER_READ, store_in
from penstock_net.vswitch.dataplane.station_flows cimport port_to
from penstock_net.vswitch.ports.segment cimport VNET, Cut, begin_cut, is_of_datagrams, next_length, next_segment, shape_of_cut
from penstock_net.vswitch.ports.base cimport FRAME_BYTES, absent_send, header_of, octet

cdef struct Cutting:        # of a driver: the super-frame that is being cut as it came in
    Cut cut
    char frame[65600]
    Cut leaving             # scratch: of a frame of datagrams that goes out, and the one that is made of it
    char datagram[65600]

cdef inline void* new_cutting() noexcept: return calloc(1, sizeof(Cutting))
cdef inline Cut* cut_of(Driver* driver) noexcept nogil: return &(<Cutting*>driver.cutting).cut
cdef inline char* uncut_of(Driver* driver) noexcept nogil: return (<Cutting*>driver.cutting).frame
cdef inline Cut* leaving_of(Driver* driver) noexcept nogil: return &(<Cutting*>driver.cutting).leaving
cdef inline char* datagram_of(Driver* driver) noexcept nogil: return (<Cutting*>driver.cutting).datagram
# Of the datagram that was made: whether it is the last one of its frame, and the bytes of payload up to its end.
cdef inline bint is_last_datagram(Driver* driver) noexcept nogil: return leaving_of(driver).at >= leaving_of(driver).total
cdef inline int64_t payload_gone(Driver* driver) noexcept nogil: return leaving_of(driver).at

cdef int64_t next_cut(Driver* driver, char* frame) noexcept nogil
cdef int64_t cut_if_needed(Worker* worker, Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef bint is_told_truly(Driver* driver, char* frame, int64_t length) noexcept nogil
cdef int64_t receiver_of(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef int64_t give_up_cut(Driver* driver) noexcept
cdef dict cut_row(Driver* driver, int64_t by_port)
cdef void count_cut_before(Driver* driver, int64_t frames_in) noexcept
cdef int64_t begin_datagram(Driver* driver, int64_t number, char* frame, int64_t length) noexcept nogil
cdef char* make_datagram(Driver* driver, char* frame) noexcept nogil
