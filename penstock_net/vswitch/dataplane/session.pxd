"""The protocol between two switches, without sockets and without a clock; session.py describes it."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from penstock_net.vswitch.dataplane.path_search cimport PathSearch, begin_search, doubt, end_search, next_probe
from penstock_net.vswitch.dataplane.path_search cimport take_answer
from penstock_net.vswitch.memory.layout cimport ENDLESS, memcpy, word_from

cdef extern from "string.h" nogil:
    void* memset(void* p, int value, size_t n)
cdef extern from "siphash.h" nogil:
    uint64_t siphash(const uint64_t* key, const uint64_t* words, int count)
    uint64_t datagram_tag(const uint64_t* key, const char* datagram, int64_t length)
    uint64_t datagram_check(uint64_t seed, const char* datagram, int64_t length)
    const int TAG_AT, CONTENT_AT

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
    PROBE = 9               # as long as the sender would like datagrams to be; without a number, its loss is none
    PROBED = 10             # how long one was
    KINDS = 11

cdef enum:                  # states
    CONNECTING              # no session yet, or the peer has not yet used it
    CONNECTED
    DEAD                    # the peer has been silent for DEAD_NS

cdef enum:
    MAGIC = 0x5350
    VERSION = 2             # 1 had no sessions
    WINDOW = 16384          # numbers that are remembered; both ends keep fewer in flight
    REORDER = 256           # a number is given up when so many higher ones have arrived
    ACK_EVERY = 512         # numbers received after which they are acknowledged at once
    HELLO_NS = 100000000    # between two HELLO of an end that has no session
    ANSWER_NS = 1000000     # between two answers to HELLO
    UNKNOWN_NS = 10000000   # between two answers to datagrams of another session
    LIVE_NS = 300000000     # a session in which the peer has sent so recently is not given up for another
    UNCONFIRMED_NS = 500000000      # a session that the peer has not used by then is given up
    DEAD_NS = 1000000000
    KEEP_NS = 100000000     # silence after which a STATE is sent
    ACK_NS = 2000000        # a datagram with content is acknowledged after
    ASK_NS = 2000000        # an unacknowledged one is asked after, and then after twice as long, up to KEEP_NS
    GIVE_UP_NS = 10000000   # a missing number is given up after this time or twice this time
    REPORT_NS = 10000000    # a change of the losses is reported after
    REPEAT_NS = 1000000000  # and again, as reports may be lost, after
    COUNT_BYTES = 8         # of a report: the datagrams of this session that are missing here
    ANSWERS_PROBES = 1      # in HELLO: what this end can do
    LEAST_WINDOW = 262144
    GROW_NS = 1000000000    # between two steps of a window that was halved

cdef struct Session:
    uint64_t secret[2]
    uint64_t hello_key[2]
    uint64_t seed[2]        # of random numbers
    uint64_t drawn
    int32_t authentic       # whether there is a secret
    int32_t headers         # whether frames have a virtio_net_hdr
    uint64_t session_offer  # our id in the next session
    uint64_t own, peer      # ids of this session; 0: there is none
    uint64_t out_word, in_word      # name the session in datagrams, by direction
    uint64_t out_key[2]
    uint64_t in_key[2]
    int32_t peer_confirmed  # whether the peer has used this session
    int32_t dead
    int64_t began_at, received_at, sent_at
    int64_t hello_at        # when HELLO is due
    uint64_t echo           # and what it answers
    uint64_t confirm_id     # our id of the session that it confirms, instead of offering one; 0: none
    int64_t answered_at, unknown_at
    # what we send
    int64_t number          # of the last datagram
    int64_t last_content    # of the last one with content
    int64_t peer_cum_ack    # the peer's cumulative acknowledgement: up to here it has received or given up all
    int64_t sent_cost, acked_cost
    int64_t granted         # cost that the peer permits in flight
    int64_t ask_at, ask_gap
    # what we receive
    int64_t highest
    int64_t cum_ack         # our cumulative acknowledgement: up to here all were received or given up
    int64_t last_acked      # the last one that was sent
    int64_t unacked_cost    # of what was received since
    int64_t gap_end, gap_deadline   # numbers up to gap_end that are missing then are given up
    int64_t ack_due         # when a STATE is due
    int64_t window, full_window     # cost that the peer may have in flight: now, and at most
    int64_t grow_at
    # the path
    PathSearch search
    int32_t peer_answers    # whether the peer of the next session, or of this one, answers probes
    int64_t probe_number, probe_bytes, answer_at    # the probe of the peer that is to be answered
    # losses
    int64_t lost_before     # of `lost`, those of earlier sessions
    int64_t told, report_at # what the peer was told of those in this one; when it is told again
    int64_t peer_lost, peer_lost_before     # what the peer has told of this session; and of earlier ones
    # counters
    int64_t sessions, hellos_out, hellos_in, states_out, states_in, asked, lost, late, duplicates, old, stale
    int64_t truncated, forged, other_version, other_headers, ignored, deaths, window_halvings
    uint64_t words[4]
    uint64_t seen[256]      # bits of the numbers that arrived
    int64_t costs[16384]    # `sent_cost` when a number was sent

cdef inline uint64_t* words_of(Session* s) noexcept nogil: return s.words
cdef inline void put_word(char* to, uint64_t word) noexcept nogil: memcpy(to, &word, 8)
cdef inline int64_t signed_from(const char* p) noexcept nogil: return <int64_t>word_from(p)
cdef inline uint64_t word_of(int64_t number) noexcept nogil: return <uint64_t>number
cdef inline int64_t kind_of(const char* datagram) noexcept nogil: return <int64_t>(word_from(datagram) >> 24 & 0x7F)
cdef inline int64_t number_of(uint64_t word) noexcept nogil: return <int64_t>word
cdef inline bint is_seen(Session* s, int64_t n) noexcept nogil: return s.seen[(n & (WINDOW - 1)) >> 6] >> (n & 63) & 1
cdef inline void set_seen(Session* s, int64_t n) noexcept nogil: s.seen[(n & (WINDOW - 1)) >> 6] |= <uint64_t>1 << (n & 63)
cdef inline void clear_seen(Session* s, int64_t n) noexcept nogil: s.seen[(n & (WINDOW - 1)) >> 6] &= ~(<uint64_t>1 << (n & 63))
cdef inline void clear_all_seen(Session* s) noexcept nogil: memset(s.seen, 0, sizeof(s.seen))
cdef inline uint64_t* secret_of(Session* s) noexcept nogil: return s.secret
cdef inline uint64_t* hello_key_of(Session* s) noexcept nogil: return s.hello_key
cdef inline uint64_t* seed_of(Session* s) noexcept nogil: return s.seed
cdef inline uint64_t* out_key_of(Session* s) noexcept nogil: return s.out_key
cdef inline uint64_t* in_key_of(Session* s) noexcept nogil: return s.in_key
# Bytes of a socket's memory that a datagram takes at most.
cdef inline int64_t cost_of(int64_t length) noexcept nogil: return 2 * length + 2304
cdef inline PathSearch* search_of(Session* s) noexcept nogil: return &s.search
cdef inline int64_t in_flight(Session* s) noexcept nogil: return s.sent_cost - s.acked_cost if s.last_content > s.peer_cum_ack else 0

cdef uint64_t draw(Session* s) noexcept nogil
cdef uint64_t derived(Session* s, uint64_t label, uint64_t first, uint64_t second) noexcept nogil
cdef uint64_t tag_of(Session* s, uint64_t* key, char* datagram, int64_t length) noexcept nogil
cdef void start_session(Session* s, int64_t window) noexcept nogil
cdef void new_offer(Session* s) noexcept nogil
cdef void agree(Session* s, uint64_t peer, int64_t now) noexcept nogil
cdef void begin_counts(Session* s) noexcept nogil
cdef void answer(Session* s, uint64_t peer, uint64_t confirm_id, int64_t now) noexcept nogil
cdef void leave_session(Session* s, int64_t now) noexcept nogil
cdef bint is_live(Session* s, int64_t now) noexcept nogil
cdef int64_t session_state(Session* s, int64_t now) noexcept nogil
cdef void take_hello(Session* s, uint64_t peer, uint64_t echo, bint wanted, bint answers, int64_t now) noexcept nogil
cdef bint take_number(Session* s, int64_t number, int64_t now) noexcept nogil
cdef void advance_cum_ack(Session* s, int64_t upto) noexcept nogil
cdef void take_ack(Session* s, int64_t number, int64_t now) noexcept nogil
cdef bint has_known_header(Session* s, char* datagram, int64_t length) noexcept nogil
cdef bint is_authentic(Session* s, int64_t kind, char* datagram, int64_t length) noexcept nogil
cdef int64_t receive_hello(Session* s, char* datagram, int64_t length, int64_t now) noexcept nogil
cdef void count_stale(Session* s, int64_t now) noexcept nogil
cdef void note_peer(Session* s, int64_t now) noexcept nogil
cdef void schedule_ack(Session* s, int64_t kind, int64_t now) noexcept nogil
cdef int64_t session_take(Session* s, char* datagram, int64_t length, int64_t now) noexcept nogil
cdef void take_probe(Session* s, int64_t kind, char* datagram, int64_t length, int64_t now) noexcept nogil
cdef void take_report(Session* s, char* datagram, int64_t length, int64_t now) noexcept nogil
cdef void note_losses(Session* s, int64_t now) noexcept nogil
cdef int64_t write_report(Session* s, char* to, int64_t now) noexcept nogil
cdef int64_t write_about_path(Session* s, char* to, int64_t now) noexcept nogil
cdef int64_t write_probe(Session* s, char* to, int64_t kind, int64_t number, int64_t size, int64_t length) noexcept nogil
cdef bint session_may_send(Session* s, int64_t length) noexcept nogil
cdef void session_seal(Session* s, char* datagram, int64_t kind, int64_t length, int64_t now) noexcept nogil
cdef void session_unsend(Session* s, int64_t length, int64_t now) noexcept nogil
cdef int64_t session_message(Session* s, char* to, int64_t now) noexcept nogil
cdef void check_peer(Session* s, int64_t now) noexcept nogil
cdef void give_up_gaps(Session* s, int64_t now) noexcept nogil
cdef int64_t write_hello(Session* s, char* to, int64_t now) noexcept nogil
cdef int64_t session_due(Session* s) noexcept nogil
cdef void session_halve_window(Session* s, int64_t now) noexcept nogil
