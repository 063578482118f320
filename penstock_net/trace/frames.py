"""The frames of a capture: pauses as in IEEE 802.1Qbb, packets as Ethernet, IPv4 and UDP."""

import struct
from functools import lru_cache

PFC_ADDRESS = bytes.fromhex("0180c2000001")
MAC_CONTROL, PFC = 0x8808, 0x0101
LOCAL_EXPERIMENT = 0x88B5  # IEEE 802, for protocols without a number of their own
CLASSES = 8
QUANTUM_BYTES = 64  # a quantum of pause time is 512 bits
FOREVER = 0xFFFF  # the longest time that a frame can carry
LEAST = 60  # bytes of an Ethernet frame, without its check sum
DISCARD = 9  # the UDP port of which nobody expects anything
HEADERS = 42  # Ethernet, IPv4 and UDP
PAYLOAD = struct.Struct(">QQ")  # flow, position of the first byte in it
NOT_ECT, ECT, CE = 0, 2, 3  # ECN field


def mac(node: int, port: int) -> bytes:
    """A locally administered address: 02, two bytes of the port, three of the node."""
    return bytes([2]) + (port & 0xFFFF).to_bytes(2) + node.to_bytes(3)


def ip(host: int) -> bytes:
    """10.0.0.1 of host 0."""
    return (0x0A000001 + host).to_bytes(4)


def quanta(ns: float | None, bits_per_second: int) -> int:
    """A time in units of 512 bits of the link, rounded up, 1 to 65535; 65535 too if it has no end or the rate is not known."""
    if ns is None or not bits_per_second:
        return FOREVER
    ps, quantum = round(ns * 1000), 8 * QUANTUM_BYTES * 10**12
    return max(1, min(FOREVER, -(-ps * bits_per_second // quantum)))


def pfc(source: bytes, classes: int, time: int) -> bytes:
    """A PFC frame: a mask of classes, and the time in quanta for which they are paused; 0: they are resumed."""
    times = [time if classes >> number & 1 else 0 for number in range(CLASSES)]
    frame = PFC_ADDRESS + source + struct.pack(">HHH8H", MAC_CONTROL, PFC, classes, *times)
    return frame.ljust(LEAST, b"\0")


def experimental(source: bytes, text: str) -> bytes:
    """A frame to the same address that says in words what PFC has no field for."""
    return (PFC_ADDRESS + source + struct.pack(">H", LOCAL_EXPERIMENT) + text.encode()).ljust(LEAST, b"\0")


@lru_cache(maxsize=1 << 16)
def _headers(source: int, destination: int, ports: tuple[int, int], length: int, ecn: int) -> bytes:
    header = struct.pack(">BBHHHBBH", 0x45, ecn, length - 14, 0, 0x4000, 64, 17, 0) + ip(source) + ip(destination)
    total = sum(struct.unpack(">10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", total ^ 0xFFFF) + header[12:]
    udp = struct.pack(">HHHH", *ports, length - 34, 0)
    return mac(destination, 0) + mac(source, 0) + b"\x08\x00" + header + udp


def packet(flow: int, source: int, destination: int, offset: int, length: int, ack: bool, ecn: bool) -> bytes:
    """The first bytes of a packet of a flow, or of its acknowledgement, which goes from the flow's destination to its source.

    length  of the whole frame, bytes, at least HEADERS
    The payload begins with the number of the flow and the position in it. A mark of an acknowledgement is an echo, and not in
    its header.
    """
    own = 49152 + flow % 16384
    if ack:
        headers = _headers(destination, source, (DISCARD, own), length, NOT_ECT)
    else:
        headers = _headers(source, destination, (own, DISCARD), length, CE if ecn else ECT)
    return (headers + PAYLOAD.pack(flow, offset))[:length]
