"""The overlay between switches: a frame is a UDP datagram, and only the one configured peer is listened to.

A frame longer than the path's MTU goes as fragments.  Runs of shorter frames of equal length are one message each on both sides
(UDP_SEGMENT, UDP_GRO).
"""

import cython

if not cython.compiled:
    from cython.cimports.libc.string import memcpy

    from penstock.vswitch.ports.base import ETHERNET_BYTES, bytes_from, pointer_to, received, received_too_long
    from penstock.vswitch.ports.mmsg import (
        MESSAGES,
        MSG_TRUNC,
        ROOM,
        SOL_UDP,
        UDP_GRO,
        came_in,
        from_peer,
        mail_fetch,
        mail_of,
        open_mail,
        segment_said,
    )
    from penstock.vswitch.ports.udp import set_peer

from penstock.vswitch.ports.base import PortHandle

if not cython.compiled:
    raise ImportError("penstock.vswitch.ports.udp works compiled only: run python setup.py build_ext --inplace")

DATAGRAM_BYTES = 65507


def udp_receive(port, to, room):
    mail = mail_of(port)
    for _ in range(2 * MESSAGES):
        if mail.reading == mail.came:
            came = mail_fetch(port, mail)
            if came <= 0:
                return came
        message = came_in(mail, mail.reading)
        length = message.msg_len
        if mail.read == 0:
            mail.segment = segment_said(mail, mail.reading, length)
            if not from_peer(mail, mail.reading) or message.msg_hdr.msg_flags & MSG_TRUNC:
                port.refused += 1 + (length - 1) // mail.segment if length else 1
                mail.reading += 1
                continue
        start = mail.reading * ROOM + mail.read
        size = min(mail.segment, length - mail.read)
        mail.read += size
        if mail.read >= length:
            mail.read = 0
            mail.reading += 1
        if size < port.header + ETHERNET_BYTES:
            port.refused += 1
            continue
        if size > room:
            return received_too_long(port)
        memcpy(to, bytes_from(mail.taken, start), size)
        return received(port, size)
    return 0


def open_udp(sock, peer, headers, batch, segment_most):
    """A port on a bound socket, with `peer` as (packed address, port)."""
    handle = PortHandle("udp", sock.fileno(), headers, sock.close)
    if segment_most:
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    connect(handle, peer[0], peer[1], batch, DATAGRAM_BYTES, segment_most)
    return handle


def connect(handle, address, number, batch, longest, segment_most):
    port = pointer_to(handle)
    mail = open_mail(handle, batch)
    mail.longest = longest
    mail.segment_most = segment_most
    set_peer(mail, address, number)
    port.receive = udp_receive
