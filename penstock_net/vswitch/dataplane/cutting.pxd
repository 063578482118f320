from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.flowtable cimport owner_of
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.station_flows cimport port_to
from penstock_net.vswitch.ports.segment cimport GSO_UDP_L4, VNET, Cut, begin_cut, next_segment
from penstock_net.vswitch.ports.base cimport FRAME_BYTES, header_of

cdef struct Cutting:        # of a driver: the super-frame that is being cut
    Cut cut
    char frame[65600]

cdef inline void* new_cutting() noexcept: return calloc(1, sizeof(Cutting))
cdef inline Cut* cut_of(Driver* driver) noexcept nogil: return &(<Cutting*>driver.cutting).cut
cdef inline char* uncut_of(Driver* driver) noexcept nogil: return (<Cutting*>driver.cutting).frame

cdef int64_t next_cut(Driver* driver, char* frame) noexcept nogil
cdef int64_t cut_if_needed(Worker* worker, Driver* driver, char* frame, int64_t length) noexcept nogil
cdef int64_t receiver_of(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
