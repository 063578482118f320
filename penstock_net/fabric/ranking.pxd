from penstock_net.fabric.heap_inline cimport add, remove, fix, goes_first, sooner, put, sift_up, sift_down, grow
from penstock_net.fabric.state cimport *
from penstock_net.fabric.tables cimport new_backlog_refs, new_backlogs

cdef Ranking* ranking_of(Node* node, Port* port) noexcept nogil
cdef int64_t bucket_of(Ranking* ranking, int64_t number) noexcept nogil
cdef Backlog* find_backlog(Ranking* ranking, int64_t number) noexcept nogil
cdef void put_backlog(Ranking* ranking, Backlog* backlog) noexcept nogil
cdef void grow_buckets(Node* node, Ranking* ranking) noexcept nogil
cdef Backlog* open_backlog(Node* node, Ranking* ranking, int64_t number) noexcept nogil
cdef void close_backlog(Node* node, Ranking* ranking, Backlog* backlog) noexcept nogil
cdef void stand_best(Node* node, Backlog* backlog, Packet* pkt) noexcept nogil
cdef void stand_worst(Node* node, Backlog* backlog, Packet* pkt) noexcept nogil
cdef void set_best(Node* node, Ranking* ranking, Backlog* backlog, Packet* pkt) noexcept nogil
cdef void set_worst(Node* node, Ranking* ranking, Backlog* backlog, Packet* pkt) noexcept nogil
cdef void renumber(Node* node, Ranking* ranking, Queue* queue) noexcept nogil
cdef void rank_tail(Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void insert(Node* node, Port* port, Queue* queue, Packet* pkt, int64_t rank) noexcept nogil
cdef Packet* next_best(Node* node, Backlog* backlog, int64_t rank, Packet* later) noexcept nogil
cdef Packet* next_worst(Node* node, Backlog* backlog, int64_t rank, Packet* earlier) noexcept nogil
cdef void withdraw(Node* node, Packet* pkt) noexcept nogil
cdef void withdraw_first(Node* node, Queue* queue, Packet* pkt) noexcept nogil
cdef Packet* sort_arrivals(Node* node, Queue* queue) noexcept nogil
cdef void restore(Node* node, Port* port, int32_t arrivals) noexcept nogil
cdef void rank_enqueued(void* me, Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void rank_dequeued(void* me, Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef bint is_ranked(Node* node, Port* port, Queue* queue, Packet* pkt) noexcept nogil
cdef void lead(Node* node, Packet* pkt, Packet* first) noexcept nogil
cdef Packet* best_packet(Node* node, Port* port) noexcept nogil
cdef Packet* worst_packet(Node* node, Port* port) noexcept nogil
cdef Packet* earliest_packet(Node* node, Port* port, Packet* pkt) noexcept nogil
