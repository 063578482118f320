"""Set-up of AF_XDP: a socket, the memory and rings shared with the kernel, and a BPF program that redirects frames to it.

No libbpf or libxdp: the program has six instructions.  It redirects the frames of one queue of an interface to the socket and
passes those of other queues to the kernel; it is unloaded when its descriptor is closed.
"""

import contextlib
import errno
import platform
import struct

from penstock_net.vswitch.linux.netlink import Netlink, outgoing
from penstock_net.vswitch.linux.netns import libc
from penstock_net.vswitch.world import ctypes, mmap, os, socket, time

AF_XDP, SOL_XDP = 44, 283
OFFSETS, RX_RING, TX_RING, UMEM_REG, FILL_RING, COMPLETION_RING, STATISTICS = range(1, 8)
PAGES = {"receive": 0, "transmit": 0x80000000, "fill": 0x100000000, "completion": 0x180000000}
OPTIONS = {"receive": RX_RING, "transmit": TX_RING, "fill": FILL_RING, "completion": COMPLETION_RING}
ENTRY_BYTES = {"receive": 16, "transmit": 16, "fill": 8, "completion": 8}
COPY, NEED_WAKEUP = 2, 8
BPF_CALLS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
MAP_CREATE, MAP_UPDATE, PROGRAM_LOAD, LINK_CREATE = 0, 2, 5, 28
XSKMAP, PROGRAM_XDP, ATTACH_XDP = 17, 6, 37
PASS, REDIRECT_MAP = 2, 51
RELEASE_S = 0.3  # a queue is free only some 40 ms after the socket that had it was closed


def _refused() -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code))


def bpf(command: int, attributes: bytes) -> int:
    """The system call; returns its result, in most cases a descriptor."""
    number = BPF_CALLS.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"bpf() is not known for {platform.machine()}")
    room = ctypes.create_string_buffer(attributes.ljust(128, b"\0"), 128)
    result = int(libc().syscall(number, command, ctypes.byref(room), 128))
    if result < 0:
        raise _refused()
    return result


def instruction(code: int, target: int = 0, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """One instruction of a BPF program."""
    return struct.pack("<BBhi", code, source << 4 | target, offset, value)


def program(table: int) -> bytes:
    """return bpf_redirect_map(table, context->rx_queue_index, XDP_PASS)"""
    return b"".join(
        (
            instruction(0x61, 2, 1, 16),  # r2 = *(u32*)(r1 + 16)
            instruction(0x18, 1, 1, 0, table),  # r1 = table, in two halves
            instruction(0),
            instruction(0xB7, 3, 0, 0, PASS),  # r3 = what to do where the table has nothing
            instruction(0x85, value=REDIRECT_MAP),
            instruction(0x95),
        )
    )


def _load(table: int) -> int:
    code = program(table)
    text, license = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"Apache-2.0")
    return bpf(PROGRAM_LOAD, struct.pack("<IIQQ", PROGRAM_XDP, len(code) // 8, ctypes.addressof(text), ctypes.addressof(license)))


class Socket:
    """An AF_XDP socket with its memory; it receives frames after `bind`."""

    def __init__(self, chunks: int, chunk_bytes: int) -> None:
        self.holds = contextlib.ExitStack()
        self.rings: dict[str, tuple[int, int, int, int, int]] = {}
        self.index, self.lost_by_device = 0, 0
        try:
            sock = self.holds.enter_context(socket.socket(AF_XDP, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC))
            self.fd, self.sock = sock.fileno(), sock
            self.route = self.holds.enter_context(Netlink())
            memory = mmap.mmap(-1, chunks * chunk_bytes, mmap.MAP_SHARED)
            self.memory_at = self._address(memory)
            sock.setsockopt(SOL_XDP, UMEM_REG, struct.pack("<QQIII4x", self.memory_at, len(memory), chunk_bytes, 0, 0))
            for option in OPTIONS.values():
                sock.setsockopt(SOL_XDP, option, chunks // 2)
            offsets = struct.unpack("<16Q", sock.getsockopt(SOL_XDP, OFFSETS, 128))
            for i, name in enumerate(PAGES):
                producer, consumer, entries, flags = offsets[4 * i : 4 * i + 4]
                size = entries + chunks // 2 * ENTRY_BYTES[name]
                at = self._address(mmap.mmap(self.fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=PAGES[name]))
                self.rings[name] = (at + producer, at + consumer, at + flags, at + entries, chunks // 2)
        except BaseException:
            self.close()
            raise

    def _address(self, block: mmap.mmap) -> int:
        """Address of a mapping, until `close`: a mapped ring keeps the socket, and so the queue, in use."""
        first = ctypes.c_char.from_buffer(block)
        address = ctypes.addressof(first)
        del first  # else the block could not be closed
        self.holds.callback(block.close)
        return address

    def bind(self, device: str, queue: int) -> None:
        """Take the frames of a queue."""
        index = socket.if_nametoindex(device)
        address = struct.pack("<HHIII", AF_XDP, COPY | NEED_WAKEUP, index, queue, 0)
        end = time.monotonic() + RELEASE_S
        while libc().bind(self.fd, address, len(address)) < 0:
            if ctypes.get_errno() != errno.EBUSY or time.monotonic() > end:
                raise _refused()
            time.sleep(0.005)
        table = self._hold(bpf(MAP_CREATE, struct.pack("<IIII", XSKMAP, 4, 4, queue + 1)))
        key, value = ctypes.c_uint32(queue), ctypes.c_uint32(self.fd)
        bpf(MAP_UPDATE, struct.pack("<I4xQQQ", table, ctypes.addressof(key), ctypes.addressof(value), 0))
        code = self._hold(_load(table))
        self._hold(bpf(LINK_CREATE, struct.pack("<IIII", code, index, ATTACH_XDP, 0)))
        self.index, self.lost_by_device = index, outgoing(self.route, index).dropped

    def _hold(self, fd: int) -> int:
        self.holds.callback(os.close, fd)
        return fd

    def losses(self) -> int:
        """Frames that the kernel dropped: no chunk or no slot was free, it was too long, or the interface had no room."""
        dropped, _, invalid, full, _, _ = struct.unpack("<6Q", self.sock.getsockopt(SOL_XDP, STATISTICS, 48))
        return int(dropped + invalid + full) + outgoing(self.route, self.index).dropped - self.lost_by_device

    def close(self) -> None:
        """Release everything; the frames of the queue go to the kernel again."""
        self.holds.close()
