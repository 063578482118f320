from penstock.vswitch.dataplane.state cimport *
from penstock.vswitch.dataplane.mirror cimport Capture
from penstock.vswitch.dataplane.leftovers cimport Remains, next_queue, not_taken
from penstock.vswitch.dataplane.flowtable cimport is_misled, renew_flow

cdef inline int64_t* lengths_of(size_t address): return <int64_t*>address
cdef inline Mirror* no_mirrors(): return NULL
cdef inline Worker* worker_of(Worker* first, int64_t k): return first.peers[k]
cdef inline void set_mirrors(Worker* first, int64_t k, Mirror* mirrors): first.peers[k].mirrors = mirrors
cdef inline void link_mirror(Worker* worker, Capture capture):
    capture.mirror.next = worker.mirrors
    worker.mirrors = capture.mirror

cdef class Oversight:
    cdef Worker* worker                          # the first
    cdef readonly int count                 # of workers
    cdef readonly dict regions, names       # by number
    cdef readonly dict drivers               # of the ports that a worker drives itself
    cdef readonly list captures
    cdef readonly dict totals               # of applications that have gone, by port
    cdef Remains remains
