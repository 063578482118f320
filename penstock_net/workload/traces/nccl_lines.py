r"""Lines of NCCL's log, whatever the programs that collect logs have put around them.

    [default0]:a:7:9 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 ...
    \x1b[36m(Worker pid=7)\x1b[0m [2025-01-31 12:00:00] a:7:9 [0] NCCL INFO [0] AllReduce: ...
    {"log": "a:7:9 [0] NCCL INFO AllReduce: ...\n", "stream": "stdout"}

What NCCL writes itself begins with `host:process:thread [device] NCCL INFO`; anything may stand in front of the host: labels of
torchrun, srun, MPI, Ray, Kubernetes, time stamps, colours. A line may be a value in an object of JSON.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock_net.errors import SpecError

_MARK = "NCCL INFO"
_COLOUR = re.compile(r"(?:\x1b|\^\[)(?:\[[0-?]*[ -/]*[@-~]|\([A-Z0-9])")
_OF_HOST = r"[^\s:;,|=<>()\[\]{}\"'\\]"
_HEAD = re.compile(
    rf"(?<!{_OF_HOST})({_OF_HOST}{{1,255}}):(\d{{1,10}}):\d{{1,10}} \[(\d{{1,5}})\] (?:\S{{1,40}} ){{0,4}}?{_MARK} ", re.ASCII
)
_LABELS = re.compile(r"(?:\[[^\]]{0,80}\] ?)*")  # of NCCL itself: [0], [Rank 0]
_LEFT_OUT_BY_RAY = re.compile(r"\[repeated \d+x across cluster\]")
_BEGIN = r"(\w{1,40}): (?=opCount |[^:]{0,200}\bsendbuff \S+ recvbuff )"
_CALL = re.compile(_BEGIN, re.ASCII)
_LOGGED = re.compile(rf"{_MARK} (?:\[[^\]]{{0,80}}\] ?)*{_BEGIN}", re.ASCII)
NEEDED = ("opCount", "count", "datatype", "root", "comm", "nranks", "stream")
_KNOWN = {*NEEDED, "op", "sendbuff", "recvbuff", "task", "globalrank"}

Gpu = tuple[str, int, int]  # host, process, device


class Line(NamedTuple):
    """What NCCL has written: `text` is what follows `NCCL INFO` and labels."""

    number: int
    gpu: Gpu
    text: str


class Fields(NamedTuple):
    """A call: its name, its fields by their names, and the names of others, which mean nothing here."""

    name: str
    fields: dict[str, str]
    unknown: list[str]


def lines(text: str, path: str) -> Iterator[Line]:
    """The lines of NCCL in a log.  SpecError: a call of which the line does not say who made it, or that is damaged."""
    for number, line in enumerate(text.split("\n"), start=1):
        if _MARK in line:
            for part in _parts(line):
                if (found := _line(part, number, path)) is not None:
                    yield found


def call_of(line: Line) -> Fields | None:
    """The call that a line logs.  SpecError: it has not all of its fields, or one of them twice."""
    if not (begin := _CALL.match(line.text)):
        return None
    words = re.sub(r"[\[\],]", " ", line.text[len(begin[1]) + 1 :]).replace("=", " ").split()
    fields: dict[str, str] = {}
    for key, value in zip(words[::2], [*words[1::2], ""]):
        if key in fields:
            raise SpecError("occurs twice in this call", path=key, remedy="are two lines mixed?")
        if value in _KNOWN and key in _KNOWN:
            raise SpecError(f"the call {begin[1]} has no value there", path=key)
        fields[key] = value
    missing = [key for key in NEEDED if not fields.get(key)]
    if missing:
        rule = f"the call {begin[1]} ends too early, or has another form: it has no {', '.join(missing)}"
        raise SpecError(rule, value=line.text[-80:])
    return Fields(begin[1], fields, [key for key in fields if key not in _KNOWN])


def _parts(line: str) -> list[str]:
    """The lines within a line: those of a text in JSON, or itself; without colours."""
    texts = [line]
    if (start := line.find("{")) >= 0 and line.rstrip().endswith("}"):
        try:
            table = json.loads(line[start:])
        except (ValueError, RecursionError):
            table = None
        if isinstance(table, dict):
            values = [value for value in table.values() if isinstance(value, str) and _MARK in value]
            texts = [part for value in values[:1] for part in value.splitlines()] or texts
    return [_COLOUR.sub("", text).rstrip() for text in texts]


def _line(text: str, number: int, path: str) -> Line | None:
    place = f"{path}:{number}"
    heads = list(_HEAD.finditer(text))
    logged = _LOGGED.search(text) is not None
    if logged and len(heads) > 1:
        rule = "two lines of the log have run into each other"
        raise SpecError(
            rule, remedy="let each process write its own file (NCCL_DEBUG_FILE=log.%h.%p), and join these", place=place
        )
    if logged and _LEFT_OUT_BY_RAY.search(text):
        raise SpecError("Ray has left out lines that are like this one", remedy="set RAY_DEDUP_LOGS=0", place=place)
    if not heads:
        if logged:
            rule = "nothing says whose call this is: before NCCL INFO must be host:process:thread [device]"
            raise SpecError(rule, value=text[: text.index(_MARK) + len(_MARK)][-80:], place=place)
        return None
    head = heads[0]
    labels = _LABELS.match(text, head.end())
    return Line(number, (head[1], int(head[2]), int(head[3])), text[labels.end() if labels else head.end() :])
