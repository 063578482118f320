"""Ports by name, checked before anything is opened, and wrappers that fit any of them.

    with open_port("tap", name="tap0") as port: ...
    open_port("packet", device="eth0")
    open_port("xdp", device="eth0", queue=0)
    open_port("udp", local="10.0.0.1:7000", peer="10.0.0.2:7000")
    open_port("pcap", read="in.pcapng", timing="recorded", write="out.pcapng")
    left, right = open_link(rate="10Gbps", delay="50us")
    capture(port, "seen.pcapng");  faults(port, drop=0.01);  trace(port)

All ports that exchange frames have the same `headers`: True for super-frames of up to 64 KB and open check sums, False for frames
as they are on a wire.
"""

import errno
import fcntl
import ipaddress
import os
import re
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.errors import SpecError, nearest
from penstock.inputs import boolean, whole
from penstock.units import parse_rate, parse_size, parse_time
from penstock.vswitch.attach import edge, pcapfile
from penstock.vswitch.ports.base import Clock, PortHandle

ETH_P_ALL = 0x0003
SIOCGIFFLAGS, SIOCGIFMTU, IFF_UP = 0x8913, 0x8921, 1
BATCH = 32
IP_MTU, IP_MTU_DISCOVER, IP_PMTUDISC_DONT = 14, 10, 0
_DOCTOR = "(penstock.vswitch.daemon.doctor.doctor() says what this machine permits)"


def _refused(what: str, error: OSError, rights: str = "CAP_NET_ADMIN and CAP_NET_RAW") -> SpecError:
    if error.errno in (errno.EPERM, errno.EACCES):
        return SpecError(f"{what}: not permitted; run as root or with {rights} {_DOCTOR}")
    if error.errno == errno.ENOENT:
        return SpecError(f"{what}: {error.filename or 'it'} does not exist on this machine; load the kernel's module for it")
    if error.errno == errno.EBUSY:
        return SpecError(f"{what}: it is in use by another program; end that or choose another name")
    return SpecError(f"{what}: {error.strerror or error}")


def _device_name(name: Any, what: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[^\s/:%\x00]{1,15}", name) or not name.isascii() or name in (".", ".."):
        raise SpecError(f"{what} = {name!r}: must be 1 to 15 characters without space, '/', ':' and '%'")
    return name


def _tap(*, name: str, headers: bool = True, shared: bool = False) -> PortHandle:
    from penstock.vswitch.ports.tap import open_tap

    _device_name(name, "tap.name")
    try:
        port = open_tap(name, boolean(headers, "tap.headers"), boolean(shared, "tap.shared"))
    except OSError as e:
        if e.errno == errno.EINVAL:
            raise SpecError(
                f"tap {name}: there is an interface of that name that is no such TAP, or it was opened with another "
                "`shared`; choose another name, or open all of its ports alike"
            ) from None
        raise _refused(f"tap {name}", e) from None
    port.losses = lambda: edge.device_losses(name)["tx_dropped"]
    return port


def _packet(
    *, device: str, headers: bool = True, batch: int = BATCH, bypass: bool = True, receive_buffer: str | int = "8MB"
) -> PortHandle:
    from penstock.vswitch.ports.packet import open_packet

    _device_name(device, "packet.device")
    batch = whole(batch, "packet.batch", 1, 64)
    headers, bypass = boolean(headers, "packet.headers"), boolean(bypass, "packet.bypass")
    size = parse_size(receive_buffer, "packet.receive_buffer", positive=True)
    _up_with_mtu(device, "packet.device")
    sock = None
    try:
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)  # 0: nothing until it is bound
        _set_receive_buffer(sock, size)
        port = open_packet(sock, headers, batch, bypass)
        sock.bind((device, ETH_P_ALL))
    except BaseException as e:
        if sock:
            sock.close()
        if isinstance(e, OSError):
            raise _refused(f"packet {device}", e) from None
        raise
    port.name = device
    port.losses = lambda: edge.socket_losses(port.fd)
    return port


def _xdp(*, device: str, queue: int = 0, headers: bool = False, batch: int = BATCH, memory: str | int = "16MiB") -> PortHandle:
    from penstock.vswitch.ports.xdp import open_xdp

    _device_name(device, "xdp.device")
    queue, batch = whole(queue, "xdp.queue", 0, 1023), whole(batch, "xdp.batch", 1, 64)
    if boolean(headers, "xdp.headers"):
        raise SpecError("xdp.headers = True: AF_XDP carries frames as they are on a wire; use headers = False, or a packet port")
    chunks = parse_size(memory, "xdp.memory", positive=True) // 4096
    if not 128 <= chunks <= 1 << 18 or chunks & (chunks - 1):
        raise SpecError(f"xdp.memory = {memory}: must be a power of two from 512KiB to 1GiB")
    mtu = _up_with_mtu(device, "xdp.device")
    try:
        port = open_xdp(device, queue, chunks, batch, min(mtu + 14, 4092))
    except OSError as e:
        if e.errno in (errno.EINVAL, errno.ERANGE, errno.EOPNOTSUPP):
            raise SpecError(
                f"xdp {device}: the interface refuses it; it must have a queue {queue}, and an MTU of at most about "
                f"3500 (it is {mtu}; of a veth pair the other end's counts, too)"
            ) from None
        if e.errno in (errno.EAFNOSUPPORT, errno.ENOSYS):
            raise SpecError(f"xdp {device}: this kernel has no AF_XDP (CONFIG_XDP_SOCKETS); use a packet port") from None
        raise _refused(f"xdp {device} queue {queue}", e, "CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF") from None
    port.name = device
    return port


def _up_with_mtu(device: str, what: str) -> int:
    """The MTU of an interface, which must be there and up."""
    names = [n for _, n in socket.if_nameindex()]
    if device not in names:
        raise SpecError(f"{what} = {device!r}: there is no such interface{nearest(device, names)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        flags, mtu = (
            struct.unpack_from(form, fcntl.ioctl(probe, call, struct.pack("16s24x", device.encode())), 16)[0]
            for call, form in ((SIOCGIFFLAGS, "H"), (SIOCGIFMTU, "i"))
        )
    if not flags & IFF_UP:
        raise SpecError(f"{what} = {device!r}: the interface is down; ip link set {device} up")
    return int(mtu)


def _set_receive_buffer(sock: socket.socket, size: int) -> None:
    try:
        sock.setsockopt(socket.SOL_SOCKET, 33, size)  # SO_RCVBUFFORCE: beyond net.core.rmem_max, if we may
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def _address(text: Any, what: str, *, any_port: bool = False) -> tuple[Any, int]:
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})", text) if isinstance(text, str) else None
    try:
        if not match:
            raise ValueError
        number = int(match[3])
        if number > 65535 or (number == 0 and not any_port):
            raise ValueError
        return ipaddress.ip_address(match[1] or match[2]), number
    except ValueError:
        raise SpecError(f'{what} = {text!r}: expected address and port, such as "10.0.0.1:7000" or "[fd00::1]:7000"') from None


def _udp(
    *, local: str, peer: str, headers: bool = True, batch: int = BATCH, segments: bool = True, receive_buffer: str | int = "8MB"
) -> PortHandle:
    from penstock.vswitch.ports.udp import open_udp

    here, here_port = _address(local, "udp.local", any_port=True)
    there, there_port = _address(peer, "udp.peer")
    if here.version != there.version:
        raise SpecError(f"udp.peer = {peer!r}: is of IPv{there.version}, but udp.local = {local!r} is of IPv{here.version}")
    if there.is_unspecified or there.is_multicast:
        raise SpecError(f"udp.peer = {peer!r}: must be the address of one machine; only that peer is listened to")
    if isinstance(there, ipaddress.IPv6Address) and there.scope_id:
        raise SpecError(f"udp.peer = {peer!r}: addresses with a scope are not supported; use a global one")
    batch = whole(batch, "udp.batch", 1, 64)
    headers, segments = boolean(headers, "udp.headers"), boolean(segments, "udp.segments")
    size = parse_size(receive_buffer, "udp.receive_buffer", positive=True)
    family = socket.AF_INET if here.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        _set_receive_buffer(sock, size)
        if family == socket.AF_INET:
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)  # long frames go as fragments
        sock.bind((str(here), here_port))
        most = _path_mtu(family, here, there, there_port) - (28 if here.version == 4 else 48) if segments else 0
        port = open_udp(sock, (there.packed, there_port), headers, batch, max(most, 0))
    except OSError as e:
        sock.close()
        if e.errno in (errno.EADDRNOTAVAIL, errno.EADDRINUSE):
            why = "is not an address of this machine" if e.errno == errno.EADDRNOTAVAIL else "is in use by another socket"
            raise SpecError(f"udp.local = {local!r}: {why}") from None
        raise _refused(f"udp {local}", e) from None
    port.name = f"{local}-{peer}"
    port.losses = lambda: edge.socket_losses(port.fd)
    return port


def _path_mtu(family: int, here: Any, there: Any, number: int) -> int:
    if family == socket.AF_INET6:
        return 1280
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((str(here), 0))
        try:
            probe.connect((str(there), number))
        except OSError:  # no way there yet
            return 1500
        return probe.getsockopt(socket.IPPROTO_IP, IP_MTU)


def _pcap(
    *,
    read: str | Path | None = None,
    write: str | Path | None = None,
    timing: str | int | float = "recorded",
    rounds: int = 1,
    headers: bool = True,
    clock: Clock | None = None,
) -> PortHandle:
    from penstock.vswitch.ports.pcap import open_pcap

    if read is None and write is None:
        raise SpecError("pcap: name a file to `read`, or one to `write`, or both")
    rounds = whole(rounds, "pcap.rounds", 1, 10**9)
    headers = boolean(headers, "pcap.headers")
    if timing == "recorded":
        interval = -1
    elif timing == "fast":
        interval = 0
    else:
        interval = parse_time(timing, 'pcap.timing ("recorded", "fast", or the time from frame to frame)') // 1000
    frames = pcapfile.as_records(pcapfile.read_frames(read)) if read is not None else bytearray()
    if read is not None and not frames:
        raise SpecError(f"{read}: there are no frames in it")
    blocks = write is not None and Path(write).suffix != ".pcap"
    if write is not None and Path(write).suffix not in (".pcap", ".pcapng"):
        raise SpecError(f"pcap.write = {str(write)!r}: the name must end in .pcap or .pcapng")
    origin = 0 if clock is not None else time.time_ns() - time.monotonic_ns()
    try:
        port = open_pcap(
            frames,
            interval,
            rounds,
            None if write is None else os.fspath(write),
            pcapfile.PCAPNG_BEGINNING if blocks else pcapfile.PCAP_BEGINNING,
            blocks,
            origin,
            headers,
            clock,
        )
    except OSError as e:
        raise SpecError(f"pcap.write = {str(write)!r}: {e.strerror or e}") from None
    port.name = str(read or write)
    return port


KINDS: dict[str, Callable[..., PortHandle]] = {"tap": _tap, "packet": _packet, "xdp": _xdp, "udp": _udp, "pcap": _pcap}


def open_port(kind: str, **options: Any) -> PortHandle:
    """A port of a kind; every kind takes `headers`.

    tap: name, shared. packet: device, batch, bypass, receive_buffer. xdp: device, queue, batch, memory (without headers).
    udp: local, peer, batch, segments, receive_buffer. pcap: read, write, timing ("recorded", "fast" or a time), rounds, clock.
    """
    if kind not in KINDS:
        raise SpecError(f"port kind {kind!r} is not known{nearest(kind, KINDS)}")
    maker = KINDS[kind]
    known = maker.__kwdefaults__ or {}
    required = [n for n in maker.__annotations__ if n not in known and n != "return"]
    if unknown := set(options) - set(known) - set(required):
        raise SpecError(f"{kind}: unknown option {min(unknown)!r}{nearest(min(unknown), [*required, *known])}")
    if missing := [n for n in required if n not in options]:
        raise SpecError(f"{kind}: the option {missing[0]!r} is missing")
    return maker(**options)


def _share(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise SpecError(f"{what} = {value!r}: must be a share from 0 to 1")
    return round(value * 2**32)


def open_link(
    *,
    rate: str | int = "10Gbps",
    delay: str | int | float = "10us",
    loss: float = 0.0,
    burst: str | int = 0,
    seed: int = 1,
    memory: str | int = "4MiB",
    headers: bool = True,
    clock: Clock | None = None,
) -> tuple[PortHandle, PortHandle]:
    """The two ends of a link in this process.

    `burst` bytes may pass faster than `rate` after a rest; `memory` bounds the bytes on the way in each direction, the ones that
    wait for the rate included. With a `clock` nothing is left to chance: the same calls give the same answers.
    """
    from penstock.vswitch.ports.link import open_link as ends

    bits = parse_rate(rate, "link.rate")
    if bits > 8 * 10**12:
        raise SpecError(f"link.rate = {rate}: at most 8 Tbps")
    delay_ps = parse_time(delay, "link.delay")
    size = parse_size(memory, "link.memory", positive=True)
    if not 1 << 18 <= size <= 1 << 32:
        raise SpecError(f"link.memory = {memory}: must be from 256 KiB to 4 GiB")
    number = whole(seed, "link.seed", 0, 2**62)
    size += -size % 16
    way = [round(8 * 10**12 / bits), delay_ps, parse_size(burst, "link.burst"), _share(loss, "link.loss")]
    return ends(boolean(headers, "link.headers"), clock, [*way, _random(number, 0), size], [*way, _random(number, 1), size])


def _random(seed: int, stream: int) -> int:
    """The beginning of a stream of random numbers: never zero."""
    from penstock.hashing import mix64

    return int(mix64(2 * seed + stream + 1)) or 1


# ---- Wrappers ----


def capture(port: PortHandle, path: str | Path) -> PortHandle:
    """A port that writes every frame, and the direction it went, to a .pcap or .pcapng file; closing it closes `port`."""
    from penstock.vswitch.ports.wrap import open_capture

    return open_capture(port, _pcap(write=path, headers=port.headers))


def faults(
    port: PortHandle,
    *,
    drop: float = 0.0,
    duplicate: float = 0.0,
    corrupt: float = 0.0,
    reorder: float = 0.0,
    no_room: float = 0.0,
    direction: str = "both",
    seed: int = 1,
) -> PortHandle:
    """A port that harms a share of the frames: loses them, doubles them, flips a bit, swaps neighbours, or has no room for them.

    `port.report()` counts what was done, by direction.
    """
    from penstock.vswitch.ports.wrap import open_faults

    if direction not in ("in", "out", "both"):
        raise SpecError(f'faults.direction = {direction!r}: must be "in", "out" or "both"')
    shares = {"drop": drop, "duplicate": duplicate, "corrupt": corrupt, "reorder": reorder, "no_room": no_room}
    harm = [_share(value, f"faults.{name}") for name, value in shares.items()]
    number = whole(seed, "faults.seed", 0, 2**62)
    ways = [[_random(number, i), *(harm if direction in (side, "both") else [0] * 5)] for i, side in enumerate(("in", "out"))]
    return open_faults(port, ways)


def trace(port: PortHandle, last: int = 1000) -> PortHandle:
    """A port that remembers the last frames that passed: `port.report()` is a list of (ns, "in" or "out", bytes, digest)."""
    from penstock.vswitch.ports.wrap import open_trace

    return open_trace(port, whole(last, "trace.last", 1, 10**7))
