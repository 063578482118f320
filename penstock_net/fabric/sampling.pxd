from penstock_net.fabric.queueing_inline cimport set_node_event
from penstock_net.fabric.recording cimport record
from penstock_net.fabric.rows cimport new_flow_row, new_pause_row, new_port_row, new_queue_row, new_switch_row, new_trace_row
from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_int64

cdef void trace(Node* node, Port* port, Queue* queue, Packet* pkt, int event) noexcept nogil
cdef void log_pause(Node* node, Port* port, int queue, int command) noexcept nogil
cdef void start_sampling(Node* node) noexcept nogil
cdef void sample(Node* node) noexcept nogil
cdef void catch_up(Node* node, int64_t until) noexcept nogil
cdef void take_samples(Node* node, int64_t first, int64_t until) noexcept nogil
cdef void count_flows(Node* node, Port* port, int64_t repeat) noexcept nogil
cdef void grow_histogram(Node* node, Port* port, int i) noexcept nogil
cdef void sample_port(Node* node, Port* port, int64_t first, int64_t repeat) noexcept nogil
cdef void sample_queues(Node* node, Port* port, int64_t first, int64_t repeat) noexcept nogil
cdef void sample_flow(Node* node, Flow* flow, int64_t first, int64_t repeat) noexcept nogil
cdef void sample_flows(Node* node, int64_t first, int64_t repeat) noexcept nogil
