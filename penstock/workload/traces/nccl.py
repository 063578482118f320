r"""Logs of NCCL and RCCL: the calls that NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL write, a line per rank and call.

    a:7:7 [0] NCCL INFO comm 0x5a rank 0 nranks 2 cudaDev 0 ... commId 0x9 - Init COMPLETE
    a:7:7 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 op 0 root 0 comm 0x5a [nranks=2] \
        stream 0x3

The lines of all ranks may be in one file, in any order but that of each rank. A rank is a GPU (host, process, device); its number
is that in the communicator of all of them, or RCCL's globalrank. Calls of a stream run one after another, those of one opCount
(a group) together; a log says nothing of the computations between them. Lines of another kind are left out.
"""

import re
from typing import NamedTuple

from penstock.errors import SpecError
from penstock.inputs import MAX_FLOW_BYTES, inside, read_text, whole_cell
from penstock.workload.traces.dag import Call, Trace

_HEAD = r"(?:^|\s)(?P<host>[^\s:]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<dev>\d{1,5})\] NCCL INFO "
_CALL = re.compile(
    _HEAD + r"(?P<name>\w{1,40}): opCount (?P<number>[0-9a-f]{1,16}) sendbuff \S+ recvbuff \S+ count (?P<count>\d{1,18}) "
    r"datatype (?P<type>\d{1,3}) op \d{1,10} root (?P<root>\d{1,9}) comm (?P<comm>\S+) \[nranks=(?P<nranks>\d{1,9})\] "
    r"stream (?P<stream>\S+)(?: task \d+ globalrank (?P<global>\d{1,9}))?\s*$",
    re.ASCII,
)
_COMM = re.compile(
    _HEAD + r"(?:ncclCommInit\w* )?comm (?P<comm>\S+) rank (?P<rank>\d{1,9}) nranks (?P<nranks>\d{1,9}) .*?"
    r"(?:commId (?P<id>\S+) )?- Init COMPLETE",
    re.ASCII,
)
_A_CALL = re.compile(r"NCCL INFO \w+: opCount ")
_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)  # of int8, uint8, int32, uint32, int64, uint64, fp16, fp32, fp64, bf16, two of fp8
_NAMES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllToAll": "all_to_all",
    "Broadcast": "broadcast",
    "Bcast": "broadcast",
    "Reduce": "reduce",
    "Gather": "gather",
    "Scatter": "scatter",
}
_OF_ONE_RANK = ("AllGather", "ReduceScatter", "AllToAll", "Gather", "Scatter")  # whose count is what one rank has of the others'

Gpu = tuple[str, int, int]


class _Line(NamedTuple):
    line: int
    gpu: Gpu
    comm: str
    name: str
    number: str
    stream: str
    bytes: int
    root: int
    nranks: int
    rank: int | None  # RCCL's globalrank


def looks_like(head: bytes) -> bool:
    """Whether a file that begins so is a log."""
    return b"NCCL INFO" in head


def read(path: str) -> Trace:
    """The trace in a file."""
    return _Log(path, read_text(path)).trace


class _Log:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.calls: list[_Line] = []
        self.comms: dict[tuple[Gpu, str], tuple[str, int, int]] = {}  # the id of a communicator, the GPU's rank in it, its ranks
        for number, line in enumerate(text.split("\n"), start=1):
            if "NCCL INFO" in line:
                with inside(place=f"{path}:{number}"):
                    self._line(number, line)
        if not self.calls:
            raise SpecError("no call is logged", remedy="set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL", place=path)
        self.members = self._members()
        self.ranks = self._ranks()
        self.trace = Trace(path, len(self.ranks))
        self._add()

    def _line(self, number: int, line: str) -> None:
        if match := _COMM.search(line):
            key = ((match["host"], int(match["pid"]), int(match["dev"])), match["comm"])
            if key in self.comms:
                raise SpecError("this GPU has a communicator of this address already", value=match["comm"])
            self.comms[key] = (match["id"] or f"of {match['nranks']} ranks", int(match["rank"]), int(match["nranks"]))
        elif match := _CALL.search(line):
            self.calls.append(_call(match, number))
        elif _A_CALL.search(line):
            raise SpecError("a call that ends too early or has a field that is not known", value=line.strip()[-80:])

    def _members(self) -> dict[str, dict[int, Gpu]]:
        """The GPUs of each communicator, by their rank in it."""
        members: dict[str, dict[int, Gpu]] = {}
        for (gpu, _), (name, rank, nranks) in self.comms.items():
            if rank >= nranks or rank in members.setdefault(name, {}):
                rule = f"rank {rank} of the communicator {name} is there twice, or more than its ranks"
                raise SpecError(rule, remedy="is it the log of one run?", place=self.path)
            members[name][rank] = gpu
        for call in self.calls:
            if call.rank is not None and (call.gpu, call.comm) not in self.comms:
                name = f"of {call.nranks} ranks"
                self.comms[call.gpu, call.comm] = (name, call.rank, call.nranks)
                if members.setdefault(name, {}).setdefault(call.rank, call.gpu) != call.gpu:
                    raise SpecError(f"globalrank {call.rank} is another GPU, too", place=f"{self.path}:{call.line}")
        return members

    def _ranks(self) -> dict[Gpu, int]:
        """The number of each GPU."""
        gpus = {call.gpu for call in self.calls} | {gpu for gpu, _ in self.comms}
        for name, by_rank in self.members.items():
            if len(by_rank) == len(gpus) and sorted(by_rank) == list(range(len(gpus))):
                return {gpu: rank for rank, gpu in self.members[name].items()}
        raise SpecError(
            f"no communicator has all {len(gpus)} GPUs of the log, by which they could be numbered",
            remedy="log the ranks of all communicators: NCCL_DEBUG_SUBSYS=INIT,COLL",
            place=self.path,
        )

    def _add(self) -> None:
        groups: dict[str, tuple[int, ...]] = {}
        last: dict[tuple[Gpu, str], tuple[tuple[str, str], list[int], list[int]]] = {}  # of a stream: its group, before it
        for call in self.calls:
            with inside(place=f"{self.path}:{call.line}"):
                if (call.gpu, call.comm) not in self.comms:
                    raise SpecError("nothing says which rank this GPU has in this communicator", value=call.comm)
                name, rank, nranks = self.comms[call.gpu, call.comm]
                if nranks != call.nranks or len(self.members[name]) != nranks:
                    raise SpecError(f"the communicator has {nranks} ranks, of which {len(self.members[name])} are in the log")
                if name not in groups:
                    groups[name] = tuple(self.ranks[gpu] for _, gpu in sorted(self.members[name].items()))
                op = self._operation(call, groups[name], rank)
            key, stream = (call.comm, call.number), (call.gpu, call.stream)
            old, together, before = last.get(stream, (None, [], []))
            if old != key:
                together, before = [], together
            self.trace.wait_all(op, before)
            last[stream] = (key, [*together, op], before)

    def _operation(self, call: _Line, group: tuple[int, ...], place: int) -> int:
        rank = self.ranks[call.gpu]
        if call.root >= len(group):
            raise SpecError(f"must be a rank of the communicator, 0 to {len(group) - 1}", path="root", value=call.root)
        if call.name in ("Send", "Recv"):
            add = self.trace.send if call.name == "Send" else self.trace.recv
            return add(rank, group[call.root], call.bytes, place=call.line)
        size = call.bytes * (len(group) if call.name in _OF_ONE_RANK else 1)
        rooted = _NAMES[call.name] in ("broadcast", "reduce", "gather", "scatter")
        return self.trace.collective(rank, Call(_NAMES[call.name], group, size, call.root if rooted else 0), call.line)


def _call(match: re.Match[str], line: int) -> _Line:
    name = match["name"]
    if name not in _NAMES and name not in ("Send", "Recv"):
        raise SpecError(f"the call {name} is not known; known are Send, Recv, {', '.join(_NAMES)}")
    kind = whole_cell(match["type"], "datatype", 0, len(_BYTES) - 1)
    size = whole_cell(match["count"], "count", 0, MAX_FLOW_BYTES) * _BYTES[kind]
    number = match["global"]
    return _Line(
        line,
        (match["host"], int(match["pid"]), int(match["dev"])),
        match["comm"],
        name,
        match["number"],
        match["stream"],
        size,
        int(match["root"]),
        int(match["nranks"]),
        None if number is None else int(number),
    )
