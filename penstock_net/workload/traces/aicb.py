"""Workloads of AICB for real clusters, as CSV: what every rank of a pipeline stage does, a row after another.

    [rank0 ~ rank7]
    comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count
    CommType.all_reduce,CommGroup.tp_group,2,4096,forward.layer,None,None,,None,None,None,1

A pipeline has such a part per stage, `[ pp_stage0: [rank0, rank1] ]`. msg_size is the whole buffer of a collective. Ranks are
numbered by tensor, expert, data and pipeline parallelism, the first fastest, and broadcasts begin at the first rank of a group.
"""

import re
from collections import Counter
from typing import NamedTuple

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, inside, read_text, whole_cell
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.workload.traces.dag import COLLECTIVES, MAX_OPERATIONS, Call, Trace
from penstock_net.workload.traces.simai import groups_of

_COLUMNS = ("comm_type", "comm_group", "msg_size")
_READ = (*_COLUMNS, "comm_group_size", "stage", "additional", "_elapsed_time")
_EMPTY = {"count": "1"}  # cells that say nothing, beside "" and None
_KINDS = {kind: kind for kind in COLLECTIVES if kind not in ("gather", "scatter")} | {
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
}
_GROUPS = {"tp_group": "TP", "dp_group": "DP", "ep_group": "EP", "ep_dp_group": "DP_EP", "pp_group": "PP"}
_EVERYONE = ("all", "all_nodes")
_MESSAGES = {"send_next": 1, "recv_next": 1, "send_prev": -1, "recv_prev": -1}
_RANGE = re.compile(r"\[rank(\d{1,6}) ~ rank(\d{1,6})\]")
_STAGE = re.compile(r"\[ *pp_stage(\d{1,5}): *\[((?:rank\d{1,6},? *)*)\] *\]")


class _Row(NamedTuple):
    line: int
    kind: str
    group: str
    size: str
    stage: str
    ranks: str  # of the group, if the file says it
    message: str
    elapsed: str


def read(path: str, ranks: int | None = None) -> Trace:
    """The trace in a file; `ranks` where the file does not say how many there are."""
    return _Workload(path, read_text(path), ranks).trace


class _Turn:
    """What the next row of a rank waits for. Messages in rows beside each other are handed over together, as isend and irecv are:
    they wait for the row before the first, and the row after the last one waits for all of them."""

    def __init__(self) -> None:
        self.before: list[int] = []
        self.last: list[int] = []
        self.sending = False

    def take(self, op: int, is_message: bool) -> list[int]:
        """What an operation waits for, which is the last one now."""
        if not (is_message and self.sending):
            self.before, self.last = self.last, []
        self.last.append(op)
        self.sending = is_message
        return self.before


class _Workload:
    def __init__(self, path: str, text: str, ranks: int | None) -> None:
        self.path = path
        self.parts: list[tuple[list[int], list[_Row]]] = []  # ranks, if the file names them, and rows of each pipeline stage
        columns: list[str] = []
        self.unread: Counter[str] = Counter()
        for number, line in enumerate(map(str.strip, text.split("\n")), start=1):
            with inside(place=f"{path}:{number}"):
                if line.startswith("["):
                    self.parts.append((self._named(line), []))
                elif line.startswith("comm_type,"):
                    columns = line.split(",")
                elif line:
                    if not self.parts:
                        self.parts.append(([], []))
                    self.parts[-1][1].append(_row(number, line, columns, self.unread))
        self.sizes = self._sizes(ranks)
        self.trace = Trace(path, self.sizes["ranks"])
        for name, count in self.unread.items():
            self.trace.note(f"the column {name}", count)
        if self.trace.ranks * max((len(rows) for _, rows in self.parts), default=0) > MAX_OPERATIONS:
            raise SpecError(f"more than {MAX_OPERATIONS} operations", remedy="convert a part of the file", place=path)
        self.groups = groups_of(**self.sizes)
        ends = [sum(row.group == "embedding_group" for row in rows) for _, rows in (self.parts[:1] + self.parts[-1:])]
        self.embedding = len(set(ends)) == 1
        per_stage = self.sizes["ranks"] // len(self.parts)
        for stage, (named, rows) in enumerate(self.parts):
            for rank in named or range(stage * per_stage, (stage + 1) * per_stage):
                turn = _Turn()
                for row in rows:
                    with inside(place=f"{path}:{row.line}"):
                        self._add(row, rank, stage, turn)

    def _named(self, line: str) -> list[int]:
        """The ranks that a line names."""
        if match := _RANGE.fullmatch(line):
            return list(range(int(match[1]), int(match[2]) + 1))
        if match := _STAGE.fullmatch(line):
            if int(match[1]) != len(self.parts):
                raise SpecError(f"expected pp_stage{len(self.parts)}", value=line[:40])
            return [int(rank) for rank in re.findall(r"\d+", match[2])]
        raise SpecError("expected [rank0 ~ rankN] or [ pp_stage0: [rank0, ...] ]", value=line[:60])

    def _sizes(self, ranks: int | None) -> dict[str, int]:
        """How many ranks there are and how they are divided; without a word of the file a group is one rank, DP all others."""
        given = {"PP": max(len(self.parts), 1)}
        for _, rows in self.parts:
            for row in rows:
                name = _GROUPS.get(row.group)
                if name and row.ranks not in ("", "None") and not row.message:
                    with inside(place=f"{self.path}:{row.line}"):
                        size = whole_cell(row.ranks, "comm_group_size", 1, MAX_HOSTS)
                        if given.setdefault(name, size) != size and name != "PP":
                            raise SpecError(f"was {given[name]} for {row.group} before", path="comm_group_size", value=size)
                        if name == "PP" and size not in (1, given["PP"]):
                            raise SpecError(f"there are {given['PP']} pipeline stages", path="comm_group_size", value=size)
        one = given.get("TP", 1) * given["PP"]
        named = [rank for part, _ in self.parts for rank in part]
        if named and ranks not in (None, len(named)):
            raise SpecError(f"the file names {len(named)} ranks", path="ranks", value=ranks, remedy="leave it out")
        if len(named) > MAX_HOSTS:
            raise SpecError(f"{len(named)} ranks, but there may be 1 to {MAX_HOSTS}", place=self.path)
        total = len(named) or ranks or (one * given["DP"] if "DP" in given else 0)
        if not total:
            raise SpecError("the number of ranks is not in the file", path="ranks", remedy="give --ranks N", place=self.path)
        if named and sorted(named) != list(range(total)):
            raise SpecError(f"names {total} ranks, but not 0 to {total - 1}, each once", place=self.path)
        if total % (one * given.get("EP", 1)) or given.get("DP", total // one) * one != total:
            parts = ", ".join(f"{name} {size}" for name, size in given.items())
            rule = f"{total} ranks are not divided into {parts}"
            raise SpecError(rule, remedy="give another --ranks" if ranks else "is the file complete?", place=self.path)
        return {"TP": given.get("TP", 1), "EP": given.get("EP", 1), "PP": given["PP"], "ranks": total}

    def _add(self, row: _Row, rank: int, stage: int, turn: _Turn) -> None:
        """The operation of a row on a rank, in its turn."""
        trace = self.trace
        name = row.stage if row.stage != "None" else ""
        if row.kind == "epoch_end":
            return
        if row.kind == "computation":
            if row.elapsed in ("", "None"):
                trace.note("computations without a time (_elapsed_time)")
                return
            op = trace.calc(rank, _milliseconds(row.elapsed), row.line, name)
        elif row.kind in ("isend", "irecv"):
            if row.message not in _MESSAGES or row.message.startswith("send") != (row.kind == "isend"):
                raise SpecError(f"{row.kind} has send_next, recv_next, ... in additional", path="additional", value=row.message)
            other = stage + _MESSAGES[row.message]
            if not 0 <= other < self.sizes["PP"]:
                trace.note("messages beyond the first or the last pipeline stage")
                return
            peer = rank + _MESSAGES[row.message] * (trace.ranks // self.sizes["PP"])
            add = trace.send if row.kind == "isend" else trace.recv
            op = add(rank, peer, whole_cell(row.size, "msg_size", 0, MAX_FLOW_BYTES), place=row.line)
        else:
            if row.elapsed not in ("", "None"):
                trace.note("measured times of collectives (_elapsed_time)")
            members = self._members(row, rank)
            if row.group == "embedding_group" and len(members) > 1 and not self.embedding:
                trace.note("collectives of the embedding group, which not both of its stages call")
                return
            if len(members) == 1:
                trace.note(f"collectives of groups of one rank ({row.group})")
                return
            size = 0 if row.kind == "barrier" else whole_cell(row.size, "msg_size", 0, MAX_FLOW_BYTES)
            op = trace.collective(rank, Call(_KINDS[row.kind], members, size), row.line, name)
        for earlier in turn.take(op, row.kind in ("isend", "irecv")):
            trace.wait(op, earlier)

    def _members(self, row: _Row, rank: int) -> tuple[int, ...]:
        if row.group in _EVERYONE or row.group in ("None", ""):
            return tuple(range(self.trace.ranks))
        if row.group in ("pp_group", "embedding_group"):
            step = self.trace.ranks // self.sizes["PP"]
            pipeline = tuple(range(rank % step, self.trace.ranks, step))
            return pipeline if row.group == "pp_group" or len(pipeline) == 1 else (pipeline[0], pipeline[-1])
        if row.group not in _GROUPS:
            known = [*_GROUPS, *_EVERYONE]
            raise SpecError("this group is not known", path="comm_group", value=row.group, remedy=nearest(row.group, known))
        return self.groups[_GROUPS[row.group]][rank]


def _row(number: int, line: str, columns: list[str], unread: Counter[str]) -> _Row:
    """The cells of a row; counts those of columns that are not read.  SpecError: it has other columns than the header."""
    if not columns or any(name not in columns for name in _COLUMNS):
        raise SpecError(f"the header must have {', '.join(_COLUMNS)}", value=",".join(columns)[:60])
    cells = [cell.strip() for cell in re.sub(r'"[^"]*"|\([^)]*\)', "", line).split(",")]
    if len(cells) != len(columns):
        raise SpecError(f"{len(cells)} columns, but the header has {len(columns)}", remedy="is the file truncated?")
    given = dict(zip(columns, cells))
    unread.update(name for name, cell in given.items() if name not in _READ and cell not in ("", "None", _EMPTY.get(name)))
    kind = given["comm_type"].removeprefix("CommType.")
    if kind not in (*_KINDS, "isend", "irecv", "computation", "epoch_end"):
        raise SpecError("is not known", path="comm_type", value=kind, remedy=nearest(kind, list(_KINDS)))
    message = given.get("additional", "") if kind in ("isend", "irecv") else ""
    return _Row(
        number,
        kind,
        given["comm_group"].removeprefix("CommGroup."),
        given["msg_size"],
        given.get("stage", ""),
        given.get("comm_group_size", ""),
        message,
        given.get("_elapsed_time", ""),
    )


def _milliseconds(text: str) -> int:
    """Picoseconds of a time in ms, rounded."""
    try:
        time = round(float(text) * 10**9)
    except (ValueError, OverflowError):
        raise SpecError("is not a number of ms", path="_elapsed_time", value=text) from None
    if not 0 <= time <= MAX_TIME_PS:
        raise SpecError("must be a time in ms", path="_elapsed_time", value=text)
    return time
