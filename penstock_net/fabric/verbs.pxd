# Functions by address: a part of state.pxd, which includes it.

ctypedef void (*FlowVerb)(Node*, Flow*) noexcept nogil
cdef extern from "state.h" nogil:
    FlowVerb apart(FlowVerb verb)
