from penstock_net.fabric.state cimport *

cdef int32_t joined(World* world, int32_t one, int32_t other) noexcept nogil
cdef void add_delayed(World* world, Host* host, int32_t i) noexcept nogil
cdef void take_soonest(World* world, Host* host) noexcept nogil
cdef int32_t take_due(World* world, Host* host, int64_t now) noexcept nogil
