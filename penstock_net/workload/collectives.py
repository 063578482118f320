"""Flows laid out by hand: lists, permutations, all-to-all, and collectives whose flows wait for one another.

What a program that makes flows of a trace needs (stable):

    algorithms.expand(collective, ranks, bytes, *, algorithm="", chunks=1, root=0) -> Messages
        the messages of one collective among ranks 0 to n - 1, without hosts: src, dst, bytes, child, parent
    taskgraph.TaskGraph(hosts, *, start_ps=0)
        .begin(ranks), .compute(ranks, time_ps, after), .send(src, dst, size, after),
        .collective(kind, groups, size, after, name, iteration, class_name, algorithm=, chunks=, root=), .flows(nominal)
        tasks after tasks of the same rank, as flows; a computation is a flow of 0 bytes from a host to itself
    placement.placed(topo, hosts, placement, seed, index) -> the host of each rank
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, boolean, elements, instance, known_keys, time_ps, whole
from penstock_net.topology.graph import check_topology
from penstock_net.units import parse_rate, parse_size
from penstock_net.workload.algorithms import MAX_MESSAGES, Messages, default_algorithm, expand
from penstock_net.workload.connections import ALONE, CONNECTIONS, MOST
from penstock_net.workload.flows import PRIORITIES, After, Flows, class_name, csr, host_number, host_numbers, refuse_circle
from penstock_net.workload.limits import RANGES, Limits
from penstock_net.workload.placement import placed
from penstock_net.workload.streams import stream
from penstock_net.workload.taskgraph import TaskGraph

if TYPE_CHECKING:
    from penstock_net.topology import Topology

__all__ = ["all_to_all", "collective", "flow_list", "long_flows", "permutation", "ring_all_reduce", "tree_all_reduce"]

LIST_KEYS = ("src", "dst", "bytes", "start", "class", "priority", "after", "gap", "connection", "rate", "window", "open_loop")


def flow_list(
    topo: "Topology", flows: Iterable[Sequence[Any] | Mapping[str, Any]], *, class_name: str = "flows", priority: int = 0
) -> Flows:
    """Exactly these flows: (src, dst, "1MB") or (src, dst, "1MB", "10us"), or dicts of src, dst, bytes and perhaps
    start, class, priority, after (the positions in the list of the flows to wait for), gap (the time from the arrival
    of the last of these to the start), connection (a number: flows of the same src, dst and number are messages of
    one connection), rate and window (bounds on what its transport sends: "10Gbps", "64KB"), open_loop (True: it sends at
    its rate, nobody acknowledges it, and what is lost is not sent again).
    Hosts by number or by name. A flow of 0 bytes from a host to itself is a computation.

    SpecError names the position in the list and what is wrong there.
    """
    check_topology(topo)
    listed = elements(flows, "flows", 'such as [(0, 1, "1MB", "0s")]')
    items = [_item(topo, given, f"flows.{i}", class_name, priority) for i, given in enumerate(listed)]
    if not items:
        raise SpecError("the list is empty", path="flows", remedy="give at least one (src, dst, bytes, start)")
    classes = tuple(dict.fromkeys(item["class"] for item in items))
    edges = [
        (i, whole(parent, f"flows.{i}.after", 0, len(items) - 1)) for i, item in enumerate(items) for parent in item["after"]
    ]
    child, parent = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    refuse_circle(child, parent, len(items))
    after = csr(child, parent, len(items)) if edges else None
    numbers = ("start", "src", "dst", "bytes", "priority", "gap", "connection", "rate", "window", "open_loop")
    column = {key: np.array([item[key] for item in items]) for key in numbers}
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
        connection=column["connection"],
        limits=Limits(column["rate"], column["window"], column["open_loop"]),
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
    size = parse_size(given["bytes"], f"{where}.bytes") if src == dst else _size(given["bytes"], f"{where}.bytes")
    if src == dst and size:
        raise SpecError("must differ from src, a flow needs two hosts", path=f"{where}.dst", value=given["dst"])
    after = given.get("after", ())
    return {
        "src": src,
        "dst": dst,
        "bytes": size,
        "start": time_ps(given.get("start", "0s"), f"{where}.start"),
        "class": class_name(given.get("class", default_class)),
        "priority": _priority(given.get("priority", default_priority), f"{where}.priority"),
        "gap": time_ps(given.get("gap", "0s"), f"{where}.gap"),
        "connection": whole(given["connection"], f"{where}.connection", 0, MOST) if "connection" in given else ALONE,
        "rate": _bound(parse_rate, given, "rate", where),
        "window": _bound(parse_size, given, "window", where),
        "open_loop": int(boolean(given.get("open_loop", False), f"{where}.open_loop")),
        "after": after if isinstance(after, (list, tuple)) else [after],
    }


def _bound(parse: Callable[[Any, str], float], given: Mapping[str, Any], key: str, where: str) -> int:
    """A rate or a window of a flow, 0: it has none.  SpecError: out of range."""
    if key not in given:
        return 0
    low, high = RANGES["rate_bps" if key == "rate" else "window_bytes"]
    return whole(round(parse(given[key], f"{where}.{key}")), f"{where}.{key}", low, high)


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
    check_topology(topo)
    start_ps, every_ps = time_ps(start, "start"), time_ps(every, "every")
    listed = enumerate(elements(pairs, "pairs", "such as [(0, 1), (2, 1)]"))
    items = [(*_pair(pair, f"pairs.{i}"), bytes, f"{start_ps + i * every_ps}ps") for i, pair in listed]
    return flow_list(topo, items, class_name=class_name, priority=priority)


def _pair(given: Any, where: str) -> tuple[Any, Any]:
    try:
        src, dst = given
    except (TypeError, ValueError):
        raise SpecError("must be (src, dst), such as (0, 1)", path=where, value=given) from None
    return src, dst


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
    if n * (n - 1) > MAX_MESSAGES:
        raise SpecError(f"{n * (n - 1)} flows are more than {MAX_MESSAGES}", path="hosts", value=n, remedy="use fewer hosts")
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
    size = _size(bytes)
    messages = expand("all_reduce", len(ranks), size, algorithm="ring", chunks=chunks)
    nominal = {"kind": "ring_all_reduce", "bytes": size, "hosts": len(ranks), "chunks": int(chunks)}
    return _sent(ranks, messages, start, class_name, priority, nominal)


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
    size = _size(bytes)
    messages = expand("all_reduce", len(ranks), size, algorithm="tree", chunks=chunks)
    nominal = {"kind": "tree_all_reduce", "bytes": size, "hosts": len(ranks), "chunks": int(chunks)}
    return _sent(ranks, messages, start, class_name, priority, nominal)


def collective(
    topo: "Topology",
    *,
    collective: str = "all_reduce",
    algorithm: str | None = None,
    bytes: str | int = "10MB",
    hosts: Any = None,
    placement: str = "packed",
    chunks: int = 1,
    connections: str = CONNECTIONS[0],
    latency: str | Mapping[str, str] | None = None,
    root: int = 0,
    start: str = "0s",
    seed: int = 1,
    index: int = 0,
    class_name: str = "collective",
    priority: int = 0,
) -> Flows:
    """One collective among ranks placed on hosts; the run reports its time and bus bandwidth.

    collective   all_reduce, reduce_scatter, all_gather, all_to_all, broadcast or sendrecv
    algorithm    one of `penstock_net.workload.algorithms.ALGORITHMS` for it; None: its first
    bytes        as NCCL counts: the buffer of a rank, the whole one where ranks have parts
    placement    how ranks are put on `hosts`: "packed", "strided" over the racks, "random" by `seed`
    chunks       pieces of a part that travel as flows of their own
    connections  which messages from a rank to another share a path, congestion state and sequence: those of one piece
                 ("channel"), all ("pair"), none ("message")
    latency      what starting a message takes: a time, {"scale_up": ..., "network": ...}, or a protocol of NCCL, whose times by
                 algorithm are SimAI's: "ll", "ll128", "simple"; None: nothing
    root         rank that a broadcast begins at

    Algorithms two_level and pxn need a network whose servers have a switch of their own, see `rails`.

    Beside its messages, the flows hold two computations of no time per rank: when it enters, and when it has everything.
    """
    if algorithm is not None:
        instance(algorithm, str, "algorithm", f"such as {default_algorithm(collective)}")
    ranks = placed(topo, hosts, placement, seed, index)
    size = _size(bytes)
    graph = TaskGraph(
        ranks,
        start_ps=time_ps(start, "start"),
        priority=_priority(priority),
        compute_class=class_name,
        connections=connections,
        servers=topo.servers,
        latency=latency,
    )
    options: dict[str, Any] = {"algorithm": algorithm or default_algorithm(collective), "chunks": chunks, "root": root}
    group = np.arange(len(ranks))[None]
    graph.collective(collective, group, size, [], collective, class_name=class_name, **options)
    nominal = {"kind": "collective", "collective": collective, **options, "bytes": size, "hosts": len(ranks)}
    nominal |= {"connections": connections} | ({} if latency is None else {"latency": latency})
    return graph.flows({**nominal, "placement": placement, "class": class_name, "start_ps": graph.start_ps})


def _sent(ranks: np.ndarray, messages: Messages, start: str, name: str, priority: int, nominal: dict[str, Any]) -> Flows:
    after = csr(messages.child, messages.parent, len(messages))
    return _flows(ranks, messages.src, messages.dst, messages.bytes, start, name, priority, nominal, after)


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


def _size(value: str | int, what: str = "bytes") -> int:
    size = parse_size(value, what, positive=True)
    if size > MAX_FLOW_BYTES:
        raise SpecError(f"is more than {MAX_FLOW_BYTES} B", path=what, value=value, remedy="split the flow")
    return size


def _priority(value: Any, what: str = "priority") -> int:
    return whole(value, what, 0, PRIORITIES - 1)
