"""The layout of the memory that an application and the switch share; rings.py has the trust model."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from penstock_net.vswitch.world.calls.table cimport now_ns, sleep_on, wake_application, wake_switch, watch_with

cdef extern from "shared.h" nogil:
    uint64_t load64(uint64_t* p)
    void store64(uint64_t* p, uint64_t v)
    bint cas64(uint64_t* p, uint64_t expected, uint64_t v)
    uint32_t load32(uint32_t* p)
    void store32(uint32_t* p, uint32_t v)
    void full_fence()
    void relax()
    void bring_line(void* p)
    void* lines(size_t bytes)
    void* untouched(size_t bytes)
    void give_untouched(void* p, size_t bytes)
    void* sparse(size_t bytes)
    void give_sparse(void* p, size_t bytes)
    uint64_t cycles()
    void* memcpy(void* to, const void* source, size_t n)
    int64_t low(uint64_t word)
    uint64_t tagged(uint64_t head, int64_t number)
    uint64_t link_to(int64_t ring)
    bint is_link(uint64_t word)
    uint64_t descriptor(int64_t buffer, int64_t length)
    int64_t buffer_of(uint64_t word)
    int64_t length_of(uint64_t word)
    uint64_t bell_of(int64_t queue, int64_t count, int64_t weight, int64_t priority)
    int64_t queue_of(uint64_t bell)
    int64_t count_of(uint64_t bell)
    int64_t priority_of(uint64_t bell)
    int64_t weight_of(uint64_t bell)
    const uint64_t CLOSED
    uint64_t mixed(uint64_t hash, uint64_t word)
    uint64_t word_from(const char* p)
    int64_t short_from(const char* p)
    uint64_t half_from(const char* p)
    uint64_t mapped(const char* p)
    uint64_t ethernet(const char* p)
    const uint64_t NO_HIGH
    const int64_t ENDLESS

cdef enum:
    SLOTS = 64              # of a ring
    MOST_WORKERS = 4        # each has a ring of doorbells to every application
    HEADER_BYTES = 4096
    BROKEN = -2             # the other side wrote a number out of range
    EMPTY = -1

cdef struct View:           # private to one side: where everything in the region is; never read from the region
    char* base
    int64_t length
    int32_t rings, queues, bells, buffers, buffer_bytes
    int32_t protocol_errors # words that break the protocol, so far
    int64_t linked          # rings added to queues
    uint64_t* ring_stack    # free rings
    uint32_t* ring_next
    uint64_t* slots
    uint64_t* first[2]      # by queue: its first ring, plus one; 0: the queue is not open
    uint64_t* consumed[2]   # by queue: bytes that its consumer has taken out since the region was made
    uint64_t* total[2]      # the same over all queues
    uint64_t* bell[2]
    uint64_t* buffer_stack[2]
    uint32_t* buffer_next[2]
    char* buffer[2]
    uint64_t* sleeps[2]     # whether this side sleeps

cdef struct End:            # private: where the producer or the consumer of a queue is
    int32_t ring, at

cdef inline uint64_t* word_at(uint64_t* words, int64_t i) noexcept nogil: return &words[i]
cdef inline uint32_t* half_at(uint32_t* words, int64_t i) noexcept nogil: return &words[i]
cdef inline uint64_t* words(char* base, int64_t offset) noexcept nogil: return <uint64_t*>(base + offset)
cdef inline uint32_t* halves(char* base, int64_t offset) noexcept nogil: return <uint32_t*>(base + offset)
cdef inline char* bytes_at(char* base, int64_t offset) noexcept nogil: return base + offset
