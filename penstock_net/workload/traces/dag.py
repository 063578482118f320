"""What every importer makes of its file: operations of ranks, and which of them wait for which.

    trace = Trace("step.goal", ranks=2)
    compute = trace.calc(0, 5_000_000, place=3)
    sent = trace.send(0, 1, 8192, tag=0, place=4)
    trace.wait(sent, compute)
    trace.recv(1, 0, 8192, tag=0, place=9)

Operations are numbered in the order in which they are added. In this order messages of one tag are matched, and the
collectives of a group. An operation waits only for operations of its own rank. `lower.py` makes flows of a trace.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, within_range
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.workload.operations import LONGEST_NAME

SEND, RECV, CALC, COLLECTIVE = range(4)
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "barrier")
MAX_OPERATIONS = 2**22


@dataclass(frozen=True)
class Call:
    """What one rank calls: a collective of COLLECTIVES among `group`, ranks in their order.

    bytes  what NCCL's tests call the size: the buffer of a rank (all_reduce, broadcast, reduce), all that a rank has at the
           end (all_gather, gather at its root) or at the beginning (reduce_scatter, all_to_all, scatter at its root)
    root   a place in `group`, of those that have one
    name   of the communicator, if ranks may have several with the same members
    """

    kind: str
    group: tuple[int, ...]
    bytes: int
    root: int = 0
    name: str = ""


class Trace:
    """Operations of `ranks` ranks as columns, and pairs of them that wait for one another.

    file     the path, for messages          unit   what a place in it is: "line" makes FILE:12, else "FILE: node 12"
    notes    sentences on what the file says and flows cannot, each counted; the user is shown them
    names    what an operation is for, of those of which the file says it
    """

    def __init__(self, file: str, ranks: int, unit: str = "line") -> None:
        if not 1 <= ranks <= MAX_HOSTS:
            raise SpecError(f"{ranks} ranks, but there may be 1 to {MAX_HOSTS}", place=file)
        self.file, self.ranks, self.unit = file, ranks, unit
        self.kind, self.rank, self.peer = array("b"), array("i"), array("i")
        self.tag, self.amount, self.place = array("q"), array("q"), array("q")
        self.child, self.parent, self.on_start = array("i"), array("i"), array("b")
        self.calls: dict[int, Call] = {}
        self.names: dict[int, str] = {}
        self.earliest: dict[int, int] = {}
        self.resource: dict[int, int] = {}  # what an operation needs for itself while it lasts; `order` lets them take turns
        self.resources: dict[tuple[int, str], int] = {}
        self.files: list[str] = []  # of each rank, if there is one per rank
        self.notes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.kind)

    def where(self, op: int) -> str:
        """Where an operation stands, to begin a message with."""
        return self.at(self.place[op], self.rank[op])

    def at(self, place: int, rank: int = 0) -> str:
        """A place in the file, or in that of the rank."""
        file = self.files[rank] if self.files else self.file
        return f"{file}:{place}" if self.unit == "line" else f"{file}: {self.unit} {place}"

    def note(self, sentence: str, count: int = 1) -> None:
        """Count something that cannot be represented."""
        self.notes[sentence] = self.notes.get(sentence, 0) + count

    def send(self, rank: int, peer: int, size: int, tag: int = 0, place: int = 0) -> int:
        """A message of `size` bytes to `peer`; it is complete when the peer has acknowledged all of it, or see `eager`."""
        return self._add(SEND, rank, peer, size, tag, place)

    def recv(self, rank: int, peer: int, size: int, tag: int = 0, place: int = 0) -> int:
        """The receipt of the next message of this tag from `peer`."""
        return self._add(RECV, rank, peer, size, tag, place)

    def calc(self, rank: int, time_ps: int, place: int = 0, name: str = "") -> int:
        """A computation of so long; one of 0 ps only joins what it waits for."""
        return self._named(self._add(CALC, rank, rank, time_ps, 0, place), name)

    def collective(self, rank: int, call: Call, place: int = 0, name: str = "") -> int:
        """The call of a collective, which is the n-th of its group when the rank has called n - 1 of them."""
        op = self._add(COLLECTIVE, rank, rank, call.bytes, 0, place)
        self.calls[op] = call
        return self._named(op, name)

    def not_before(self, op: int, time_ps: int) -> None:
        """`op` begins at this time at the earliest."""
        self._within(time_ps, "time_ps", MAX_TIME_PS, self.where(op))
        self.earliest[op] = time_ps

    def needs(self, op: int, what: str) -> None:
        """`op` needs a resource of its rank, which has it for one operation at a time."""
        self.resource[op] = self.resources.setdefault((self.rank[op], what), len(self.resources))

    def wait(self, op: int, earlier: int, on_start: bool = False) -> None:
        """`op` begins when `earlier`, of the same rank, is complete, or has begun."""
        self.child.append(op)
        self.parent.append(earlier)
        self.on_start.append(on_start)

    def wait_all(self, op: int, earlier: Iterable[int]) -> None:
        """`op` begins when all of these are complete."""
        for other in earlier:
            self.wait(op, other)

    def _add(self, kind: int, rank: int, peer: int, amount: int, tag: int, place: int) -> int:
        where = self.at(place, rank)
        if len(self) >= MAX_OPERATIONS:
            raise SpecError(f"more than {MAX_OPERATIONS} operations", remedy="convert a part of the trace", place=where)
        for name, number in (("rank", rank), ("peer", peer)):
            if not 0 <= number < self.ranks:
                raise SpecError(f"ranks are 0 to {self.ranks - 1}", path=name, value=number, place=where)
        if kind == CALC:
            self._within(amount, "time_ps", MAX_TIME_PS, where)
        else:
            self._within(amount, "bytes", MAX_FLOW_BYTES, where)
        self._within(tag, "tag", 2**63 - 1, where)
        self.kind.append(kind)
        self.rank.append(rank)
        self.peer.append(peer)
        self.amount.append(amount)
        self.tag.append(tag)
        self.place.append(place)
        return len(self) - 1

    def _named(self, op: int, name: str) -> int:
        if name:
            self.names[op] = (name if name.isprintable() else ascii(name)[1:-1])[:LONGEST_NAME]
        return op

    @staticmethod
    def _within(number: int, name: str, high: int, where: str) -> None:
        if not 0 <= number <= high:
            try:
                within_range(number, name, 0, high)
            except SpecError as error:
                raise error.within(place=where) from None


def group_of(ranks: Sequence[int], where: str) -> tuple[int, ...]:
    """The ranks of a group, as a tuple.  SpecError: a rank that occurs twice, or none at all."""
    if not ranks or len(set(ranks)) < len(ranks):
        raise SpecError("a group must be ranks, each once", path="group", value=list(ranks), place=where)
    return tuple(ranks)
