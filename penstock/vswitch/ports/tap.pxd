from penstock.vswitch.ports.base cimport *

cdef extern from "sys/ioctl.h" nogil:
    int ioctl(int fd, unsigned long request, ...)
cdef extern from "net/if.h" nogil:
    struct ifreq:
        char* ifr_name
        short ifr_flags
    enum: IFNAMSIZ
cdef extern from "linux/if_tun.h" nogil:
    enum: IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, IFF_MULTI_QUEUE, TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN
    const unsigned long TUNSETIFF, TUNSETOFFLOAD, TUNSETVNETHDRSZ, TUNSETPERSIST

cdef struct Spill:          # where the rest of a frame goes that is longer than the caller's room
    iovec vectors[2]
    char rest[8]

cdef inline Spill* spill_of(KernelPort* port) noexcept nogil: return <Spill*>port.own
cdef inline Spill* new_spill(PortHandle port) except NULL: return <Spill*>keep(port, bytearray(sizeof(Spill)))
cdef inline int set_interface(int fd, bytes name, int flags):
    cdef ifreq request
    for i in range(IFNAMSIZ):
        request.ifr_name[i] = name[i] if i < len(name) else 0
    request.ifr_flags = <short>flags
    return ioctl(fd, TUNSETIFF, &request)
cdef inline int set_header_bytes(int fd, int size): return ioctl(fd, TUNSETVNETHDRSZ, &size)
cdef inline int set_persistent(int fd, unsigned long on): return ioctl(fd, TUNSETPERSIST, on)
cdef inline int set_offloads(int fd, unsigned long flags): return ioctl(fd, TUNSETOFFLOAD, flags)

cdef int64_t tap_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint tap_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef void connect(PortHandle handle) except *
