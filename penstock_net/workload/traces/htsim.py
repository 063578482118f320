"""Connection matrices of htsim (.cm): connections that start at a time, or when a trigger says so.

    Nodes 4
    Connections 2
    Triggers 1
    0->1 id 1 start 0 size 2000000 send_done_trigger 1       start in picoseconds
    0->2 id 2 trigger 1 size 2000000
    0->3 id 3 msg 4 start 0 size 5000                         a message of a connection; its number may be left out
    trigger id 1 oneshot                                      or multishot, or barrier count N

A trigger of htsim acts at once anywhere in the network. Here a connection can wait for others only where a host learns of their
end: at the sender of a send_done_trigger, which has the last acknowledgement, and at the receiver of a recv_done_trigger.
"""

import re
from typing import NamedTuple

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, decimal, inside, read_text, whole_cell
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.workload.traces.dag import Trace

_HEADER = ("Nodes", "Connections", "Triggers", "Failures")
_ENDS = re.compile(r"(\d{1,9})->(\d{1,9})", re.ASCII)
_KEYS = ("id", "msg", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
_KINDS = ("oneshot", "multishot", "barrier")
_MOST = 2**31


class _Trigger(NamedTuple):
    """Of kind `barrier` it acts after `many`, else after one."""

    kind: str
    many: int


class _Source(NamedTuple):
    """What activates a trigger: the end of `op` at `rank`."""

    op: int
    rank: int
    line: int


def read(path: str) -> Trace:
    """The trace in a file."""
    return _Matrix(path, read_text(path)).trace


class _Matrix:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.counts: dict[str, int] = {}
        self.found = dict.fromkeys(_HEADER[1:], 0)
        self.given: Trace | None = None
        self.triggers: dict[int, _Trigger] = {}
        self.sources: dict[int, list[_Source]] = {}
        self.triggered: list[tuple[int, int, int, int]] = []  # trigger, operation, its rank, line
        self.ids: set[int] = set()
        for line, words in enumerate(map(str.split, text.split("\n")), start=1):
            if words and not words[0].startswith("#"):
                with inside(place=f"{path}:{line}"):
                    self._statement(words, line)
        self._check_counts()
        for trigger, op, rank, line in self.triggered:
            with inside(place=f"{path}:{line}"):
                self._wait(trigger, op, rank)
        for trigger in self.sources.keys() - self.triggers.keys():
            place = f"{path}:{self.sources[trigger][0].line}"
            raise SpecError("there is no such trigger", path="trigger", value=trigger, place=place)

    @property
    def trace(self) -> Trace:
        if self.given is None:
            raise SpecError("there is no line Nodes N before this", place=self.path)
        return self.given

    def _statement(self, words: list[str], line: int) -> None:
        if words[0] in _HEADER:
            if len(words) != 2 or words[0] in self.counts:
                raise SpecError(f"expected one line {words[0]} N")
            self.counts[words[0]] = whole_cell(words[1], words[0], 0, _MOST)
            if words[0] == "Nodes":
                self.given = Trace(self.path, whole_cell(words[1], "Nodes", 1, MAX_HOSTS))
        elif ends := _ENDS.fullmatch(words[0]):
            self.found["Connections"] += 1
            self._connection(int(ends[1]), int(ends[2]), words[1:], line)
        elif words[0] == "trigger":
            self.found["Triggers"] += 1
            self._trigger(words[1:])
        elif words[0] == "failure":
            self.found["Failures"] += 1
            self.trace.note("failures of the network; give them as [topology] changes")
        else:
            raise SpecError(f"expected SRC->DST, trigger, failure, or {', '.join(_HEADER)}", value=words[0])

    def _connection(self, src: int, dst: int, words: list[str], line: int) -> None:
        given = _pairs(words, _KEYS)
        if "size" not in given:
            raise SpecError("a connection without size")
        if ("start" in given) == ("trigger" in given):
            raise SpecError("a connection needs either start or trigger")
        if src == dst:
            raise SpecError("a connection needs two hosts")
        number = {key: whole_cell(given[key], key, 1, _MOST) for key in given if key not in ("start", "size", "prio")}
        size = whole_cell(given["size"], "size", 0, MAX_FLOW_BYTES)
        if "id" in number and "msg" not in number:
            if number["id"] in self.ids:
                raise SpecError("another connection has this id", path="id", value=number["id"])
            self.ids.add(number["id"])
        trace = self.trace
        if not size:
            trace.note(f"connections without end (size 0), which end after {MAX_FLOW_BYTES} bytes here")
            size = MAX_FLOW_BYTES
        if "msg" in number:
            trace.note("messages of a connection they share (msg), each of which is a flow of its own")
        if "prio" in given:
            whole_cell(given["prio"], "prio", 0, _MOST)
            trace.note("connections with a priority (prio), which all have the same here")
        start = _picoseconds(given.get("start", "0"))
        sent = trace.send(src, dst, size, place=line)
        received = trace.recv(dst, src, size, place=line)
        if start:
            trace.not_before(sent, start)
        if "trigger" in number:
            self.triggered.append((number["trigger"], sent, src, line))
        for key, source in (("send_done_trigger", _Source(sent, src, line)), ("recv_done_trigger", _Source(received, dst, line))):
            if key in number:
                self.sources.setdefault(number[key], []).append(source)

    def _trigger(self, words: list[str]) -> None:
        kinds = [word for word in words if word in _KINDS]
        given = _pairs([word for word in words if word not in _KINDS], ("id", "count"))
        if "id" not in given or len(kinds) != 1:
            raise SpecError(f"a trigger has an id, and is one of {', '.join(_KINDS)}")
        number = whole_cell(given["id"], "id", 1, _MOST)
        if number in self.triggers:
            raise SpecError("another trigger has this id", path="id", value=number)
        if "count" in given and kinds[0] != "barrier":
            raise SpecError(
                f"is of a barrier, and this is a {kinds[0]}", path="count", value=given["count"], remedy="leave it out"
            )
        self.triggers[number] = _Trigger(kinds[0], whole_cell(given.get("count", "0"), "count", 0, _MOST))

    def _wait(self, trigger: int, op: int, rank: int) -> None:
        """Let the operation wait for all that activates its trigger."""
        if trigger not in self.triggers:
            raise SpecError("there is no such trigger", path="trigger", value=trigger)
        kind, many = self.triggers[trigger]
        sources = self.sources.get(trigger, [])
        if not sources:
            raise SpecError("nothing activates this trigger", path="trigger", value=trigger)
        needed = many if kind == "barrier" else 1
        if len(sources) != needed:
            rule = (
                f"{len(sources)} connections activate this {kind}, which acts after {needed} of them; flows can only wait for all"
            )
            raise SpecError(rule, path="trigger", value=trigger)
        for source in sources:
            if source.rank != rank:
                raise SpecError(
                    f"the connection of host {rank} would start when one ends at host {source.rank} (line {source.line})",
                    path="trigger",
                    value=trigger,
                    remedy="a flow can only wait for what its own host sends or receives",
                )
            self.trace.wait(op, source.op)

    def _check_counts(self) -> None:
        if not self.trace or "Connections" not in self.counts:
            raise SpecError("there is no line Connections N", remedy="is the file truncated?", place=self.path)
        for name, found in self.found.items():
            if self.counts.get(name, 0) != found:
                rule = f"{name} says {self.counts.get(name, 0)}, but there are {found}"
                raise SpecError(rule, remedy="is the file truncated?", place=self.path)


def _pairs(words: list[str], known: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    if "msg" in words:  # its number may be missing
        at = words.index("msg") + 1
        words = words if at < len(words) and words[at].isdecimal() else [*words[:at], "1", *words[at:]]
    for key, value in zip(words[::2], [*words[1::2], ""]):
        if key not in known:
            raise SpecError("unknown word", value=key, remedy=nearest(key, known))
        if key in given or not value:
            raise SpecError("occurs twice" if key in given else "has no value", path=key)
        given[key] = value
    return given


def _picoseconds(text: str) -> int:
    time = decimal(text, "start")
    if time.denominator != 1 or not 0 <= time <= MAX_TIME_PS:
        raise SpecError("must be a whole number of ps", path="start", value=text)
    return int(time)
