from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.dataplane.mirror cimport Capture
from penstock_net.vswitch.dataplane.leftovers cimport QueueScan, next_waiting_queue, scan_budget, unread_frames
from penstock_net.vswitch.dataplane.flowtable cimport is_misled, renew_flow
from penstock_net.vswitch.dataplane.receiver cimport waiting_now
from penstock_net.vswitch.dataplane.stations cimport forget_mac

cdef inline int64_t* lengths_of(size_t address): return <int64_t*>address
cdef inline Mirror* no_mirrors(): return NULL
cdef inline Worker* worker_of(Worker* first, int64_t k): return first.peers[k]
cdef inline void set_mirrors(Worker* first, int64_t k, Mirror* mirrors): first.peers[k].mirrors = mirrors
cdef inline void link_mirror(Worker* worker, Capture capture):
    capture.mirror.next = worker.mirrors
    worker.mirrors = capture.mirror

cdef object share_captures(Worker* first, list captures)
cdef object forget_macs(Worker* worker, object addresses)
cdef object restart_misled_flows(Worker* worker)
cdef tuple pick_longest(Worker* first, int64_t most)
cdef list longest_of(Worker* worker, int64_t k, int64_t most, dict others)
cdef dict waits_row(SwitchPort* port)
cdef dict details_of(SwitchPort* port, object driver)
cdef dict count_waiting(Worker* first, int64_t number, str name, QueueScan* scan)
