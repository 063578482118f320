from penstock_net.vswitch.dataplane.state cimport *

cdef bint parse(char* frame, int64_t length, int64_t port, Key* key) noexcept nogil
cdef bint transport(char* frame, int64_t at, int64_t end, int64_t protocol, int64_t port, Key* key) noexcept nogil
