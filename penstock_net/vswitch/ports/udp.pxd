from penstock_net.vswitch.ports.base cimport *
from penstock_net.vswitch.ports.mmsg cimport AF_INET, AF_INET6, MESSAGES, MSG_TRUNC, ROOM, SOL_UDP, UDP_GRO, Mail
from penstock_net.vswitch.ports.mmsg cimport came_in, from_peer, learn_path, mail_fetch, mail_of, mail_state, open_mail, give_up_mail, segment_said, set_mail

cdef extern from "netinet/in.h" nogil:
    struct in_addr:
        pass
    struct in6_addr:
        pass
    struct sockaddr_in:
        unsigned short sin_family
        uint16_t sin_port
        in_addr sin_addr
    struct sockaddr_in6:
        unsigned short sin6_family
        uint16_t sin6_port
        in6_addr sin6_addr
    uint16_t htons(uint16_t number)

cdef inline void set_peer(Mail* mail, bytes address, int number) except *:
    v4 = <sockaddr_in*>&mail.peer
    v6 = <sockaddr_in6*>&mail.peer
    if len(address) == 4:
        v4.sin_family, v4.sin_port = AF_INET, htons(number)
        memcpy(&v4.sin_addr, PyBytes_AS_STRING(address), 4)
        mail.peer_bytes = sizeof(sockaddr_in)
        mail.name_bytes = 8     # family, port and address
    else:
        v6.sin6_family, v6.sin6_port = AF_INET6, htons(number)
        memcpy(&v6.sin6_addr, PyBytes_AS_STRING(address), 16)
        mail.peer_bytes = sizeof(sockaddr_in6)
        mail.name_bytes = 24    # and the flow label, which is zero

cdef int64_t udp_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef void connect(PortHandle handle, bytes address, int number, int64_t batch, int64_t longest, int64_t segment_most) except *
cdef void follow(PortHandle handle, int probe, int64_t mtu) except *
