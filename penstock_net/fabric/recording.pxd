from penstock_net.fabric.rows cimport new_count_row, new_record_row
from penstock_net.fabric.state cimport *

cdef void count_flow(void* me, Node* node, Flow* flow, Packet* pkt) noexcept nogil
cdef void record(Node* node, int64_t first, int64_t repeat) noexcept nogil
cdef void add_record(Node* node, int field, double value, int port, int number, int64_t first, int64_t repeat) noexcept nogil
