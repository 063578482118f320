"""The overlay between switches: a frame is a UDP datagram; datagrams from other addresses than the peer's are refused.

A frame longer than the path MTU is sent as fragments; without `fragments` it is lost, and `path` of the port is the limit.
Runs of shorter frames of equal length are one message each on both sides (UDP_SEGMENT, UDP_GRO).
"""

from errno import EADDRINUSE, EADDRNOTAVAIL

import cython

from penstock_net.errors import SpecError
from penstock_net.inputs import boolean
from penstock_net.vswitch.linux.interfaces import address_and_port, path_mtu, refused, set_receive_buffer
from penstock_net.vswitch.linux.losses import socket_losses
from penstock_net.vswitch.ports.base import PortHandle
from penstock_net.vswitch.support.port_kind import BATCH, HEADERS, RECEIVE_BUFFER, Given, Option, PortKind, anything, between
from penstock_net.vswitch.world import socket

if not cython.compiled:
    from cython.cimports.libc.string import memcpy

    from penstock_net.vswitch.ports.base import ETHERNET_BYTES, bytes_from, pointer_to, received, received_too_long
    from penstock_net.vswitch.ports.mmsg import (
        MESSAGES,
        MSG_TRUNC,
        ROOM,
        SOL_UDP,
        UDP_GRO,
        came_in,
        from_peer,
        give_up_mail,
        learn_path,
        mail_fetch,
        mail_of,
        mail_state,
        open_mail,
        segment_said,
        set_mail,
    )
    from penstock_net.vswitch.ports.udp import set_peer

DATAGRAM_BYTES = 65507
MTU_LEAST = 576
IP_MTU_DISCOVER, IP_PMTUDISC_DONT, IP_PMTUDISC_DO, IPV6_MTU_DISCOVER = 10, 0, 2, 23


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
    return -1  # strangers' only so far


def open_udp(sock, peer, headers, batch, segment_most):
    """A port on a bound socket, with `peer` as (packed address, port)."""
    handle = PortHandle("udp", sock.fileno(), headers, sock.close)
    if segment_most:
        sock.setsockopt(SOL_UDP, UDP_GRO, 1)
    connect(handle, peer[0], peer[1], batch, DATAGRAM_BYTES, segment_most)
    handle.on_close(lambda: give_up_mail(handle))
    return handle


def connect(handle, address, number, batch, longest, segment_most):
    port = pointer_to(handle)
    mail = open_mail(handle, batch)
    mail.longest = longest
    mail.segment_most = segment_most
    mail.segment_limit = segment_most
    set_peer(mail, address, number)
    port.receive = udp_receive


def mtu_or_none(value, what):
    """An MTU of a path, or 0."""
    return value if value == 0 and value is not False else between(MTU_LEAST, 65535)(value, what)


def keep_to_path(handle, probe, mtu):
    """Send no fragments; `probe` is a socket for reading the path MTU, which `mtu` bounds unless it is 0."""
    handle.on_close(probe.close)
    follow(handle, probe.fileno(), mtu)


def follow(handle, probe, mtu):
    port = pointer_to(handle)
    mail = mail_of(port)
    mail.probe = probe
    mail.mtu_most = mtu
    port.learn = learn_path
    port.learn(port)


def open_checked(local, peer, headers, batch, segments, receive_buffer, fragments, mtu):
    here, here_port = address_and_port(local, "udp.local", any_port=True)
    there, there_port = address_and_port(peer, "udp.peer")
    if here.version != there.version:
        raise SpecError(
            f"is of IPv{there.version}, but udp.local = {local!r} is of IPv{here.version}", path="udp.peer", value=peer
        )
    if there.is_unspecified or there.is_multicast:
        raise SpecError("must be the address of one machine", path="udp.peer", value=peer, remedy="only that peer is listened to")
    if there.version == 6 and there.scope_id:
        raise SpecError("addresses with a scope are not supported", path="udp.peer", value=peer, remedy="use a global one")
    family = socket.AF_INET if here.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        set_receive_buffer(sock, receive_buffer)
        if here.version == 4:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT if fragments else IP_PMTUDISC_DO)
        elif not fragments:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, IP_PMTUDISC_DO)
        sock.bind((str(here), here_port))
        most = (
            (65535 if not fragments else path_mtu(here, there, there_port)) - (28 if here.version == 4 else 48) if segments else 0
        )
        port = open_udp(sock, (there.packed, there_port), headers, batch, max(most, 0))
        if not fragments:
            probe = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            probe.bind((str(here), 0))
            keep_to_path(port, probe, mtu)
    except OSError as e:
        sock.close()
        if e.errno in (EADDRNOTAVAIL, EADDRINUSE):
            why = "is not an address of this machine" if e.errno == EADDRNOTAVAIL else "is in use by another socket"
            raise SpecError(str(why), path="udp.local", value=local) from None
        raise refused(f"udp {local}", e) from None
    port.name = f"{local}-{peer}"
    port.losses = lambda: socket_losses(port.fd)
    return port


def give(handle):
    numbers, waiting = mail_state(handle)
    probe = mail_of(pointer_to(handle)).probe
    return Given([handle.fd, probe] if probe else [handle.fd], numbers, waiting)


def take(options, given):
    peer, number = address_and_port(options["peer"], "udp.peer")
    handle = open_udp(socket.socket(fileno=given.fds[0]), (peer.packed, number), options["headers"], 1, 0)
    for fd in given.fds[1:]:
        probe = socket.socket(fileno=fd)
        handle.on_close(probe.close)
        mail_of(pointer_to(handle)).probe = fd
        pointer_to(handle).learn = learn_path
    handle.name = f"{options['local']}-{options['peer']}"
    handle.losses = lambda: socket_losses(handle.fd)
    return handle


def resume(handle, given):
    set_mail(handle, given.numbers, given.waiting)


KIND = PortKind(
    "udp",
    "the overlay between two switches: a frame is a datagram; only the peer is listened to",
    [
        Option("local", anything, "our address and port"),
        Option("peer", anything, "the other switch's address and port"),
        HEADERS,
        BATCH,
        Option("segments", boolean, "runs of equal frames go as one message (UDP_SEGMENT)", True),
        RECEIVE_BUFFER,
        Option("fragments", boolean, "frames longer than the path's MTU go as fragments of IP; else they are lost", True),
        Option("mtu", mtu_or_none, "of the path, where it is less than the kernel knows; without fragments", 0),
    ],
    open_checked,
    ["local", "peer", "secret", "netns", "super_frames", "mtu"],
    ["local", "peer"],
    give=give,
    take=take,
    resume=resume,
)
