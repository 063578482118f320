"""Types of the fabric.  Every number is signed, except bit masks and the hosts of packets; every time is int64 picoseconds."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint16_t, uint64_t
from penstock_net.fabric.constants cimport *
from penstock_net.fabric.flow_results cimport FlowResults
cdef extern from "state.h" nogil:
    ctypedef struct Arena:
        int64_t reserved
    ctypedef struct Log:
        char* rows
        int64_t count, capacity
    ctypedef struct Guard:
        int64_t time, value, limit
        int32_t fault, line, hook, scheme, fault_node

# The state of schemes follows each struct in memory; see Places.
cdef struct Packet:         # 56 bytes: 8 are left for schemes in the first cache line
    int64_t time, seq
    Packet* next
    int32_t number, slot    # of the flow; index in the sender's table
    int32_t hash
    uint16_t src, dst
    int16_t size, payload
    int16_t in_port, queue
    int8_t kind, ecn, lane, flags
    int8_t priority, held   # held: it went through a virtual output queue of this switch
    int16_t out_port        # its egress port, while it is in a virtual output queue or waits for its last bit; else see ahead()

cdef struct Queue:
    Packet* head
    Packet* tail
    Queue* next             # round robin of its level
    int64_t bytes
    int32_t length, deficit
    int32_t paused          # one bit per scheme
    int16_t index, level
    int16_t listed          # LISTED: in a ring of its port; SCHEDULED: never, for a scheme says which queue is served
    int16_t spare

cdef struct Ring:
    Queue* head
    Queue* tail

ctypedef struct Host
ctypedef struct Held        # see answers.pxd
ctypedef struct Llr         # see llr_state.pxd

ctypedef struct Port:       # every packet needs the first three cache lines, few need the others
    int64_t free_at, delay
    int64_t whole_ps, uneven # ps per byte, whole; whether that is not all: see part_ps, head_ps
    Packet* control_head
    Packet* control_tail
    int64_t bytes           # stored for this port: queued on the data lane or held
    int64_t tx_bytes, max_bytes
    Queue* queues
    Ring* rings             # by priority level
    int32_t queue_size, queue_count
    int32_t active, levels  # backlogged queues that are not paused; mask of the priority levels with queues in their round robin
    int32_t paused          # data lane paused: one bit per scheme
    int16_t armed, slot
    int64_t wake_at         # its scheduler is called again then, though nothing arrives; 0: it is not
    int64_t* queueing_delay # by class of flow: packets, ps between arrival and transmission; NULL: not counted
    int64_t tx_packets
    Packet* in_head         # packets on the wire towards this port
    Packet* in_tail
    int64_t rx_bytes
    int64_t watched         # packets may be lost on the wire to this port, or their headers arrive first
    int64_t ack_bytes       # ACKs, included in tx_bytes
    int32_t peer_port
    int32_t peer_word       # of the peer's port in the bitmaps of arrived_ports
    int32_t peer_node
    int32_t near            # the peer is in the same group of the agenda: it gets packets at once, not at the next window
    int16_t peer_slot
    int8_t down, retrying   # retrying: link-level retry sends frames again, or waits for acknowledgements; nothing else is sent
    int32_t flows           # distinct flows queued here, where a scheme or observer counts them; else -1
    int64_t held            # the part of `bytes` in virtual output queues
    Host* nic               # of a host: this port's part of it
    int64_t loss            # probability that packets are lost on the wire to this port, scaled to 2^31
    int64_t control_loss    # the same of control frames
    int32_t up              # 1: the peer is in a higher tier, -1: in a lower one, 0: in the same
    int32_t peer_queues, flow_bins
    int32_t label           # of its link: twice its dimension; plus 1: it joins two groups of switches, or closes a ring
    int64_t pauses_sent, pauses_received, paused_since, paused_ps, ecn_marks
    int64_t drops[7]
    int64_t dropped_bytes, cut_bytes
    int64_t frame_bytes     # of control frames, included in tx_bytes
    int64_t* flow_samples   # histogram of the port's number of active flows in flow_bins bins; NULL: all in the first one
    int64_t idle_samples    # those in its first bin
    int64_t trimmed_bytes
    int64_t trims, returns  # packets whose payload was cut off here, that were sent back from here
    int64_t part_ps         # the rest of whole_ps, 2^-32 ps per byte
    int64_t carry           # of a picosecond, 2^-32: what the packets sent in a row have taken too much
    int64_t head_ps         # what the header takes on the wire, where the peer is a switch that cuts through; else 0
    int32_t head_bytes, complete # bytes of it; of a cut-through switch: so many of in_head are due when their last bit arrives
    double ps_per_byte, peer_ps_per_byte # of this direction of the link, of the other one
    int64_t storms, restored  # times that a watchdog ended a pause here, that pauses were obeyed again
    Llr* llr                # link-level retry; NULL: its link has none

cdef struct Outbox:
    Packet* head
    Packet* tail

cdef struct Keyed:          # how Flow and Incoming begin
    int64_t key             # order in a heap
    int32_t number, heap_at # of the flow; -1: in no heap

cdef struct Heap:
    Keyed** items
    int32_t size, capacity
    int64_t seed            # items of the same key are in the order of a hash of key and number; 0: in that of their numbers

# Packets in the order of ranks, where a scheme gives them: see fabric/ranking.py.
ctypedef struct Backlog
ctypedef struct Ranking
cdef struct Ranked:         # what a packet has of it, behind the state of schemes
    int64_t rank
    Packet* before          # in its queue
    Packet* earlier         # of its flow
    Packet* later
    Backlog* backlog        # NULL: it is not queued
    int32_t arrival, spare

cdef struct Standing:       # where a flow stands among those of a port
    int64_t key             # Keyed
    int32_t number, heap_at
    Packet* packet          # for which

ctypedef struct Backlog:    # packets of a flow that are queued at a port
    Standing best           # by its packet of the smallest rank, the earliest of these
    Standing worst          # by its packet of the largest rank, the latest of these
    Packet* head
    Packet* tail
    Ranking* ranking
    Backlog* next           # in its bucket; free list
    int32_t number, falling # falling: no rank is larger than that of the packet before

ctypedef struct Ranking:    # of a port
    Heap best, worst
    Backlog** buckets       # by number of the flow
    int32_t bits, backlogs, arrivals, spare
    Packet* last            # in the queue

cdef struct Flow:           # sending side
    int64_t key             # next_send in the pacer, rank where ready flows are in the order of their rank
    int32_t number, heap_at
    int64_t sent, acked, size
    int64_t window          # bytes that may be unacknowledged
    int64_t next_send       # pacing
    double pacing_gap       # ps per byte, set by congestion control; 0 = not paced
    double fc_gap           # the same, set by flow control; the larger gap applies
    int64_t held_until      # nothing is sent before then; set by flow control
    Flow* next              # round robin or parking list
    Host* nic               # the part of its host for the port that it uses
    int32_t slot, hash
    uint16_t src, dst
    int16_t queue, state
    int8_t priority, backoff
    int16_t resend          # packets that choose_packet is to be asked for
    int32_t last_size       # wire bytes of the last packet
    int64_t last_send
    int64_t high            # bytes ever sent once
    int64_t progress_at, start
    int64_t retransmitted, paused_ps, paused_since
    Flow* previous_active
    Flow* next_active
    int64_t rank            # with nic_order = 1: the ready flow with the smallest one sends first
    int64_t rto             # its retransmission timeout, ps; 0: that of the hosts
    int32_t connection      # plus one; 0: it is a flow by itself; OPEN_LOOP; less: what switches reduce, minus its seat minus two
    int32_t message         # the place in world.messages of the first one that is not acknowledged
    int32_t sending         # of the one that was sent last
    int32_t resting         # it has nothing to send and no NIC queue of its own
    double rate_gap         # ps per byte of the rate that was given to it; 0: none was
    int64_t most, lost      # bytes that may be unacknowledged by what was given to it; first byte of a packet, for report_loss()
    uint64_t avoided        # ports that its packets pass over where they take turns of them

cdef struct FlowRing:
    Flow* head
    Flow* tail

cdef struct Incoming:       # what schemes know of a flow at its receiver; their state follows
    int64_t key             # time of its timer
    int32_t number, heap_at
    int64_t received        # bytes of payload, each counted once
    int64_t expected        # all bytes before this one have arrived
    int64_t size            # of the flow, once its last byte has arrived; else 0
    Incoming* next          # free list
    int32_t slot, hash      # slot: of the flow in its sender's table
    uint16_t src, dst
    int8_t priority, complete
    int16_t ranked          # it is among the receiver's flows that are ranked
    int64_t rank
    Incoming* before        # its neighbours among them
    Incoming* after

cdef struct Sink:           # receiving side; number is stored plus one
    int32_t number, ring    # ring: bitmap of packets received out of order, plus one; 0: none
    int64_t expected, nack_seq, nack_at
    int64_t end             # size of the flow, once its last byte has arrived
    Incoming* incoming      # in compositions with on_data
    int32_t message         # of a connection: the place of the first one that has not arrived, plus one; 0: no connection
    int32_t held            # where its packets that are to be acknowledged together are in host.held; 0: none have been
    int64_t begins          # where that message begins

cdef struct Start:          # a flow to come
    int64_t time, size
    int32_t number
    int32_t following       # see sim/core/delayed.py
    int32_t first
    uint16_t src, dst
    int8_t priority, spare1, spare2, spare3
    int32_t spare4

cdef struct Connection:     # flows from a host to another, its messages, that share a path and what the sender knows of it
    int32_t number          # of its first flow, which its packets carry
    int32_t first, count    # its messages: their places in world.messages
    int32_t posted          # of these, handed to the NIC
    int32_t slot            # of its flow in the sender's table, plus one; 0: none
    int32_t spare

cdef struct Message:        # in the order in which they were handed to the NIC
    int64_t end             # in the sequence of its connection
    int32_t number, spare

cdef struct Seat:           # of a node in a tree of switches that reduces what a group of hosts has: see fabric/reduction.py
    int64_t size            # of what each of them has
    int64_t begun, summed   # chunks of which a part has come from below, whose sum has passed here on its way down
    int64_t most            # that were in use at once
    int32_t parent, up      # its seat, -1: this is the root; the port to it
    int32_t down            # the parent's port to here
    int32_t child, children # seats: the first one, and how many follow one another
    int32_t asked           # children that have asked for the sums to begin
    int64_t parts           # of a switch: where its counters are in world.parts
    int64_t ring            # and how many
    int32_t before, after   # seats of the same switch in other groups: who must have ended first, who waits for this one; -1: none
    int32_t ended
    int32_t sent, awaited   # of a host: numbers of the flows whose source and whose destination it is
    int32_t slot            # of its flow in the host's table
    int32_t spare

ctypedef struct Host:       # of each port of a host; what is not the NIC's is in that of port 0
    int32_t levels, nic_queues
    int32_t by_rank         # ready flows send in the order of their rank, or are queued: see World.ranked
    Heap paced              # flows by next_send
    Heap ranked             # ready flows by rank, instead of the rings
    Heap timers             # of incoming flows
    Flow* active            # all unfinished flows
    Sink* sinks             # open addressing by flow number
    int32_t sink_count, sink_bits
    int32_t next_start, last_start
    int32_t delayed         # dependent flows whose parents are done and whose start time has not come: see sim/core/delayed.py
    int32_t free_head, free_queues  # FIFO of NIC queues that no flow uses
    int32_t* finished       # numbers of flows received in full, direct mapped
    FlowRing* parked        # by NIC queue
    int32_t* queue_flows    # by NIC queue
    int32_t* free_queue     # less its index: so untouched at first, when each index has the queue of that number
    uint64_t* rings_of_bits # packets received out of order: RING_WORDS words for each flow that has some
    int32_t* free_ring
    int32_t free_rings, ring_count
    Incoming* ranking       # incoming flows in the order of their ranks, where a scheme ranks them
    int32_t in_flow_timers  # their event is set when all that have expired are handled
    int32_t slot            # of the port
    Port* port
    Held* held              # see sim/core/acks.py
    int32_t held_count, free_held
    Packet* leaving_head    # acknowledgements that are being made, and when the next of these or of the held ones is due
    Packet* leaving_tail
    int64_t acks_due
    FlowRing rings[32]      # behind what every event needs

ctypedef struct Node
ctypedef struct World

cdef struct Recorded:       # a field of a scheme's state that it counts or records: see fabric/recording.py
    int64_t area, at        # where the state of its scheme begins, and the field in it
    int32_t owner, kind     # IN_NODE ...; its C type, as number_in() takes it

cdef struct Places:         # offsets of a scheme's state, its index, its pause bit, its kind of control frame
    int32_t packet, port, queue, flow, node, frame, incoming
    int32_t index, bit, kind
    World* world

include "verbs.pxd"         # what the fabric calls of the hosts, and functions by address
include "hooks.pxi"         # hooks of schemes, and Ops: generated from composition/hooks.py

cdef struct Agenda:         # see sim/core/agenda.py
    int64_t* times          # of the next events of nodes and of blocks below; a block is eight of them
    int64_t* steps          # by block: how far its parts run at once, ps
    int32_t* above          # by block: its place in the block above; -1: none
    int32_t* below          # by place: the block there, where there is no node
    int64_t busy_by[2]      # by window parity: before then some flow of this worker is not done; 0: not known
    int64_t busy_until      # the latest of all workers'
    int64_t look_at         # not computed again before then
    int32_t root, blocks

ctypedef struct Worker:
    int64_t window_end
    int64_t limit           # of the step in which a node is: a key
    int64_t window_start, windows
    int32_t parity, id, sent, finished, node_count, spare
    Packet* free
    Packet* pool            # of the current block
    Packet* free_frames     # larger than packets: schemes' frame_state follows
    int64_t pool_used, pool_size, packet_size, flow_size, frame_size
    int64_t packets         # ever allocated
    int64_t next_window[2]
    int64_t done_by[2]      # flows done less packets afloat, as of the window's end
    int64_t done
    int64_t afloat, lost, settled # of open-loop flows: packets on their way, in the sum of all workers; payload lost; when the last one ended
    World* world
    Arena* arena
    Outbox* outboxes[2]
    uint64_t* arrived_ports[2]  # by window parity: a bitmap of every node's ports to which this worker has sent in it
    uint64_t* mailed[2]         # a bitmap of these nodes
    uint64_t* mailed_words[2]   # a bitmap of the words of that one that are not 0
    uint64_t* own               # a bitmap of this worker's nodes
    Agenda agenda
    Incoming* free_incoming
    int64_t incoming_size
    Flow* free_flow
    Backlog* free_backlog
    Flow* flows             # table of flow_limit flows, one for all workers, mapped on first use
    int64_t flows_used      # new flows of this worker take its slots from here on
    int64_t flows_end, flow_limit   # and before flows_end
    Node** nodes
    Log switch_rows
    Log port_rows
    Log queue_rows
    Log flow_rows
    Log pause_rows
    Log trace_rows
    Log count_rows
    Log record_rows
    Log print_rows
    int64_t printed         # lines that schemes have printed
    int64_t print_until     # later lines are only counted; 0: not known yet
    int64_t error, error_time, error_node, error_value  # the earliest error
    int64_t reactions       # number of ACKs that changed a window or a rate
    Guard guard
    char padding[64]

ctypedef struct Node:
    int64_t now
    int64_t* tree           # tournament of event keys; tree[1] is the earliest
    Port* ports
    Ops* ops
    Worker* worker
    int16_t* next_hops      # groups of them: count, port, port, ...
    int32_t below, span     # hosts below .. below + span - 1 are behind the ports 0, 1, ..., equally many behind each
    int64_t share           # 2^32 / hosts behind a port, rounded up
    int32_t beyond          # where the group for all other hosts begins; -1: see routes
    int32_t port_count, leaf_count, is_host, id, first_port, hash_seed
    int32_t place           # among the nodes of its worker
    int64_t buffer_used, buffer_size
    int32_t* routes         # by class of the destination: where its group begins; -1: none; -2: the host is attached here
    int64_t port_size
    int64_t buffer_max
    Queue* voqs             # virtual output queues
    int64_t voq_size
    int32_t voq_count, voqs_used, voqs_max
    int32_t tier            # 0 host or virtual switch, 1 ToR, ...
    int32_t group           # of switches that are near; a host has that of its switch
    Host* host
    int64_t events, hops, control_frames, frame_bytes, frame_bytes_received
    int64_t draws[5]        # random numbers drawn, by stream (RANDOM_*)
    int64_t random_seed
    int64_t deadlines[16]   # by scheme
    double clock            # what its line takes for a picosecond
    int64_t cut_through     # bytes of a header, after which it may forward a packet; 0: it stores and forwards
    Packet** together       # packets that arrive in the same picosecond
    int64_t pauses[8]       # by priority, where these are paused apart: of its egresses
    int64_t stopped[8]      # how many are paused now
    int64_t stopped_ps[8]   # how long they were, with the time until now missing for these

ctypedef struct World:
    Arena* arena
    int32_t host_count, node_count, port_count, worker_count, port_words, scheme_count
    int32_t mail_words
    int32_t count_flows     # active flows are counted at each sample
    int32_t nic_by_priority # a flow's NIC queue is that of its priority
    int32_t packets_differ  # or of that of each of its packets, which on_send may set
    int32_t acks_queued     # and its acknowledgements wait in that, too
    int32_t acks_held, ack_every    # whether packets of a flow are acknowledged together, and how many; 0: any number
    int32_t acks_apart      # acknowledgements wait, are queued, or say how many packets they answer
    int64_t ack_after, ack_delay, answer_at # see HostConfig, ps; where Answer is in packets, 0: there is none
    int32_t ack_queue       # of acknowledgements, if they are stored like data: none of the NIC's, see may_pause in line.py
    Node* nodes
    Worker* workers
    int64_t node_size
    int64_t horizon         # no event at or after it is executed
    int64_t window          # the smallest delay of the links that are not near
    int64_t flow_count      # flows of the whole run
    int32_t mtu, header, ack_header, ack_min, control
    int32_t ack_lane, log_pauses, nic_by_destination, class_count, reordering
    int32_t levels          # priorities that packets may have: no more than there are queues
    int32_t ranked          # ready flows send in the order of their rank; QUEUED: their packets are made at once, and wait at the port
    int32_t exact_rto       # timeouts come when they are due, not at multiples of a quarter of the RTO
    int32_t in_turn         # packets of a flow take turns of the ports of their host
    int32_t symmetric       # the paths of a flow's packets and of what answers them are the same
    int64_t quantum, rto, base_rtt, bdp, nack_interval
    int64_t pacing_debt     # a paced packet that had to wait for the NIC counts as sent when it was due, at most so many bytes ago
    int8_t* classes         # of flows by number; NULL: not needed
    int32_t* host_class     # where there are tables of routes: the class of each host as a destination
    int32_t* host_group     # and where the group of its port begins at its switch
    int64_t sample, seed
    int32_t sample_ports, sample_queues, sample_flows, trace
    Start* starts           # of this chunk, by host and time
    Start* waiting          # dependent flows
    int64_t* gaps           # ps from the arrival of its last parent to the start of each waiting flow
    int32_t* pending        # unfinished parents of each waiting flow
    int32_t* child_offsets  # by flow number, into children; NULL: no flow depends on another
    int32_t* children
    int32_t* connection_of  # by flow number: its connection, plus one; NULL: no flow has one
    int32_t* rails          # by flow number: which of the ports of its host is its own; -1: by its hash; NULL: all are so
    int32_t* pin_of         # by flow number: where its given paths begin in `pins`; 0: it has none; NULL: none has
    int32_t* pins           # see fabric/pinned.py
    int64_t* turns          # by port: which next hop the next packet takes that came by it, counted on; -1: as elsewhere; NULL: all do
    int64_t* rates          # by flow number: bit/s that it may send; 0: any
    int64_t* windows        # by flow number: bytes that it may have unacknowledged; 0: any
    int64_t* unsent         # by flow number, of open-loop flows: bytes not sent yet, and not received; NULL: there are none
    int64_t* missing
    int32_t limited         # rates and windows are there; OPENED: and these two
    int32_t served_apart    # in_turn, or some flows end once they are sent
    Connection* connections
    Message* messages       # NULL: messages of a connection share its path only
    int32_t* seat_of        # by flow number: its host's seat, plus one; NULL: switches reduce nothing
    Seat* seats
    int32_t* parts          # by seat and chunk, in a ring: how many children's parts have come
    int64_t chunks          # window of a tree: how many chunks a child may be ahead of the sums
    int32_t groups_wait     # groups ask before they begin
    FlowResults results     # by flow number; see results/columns.py
    Ops host_ops
    Ops switch_ops
    int64_t grid            # the smallest link delay: a run ends at a multiple of it
    int64_t grain           # times on the line, and gaps of paced flows, are cut to multiples of it, ps; 0: they are not
    char padding1[64]
    int32_t arrived         # barrier of the workers: how many have arrived, and its generation
    char padding2[64]
    int32_t generation
    char padding3[64]
    Ops plain_ops           # of switches without schemes
    int64_t label           # class of the flows that from_incast() is true of, plus one; 0: there is none
    int64_t rank_at         # where Ranked is in packets
    int64_t* round_trips    # of flows by number, alone in the network; NULL: not needed
    Ranking* rankings       # by port; NULL: no scheme ranks packets
    Recorded* counted       # counts of flows, kept when a flow finishes
    Recorded* recorded      # fields that are recorded at each sample
    int64_t counted_count, recorded_count, retries # retries: whether links may have retry
    int64_t print_limit     # lines that schemes print which are kept

cdef extern from "state.h" nogil:
    const int64_t NEVER "INT64_MAX"
    const int64_t FAILED "(-INT64_MAX / 128)"
    Packet* NO_PACKET "NULL"
    Queue* NO_QUEUE "NULL"
    Flow* NO_FLOW "NULL"
    Sink* NO_SINK "NULL"
    Incoming* NO_INCOMING "NULL"
    Backlog* NO_BACKLOG "NULL"
    Port* NO_PORT "NULL"
    void* zeroed(Arena* arena, size_t count, size_t size)
    void* zeroed_later(Arena* arena, size_t count, size_t size)
    Arena* new_arena()
    void save_memory(Arena* arena)
    void free_arena(Arena* arena)
    void* next_row(Log* log, size_t size)
    void free_log(Log* log)
    void* step(void* table, long index, long size)
    void* behind(void* p, long offset)
    void* answer_behind(void* p, long offset)
    void clear(void* p, long size)
    double number_in(void* thing, long area, long at, int kind)
    void swap_packets(Packet* a, Packet* b, long size)
    void copy_packet(Packet* to, Packet* pkt, long size)
    long at(long index, long count, const char* what)
    int32_t load_relaxed(int32_t x)
    int32_t load_acquire(int32_t x)
    void store_release(int32_t x, int32_t value)
    int32_t fetch_add(int32_t x, int32_t value)
    void count_shared(int64_t* counts, long i)
    void cpu_pause()
    int sched_yield()
    void prefetch(void* p)
    bint rare(bint x)
    bint within(int i, int n)
    int lowest_bit(uint64_t x)
    int bits_set(uint64_t x)
    uint64_t bit(int i)
    int64_t whole(double x)
    int32_t hash31(int64_t number, int64_t seed)
    int32_t pick(int32_t hash, int32_t seed, int32_t n)
include "answers.pxd"        # acknowledgements of several packets
include "llr_state.pxd"

# Element of a table, by reference.
cdef inline Port* port_at(Node* node, int slot) noexcept nogil:
    return <Port*>step(node.ports, at(slot, node.port_count, b"port"), node.port_size)
cdef inline Queue* queue_at(Port* port, int index) noexcept nogil:
    return <Queue*>step(port.queues, at(index, port.queue_count, b"queue"), port.queue_size)
cdef inline Queue* voq_at(Node* node, int index) noexcept nogil:
    return <Queue*>step(node.voqs, at(index, node.voq_count, b"voq"), node.voq_size)
cdef inline Ring* ring_at(Port* port, int level) noexcept nogil:
    return &port.rings[at(level, MOST_LEVELS, b"ring")]
cdef inline FlowRing* flow_ring_at(Host* host, int level) noexcept nogil:
    return &host.rings[at(level, MOST_LEVELS, b"ring")]
cdef inline Agenda* agenda_of(Worker* worker) noexcept nogil:
    return &worker.agenda
cdef inline Heap* paced_of(Host* host) noexcept nogil:
    return &host.paced
cdef inline Heap* ranked_of(Host* host) noexcept nogil:
    return &host.ranked
cdef inline Heap* timers_of(Host* host) noexcept nogil:
    return &host.timers
cdef inline Keyed* keyed(Flow* flow) noexcept nogil:
    return <Keyed*>flow
cdef inline Keyed* keyed_incoming(Incoming* incoming) noexcept nogil:
    return <Keyed*>incoming
cdef inline Ranked* rank_of(Node* node, Packet* pkt) noexcept nogil:
    return <Ranked*>behind(pkt, node.worker.world.rank_at)
cdef inline Ranking* ranking_at(World* world, long port) noexcept nogil:
    return &world.rankings[at(port, world.port_count, b"ranking")]
cdef inline Heap* heap_of_best(Ranking* ranking) noexcept nogil:
    return &ranking.best
cdef inline Heap* heap_of_worst(Ranking* ranking) noexcept nogil:
    return &ranking.worst
cdef inline Standing* best_of(Backlog* backlog) noexcept nogil:
    return &backlog.best
cdef inline Standing* worst_of(Backlog* backlog) noexcept nogil:
    return &backlog.worst
cdef inline Keyed* keyed_standing(Standing* standing) noexcept nogil:
    return <Keyed*>standing
cdef inline Standing* standing_in(Heap* heap, long i) noexcept nogil:
    return <Standing*>heap.items[at(i, heap.size, b"standing")]
cdef inline Standing* first_standing(Heap* heap) noexcept nogil:
    return <Standing*>heap.items[0]
cdef inline Backlog* one_backlog(Backlog* table) noexcept nogil:
    return <Backlog*>step(table, 0, 0)
cdef inline Flow* first_flow(Heap* heap) noexcept nogil:
    return <Flow*>heap.items[0]
cdef inline Incoming* first_incoming(Heap* heap) noexcept nogil:
    return <Incoming*>heap.items[0]
cdef inline FlowRing* parked_at(Host* host, int queue) noexcept nogil:
    return &host.parked[at(queue, host.nic_queues, b"parked")]
cdef inline Flow* flow_at(Worker* worker, long slot) noexcept nogil:
    return <Flow*>step(worker.flows, at(slot, worker.flow_limit, b"flow"), worker.flow_size)
cdef inline Sink* sink_at(Host* host, long i) noexcept nogil:
    return &host.sinks[at(i, 1 << host.sink_bits, b"sink")]
cdef inline Incoming* first_of_incoming(Incoming* table) noexcept nogil:
    return <Incoming*>step(table, 0, 0)
cdef inline Sink* sink_of(Sink* sinks, long i) noexcept nogil:
    return &sinks[i]
cdef inline Start* start_at(World* world, long i) noexcept nogil:
    return &world.starts[i]
cdef inline Start* waiting_at(World* world, long i) noexcept nogil:
    return &world.waiting[i]
cdef inline Connection* connection_at(World* world, long i) noexcept nogil:
    return &world.connections[i]
cdef inline Message* message_at(World* world, long i) noexcept nogil:
    return &world.messages[i]
cdef inline Recorded* counted_at(World* world, long i) noexcept nogil:
    return &world.counted[i]
cdef inline Recorded* recorded_at(World* world, long i) noexcept nogil:
    return &world.recorded[i]
cdef inline Seat* seat_at(World* world, long i) noexcept nogil:
    return &world.seats[i]
# Of connections: where the message after one that ends there begins, and the sequence number behind a packet of data.
cdef inline int64_t whole_packets(World* world, int64_t bytes) noexcept nogil:
    return (bytes + world.mtu - 1) // world.mtu * world.mtu
cdef inline int64_t past(World* world, Packet* pkt) noexcept nogil:
    return pkt.seq + (world.mtu if pkt.flags & MORE else pkt.payload)
cdef inline Outbox* outbox_at(Worker* worker, int parity, int port) noexcept nogil:
    return &worker.outboxes[parity][at(port, worker.world.port_count, b"outbox")]
cdef inline Packet* pool_at(Worker* worker, long i) noexcept nogil:
    return <Packet*>step(worker.pool, at(i, worker.pool_size, b"pool"), worker.packet_size)
cdef inline Packet* first_of(Packet* packets) noexcept nogil:
    return <Packet*>step(packets, 0, 0)
cdef inline Host* nic_at(Node* node, int slot) noexcept nogil:
    return port_at(node, slot).nic
cdef inline Port* port_of(Flow* flow) noexcept nogil:
    return flow.nic.port
cdef inline double line_rate(Node* node) noexcept nogil:
    return 8e12 / port_at(node, 0).ps_per_byte
cdef inline int64_t label_of(World* world, Packet* pkt) noexcept nogil:
    return world.classes[at(pkt.number, world.flow_count, b"flow")] + 1
cdef inline bint from_incast(Node* node, Packet* pkt) noexcept nogil:
    return node.worker.world.label != 0 and pkt.kind <= ACK and label_of(node.worker.world, pkt) == node.worker.world.label
cdef inline int64_t round_trip_of(Node* node, Flow* flow) noexcept nogil:
    return node.worker.world.round_trips[at(flow.number, node.worker.world.flow_count, b"flow")] if node.worker.world.round_trips else node.worker.world.base_rtt
cdef inline Worker* worker_at(World* world, int i) noexcept nogil:
    return &world.workers[at(i, world.worker_count, b"worker")]
cdef inline Node* node_at(World* world, int i) noexcept nogil:
    return <Node*>step(world.nodes, at(i, world.node_count, b"node"), world.node_size)
cdef inline int32_t group_of(Node* node, int host) noexcept nogil:
    return node_at(node.worker.world, at(host, node.worker.world.host_count, b"host")).group
cdef inline Ops* host_ops(World* world) noexcept nogil:
    return &world.host_ops
cdef inline Ops* switch_ops(World* world) noexcept nogil:
    return &world.switch_ops
cdef inline Ops* plain_ops(World* world) noexcept nogil:
    return &world.plain_ops
include "words.pxd"
