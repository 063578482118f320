from penstock_net.vswitch.dataplane.state cimport *

cdef enum:
    INBOUND = 1             # into the switch, as pcapng has it
    OUTBOUND = 2
    NO_REASON = -1
    COMMENT_BYTES = 32
    SHARED_BYTES = 4096
    MOST_REASONS = 16

cdef extern from "string.h" nogil:
    size_t strlen(const char* text)

cdef inline int64_t number_of(SwitchPort* port, TxQueue* txq) noexcept nogil: return txq - port.txqs
cdef inline char* comment_at(Mirror* mirror, int64_t reason) noexcept nogil: return mirror.comments[reason]
cdef inline uint64_t* taken_of(Mirror* mirror) noexcept nogil: return &mirror.taken
cdef inline char* words_of(Mirror* mirror) noexcept nogil: return <char*>mirror.words
cdef inline Mirror* new_mirror(): return <Mirror*>calloc(1, sizeof(Mirror))
cdef inline char* base_of(size_t address): return <char*>address
cdef inline uint64_t* shared_of(size_t address): return <uint64_t*>address
cdef inline char* text_of(bytes text): return text

cdef void mirror_frame(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, char* frame, int64_t length) noexcept nogil
cdef void mirror_drop(Worker* worker, SwitchPort* port, TxQueue* txq, Flow* flow, uint64_t word, int64_t reason) noexcept nogil
cdef void note(Mirror* mirror, int64_t number, int64_t direction, int64_t queue, char* header, char* frame, int64_t length, int64_t reason) noexcept nogil
cdef void write(Mirror* mirror, int64_t number, int64_t direction, int64_t queue, char* header, char* frame, int64_t length, int64_t reason) noexcept nogil
cdef void put(Mirror* mirror, char* source, int64_t length) noexcept nogil

cdef class Capture:
    cdef Mirror* mirror
    cdef readonly list names
    cdef readonly int fd
    cdef object map, memory
    cdef bint closed
