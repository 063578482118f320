from penstock_net.vswitch.dataplane.state cimport *
from penstock_net.vswitch.memory.rings_inline cimport push, pop, open_queue, find_queue, answer_bell, ring_bell, take_buffer, give_buffer, slot_of, take, give, take_ring, give_ring

cdef extern from "math.h" nogil:
    double log(double x)
cdef extern from * nogil:
    int __builtin_clzll(unsigned long long x)

cdef enum:
    MOST_CORES = 16
    KINDS = 8               # of traffic that are told apart in the results
    BINS = 2560             # of a histogram: 64 for each power of two, in ns
    MOST_CALLS = 4          # Calls of an application
    AT_ONCE = 32            # frames that an application sends in a step
    ETHERNET = 14           # bytes of headers
    IPV4 = 20
    HEAD = 42               # Ethernet, IPv4, UDP
    STAMP = 42              # in a frame: when it was meant to be sent
    WHOSE = 50              # ... the stream of the receiving application that it belongs to
    WHAT = 54               # ... its kind, what it is, the receiver's core; of a call: its Calls there, its index, those missing
    IP_LENGTH = 16          # ... of what follows Ethernet's header; in network order, as those below
    UDP_LENGTH = 38
    SOURCE_PORT = 34        # ... UDP ports
    TARGET_PORT = 36
    MOST_FRAMES = 31        # of a call's request
    SMALLEST = 64           # bytes of a frame
    NO_ROOM = -2            # no frame may be put into a queue, for it has all that may wait there

cdef enum:                  # what a frame is
    DATA = 1
    REQUEST = 2
    ANSWER = 3
    CALL = 4                # a frame of the request of a call; these and those after it belong to calls
    REPLY = 5               # its answer
    ASK = 6                 # its client has heard nothing of it
    RESEND = 7              # its server lacks frames of the request

cdef struct Stream:         # what an application sends in one transmit queue
    char head[64]
    int32_t queue, length, what, kind, core
    int32_t burst           # frames of a message
    int32_t left            # ... that are still to be sent
    int32_t peer            # the stream of the other application that a request or an answer belongs to
    int32_t answers         # frames that a request is answered with
    int32_t got, waiting, poisson
    int64_t most            # bytes that may wait in the transmit queue
    double gap              # ns between messages; 0: as fast as possible, or as the answers come
    double due              # when the next message is meant to be sent
    double began            # when this one was
    double tried_at, timeout
    uint64_t random
    int64_t sent, finished, repeated

cdef struct Call:           # an RPC that repeats what is lost, as its client or its server has it
    double began            # when its request was meant to be sent; the server's: of the last call that it knows
    double heard            # last news of it; the client's also: when its last frame was sent
    double about            # of a server: the call that it lacks frames of
    uint32_t done           # frames of the request that have been sent, or received
    uint32_t wanted         # ... that are to be sent, or asked for
    int32_t ask             # it is to be asked about, or answered
    int32_t open, listed
    int32_t next            # in the list of those that have something to send
    int32_t after           # in the list of free calls

cdef struct Calls:          # those of one client at one server: one of these in either application
    char head[64]
    Call* all
    int32_t count, client, peer, frames, queue, queues, port, length, kind, core, spills, poisson
    int32_t first, last, free, busy, rung
    uint32_t whole_mask     # all frames of a request
    int64_t most
    double gap, due, resend, checked
    uint64_t random
    int64_t sent, repeated, asked, spilled, finished

cdef struct Inbox:          # a receive queue
    End end
    int32_t known, listed, next, core
    int64_t announced       # frames that doorbells have announced

cdef struct Core:           # of an application that receives
    double free_at, service
    int32_t head, tail

cdef struct App:
    View view
    int32_t bell_out, bell_in, doorbells, stream_count, stream_at, core_count, batch, calls_count
    End* out
    char* opened
    int64_t* put
    Inbox* inboxes
    Stream* streams
    Calls calls[4]
    Core cores[16]
    double send_ns, poll_ns
    double since            # results count from here
    double loss             # share of the frames that it throws away, as if lost on the way
    uint64_t random
    int64_t lost, blocked
    int64_t frames[8]
    int64_t bytes[8]
    int64_t* bins           # latencies by kind

cdef inline Stream* stream_at(App* app, int64_t i) noexcept nogil: return &app.streams[i]
cdef inline Inbox* inbox_at(App* app, int64_t i) noexcept nogil: return &app.inboxes[i]
cdef inline Calls* calls_at(App* app, int64_t i) noexcept nogil: return &app.calls[i]
cdef inline Call* call_at(Calls* calls, int64_t i) noexcept nogil: return &calls.all[i]
cdef inline int64_t queue_of_call(Calls* calls, int64_t i) noexcept nogil: return calls.queue + i % calls.queues
cdef inline Core* core_at(App* app, int64_t i) noexcept nogil: return &app.cores[i]
cdef inline End* inbox_end(Inbox* inbox) noexcept nogil: return &inbox.end
cdef inline End* out_at(App* app, int64_t i) noexcept nogil: return &app.out[i]
cdef inline View* app_view(App* app) noexcept nogil: return &app.view
cdef inline int32_t* app_bell_out(App* app) noexcept nogil: return &app.bell_out
cdef inline int32_t* app_bell_in(App* app) noexcept nogil: return &app.bell_in
cdef inline int64_t* bin_at(App* app, int64_t i) noexcept nogil: return &app.bins[i]
cdef inline void put64(char* p, int64_t v) noexcept nogil: memcpy(p, &v, 8)
cdef inline int64_t get64(char* p) noexcept nogil:
    cdef int64_t v
    memcpy(&v, p, 8)
    return v
cdef inline void put32(char* p, int32_t v) noexcept nogil: memcpy(p, &v, 4)
cdef inline int64_t get32(char* p) noexcept nogil:
    cdef int32_t v
    memcpy(&v, p, 4)
    return v
cdef inline void put16(char* p, int64_t v) noexcept nogil:
    p[0] = <char>(v >> 8)
    p[1] = <char>v
cdef inline void put8(char* p, int64_t v) noexcept nogil: p[0] = <char>v
cdef inline int64_t log2_of(int64_t v) noexcept nogil: return 63 - __builtin_clzll(<unsigned long long>v)
cdef inline double uniform(uint64_t r) noexcept nogil: return (<double>(r >> 11) + 0.5) / 9007199254740992.0
cdef inline double real(int64_t v) noexcept nogil: return <double>v

cdef uint64_t shuffled(uint64_t r) noexcept nogil
cdef void note(App* app, int64_t kind, double ns) noexcept nogil
cdef int64_t begin_frame(App* app, int64_t queue, int64_t length, int64_t most) noexcept nogil
cdef bint end_frame(App* app, int64_t queue, int64_t buffer, int64_t length) noexcept nogil
