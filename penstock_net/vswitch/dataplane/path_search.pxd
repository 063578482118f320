"""The longest datagram that passes on the way to the peer, by probes (RFC 8899); path_search.py describes the search."""
from libc.stdint cimport int32_t, int64_t
from penstock_net.vswitch.memory.layout cimport ENDLESS

cdef enum:
    BASE = 1200             # bytes of a datagram that passes nearly everywhere
    LEAST = 512             # one that must pass
    CLOSE = 8               # the search ends when it knows the longest one so exactly
    TRIES = 3               # probes of a length before it is taken not to pass
    PROBE_NS = 50000000     # the first one's answer is waited for, a further one's twice as long as the one before
    AGAIN_NS = 5000000000   # between two attempts to find out whether longer ones pass by now
    CALM_NS = 100000000     # after an answer, in which losses are no reason to doubt

cdef struct PathSearch:     # lengths are those of datagrams, without the headers of IP and UDP
    int32_t on              # whether there is a peer that answers
    int32_t doubtful        # whether the peer has reported losses
    int32_t known           # whether the search has ended once
    int64_t most            # that the kernel lets pass; 0: not known, and nothing is searched
    int64_t sure            # that was answered; 0: nothing is searched
    int64_t bad             # longer than `most`, or not answered
    int64_t size            # that is being probed; 0: none now
    int64_t number, first   # of the last probe, and of the first one of this length
    int64_t tries
    int64_t due             # when the next probe is due, or the last one is given up
    int64_t again_at, answered_at
    int64_t probes, narrowed

cdef void end_search(PathSearch* p) noexcept nogil
cdef void begin_search(PathSearch* p, int64_t now) noexcept nogil
cdef void probe(PathSearch* p, int64_t size, int64_t now) noexcept nogil
cdef void set_most(PathSearch* p, int64_t most, int64_t now) noexcept nogil
cdef void doubt(PathSearch* p, int64_t now) noexcept nogil
cdef int64_t next_probe(PathSearch* p, int64_t now) noexcept nogil
cdef void give_up(PathSearch* p, int64_t now) noexcept nogil
cdef void aim(PathSearch* p, int64_t now) noexcept nogil
cdef void take_answer(PathSearch* p, int64_t number, int64_t size, int64_t now) noexcept nogil
cdef dict search_row(PathSearch* p)
