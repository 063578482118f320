"""The stations behind ports that learn Ethernet addresses; stations.py describes them."""
from libc.stdint cimport int32_t, int64_t, uint64_t
from penstock_net.vswitch.memory.layout cimport lines, mixed

cdef extern from "stdlib.h":
    void free(void* p)

cdef enum:
    MOST_STATIONS = 65536   # of all ports together
    STATION_SLOTS = 131072  # a power of two

cdef enum:                  # what an address was that a frame came from
    STATION_NEW
    STATION_MOVED           # until then it was behind another port
    STATION_BEYOND          # its port has as many as it may have: it is not learned

cdef struct Station:
    uint64_t word           # VLAN << 48 | Ethernet address
    int64_t seen_at         # ns: when the last frame came from it
    int32_t port            # -1: there is none of this number
    int32_t older, newer    # of the same port, numbers plus one; `older` of a free number: the next free one

cdef struct StationList:    # of a port
    int64_t idle_ns         # after which a station is forgotten
    int32_t most, count     # `most` is 0 at a port that does not learn
    int32_t oldest, newest  # numbers plus one

cdef struct Stations:
    uint64_t seed
    int32_t learning        # ports that learn
    int32_t promised        # stations that these may have
    int32_t top             # numbers that were used so far
    int32_t free_number     # the first of those that are free, plus one
    StationList lists[512]  # by port
    int32_t index[131072]   # open addressing: number of a station plus one
    Station stations[65536]

cdef inline Stations* new_stations() noexcept: return <Stations*>lines(sizeof(Stations))
cdef inline Station* station_at(Stations* stations, int64_t i) noexcept nogil: return &stations.stations[i]
cdef inline StationList* list_of(Stations* stations, int64_t port) noexcept nogil: return &stations.lists[port]
cdef inline int64_t first_slot(Stations* stations, uint64_t word) noexcept nogil: return mixed(stations.seed, word) & (STATION_SLOTS - 1)
cdef inline uint64_t station_word(uint64_t vlan, uint64_t mac) noexcept nogil: return vlan << 48 | mac
cdef inline uint64_t mac_of_word(uint64_t word) noexcept nogil: return word << 16 >> 16

cdef int64_t slot_for(Stations* stations, uint64_t word) noexcept nogil
cdef bint is_forgotten(Stations* stations, Station* station, int64_t now) noexcept nogil
cdef int64_t port_behind(Stations* stations, uint64_t word, int64_t now) noexcept nogil
cdef bint refresh(Stations* stations, int64_t port, uint64_t word, int64_t now) noexcept nogil
cdef int64_t see(Stations* stations, int64_t port, uint64_t word, int64_t now) noexcept nogil
cdef bint has_room(Stations* stations, int64_t port, int64_t now) noexcept nogil
cdef void join_list(Stations* stations, int64_t number, int64_t port) noexcept nogil
cdef void leave_list(Stations* stations, int64_t number) noexcept nogil
cdef void forget(Stations* stations, int64_t number) noexcept nogil
cdef int64_t forget_idle(Stations* stations, int64_t port, int64_t now, int64_t most) noexcept nogil
cdef void forget_all(Stations* stations, int64_t port) noexcept nogil
cdef void forget_mac(Stations* stations, uint64_t mac) noexcept nogil
