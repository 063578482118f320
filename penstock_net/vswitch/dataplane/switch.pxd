from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.memory.region cimport Region
from penstock_net.vswitch.dataplane.flowtable cimport enter_flows, remove_flow
from penstock_net.vswitch.dataplane.schedule cimport forget_timers
from penstock_net.vswitch.dataplane.worker cimport loop, prepare_worker, turn
from penstock_net.vswitch.dataplane.inspect cimport count_waiting, details_of, forget_macs, pick_longest, restart_misled_flows, share_captures
from penstock_net.vswitch.dataplane.leftovers cimport QueueScan
from penstock_net.vswitch.dataplane.prefixes cimport AddressTable, is_ipv4
from penstock_net.vswitch.dataplane.receiver cimport waiting_now
from penstock_net.vswitch.dataplane.station_flows cimport TO_STATION, is_to_station
from penstock_net.vswitch.dataplane.stations cimport mac_of_word

cdef inline void run_released(Worker* worker, int64_t until):
    with nogil:
        loop(worker, until)
cdef inline uint64_t turns_released(Worker* worker, int64_t count):
    cdef uint64_t start
    cdef int64_t i
    cdef int k
    with nogil:
        start = cycles()
        for i in range(count):
            for k in range(worker.workers):
                turn(worker.peers[k], now_ns())
        start = cycles() - start
    return start
cdef inline int64_t delivered_by(Worker* worker) noexcept nogil:
    cdef int64_t i, sum = 0
    for i in range(worker.port_count):
        sum += worker.ports[i].sent_frames
    return sum
cdef inline uint64_t raced_released(Worker* worker, int64_t frames, uint64_t start):
    with nogil:
        frames += delivered_by(worker)
        while cycles() < start:
            relax()
        while delivered_by(worker) < frames:
            turn(worker, now_ns())
        start = cycles()
    return start
cdef inline Worker* new_worker(): return <Worker*>lines(sizeof(Worker))
cdef inline Flow* new_flows(int64_t n): return <Flow*>untouched(n * sizeof(Flow))
cdef inline void free_flows_of(Worker* worker): give_untouched(worker.flows, worker.flow_room * sizeof(Flow))
cdef inline Timer* new_timers(int64_t n): return <Timer*>calloc(n, sizeof(Timer))
cdef inline void set_view(SwitchPort* port, Region region): port.view = region.view
cdef inline void clear_port(SwitchPort* port): memset(port, 0, sizeof(SwitchPort))
cdef inline void free_port(SwitchPort* port):
    free_txqs(port.txqs, port.view.queues)
    free(port.flows_from)
    free(port.hand)
    free(port.free_queues)
    free(port.flow_of)
    free(port.unrung)
    free(port.unrung_queues)
cdef inline Worker* worker_at(Worker* first, int64_t k): return first.peers[k]
cdef inline size_t place_of(Worker* worker) noexcept: return <size_t>worker
cdef inline void set_peer(Worker* worker, int64_t k, Worker* peer): worker.peers[k] = peer
cdef inline void give_table(Worker* worker, AddressTable table): worker.prefixes = table.prefixes
# A flow as PortDriver.behind() names it: without the port that it came in by.
cdef inline tuple key_words(tuple words): return (*words[:4], words[4] & ~0xFFFF)
# The words of a flow's key, with its own destination where that is a station; of IPv6 with the station's Ethernet address.
cdef inline tuple plain_words(uint64_t* words):
    if not is_to_station(words):
        return (words[0], words[1], words[2], words[3], words[4])
    if words[0] == NO_HIGH or is_ipv4(words[0], words[1]):
        return (words[0], words[1], words[0], words[3], words[4] & ~<uint64_t>TO_STATION)
    return (words[0], words[1], NO_HIGH, mac_of_word(words[2]), words[4] & ~<uint64_t>TO_STATION)
# The number of the port that a flow comes from; -1: that is gone, and another port may have its number.
cdef inline int64_t sender_of(Worker* worker, Flow* flow) noexcept nogil:
    return flow.source if <int32_t>(flow.key.words[4] & 0xFFFF) == port_at(worker, flow.source).serial else -1
# Whether the edge of a port shall know of a flow; of one of IPv6 to a station nobody knows the destination.
cdef inline bint is_held(Worker* worker, Flow* flow, int64_t source, dict behind):
    if not flow.used or sender_of(worker, flow) != source or source < 0:
        return False
    words = plain_words(flow.key.words)
    return (words[2] != NO_HIGH or words[0] == NO_HIGH) and (flow.pauses or key_words(words) in behind)
cdef inline bint has_drops(TxQueue* txq) noexcept nogil:
    cdef int i
    for i in range(REASONS):
        if txq.drops[i]:
            return True
    return False

cdef class Switch:
    cdef Worker* worker                     # the first
    cdef readonly int count                 # of workers
    cdef readonly dict settings
    cdef readonly dict regions, names, fds  # by number of the port
    cdef readonly dict numbers              # the inverse of `names`
    cdef readonly int64_t queues            # of all ports, each way
    cdef list free_numbers                  # in order
    cdef readonly dict drivers              # of the ports that a worker drives itself
    cdef readonly list detached             # rows of the last ports that have gone
    cdef readonly dict totals               # of applications that have gone, by name of the port
    cdef readonly list captures
    cdef readonly object ledger             # of lost frames (support/losses.py)
    cdef list epolls, controls              # by worker: what it sleeps on, and an eventfd that wakes it
    cdef readonly object crew
    cdef AddressTable table                 # addresses of all ports
    cdef public int serial                  # of the last port
    cdef QueueScan scan
