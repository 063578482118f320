"""Collectives as messages among ranks 0 to n - 1: who sends which part of its buffer to whom, after what.

    expand("all_reduce", ranks=8, bytes=10**6, algorithm="halving_doubling") -> Messages

`penstock.workload.taskgraph.TaskGraph.collective` puts them on hosts and chains them with computations.
A new algorithm is a function here and a line in ALGORITHMS.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from penstock.errors import SpecError
from penstock.inputs import MAX_FLOW_BYTES, one_of, whole

MAX_MESSAGES = 2**28
_OF_THE_OTHERS = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")  # one part of the bytes stays where it is


class Messages(NamedTuple):
    """The messages of one collective, in numpy columns of equal length.

    src, dst        int64, ranks
    bytes           int64, payload, >= 1
    offset          int64, where this part begins in the sender's buffer, B
    reduces         bool: the receiver adds it to its own part; otherwise it keeps a copy
    child, parent   int64, pairs of message numbers: `child` is sent when all its parents have been received, by its sender
    """

    src: np.ndarray
    dst: np.ndarray
    bytes: np.ndarray
    offset: np.ndarray
    reduces: np.ndarray
    child: np.ndarray
    parent: np.ndarray

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.src)


def expand(collective: str, ranks: int, bytes: int, *, algorithm: str = "", chunks: int = 1, root: int = 0) -> Messages:
    """The messages of one collective.

    collective  a key of ALGORITHMS
    ranks       how many take part, at least 2
    bytes       as NCCL counts: all_reduce, broadcast, sendrecv: the buffer of each rank; reduce_scatter: its input;
                all_gather: its output; all_to_all: all that a rank has for the n ranks, itself included
    algorithm   a key of ALGORITHMS[collective]; "": the first one
    chunks      pieces of a part that travel as messages of their own, each after its own parents
    root        of a broadcast

    SpecError names whatever is out of range: a part would have less than a byte, or the number of ranks does not suit.
    """
    known = ALGORITHMS[one_of(collective, "collective", ALGORITHMS)]
    chosen = one_of(algorithm or default_algorithm(collective), "algorithm", known)
    n, chunks = whole(ranks, "ranks", 2), whole(chunks, "chunks", 1)
    size, root = whole(bytes, "bytes", 1, MAX_FLOW_BYTES), whole(root, "root", 0, n - 1)
    if root and collective != "broadcast":
        raise SpecError(f"{collective} has no root", path="root", value=root, remedy="leave it out")
    return known[chosen](n, size, chunks, root)


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
    return Messages(rank, to, sizes[part], _offsets(sizes)[part], step < reducing, waits, parent[waits])


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
        columns.append((rank, partner, last - first, first, np.full(len(rank), halving)))
        place, each = number * n * chunks, n * chunks
        for before in range(number):
            received = before * each + piece * n + (rank ^ (1 << steps[before][0]))
            edges.append((place + np.arange(each), received))
    src, dst, sizes, offset, reduces = (np.concatenate(parts) for parts in zip(*columns))
    child, parent = _pairs(edges)
    return Messages(src, dst, sizes, offset, reduces, child, parent)


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
    return Messages(src, dst, sizes[part], _offsets(sizes)[part], np.arange(total) < total // 2, child, parent)


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
    return Messages((above + root) % n, (rank + root) % n, sizes[piece], _offsets(sizes)[piece], kept, waits, parent[waits])


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
    return Messages(rank, to, sizes[part], _offsets(sizes)[part], np.full(len(rank), False), waits, parent[waits])


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
    return Messages(rank, (rank + 1) % n, sizes[piece], _offsets(sizes)[piece], np.full(len(rank), False), none, none)


Algorithm = Callable[[int, int, int, int], Messages]
ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all_reduce": {"ring": _ring_all_reduce, "halving_doubling": _halving_doubling_all_reduce, "tree": _tree_all_reduce},
    "reduce_scatter": {"ring": _ring_reduce_scatter, "halving": _halving_reduce_scatter},
    "all_gather": {"ring": _ring_all_gather, "doubling": _doubling_all_gather},
    "all_to_all": {"direct": _direct_all_to_all, "pairwise": _pairwise_all_to_all},
    "broadcast": {"tree": _tree_broadcast, "ring": _ring_broadcast},
    "sendrecv": {"direct": _sendrecv},
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
