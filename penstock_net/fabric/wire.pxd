from penstock_net.fabric.llr cimport protect
from penstock_net.fabric.state cimport *

cdef void note_mail(Worker* worker, int number) noexcept nogil
cdef void post(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef int64_t part(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef int64_t transmission(Port* port, int64_t size) noexcept nogil
cdef int64_t in_grains(int64_t time, int64_t grain) noexcept nogil
cdef int64_t ahead(Port* port, Packet* pkt, int64_t took) noexcept nogil
cdef int64_t time_on_wire(Node* node, Port* port, Packet* pkt) noexcept nogil
cdef void send_uneven(Node* node, Port* port, Packet* pkt) noexcept nogil
