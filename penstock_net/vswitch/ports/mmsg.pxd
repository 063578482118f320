from penstock_net.vswitch.ports.base cimport *
from penstock_net.vswitch.world.calls.table cimport (
    mmsghdr, msghdr, path_mtu_now, receive_messages, send_messages, sockaddr_storage, socklen_t
)

cdef extern from "sys/socket.h" nogil:
    struct cmsghdr:
        size_t cmsg_len
        int cmsg_level
        int cmsg_type
    cmsghdr* CMSG_FIRSTHDR(msghdr* message)
    cmsghdr* CMSG_NXTHDR(msghdr* message, cmsghdr* now)
    unsigned char* CMSG_DATA(cmsghdr* now)
    size_t CMSG_LEN(size_t n)
    size_t CMSG_SPACE(size_t n)
    enum: MSG_TRUNC, SOL_SOCKET, AF_INET, AF_INET6
cdef extern from "netinet/udp.h" nogil:
    enum: SOL_UDP, UDP_SEGMENT, UDP_GRO

cdef extern from "errno.h":
    int EMSGSIZE, EINVAL

cdef enum:
    IP_UDP_BYTES = 28       # headers of IPv4 and UDP; IPv6 has 20 more
    MESSAGES = 32           # of one system call
    FRAMES = 64             # of a batch, at most; also the segments of one message, which the kernel limits
    ROOM = 65560            # of one message
    CONTROL_BYTES = 64
    WAITING_BYTES = 262144  # frames to be sent
    MOST_SEGMENTED = 65000  # bytes of a message of several segments

cdef struct Mail:           # messages on their way through a socket
    char* taken             # MESSAGES x ROOM: what came in
    char* waiting           # frames to be sent, end to end
    int32_t came            # messages that came in with the last system call
    int32_t reading         # which one is being handed out
    int64_t read, segment   # how much of it is; how long its frames are
    int32_t count           # frames waiting
    int32_t first           # the first that is still to be sent
    int32_t batch           # send when so many wait
    int64_t start, end      # bytes of `waiting`
    int64_t segment_most    # the longest frame that may be sent as one segment of several; 0: none
    int64_t segment_limit   # the same on any path
    int64_t longest         # frame that may be sent at all
    int32_t probe           # a socket that tells the MTU of the path; 0: none, and frames longer than it go as fragments
    int64_t mtu_most        # of the path, as configured; 0: as the kernel says
    int64_t added           # bytes that the port puts before each frame
    int64_t length[FRAMES]
    int32_t what[FRAMES]    # A_FRAME, A_COPY or A_MESSAGE
    int32_t frames_of[MESSAGES]
    int32_t name_bytes      # of a peer's address that are compared; 0: anybody's
    sockaddr_storage peer
    socklen_t peer_bytes
    sockaddr_storage sender[MESSAGES]
    iovec in_vector[MESSAGES]
    iovec out_vector[MESSAGES]
    mmsghdr in_message[MESSAGES]
    mmsghdr out_message[MESSAGES]
    char in_control[MESSAGES][CONTROL_BYTES]
    char out_control[MESSAGES][CONTROL_BYTES]

cdef inline Mail* mail_of(KernelPort* port) noexcept nogil: return <Mail*>port.own
cdef inline Mail* new_mail(PortHandle port) except NULL: return <Mail*>keep(port, bytearray(sizeof(Mail)))
cdef inline mmsghdr* came_in(Mail* mail, int64_t i) noexcept nogil: return &mail.in_message[i]
cdef inline mmsghdr* goes_out(Mail* mail, int64_t i) noexcept nogil: return &mail.out_message[i]
cdef inline void set_vector(iovec* vector, char* base, int64_t length) noexcept nogil:
    vector.iov_base = base
    vector.iov_len = length
cdef inline void prepare_in(Mail* mail, int64_t i) noexcept nogil:
    set_vector(&mail.in_vector[i], mail.taken + i * ROOM, ROOM)
    header = &mail.in_message[i].msg_hdr
    header.msg_iov, header.msg_iovlen = &mail.in_vector[i], 1
    header.msg_name, header.msg_namelen = &mail.sender[i], sizeof(sockaddr_storage)
    header.msg_control, header.msg_controllen = mail.in_control[i], CONTROL_BYTES
    header.msg_flags = 0
cdef inline void prepare_out(Mail* mail, int64_t i, char* base, int64_t length) noexcept nogil:
    set_vector(&mail.out_vector[i], base, length)
    header = &mail.out_message[i].msg_hdr
    header.msg_iov, header.msg_iovlen = &mail.out_vector[i], 1
    header.msg_name, header.msg_namelen = (&mail.peer if mail.peer_bytes else NULL), mail.peer_bytes
    header.msg_control, header.msg_controllen = NULL, 0
cdef inline void say_segment(Mail* mail, int64_t i, int64_t segment) noexcept nogil:
    header = &mail.out_message[i].msg_hdr
    header.msg_control, header.msg_controllen = mail.out_control[i], CMSG_SPACE(sizeof(uint16_t))
    said = CMSG_FIRSTHDR(header)
    said.cmsg_level, said.cmsg_type, said.cmsg_len = SOL_UDP, UDP_SEGMENT, CMSG_LEN(sizeof(uint16_t))
    (<uint16_t*>CMSG_DATA(said))[0] = <uint16_t>segment
cdef inline int64_t segment_said(Mail* mail, int64_t i, int64_t length) noexcept nogil:
    header = &mail.in_message[i].msg_hdr
    said = CMSG_FIRSTHDR(header)
    while said:
        if said.cmsg_level == SOL_UDP and said.cmsg_type == UDP_GRO:
            segment = <int64_t>(<int*>CMSG_DATA(said))[0]
            return segment if 0 < segment < length else length
        said = CMSG_NXTHDR(header, said)
    return length
cdef inline int64_t told_mtu(Mail* mail) noexcept nogil: return path_mtu_now(mail.probe, &mail.peer, mail.peer_bytes)
cdef inline int64_t header_bytes(Mail* mail) noexcept nogil: return IP_UDP_BYTES if mail.peer.ss_family == AF_INET else IP_UDP_BYTES + 20
cdef inline bint from_peer(Mail* mail, int64_t i) noexcept nogil:
    return mail.name_bytes == 0 or memcmp(&mail.sender[i], &mail.peer, mail.name_bytes) == 0

cdef void learn_path(KernelPort* port) noexcept nogil
cdef int64_t mail_pack(Mail* mail, int64_t segment_most) noexcept nogil
cdef void mail_leave(KernelPort* port, Mail* mail, int64_t frames, bint taken) noexcept nogil
cdef bint mail_flush(KernelPort* port) noexcept nogil
cdef bint mail_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef int64_t mail_fetch(KernelPort* port, Mail* mail) noexcept nogil
cdef Mail* open_mail(PortHandle handle, int64_t batch) except NULL
cdef void give_up_mail(PortHandle handle) except *
cdef tuple mail_state(PortHandle handle)
cdef void set_mail(PortHandle handle, dict numbers, bytes waiting) except *
