"""The protocol between two switches, without sockets and without a clock; session.py describes it."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from penstock.vswitch.memory.layout cimport ENDLESS, memcpy, word_from

cdef extern from "string.h" nogil:
    void* memset(void* p, int value, size_t n)
cdef extern from "siphash.h" nogil:
    uint64_t siphash(const uint64_t* key, const uint64_t* words, int count)
    uint64_t datagram_tag(const uint64_t* key, const char* datagram, int64_t length)
    uint64_t datagram_check(uint64_t seed, const char* datagram, int64_t length)
    const int TAG_AT, CONTENT_AT
cdef extern from "Python.h":
    object PyBytes_FromStringAndSize(const char* text, Py_ssize_t size)
    char* PyBytes_AS_STRING(object text)
    char* PyByteArray_AS_STRING(object block)

cdef enum:                  # kinds of datagrams; those from PAUSE on have content, and are for the caller
    REFUSED = -1
    HANDLED = 0
    HELLO = 1               # an id for a session, and the peer's id that it is an answer to
    STATE = 2               # the counts, which are in every datagram of a session
    ASK = 3                 # the same, to be answered
    PAUSE = 4               # of a flow
    FRAME = 5               # a whole frame; or its parts
    FIRST = 6
    MIDDLE = 7
    LAST = 8
    KINDS = 9

cdef enum:                  # states
    CONNECTING              # no session yet, or the peer has not yet used it
    CONNECTED
    DEAD                    # the peer has been silent for DEAD_NS

cdef enum:
    MAGIC = 0x5350
    VERSION = 2             # 1 had no sessions
    WINDOW = 16384          # numbers that are remembered; both ends keep fewer in flight
    REORDER = 256           # a number is given up when so many higher ones have arrived
    UNSAID = 512            # numbers received after which the peer is told
    GREET_NS = 100000000    # between two HELLO of an end that has no session
    ANSWER_NS = 1000000     # between two answers to HELLO
    UNKNOWN_NS = 10000000   # between two answers to datagrams of another session
    LIVE_NS = 300000000     # a session whose peer was heard so recently is not given up for another
    HALF_NS = 500000000     # a session that the peer has not used by then is given up
    DEAD_NS = 1000000000
    KEEP_NS = 100000000     # silence after which a STATE is sent
    ACK_NS = 2000000        # a datagram with content is acknowledged after
    ASK_NS = 2000000        # an unacknowledged one is asked after, and then after twice as long, up to KEEP_NS
    GIVE_UP_NS = 10000000   # a missing number is given up after this time or twice this time
    LEAST_WINDOW = 262144
    GROW_NS = 1000000000    # between two steps of a window that was halved

cdef struct Session:
    uint64_t secret[2]
    uint64_t greeting[2]    # the key of HELLO
    uint64_t seed[2]        # of random numbers
    uint64_t drawn
    int32_t authentic       # whether there is a secret
    int32_t headers         # whether frames have a virtio_net_hdr
    uint64_t offer          # our id in the next session
    uint64_t own, peer      # ids of this session; 0: there is none
    uint64_t out_word, in_word      # name the session in datagrams, by direction
    uint64_t out_key[2]
    uint64_t in_key[2]
    int32_t heard           # whether the peer has used this session
    int32_t dead
    int64_t began_at, heard_at, spoke_at
    int64_t hello_at        # when HELLO is due
    uint64_t echo           # and what it answers
    uint64_t told           # the session that it confirms, instead of offering one; 0: none
    int64_t answered_at, unknown_at
    # what we send
    int64_t number          # of the last datagram
    int64_t last_content    # of the last one with content
    int64_t settled_out     # up to here the peer has received or given up all
    int64_t spent, freed    # cost of what was sent, and of what is settled
    int64_t granted         # what the peer permits in flight
    int64_t ask_at, ask_gap
    # what we receive
    int64_t highest
    int64_t settled         # up to here all were received or given up
    int64_t said            # what the peer was told of that
    int64_t fresh           # cost of what was received since
    int64_t mark, mark_at   # numbers that are given up then
    int64_t owes_at         # when a STATE is due
    int64_t window, full_window     # what the peer may have in flight: now, and at most
    int64_t grow_at
    # counters
    int64_t sessions, hellos_out, hellos_in, states_out, states_in, asked, lost, late, duplicates, old, stale
    int64_t truncated, forged, other_version, other_headers, ignored, deaths, cuts
    uint64_t words[4]
    uint64_t seen[256]      # bits of the numbers that arrived
    int64_t costs[16384]    # `spent` when a number was sent

cdef inline uint64_t* words_of(Session* s) noexcept nogil: return s.words
cdef inline void put_word(char* to, uint64_t word) noexcept nogil: memcpy(to, &word, 8)
cdef inline int64_t signed_from(const char* p) noexcept nogil: return <int64_t>word_from(p)
cdef inline uint64_t word_of(int64_t number) noexcept nogil: return <uint64_t>number
cdef inline int64_t number_of(uint64_t word) noexcept nogil: return <int64_t>word
cdef inline bint is_seen(Session* s, int64_t n) noexcept nogil: return s.seen[(n & (WINDOW - 1)) >> 6] >> (n & 63) & 1
cdef inline void set_seen(Session* s, int64_t n) noexcept nogil: s.seen[(n & (WINDOW - 1)) >> 6] |= <uint64_t>1 << (n & 63)
cdef inline void clear_seen(Session* s, int64_t n) noexcept nogil: s.seen[(n & (WINDOW - 1)) >> 6] &= ~(<uint64_t>1 << (n & 63))
cdef inline void clear_all_seen(Session* s) noexcept nogil: memset(s.seen, 0, sizeof(s.seen))
cdef inline uint64_t* secret_of(Session* s) noexcept nogil: return s.secret
cdef inline uint64_t* greeting_of(Session* s) noexcept nogil: return s.greeting
cdef inline uint64_t* seed_of(Session* s) noexcept nogil: return s.seed
cdef inline uint64_t* out_key_of(Session* s) noexcept nogil: return s.out_key
cdef inline uint64_t* in_key_of(Session* s) noexcept nogil: return s.in_key
# Bytes of a socket's memory that a datagram takes at most.
cdef inline int64_t cost_of(int64_t length) noexcept nogil: return 2 * length + 2304
cdef inline int64_t in_flight(Session* s) noexcept nogil: return s.spent - s.freed if s.last_content > s.settled_out else 0

cdef uint64_t draw(Session* s) noexcept nogil
cdef uint64_t derived(Session* s, uint64_t label, uint64_t first, uint64_t second) noexcept nogil
cdef uint64_t tag_of(Session* s, uint64_t* key, char* datagram, int64_t length) noexcept nogil
cdef void start_session(Session* s, int64_t window) noexcept nogil
cdef void new_offer(Session* s) noexcept nogil
cdef void agree(Session* s, uint64_t peer, int64_t now) noexcept nogil
cdef void begin_counts(Session* s) noexcept nogil
cdef void answer(Session* s, uint64_t peer, uint64_t told, int64_t now) noexcept nogil
cdef void leave_session(Session* s, int64_t now) noexcept nogil
cdef bint is_live(Session* s, int64_t now) noexcept nogil
cdef int64_t session_state(Session* s, int64_t now) noexcept nogil
cdef void take_hello(Session* s, uint64_t peer, uint64_t echo, bint wanted, int64_t now) noexcept nogil
cdef bint take_number(Session* s, int64_t number, int64_t now) noexcept nogil
cdef void settle(Session* s, int64_t upto) noexcept nogil
cdef void take_settled(Session* s, int64_t settled, int64_t now) noexcept nogil
cdef int64_t session_take(Session* s, char* datagram, int64_t length, int64_t now) noexcept nogil
cdef bint session_may_send(Session* s, int64_t length) noexcept nogil
cdef void session_seal(Session* s, char* datagram, int64_t kind, int64_t length, int64_t now) noexcept nogil
cdef void session_unsend(Session* s, int64_t length, int64_t now) noexcept nogil
cdef int64_t session_message(Session* s, char* to, int64_t now) noexcept nogil
cdef int64_t write_hello(Session* s, char* to, int64_t now) noexcept nogil
cdef int64_t session_due(Session* s) noexcept nogil
cdef void session_cut(Session* s, int64_t now) noexcept nogil

cdef dict session_row(Session* s, int64_t now)

cdef class Endpoint:
    cdef Session session
    cdef object scratch
