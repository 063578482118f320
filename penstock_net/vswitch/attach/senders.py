"""Which senders may be made to wait for a slow receiver: those whose socket has no other peer that would wait with it.

A frame that waits in an HTB class is charged to its socket.  Once such frames fill its send buffer, the program can send to
nobody by it.  That is right for a connected socket, and for one that talks to nobody else.  Any other, such as that of a server
with clients, is never made to wait; nor is a sender that is no UDP socket of this namespace.
"""

import contextlib
import ipaddress
import struct
from enum import Enum
from typing import NamedTuple

from penstock_net.vswitch.attach.allowance import Allowance
from penstock_net.vswitch.linux.htb import FiveTuple
from penstock_net.vswitch.linux.netlink import SOCK_DIAG, SharedNetlink, attributes
from penstock_net.vswitch.linux.netns import NetNs
from penstock_net.vswitch.world import socket

SOCK_DIAG_BY_FAMILY, SKMEMINFO, ANY_STATE, ANY_COOKIE = 20, 7, 0xFFFFFFFF, b"\xff" * 8


class Sender(Enum):
    """Whether the sender of a flow may be made to wait."""

    CONNECTED = "connected"  # its socket: always
    ALONE = "alone"  # as long as its socket has one peer, and nothing to read
    SHARED = "shared"  # its socket, by several peers: never
    UNKNOWN = "unknown"  # no UDP socket of this namespace, or it is closed: never, but what waits already keeps nobody waiting


class Found(NamedTuple):
    """A UDP socket: whether it is connected, and the memory of datagrams that it has not read."""

    connected: bool
    unread: int


class Senders:
    """The UDP sockets of a namespace that send by one interface, whose worker notes in the `table` who has several peers."""

    def __init__(self, index: int, namespace: NetNs | None, table: Allowance) -> None:
        """index: of the interface."""
        self.index, self.table = index, table
        self.diag = SharedNetlink(SOCK_DIAG, namespace)

    def close(self) -> None:
        self.diag.close()

    def of(self, flow: FiveTuple) -> Sender:
        """The sender of a flow.

        A socket that does not read what has come may be one of a server that is kept from it by waiting in `sendto`: it counts
        as one with several peers, whoever has sent that, also by another interface.
        """
        if flow.protocol != socket.IPPROTO_UDP or not flow.source_port:
            return Sender.UNKNOWN
        found = self._ask(flow)
        if found and found.connected:
            return Sender.CONNECTED
        if found and found.unread:
            self.table.note_several(flow.source_port)
        if self.table.has_several(flow.source_port):
            return Sender.SHARED
        return Sender.ALONE if found else Sender.UNKNOWN

    def _ask(self, flow: FiveTuple) -> Found | None:
        """The socket to which an answer to this flow would go."""
        source, target = ipaddress.ip_address(flow.source), ipaddress.ip_address(flow.target)
        family = socket.AF_INET if source.version == 4 else socket.AF_INET6
        request = struct.pack("=BBBxI", family, socket.IPPROTO_UDP, 1 << SKMEMINFO - 1, ANY_STATE)
        request += struct.pack("!HH16s16s", flow.target_port, flow.source_port, target.packed, source.packed)
        request += struct.pack("=I", self.index) + ANY_COOKIE
        with contextlib.suppress(FileNotFoundError):
            for _, answer in self.diag.ask(SOCK_DIAG_BY_FAMILY, request):
                memory = dict(attributes(answer, 72)).get(SKMEMINFO, bytes(4))
                return Found(answer[6:8] != b"\0\0", *struct.unpack_from("=I", memory))
        return None
