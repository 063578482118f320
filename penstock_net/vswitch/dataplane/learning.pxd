"""Frames from ports that have stations, or whose frames go to stations; learning.py describes them."""
from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.broadcast cimport copy_to, is_due, may_flood, same_driver
from penstock_net.vswitch.dataplane.flowtable cimport owner_of
from penstock_net.vswitch.dataplane.neighbours cimport learn, mac_for
from penstock_net.vswitch.dataplane.parse cimport parse
from penstock_net.vswitch.dataplane.station_flows cimport port_to
from penstock_net.vswitch.dataplane.stations cimport STATION_BEYOND, STATION_MOVED, STATION_NEW, refresh, see, station_word
from penstock_net.vswitch.dataplane.vlan cimport driver_at, may_meet, vlan_of
from penstock_net.vswitch.ports.base cimport header_of

cdef bint take_sender(Worker* worker, Driver* driver, char* frame, int64_t now) noexcept nogil
cdef bint is_left(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef bint flood_unknown(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef void pass_on(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef void address_frame(Worker* worker, Driver* driver, char* frame, int64_t size) noexcept nogil
