"""The reader's side of a capture: a pcapng file of the frames that pass the ports of a running switch.

    seen = capture(["a"], "x.pcapng", drops=True, seconds=10)
    seen["frames"], seen["missed"]

The worker writes blocks into shared memory and never waits; this process copies them into the file.
"""

import contextlib
import ipaddress
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import penstock_net.pcapng as pcapng
from penstock_net.errors import PenstockError, SpecError
from penstock_net.vswitch.daemon import places, protocol
from penstock_net.vswitch.world import mmap, os, pathlib, socket, threading, time

SHARED_BYTES = 4096  # before the ring: written, read and missed, 64 bytes apart
PROTOCOLS = {6: "TCP", 17: "UDP"}
WAIT = 0.002  # s, between two reads of an empty ring


class Seen(NamedTuple):
    """A frame of a capture file."""

    ns: int  # since 1970
    interface: str  # the port
    direction: str  # in: into the switch
    queue: int
    frame: bytes
    length: int  # of the whole frame
    missed: int  # frames that the capture missed just before this one
    comment: str  # "dropped: full"


def beginning(names: Sequence[str]) -> bytes:
    """The first blocks of a file: a section, and an interface per port."""
    return pcapng.section() + b"".join(map(pcapng.interface, names))


def read_capture(data: bytes) -> Iterator[Seen]:
    """The frames of a file that `capture` wrote, with their metadata."""
    at, names = 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        body = data[at + 8 : at + size - 4]
        if kind == 1:
            names.append(_options(body[8:]).get(2, b"").decode())
        elif kind == 6:
            interface, high, low, kept, length = struct.unpack_from("<5I", body)
            options = _options(body[20 + kept + -kept % 4 :])
            yield Seen(
                high << 32 | low,
                names[interface],
                "in" if options[2][0] & 3 == 1 else "out",
                int.from_bytes(options[6], "little"),
                body[20 : 20 + kept],
                length,
                int.from_bytes(options.get(4, b""), "little"),
                options.get(1, b"").decode(),
            )
        at += size


def _options(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from("<HH", data, at)
        if code == 0:
            break
        found[code] = data[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
    return found


def line(seen: Seen) -> str:
    """A frame in one line: time of day, port, direction, queue, source, destination and protocol."""
    frame, at = seen.frame, 18 if seen.frame[12:14] == b"\x81\x00" else 14
    kind, start, what = frame[at - 2 : at], -1, "a frame"
    protocol, ends = 0, [""]
    if kind == b"\x08\x00" and len(frame) >= at + 20:
        protocol, start = frame[at + 9], at + 4 * (frame[at] & 15)
        ends = [str(ipaddress.ip_address(frame[k : k + 4])) for k in (at + 12, at + 16)]
    elif kind == b"\x86\xdd" and len(frame) >= at + 40:
        protocol, start = frame[at + 6], at + 40
        ends = [str(ipaddress.ip_address(frame[k : k + 16])) for k in (at + 8, at + 24)]
    elif len(frame) >= 14:
        what = f"{frame[6:12].hex(':')} > {frame[:6].hex(':')} type {kind.hex()}"
    if start >= 0:
        if protocol in PROTOCOLS and len(frame) >= start + 4:
            ends = [f"{end}:{int.from_bytes(frame[start + 2 * i : start + 2 * i + 2])}" for i, end in enumerate(ends)]
        what = f"{' > '.join(ends)} {PROTOCOLS.get(protocol, f'protocol {protocol}')}"
    clock = time.strftime("%H:%M:%S", time.localtime(seen.ns // 10**9)) + f".{seen.ns % 10**9 // 1000:06d}"
    before = f"  ({seen.missed} missed before)" if seen.missed else ""
    comment = f"  {seen.comment}" if seen.comment else ""
    return f"{clock}  {seen.interface} {seen.direction:3} queue {seen.queue}  {what}  {seen.length} B{comment}{before}"


class Ring:
    """Shared memory that a worker fills; its positions are validated, since the worker is not trusted."""

    def __init__(self, fd: int) -> None:
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)
        self.size = len(self.map) - SHARED_BYTES
        self.words = memoryview(self.map)[:SHARED_BYTES].cast("Q")
        self.read = 0

    def take(self) -> bytes:
        """The blocks written since the last call.  SpecError: the positions are invalid."""
        written = self.words[0]
        count = written - self.read
        if not 0 <= count <= self.size:
            raise SpecError("the capture's ring has invalid positions", remedy="is the switch of another version?")
        at = self.read % self.size
        first = min(count, self.size - at)
        data = self.map[SHARED_BYTES + at : SHARED_BYTES + at + first] + self.map[SHARED_BYTES : SHARED_BYTES + count - first]
        self.read = self.words[8] = written
        return data

    @property
    def missed(self) -> int:
        return self.words[16]

    def close(self) -> None:
        self.words.release()
        self.map.close()


class Output:
    """A file, standard output (-) or nothing (None) that gets whole blocks only, also when the disk is full."""

    def __init__(self, file: str | pathlib.Path | None) -> None:
        self.name, self.whole = file, 0  # bytes of whole blocks
        try:
            self.fd = os.dup(1) if str(file) == "-" else os.open(file or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        except OSError as error:
            raise SpecError(f"-w {file}: cannot be written ({error.strerror})") from None

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.fd)

    def write(self, blocks: bytes) -> None:
        """Write blocks.  PenstockError: they do not fit; a file then ends with the last whole block."""
        left = memoryview(blocks)
        try:
            while left:
                left = left[os.write(self.fd, left) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            if str(self.name) != "-":
                at = len(blocks) - len(left)
                fits = max((end for end in _ends(blocks) if end <= at), default=0)
                with contextlib.suppress(OSError):  # a device or a pipe
                    os.ftruncate(self.fd, self.whole + fits)
            raise PenstockError(f"-w {self.name}: the rest cannot be written ({error.strerror})") from None
        self.whole += len(blocks)


def capture(
    ports: Sequence[str] = (),
    file: str | pathlib.Path | None = None,
    *,
    drops: bool = False,
    seconds: float | None = None,
    count: int | None = None,
    snap: int = 65536,
    memory: int = 1 << 24,
    path: str | None = None,
    allow_uid: int | None = None,
    tell: Callable[[Seen], None] | None = None,
    over: threading.Event | None = None,
) -> dict[str, Any]:
    """Write the frames that pass `ports` (empty: all) to a file, for `seconds`, `count` frames, or until `over` is set.

    drops   only dropped frames, with the reasons as comments
    snap    bytes kept of each frame; `memory`: bytes of the buffer shared with the switch
    tell    called with each frame
    Returns the ports, the number of frames, and the number of frames missed because this process was too slow.
    SpecError: no switch answers, it refuses, or the file cannot be created.  PenstockError: the disk is full; the file has the
    frames until then.
    """
    path, over, seen = path or places.default_socket(), over or threading.Event(), 0
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(Output(file))
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(15)
        wish = {"capture": list(ports), "drops": drops, "snap": snap, "memory": memory}
        answer, fds = protocol.converse(connection, path, wish, allow_uid=allow_uid)
        ring = Ring(fds[0])
        stack.callback(ring.close)
        protocol.close(fds)
        start = beginning(answer["ports"])
        out.write(start)
        end = None if seconds is None else time.monotonic() + seconds
        ending = False
        while True:
            data = ring.take()
            ends = _ends(data)[: None if count is None else count - seen]
            seen += len(ends)
            data = data[: ends[-1] if ends else 0]
            out.write(data)
            for each in read_capture(start + data) if tell else ():
                tell(each)  # type: ignore[misc]
            if ending or seen == count:
                break
            if over.is_set() or (end is not None and time.monotonic() >= end):
                with contextlib.suppress(OSError):
                    protocol.send(connection, {"enough": True})
                    protocol.receive(connection)
                ending = True  # after what the worker has written until it stopped
            elif not data:
                ending = protocol.readable(connection, wait_s=WAIT)
        return {"ports": answer["ports"], "frames": seen, "missed": ring.missed}


def _ends(data: bytes) -> list[int]:
    """The offsets of the ends of all blocks."""
    ends, at = [], 0
    while at < len(data):
        at += max(12, struct.unpack_from("<I", data, at + 4)[0])
        ends.append(at)
    return ends
