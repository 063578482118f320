from penstock_net.fabric.state cimport *

cdef void fail(Node* node, int error, int value) noexcept nogil
