"""Unmodified applications on a switch: a kernel's port that is an application of the switch.

    with open_port("tap", name="tap0", headers=False) as tap, connect("a") as app, Gateway(tap, app):
        ...                                     # whatever sends through tap0 now sends through the switch

IPv4 only.  Each flow (addresses, protocol, ports) has a transmit queue of the switch, as far as there are queues.  Address
requests (ARP) are answered here: every address has a MAC address made of it, and what comes in gets that of the device.  What
the switch has no room for is kept, up to `most` frames; then the device is not read until there is room again, so that what is
lost is lost in the kernel's queue, where it is counted (`kernel_lost`) and where a rate can hold it back (penstock.vswitch.edge).
"""

import fcntl
import select
import threading
import zlib
from collections import deque
from itertools import islice
from typing import Any

from penstock.errors import SpecError
from penstock.vswitch.client import Port

IPV4, ARP = b"\x08\x00", b"\x08\x06"
GET_HARDWARE_ADDRESS = 0x8927
BATCH = 32
NAP_S = 0.001


def mac_of(address: bytes) -> bytes:
    """The MAC address that stands for an IPv4 address."""
    return b"\x02\x00" + address


def answer(frame: bytes) -> bytes | None:
    """The answer to an address request; None: it is none, or asks for the sender's own."""
    if len(frame) < 42 or frame[12:22] != ARP + b"\x00\x01\x08\x00\x06\x04\x00\x01":
        return None
    sender_mac, sender, target = frame[22:28], frame[28:32], frame[38:42]
    if sender == bytes(4) or sender == target:
        return None
    return sender_mac + mac_of(target) + ARP + b"\x00\x01\x08\x00\x06\x04\x00\x02" + mac_of(target) + target + sender_mac + sender


def flow_of(frame: bytes, queues: int) -> int:
    """The transmit queue of an IPv4 frame: by addresses, protocol and, if it is no later fragment, ports."""
    start = 14 + 4 * (frame[14] & 15)
    first = frame[20] & 0x1F == 0 and frame[21] == 0
    ports = frame[start : start + 4] if frame[23] in (6, 17) and first else b""
    return zlib.crc32(frame[26:34] + frame[23:24] + ports) % queues


class Gateway:
    """A thread that moves frames between a kernel's port (opened with headers=False) and a port of a switch."""

    def __init__(self, kernel: Any, app: Port, most: int = 256) -> None:
        if kernel.headers:
            raise SpecError(f"gateway: port {kernel.name} has headers; open it with headers=False")
        self.kernel, self.app, self.most = kernel, app, most
        self.queues = int(app.region.shape["queues"])
        self.to_switch: dict[int, deque[bytes]] = {}
        self.waiting = 0        # frames in it: those that the switch has had no room for
        self.to_kernel: deque[bytes] = deque()
        self.counters = {"not_ipv4": 0, "answered": 0}
        self.mac = self._hardware_address()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self) -> "Gateway":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def _hardware_address(self) -> bytes:
        if self.kernel.kind != "tap":
            return b"\xff" * 6
        return bytes(fcntl.ioctl(self.kernel.fd, GET_HARDWARE_ADDRESS, bytes(40))[18:24])

    def run(self) -> None:
        """Move frames until told otherwise, or until the switch has gone."""
        while not self.over.is_set() and not self.app.gone:
            if not (self.in_from_kernel() + self.out_to_switch() + self.in_from_switch()):
                self.rest()

    def in_from_kernel(self) -> int:
        """Read the device while there is room for what it has."""
        for count in range(BATCH):
            if self.waiting >= self.most or (frame := self.kernel.receive()) is None:
                return count
            if frame[12:14] == IPV4 and len(frame) >= 34:
                self.to_switch.setdefault(flow_of(frame, self.queues), deque()).append(frame)
                self.waiting += 1
            elif (reply := answer(frame)) is not None:
                self.counters["answered"] += 1
                self.to_kernel.append(reply)
            else:
                self.counters["not_ipv4"] += 1
        return BATCH

    def out_to_switch(self) -> int:
        moved = 0
        for queue, frames in list(self.to_switch.items()):
            sent = self.app.send(queue, list(islice(frames, BATCH)))
            for _ in range(sent):
                frames.popleft()
            moved += sent
            if not frames:
                del self.to_switch[queue]
        self.waiting -= moved
        return moved

    def in_from_switch(self) -> int:
        """Hand on what the switch delivers; no more than the device takes."""
        if not self.to_kernel:
            self.to_kernel.extend(self.mac + frame[6:] for _, frame in self.app.receive(BATCH))
        moved = 0
        while self.to_kernel and self.kernel.send(self.to_kernel[0]):
            self.to_kernel.popleft()
            moved += 1
        self.kernel.flush()
        return moved

    def rest(self) -> None:
        """Wait for news; not long while something waits for room."""
        stuck = bool(self.to_switch or self.to_kernel)
        if self.app.sleep():
            readers = [self.app, self.app.connection, *([] if self.waiting >= self.most else [self.kernel.fd])]
            select.select(readers, [], [], NAP_S if stuck else 0.1)
            self.app.clear()
