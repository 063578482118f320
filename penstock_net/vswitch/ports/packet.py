"""An existing interface, all of whose frames the port receives (AF_PACKET); the queueing discipline is bypassed.

The socket always uses virtio_net_hdr.  Without `headers`, partial checksums are completed, and frames longer than the interface's
MTU, which a network card would have segmented, are counted as too long.
"""

import cython

from penstock_net.inputs import boolean
from penstock_net.vswitch.linux.interfaces import device_name, mtu_of, refused, set_receive_buffer
from penstock_net.vswitch.linux.losses import socket_losses
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.port_kind import BATCH, HEADERS, RECEIVE_BUFFER, Given, Option, PortKind
from penstock_net.vswitch.world import socket

if not cython.compiled:
    from cython.cimports.libc.string import memcpy, memmove

    from penstock_net.vswitch.ports.base import (
        ETHERNET_BYTES,
        HEADER_BYTES,
        VIRTIO_NET_HDR_F_NEEDS_CSUM,
        bytes_from,
        complete_checksum,
        header_of,
        pointer_to,
        received,
        received_too_long,
        sent_too_long,
        set_octet,
    )
    from penstock_net.vswitch.ports.mmsg import (
        FRAMES,
        MESSAGES,
        ROOM,
        WAITING_BYTES,
        came_in,
        give_up_mail,
        mail_fetch,
        mail_flush,
        mail_of,
        mail_state,
        open_mail,
        set_mail,
    )
    from penstock_net.vswitch.ports.packet import (
        PACKET_AUXDATA,
        PACKET_IGNORE_OUTGOING,
        PACKET_QDISC_BYPASS,
        PACKET_VNET_HDR,
        SOL_PACKET,
        TP_STATUS_VLAN_VALID,
        auxiliary,
    )

ETH_P_ALL = 0x0003


def packet_receive(port, to, room):
    mail = mail_of(port)
    for _ in range(2 * MESSAGES):
        if mail.reading == mail.came:
            came = mail_fetch(port, mail)
            if came <= 0:
                return came
        i = mail.reading
        mail.reading += 1
        frame = bytes_from(mail.taken, i * ROOM)
        length = came_in(mail, i).msg_len
        if length < HEADER_BYTES + ETHERNET_BYTES:
            port.refused += 1
            continue
        header = header_of(frame)
        said = auxiliary(mail, i)
        tagged = said.tp_status & TP_STATUS_VLAN_VALID if said else 0
        if tagged and length + 4 <= ROOM:  # the kernel took the tag out
            tag = HEADER_BYTES + 12
            memmove(bytes_from(frame, tag + 4), bytes_from(frame, tag), length - tag)
            set_octet(frame, tag, said.tp_vlan_tpid >> 8)
            set_octet(frame, tag + 1, said.tp_vlan_tpid & 0xFF)
            set_octet(frame, tag + 2, said.tp_vlan_tci >> 8)
            set_octet(frame, tag + 3, said.tp_vlan_tci & 0xFF)
            length += 4
            if header.flags & VIRTIO_NET_HDR_F_NEEDS_CSUM:
                header.csum_start += 4
            if header.gso_type:
                header.hdr_len += 4
        if port.header == 0:
            if header.gso_type:
                return received_too_long(port)
            complete_checksum(frame, length)
            frame = bytes_from(frame, HEADER_BYTES)
            length -= HEADER_BYTES
        if length > room:
            return received_too_long(port)
        memcpy(to, frame, length)
        return received(port, length)
    return 0


def packet_send(port, frame, length):
    """As mail_send, with an empty header before frames that have none."""
    mail = mail_of(port)
    header = mail.added
    if length + header > mail.longest:
        return sent_too_long(port)
    if mail.count == FRAMES or mail.end + length + header > WAITING_BYTES:
        if not mail_flush(port):
            return False
    for i in range(header):
        set_octet(mail.waiting, mail.end + i, 0)
    memcpy(bytes_from(mail.waiting, mail.end + header), frame, length)
    mail.length[mail.count] = length + header
    mail.what[mail.count] = port.sends
    mail.count += 1
    mail.end += length + header
    if mail.count >= mail.batch:
        mail_flush(port)
    return True


def open_packet(sock, headers, batch, bypass):
    """A port on a bound packet socket."""
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    sock.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    if bypass:
        sock.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)
    return connected(sock, headers, batch)


def connected(sock, headers, batch):
    handle = PortHandle("packet", sock.fileno(), headers, sock.close)
    connect(handle, batch)
    handle.on_close(lambda: give_up_mail(handle))
    return handle


def give(handle):
    numbers, waiting = mail_state(handle)
    return Given([handle.fd], numbers, waiting)


def take(options, given):
    handle = connected(socket.socket(fileno=given.fds[0]), options["headers"], 1)
    handle.name = options["device"]
    handle.losses = lambda: socket_losses(handle.fd)
    return handle


def resume(handle, given):
    set_mail(handle, given.numbers, given.waiting)


def connect(handle, batch):
    port = pointer_to(handle)
    mail = open_mail(handle, batch)
    mail.added = HEADER_BYTES - port.header
    port.receive = packet_receive
    port.send = packet_send


def open_checked(device, headers, batch, bypass, receive_buffer):
    mtu_of(device, "packet.device")
    sock = None
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)  # 0: nothing until it is bound
        set_receive_buffer(sock, receive_buffer)
        port = open_packet(sock, headers, batch, bypass)
        sock.bind((device, ETH_P_ALL))
    except BaseException as e:
        if sock:
            sock.close()
        if isinstance(e, OSError):
            raise refused(f"packet {device}", e) from None
        raise
    port.name = device
    port.losses = lambda: socket_losses(port.fd)
    return port


def attempt(namespace):
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()


KIND = PortKind(
    "packet",
    "an existing interface (AF_PACKET); all of its frames come to the port, and to the kernel as well",
    [
        Option("device", device_name, "the interface"),
        HEADERS,
        BATCH,
        Option("bypass", boolean, "frames pass by the interface's queueing discipline", True),
        RECEIVE_BUFFER,
    ],
    open_checked,
    ["device", "netns", "super_frames", "broadcast"],
    ["device"],
    serves="ports on existing interfaces",
    attempt=attempt,
    give=give,
    take=take,
    resume=resume,
)
