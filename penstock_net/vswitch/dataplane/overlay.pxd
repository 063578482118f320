from penstock_net.vswitch.dataplane.driver_state cimport *
from penstock_net.vswitch.dataplane.flowmap cimport copy_key, find_name
from penstock_net.vswitch.dataplane.flowtable cimport find_flow
from penstock_net.vswitch.dataplane.path_search cimport set_most
from penstock_net.vswitch.dataplane.receiver cimport drain_ns, gain, measure
from penstock_net.vswitch.dataplane.schedule cimport hasten
from penstock_net.vswitch.ports.segment cimport Cut, Joint, begin_cut, begin_join, finish_join, joined, next_segment
from penstock_net.vswitch.dataplane.session cimport CONTENT_AT, FIRST, FRAME, HELLO, LAST, MIDDLE, PAUSE, PROBE, Session, put_word, search_of, word_of
from penstock_net.vswitch.dataplane.session cimport session_halve_window, session_due, session_may_send, session_message
from penstock_net.vswitch.dataplane.session cimport session_seal, session_take, session_unsend, signed_from, start_session
from penstock_net.vswitch.dataplane.session_view cimport session_row
from penstock_net.vswitch.ports.base cimport A_FRAME, A_MESSAGE, ETHERNET_BYTES, path_of, port_flush, port_learn, port_receive, port_send
from penstock_net.vswitch.ports.base cimport received_too_long, set_sends, set_sure
from penstock_net.vswitch.world.calls.table cimport socket_drops

cdef enum:
    LEASE_NS = 1000000000   # a rate expires after
    CORRECT_NS = 20000000   # least time between two rates of a flow
    STARVING_NS = 1000000   # the same while the flow's backlog is nearly empty
    STARVING_PART = 4       # nearly empty: at most this part (a quarter) of th_goal
    BUFFERS_PART = 8        # of a port's free buffers, which a flow may occupy before it is paused: an eighth
    STOPPED_PART = 8        # of the time for which nothing of a flow was taken, that it is paused, if no rate is known: an eighth
    STOPPED_NS = 40000000   # of such a pause, at most
    HOLD_NS = 4000000       # a pause that is as long is renewed before it ends, and the flow is held
    RENEWED_PART = 5        # of its length, after which it is: a fifth, so that three in a row may be lost on the way
    REPEAT_NS = 2000000     # between two words that a flow may go on, while none of its frames comes
    EARLY_NS = 1000000      # least time between two pauses of a held flow of which a frame has come all the same
    HELD_AT_ONCE = 64       # flows that are held and looked at in a turn, and an eighth of the others
    HELD_EACH_NS = 1000000  # between two of these turns
    PAUSES_PART = 4         # of what the peer permits, that may be outstanding when a pause is renewed: a quarter
    STOPPED_BYTES = 1500    # or more if its frames are longer: may follow in as much time after it
    LOOK_NS = 10000000      # between two looks at the socket's losses
    RETRY_NS = 1000000      # after there was no room for a HELLO
    PIECES = 64             # datagrams of a frame that are joined, messages of a turn
    PAUSE_BYTES = 56        # of a pause frame: five words of a flow, ns, bytes per second
    ROOM = 65560            # of a datagram

cdef extern from *:         # of a new rate to the last one that was sent
    """
    #define LOWER_BELOW 0.55
    #define RAISE_ABOVE 1.9
    #define RAISE_ABOVE_LATER 1.2
    #define MOST_RATE 1e15
    """
    double LOWER_BELOW      # the new one is sent if the ratio is less than this
    double RAISE_ABOVE      # or more than this
    double RAISE_ABOVE_LATER    # or, after CORRECT_NS, more than this
    double MOST_RATE        # bytes per second that a pause frame says at most: fits a word

cdef inline double rate_of(uint64_t word) noexcept nogil: return <double>word
cdef inline Session* session_of(Overlay* overlay) noexcept nogil: return &overlay.session
cdef inline Cut* cut_of(Overlay* overlay) noexcept nogil: return &overlay.cut
cdef inline Joint* joint_of(Overlay* overlay) noexcept nogil: return &overlay.joint
cdef inline Overlay* new_overlay() noexcept:
    overlay = <Overlay*>calloc(1, sizeof(Overlay))
    overlay.incoming = <char*>calloc(1, ROOM + 64)
    overlay.outgoing = <char*>calloc(1, ROOM + 64)
    overlay.parts = <char*>calloc(1, ROOM + 64)
    return overlay
cdef inline void free_overlay(Overlay* overlay) noexcept:
    if overlay:
        free(overlay.incoming)
        free(overlay.outgoing)
        free(overlay.parts)
        free(overlay)
cdef inline void begin_session(Driver* driver, int64_t window, bytes secret, bytes seed):
    session = &driver.overlay.session
    for i in range(2):
        session.seed[i] = <uint64_t>int.from_bytes(seed[8 * i : 8 * i + 8], "little")
        session.secret[i] = <uint64_t>int.from_bytes(secret[8 * i : 8 * i + 8], "little")
    session.authentic = len(secret) == 16
    session.headers = driver.kernel.header > 0
    start_session(session, window)
    session.search.most = path_of(driver.kernel)

cdef void overlay_turn(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint send_message(Driver* driver, int64_t length) noexcept nogil
cdef void follow_path(Driver* driver, int64_t now) noexcept nogil
cdef int64_t longest_datagram(Driver* driver) noexcept nogil
cdef void look_at_socket(Driver* driver, int64_t now) noexcept nogil
cdef bint overlay_may_send(Overlay* overlay) noexcept nogil
cdef int64_t send_content(Driver* driver, int64_t kind, int64_t length, int64_t now) noexcept nogil
cdef int64_t overlay_send(Driver* driver, char* frame, int64_t length, int64_t now) noexcept nogil
cdef int64_t send_parts(Driver* driver, char* frame, int64_t length, int64_t room, int64_t now) noexcept nogil
cdef int64_t overlay_receive(Worker* worker, Driver* driver, char* to, int64_t room, int64_t now) noexcept nogil
cdef int64_t fetch(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef void take_part(Driver* driver, int64_t kind, char* datagram, int64_t size) noexcept nogil
cdef bint write_pause(Driver* driver, Key* key, int64_t ns, int64_t rate, int64_t now) noexcept nogil
cdef void take_pause(Worker* worker, Driver* driver, char* datagram, int64_t length, int64_t now) noexcept nogil
cdef int64_t taken_from(SwitchPort* port) noexcept nogil
cdef bint may_correct(TxFlow* tx_flow, double rate, int64_t queued, int64_t goal, int64_t now) noexcept nogil
cdef bint is_about_right(TxFlow* tx_flow, double rate, int64_t now) noexcept nogil
cdef void send_pause(Worker* worker, Driver* driver, int64_t number, int64_t length, int64_t now) noexcept nogil
cdef void hold_flow(Driver* driver, int64_t number, int64_t at) noexcept nogil
cdef void renew_pauses(Worker* worker, Driver* driver, int64_t now) noexcept nogil
cdef bint is_still_held(Worker* worker, Driver* driver, int64_t number, int64_t now) noexcept nogil
cdef dict overlay_row(Driver* driver)
