from penstock.vswitch.dataplane.driver_state cimport *
from penstock.vswitch.dataplane.flowmap cimport copy_key, find_name
from penstock.vswitch.dataplane.flowtable cimport find_flow
from penstock.vswitch.dataplane.receiver cimport measure, LEAST_NS, MOST_NS, UNKNOWN_NS
from penstock.vswitch.ports.base cimport port_flush, port_send

cdef extern from "siphash.h" nogil:
    uint64_t siphash(const uint64_t* key, const uint64_t* words, int count)
    const uint64_t CONTROL_MAGIC

cdef enum:
    PAUSE = 1               # a flow: how long, and at what rate then
    GRANT = 2               # bytes received, and bytes that may be in flight
    SYNC = 3                # what has been sent: what has not arrived by now is lost
    LEASE_NS = 1000000000   # a rate expires after
    CORRECT_NS = 20000000   # between two rates; and while the receiver's queue is nearly empty
    STARVING_NS = 1000000
    GRANT_EVERY = 131072    # bytes of cost
    LEAST_LIMIT = 262144
    FIRST_LIMIT = 4194304
    ASK_NS = 2000000
    GREET_NS = 100000000

cdef inline uint64_t* words_of(Overlay* overlay) noexcept nogil: return overlay.words
cdef inline uint64_t* secret_of(Overlay* overlay) noexcept nogil: return overlay.secret
cdef inline double rate_of(uint64_t word) noexcept nogil: return <double>word
cdef inline char* frame_of(Overlay* overlay) noexcept nogil: return overlay.frame
cdef inline uint64_t magic(int64_t kind) noexcept nogil: return CONTROL_MAGIC | <uint64_t>kind

cdef int64_t cost_of(int64_t length) noexcept nogil
cdef bint may_send(Overlay* overlay) noexcept nogil
cdef void note_sent(Overlay* overlay, int64_t length, int64_t now) noexcept nogil
cdef void note_received(Driver* driver, int64_t length) noexcept nogil
cdef void grant(Driver* driver) noexcept nogil
cdef void overlay_turn(Driver* driver, int64_t now) noexcept nogil
cdef bint send_control(Driver* driver, int64_t kind, Key* key, int64_t a, int64_t b) noexcept nogil
cdef void receive_control(Worker* worker, Driver* driver, char* frame, int64_t size, int64_t now) noexcept nogil
cdef void take_pause(Worker* worker, Driver* driver, uint64_t* words, int64_t now) noexcept nogil
cdef int64_t taken_from(SwitchPort* port) noexcept nogil
cdef void send_pause(Worker* worker, Driver* driver, int64_t number, int64_t length, int64_t now) noexcept nogil
cdef uint64_t tag_of(uint64_t* secret, uint64_t* words) noexcept nogil
