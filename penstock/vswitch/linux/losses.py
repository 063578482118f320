"""What the kernel lost: at an interface, and at a socket that nobody read in time."""

import socket
import struct
from pathlib import Path

from penstock.errors import SpecError
from penstock.vswitch.linux.netns import Place, inside

SO_MEMINFO = 55  # linux/socket.h: nine numbers, of which the last are packets dropped because the receive buffer was full
_COLUMNS = (
    "rx_bytes",
    "rx_packets",
    "rx_errors",
    "rx_dropped",
    "rx_fifo",
    "rx_frame",
    "rx_compressed",
    "rx_multicast",
    "tx_bytes",
    "tx_packets",
    "tx_errors",
    "tx_dropped",
    "tx_fifo",
    "tx_collisions",
    "tx_carrier",
    "tx_compressed",
)


def device_losses(device: str, place: Place | None = None) -> dict[str, int]:
    """The counters of an interface; tx_dropped of a TAP are frames of applications for which its ring had no room."""
    with inside(place):
        lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    for line in lines:
        name, _, numbers = line.partition(":")
        if name.strip() == device:
            return dict(zip(_COLUMNS, map(int, numbers.split())))
    raise SpecError(
        f"device {device!r}: there is none here", remedy=f"known: {', '.join(x.partition(':')[0].strip() for x in lines)}"
    )


def socket_losses(fd: int) -> int:
    """Packets that the kernel dropped since the socket was opened, because nobody read them in time.

    A run of equal frames that came as one UDP message counts once.
    """
    with socket.socket(fileno=fd) as sock:
        try:
            return int(struct.unpack("9I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[8])
        finally:
            sock.detach()
