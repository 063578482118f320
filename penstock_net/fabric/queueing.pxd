from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_packets

cdef void set_event(Node* node, int leaf, int64_t key) noexcept nogil
cdef void set_node_event(Node* node, int which, int64_t time) noexcept nogil
cdef Packet* alloc_packet(Worker* worker) noexcept nogil
cdef void free_packet(Worker* worker, Packet* pkt) noexcept nogil
cdef Packet* alloc_frame(Worker* worker) noexcept nogil
cdef void free_frame(Worker* worker, Packet* frame) noexcept nogil
cdef void push(Queue* queue, Packet* pkt) noexcept nogil
cdef Packet* pop(Queue* queue) noexcept nogil
cdef void push_control(Port* port, Packet* pkt) noexcept nogil
cdef void list_queue(Port* port, Queue* queue, int64_t quantum) noexcept nogil
cdef void unlist_first(Port* port, int level) noexcept nogil
cdef Queue* next_queue(Port* port, int64_t quantum) noexcept nogil
cdef int32_t draw(Node* node, int stream) noexcept nogil
cdef void call_packet_hooks(PacketHook* hook, Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void call_flow_hooks(FlowHook* hook, Node* node, Flow* flow, Packet* pkt) noexcept nogil
