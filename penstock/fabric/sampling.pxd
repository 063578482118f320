from penstock.fabric.queueing_inline cimport set_node_event
from penstock.fabric.state cimport *

cdef void trace(Node* node, Port* port, Queue* queue, Packet* pkt, int event) noexcept nogil
cdef void log_pause(Node* node, Port* port, int queue, int command) noexcept nogil
cdef void sample(Node* node) noexcept nogil
cdef void sample_port(Node* node, Port* port) noexcept nogil
cdef void sample_queues(Node* node, Port* port) noexcept nogil
cdef void sample_flows(Node* node) noexcept nogil
