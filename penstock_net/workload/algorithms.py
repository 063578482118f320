"""Collectives as messages among ranks 0 to n - 1: who sends which part of its buffer to whom, after what.

    expand("all_reduce", ranks=8, bytes=10**6, algorithm="halving_doubling") -> Messages

`penstock_net.workload.taskgraph.TaskGraph.collective` puts them on hosts and chains them with computations.
A new algorithm is a function here and a line in ALGORITHMS.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, one_of, whole
from penstock_net.topology.scale_up import Servers
from penstock_net.workload.connections import ALONE

MAX_MESSAGES = 2**28
IN_NETWORK = "in_network"  # switches do the work: what of its messages reaches other hosts is their sums
_OF_THE_OTHERS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")  # one part of the bytes stays where it is


class Messages(NamedTuple):
    """The messages of one collective, in numpy columns of equal length.

    src, dst        int64, ranks
    bytes           int64, payload, >= 1
    offset          int64, where this part begins in the sender's buffer, B; of what has come from several ranks: in theirs
    reduces         bool: the receiver adds it to its own part; otherwise it keeps a copy
    piece           int64, which of the `chunks` pieces of a part it is; ALONE: it is on no connection
    child, parent   int64, pairs of message numbers: `child` is sent when all its parents have been received, by its sender
    relayed         bool: the receiver only passes it on, and need not have received it to be done; None: no message
    """

    src: np.ndarray
    dst: np.ndarray
    bytes: np.ndarray
    offset: np.ndarray
    reduces: np.ndarray
    piece: np.ndarray
    child: np.ndarray
    parent: np.ndarray
    relayed: np.ndarray | None = None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.src)


def expand(
    collective: str,
    ranks: int,
    bytes: int,
    *,
    algorithm: str = "",
    chunks: int = 1,
    root: int = 0,
    servers: Servers | None = None,
) -> Messages:
    """The messages of one collective.

    collective  a key of ALGORITHMS
    ranks       how many take part, at least 2
    bytes       as NCCL counts: all_reduce, broadcast, sendrecv: the buffer of each rank; reduce_scatter: its input;
                all_gather: its output; all_to_all: all that a rank has for the n ranks, itself included
    algorithm   a key of ALGORITHMS[collective]; "": the first one
    chunks      pieces of a part that travel as messages of their own, each after its own parents
    root        of a broadcast
    servers     by rank, which are in one server; algorithms of WITHIN_SERVERS need it

    SpecError names whatever is out of range: a part would have less than a byte, or the number of ranks does not suit.
    """
    known = ALGORITHMS[one_of(collective, "collective", ALGORITHMS)]
    chosen = one_of(algorithm or default_algorithm(collective), "algorithm", known)
    n, chunks = whole(ranks, "ranks", 2), whole(chunks, "chunks", 1)
    size, root = whole(bytes, "bytes", 1, MAX_FLOW_BYTES), whole(root, "root", 0, n - 1)
    if root and collective != "broadcast":
        raise SpecError(f"{collective} has no root", path="root", value=root, remedy="leave it out")
    if chosen in WITHIN_SERVERS:
        return known[chosen](n, size, chunks, root, in_servers(chosen, servers))
    return known[chosen](n, size, chunks, root)


def in_servers(algorithm: str, servers: Servers | None, path: str = "algorithm") -> Servers:
    """The servers.  SpecError: an algorithm needs them, and the network has none."""
    if servers is None:
        rule = "needs servers, whose GPUs are joined by a switch of their own"
        remedy = "a network of rails with scale_up_rate has them; for a trace give gpus, the GPUs of a server"
        raise SpecError(rule, path=path, value=algorithm, remedy=remedy)
    return servers


def default_algorithm(collective: str) -> str:
    """The first of its algorithms."""
    return next(iter(ALGORITHMS[one_of(collective, "collective", ALGORITHMS)]))


def bus_factor(collective: str, ranks: int) -> float:
    """What bytes / time is multiplied by to give the bus bandwidth, by NCCL's definition (nccl-tests, PERFORMANCE.md)."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in _OF_THE_OTHERS else 1.0


def _ring(n: int, size: int, chunks: int, steps: int, reducing: int, shift: int = 0) -> Messages:
    """In step s rank i sends segment (i - s - shift) mod n to rank i + 1, each piece when it has that of step s - 1."""
    _at_least(size, n * chunks, f"{n} ranks of {chunks} chunks")
    _limit(steps * n * chunks)
    step, rank, piece = (a.ravel() for a in np.mgrid[0:steps, 0:n, 0:chunks])
    part = (rank - step - shift) % n * chunks + piece
    sizes = cut(size, n * chunks)
    parent = ((step - 1) * n + (rank - 1) % n) * chunks + piece
    waits = np.flatnonzero(step)
    to = (rank + 1) % n
    return Messages(rank, to, sizes[part], _offsets(sizes)[part], step < reducing, piece, waits, parent[waits])


def _ring_all_reduce(n: int, size: int, chunks: int, root: int) -> Messages:
    """n - 1 steps of reduce-scatter, then n - 1 of all-gather."""
    return _ring(n, size, chunks, 2 * (n - 1), n - 1)


def _ring_reduce_scatter(n: int, size: int, chunks: int, root: int) -> Messages:
    """Rank i ends with segment i of the sum."""
    return _ring(n, size, chunks, n - 1, n - 1, shift=1)


def _ring_all_gather(n: int, size: int, chunks: int, root: int) -> Messages:
    """Rank i begins with segment i."""
    return _ring(n, size, chunks, n - 1, 0)


def _halving(n: int, size: int, chunks: int, scatter: bool, gather: bool) -> Messages:
    """Recursive halving, doubling, or both, among n = 2^k ranks, for every chunk of the buffer on its own.

    Step j of k halves: rank r sends the half of its present range that its partner, r xor 2^(k-1-j), keeps. Doubling is the
    same backwards. A rank enters a step when it has received everything of the steps before.
    """
    k = n.bit_length() - 1
    if n != 1 << k:
        remedy = f'take {1 << k} or {2 << k} of them, or algorithm = "ring"'
        raise SpecError("halving and doubling needs a power of two", path="ranks", value=n, remedy=remedy)
    _at_least(size, n * chunks, f"{n} ranks of {chunks} chunks")
    steps = ([(k - 1 - j, True) for j in range(k)] if scatter else []) + ([(j, False) for j in range(k)] if gather else [])
    total = len(steps) * chunks * n
    _limit(total * (len(steps) + 1) // 2)
    bounds = np.concatenate([[0], np.cumsum(cut(size, n * chunks))])
    rank, piece = np.tile(np.arange(n), chunks), np.repeat(np.arange(chunks), n)
    columns: list[tuple[np.ndarray, ...]] = []
    edges: list[tuple[np.ndarray, np.ndarray]] = []
    for number, (bit, halving) in enumerate(steps):
        partner = rank ^ (1 << bit)
        # what is sent: the segments that agree with the partner (halving) or with the sender (doubling) in all bits from `bit` on
        low = ((partner if halving else rank) >> bit << bit) + piece * n
        first, last = bounds[low], bounds[low + (1 << bit)]
        columns.append((rank, partner, last - first, first, np.full(len(rank), halving), piece))
        place, each = number * n * chunks, n * chunks
        for before in range(number):
            received = before * each + piece * n + (rank ^ (1 << steps[before][0]))
            edges.append((place + np.arange(each), received))
    src, dst, sizes, offset, reduces, pieces = (np.concatenate(parts) for parts in zip(*columns))
    child, parent = _pairs(edges)
    return Messages(src, dst, sizes, offset, reduces, pieces, child, parent)


def _halving_reduce_scatter(n: int, size: int, chunks: int, root: int) -> Messages:
    return _halving(n, size, chunks, scatter=True, gather=False)


def _doubling_all_gather(n: int, size: int, chunks: int, root: int) -> Messages:
    return _halving(n, size, chunks, scatter=False, gather=True)


def _halving_doubling_all_reduce(n: int, size: int, chunks: int, root: int) -> Messages:
    """If n is not a power of two, each even one of the first 2 (n - 2^k) ranks gives its buffer to its neighbour first, and gets
    the sum from it at last (Thakur et al., 2005)."""
    core = 1 << (n.bit_length() - 1)
    extra = n - core
    inner = _halving(core, size, chunks, scatter=True, gather=True)
    if not extra:
        return inner
    real = np.concatenate([2 * np.arange(extra) + 1, np.arange(2 * extra, n)])  # ranks of those that take part
    sizes = cut(size, core * chunks).reshape(chunks, core).sum(axis=1)
    piece, even = (a.ravel() for a in np.mgrid[0:chunks, 0:extra])
    outer = len(piece)
    begin, end = outer, outer + len(inner)  # numbers: to the neighbours, inner, and back
    inner_piece = np.searchsorted(_offsets(sizes), inner.offset, side="right") - 1
    fold = np.full(n, -1)  # by rank: its place among those that got a buffer first
    fold[2 * np.arange(extra) + 1] = np.arange(extra)
    sent_by, got_by = fold[real[inner.src]], fold[real[inner.dst]]
    sent, got = np.flatnonzero(sent_by >= 0), np.flatnonzero(got_by >= 0)
    edges = [
        (begin + inner.child, begin + inner.parent),
        (begin + sent, inner_piece[sent] * extra + sent_by[sent]),
        (end + inner_piece[got] * extra + got_by[got], begin + got),
        (end + np.arange(outer), np.arange(outer)),
    ]
    child, parent = _pairs(edges)
    there, back, part, where = 2 * even, 2 * even + 1, sizes[piece], _offsets(sizes)[piece]
    return Messages(
        np.concatenate([there, real[inner.src], back]),
        np.concatenate([back, real[inner.dst], there]),
        np.concatenate([part, inner.bytes, part]),
        np.concatenate([where, inner.offset, where]),
        np.concatenate([np.full(outer, True), inner.reduces, np.full(outer, False)]),
        np.concatenate([piece, inner.piece, piece]),
        child,
        parent,
    )


def _tree_all_reduce(n: int, size: int, chunks: int, root: int) -> Messages:
    """Reduced up a binary tree to rank 0, then broadcast down: rank r hangs on rank (r - 1) // 2.

    Numbered: all going up, then all coming down, piece by piece.
    """
    _at_least(size, chunks, f"{chunks} chunks")
    _limit(2 * (n - 1) * chunks)
    piece, rank = (a.ravel() for a in np.mgrid[0:chunks, 1:n])
    over = (rank - 1) // 2

    def up(rank: np.ndarray | int, piece: np.ndarray) -> np.ndarray:
        return piece * (n - 1) + (n - 1 - rank)

    def down(rank: np.ndarray | int, piece: np.ndarray) -> np.ndarray:
        return (chunks + piece) * (n - 1) + (rank - 1)

    inner, each = over > 0, np.arange(chunks)
    waits = [(up(over, piece)[inner], up(rank, piece)[inner]), (down(rank, piece)[inner], down(over, piece)[inner])]
    below_root = range(1, min(n, 3))
    waits += [(down(child, each), up(other, each)) for child in below_root for other in below_root]
    child, parent = _pairs(waits)
    total = 2 * (n - 1) * chunks
    src, dst, part = (np.empty(total, dtype=np.int64) for _ in range(3))
    for number, sender, receiver in ((up(rank, piece), rank, over), (down(rank, piece), over, rank)):
        src[number], dst[number], part[number] = sender, receiver, piece
    sizes = cut(size, chunks)
    return Messages(src, dst, sizes[part], _offsets(sizes)[part], np.arange(total) < total // 2, part, child, parent)


def _broadcast(n: int, size: int, chunks: int, root: int, over: np.ndarray) -> Messages:
    """Ranks, counted from the root, receive every piece from `over` and pass it on at once; numbered by piece, receiver."""
    _at_least(size, chunks, f"{chunks} chunks")
    _limit((n - 1) * chunks)
    piece, rank = (a.ravel() for a in np.mgrid[0:chunks, 1:n])
    above = over[rank]
    sizes = cut(size, chunks)
    waits = np.flatnonzero(above)
    parent = piece * (n - 1) + above - 1
    kept = np.full(len(rank), False)
    return Messages(
        (above + root) % n, (rank + root) % n, sizes[piece], _offsets(sizes)[piece], kept, piece, waits, parent[waits]
    )


def _tree_broadcast(n: int, size: int, chunks: int, root: int) -> Messages:
    return _broadcast(n, size, chunks, root, (np.arange(n) - 1) // 2)


def _ring_broadcast(n: int, size: int, chunks: int, root: int) -> Messages:
    """A chain: with many chunks each rank sends while it receives."""
    return _broadcast(n, size, chunks, root, np.arange(n) - 1)


def _exchange(n: int, size: int, chunks: int, in_steps: bool) -> Messages:
    """Rank i sends block j to every rank j: those to i + 1 first; in steps: each when that of the step before has come."""
    _at_least(size, n * chunks, f"{n} ranks of {chunks} chunks")
    _limit((n - 1) * n * chunks)
    step, rank, piece = (a.ravel() for a in np.mgrid[0 : n - 1, 0:n, 0:chunks])
    to = (rank + step + 1) % n
    sizes = cut(size, n * chunks)
    part = to * chunks + piece
    waits = np.flatnonzero(step) if in_steps else np.empty(0, dtype=np.int64)
    parent = ((step - 1) * n + (rank - step) % n) * chunks + piece
    return Messages(rank, to, sizes[part], _offsets(sizes)[part], np.full(len(rank), False), piece, waits, parent[waits])


def _direct_all_to_all(n: int, size: int, chunks: int, root: int) -> Messages:
    return _exchange(n, size, chunks, in_steps=False)


def _pairwise_all_to_all(n: int, size: int, chunks: int, root: int) -> Messages:
    return _exchange(n, size, chunks, in_steps=True)


def _sendrecv(n: int, size: int, chunks: int, root: int) -> Messages:
    """Every rank sends its buffer to the next one, all at once."""
    _at_least(size, chunks, f"{chunks} chunks")
    _limit(n * chunks)
    rank, piece = (a.ravel() for a in np.mgrid[0:n, 0:chunks])
    sizes, none = cut(size, chunks), np.empty(0, dtype=np.int64)
    return Messages(rank, (rank + 1) % n, sizes[piece], _offsets(sizes)[piece], np.full(len(rank), False), piece, none, none)


def _two_level_all_reduce(n: int, size: int, chunks: int, root: int, servers: Servers) -> Messages:
    """Reduce-scatter around the ring of each server, all-reduce around a ring of each rail, all-gather in each server.

    With k ranks in each of s servers, the segment of rank j of a server is the j-th of k, and is cut into s parts for its rail.
    A rank begins with its rail, piece by piece, when it has the sum of its server, and with the all-gather when it has that of
    its rail.
    """
    number, count = np.unique(servers.server, return_counts=True)
    if number[0] < 0 or np.ptp(count):
        rule = f"needs as many ranks in each server, and here are {' or '.join(map(str, np.unique(count)))}"
        remedy = 'place them server by server (placement = "packed"), or take algorithm = "ring"'
        raise SpecError(rule, path="algorithm", value="two_level", remedy=remedy)
    s, k = len(number), n // len(number)
    _at_least(size, n * chunks, f"{n} ranks of {chunks} chunks")
    _limit(n * chunks * 2 * (k + s - 2))
    rank = np.lexsort((servers.place, servers.server)).reshape(s, k)
    parts = cut(size, n * chunks).reshape(k, chunks, s)  # by segment, piece, part for the rail
    begins = _offsets(parts.ravel()).reshape(parts.shape)

    def numbered(first: int, steps: int) -> tuple[np.ndarray, ...]:
        grid = np.indices((steps, s, k, chunks)).reshape(4, -1)
        return (first + np.arange(grid.shape[1]), *grid)

    def at(first: int, step: np.ndarray | int, server: np.ndarray, j: np.ndarray, piece: np.ndarray) -> np.ndarray:
        return first + ((step * s + server) * k + j) * chunks + piece

    each = n * chunks
    rail, gather = (k - 1) * each, (k - 1 + 2 * (s - 1)) * each
    columns: list[tuple[np.ndarray, ...]] = []
    edges: list[tuple[np.ndarray, np.ndarray]] = []
    for first, reducing in ((0, True), (gather, False)):
        me, step, server, j, piece = numbered(first, k - 1)
        segment = (j - step - reducing) % k
        columns.append(
            (rank[server, j], rank[server, (j + 1) % k], parts.sum(axis=2)[segment, piece], begins[segment, piece, 0], piece)
        )
        later = step > 0
        edges.append((me[later], at(first, step - 1, server, (j - 1) % k, piece)[later]))
        if not reducing and s > 1:  # what the rail's reduce-scatter has made in its last step, and what its all-gather brought
            for before in range(s - 2, 2 * (s - 1)):
                edges.append((me[~later], at(rail, before, (server - 1) % s, j, piece)[~later]))
        elif not reducing:
            edges.append((me[~later], at(0, k - 2, server, (j - 1) % k, piece)[~later]))
    me, step, server, j, piece = numbered(rail, 2 * (s - 1))
    part = (server - step) % s
    along = (rank[server, j], rank[(server + 1) % s, j], parts[j, piece, part], begins[j, piece, part], piece)
    columns.insert(1, along)
    later = step > 0
    edges.append((me[later], at(rail, step - 1, (server - 1) % s, j, piece)[later]))
    if k > 1:  # all that is added up, and the first that is passed on, has this rank's own part in it
        adds = step < s
        edges.append((me[adds], at(0, k - 2, server, (j - 1) % k, piece)[adds]))
    src, dst, sizes, offset, pieces = (np.concatenate(column) for column in zip(*columns))
    reduces = np.arange(len(src)) < rail + (s - 1) * each
    child, parent = _pairs(edges)
    return Messages(src, dst, sizes, offset, reduces, pieces, child, parent)


def _by_rail(direct: Messages, servers: Servers) -> Messages:
    """Messages that wait for nothing, those to other servers by way of the rank of this server that has the receiver's place.

    What the ranks of a server have for one receiver leaves as one message (NCCL's PXN). Where nobody has the place, messages go
    straight.
    """
    relay = servers.relays(direct.src, direct.dst)
    joined = np.flatnonzero(relay >= 0)
    by, to, piece = relay[joined], direct.dst[joined], direct.piece[joined]
    keys = (by * len(servers.server) + to) * (piece.max(initial=0) + 1) + piece
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    by, to, piece = by[first], to[first], piece[first]
    sizes = np.bincount(which, weights=direct.bytes[joined], minlength=len(by)).astype(np.int64)
    turns = np.argsort(first, kind="stable")  # in the order in which they would have been sent
    place = np.empty(len(by), dtype=np.int64)
    place[turns] = np.arange(len(by))
    kept = np.flatnonzero(relay != direct.src)  # to the relay, or straight
    passed = relay[kept] >= 0
    position = np.full(len(direct), -1)
    position[joined] = len(kept) + place[which]
    return Messages(
        np.concatenate([direct.src[kept], by[turns]]),
        np.concatenate([np.where(passed, relay[kept], direct.dst[kept]), to[turns]]),
        np.concatenate([direct.bytes[kept], sizes[turns]]),
        np.concatenate([direct.offset[kept], direct.offset[joined][first][turns]]),
        np.full(len(kept) + len(by), False),
        np.concatenate([direct.piece[kept], piece[turns]]),
        position[kept][passed],
        np.flatnonzero(passed),
        np.append(passed, np.full(len(by), False)),
    )


def _rail_all_to_all(n: int, size: int, chunks: int, root: int, servers: Servers) -> Messages:
    return _by_rail(_direct_all_to_all(n, size, chunks, root), servers)


def _rail_sendrecv(n: int, size: int, chunks: int, root: int, servers: Servers) -> Messages:
    return _by_rail(_sendrecv(n, size, chunks, root), servers)


def _in_network_all_reduce(n: int, size: int, chunks: int, root: int) -> Messages:
    """Every rank sends its buffer up a tree of switches and receives the sum: as a message to the next rank, which ends when
    that one has everything. Numbered by rank."""
    if chunks > 1:
        remedy = "leave it out"
        raise SpecError("switches reduce packet by packet, without other pieces", path="chunks", value=chunks, remedy=remedy)
    _limit(n)
    rank, none, zero = np.arange(n), np.empty(0, dtype=np.int64), np.zeros(n, dtype=np.int64)
    return Messages(rank, (rank + 1) % n, zero + size, zero, np.full(n, True), zero + ALONE, none, none)


PXN, TWO_LEVEL = "pxn", "two_level"
WITHIN_SERVERS = (PXN, TWO_LEVEL)  # algorithms that know which ranks are in one server
Algorithm = Callable[..., Messages]  # ranks, bytes, chunks, root, and servers for those of WITHIN_SERVERS
ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all_reduce": {
        "ring": _ring_all_reduce,
        "halving_doubling": _halving_doubling_all_reduce,
        "tree": _tree_all_reduce,
        TWO_LEVEL: _two_level_all_reduce,
        IN_NETWORK: _in_network_all_reduce,
    },
    "reduce_scatter": {"ring": _ring_reduce_scatter, "halving": _halving_reduce_scatter},
    "all_gather": {"ring": _ring_all_gather, "doubling": _doubling_all_gather},
    "all_to_all": {"direct": _direct_all_to_all, "pairwise": _pairwise_all_to_all, PXN: _rail_all_to_all},
    "broadcast": {"tree": _tree_broadcast, "ring": _ring_broadcast},
    "sendrecv": {"direct": _sendrecv, PXN: _rail_sendrecv},
}


def cut(size: int, pieces: int) -> np.ndarray:
    """Sizes of so many pieces, the first ones a byte longer where it does not divide."""
    return size // pieces + (np.arange(pieces) < size % pieces)


def _offsets(sizes: np.ndarray) -> np.ndarray:
    return np.cumsum(sizes) - sizes


def _pairs(edges: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    if not edges:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    child, parent = (np.concatenate(ends).astype(np.int64) for ends in zip(*edges))
    return child, parent


def _at_least(size: int, pieces: int, what: str) -> None:
    if size < pieces:
        raise SpecError("fewer than one per piece", path="bytes", value=size, remedy=f"{what} need {pieces}")


def _limit(messages: int) -> None:
    if messages > MAX_MESSAGES:
        raise SpecError(f"{messages} flows are more than {MAX_MESSAGES}", remedy="use fewer hosts or chunks")
