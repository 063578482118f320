"""A port of the kernel: three functions, counters and memory; base.py has the contract."""
from libc.errno cimport EAGAIN, EINTR, EIO, ENETDOWN, ENOBUFS, errno
from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memmove
from penstock_net.vswitch.world.calls.table cimport POLLIN, iovec, now_ns, poll_pair, pollfd, read_into, write_to

cdef extern from "shared.h" nogil:
    uint64_t load64(uint64_t* p)
    void store64(uint64_t* p, uint64_t v)
cdef extern from "linux/virtio_net.h" nogil:
    struct virtio_net_hdr:
        uint8_t flags
        uint8_t gso_type
        uint16_t hdr_len
        uint16_t gso_size
        uint16_t csum_start
        uint16_t csum_offset
    enum: VIRTIO_NET_HDR_F_NEEDS_CSUM
cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)
    char* PyBytes_AS_STRING(object text)
    char* PyByteArray_AS_STRING(object block)

cdef enum:
    HEADER_BYTES = 10       # struct virtio_net_hdr
    ETHERNET_BYTES = 14
    FRAME_BYTES = 65560     # the longest frame: an IP packet of 64 KB, its Ethernet header with a VLAN tag, a virtio_net_hdr
    SPINS = 10             # polls without a frame before a bridge sleeps
    DOWN_NS = 1000000000    # so long a frame waits for an interface that is down
    DOWN_GAP_NS = 50000000  # without a failed send: it was up between
    A_FRAME = 0             # what is sent: a frame of a port of the switch
    A_COPY = 1              # a copy of one, or a frame that the switch has made
    A_MESSAGE = 2           # a datagram of an overlay's protocol: no frame

cdef struct KernelPort:
    int64_t (*receive)(KernelPort* port, char* to, int64_t room) noexcept nogil
    bint (*send)(KernelPort* port, char* frame, int64_t length) noexcept nogil
    bint (*flush)(KernelPort* port) noexcept nogil
    void (*learn)(KernelPort* port) noexcept nogil      # sets `path` anew; NULL: it does not change
    int32_t fd              # -1: there is none to wait for
    int32_t header          # bytes of virtio_net_hdr before the Ethernet header of every frame: 0 or HEADER_BYTES
    int32_t last_error      # errno of the last error
    int32_t ended           # a recording has been replayed to its end
    int32_t empty           # nothing to receive since the last news of `fd`; 0: unknown, as of all kinds but a TAP
    int64_t path            # the longest frame that the path takes in one piece; 0: any that the port takes
    int64_t sure            # of these, the longest that is known to pass, if that is less; 0: all
    int64_t frames_in, bytes_in, frames_out, bytes_out
    int64_t errors_in       # receptions that failed
    int64_t errors_out      # frames that the kernel refused for good: lost
    int64_t too_long        # frames longer than the caller's room, or than the port can carry: lost
    int64_t refused         # frames of strangers, or that are no frames: dropped
    int64_t lost            # frames lost on purpose: a link's loss, a fault
    int64_t messages_lost   # datagrams of an overlay's protocol that were refused: no frames
    int64_t no_room         # sends that were put off: nothing is lost
    int64_t down_since, down_at     # ns: the first and the last send in a row that failed since the interface was down
    int32_t sends           # what is sent now: A_FRAME, A_COPY or A_MESSAGE
    int32_t no_carrier      # whether the interface has none: then the kernel says that it has no room
    int64_t* clock          # virtual ns; NULL: the machine's
    void* own               # the kind's own memory
    KernelPort* inner       # of a wrapper: what it wraps
    KernelPort* sink        # of a capture: where copies go
    int32_t reads_ahead     # whether it may have read frames from the kernel that are not received yet
    int32_t sealed          # it reads no more of them
    int64_t (*usual)(KernelPort* port, char* to, int64_t room) noexcept nogil   # `receive`, once all that was put back has come
    char* back              # frames that were put back: length and bytes of each
    int64_t back_at, back_end

cdef struct Crossing:       # a bridge between two ports: one buffer, and perhaps a frame in it, each way
    char* buffer[2]
    int64_t held[2]
    int64_t moved[2]
    uint64_t stop
    pollfd fds[2]
    int64_t wait            # ns

# One frame: its bytes; 0: there is none now; -1: an error, counted.
cdef inline int64_t port_receive(KernelPort* port, char* to, int64_t room) noexcept nogil: return port.receive(port, to, room)
# Whether the frame was taken; else the kernel has no room now, and the caller keeps it.
cdef inline bint port_send(KernelPort* port, char* frame, int64_t length) noexcept nogil: return port.send(port, frame, length)
# Hand over what a batch still holds; whether all of it is gone.  port_receive does it too.
cdef inline bint port_flush(KernelPort* port) noexcept nogil: return port.flush(port)
# Of the port or of what it wraps.
cdef inline int64_t path_of(KernelPort* port) noexcept nogil:
    while port.inner:
        port = port.inner
    return port.path
cdef inline void set_sure(KernelPort* port, int64_t length) noexcept nogil:
    while port.inner:
        port = port.inner
    port.sure = length
cdef inline void set_sends(KernelPort* port, int32_t what) noexcept nogil:
    while port.inner:
        port = port.inner
    port.sends = what
cdef inline void port_learn(KernelPort* port) noexcept nogil:
    while port.inner:
        port = port.inner
    if port.learn:
        port.learn(port)
cdef inline int64_t time_of(KernelPort* port) noexcept nogil: return port.clock[0] if port.clock else now_ns()
cdef inline virtio_net_hdr* header_of(char* frame) noexcept nogil: return <virtio_net_hdr*>frame
cdef inline char* bytes_from(char* base, int64_t offset) noexcept nogil: return base + offset
cdef inline int64_t octet(char* base, int64_t i) noexcept nogil: return (<uint8_t*>base)[i]
cdef inline void set_octet(char* base, int64_t i, int64_t value) noexcept nogil: base[i] = <char>value
cdef inline int64_t length_back(KernelPort* port) noexcept nogil:
    cdef int64_t length
    memcpy(&length, port.back + port.back_at, 8)
    return length
cdef inline uint64_t* stop_of(Crossing* crossing) noexcept nogil: return &crossing.stop
cdef inline int wait_for(Crossing* crossing) noexcept nogil: return poll_pair(crossing.fds, crossing.wait)
# Memory that lives as long as the port.
cdef inline char* keep(PortHandle port, block) except NULL:
    port.memory.append(block)
    return PyByteArray_AS_STRING(block)
cdef inline size_t place_of(KernelPort* port) noexcept: return <size_t>port
cdef inline KernelPort* pointer_to(PortHandle port) noexcept: return &port.port
cdef inline int64_t* pointer_to_time(Clock clock) noexcept: return &clock.ns

cdef int64_t received(KernelPort* port, int64_t length) noexcept nogil
cdef bint sent(KernelPort* port, int64_t length) noexcept nogil
cdef int64_t receive_failed(KernelPort* port) noexcept nogil
cdef bint send_failed(KernelPort* port) noexcept nogil
cdef int64_t received_too_long(KernelPort* port) noexcept nogil
cdef bint sent_too_long(KernelPort* port) noexcept nogil
cdef int64_t closed_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint closed_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef void forget(KernelPort* port) noexcept nogil
cdef bint is_down_shortly(KernelPort* port) noexcept nogil
cdef int64_t receive_back(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef int64_t absent_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint absent_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef void make_absent(PortHandle handle) except *
cdef bint flush_nothing(KernelPort* port) noexcept nogil
cdef void complete_checksum(char* frame, int64_t length) noexcept nogil
cdef void complete_copy(char* frame, char* to, int64_t size) noexcept nogil
cdef int64_t move(KernelPort* source, KernelPort* to, Crossing* crossing, int way) noexcept nogil
cdef void cross(KernelPort* a, KernelPort* b, Crossing* crossing) noexcept nogil
cdef int64_t flood_port(KernelPort* port, char* frame, int64_t length, int64_t count) noexcept nogil
cdef int64_t swallow_port(KernelPort* port, char* to, int64_t count) noexcept nogil
cdef inline int64_t flood_released(KernelPort* port, char* frame, int64_t length, int64_t count):
    with nogil:
        return flood_port(port, frame, length, count)
cdef inline int64_t swallow_released(KernelPort* port, char* to, int64_t count):
    with nogil:
        return swallow_port(port, to, count)
cdef inline void cross_released(KernelPort* a, KernelPort* b, Crossing* crossing):
    with nogil:
        cross(a, b, crossing)

cdef class Clock:
    cdef public int64_t ns

cdef class PortHandle:
    cdef KernelPort port
    cdef readonly str kind
    cdef readonly bint closed
    cdef public str name
    cdef list memory        # what the pointers in `port` point to
    cdef object scratch, closing
    cdef object block       # what was put back
    cdef public object lost_before  # what `losses` last said
    cdef public object losses       # a function: what the kernel lost for this port
    cdef public object report       # a function: what a wrapper has to tell
    cdef public object front        # who talks with the other side, in a thread; None: nobody has to

cdef class Bridge:
    cdef Crossing crossing
    cdef readonly PortHandle a, b
    cdef list memory
    cdef object thread
