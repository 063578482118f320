"""Flows laid out by hand: lists, permutations, all-to-all, and collectives whose flows wait for one another."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import SpecError
from penstock.inputs import MAX_FLOW_BYTES, known_keys, time_ps, whole
from penstock.units import parse_size
from penstock.workload.flows import PRIORITIES, After, Flows, class_name, csr, host_number, host_numbers
from penstock.workload.streams import stream

if TYPE_CHECKING:
    from penstock.topology import Topology

__all__ = ["all_to_all", "flow_list", "long_flows", "permutation", "ring_all_reduce", "tree_all_reduce"]

_MAX_FLOWS = 2**28
LIST_KEYS = ("src", "dst", "bytes", "start", "class", "priority", "after", "gap")


def flow_list(
    topo: "Topology", flows: Iterable[Sequence[Any] | Mapping[str, Any]], *, class_name: str = "flows", priority: int = 0
) -> Flows:
    """Exactly these flows: (src, dst, "1MB") or (src, dst, "1MB", "10us"), or dicts of src, dst, bytes and perhaps
    start, class, priority, after (the positions in the list of the flows to wait for) and gap (the time from the arrival
    of the last of these to the start). Hosts by number or by name.

    SpecError names the position in the list and what is wrong there.
    """
    items = [_item(topo, given, f"flows.{i}", class_name, priority) for i, given in enumerate(flows)]
    if not items:
        raise SpecError("the list is empty", path="flows", remedy="give at least one (src, dst, bytes, start)")
    classes = tuple(dict.fromkeys(item["class"] for item in items))
    edges = [
        (i, whole(parent, f"flows.{i}.after", 0, len(items) - 1)) for i, item in enumerate(items) for parent in item["after"]
    ]
    child, parent = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    after = csr(child, parent, len(items)) if edges else None
    column = {key: np.array([item[key] for item in items]) for key in ("start", "src", "dst", "bytes", "priority", "gap")}
    class_id = np.array([classes.index(item["class"]) for item in items])
    return Flows(
        column["start"],
        column["src"],
        column["dst"],
        column["bytes"],
        class_id,
        column["priority"],
        classes,
        after,
        [{"kind": "list", "flows": len(items)}],
        column["gap"],
    ).check(topo)


def _item(topo: "Topology", given: Any, where: str, default_class: str, default_priority: int) -> dict[str, Any]:
    if isinstance(given, (list, tuple)) and 3 <= len(given) <= 4:
        given = dict(zip(LIST_KEYS, given))
    if not isinstance(given, Mapping):
        raise SpecError('must be (src, dst, bytes, start), such as (0, 1, "1MB", "0s")', path=where, value=given)
    known_keys(given, LIST_KEYS, where)
    for key in ("src", "dst", "bytes"):
        if key not in given:
            raise SpecError("is missing", path=f"{where}.{key}")
    src, dst = (host_number(topo, given[key], f"{where}.{key}") for key in ("src", "dst"))
    if src == dst:
        raise SpecError("must differ from src, a flow needs two hosts", path=f"{where}.dst", value=given["dst"])
    after = given.get("after", ())
    return {
        "src": src,
        "dst": dst,
        "bytes": _size(given["bytes"], f"{where}.bytes"),
        "start": time_ps(given.get("start", "0s"), f"{where}.start"),
        "class": class_name(given.get("class", default_class)),
        "priority": _priority(given.get("priority", default_priority), f"{where}.priority"),
        "gap": time_ps(given.get("gap", "0s"), f"{where}.gap"),
        "after": after if isinstance(after, (list, tuple)) else [after],
    }


def long_flows(
    topo: "Topology",
    pairs: Iterable[tuple[Any, Any]],
    *,
    bytes: str | int = "100MB",
    start: str = "0s",
    every: str = "0s",
    class_name: str = "long",
    priority: int = 0,
) -> Flows:
    """One flow per (src, dst), the i-th starting at start + i * every: to watch flows share links, join and leave."""
    start_ps, every_ps = time_ps(start, "start"), time_ps(every, "every")
    items = [(src, dst, bytes, f"{start_ps + i * every_ps}ps") for i, (src, dst) in enumerate(pairs)]
    return flow_list(topo, items, class_name=class_name, priority=priority)


def permutation(
    topo: "Topology",
    *,
    bytes: str | int = "1MB",
    hosts: Any = None,
    start: str = "0s",
    seed: int = 1,
    index: int = 0,
    class_name: str = "permutation",
    priority: int = 0,
) -> Flows:
    """Every host sends `bytes` to one other host and receives from one: a uniform permutation without fixed points."""
    ranks = host_numbers(topo, hosts)
    rng = stream(seed, index, "permutation")
    to = rng.permutation(len(ranks))
    while np.any(to == np.arange(len(ranks))):  # one try in e succeeds
        to = rng.permutation(len(ranks))
    nominal = {"kind": "permutation", "bytes": _size(bytes), "hosts": len(ranks), "seed": seed}
    return _flows(ranks, np.arange(len(ranks)), to, _size(bytes), start, class_name, priority, nominal)


def all_to_all(
    topo: "Topology",
    *,
    bytes: str | int = "1MB",
    hosts: Any = None,
    start: str = "0s",
    class_name: str = "all_to_all",
    priority: int = 0,
) -> Flows:
    """Every host sends `bytes` to every other one, all at once: n (n - 1) flows, those from i to i + 1 first."""
    ranks = host_numbers(topo, hosts)
    n = len(ranks)
    _limit(n * (n - 1))
    shift, src = (a.ravel() for a in np.mgrid[1:n, 0:n])
    nominal = {"kind": "all_to_all", "bytes": _size(bytes), "hosts": n}
    return _flows(ranks, src, (src + shift) % n, _size(bytes), start, class_name, priority, nominal)


def ring_all_reduce(
    topo: "Topology",
    *,
    bytes: str | int = "10MB",
    hosts: Any = None,
    start: str = "0s",
    chunks: int = 1,
    class_name: str = "ring_all_reduce",
    priority: int = 0,
) -> Flows:
    """All-reduce of `bytes` per rank around a ring: n - 1 steps of reduce-scatter, n - 1 of all-gather.

    The buffer is cut into n segments of bytes/n (sizes differ by at most one byte), each into `chunks` pieces that
    travel as separate flows. In step s rank i sends segment (i - s) mod n to rank i + 1, piece by piece, each as soon
    as it has received that piece from rank i - 1 in step s - 1. 2 (n - 1) n chunks flows; 2 (n - 1) bytes in total.
    Flows are numbered by step, rank, piece.
    """
    ranks = host_numbers(topo, hosts)
    n, size, chunks = len(ranks), _size(bytes), whole(chunks, "chunks", 1)
    if size < n * chunks:
        raise SpecError(
            "fewer than one per piece", path="bytes", value=size, remedy=f"{n} ranks of {chunks} chunks need {n * chunks}"
        )
    _limit(2 * (n - 1) * n * chunks)
    step, rank, piece = (a.ravel() for a in np.mgrid[0 : 2 * (n - 1), 0:n, 0:chunks])
    sizes = _cut(size, n * chunks)[(rank - step) % n * chunks + piece]
    number = np.arange(len(step))
    waits = step > 0
    parent = ((step - 1) * n + (rank - 1) % n) * chunks + piece
    after = csr(number[waits], parent[waits], len(step))
    nominal = {"kind": "ring_all_reduce", "bytes": size, "hosts": n, "chunks": chunks}
    return _flows(ranks, rank, (rank + 1) % n, sizes, start, class_name, priority, nominal, after)


def tree_all_reduce(
    topo: "Topology",
    *,
    bytes: str | int = "10MB",
    hosts: Any = None,
    start: str = "0s",
    chunks: int = 1,
    class_name: str = "tree_all_reduce",
    priority: int = 0,
) -> Flows:
    """All-reduce of `bytes` per rank over a binary tree: reduced up to rank 0, then broadcast down.

    Rank r hangs on rank (r - 1) // 2. Going up, a rank sends to its parent when it has received from all its children
    (leaves at `start`); coming down, rank 0 sends to its children when all have reported, every other rank when its
    parent has sent. The buffer travels in `chunks` pieces, each a flow with its own dependencies.
    2 (n - 1) chunks flows; 2 (n - 1) bytes in total. Numbered: all going up, then all coming down, piece by piece.
    """
    ranks = host_numbers(topo, hosts)
    n, size, chunks = len(ranks), _size(bytes), whole(chunks, "chunks", 1)
    if size < chunks:
        raise SpecError("fewer than one per piece", path="bytes", value=size, remedy=f"{chunks} chunks need {chunks}")
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
    total = 2 * (n - 1) * chunks
    child, parent = (np.concatenate(ends) for ends in zip(*waits))
    after = csr(child, parent, total)
    src, dst, sizes = (np.empty(total, dtype=np.int64) for _ in range(3))
    for number, sender, receiver in ((up(rank, piece), rank, over), (down(rank, piece), over, rank)):
        src[number], dst[number], sizes[number] = sender, receiver, _cut(size, chunks)[piece]
    nominal = {"kind": "tree_all_reduce", "bytes": size, "hosts": n, "chunks": chunks}
    return _flows(ranks, src, dst, sizes, start, class_name, priority, nominal, after)


def _cut(size: int, pieces: int) -> np.ndarray:
    """Sizes of so many pieces, the first ones a byte longer where it does not divide."""
    return size // pieces + (np.arange(pieces) < size % pieces)


def _flows(
    ranks: np.ndarray,
    src: np.ndarray,
    dst: np.ndarray,
    size: np.ndarray | int,
    start: str,
    name: str,
    priority: int,
    nominal: dict[str, Any],
    after: After | None = None,
) -> Flows:
    n = len(src)
    zeros = np.zeros(n, dtype=np.int8)
    start_ps = time_ps(start, "start")
    nominal = {**nominal, "class": name, "start_ps": start_ps}
    return Flows(
        np.full(n, start_ps),
        ranks[src],
        ranks[dst],
        np.broadcast_to(size, n),
        zeros,
        np.full(n, _priority(priority)),
        (class_name(name),),
        after,
        [nominal],
    )


def _limit(flows: int) -> None:
    if flows > _MAX_FLOWS:
        raise SpecError(f"{flows} flows are more than {_MAX_FLOWS}", remedy="use fewer hosts or chunks")


def _size(value: str | int, what: str = "bytes") -> int:
    size = parse_size(value, what, positive=True)
    if size > MAX_FLOW_BYTES:
        raise SpecError(f"is more than {MAX_FLOW_BYTES} B", path=what, value=value, remedy="split the flow")
    return size


def _priority(value: Any, what: str = "priority") -> int:
    return whole(value, what, 0, PRIORITIES - 1)
