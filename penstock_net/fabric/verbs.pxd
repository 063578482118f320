# Functions by address: a part of state.pxd, which includes it.

# What the fabric calls of the hosts.
ctypedef struct RescheduleHook:
    void (*call)(Node* node, Flow* flow) noexcept nogil

ctypedef struct GoBackHook:
    void (*call)(Node* node, Flow* flow, int64_t seq) noexcept nogil

ctypedef struct StoreHook:
    void (*call)(Node* node, Port* port, Packet* pkt) noexcept nogil

ctypedef struct FindHook:
    Incoming* (*call)(Node* node, Packet* frame) noexcept nogil

ctypedef struct LookUpHook:
    Incoming* (*call)(Node* node, int32_t number) noexcept nogil

ctypedef struct SendHook:
    void (*call)(Node* node, Port* port) noexcept nogil

ctypedef struct WakeHook:
    void (*call)(Node* node, Port* port, Queue* queue) noexcept nogil

# A function that does not become a part of its caller.
ctypedef void (*FlowVerb)(Node*, Flow*) noexcept nogil
cdef extern from "state.h" nogil:
    FlowVerb apart(FlowVerb verb)
