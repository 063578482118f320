r"""Logs of NCCL and RCCL: the calls that NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL write, a line per rank and call.

    a:7:7 [0] NCCL INFO comm 0x5a rank 0 nranks 2 cudaDev 0 ... commId 0x9 - Init COMPLETE
    a:7:7 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1024 datatype 7 op 0 root 0 comm 0x5a [nranks=2] \
        stream 0x3

The lines of all ranks may be in one file, in any order but that of each rank; what stands before the host is not read
(`nccl_lines`). A rank is a GPU (host, process, device); its number is that in the communicator of all of them, RCCL's globalrank,
or where no communicator has all, that in the order of hosts and devices. Calls of a stream run one after another, but Send and
Recv of a group together (`_Log._joins`); a call that reads what an earlier one of its GPU writes comes after it; a log says
nothing of the computations between them. Communicators that are split, shrunk or grown from another one have `parent ADDRESS
splitCount N color N` beside or instead of commId. Lines of another kind are left out.
"""

import re
from collections import Counter
from typing import NamedTuple

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, inside, natural, read_text, whole_cell
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.workload.traces.dag import Call, Trace
from penstock_net.workload.traces.nccl_lines import Fields, Gpu, Line, call_of, lines

_COMM = re.compile(
    r"(?:(?P<by>\w{1,40}) )?comm (?P<comm>\S+) rank (?P<rank>\d{1,9}) nranks (?P<nranks>\d{1,9}) "
    r"(?P<rest>.*)- ?Init (?P<state>START|COMPLETE)",
    re.ASCII,
)
_ID = re.compile(r"(?:^| )commId (\S+)")
_CHILD = re.compile(r"(?:^| )parent (\S+) (?:(?:splitCount|childCount) (\d{1,9}) )?color (-?\d{1,11}) ")
_DEVICE = re.compile(r"(?:^| )(?:nvmlDev|cudaDev|hipDev) (\d{1,5})(?= )")
_BUS = re.compile(r"(?:^| )busId ([0-9a-fA-F]{1,16})(?= )")
_GONE = re.compile(r"comm (?P<comm>\S+) rank .*- (?:Destroy|Abort) COMPLETE", re.ASCII)
_NOWHERE = re.compile(r"\(nil\)|(?:0x)?0*")
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

P2P = ("Send", "Recv")


class _Member(NamedTuple):
    """A GPU's place in a communicator. `by` is the call that made it."""

    comm: str
    rank: int
    nranks: int
    by: str
    line: int


class _Call(NamedTuple):
    """`reads` and `writes` are addresses, or ""; `task` is how many calls of its group are before it, if the log says that."""

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
    reads: str
    writes: str
    task: int | None


class _Group(NamedTuple):
    """The calls of a stream that are together, and the peers of those that are Send and Recv."""

    key: tuple[str, str]
    ops: list[int]
    before: list[int]  # the operations of the group before
    peers: set[tuple[str, int]]


def read(path: str) -> Trace:
    """The trace in a file."""
    return _Log(path, read_text(path)).trace


class _Log:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.calls: list[_Call] = []
        self.now: dict[tuple[Gpu, str], _Member] = {}  # by address; a freed one is used again
        self.first: dict[tuple[Gpu, str], _Member] = {}
        self.found: list[tuple[Gpu, _Member]] = []
        self.device: dict[Gpu, tuple[int, str]] = {}  # number in its host, and address on its bus
        self.begun: dict[tuple[Gpu, str], str] = {}  # ids of the lines Init START, which old members of a grown communicator have
        self.children: Counter[tuple[Gpu, str]] = Counter()
        self.unknown: Counter[str] = Counter()
        for line in lines(text, path):
            with inside(place=f"{path}:{line.number}"):
                self._line(line)
        if not self.calls:
            raise SpecError("no call is logged", remedy="set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,COLL", place=path)
        self.same: dict[str, str] = {}  # another name of a communicator: its name
        self.members = self._members()
        self.by_device = False
        self.ranks = self._ranks()
        self.trace = Trace(path, len(self.ranks))
        if self.by_device:
            self.trace.note(
                "the ranks of the program: no communicator has all GPUs, which are numbered by host and device", len(self.ranks)
            )
        for name, count in sorted(self.unknown.items()):
            self.trace.note(f"the field {name} of calls", count)
        self._add()

    def _line(self, line: Line) -> None:
        text = line.text
        if match := _COMM.match(text):
            key = line.gpu, match["comm"]
            if match["state"] == "COMPLETE":
                self._made(line.gpu, match, line.number)
            elif given := _ID.search(match["rest"]):
                self.begun[key] = given[1]
        elif made := call_of(line):
            self.unknown.update(made.unknown)
            self.calls.append(_call(made, line, self.now.get((line.gpu, made.fields["comm"]))))
        elif match := _GONE.match(text):
            self.now.pop((line.gpu, match["comm"]), None)

    def _made(self, gpu: Gpu, match: re.Match[str], number: int) -> None:
        """A communicator is there. One that was made of another is known by its id, or by the other one and the color, and by how
        many of these the GPU had before."""
        address, rest = match["comm"], match["rest"]
        given, child = _ID.search(rest), _CHILD.search(rest)
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
        devices, bus = _DEVICE.findall(rest), _BUS.search(rest)
        self.device.setdefault(gpu, (int(devices[-1]) if devices else gpu[2], bus[1].lower().rjust(16, "0") if bus else ""))

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

    def _comm(self, call: _Call) -> _Member | None:
        return call.comm or self.first.get((call.gpu, call.address))

    def _ranks(self) -> dict[Gpu, int]:
        """The number of each GPU."""
        gpus = {call.gpu for call in self.calls} | {gpu for gpu, _ in self.found}
        for name, by_rank in self.members.items():
            if len(by_rank) == len(gpus) and sorted(by_rank) == list(range(len(gpus))):
                return {gpu: rank for rank, gpu in self.members[name].items()}
        for call in self.calls:
            if self._comm(call) is None:
                all_gpus = f"no communicator has all {len(gpus)} GPUs of the log"
                raise SpecError(
                    f"{all_gpus}, and nothing says which rank this one has in {call.address}",
                    remedy="log the ranks of all communicators from their beginning: NCCL_DEBUG_SUBSYS=INIT,COLL",
                    place=f"{self.path}:{call.line}",
                )
        if len(gpus) > MAX_HOSTS:
            raise SpecError(
                f"{len(gpus)} GPUs, but there may be {MAX_HOSTS}", remedy="is it the log of one run?", place=self.path
            )
        self.by_device = True
        order = sorted(gpus, key=lambda gpu: (natural(gpu[0]), self.device.get(gpu, (gpu[2], "")), gpu[2], gpu[1]))
        return {gpu: rank for rank, gpu in enumerate(order)}

    def _add(self) -> None:
        groups: dict[str, tuple[int, ...]] = {}
        tags: dict[str, int] = {}  # of the messages of a communicator
        last: dict[tuple[Gpu, str], _Group] = {}  # of a stream
        written: dict[tuple[Gpu, str], int] = {}  # by address: the last operation that writes there
        counted = self._counted()
        for call in self.calls:
            with inside(place=f"{self.path}:{call.line}"):
                comm = self._comm(call)
                if comm is None:
                    rule = "nothing says which rank this GPU has in this communicator"
                    raise SpecError(rule, value=call.address, remedy="log its line Init COMPLETE: NCCL_DEBUG_SUBSYS=INIT,COLL")
                name, nranks = self.same.get(comm.comm, comm.comm), comm.nranks
                if nranks != call.nranks or len(self.members[name]) != nranks:
                    raise SpecError(f"the communicator has {nranks} ranks, of which {len(self.members[name])} are in the log")
                if name not in groups:
                    groups[name] = tuple(self.ranks[gpu] for _, gpu in sorted(self.members[name].items()))
                op = self._operation(call, groups[name], name, tags.setdefault(name, len(tags)))
            stream, old = (call.gpu, call.stream), last.get((call.gpu, call.stream))
            sure = (call.gpu, name) in counted
            source = written.get((call.gpu, call.reads)) if call.reads else None
            if old is None or not self._joins(call, (name, call.number), old, sure, source):
                old = last[stream] = _Group((name, call.number), [], old.ops if old else [], set())
            elif not sure:
                self.trace.note("Send and Recv of which opCount does not say that they are of one group, taken together")
            self.trace.wait_all(op, old.before)
            if source is not None and source not in old.ops and source not in old.before:
                self.trace.wait(op, source)
            old.ops.append(op)
            if call.name in P2P:
                old.peers.add((call.name, call.root))
            if call.writes:
                written[call.gpu, call.writes] = op

    def _counted(self) -> set[tuple[Gpu, str]]:
        """The GPUs and communicators whose opCount counts: from NCCL 2.27 on it stays what it is within a node."""
        numbers: dict[tuple[Gpu, str], set[str]] = {}
        for call in self.calls:
            if comm := self._comm(call):
                numbers.setdefault((call.gpu, self.same.get(comm.comm, comm.comm)), set()).add(call.number)
        return {key for key, given in numbers.items() if len(given) > 1}

    @staticmethod
    def _joins(call: _Call, key: tuple[str, str], group: _Group, counted: bool, source: int | None) -> bool:
        """Whether a call is of the group that its stream has: Send and Recv of one opCount. Where that does not count, a peer
        that the group has in this direction already begins another one, and so does what the group itself writes."""
        if call.name not in P2P or not group.peers or group.key != key or call.task == 0:
            return False
        return counted or not ((call.name, call.root) in group.peers or source in group.ops)

    def _operation(self, call: _Call, group: tuple[int, ...], name: str, tag: int) -> int:
        rank = self.ranks[call.gpu]
        if call.root >= len(group):
            raise SpecError(f"must be a rank of the communicator, 0 to {len(group) - 1}", path="root", value=call.root)
        if call.name in P2P:
            add = self.trace.send if call.name == "Send" else self.trace.recv
            return add(rank, group[call.root], call.bytes, tag, call.line)
        size = call.bytes * (len(group) if _NAMES[call.name] in _OF_ONE_RANK else 1)
        rooted = _NAMES[call.name] in ("broadcast", "reduce", "gather", "scatter")
        made = Call(_NAMES[call.name], group, size, call.root if rooted else 0, name)
        return self.trace.collective(rank, made, call.line)


def _call(made: Fields, line: Line, comm: _Member | None) -> _Call:
    name, given, _ = made
    if name not in _NAMES and name not in P2P:
        raise SpecError(f"the call {name} is not known; known are Send, Recv, {', '.join(_NAMES)}")
    kind = whole_cell(given["datatype"], "datatype", 0, len(_BYTES) - 1)
    size = whole_cell(given["count"], "count", 0, MAX_FLOW_BYTES) * _BYTES[kind]
    if not re.fullmatch(r"(?:0x)?[0-9a-fA-F]{1,16}", given["opCount"]):
        raise SpecError("must be a hexadecimal number", path="opCount", value=given["opCount"])
    sent, received = (_memory(given.get(key, "")) for key in ("sendbuff", "recvbuff"))
    if name in P2P:  # one buffer, which NCCL shows as recvbuff of both
        sent, received = (received or sent, "") if name == "Send" else ("", received or sent)
    globally, task = (given.get(key) for key in ("globalrank", "task"))
    return _Call(
        line.number,
        line.gpu,
        given["comm"],
        comm,
        name,
        given["opCount"],
        given["stream"],
        size,
        whole_cell(given["root"], "root", 0, MAX_HOSTS),
        whole_cell(given["nranks"], "nranks", 1, MAX_HOSTS),
        None if globally is None else whole_cell(globally, "globalrank", 0, MAX_HOSTS),
        sent,
        received,
        None if task is None else whole_cell(task, "task", 0, 10**9),
    )


def _memory(address: str) -> str:
    return "" if _NOWHERE.fullmatch(address) else address
