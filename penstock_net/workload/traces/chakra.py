"""Execution traces of Chakra (ET): a file of protobuf messages per rank, NAME.0.et, NAME.1.et, ...

The first message of a file is its metadata, each other one a node: id, name, type, the ids of the nodes that it waits for, its
duration in us, and attributes (`_node`). Times at which nodes began when they were recorded are not used. A collective is of the
process group that it names, or of all ranks. `groups` are their ranks by name, as in ASTRA-sim's JSON file; without it the ranks
of a group are those that use its name.

A rank takes one after another, as ASTRA-sim does: what its processor does (is_cpu_op), kernels, and collectives of a group; where
nodes name a stream, kernels and collectives of a stream. Those of a stream or of a group keep the order of the file.
"""

import heapq
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_TIME_PS, inside, read_bytes, read_text
from penstock_net.workload.traces import protobuf
from penstock_net.workload.traces.dag import CALC, COLLECTIVE, MAX_OPERATIONS, Call, Trace, group_of

TYPES = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")
_LOAD, _STORE, _COMPUTE, _SEND, _RECV, _COLLECTIVE = range(2, 8)
_KINDS = {
    0: "all_reduce",
    1: "reduce",
    2: "all_gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all_to_all",
    7: "reduce_scatter",
    8: "reduce_scatter",
    9: "barrier",
}
_OF_ONE_RANK = ("all_gather", "gather")  # whose comm_size is what one rank contributes
_INTEGERS = {7: True, 9: True, 11: False, 13: False, 19: False, 21: False}  # fields of an attribute, and whether they are signed
_READ = (
    "is_cpu_op",
    "comm_type",
    "comm_size",
    "comm_src",
    "comm_dst",
    "comm_tag",
    "pg_name",
    "involved_dim",
    "root",
    "stream",
    "num_ops",
)
_FILE = re.compile(r"(.*)\.(\d{1,6})\.et")
_US = 10**6


class _Node(NamedTuple):
    id: int
    type: int
    duration_us: int
    parents: list[int]
    attributes: dict[str, Any]

    def number(self, name: str, default: int | None = None) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise SpecError(f"{TYPES[self.type]} without a number {name}")
        return value


def files(path: str) -> list[str]:
    """The files of a trace, by rank: those in the folder, or PATH.0.et and so on; [] if it is none."""
    folder, name = (path, None) if os.path.isdir(path) else (os.path.dirname(path) or ".", os.path.basename(path))
    if not os.path.isdir(folder):
        return []
    found: dict[str, dict[int, str]] = {}
    for entry in os.listdir(folder):
        match = _FILE.fullmatch(entry)
        if match and name in (None, match[1]):
            found.setdefault(match[1], {})[int(match[2])] = os.path.join(folder, entry)
    if len(found) > 1:
        names = ", ".join(sorted(found)[:5])
        raise SpecError(
            f"there are several traces in it: {names}", place=path, remedy="give the folder and the name, such as DIR/NAME"
        )
    by_rank = next(iter(found.values()), {})
    for rank in range(len(by_rank)):
        if rank not in by_rank:
            raise SpecError(f"the file of rank {rank} is missing, {len(by_rank)} are there", place=path)
    return [by_rank[rank] for rank in range(len(by_rank))]


def read(path: str, groups: str | None = None, concurrent: bool = False, missing_parents: bool = False) -> Trace:
    """The trace of all ranks; `groups` is the file of the groups.

    With `concurrent` nothing but dependencies delays a node; with `missing_parents` those on missing nodes do not count.
    """
    paths = files(path)
    if not paths:
        raise SpecError("there are no files NAME.0.et, NAME.1.et, ...", place=path, remedy="give their folder, or DIR/NAME")
    trace = Trace(path, len(paths), unit="node")
    trace.files = paths
    given = None if groups is None else _groups(groups, trace)
    nodes = [list(_nodes(file)) for file in paths]
    named = _named(nodes)
    if groups is not None and not named:
        rule = "is for traces whose nodes name their process group (pg_name), and these do not"
        raise SpecError(rule, path="groups", value=groups, remedy="leave it out")
    for name, count in sorted(Counter(name for of_rank in nodes for node in of_rank for name in node.attributes).items()):
        if name not in _READ:
            trace.note(f"the attribute {name} of nodes", count)
    for name in sorted((given or {}).keys() - named.keys()):
        trace.note(f"the group {name} of {groups}, which no node names")
    everyone = tuple(range(trace.ranks))
    for rank, file in enumerate(paths):
        each = _Rank(trace, rank, file, named if given is None else given, everyone)
        each.add(nodes[rank], missing_parents)
        if not concurrent:
            each.take_turns(nodes[rank])
    return trace


def _groups(path: str, trace: Trace) -> dict[str, tuple[int, ...]]:
    try:
        given = json.loads(read_text(path, "groups"))
    except (json.JSONDecodeError, RecursionError) as error:
        raise SpecError(f"is not JSON: {str(error)[:80]}", place=path) from None
    if not isinstance(given, Mapping):
        raise SpecError("must be an object of lists of ranks, by the name of the group", place=path)
    for name, ranks in given.items():
        if not isinstance(ranks, list) or not all(type(rank) is int and 0 <= rank < trace.ranks for rank in ranks):
            raise SpecError(f"must be a list of ranks, 0 to {trace.ranks - 1}", path=name, place=path)
    return {name: group_of(ranks, path) for name, ranks in given.items()}


def _named(nodes: list[list[_Node]]) -> dict[str, tuple[int, ...]]:
    members: dict[str, list[int]] = {}
    for rank, of_rank in enumerate(nodes):
        for name in dict.fromkeys(str(node.attributes["pg_name"]) for node in of_rank if "pg_name" in node.attributes):
            members.setdefault(name, []).append(rank)
    return {name: tuple(ranks) for name, ranks in members.items()}


def _nodes(path: str) -> Iterator[_Node]:
    """The nodes of a file."""
    raw = read_bytes(path)
    with inside(place=path):
        parts = protobuf.messages(raw)
        first = next(parts, None)
        if first is None:
            raise SpecError("the file is empty")
        for _ in protobuf.fields(raw, *first):  # the metadata
            pass
        seen: set[int] = set()
        for begin, end in parts:
            node = _node(raw, begin, end)
            if node.id in seen or len(seen) >= MAX_OPERATIONS:
                rule = "another node has this id" if node.id in seen else f"more than {MAX_OPERATIONS} nodes"
                raise SpecError(rule, place=f"{path}: node {node.id}")
            seen.add(node.id)
            yield node


def _launched(nodes: list[_Node]) -> list[_Node]:
    """The nodes in the order of the file, but after those that they wait for. Nodes that wait in a circle are left out."""
    places = {node.id: place for place, node in enumerate(nodes)}
    children: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for place, node in enumerate(nodes):
        for parent in node.parents:
            if parent in places:
                children[places[parent]].append(place)
                missing[place] += 1
    ready = [place for place, count in enumerate(missing) if not count]
    ordered = []
    while ready:
        place = heapq.heappop(ready)
        ordered.append(nodes[place])
        for child in children[place]:
            missing[child] -= 1
            if not missing[child]:
                heapq.heappush(ready, child)
    return ordered


def _node(raw: bytes, begin: int, end: int) -> _Node:
    number = {1: 0, 3: 0, 7: 0}
    parents: list[int] = []
    attributes: dict[str, Any] = {}
    for field in protobuf.fields(raw, begin, end):
        if field[0] in number and field[1] == protobuf.VARINT:
            number[field[0]] = field[2]
        elif field[0] in (4, 5):
            parents.extend(protobuf.integers(raw, field))
        elif field[0] == 10 and field[1] == protobuf.BYTES:
            name, value = _attribute(raw, field[2], field[3])
            attributes[name] = value
    return _Node(number[1], number[3], number[7], list(dict.fromkeys(parents)), attributes)


def _attribute(raw: bytes, begin: int, end: int) -> tuple[str, Any]:
    """The name and the value of an attribute; None: of a type that no attribute used here has."""
    name = ""
    value: Any = None
    for field in protobuf.fields(raw, begin, end):
        if field[0] == 1:
            name = protobuf.text(raw, field)
        elif field[0] in _INTEGERS and field[1] != protobuf.BYTES:
            value = protobuf.signed(field[2]) if _INTEGERS[field[0]] else field[2]
        elif field[0] in (15, 17) and field[1] == protobuf.VARINT:
            value = field[2] >> 1 ^ -(field[2] & 1)
        elif field[0] == 27:
            value = bool(field[2])
        elif field[0] == 28 and field[1] == protobuf.BYTES:
            packed = [inner for inner in protobuf.fields(raw, field[2], field[3]) if inner[0] == 1]
            value = [bool(item) for inner in packed for item in protobuf.integers(raw, inner)]
        elif field[0] == 29:
            value = protobuf.text(raw, field)
    return name, value


class _Rank:
    """Adds the nodes of one rank to a trace."""

    def __init__(
        self, trace: Trace, rank: int, file: str, groups: Mapping[str, tuple[int, ...]], everyone: tuple[int, ...]
    ) -> None:
        self.trace, self.rank, self.file, self.groups, self.everyone = trace, rank, file, groups, everyone

        self.ops: dict[int, int] = {}

    def add(self, nodes: list[_Node], missing_parents: bool) -> None:
        ops = self.ops
        for node in nodes:
            with inside(place=f"{self.file}: node {node.id}"):
                ops[node.id] = self._operation(node)
        for node in nodes:
            for parent in node.parents:
                if parent in ops:
                    self.trace.wait(ops[node.id], ops[parent])
                elif missing_parents:
                    self.trace.note("nodes that nodes wait for, and that are not in the file")
                else:
                    raise SpecError(
                        f"waits for node {parent}, which is not in the file",
                        remedy="--missing-parents leaves such waits out",
                        place=f"{self.file}: node {node.id}",
                    )

    def take_turns(self, nodes: list[_Node]) -> None:
        """Let nodes wait for those that have their processor, stream or communicator before."""
        last: dict[str, int] = {}
        for node in _launched(nodes):
            op = self.ops[node.id]
            computes = node.type in (_COMPUTE, _COLLECTIVE) and self.trace.kind[op] == CALC
            collective = self.trace.kind[op] == COLLECTIVE
            stream = None if node.attributes.get("is_cpu_op") is True else node.attributes.get("stream")
            if not computes and not collective:
                continue
            if isinstance(stream, int):
                in_turn = [f"stream {stream}"]
            elif collective:
                in_turn = []
            else:
                self.trace.needs(op, "processor" if node.attributes.get("is_cpu_op") is True else "kernels")
                continue
            if collective:
                in_turn.append(f"group {node.attributes.get('pg_name')}")
            for what in in_turn:
                if what in last:
                    self.trace.wait(op, last[what])
                last[what] = op

    def _operation(self, node: _Node) -> int:
        trace, place = self.trace, node.id % 2**63
        if not 0 <= node.type < len(TYPES):
            raise SpecError(f"is of type {node.type}; known are 0 to {len(TYPES) - 1}")
        launched = node.attributes.get("is_cpu_op") is True and "comm_type" not in node.attributes
        if node.type == _COLLECTIVE and launched:
            trace.note("collectives that a processor launches (is_cpu_op, without comm_type), which take their duration")
        elif node.type == _COLLECTIVE:
            return trace.collective(self.rank, self._call(node), place)
        if node.type in (_SEND, _RECV):
            mine, peer = ("comm_src", "comm_dst") if node.type == _SEND else ("comm_dst", "comm_src")
            if node.number(mine, self.rank) != self.rank:
                raise SpecError(f"{mine} is {node.number(mine)} in the file of rank {self.rank}")
            add = trace.send if node.type == _SEND else trace.recv
            return add(self.rank, node.number(peer), node.number("comm_size"), node.number("comm_tag", 0), place)
        if node.duration_us > MAX_TIME_PS // _US:
            raise SpecError(f"computes {node.duration_us} us")
        if not node.duration_us:
            if node.attributes.get("num_ops"):
                trace.note("computations given as a number of operations (num_ops), which take no time here")
            if node.type in (_LOAD, _STORE):
                trace.note("accesses to memory without a duration, which take no time here")
        if node.type == 0:
            trace.note("nodes of type INVALID, which take no time here")
        name = "memory" if node.type in (_LOAD, _STORE) else ""
        return trace.calc(self.rank, node.duration_us * _US if node.type >= _LOAD else 0, place, name)

    def _call(self, node: _Node) -> Call:
        kind = _KINDS.get(node.number("comm_type"))
        if kind is None:
            raise SpecError(f"comm_type {node.number('comm_type')} is not known")
        name = node.attributes.get("pg_name")
        if name is not None and str(name) not in self.groups:
            raise SpecError("there is no such group", path="pg_name", value=str(name))
        group = self.everyone if name is None else self.groups[str(name)]
        dims = node.attributes.get("involved_dim")
        if isinstance(dims, list) and not all(dims):
            raise SpecError("a collective along some dimensions of the network (involved_dim) is not supported")
        size = node.number("comm_size", 0 if kind == "barrier" else None)
        root = node.number("root", group[0])
        if root != group[0] and root not in group:
            raise SpecError(f"root {root} is not in the group")
        whole = size * len(group) if kind in _OF_ONE_RANK else size
        return Call(kind, group, whole, group.index(root), "" if name is None else str(name))
