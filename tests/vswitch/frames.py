"""Frames to send through the switch."""

import ipaddress
import struct


def udp(source, target, source_port=1000, target_port=2000, payload=b""):
    """An Ethernet frame with UDP over IPv4 or IPv6; checksums are zero."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    body = struct.pack("!HHHH", source_port, target_port, 8 + len(payload), 0) + payload
    ethernet = b"\2" * 6 + b"\4" * 6
    if a.version == 4:
        header = struct.pack("!HBBHHHBBH", 0x0800, 0x45, 0, 20 + len(body), 0, 0, 64, 17, 0)
        return ethernet + header + a.packed + b.packed + body
    return ethernet + struct.pack("!HIHBB16s16s", 0x86DD, 6 << 28, len(body), 17, 64, a.packed, b.packed) + body


def payload_of(frame):
    return frame[42:]
