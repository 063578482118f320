"""How much room the UDP sockets behind a device have: the table that an edge shares with the worker that drives the device."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from penstock_net.vswitch.memory.layout cimport ENDLESS, full_fence, give_sparse, load64, mixed, sparse, store64, wake_switch
from penstock_net.vswitch.dataplane.socket_drops cimport DropTable, end_list, free_drops, make_drops, note_drops, note_drops_of_one
from penstock_net.vswitch.world.calls.table cimport receive_from, send_to

cdef extern from "stdlib.h" nogil:
    void* calloc(size_t n, size_t size)
    void free(void* p)
cdef extern from "string.h" nogil:
    void* memcpy(void* to, const void* source, size_t n)
    void* memset(void* p, int value, size_t n)
cdef extern from "errno.h" nogil:
    int errno
    enum: EPROTO
cdef extern from "sys/socket.h" nogil:
    enum: AF_INET, AF_INET6

cdef enum:                  # of the table: a column of 64-bit words by UDP port each, and some words
    UDP_PORTS = 65536
    SPENT = 0               # socket memory that the frames sent there have cost so far; written by the worker
    ALLOWED = 65536         # what they may cost; less than zero: one frame, if they cost -1 minus this
    REPORT_AT = 131072      # the worker reports a port whose costs would exceed this, and sets it to ENDLESS
    RAISED = 196608         # whether the alarm has been raised and nobody has answered
    REPORTED                # ports reported so far
    REFUSED                 # frames that had to wait for a full socket, and their repetitions
    PRESSED                 # flows that began to hold much of the region of the device
    BUSY_SINCE              # ns: since when the device was never seen empty; 0: the last read found it so
    LOOKED                  # looks so far; written when what they allow is
    HELD                    # whether frames wait for room in a socket; written by the worker
    WAKES                   # whether a look that finds room for such frames wakes the worker; written by the edge
    FURTHER_READ            # datagrams that were read in frames of several, beyond one of each; written by the worker
    FURTHER_BYTES           # and their headers
    REPORTS = 196672        # the last ports reported
    PEERS = 197120          # the last peer of a UDP port: half of a hash, and the second when it was seen; written by the worker
    SEVERAL = 262656        # the second when it was last seen to have several, or to keep datagrams unread; 0: never
    TABLE_WORDS = 328192

cdef enum:
    REPORTS_KEPT = 256
    PROVISIONAL = 65536     # what a port that was not looked at may cost until it is
    MOST_COST = 140000      # of a frame
    SECOND_BITS = 30        # ns in one of these seconds, as a power of two
    SEVERAL_SECONDS = 10    # a UDP port has several peers if frames of two of them came within such a time
    RECHECK_BYTES = 131072  # cost after which a port without a socket is looked at again
    MOVED = 1               # what a look found: frames were sent since the one before
    READ_FAST = 2           # a socket that is read fast: of so many parts of what it holds more than one since the look before
    FULL_SOCKETS = 2        # sockets of which half is taken
    WAITING = 4             # frames waited for room since the look before
    PROGRESS = 8            # a socket of which half was taken has been read
    ROOMIER = 16            # a port has more room, for which a frame may have waited
    ANSWER_BYTES = 131072
    REQUEST_BYTES = 72
    ID_BYTES = 48           # of a socket: ports, addresses, interface and cookie
    ASKED_MOST = 16         # ports whose sockets are asked for one by one
    ASKED_TIMES = 15        # looks in a row that ask so; the next one lists all sockets, as a port may have got another one
    NEW = -1
    GROUPS = 4              # addresses of the sockets of a port that are told apart

cdef struct PortRoom:
    int64_t base            # `spent` before the last look
    int64_t free, size      # bytes that its sockets have left, see choose_room()
    int64_t free_before     # free at the look before
    int64_t base_before     # `base` of the look before
    int64_t seen            # the number of the last look that found a socket
    int32_t listed, full
    int32_t due             # whether it was reported since the last look
    int32_t sockets         # that frames of the switch may reach, in the last look
    int32_t family          # of the first of them
    char id[48]             # its own
    int32_t groups          # of sockets with the same address, in this look; the last place is that of all further addresses
    uint64_t group[4]       # their addresses
    int64_t group_free[4]   # bytes of the one with most room
    int64_t group_size[4]
    int64_t connected_free, connected_size  # the same of connected sockets; -1: there are none

cdef struct Rooms:
    int64_t* table
    int fd                  # a NETLINK_SOCK_DIAG socket
    int waker               # an eventfd that wakes the worker; -1: there is none
    uint32_t serial
    int64_t look            # the number of the last one that listed all sockets
    int32_t asked           # looks since then that asked for some only
    int32_t is_partial      # whether the present one does
    int32_t again, count, failed
    int32_t* ports          # those that have a socket, or were reported
    PortRoom* rooms         # by port
    int64_t reports_seen, refused   # reports and refusals, at the last look
    int32_t full            # ports of which half of a socket is taken
    int32_t episodes        # how often a port became one of these
    int64_t lasts           # what the first of them still holds lasts so many times as long as it was read for; ENDLESS: none was
    DropTable drops
    int64_t messages        # of the kernel's, read
    char request[72]
    char answer[131072]

cdef inline int64_t* word_in(int64_t* table, int64_t i) noexcept nogil: return &table[i]
cdef inline int64_t load_in(int64_t* table, int64_t i) noexcept nogil: return <int64_t>load64(<uint64_t*>&table[i])
cdef inline void store_in(int64_t* table, int64_t i, int64_t value) noexcept nogil: store64(<uint64_t*>&table[i], <uint64_t>value)
cdef inline int64_t* table_at(size_t address) noexcept: return <int64_t*>address
cdef inline DropTable* drops_of(Rooms* rooms) noexcept nogil: return &rooms.drops
cdef inline PortRoom* room_of(Rooms* rooms, int64_t port) noexcept nogil: return &rooms.rooms[port]
cdef inline char* at(char* base, int64_t i) noexcept nogil: return base + i
cdef inline int64_t word32(const char* p) noexcept nogil:
    cdef uint32_t w
    memcpy(&w, p, 4)
    return w
cdef inline int32_t signed32(const char* p) noexcept nogil:
    cdef int32_t w
    memcpy(&w, p, 4)
    return w
cdef inline uint64_t word64(const char* p) noexcept nogil:
    cdef uint64_t w
    memcpy(&w, p, 8)
    return w
cdef inline int64_t word16(const char* p) noexcept nogil: return (<unsigned char*>p)[0] | (<unsigned char*>p)[1] << 8
cdef inline int64_t port_from(const char* p) noexcept nogil: return (<unsigned char*>p)[0] << 8 | (<unsigned char*>p)[1]
cdef inline int64_t swapped(uint64_t port) noexcept nogil: return (port & 0xFF) << 8 | port >> 8
cdef inline int64_t second_of(int64_t now) noexcept nogil: return (now >> SECOND_BITS) + 1
cdef inline int64_t second_in(int64_t word) noexcept nogil: return <uint32_t>word
cdef inline bint same_peer(int64_t a, int64_t b) noexcept nogil: return <uint64_t>a >> 32 == <uint64_t>b >> 32
cdef inline int64_t peer_word(uint64_t high, uint64_t low, uint64_t port, int64_t second) noexcept nogil:
    return <int64_t>(mixed(mixed(mixed(0, high), low), port) & <uint64_t>0xFFFFFFFF00000000 | <uint64_t>second)
cdef inline void put32(char* p, uint32_t value) noexcept nogil: memcpy(p, &value, 4)
cdef inline void put16(char* p, int64_t value) noexcept nogil:
    p[0] = <char>value
    p[1] = <char>(value >> 8)
cdef inline void put8(char* p, int64_t value) noexcept nogil: p[0] = <char>value
cdef inline Rooms* new_rooms(): return <Rooms*>calloc(1, sizeof(Rooms))
# 15 MB, of which only the ports in use are ever touched; calloc() would clear all of it where it has the memory of an earlier one.
cdef inline PortRoom* new_port_rooms(): return <PortRoom*>sparse(UDP_PORTS * sizeof(PortRoom))
cdef inline void give_port_rooms(PortRoom* rooms): give_sparse(rooms, UDP_PORTS * sizeof(PortRoom))
cdef inline int32_t* new_ports(): return <int32_t*>calloc(UDP_PORTS, sizeof(int32_t))

cdef void raise_alarm(int64_t* table, int alarm) noexcept nogil
cdef void report_port(int64_t* table, int alarm, int64_t port) noexcept nogil
cdef void report_pressed(int64_t* table, int alarm) noexcept nogil
cdef bint may_cost(int64_t* table, int alarm, int64_t port, int64_t held, int64_t cost) noexcept nogil
cdef void note_peer(int64_t* table, int64_t port, uint64_t high, uint64_t low, uint64_t peer_port, int64_t now) noexcept nogil
cdef bint has_several(int64_t* table, int64_t port, int64_t now) noexcept nogil
cdef void add_cost(int64_t* table, int64_t port, int64_t cost) noexcept nogil
cdef int64_t look_at_sockets(Rooms* rooms) noexcept nogil
cdef void list_port(Rooms* rooms, int64_t port) noexcept nogil
cdef void read_reports(Rooms* rooms) noexcept nogil
cdef bint are_known(Rooms* rooms) noexcept nogil
cdef bint list_sockets(Rooms* rooms) noexcept nogil
cdef bint ask_for_each(Rooms* rooms) noexcept nogil
cdef void begin_request(Rooms* rooms, int64_t family, int64_t flags) noexcept nogil
cdef bint ask(Rooms* rooms, int64_t family) noexcept nogil
cdef int64_t read_answer(Rooms* rooms, int64_t length) noexcept nogil
cdef void note_socket(Rooms* rooms, char* message, int64_t length) noexcept nogil
cdef uint64_t local_address(char* message) noexcept nogil
cdef void note_room(PortRoom* room, uint64_t address, int64_t free, int64_t size) noexcept nogil
cdef bint choose_room(PortRoom* room) noexcept nogil
cdef int64_t grant(Rooms* rooms) noexcept nogil
cdef int64_t allow(Rooms* rooms, int64_t port, int64_t value) noexcept nogil
cdef bint stop_looking(Rooms* rooms) noexcept nogil
cdef inline int64_t look_released(Rooms* rooms):
    with nogil:
        return look_at_sockets(rooms)

cdef class SocketRooms:
    cdef Rooms* rooms
    cdef object table, diag     # kept while they are used
