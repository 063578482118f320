"""Networks to simulate: the usual shapes, any graph from a file, and the [topology] table of a spec.

    topo = leaf_spine(hosts=128, tors=8, spines=8, rate="100Gbps", delay="1us", buffer="12MB")

Rates are given as "100Gbps", delays (one way, per link) as "1us", buffers (shared, per switch) as "12MB"; "0B" is
unbounded.
"""

import inspect
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.errors import SpecError, nearest
from penstock.topology import files as topology_files
from penstock.topology.graph import CHANGE_EXAMPLE, LINK, MAX_HOSTS, LinkChange, Topology, make_links
from penstock.topology.routes import Routes
from penstock.topology.servers import EXAMPLE as RECEIVER_EXAMPLE
from penstock.topology.servers import behind_vswitches, with_receivers
from penstock.units import parse_size, parse_time, ps_per_byte

__all__ = [
    "KINDS",
    "LINK",
    "LinkChange",
    "Routes",
    "Topology",
    "behind_vswitches",
    "build",
    "clos",
    "dumbbell",
    "fat_tree",
    "from_file",
    "leaf_spine",
    "make_links",
    "parking_lot",
    "star",
    "with_receivers",
]

Rate = str | int | float
Time = str | int | float
Size = str | int | float


def leaf_spine(
    *,
    hosts: int = 128,
    tors: int = 8,
    spines: int = 8,
    rate: Rate = "100Gbps",
    uplink_rate: Rate | None = None,
    delay: Time = "1us",
    uplink_delay: Time | None = None,
    buffer: Size = "12MB",
) -> Topology:
    """Two tiers: hosts shared out evenly over ToRs, every ToR linked to every spine.

    The defaults are the BFC paper's network: 128 hosts, 8 ToRs, 8 spines, 100 Gbit/s and 1 us everywhere (2 : 1
    oversubscribed), 12 MB per switch. `rate` and `delay` are the host links'; the uplinks' are the same unless given.
    """
    given = dict(locals())
    hosts, tors, spines = _count("hosts", hosts, MAX_HOSTS), _count("tors", tors), _count("spines", spines)
    if hosts % tors:
        raise SpecError(
            f"hosts = {hosts} with tors = {tors}: every ToR has as many hosts; choose hosts = {_multiple(hosts, tors)}"
        )
    tor, spine = hosts + np.arange(tors), hosts + tors + np.arange(spines)
    up = {"rate": _or(uplink_rate, rate), "delay": _or(uplink_delay, delay)}
    links = [
        _links(np.arange(hosts), np.repeat(tor, hosts // tors), rate=rate, delay=delay),
        _links(np.repeat(tor, spines), np.tile(spine, tors), **up, prefix="uplink_"),
    ]
    return _assemble("leaf_spine", given, [("host", hosts, 0), ("tor", tors, 1), ("spine", spines, 2)], links)


def fat_tree(
    *,
    k: int | None = None,
    hosts: int | None = None,
    rate: Rate = "100Gbps",
    uplink_rate: Rate | None = None,
    delay: Time = "1us",
    buffer: Size = "12MB",
) -> Topology:
    """Three tiers of k-port switches: k pods of k/2 ToRs and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.

    Give `k` (even; 8 if nothing is given: 128 hosts) or `hosts`. k = 16 is the BFC paper's 1024 hosts. `rate` is the
    host links'; all other links have `uplink_rate`, the same unless given.
    """
    given = dict(locals())
    if k is not None and hosts is not None and _count("k", k) ** 3 // 4 != hosts:
        raise SpecError(f"k = {k} makes {k**3 // 4} hosts, not hosts = {hosts}; give one of the two")
    if k is None:
        k = given["k"] = 8 if hosts is None else _arity(_count("hosts", hosts, MAX_HOSTS))
    given["hosts"] = None
    k = _count("k", k)
    if k % 2:
        raise SpecError(f"k = {k}: a fat tree's switches have an even number of ports; choose k = {k - 1} or {k + 1}")
    half = k // 2
    shape = {"pods": k, "tors": half, "aggs": half, "cores": half * half, "hosts_per_tor": half}
    return _three_tiers("fat_tree", given, **shape)


def clos(
    *,
    pods: int = 5,
    tors: int = 4,
    aggs: int = 4,
    cores: int = 16,
    hosts_per_tor: int = 16,
    rate: Rate = "100Gbps",
    uplink_rate: Rate | None = "400Gbps",
    delay: Time = "1us",
    buffer: Size = "32MB",
) -> Topology:
    """Three tiers of any proportion: pods of ToRs and aggregation switches, fully linked within, under shared cores.

    `tors` and `aggs` are per pod, `cores` in total; aggregation switch j of each pod is linked to cores/aggs cores,
    from j*cores/aggs on. The defaults are the HPCC paper's network (5.1): 320 hosts of 100 Gbit/s, 20 ToRs, 20
    aggregation switches, 16 cores, 400 Gbit/s between switches, 1 us per link, 32 MB per switch.
    """
    given = dict(locals())
    shape = {"pods": pods, "tors": tors, "aggs": aggs, "cores": cores, "hosts_per_tor": hosts_per_tor}
    shape = {name: _count(name, value) for name, value in shape.items()}
    if shape["cores"] % shape["aggs"]:
        raise SpecError(
            f"cores = {cores} with aggs = {aggs}: every aggregation switch has as many cores; "
            f"choose cores = {_multiple(cores, aggs)}"
        )
    return _three_tiers("clos", given, **shape)


def dumbbell(
    *,
    left: int = 2,
    right: int = 2,
    rate: Rate = "100Gbps",
    bottleneck_rate: Rate | None = None,
    delay: Time = "1us",
    buffer: Size = "12MB",
) -> Topology:
    """Two switches with hosts on either side of one link, the bottleneck.

    Hosts 0 .. left-1 are on the left. `bottleneck_rate` is that of the link between the switches, the hosts' unless
    given.
    """
    given = dict(locals())
    left, right = _count("left", left), _count("right", right)
    hosts = _count("left + right", left + right, MAX_HOSTS)
    sides = hosts + np.repeat([0, 1], [left, right])
    links = [
        _links(np.arange(hosts), sides, rate=rate, delay=delay),
        _links([hosts], [hosts + 1], rate=_or(bottleneck_rate, rate), delay=delay, prefix="bottleneck_"),
    ]
    return _assemble("dumbbell", given, [("host", hosts, 0), ("switch", 2, 1)], links)


def star(*, hosts: int = 8, rate: Rate = "100Gbps", delay: Time = "1us", buffer: Size = "12MB") -> Topology:
    """One switch with all hosts: for incast and for a first look."""
    given = dict(locals())
    hosts = _count("hosts", hosts, MAX_HOSTS)
    links = [_links(np.arange(hosts), np.full(hosts, hosts), rate=rate, delay=delay)]
    return _assemble("star", given, [("host", hosts, 0), ("switch", 1, 1)], links)


def parking_lot(
    *,
    hops: int = 3,
    cross: int = 1,
    rate: Rate = "100Gbps",
    bottleneck_rate: Rate | None = None,
    delay: Time = "1us",
    buffer: Size = "12MB",
) -> Topology:
    """A chain of switches: a pair of hosts from end to end, and for each hop pairs of hosts whose traffic crosses it.

    Host 0 is at the first switch and host 1 at the last one, `hops` links further. Pair c of hop h (both from 0) is
    host 2 + 2*(h*cross + c) at switch h and the next host at switch h+1. `bottleneck_rate` is the chain's links'.
    """
    given = dict(locals())
    hops, cross = _count("hops", hops), _count("cross", cross, minimum=0)
    hosts = _count("2 + 2 * hops * cross", 2 + 2 * hops * cross, MAX_HOSTS)
    hop = np.repeat(np.arange(hops), cross)
    at = hosts + np.concatenate(([0, hops], np.stack((hop, hop + 1), axis=1).ravel()))
    chain = hosts + np.arange(hops)
    links = [
        _links(np.arange(hosts), at, rate=rate, delay=delay),
        _links(chain, chain + 1, rate=_or(bottleneck_rate, rate), delay=delay, prefix="bottleneck_"),
    ]
    return _assemble("parking_lot", given, [("host", hosts, 0), ("switch", hops + 1, 1)], links)


def from_file(path: str | Path, *, rate: Rate | None = None, delay: Time | None = None, buffer: Size = "12MB") -> Topology:
    """Any graph from a file: GraphML (.graphml, .xml), an edge list or CSV.

    Edge list: `a b rate delay [loss]` per line, # comments. CSV: a header with a, b and any of rate, delay, loss.
    GraphML: edge attributes rate, delay, loss; node attributes kind ("host" or "switch"), tier (1 to 3), buffer.
    `rate`, `delay` and `buffer` are for links and switches that give none. A node is a host if its kind says so or,
    without a kind, if it has one link. Hosts and switches are numbered in natural order of their names (h2 before h10).
    """
    default = {"rate": rate, "delay": delay, "buffer": buffer}
    params = {"file": str(path), **{key: value for key, value in default.items() if value is not None}}
    return topology_files.read(Path(path), params, rate=rate, delay=delay, buffer=buffer)


KINDS: dict[str, Callable[..., Topology]] = {
    "leaf_spine": leaf_spine,
    "fat_tree": fat_tree,
    "clos": clos,
    "dumbbell": dumbbell,
    "star": star,
    "parking_lot": parking_lot,
    "file": from_file,
}


def build(params: Mapping[str, Any]) -> Topology:
    """The network of a spec's [topology] table: `kind` (or `file`), the kind's own keys, `vswitches`, `loss`, `receivers` and
    `changes`."""
    table = dict(params)
    kind = table.pop("kind", "file" if "file" in table else None)
    if kind is None:
        raise SpecError(f'topology: no kind; give one of {", ".join(KINDS)}, or file = "network.graphml"')
    if not isinstance(kind, str) or kind not in KINDS:
        raise SpecError(f'topology: kind = "{kind}" is unknown{nearest(kind, KINDS)}')
    loss, changes = table.pop("loss", None), table.pop("changes", ())
    vswitches, receivers = table.pop("vswitches", None), table.pop("receivers", ())
    builder = KINDS[kind]
    known = ["file" if name == "path" else name for name in inspect.signature(builder).parameters]
    for key in table:
        if key not in known:
            remedy = nearest(key, [*known, "kind", "loss", "changes", "vswitches", "receivers"])
            raise SpecError(f'topology: unknown key "{key}" for kind "{kind}"{remedy}')
    if kind == "file":
        if not isinstance(table.get("file"), (str, Path)):
            raise SpecError('topology: kind = "file" needs file = "network.graphml", the path of a graph')
        topo = from_file(table.pop("file"), **table)
    else:
        topo = builder(**table)
    if vswitches is not None:
        topo = behind_vswitches(topo, **_table(vswitches, "vswitches", ("apps", "rate", "delay", "buffer")))
    topo = topo if loss is None else topo.with_loss(loss)
    if not isinstance(receivers, (list, tuple)) or not all(isinstance(receiver, Mapping) for receiver in receivers):
        raise SpecError(f"topology: receivers: expected a list such as [{RECEIVER_EXAMPLE}]")
    topo = with_receivers(topo, receivers) if receivers else topo
    if not isinstance(changes, (list, tuple)) or not all(isinstance(change, Mapping) for change in changes):
        raise SpecError(f"topology: changes: expected a list such as [{CHANGE_EXAMPLE}]")
    return topo.with_changes(changes) if changes else topo


def _table(value: Any, what: str, known: tuple[str, ...]) -> dict[str, Any]:
    """A table with known keys."""
    if not isinstance(value, Mapping):
        raise SpecError(f"topology: {what} = {value!r}: expected a table such as {what} = {{apps = 2}}")
    for key in value:
        if key not in known:
            raise SpecError(f'topology: {what}: unknown key "{key}"{nearest(key, known)}')
    return dict(value)


def _three_tiers(
    kind: str, given: dict[str, Any], *, pods: int, tors: int, aggs: int, cores: int, hosts_per_tor: int
) -> Topology:
    hosts = _count("hosts", pods * tors * hosts_per_tor, MAX_HOSTS)
    tor = hosts + np.arange(pods * tors)
    agg = hosts + len(tor) + np.arange(pods * aggs)
    core = hosts + len(tor) + len(agg) + np.arange(cores)
    above_tor = np.repeat(agg.reshape(pods, aggs), tors, axis=0).ravel()
    above_agg = np.tile(core.reshape(aggs, cores // aggs), (pods, 1)).ravel()
    up = {"rate": _or(given["uplink_rate"], given["rate"]), "delay": given["delay"], "prefix": "uplink_"}
    links = [
        _links(np.arange(hosts), np.repeat(tor, hosts_per_tor), rate=given["rate"], delay=given["delay"]),
        _links(np.repeat(tor, aggs), above_tor, **up),
        _links(np.repeat(agg, cores // aggs), above_agg, **up),
    ]
    nodes = [("host", hosts, 0), ("tor", len(tor), 1), ("agg", len(agg), 2), ("core", cores, 3)]
    return _assemble(kind, given, nodes, links)


def _links(a: Any, b: Any, *, rate: Rate, delay: Time, prefix: str = "") -> np.ndarray:
    return make_links(a, b, ps_per_byte(rate, f"{prefix}rate"), parse_time(delay, f"{prefix}delay", positive=True))


def _assemble(kind: str, given: Mapping[str, Any], nodes: list[tuple[str, int, int]], links: list[np.ndarray]) -> Topology:
    """A topology of (name, how many, tier) nodes, hosts first."""
    hosts, switches = nodes[0][1], sum(count for _, count, _ in nodes[1:])
    return Topology(
        kind=kind,
        hosts=hosts,
        switches=switches,
        links=np.concatenate(links),
        buffer_bytes=np.full(switches, parse_size(given["buffer"], "buffer")),
        names=tuple(f"{name}{i}" for name, count, _ in nodes for i in range(count)),
        tier=np.repeat([tier for _, _, tier in nodes], [count for _, count, _ in nodes]),
        params={key: value for key, value in given.items() if value is not None},
    )


def _count(what: str, value: Any, maximum: int | None = None, *, minimum: int = 1) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise SpecError(f"{what} = {value!r}: must be a whole number, such as {max(minimum, 2)}") from None
    if count < minimum:
        raise SpecError(f"{what} = {count}: must be at least {minimum}")
    if maximum is not None and count > maximum:
        raise SpecError(f"{what} = {count}: at most {maximum}; choose a smaller network")
    return count


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _multiple(value: int, of: int) -> str:
    """The multiples of `of` around `value`, to propose."""
    low = value // of * of
    return f"{low} or {low + of}" if low else f"{of}"


def _arity(hosts: int) -> int:
    """k of the fat tree with so many hosts."""
    sizes = {k**3 // 4: k for k in range(2, 52, 2)}
    if hosts not in sizes:
        near = sorted(sorted(sizes, key=lambda size: abs(size - hosts))[:2])
        remedy = " or ".join(f"{size} (k = {sizes[size]})" for size in near)
        raise SpecError(f"hosts = {hosts}: a fat tree of k-port switches has k^3/4 hosts; choose {remedy}")
    return sizes[hosts]
