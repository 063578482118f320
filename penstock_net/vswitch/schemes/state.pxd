"""The state of a switch that runs a scheme: an emulation, in which the simulator's world forwards the applications' frames.

The world has a host for every port (its endpoint), and that host's link is the line between the application and the switch.
The fabric's structs whose names the real switch has too are renamed: Port is Line, Worker is Engine, Flow is Sender.
"""
from libc.stdint cimport int8_t, int16_t, uint16_t
from penstock_net.fabric.state cimport ACK, ADDRESSED, CONTROL, DATA, DATA_LANE, KEY_BITS, TIMER, NEVER, NO_PACKET
from penstock_net.fabric.state cimport Node, Packet, Queue, World, Outbox, hash31, node_at, queue_at, ring_at, outbox_at
from penstock_net.fabric.state cimport Port as Line, Worker as Engine, Flow as Sender, port_at as line_at, worker_at as engine_at
from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.ports.base cimport KernelPort

cdef enum:
    FULL_BIT = 1 << 24      # of pauses for a receiver that is slow: no scheme has it
    FAR = 63                # the port of what comes from other switches; it has no application
    FAR_FLOW = 1 << 30      # instead of the number of a flow whose receiver is at another switch
    MOST_NAMES = 2147483647
    RETRY_PS = 50000000     # until a transmit queue is tried again after there was no memory

cdef struct Carried:        # behind a packet and what schemes keep in it; the frame's bytes follow
    Key key
    int32_t length, source  # the port that sent it

cdef struct Endpoint:       # an application and the host that stands for it
    Node* node              # that host
    int32_t port            # its number at the switch; -1: no application is attached
    int32_t queues          # number of queues that the scheme can pause
    int32_t retry           # there was no memory for its next frame
    int32_t hand_count
    Packet** hand           # by transmit queue: its first frame
    int32_t* parked         # by queue: its first transmit queue that waits for the end of a pause, plus one
    int32_t* last_parked
    Packet* late            # frames that have arrived and for which the receiver has no memory
    Packet* last_late
    int32_t* stopped        # by queue of the switch: the flow whose receiver is too slow for it, plus one
    int32_t* stops          # those queues
    int32_t stop_count
    int32_t stop_room
    int64_t held_frames     # frames that were late, ever
    int64_t stop_total      # queues that were stopped, ever
    int64_t lost            # frames whose receiver was gone

cdef struct Far:            # an address at another switch
    uint64_t high, low
    int32_t host

cdef struct Trunk:          # a link to a switch in another process
    Node* node              # ours
    int32_t slot, room      # bytes of scratch
    KernelPort* port
    char* scratch
    Packet* out             # packets that our line sends or has sent, and the port has not
    Packet* last_out
    uint64_t sequence, heard
    int64_t sent_frames, came_frames, malformed, replayed, lost, restarts, no_memory

cdef packed struct Wire:    # how a packet or control frame travels between switches; then its scheme's state, and its frame
    char ethernet[14]
    uint16_t spare
    uint64_t digest, seal, sequence
    int64_t seq
    int32_t number, slot, hash
    int16_t src, dst, size, payload, queue
    int8_t kind, lane, flags, ecn, priority, spare2

cdef struct Emulation:
    Worker* worker
    World* world
    Engine* engine
    Endpoint* endpoints
    int32_t endpoint_count
    int32_t by_destination  # the scheme pauses an application by destination, not by transmit queue
    int32_t* endpoint_of    # by number of the port, plus one
    int32_t* names          # by flow: its number, which is never used again
    int32_t next_name
    int32_t trunk_count
    int32_t closed          # nothing more is taken from applications
    Trunk* trunks
    Far* fars
    int64_t far_count
    char* mine              # by node: whether we run it
    uint64_t digest, secret # of the world that all switches build alike
    int64_t packet_state, frame_state   # bytes that schemes keep in packets and control frames
    int64_t at              # where Carried is in a packet
    int64_t longest         # bytes of a frame
    int64_t most_packets
    int64_t time            # ps: all events before it have been run
    int64_t origin          # ns: when time was 0
    int64_t now             # ns
    int64_t renew_at        # ps: when a new world is wanted, because time gets too large for the keys of events
    Sender sender           # an empty flow, for hooks of the sender

cdef inline Emulation* emulation_of(Worker* worker) noexcept nogil: return <Emulation*>worker.scheme
cdef inline Endpoint* endpoint_at(Emulation* emulation, int64_t i) noexcept nogil: return &emulation.endpoints[i]
cdef inline Endpoint* endpoint_of_port(Emulation* emulation, int64_t number) noexcept nogil: return &emulation.endpoints[emulation.endpoint_of[number] - 1]
cdef inline Carried* carried_by(Emulation* emulation, Packet* pkt) noexcept nogil: return <Carried*>(<char*>pkt + emulation.at)
cdef inline char* bytes_of(Emulation* emulation, Packet* pkt) noexcept nogil: return <char*>pkt + emulation.at + sizeof(Carried)
cdef inline Key* carried_key(Carried* carried) noexcept nogil: return &carried.key
cdef inline Trunk* trunk_at(Emulation* emulation, int64_t i) noexcept nogil: return &emulation.trunks[i]
cdef inline Far* far_at(Emulation* emulation, int64_t i) noexcept nogil: return &emulation.fars[i]
cdef inline char* state_of(Emulation* emulation, Packet* pkt) noexcept nogil: return <char*>pkt + sizeof(Packet)
cdef inline Wire* wire_at(char* scratch, int64_t start) noexcept nogil: return <Wire*>(scratch + start)
cdef inline int64_t wire_bytes() noexcept nogil: return sizeof(Wire)
cdef inline void clear_wire(char* scratch, int64_t start) noexcept nogil: memset(scratch, 0, start + sizeof(Wire))
cdef inline void set_type(Wire* wire) noexcept nogil:
    wire.ethernet[12] = <char>0x88
    wire.ethernet[13] = <char>0xB5
cdef inline bint has_type(Wire* wire) noexcept nogil: return wire.ethernet[12] == <char>0x88 and wire.ethernet[13] == <char>0xB5
cdef inline void set_short(char* p, int64_t i, int64_t value) noexcept nogil:
    p[i] = <char>(value >> 8)
    p[i + 1] = <char>value
cdef inline Sender* sender_of(Emulation* emulation) noexcept nogil: return &emulation.sender
cdef inline Queue* no_queue() noexcept nogil: return NULL
