from penstock_net.vswitch.ports.base cimport *
from penstock_net.vswitch.ports.mmsg cimport CMSG_DATA, CMSG_FIRSTHDR, CMSG_NXTHDR, FRAMES, MESSAGES, ROOM, WAITING_BYTES, Mail
from penstock_net.vswitch.ports.mmsg cimport came_in, mail_fetch, mail_flush, mail_of, mail_state, open_mail, set_mail, give_up_mail

cdef extern from "linux/if_packet.h" nogil:
    enum: PACKET_AUXDATA, PACKET_QDISC_BYPASS, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, PACKET_STATISTICS
    enum: TP_STATUS_VLAN_VALID
    struct tpacket_auxdata:
        unsigned int tp_status
        uint16_t tp_vlan_tci
        uint16_t tp_vlan_tpid
cdef extern from "sys/socket.h":
    enum: SOL_PACKET

cdef inline tpacket_auxdata* auxiliary(Mail* mail, int64_t i) noexcept nogil:
    header = &mail.in_message[i].msg_hdr
    said = CMSG_FIRSTHDR(header)
    while said:
        if said.cmsg_level == SOL_PACKET and said.cmsg_type == PACKET_AUXDATA:
            return <tpacket_auxdata*>CMSG_DATA(said)
        said = CMSG_NXTHDR(header, said)
    return NULL

cdef int64_t packet_receive(KernelPort* port, char* to, int64_t room) noexcept nogil
cdef bint packet_send(KernelPort* port, char* frame, int64_t length) noexcept nogil
cdef void connect(PortHandle handle, int64_t batch) except *
