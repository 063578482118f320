"""TCP and UDP frames of up to 64 KB cut, and consecutive TCP segments joined again; segment.py describes both."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from penstock_net.vswitch.memory.layout cimport memcpy
from penstock_net.vswitch.ports.base cimport header_of, octet, virtio_net_hdr

cdef extern from "string.h" nogil:
    int memcmp(const void* a, const void* b, size_t n)
    void* memset(void* p, int value, size_t n)

cdef extern from "Python.h":
    char* PyByteArray_AS_STRING(object block)

cdef enum:
    VNET = 10               # bytes of virtio_net_hdr
    GSO_NONE = 0
    GSO_TCPV4 = 1
    GSO_TCPV6 = 4
    GSO_UDP_L4 = 5          # datagrams of one flow, end to end, all but the last as long as gso_size says
    GSO_ECN = 0x80
    PARTIAL_SUM = 1         # the check sum field holds the sum of the pseudo header only
    FIN = 0x01
    PSH = 0x08
    ACK = 0x10
    CWR = 0x80
    LONGEST_JOINED = 60000  # bytes of a frame of joined segments
    MOST_DATAGRAMS = 128    # of a frame, as the kernel makes it

cdef struct Shape:          # of a TCP or UDP frame; offsets from its Ethernet header
    int32_t version         # of IP
    int32_t ip, tcp         # where the headers begin; the latter also of UDP
    int32_t head            # bytes of all headers
    int64_t size            # bytes of the frame

cdef struct Cut:            # a frame that is being cut
    Shape shape
    int64_t most            # bytes of payload in a segment
    int64_t at              # bytes of payload that segments have been made of
    int64_t total           # bytes of payload

cdef struct Joint:          # segments that are being joined
    Shape shape
    int64_t count           # 0: none
    int64_t most            # bytes of payload of the first; the others have as many, the last one perhaps fewer
    int64_t following       # sequence number that comes next
    int32_t full            # whether nothing may follow

cdef inline int64_t short_at(char* p, int64_t i) noexcept nogil: return octet(p, i) << 8 | octet(p, i + 1)
cdef inline void put_short(char* to, int64_t value) noexcept nogil:
    to[0] = <char>(value >> 8)
    to[1] = <char>value
cdef inline int64_t internet_sum(char* p, int64_t n) noexcept nogil:
    cdef int64_t total = 0, i
    for i in range(n // 2):
        total += short_at(p, 2 * i)
    return total
cdef inline void put_long(char* to, int64_t value) noexcept nogil:
    put_short(to, value >> 16)
    put_short(to + 2, value)
cdef inline int64_t long_at(char* p, int64_t i) noexcept nogil: return short_at(p, i) << 16 | short_at(p, i + 2)
cdef inline int64_t sequence(int64_t number) noexcept nogil: return <int64_t><uint32_t>number
cdef inline void set_byte(char* p, int64_t i, int64_t value) noexcept nogil: p[i] = <char>value
cdef inline void clear_header(char* frame) noexcept nogil: memset(frame, 0, VNET)
cdef inline Shape* shape_of_cut(Cut* cut) noexcept nogil: return &cut.shape
# Bytes of the next segment as a frame; there is one.
cdef inline int64_t next_length(Cut* cut) noexcept nogil:
    return VNET + cut.shape.head + min(cut.most, cut.total - cut.at)
# Whether a frame is of several UDP datagrams, as it says.
cdef inline bint is_of_datagrams(char* frame) noexcept nogil: return header_of(frame).gso_type & ~GSO_ECN == GSO_UDP_L4
cdef inline Shape* shape_of_joint(Joint* joint) noexcept nogil: return &joint.shape
cdef inline bint same(char* a, char* b, int64_t first, int64_t end) noexcept nogil: return memcmp(a + first, b + first, end - first) == 0
# A TCP segment that is no super-frame, and whose check sum is left to the network card.
cdef inline bint is_single_segment(virtio_net_hdr* header) noexcept nogil:
    return header.flags & PARTIAL_SUM and header.gso_type == GSO_NONE and header.csum_offset == 16
# Whether two IP headers differ in no more than length, identification and check sum, and the length of b fits its frame.
cdef inline bint same_ip(char* a, char* b, Shape* shape, int64_t size) noexcept nogil:
    cdef int64_t ip = shape.ip, tcp = shape.tcp
    if shape.version == 4:
        if short_at(b, ip + 2) != size - ip or not same(a, b, ip, ip + 2):
            return False
        return same(a, b, ip + 6, ip + 10) and same(a, b, ip + 12, tcp)
    return short_at(b, ip + 4) == size - tcp and same(a, b, ip, ip + 4) and same(a, b, ip + 6, tcp)
# Whether two TCP headers differ in no more than sequence number, check sum, PSH and FIN.
cdef inline bint same_tcp(char* a, char* b, Shape* shape) noexcept nogil:
    cdef int64_t tcp = shape.tcp
    if octet(b, tcp + 13) & ~(PSH | FIN) != ACK or not same(a, b, tcp, tcp + 4) or not same(a, b, tcp + 8, tcp + 13):
        return False
    return same(a, b, tcp + 14, tcp + 16) and same(a, b, tcp + 18, shape.head)
# Whether a segment is the one that comes next in the same flow, with the same headers; `to` begins with the Ethernet header.
cdef inline bint follows(Joint* joint, char* to, char* frame, int64_t size) noexcept nogil:
    cdef Shape* shape = &joint.shape
    cdef char* segment = frame + VNET
    if not is_single_segment(header_of(frame)) or header_of(frame).csum_start != shape.tcp:
        return False
    if not same(to, segment, 0, shape.ip) or long_at(segment, shape.tcp + 4) != joint.following:
        return False
    return same_ip(to, segment, shape, size) and same_tcp(to, segment, shape)

cdef bint find_transport(char* frame, int64_t size, Shape* shape, int64_t protocol) noexcept nogil
cdef int64_t after_options(char* frame, int64_t size, int64_t at, int64_t kind, int64_t protocol) noexcept nogil
cdef bint find_tcp(char* frame, int64_t size, Shape* shape) noexcept nogil
cdef bint find_udp(char* frame, int64_t size, Shape* shape) noexcept nogil
cdef void set_lengths(char* frame, Shape* shape, int64_t size, int64_t protocol, int64_t sum_at) noexcept nogil
cdef bint begin_cut(Cut* cut, char* frame, int64_t length, int64_t room) noexcept nogil
cdef int64_t next_datagram(Cut* cut, char* frame, char* to, int64_t count) noexcept nogil
cdef int64_t next_segment(Cut* cut, char* frame, char* to) noexcept nogil
cdef void begin_join(Joint* joint, char* frame, int64_t length) noexcept nogil
cdef int64_t joined(Joint* joint, char* to, int64_t length, char* frame, int64_t more, int64_t room) noexcept nogil
cdef void finish_join(Joint* joint, char* to, int64_t length) noexcept nogil

cdef class Cutter:
    cdef Cut cut
    cdef Joint joint
