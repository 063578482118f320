from penstock.vswitch.dataplane.driver_state cimport *
from penstock.vswitch.dataplane.egress cimport count_out, fits
from penstock.vswitch.dataplane.flowmap cimport name_at
from penstock.vswitch.dataplane.ingress cimport NO_ROOM_NS
from penstock.vswitch.dataplane.neighbours cimport mac_for
from penstock.vswitch.memory.rings_inline cimport slot_of
from penstock.vswitch.ports.base cimport port_send

cdef enum:
    LEAST_CHARGED = 8192    # of BYTES_AT_ONCE, for a frame

cdef bint send_direct(Worker* worker, void* own, int64_t number, char* frame, int64_t length, int64_t now) noexcept nogil
