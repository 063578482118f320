"""The state of a worker: ports, their transmit queues, flows, timers.  All of it is private to the switch."""
from cpython.exc cimport PyErr_SetFromErrno
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t
from penstock_net.vswitch.dataplane.prefixes cimport MOST_ADDRESSES, Prefixes
from penstock_net.vswitch.dataplane.stations cimport Stations
from penstock_net.vswitch.memory.layout cimport *

cdef extern from "stdlib.h":
    void* calloc(size_t n, size_t size)
    void free(void* p)
cdef extern from "string.h" nogil:
    int memcmp(const void* a, const void* b, size_t n)
    void* memset(void* p, int value, size_t n)

cdef enum:
    HEADER = 128            # bytes of a frame that are copied before they are read
    LEVELS = 8              # of priority; 0 goes first
    WAITS_KEPT = 20         # classes of waiting times: up to 1 us, 2 us, 4 us, ... 262 ms, and longer
    WAITS_EVERY = 64        # doorbells, of which one is measured
    QUANTUM = 2048          # bytes per turn and weight
    MOST_PORTS = 512        # a power of two
    MOST_PROTOCOL_ERRORS = 100  # then the application is detached
    MOST_UNRUNG = 1 << 20   # frames that one doorbell announces; no receiver has more buffers
    MOST_RELEASED = 1024    # pauses that end in one turn

cdef enum:                  # modes: what happens when a receive queue is full
    LOSSY                   # the frame is dropped
    PFC                     # the port that sent it waits, with all its queues
    DPFQ                    # its transmit queue waits
    BACKDRAFT               # its transmit queue waits earlier, and then goes on at the receiver's rate

cdef enum:                  # why a frame is dropped
    FULL
    NO_BUFFER
    NO_QUEUE
    NO_ROUTE
    NO_FLOW
    MALFORMED
    SPOOFED
    TOO_LONG
    BAD_DESCRIPTOR
    FLOW_OVER               # its flow holds its share of the port's buffers
    EVICTED                 # its flow waits for longest, and others need what it holds
    NOT_PAUSED              # as FLOW_OVER, of a sender that is not made to wait, since its socket has other peers
    REASONS

cdef enum:                  # states of a transmit queue
    IDLE
    ACTIVE
    PAUSED
cdef enum:                  # what became of a frame
    DELIVERED
    DROPPED
    WAITS
cdef enum:                  # states of a port
    ABSENT
    UP
    BROKEN_OFF              # its application made too many protocol errors; to be detached

cdef struct Key:            # addresses (IPv4 as ::ffff:a.b.c.d), transport ports, protocol, and the switch's port it came in by
    uint64_t words[5]

cdef struct Flow:           # two cache lines that every frame needs, and one that the first of a while does
    Key key
    End end
    int32_t number, queue
    int16_t source, target, used
    int16_t open            # whether its receive queue is
    int64_t sent            # bytes put into the receive queue since it was opened
    int64_t consumed        # bytes that the receiver has taken since
    int64_t used_at, sampled_at
    int32_t goal, over, net # th_goal, th_over, th_net; less where the receiver's region is small
    int32_t longest
    double rate             # R_recv, bytes per second; 0: not known yet
    int64_t frames
    int64_t base            # the receiver's count when the queue was opened
    int64_t sampled, dropped, pauses, paused_ns
    int64_t returned        # frames that the receiver's driver had taken out of the queue when it was opened
    int32_t before, after   # in the ring of the flows between the same two ports; numbers plus one
    int64_t spare

cdef struct TxQueue:        # a transmit queue of an application: one cache line that every frame needs, and another
    End end
    uint64_t held           # a frame that waits
    int64_t deficit, until, taken
    int32_t next
    int32_t last            # the flow of its last frame, plus one: most likely the flow of the next
    int16_t known, state, weight, priority
    int16_t blocked         # attempts in vain to deliver its first frame, at most 10
    int16_t paced
    uint32_t served         # frames taken out, delivered or dropped
    int64_t next_at
    int64_t evicted         # of `taken`: frames before it are dropped rather than wait
    int32_t drops[12]       # by reason

cdef struct SwitchPort:
    View view
    int32_t state, number, serial
    int32_t prefix          # bytes before the Ethernet header of its frames: a virtio_net_hdr, or none
    int32_t home            # the worker that serves its transmit queues; any may deliver to it
    int32_t bell_in, bell_out
    int32_t fd              # wakes the application
    int32_t wakes           # the eventfd of the worker that drives the port, plus one; 0: nobody does
    int32_t levels          # which priorities have active queues
    int32_t head[8]
    int32_t tail[8]
    int32_t waiting         # in mode PFC: the flow that has paused the port, plus one
    int32_t guarded         # whether it may only send from its own addresses
    int32_t weight          # of a transmit queue that no doorbell has given one
    int64_t paused_until
    TxQueue* txqs
    int32_t* free_queues    # numbers of receive queues that no flow has
    int32_t free_count
    int32_t flows
    int32_t* flows_from     # by port
    int32_t* hand           # by port: one of these flows, plus one
    int32_t* flow_of        # by receive queue: its flow, plus one; 0: none
    int64_t* returned       # by receive queue, and of all: frames that a driver has taken out; NULL: an application does not say
    int64_t kept            # receive buffers that only flows which hold few may take
    int32_t taken[32]       # receive buffers taken in this turn and not used yet
    int32_t taken_count, refill
    int32_t emptied[32]     # transmit buffers to be given back
    int32_t emptied_count
    int64_t mean            # bytes of a frame to it, and the counts when that was computed
    int64_t mean_frames, mean_bytes
    int64_t total_base      # the application's count of bytes taken when it was attached
    int32_t waiter, fresh   # a transmit queue, plus one: the one whose first frame's wait is measured; the last activated one
    int64_t waiter_since, waiter_taken, waiter_next     # since when, `taken` of the queue then; doorbells until the next is chosen
    int64_t waited_ns       # frames measured, by waiting time, and the sum of these times
    int64_t waits[20]
    int32_t* unrung         # by receive queue: frames that no doorbell has announced
    int32_t* unrung_queues
    int32_t unrung_first, unrung_count
    int64_t received_frames, received_bytes, sent_frames, sent_bytes, pauses, paused_ns, bells_answered, bells_rung
    int64_t shared          # frames that went into another flow's receive queue, as none was left
    int64_t drops[12]
    int32_t learns          # whether it may have stations, of which it may send

cdef struct Timer:
    int64_t at
    int32_t port, queue

cdef struct Worker
ctypedef int64_t (*DriverFunction)(Worker* worker, void* own, int64_t now) noexcept nogil
ctypedef bint (*DirectFunction)(Worker* worker, void* own, int64_t queue, char* frame, int64_t length, int64_t now) noexcept nogil
ctypedef int64_t (*WorkerFunction)(Worker* worker, int64_t now) noexcept nogil

cdef struct Mirror:         # a capture: blocks of a pcapng file in memory that another process reads
    Mirror* next
    char* base              # its bytes; of that memory only the reader's position is read, and checked
    uint64_t* shared        # written, read, missed; 64 bytes apart
    uint64_t size, written, missed, reported
    uint64_t taken          # by a worker that is writing
    int64_t frames
    int64_t clock           # to be added to our time
    int64_t most            # bytes of a frame that are kept
    int32_t only_drops      # record dropped frames only
    int32_t interfaces[512] # by port; -1: not captured
    uint32_t words[16]      # of the block being written
    char comments[16][32]   # by reason of a drop: an option of a block

cdef struct Worker:
    int32_t index, workers
    Worker* peers[4]        # all, in order
    int32_t wanted          # Python wants the loop to return
    int32_t mode, doorbells, burst, epoll
    int64_t th_goal, th_over, th_net, spin_ns, idle_ns
    int32_t port_count, timer_count, timer_room, broken_off
    SwitchPort ports[512]
    Prefixes* prefixes      # of all ports; every worker has the same
    Timer* timers           # a heap
    Flow* flows
    int32_t* table          # open addressing: flow number plus one
    int32_t* free_flows     # a stack of numbers plus one; 0: that place was never used, and has its number from the other end
    int32_t flow_room, free_flow_count, table_mask, age_at, flow_count, flow_top
    uint64_t seed
    void* drivers[512]      # of the ports that the worker itself drives
    SwitchPort* sides[512]  # the application's side of their regions, by port
    DriverFunction read_device, write_device, has_doorbell
    DirectFunction send_direct      # to a driven port; a frame of a driven port
    int32_t driver_count
    int32_t busy_drivers    # whose devices had frames in this turn
    int32_t empty_drivers   # whose devices wait for news
    int64_t news_at         # ns: when a worker that does not sleep looks for news again
    int32_t luck, spins     # how well it paid lately to look for work before a sleep; whether it does so now
    uint32_t idles          # how often it began to be without work
    int32_t frames_each     # that a driver may read in this turn
    int64_t next_due        # ns: when a driver has something to do
    int32_t reach           # transmit queues to prefetch: as many as the last turn served
    int32_t ahead[32]
    uint64_t bells[32]
    int64_t next_age, naps, rounds, worked_rounds, frames, reclaimed
    Mirror* mirrors
    char header[128]
    Key key
    WorkerFunction turn     # the loop's work; whether there was any
    WorkerFunction idle_time, has_pending   # how many ns it may sleep; whether there is work all the same
    void* scheme            # the Emulation of a worker that runs a scheme of the simulator
    int64_t until           # ns: then the loop returns
    int32_t reason          # why the last frame that classify() gave no flow has none
    Stations* stations      # behind ports that learn; NULL: there are no such ports

# Have a worker woken by news of a descriptor, which clear `empty`, unless that is NULL.
cdef inline void add_news(object epoll, int fd, int32_t* empty) except *:
    if watch_with(epoll.fileno(), fd, empty) < 0:
        PyErr_SetFromErrno(OSError)
cdef inline void watch_only(object epoll, int fd) except *: add_news(epoll, fd, NULL)
cdef inline Flow* no_flow() noexcept nogil: return NULL
cdef inline TxQueue* new_txqs(int64_t n) noexcept: return <TxQueue*>sparse(n * sizeof(TxQueue))
cdef inline void free_txqs(TxQueue* txqs, int64_t n) noexcept: give_sparse(txqs, n * sizeof(TxQueue))
cdef inline int32_t* numbers(int64_t n) noexcept: return <int32_t*>calloc(n, sizeof(int32_t))
cdef inline SwitchPort* port_at(Worker* worker, int64_t i) noexcept nogil: return &worker.ports[i]
cdef inline SwitchPort* waiting_at(Worker* worker, int64_t i) noexcept nogil: return &worker.ports[i] if i < MOST_PORTS else worker.sides[i - MOST_PORTS]
cdef inline bint driver_has_doorbell(Worker* worker, int64_t i, int64_t now) noexcept nogil: return worker.has_doorbell(worker, worker.drivers[i], now) != 0
cdef inline uint64_t* sleeps_of(SwitchPort* port) noexcept nogil: return port.view.sleeps[0]
cdef inline SwitchPort* driven_side(Worker* worker, int64_t i) noexcept nogil: return worker.sides[i]
cdef inline int64_t read_driver(Worker* worker, int64_t i, int64_t now) noexcept nogil: return worker.read_device(worker, worker.drivers[i], now)
cdef inline int64_t write_driver(Worker* worker, int64_t i, int64_t now) noexcept nogil: return worker.write_device(worker, worker.drivers[i], now)
# A Driver begins with its side.
cdef inline bint send_to_driver(Worker* worker, SwitchPort* side, int64_t queue, char* frame, int64_t length, int64_t now) noexcept nogil: return worker.send_direct(worker, side, queue, frame, length, now)
cdef inline int64_t run_turn(Worker* worker, int64_t now) noexcept nogil: return worker.turn(worker, now)
cdef inline int64_t idle_time(Worker* worker, int64_t now) noexcept nogil: return worker.idle_time(worker, now)
cdef inline bint is_pending(Worker* worker, int64_t now) noexcept nogil: return worker.has_pending(worker, now) != 0
cdef inline Flow* flow_at(Worker* worker, int64_t i) noexcept nogil: return &worker.flows[i]
cdef inline int64_t wait_count(SwitchPort* port, int64_t i) noexcept nogil: return port.waits[i]
cdef inline TxQueue* txq_at(SwitchPort* port, int64_t i) noexcept nogil: return &port.txqs[i]
cdef inline Timer* timer_at(Worker* worker, int64_t i) noexcept nogil: return &worker.timers[i]
cdef inline int64_t frames_to(Worker* worker, int64_t port) noexcept nogil: return <int64_t>load64(<uint64_t*>&worker.ports[port].sent_frames)
cdef inline int64_t sent_to(Worker* worker, int64_t port) noexcept nogil: return <int64_t>load64(<uint64_t*>&worker.ports[port].sent_bytes)
cdef inline View* view_of(SwitchPort* port) noexcept nogil: return &port.view
cdef inline End* txq_end(TxQueue* txq) noexcept nogil: return &txq.end
cdef inline Key* flow_key(Flow* flow) noexcept nogil: return &flow.key
cdef inline End* flow_end(Flow* flow) noexcept nogil: return &flow.end
cdef inline int32_t* unrung_at(SwitchPort* port, int64_t queue) noexcept nogil: return &port.unrung[queue]
cdef inline int32_t* bell_in_of(SwitchPort* port) noexcept nogil: return &port.bell_in
cdef inline int32_t* bell_out_of(SwitchPort* port) noexcept nogil: return &port.bell_out
cdef inline Key* key_of(Worker* worker) noexcept nogil: return &worker.key
cdef inline bint same_key(Key* a, Key* b) noexcept nogil:
    return (a.words[0] ^ b.words[0] | a.words[1] ^ b.words[1] | a.words[2] ^ b.words[2] | a.words[3] ^ b.words[3] | a.words[4] ^ b.words[4]) == 0
cdef inline int64_t byte_at(char* p, int64_t i) noexcept nogil: return <int64_t>(<unsigned char>p[i])
cdef inline int64_t short_at(char* p, int64_t i) noexcept nogil: return short_from(p + i)
cdef inline uint64_t* counter_at(int64_t* counters, int64_t i) noexcept nogil: return <uint64_t*>&counters[i]
# Note that a receive queue has one more word that no doorbell has announced.
cdef inline void announce(SwitchPort* port, int64_t queue) noexcept nogil:
    cdef int64_t at
    if port.unrung[queue] == 0:
        at = port.unrung_first + port.unrung_count
        port.unrung_queues[at - port.view.queues if at >= port.view.queues else at] = queue
        port.unrung_count += 1
    port.unrung[queue] += 1 if port.unrung[queue] < MOST_UNRUNG else 0
cdef inline int64_t whole(double x) noexcept nogil: return <int64_t>x
cdef inline uint64_t unsigned_of(int64_t number) noexcept nogil: return <uint64_t>number
cdef inline int64_t signed_of(uint64_t word) noexcept nogil: return <int64_t>word
cdef inline bint stopped(Worker* worker) noexcept nogil: return load32(<uint32_t*>&worker.wanted) != 0
cdef inline uint32_t* wanted_of(Worker* worker) noexcept nogil: return <uint32_t*>&worker.wanted
cdef inline void fetch_flow(Flow* flow) noexcept nogil:
    bring_line(flow)
    bring_line(<char*>flow + 64)
    bring_line(<char*>flow + 128)
cdef inline void clear_flow(Flow* flow) noexcept nogil: memset(flow, 0, sizeof(Flow))
cdef inline void set_key(Flow* flow, Key* key) noexcept nogil: memcpy(&flow.key, key, sizeof(Key))
cdef inline void copy_timers(Timer* to, Timer* source, int64_t n) noexcept nogil: memcpy(to, source, n * sizeof(Timer))
