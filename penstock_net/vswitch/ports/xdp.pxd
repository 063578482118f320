from penstock_net.vswitch.ports.base cimport *
from libc.stdint cimport uint32_t
from penstock_net.vswitch.world.calls.table cimport send_to

cdef extern from "errno.h" nogil:
    enum: EBUSY
cdef extern from "linux/if_xdp.h" nogil:
    struct xdp_desc:
        uint64_t addr
        uint32_t len
        uint32_t options
    enum: XDP_RING_NEED_WAKEUP
cdef extern from * nogil:
    """
    /* Indices of rings that the kernel shares: 32 bits that wrap around; ours are kept in 64. */
    static inline int64_t index_ahead(uint32_t* theirs, int64_t ours) {
      return (uint32_t)(__atomic_load_n(theirs, __ATOMIC_ACQUIRE) - (uint32_t)ours);
    }
    static inline void publish(uint32_t* index, int64_t ours) { __atomic_store_n(index, (uint32_t)ours, __ATOMIC_RELEASE); }
    static inline uint32_t flags_now(uint32_t* flags) {
      __atomic_thread_fence(__ATOMIC_SEQ_CST);
      return __atomic_load_n(flags, __ATOMIC_RELAXED);
    }
    """
    int64_t index_ahead(uint32_t* theirs, int64_t ours)
    void publish(uint32_t* index, int64_t ours)
    uint32_t flags_now(uint32_t* flags)
cdef extern from * nogil:
    """
    #define NOTHING NULL
    """
    void* NOTHING

cdef enum:
    CHUNK_BYTES = 4096      # of the memory that is shared with the kernel, for one frame
    SHORT_FRAMES = 64       # passed over in one call, at most

cdef struct Ring:
    uint32_t* producer
    uint32_t* consumer
    uint32_t* flags
    char* entries
    int64_t mask
    int64_t mine            # our index
    int64_t seen            # the kernel's, when we last looked; of a ring that we take from

cdef struct Xdp:
    Ring fill, completion, receive, transmit
    char* memory
    int64_t* free           # chunks to send from: a stack of offsets
    int64_t free_count
    int64_t batch, unsent   # frames that the kernel has not been told of
    int64_t longest         # frame without a VLAN tag

cdef inline Xdp* xdp_of(KernelPort* port) noexcept nogil: return <Xdp*>port.own
cdef inline Ring* fill_of(Xdp* xdp) noexcept nogil: return &xdp.fill
cdef inline Ring* completion_of(Xdp* xdp) noexcept nogil: return &xdp.completion
cdef inline Ring* receive_of(Xdp* xdp) noexcept nogil: return &xdp.receive
cdef inline Ring* transmit_of(Xdp* xdp) noexcept nogil: return &xdp.transmit
cdef inline xdp_desc* next_frame(Ring* ring) noexcept nogil: return <xdp_desc*>ring.entries + (ring.mine & ring.mask)
cdef inline uint64_t* next_chunk(Ring* ring) noexcept nogil: return <uint64_t*>ring.entries + (ring.mine & ring.mask)
cdef inline void put_chunk(Ring* ring, int64_t chunk) noexcept nogil: next_chunk(ring)[0] = <uint64_t>chunk
cdef inline int64_t got_chunk(Ring* ring) noexcept nogil: return <int64_t>(next_chunk(ring)[0]) & ~(<int64_t>CHUNK_BYTES - 1)
cdef inline int64_t start_of(xdp_desc* frame) noexcept nogil: return <int64_t>frame.addr
cdef inline Xdp* new_xdp(PortHandle port, int64_t chunks) except NULL:
    xdp = <Xdp*>keep(port, bytearray(sizeof(Xdp)))
    xdp.free = <int64_t*>keep(port, bytearray(8 * chunks))
    return xdp
cdef inline void set_memory(Xdp* xdp, uint64_t address) noexcept: xdp.memory = <char*>address
cdef inline void set_ring(Ring* ring, where) except *:
    cdef uint64_t producer, consumer, flags, entries
    producer, consumer, flags, entries, size = where
    ring.producer, ring.consumer, ring.flags = <uint32_t*>producer, <uint32_t*>consumer, <uint32_t*>flags
    ring.entries, ring.mask = <char*>entries, size - 1

cdef int64_t there(Ring* ring) noexcept nogil
cdef int64_t xdp_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint xdp_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef bint xdp_flush(KernelPort* port) noexcept nogil
cdef void take_back(Xdp* xdp) noexcept nogil
cdef void connect(PortHandle handle, dict rings, uint64_t memory, int64_t chunks, int64_t longest, int64_t batch) except *
cdef void give_up(PortHandle handle) noexcept
