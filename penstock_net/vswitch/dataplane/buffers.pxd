from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.memory.rings_inline cimport give_some, take_some

cdef enum:
    AT_ONCE = 32            # buffers taken or given back

cdef bint take_buffers(SwitchPort* port) noexcept nogil
cdef void return_buffers(SwitchPort* port) noexcept nogil
