from penstock_net.vswitch.ports.base cimport *
from penstock_net.vswitch.ports.segment cimport GSO_UDP_L4
from penstock_net.vswitch.world.calls.table cimport control

cdef extern from "sys/ioctl.h":
    pass                    # what the numbers of requests are made of
cdef extern from "linux/sockios.h" nogil:
    enum: SIOCGIFHWADDR, SIOCSIFHWADDR
cdef extern from "net/if.h" nogil:
    struct ifreq:
        char* ifr_name
        short ifr_flags
    enum: IFNAMSIZ
cdef extern from "linux/if_tun.h" nogil:
    enum: IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE, TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN
    const unsigned long TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ, TUNSETPERSIST

cdef enum:
    TUN_F_USO4 = 0x20       # Linux 6.2; these three may be missing in the headers
    TUN_F_USO6 = 0x40
    DATAGRAM_AT = 52        # where the payload of a datagram begins: after a virtio_net_hdr and headers of Ethernet, IPv4 and UDP
    DATAGRAM_MOST = 2048    # bytes of a frame that is joined with others
    JOINED_MOST = 64        # frames that are joined
    JOINED_BYTES = 65000

cdef struct Tap:
    iovec vectors[2]        # where a frame goes, and the rest of one that is longer than the caller's room
    char rest[8]
    int32_t joins           # whether the kernel takes several datagrams as one frame
    int32_t count           # datagrams that wait to be written as one frame
    int64_t length          # of that frame
    int64_t payload, last   # bytes of each datagram's payload, and of the last one's, which may be shorter
    char joined[65600]

cdef inline Tap* tap_of(KernelPort* port) noexcept nogil: return <Tap*>port.own
cdef inline Tap* new_tap(PortHandle port) except NULL: return <Tap*>keep(port, bytearray(sizeof(Tap)))
cdef inline int64_t pair_at(char* p, int64_t i) noexcept nogil: return (<uint8_t*>p)[i] << 8 | (<uint8_t*>p)[i + 1]
cdef inline void put_pair(char* p, int64_t i, int64_t value) noexcept nogil:
    p[i] = <char>(value >> 8)
    p[i + 1] = <char>value
# Whether n bytes from i on are the same.
cdef inline bint same_bytes(char* a, char* b, int64_t i, int64_t n) noexcept nogil: return memcmp(a + i, b + i, n) == 0
cdef inline int set_interface(int fd, bytes name, int flags):
    cdef ifreq request
    for i in range(IFNAMSIZ):
        request.ifr_name[i] = name[i] if i < len(name) else 0
    request.ifr_flags = <short>flags
    return control(fd, TUNSETIFF, &request)
# Set the Ethernet address that the kernel has drawn: its kind is "set" from then on, and no longer "random".
cdef inline int keep_address(int fd):
    cdef ifreq request
    if control(fd, SIOCGIFHWADDR, &request) < 0:
        return -1
    return control(fd, SIOCSIFHWADDR, &request)
cdef inline int set_header_bytes(int fd, int size): return control(fd, TUNSETVNETHDRSZ, &size)
cdef inline int set_persistent(int fd, unsigned long on): return control(fd, TUNSETPERSIST, <void*>on)
cdef inline int set_offloads(int fd, unsigned long flags): return control(fd, TUNSETOFFLOAD, <void*>flags)

cdef int64_t tap_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint tap_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef bint tap_flush(KernelPort* port) noexcept nogil
cdef bint is_datagram(char* frame, int64_t length) noexcept nogil
cdef bint follows(Tap* tap, char* frame, int64_t length) noexcept nogil
cdef int64_t folded(int64_t total) noexcept nogil
cdef void make_joined(char* frame, int64_t length, int64_t payload) noexcept nogil
cdef void connect(PortHandle handle) except *
cdef void find_joins(PortHandle handle) except *
cdef void give_up(PortHandle handle) except *
