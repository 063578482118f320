from penstock_net.vswitch.dataplane.state cimport *

cdef struct QueueScan:      # of the transmit queues of a port
    int64_t budget          # slots that may still be read, in all queues together
    int64_t frames, bytes   # in the last queue found

cdef inline int64_t first_ring(View* view, int64_t queue) noexcept nogil: return low(load64(word_at(view.first[0], queue))) - 1

cdef int64_t scan_budget(View* view) noexcept nogil
cdef int64_t next_waiting_queue(SwitchPort* port, int64_t number, QueueScan* scan) noexcept nogil
cdef void scan_queue(View* view, int64_t queue, int64_t ring, int64_t at, QueueScan* scan) noexcept nogil
cdef int64_t next_ring(View* view, int64_t queue, uint64_t word) noexcept nogil
cdef int64_t unread_frames(View* view) noexcept nogil
