from libc.stdint cimport uint32_t
from libc.string cimport memset
from penstock_net.vswitch.ports.segment cimport GSO_ECN, GSO_TCPV4, GSO_TCPV6, Cut, begin_cut, next_segment, shape_of_cut
from penstock_net.vswitch.ports.base cimport *
from penstock_net.vswitch.world.calls.table cimport Signaller, close_signaller, open_signaller, signal_other, wake_switch

cdef extern from "shared.h" nogil:
    void full_fence()
cdef extern from "guest.h" nogil:
    bint is_memory(int fd)
    int64_t file_bytes(int fd)
    char* map_area(int fd, int64_t offset, int64_t length, uint32_t* broken, char** reserved, int64_t* reserved_length)
    void unmap_area(char* reserved, int64_t length)
    uint64_t once64(const char* p)
    uint16_t once16(const char* p)
    uint16_t acquire16(const char* p)
    void put16(char* p, uint16_t value)
    void release16(char* p, uint16_t value)
    void put_pair32(char* p, uint32_t a, uint32_t b)
    bint enter_gate(uint32_t* gate)
    void leave_gate(uint32_t* gate)

cdef enum:
    MOST_AREAS = 8          # of a guest's memory
    MOST_PAIRS = 64         # of queues
    MOST_STEPS = 1024       # descriptors of a chain
    MOST_PIECES = 2048      # that the buffers of one frame consist of
    BATCH = 32              # buffers that are returned together
    DESCRIPTOR_BYTES = 16
    F_NEXT = 1              # flags of a descriptor
    F_WRITE = 2
    F_INDIRECT = 4
    NO_SIGNAL = 1           # flag of a ring: its writer needs no notification

cdef struct GuestArea:      # addresses: the guest's, the front end's, and ours
    uint64_t guest, size, user
    char* base
    char* reserved
    int64_t reserved_length

cdef struct Ring:           # a split virtqueue; every index is private, and in the guest's memory only to be told
    char* descriptors
    char* available
    char* used
    uint32_t size           # a power of two
    uint16_t taken          # buffers taken from `available`
    uint16_t seen           # its index, when it was last read
    uint16_t put            # buffers put into `used`
    uint16_t shown          # of these, what the guest knows of
    uint16_t told           # what it was when an interrupt was last decided on
    int32_t quiet           # whether the guest was told not to kick
    int32_t call            # the eventfd of its interrupt; -1: none

cdef struct Piece:
    char* base
    int64_t length

cdef struct Guest:          # what is attached to a port
    uint32_t gate           # whoever uses the rest
    uint32_t broken         # its memory was taken away, or a ring breaks the rules: nothing more is done with it
    int32_t areas, last     # and the one that was used last
    GuestArea area[8]
    Ring ring[128]          # by number: even ones to the guest, odd ones from it
    int32_t to_guest[64]    # those in use
    int32_t from_guest[64]
    int32_t to_count, from_count, from_at
    int32_t header          # bytes before a frame: 10, or 12
    int32_t mergeable, events, indirect
    int32_t takes_sums, takes_tcp4, takes_tcp6, takes_ecn
    int32_t count           # of pieces
    int64_t total           # bytes of the last chain
    int32_t at              # piece, and byte in it, where copying goes on
    int64_t done
    int32_t wake            # an eventfd of the thread that talks with the front end
    int64_t bad_descriptors, signals
    int32_t cutting         # whether a super-frame is being cut for a guest that takes none
    int64_t segment_length  # of the one that has no room yet; 0: there is none
    int64_t further_out     # segments made, beyond one for each super-frame that was cut
    Signaller signaller
    Cut cut
    Piece piece[2048]
    char scratch[16]
    char segment[65600]
    char uncut[65600]

cdef inline Guest* guest_of(KernelPort* port) noexcept nogil: return <Guest*>port.own
cdef inline Guest* new_guest(PortHandle port) except NULL: return <Guest*>keep(port, bytearray(sizeof(Guest)))
cdef inline uint32_t* gate_of(Guest* guest) noexcept nogil: return &guest.gate
cdef inline Signaller* signaller_of(Guest* guest) noexcept nogil: return &guest.signaller
cdef inline Cut* cut_in(Guest* guest) noexcept nogil: return &guest.cut
cdef inline list cut_numbers(Guest* guest): return [guest.cut.most, guest.cut.at, guest.cut.total]
cdef inline void set_cut_numbers(Guest* guest, list found) except *:
    guest.cut.most, guest.cut.at, guest.cut.total = found[0], found[1], found[2]
cdef inline uint32_t* broken_of(Guest* guest) noexcept nogil: return &guest.broken
cdef inline char** reserved_of(GuestArea* area) noexcept nogil: return &area.reserved
cdef inline int64_t* reserved_length_of(GuestArea* area) noexcept nogil: return &area.reserved_length
cdef inline Ring* ring_at(Guest* guest, int64_t i) noexcept nogil: return &guest.ring[i]
cdef inline GuestArea* area_at(Guest* guest, int64_t i) noexcept nogil: return &guest.area[i]
cdef inline Piece* piece_at(Guest* guest, int64_t i) noexcept nogil: return &guest.piece[i]
cdef inline void clear_ring(Ring* ring) noexcept nogil: memset(ring, 0, sizeof(Ring))
cdef inline void zero_bytes(char* p, int64_t n) noexcept nogil: memset(p, 0, n)
# From one free-running index of 16 bits to another.
cdef inline int32_t ahead(uint16_t a, uint16_t b) noexcept nogil: return <uint16_t>(a - b)
cdef inline char* available_slot(Ring* ring, int64_t i) noexcept nogil: return ring.available + 4 + 2 * (i & (ring.size - 1))
cdef inline char* used_slot(Ring* ring, int64_t i) noexcept nogil: return ring.used + 4 + 8 * (i & (ring.size - 1))
# The guest's wish where the next interrupt, and ours where the next kick is due.
cdef inline char* interrupt_wish(Ring* ring) noexcept nogil: return ring.available + 4 + 2 * <int64_t>ring.size
cdef inline char* kick_wish(Ring* ring) noexcept nogil: return ring.used + 4 + 8 * <int64_t>ring.size
# Where a guest's address is in our memory, and how many bytes from there on; NULL: it has no such memory.
cdef inline char* find_guest(Guest* guest, uint64_t address, uint64_t* left) noexcept nogil:
    cdef GuestArea* area = &guest.area[guest.last]
    cdef uint64_t offset = address - area.guest
    cdef int32_t i
    if offset >= area.size:
        for i in range(guest.areas):
            area = &guest.area[i]
            offset = address - area.guest
            if offset < area.size:
                guest.last = i
                break
        else:
            return NULL
    left[0] = area.size - offset
    return area.base + offset
cdef inline bint add_piece(Guest* guest, uint64_t address, uint64_t length) noexcept nogil:
    cdef uint64_t left = 0
    cdef char* base
    while length:
        base = find_guest(guest, address, &left)
        if base == NULL or guest.count == MOST_PIECES:
            return False
        left = min(left, length)
        guest.piece[guest.count].base = base
        guest.piece[guest.count].length = <int64_t>left
        guest.count += 1
        guest.total += <int64_t>left
        address += left
        length -= left
    return True
# The place of a table of the front end's address, all of it in one area; NULL: it is not.
cdef inline char* find_table(Guest* guest, uint64_t address, uint64_t length, uint64_t alignment) noexcept nogil:
    cdef int32_t i
    cdef uint64_t offset
    for i in range(guest.areas):
        offset = address - guest.area[i].user
        if offset < guest.area[i].size and length <= guest.area[i].size - offset:
            return NULL if (<uint64_t>(guest.area[i].base + offset)) % alignment else guest.area[i].base + offset
    return NULL
cdef inline char* table_at(Guest* guest, uint64_t address, uint64_t length, uint64_t* left) noexcept nogil:
    base = find_guest(guest, address, left)
    return NULL if base == NULL or left[0] < length else base
# All descriptors of one chain as pieces; False: it breaks the rules.  Each is read once, as two words.
cdef inline bint collect(Guest* guest, Ring* ring, int64_t head, uint32_t direction) noexcept nogil:
    cdef char* table = ring.descriptors
    cdef uint64_t size = ring.size, address, rest, left = 0
    cdef uint64_t at = head, steps = 0
    cdef uint32_t length, flags
    cdef bint inside = False
    guest.total = 0
    while True:
        if at >= size or steps == MOST_STEPS:
            return False
        steps += 1
        address = once64(table + DESCRIPTOR_BYTES * at)
        rest = once64(table + DESCRIPTOR_BYTES * at + 8)
        length = <uint32_t>rest
        flags = <uint32_t>(rest >> 32) & 0xFFFF
        at = rest >> 48
        if flags & F_INDIRECT:
            if inside or not guest.indirect or flags & F_NEXT or length == 0 or length % DESCRIPTOR_BYTES:
                return False
            size = length // DESCRIPTOR_BYTES
            table = table_at(guest, address, length, &left)
            if table == NULL:
                return False
            inside = True
            at = 0
            continue
        if flags & F_WRITE != direction or not add_piece(guest, address, length):
            return False
        if not flags & F_NEXT:
            return True
cdef inline void signal_ring(Guest* guest, Ring* ring) noexcept nogil:
    guest.signals += 1
    signal_other(&guest.signaller, ring.call)
# Show the guest the buffers that were put, and interrupt it if it asks for that.
cdef inline void show(Guest* guest, Ring* ring) noexcept nogil:
    cdef uint16_t wish
    if ring.shown == ring.put:
        return
    release16(ring.used + 2, ring.put)
    ring.shown = ring.put
    if ring.call < 0:
        return
    full_fence()
    if guest.events:
        wish = once16(interrupt_wish(ring))
        if ahead(ring.put, wish + 1) < ahead(ring.put, ring.told):
            signal_ring(guest, ring)
        ring.told = ring.put
    elif not once16(ring.available) & NO_SIGNAL:
        signal_ring(guest, ring)
# Ask for a kick when the next buffer comes; whether that is new, so that one may have come before.
cdef inline bint arm(Guest* guest, Ring* ring) noexcept nogil:
    if not ring.quiet:
        return False
    if guest.events:
        put16(kick_wish(ring), ring.seen)
    else:
        put16(ring.used, 0)
    ring.quiet = 0
    full_fence()
    return True
cdef inline void quieten(Guest* guest, Ring* ring) noexcept nogil:
    if not ring.quiet:
        ring.quiet = 1
        if not guest.events:
            put16(ring.used, NO_SIGNAL)
# Bytes from the collected pieces, or into them, where the last call ended.
cdef inline void copy_pieces(Guest* guest, char* own, int64_t length, bint into) noexcept nogil:
    cdef Piece* piece
    cdef int64_t n
    while length > 0:
        piece = &guest.piece[guest.at]
        n = min(length, piece.length - guest.done)
        if into:
            memcpy(piece.base + guest.done, own, n)
        else:
            memcpy(own, piece.base + guest.done, n)
        own += n
        length -= n
        guest.done += n
        if guest.done == piece.length:
            guest.at += 1
            guest.done = 0
# The same flow always has the same ring: of the addresses and ports, if it is of IP.
cdef inline int64_t ring_for(Guest* guest, char* frame, int64_t size) noexcept nogil:
    cdef uint64_t word = 0
    if guest.to_count == 1:
        return guest.to_guest[0]
    if size >= 38:
        word = once64(frame + 26) ^ once64(frame + 30) * <uint64_t>0x9E3779B97F4A7C15ULL
    return guest.to_guest[((word * <uint64_t>0x9E3779B97F4A7C15ULL) >> 32) % <uint64_t>guest.to_count]

cdef int64_t vhost_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef int64_t next_frame(KernelPort* port, Guest* guest, char* to, int64_t room) noexcept nogil
cdef int64_t take_frame(KernelPort* port, Guest* guest, Ring* ring, char* to, int64_t room) noexcept nogil
cdef bint take_header(KernelPort* port, Guest* guest, char* to, int64_t size) noexcept nogil
cdef int64_t available(Guest* guest, Ring* ring) noexcept nogil
cdef int64_t lies(Guest* guest) noexcept nogil
cdef bint vhost_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef bint put_frame(KernelPort* port, Guest* guest, char* frame, int64_t length) noexcept nogil
cdef bint put_whole(KernelPort* port, Guest* guest, char* frame, int64_t length) noexcept nogil
cdef bint put_segments(KernelPort* port, Guest* guest) noexcept nogil
cdef bint takes_super_frame(Guest* guest, int64_t kind) noexcept nogil
cdef bint vhost_flush(KernelPort* port) noexcept nogil
cdef inline bint is_guest(PortHandle handle): return pointer_to(handle).flush == vhost_flush  # whether it is a port of this module
cdef bint show_all(KernelPort* port, Guest* guest) noexcept nogil

cdef bint more_available(Guest* guest, Ring* ring, int64_t buffers) noexcept nogil
cdef Guest* connect(PortHandle handle) except NULL

cdef class Rings:
    cdef Guest* guest
    cdef PortHandle port            # which has the memory of `guest`
    cdef readonly int wake_fd       # an eventfd: the guest is broken, or the port closed
    cdef int nudge, ready
    cdef int64_t before             # bad descriptors of guests before this one
