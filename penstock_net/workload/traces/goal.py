"""GOAL, the schedules of LogGOPSim: as text, and as the binary file that its txt2bin makes of it.

    num_ranks 2
    rank 0 {
    l1: calc 5000                            nanoseconds
    l2: send 8192b to 1 tag 0                and perhaps: cpu 0 nic 0
    l2 requires l1                           after the end of l1; irequires: after its beginning
    }

The binary form: u64 4223, u32 ranks, u8 CPUs, u8 NICs; then, which offsets count from, behind the first 8 bytes, per rank u64
begin and u64 end of its part. A part is u32 operations, u32 roots, u32 per root, 39 bytes per operation (`_NODE`), and a list of
u32 operation numbers of which each operation has two ranges: those that wait for its end, and for its beginning.
"""

import re
import struct
from collections.abc import Iterator

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, read_bytes, read_text, whole_cell
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.workload.traces.dag import MAX_OPERATIONS, RECV, SEND, Trace

MAGIC = struct.pack("<Q", 4223)
_NODE = np.dtype(
    [("waits", "<u4"), ("kind", "u1"), ("peer", "<u4"), ("size", "<u8"), ("tag", "<u4"), ("cpu", "u1"), ("nic", "u1")]
    + [(f"{of}_{what}", "<u4") for of in ("end", "begin") for what in ("count", "first")]
)
_ANY = 2**32 - 1
_LABEL = r"[A-Za-z][A-Za-z0-9_]*"
_NUMBER = r"\d{1,20}"
_OPERATION = re.compile(
    rf"(?:({_LABEL})\s*:\s*)?(?:calc\s+({_NUMBER})|(send|recv)\s+({_NUMBER})b\s+(to|from)\s+(-1|{_NUMBER})(?:\s+tag\s+(-1|{_NUMBER}))?)"
    rf"(?:\s+cpu\s+({_NUMBER}))?(?:\s+nic\s+({_NUMBER}))?",
    re.ASCII,
)
_WAIT = re.compile(rf"({_LABEL})\s+(i?requires)\s+({_LABEL})", re.ASCII)
_COMMENT = re.compile(r"//|/\*")
_RANK = re.compile(rf"rank\s+({_NUMBER})\s*\{{", re.ASCII)
_RANKS = re.compile(rf"num_ranks\s+({_NUMBER})", re.ASCII)
_CPUS = "operations on another processor or NIC than 0, which run whenever what they wait for is done"


def read(path: str) -> Trace:
    """The trace in a file."""
    raw = read_bytes(path)
    return _Binary(path, raw).trace if raw.startswith(MAGIC) else _Text(path, read_text(path)).trace


class _Text:
    def __init__(self, path: str, text: str) -> None:
        self.path, self.line = path, 0
        self.labels: dict[str, int] = {}
        self.waits: list[tuple[int, str, str, str]] = []
        self.rank = -1
        self.seen: set[int] = set()
        self.given: Trace | None = None
        for number, line in _without_comments(text, path):
            self.line = number
            self._statement(line)
        if self.given is None:
            raise self._error("there is no num_ranks", remedy="is the file truncated?")
        if self.rank >= 0:
            raise self._error(f"the block of rank {self.rank} is not closed", remedy="is the file truncated?")

    @property
    def trace(self) -> Trace:
        if self.given is None:
            raise self._error("num_ranks must come first")
        return self.given

    def _statement(self, line: str) -> None:
        if match := _RANKS.fullmatch(line):
            if self.given is not None:
                raise self._error("num_ranks is given twice")
            self.given = Trace(self.path, self._number(match[1], "num_ranks", 1, MAX_HOSTS))
        elif self.rank < 0:
            match = _RANK.fullmatch(line)
            if not match:
                raise self._unknown(line, "rank N {")
            self._open(self._number(match[1], "rank", 0, self.trace.ranks - 1))
        elif line == "}":
            self._close()
        elif match := _WAIT.fullmatch(line):
            self.waits.append((self.line, match[1], match[2], match[3]))
        elif match := _OPERATION.fullmatch(line):
            self._operation(match)
        else:
            raise self._unknown(line, "LABEL: send, recv or calc, or LABEL requires LABEL")

    def _open(self, rank: int) -> None:
        if rank in self.seen:
            raise self._error(f"rank {rank} has a block already")
        self.seen.add(rank)
        self.rank, self.labels, self.waits = rank, {}, []

    def _close(self) -> None:
        for number, op, how, earlier in self.waits:
            self.line = number
            for label in (op, earlier):
                if label not in self.labels:
                    raise self._error(f"rank {self.rank} has no operation {label}")
            self.trace.wait(self.labels[op], self.labels[earlier], how == "irequires")
        self.rank = -1

    def _operation(self, match: re.Match[str]) -> None:
        label, time, what, size, way, peer, tag, cpu, nic = match.groups()
        if label in self.labels:
            raise self._error(f"rank {self.rank} has an operation {label} already")
        if time:
            op = self.trace.calc(self.rank, 1000 * self._number(time, "calc", 0, MAX_TIME_PS // 1000), self.line)
        else:
            if way != {"send": "to", "recv": "from"}[what]:
                raise self._error("it is send ... to and recv ... from")
            if "-1" in (peer, tag):
                raise self._error("a message from any rank or of any tag depends on what comes first, which a flow cannot")
            add = self.trace.send if what == "send" else self.trace.recv
            numbers = self._number(size, "size", 0, MAX_FLOW_BYTES), self._number(tag or "0", "tag", 0, 2**32 - 2)
            op = add(self.rank, self._number(peer, "rank", 0, self.trace.ranks - 1), *numbers, self.line)
        if int(cpu or 0) or int(nic or 0):
            self.trace.note(_CPUS)
        if label:
            self.labels[label] = op

    def _number(self, text: str, name: str, low: int, high: int) -> int:
        try:
            return whole_cell(text, name, low, high)
        except SpecError as error:
            raise error.within(place=f"{self.path}:{self.line}") from None

    def _unknown(self, line: str, expected: str) -> SpecError:
        return SpecError(f"expected {expected}", value=line, place=f"{self.path}:{self.line}")

    def _error(self, rule: str, remedy: str = "") -> SpecError:
        return SpecError(rule, remedy=remedy, place=f"{self.path}:{self.line}")


def _without_comments(text: str, path: str) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines that are not empty, without comments; "}" is a line of its own."""
    inside = 0
    for number, line in enumerate(text.split("\n"), start=1):
        at, kept = 0, []
        while at < len(line):
            if inside:
                end = line.find("*/", at)
                inside, at = (inside, len(line)) if end < 0 else (0, end + 2)
                continue
            match = _COMMENT.search(line, at)
            kept.append(line[at : match.start() if match else len(line)])
            inside, at = (number, match.end()) if match and match[0] == "/*" else (0, len(line))
        for part in re.split(r"(\})", " ".join(kept)):
            if part.strip():
                yield number, part.strip()
    if inside:
        raise SpecError("a comment that is not closed", place=f"{path}:{inside}")


class _Binary:
    def __init__(self, path: str, raw: bytes) -> None:
        self.path, self.raw = path, raw[8:]
        ranks, _, _ = self._unpack("<IBB", 0)
        if ranks * 16 + 6 > len(self.raw):
            raise self._error(f"{ranks} ranks do not fit into a file of {len(raw)} bytes")
        self.trace = Trace(path, ranks, unit="operation")
        self.trace.files = [f"{path}: rank {rank}" for rank in range(ranks)]
        parts = [self._unpack("<QQ", 6 + 16 * rank) for rank in range(ranks)]
        if sum(max(end - begin, 0) for begin, end in parts) > len(self.raw):
            raise self._error("parts of ranks overlap")
        for rank, (begin, end) in enumerate(parts):
            self._part(rank, begin, end)

    def _part(self, rank: int, begin: int, end: int) -> None:
        place = f"rank {rank}"
        if not begin + 8 <= end <= len(self.raw):
            raise self._error(f"the part from {begin} to {end} is not in the file, which has {len(self.raw)} bytes", place)
        count, roots = self._unpack("<II", begin)
        nodes_at = begin + 8 + 4 * roots
        list_at = nodes_at + _NODE.itemsize * count
        if list_at > end:
            raise self._error(f"{count} operations do not fit into the part from {begin} to {end}", place)
        if len(self.trace) + count > MAX_OPERATIONS:
            raise self._error(f"more than {MAX_OPERATIONS} operations", place)
        nodes = np.frombuffer(self.raw, _NODE, count, nodes_at)
        listed = np.frombuffer(self.raw, "<u4", (end - list_at) // 4, list_at)
        if nodes["end_count"].sum(dtype=np.uint64) + nodes["begin_count"].sum(dtype=np.uint64) > len(listed):
            raise self._error("operations have more that wait for them than the part lists", place)
        first = len(self.trace)
        for i, node in enumerate(nodes.tolist()):
            self._operation(rank, i, *node[1:5])
        if others := int(np.count_nonzero(nodes["cpu"] | nodes["nic"])):
            self.trace.note(_CPUS, others)
        waiting = [0] * count
        for i, node in enumerate(nodes.tolist()):
            for on_start, (many, at) in enumerate((node[7:9], node[9:11])):
                later = listed[at : at + many]
                if len(later) < many or (many and int(later.max()) >= count):
                    raise self._error("what waits for it is not in the part", f"rank {rank}: operation {i}")
                for op in later.tolist():
                    waiting[op] += 1
                    self.trace.wait(first + op, first + i, bool(on_start))
        wrong = np.flatnonzero(np.array(waiting) != nodes["waits"])
        if len(wrong):
            i = int(wrong[0])
            rule = f"waits for {nodes['waits'][i]} operations, but {waiting[i]} list it"
            raise self._error(rule, f"rank {rank}: operation {i}")

    def _operation(self, rank: int, i: int, kind: int, peer: int, size: int, tag: int) -> None:
        if kind == 3:
            if size > MAX_TIME_PS // 1000:
                raise self._error(f"computes {size} ns", f"rank {rank}: operation {i}")
            self.trace.calc(rank, 1000 * size, i)
        elif kind not in (SEND + 1, RECV + 1):
            raise self._error(f"is of type {kind}; known are 1 (send), 2 (receive), 3 (compute)", f"rank {rank}: operation {i}")
        elif _ANY in (peer, tag):
            rule = "a message from any rank or of any tag depends on what comes first, which a flow cannot"
            raise self._error(rule, f"rank {rank}: operation {i}")
        else:
            (self.trace.send if kind == SEND + 1 else self.trace.recv)(rank, peer, size, tag, i)

    def _unpack(self, form: str, at: int) -> tuple[int, ...]:
        if at + struct.calcsize(form) > len(self.raw):
            raise self._error("the file is truncated")
        return struct.unpack_from(form, self.raw, at)

    def _error(self, rule: str, place: str = "") -> SpecError:
        return SpecError(rule, place=f"{self.path}: {place}" if place else self.path)
