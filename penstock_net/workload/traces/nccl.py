r"""Logs of NCCL and RCCL: the calls that NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL write, a line per rank and call.

    a:7:7 [0] NCCL INFO comm 0x5a rank 0 nranks 2 cudaDev 0 ... commId 0x9 - Init COMPLETE
    a:7:7 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 op 0 root 0 comm 0x5a [nranks=2] \
        stream 0x3

The lines of all ranks may be in one file, in any order but that of each rank. A rank is a GPU (host, process, device); its number
is that in the communicator of all of them, or RCCL's globalrank. Calls of a stream run one after another, those of one opCount
(a group) together; a log says nothing of the computations between them. Communicators that are split, shrunk or grown from
another one have `parent ADDRESS splitCount N color N` beside or instead of commId. Lines of another kind are left out.
"""

import re
from collections import Counter
from typing import NamedTuple

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, inside, read_text, whole_cell
from penstock_net.workload.traces.dag import Call, Trace

_HEAD = r"(?:^|\s)(?P<host>[^\s:]{1,255}):(?P<pid>\d{1,10}):\d{1,10} \[(?P<dev>\d{1,5})\] NCCL INFO "
_CALL = re.compile(
    _HEAD + r"(?P<name>\w{1,40}): opCount (?P<number>[0-9a-f]{1,16}) sendbuff \S+ recvbuff \S+ count (?P<count>\d{1,18}) "
    r"datatype (?P<type>\d{1,3}) op \d{1,10} root (?P<root>\d{1,9}) comm (?P<comm>\S+) \[nranks=(?P<nranks>\d{1,9})\] "
    r"stream (?P<stream>\S+)(?: task \d+ globalrank (?P<global>\d{1,9}))?\s*$",
    re.ASCII,
)
_COMM = re.compile(
    _HEAD + r"(?:\[Rank \d{1,9}\] )?(?:(?P<by>\w{1,40}) )?comm (?P<comm>\S+) rank (?P<rank>\d{1,9}) nranks (?P<nranks>\d{1,9}) "
    r"(?P<rest>.*)- ?Init (?P<state>START|COMPLETE)",
    re.ASCII,
)
_ID = re.compile(r"(?:^| )commId (\S+)")
_CHILD = re.compile(r"(?:^| )parent (\S+) (?:(?:splitCount|childCount) (\d{1,9}) )?color (-?\d{1,11}) ")
_GONE = re.compile(_HEAD + r"comm (?P<comm>\S+) rank .*- (?:Destroy|Abort) COMPLETE", re.ASCII)
_A_CALL = re.compile(r"NCCL INFO \w+: opCount ")
_BYTES = (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1)  # of int8, uint8, int32, uint32, int64, uint64, fp16, fp32, fp64, bf16, two of fp8
_NAMES = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllToAll": "all_to_all",
    "AlltoAll": "all_to_all",
    "AllToAllPivot": "all_to_all",
    "Broadcast": "broadcast",
    "Bcast": "broadcast",
    "Reduce": "reduce",
    "Gather": "gather",
    "Scatter": "scatter",
}
_OF_ONE_RANK = (
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "gather",
    "scatter",
)  # whose count is what one rank has of the others'

Gpu = tuple[str, int, int]


class _Member(NamedTuple):
    """A GPU's place in a communicator. `by` is the call that made it."""

    comm: str
    rank: int
    nranks: int
    by: str
    line: int


class _Line(NamedTuple):
    line: int
    gpu: Gpu
    address: str
    comm: _Member | None  # as far as it is known when the call is logged
    name: str
    number: str
    stream: str
    bytes: int
    root: int
    nranks: int
    rank: int | None  # RCCL's globalrank


def read(path: str) -> Trace:
    """The trace in a file."""
    return _Log(path, read_text(path)).trace


class _Log:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.calls: list[_Line] = []
        self.now: dict[tuple[Gpu, str], _Member] = {}  # by address; a freed one is used again
        self.first: dict[tuple[Gpu, str], _Member] = {}
        self.found: list[tuple[Gpu, _Member]] = []
        self.begun: dict[tuple[Gpu, str], str] = {}  # ids of the lines Init START, which old members of a grown communicator have
        self.children: Counter[tuple[Gpu, str]] = Counter()
        for number, line in enumerate(text.split("\n"), start=1):
            if "NCCL INFO" in line:
                with inside(place=f"{path}:{number}"):
                    self._line(number, line)
        if not self.calls:
            raise SpecError("no call is logged", remedy="set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL", place=path)
        self.same: dict[str, str] = {}  # another name of a communicator: its name
        self.members = self._members()
        self.ranks = self._ranks()
        self.trace = Trace(path, len(self.ranks))
        self._add()

    def _line(self, number: int, line: str) -> None:
        if match := _COMM.search(line):
            key = _gpu(match), match["comm"]
            if match["state"] == "COMPLETE":
                self._made(match, number)
            elif given := _ID.search(match["rest"]):
                self.begun[key] = given[1]
        elif match := _CALL.search(line):
            self.calls.append(_call(match, number, self.now.get((_gpu(match), match["comm"]))))
        elif _A_CALL.search(line):
            raise SpecError("a call that ends too early or has a field that is not known", value=line.strip()[-80:])
        elif match := _GONE.search(line):
            self.now.pop((_gpu(match), match["comm"]), None)

    def _made(self, match: re.Match[str], number: int) -> None:
        """A communicator is there. One that was made of another is known by its id, or by the other one and the color, and by how
        many of these the GPU had before."""
        gpu, address = _gpu(match), match["comm"]
        given, child = _ID.search(match["rest"]), _CHILD.search(match["rest"])
        name = given[1] if given else self.begun.pop((gpu, address), "")
        if child:
            parent = self.now.get((gpu, child[1])) or self.first.get((gpu, child[1]))
            name = name or f"{parent.comm if parent else child[1]} / {child[2]} / {child[3]}"
            self.children[gpu, name] += 1
            name = name if self.children[gpu, name] == 1 else f"{name} ({self.children[gpu, name]})"
        member = _Member(
            name or f"of {match['nranks']} ranks", int(match["rank"]), int(match["nranks"]), match["by"] or "", number
        )
        self.now[gpu, address] = member
        self.first.setdefault((gpu, address), member)
        self.found.append((gpu, member))

    def _members(self) -> dict[str, dict[int, Gpu]]:
        """The GPUs of each communicator, by their rank in it."""
        members: dict[str, dict[int, Gpu]] = {}
        for gpu, (name, rank, nranks, _, line) in self.found:
            if rank >= nranks or rank in members.setdefault(name, {}):
                rule = f"rank {rank} of the communicator {name} is there twice, or more than its ranks"
                raise SpecError(rule, remedy="is it the log of one run?", place=f"{self.path}:{line}")
            members[name][rank] = gpu
        grown: dict[int, list[str]] = {}
        for _, member in self.found:
            if member.by == "ncclCommGrow" and len(members[member.comm]) < member.nranks:
                grown.setdefault(member.nranks, []).append(member.comm)
        for nranks, of_size in grown.items():
            names = list(dict.fromkeys(of_size))
            ranks = [rank for name in names for rank in members[name]]
            if sorted(ranks) == list(range(nranks)):  # old members say what it grew from, new ones its id
                self.same.update(dict.fromkeys(names, names[0]))
                members[names[0]] = {rank: gpu for name in names for rank, gpu in members[name].items()}
        for call in self.calls:
            if call.rank is not None and self._comm(call) is None:
                name = f"of {call.nranks} ranks"
                self.first[call.gpu, call.address] = _Member(name, call.rank, call.nranks, "", call.line)
                if members.setdefault(name, {}).setdefault(call.rank, call.gpu) != call.gpu:
                    raise SpecError(f"globalrank {call.rank} is another GPU, too", place=f"{self.path}:{call.line}")
        return members

    def _comm(self, call: _Line) -> _Member | None:
        return call.comm or self.first.get((call.gpu, call.address))

    def _ranks(self) -> dict[Gpu, int]:
        """The number of each GPU."""
        gpus = {call.gpu for call in self.calls} | {gpu for gpu, _ in self.found}
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
        tags: dict[str, int] = {}  # of the messages of a communicator
        last: dict[tuple[Gpu, str], tuple[tuple[str, str], list[int], list[int]]] = {}  # of a stream: its group, before it
        for call in self.calls:
            with inside(place=f"{self.path}:{call.line}"):
                comm = self._comm(call)
                if comm is None:
                    raise SpecError("nothing says which rank this GPU has in this communicator", value=call.address)
                name, nranks = self.same.get(comm.comm, comm.comm), comm.nranks
                if nranks != call.nranks or len(self.members[name]) != nranks:
                    raise SpecError(f"the communicator has {nranks} ranks, of which {len(self.members[name])} are in the log")
                if name not in groups:
                    groups[name] = tuple(self.ranks[gpu] for _, gpu in sorted(self.members[name].items()))
                op = self._operation(call, groups[name], name, tags.setdefault(name, len(tags)))
            key, stream = (name, call.number), (call.gpu, call.stream)
            old, together, before = last.get(stream, (None, [], []))
            if old != key:
                together, before = [], together
            self.trace.wait_all(op, before)
            last[stream] = (key, [*together, op], before)

    def _operation(self, call: _Line, group: tuple[int, ...], name: str, tag: int) -> int:
        rank = self.ranks[call.gpu]
        if call.root >= len(group):
            raise SpecError(f"must be a rank of the communicator, 0 to {len(group) - 1}", path="root", value=call.root)
        if call.name in ("Send", "Recv"):
            add = self.trace.send if call.name == "Send" else self.trace.recv
            return add(rank, group[call.root], call.bytes, tag, call.line)
        size = call.bytes * (len(group) if _NAMES[call.name] in _OF_ONE_RANK else 1)
        rooted = _NAMES[call.name] in ("broadcast", "reduce", "gather", "scatter")
        made = Call(_NAMES[call.name], group, size, call.root if rooted else 0, name)
        return self.trace.collective(rank, made, call.line)


def _gpu(match: re.Match[str]) -> Gpu:
    return match["host"], int(match["pid"]), int(match["dev"])


def _call(match: re.Match[str], line: int, comm: _Member | None) -> _Line:
    name = match["name"]
    if name not in _NAMES and name not in ("Send", "Recv"):
        raise SpecError(f"the call {name} is not known; known are Send, Recv, {', '.join(_NAMES)}")
    kind = whole_cell(match["type"], "datatype", 0, len(_BYTES) - 1)
    size = whole_cell(match["count"], "count", 0, MAX_FLOW_BYTES) * _BYTES[kind]
    number = match["global"]
    return _Line(
        line,
        _gpu(match),
        match["comm"],
        comm,
        name,
        match["number"],
        match["stream"],
        size,
        int(match["root"]),
        int(match["nranks"]),
        None if number is None else int(number),
    )
