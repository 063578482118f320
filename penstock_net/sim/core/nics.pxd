from penstock_net.fabric.line cimport kick
from penstock_net.fabric.pinned cimport hop_at, pinned_slot
from penstock_net.fabric.routing cimport group_towards
from penstock_net.fabric.state cimport *

cdef Host* choose_nic(Node* node, Flow* flow) noexcept nogil
cdef Host* next_nic(Node* node, Flow* flow) noexcept nogil
cdef void kick_others(Node* node) noexcept nogil
