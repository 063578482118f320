from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.egress cimport count_out, fits_socket
from penstock_net.vswitch.dataplane.flowmap cimport name_at
from penstock_net.vswitch.dataplane.ingress cimport NO_ROOM_NS
from penstock_net.vswitch.dataplane.neighbours cimport mac_for
from penstock_net.vswitch.memory.rings_inline cimport slot_of
from penstock_net.vswitch.ports.base cimport port_send
from penstock_net.vswitch.ports.segment cimport is_of_datagrams

cdef enum:
    LEAST_CHARGED = 8192    # of BYTES_AT_ONCE, for a frame

cdef bint send_direct(Worker* worker, void* own, int64_t number, char* frame, int64_t length, int64_t now) noexcept nogil
