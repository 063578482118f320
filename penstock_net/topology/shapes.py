"""The usual shapes of networks. A new one is a function here, and its name in `__all__`.

That list is the registry of topologies: `import penstock_net` offers its names, `[topology] kind` in a spec accepts them,
`penstock topologies` and the documentation list them with their first paragraph and their defaults.

Rates are given as "100Gbps", delays (one way, per link) as "1us", buffers (shared, per switch) as "12MB"; "0B" is
unbounded.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import delay_ps, elements, size_bytes, whole
from penstock_net.topology.graph import MAX_HOSTS, Topology, make_links
from penstock_net.units import ps_per_byte

__all__ = ["clos", "dragonfly", "dumbbell", "fat_tree", "leaf_spine", "parking_lot", "planes", "rails", "sites", "star", "torus"]

MAX_COUNT = 10**6  # of anything that is counted but hosts: far above what fits on MAX_PORTS
MOST_DIMENSIONS = 8

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
    _share_out("hosts", hosts, "tors", tors)
    links = [
        _links(np.arange(hosts), np.repeat(hosts + np.arange(tors), hosts // tors), rate=rate, delay=delay),
        _planes_up(hosts, 1, tors, spines, given),
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
        raise SpecError(f"k = {k} makes {k**3 // 4} hosts", path="hosts", value=hosts, remedy="give one of the two")
    if k is None:
        k = given["k"] = 8 if hosts is None else _arity(_count("hosts", hosts, MAX_HOSTS))
    given["hosts"] = None
    k = _count("k", k)
    if k % 2:
        rule, remedy = "must be even, a fat tree's switches have as many ports up as down", f"choose {k - 1} or {k + 1}"
        raise SpecError(rule, path="k", value=k, remedy=remedy)
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
    _share_out("cores", shape["cores"], "aggs", shape["aggs"])
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
    hosts = _hosts(left + right)
    sides = hosts + np.repeat([0, 1], [left, right])
    links = [
        _links(np.arange(hosts), sides, rate=rate, delay=delay),
        _links([hosts], [hosts + 1], rate=_or(bottleneck_rate, rate), delay=delay, prefix="bottleneck_"),
    ]
    return _assemble("dumbbell", given, [("host", hosts, 0), ("switch", 2, 1)], links)


def star(*, hosts: int = 8, rate: Rate = "100Gbps", delay: Time = "1us", buffer: Size = "12MB") -> Topology:
    """One switch with all hosts: for incast and for a first look."""
    given = dict(locals())
    hosts = _count("hosts", hosts, MAX_HOSTS, minimum=2)
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
    hosts = _hosts(2 + 2 * hops * cross)
    hop = np.repeat(np.arange(hops), cross)
    at = hosts + np.concatenate(([0, hops], np.stack((hop, hop + 1), axis=1).ravel()))
    chain = hosts + np.arange(hops)
    links = [
        _links(np.arange(hosts), at, rate=rate, delay=delay),
        _links(chain, chain + 1, rate=_or(bottleneck_rate, rate), delay=delay, prefix="bottleneck_"),
    ]
    return _assemble("parking_lot", given, [("host", hosts, 0), ("switch", hops + 1, 1)], links)


def sites(
    *,
    sites: int = 2,
    hosts_per_site: int = 64,
    tors: int = 4,
    spines: int = 8,
    rate: Rate = "100Gbps",
    uplink_rate: Rate | None = None,
    long_rate: Rate = "200Gbps",
    delay: Time = "1us",
    long_delay: Time = "200us",
    buffer: Size = "12MB",
    gateway_buffer: Size = "64MB",
) -> Topology:
    """Data centres far apart: leaf-spines, a gateway above the spines of each, a long link between any two gateways.

    `tors` and `spines` are of a site; hosts 0 .. hosts_per_site-1 are in the first one. A gateway is linked to all spines of its
    site, as ToRs are. The defaults are the BFC paper's network of two data centres (appendix A.9); a link of 200 us and 200
    Gbit/s holds 5 MB, so that its ends need more buffer than others.
    """
    given = dict(locals())
    shape = {"sites": sites, "hosts_per_site": hosts_per_site, "tors": tors, "spines": spines}
    sites, hosts_per_site, tors, spines = (_count(name, value) for name, value in shape.items())
    _share_out("hosts_per_site", hosts_per_site, "tors", tors)
    hosts = _hosts(sites * hosts_per_site)
    tor = hosts + np.arange(sites * tors)
    spine = hosts + len(tor) + np.arange(sites * spines)
    gateway = hosts + len(tor) + len(spine) + np.arange(sites)
    above_tor = np.repeat(spine.reshape(sites, spines), tors, axis=0).ravel()
    one, other = np.triu_indices(sites, 1)
    up = {"rate": _or(uplink_rate, rate), "delay": delay, "prefix": "uplink_"}
    links = [
        _links(np.arange(hosts), np.repeat(tor, hosts_per_site // tors), rate=rate, delay=delay),
        _links(np.repeat(tor, spines), above_tor, **up),
        _links(spine, np.repeat(gateway, spines), **up),
        _links(gateway[one], gateway[other], rate=long_rate, delay=long_delay, prefix="long_"),
    ]
    nodes = [("host", hosts, 0), ("tor", len(tor), 1), ("spine", len(spine), 2), ("gateway", sites, 3)]
    return _assemble("sites", given, nodes, links, {"gateway": "gateway_buffer"})


def rails(
    *,
    servers: int = 32,
    gpus: int = 8,
    segment: int | None = None,
    planes: int = 1,
    ports: int = 1,
    spines: int = 8,
    rate: Rate = "400Gbps",
    uplink_rate: Rate | None = None,
    delay: Time = "500ns",
    uplink_delay: Time | None = None,
    scale_up_rate: Rate | None = None,
    scale_up_delay: Time | None = None,
    buffer: Size = "32MB",
) -> Topology:
    """Rails: GPUs are hosts; GPU i of each server of a segment has the same leaf, and all leaves have all spines.

    `segment` servers share their leaves; without it all do. With `ports = 2` each GPU is on two leaves of its rail (dual
    ToR, as in Alibaba's HPN), with `planes = 2` on leaves of two networks that nothing joins, each with spines of its own
    (HPN's dual plane). `rate` is that of each link of a GPU to a leaf. With `scale_up_rate`, such as "2880Gbps", a server has an
    NVSwitch, to which each of its GPUs has a link of that rate and of `scale_up_delay`, 25 ns unless given.
    """
    given = dict(locals())
    servers, gpus, spines = _count("servers", servers), _count("gpus", gpus), _count("spines", spines)
    planes, ports, segment = _count("planes", planes), _count("ports", ports), _count("segment", _or(segment, servers))
    if servers % segment:
        rule, remedy = f"must divide servers = {servers}", f"choose one of {', '.join(_divisors(servers))}"
        raise SpecError(rule, path="segment", value=segment, remedy=remedy)
    hosts, leaves = _hosts(servers * gpus), gpus * ports * (servers // segment)  # leaves of a plane
    server, gpu, plane, port = np.indices((servers, gpus, planes, ports)).reshape(4, -1)
    leaf = plane * leaves + (server // segment * gpus + gpu) * ports + port
    nodes = [("host", hosts, 0), ("tor", planes * leaves, 1), ("spine", planes * spines, 2)]
    links = [
        _links(server * gpus + gpu, hosts + leaf, rate=rate, delay=delay),
        _planes_up(hosts, planes, leaves, spines, given),
    ]
    if scale_up_rate is not None:
        first = hosts + planes * (leaves + spines)
        inside = {"rate": scale_up_rate, "delay": _or(scale_up_delay, "25ns"), "prefix": "scale_up_"}
        links.append(_links(np.arange(hosts), first + np.arange(hosts) // gpus, **inside))
        nodes.append(("nvswitch", servers, 0))
    elif scale_up_delay is not None:
        rule, remedy = "is of links to an NVSwitch, and there is none", 'give scale_up_rate, such as "2880Gbps", or leave it out'
        raise SpecError(rule, path="scale_up_delay", value=scale_up_delay, remedy=remedy)
    return _assemble("rails", given, nodes, links)


def planes(
    *,
    hosts: int = 128,
    planes: int = 2,
    tors: int = 8,
    spines: int = 8,
    rate: Rate = "100Gbps",
    uplink_rate: Rate | None = None,
    delay: Time = "1us",
    uplink_delay: Time | None = None,
    buffer: Size = "12MB",
) -> Topology:
    """Planes: leaf-spine networks of `tors` and `spines` each that nothing joins; a host has a port in each.

    By port: a NIC of 800 Gbit/s that is 8 ports of 100 (`planes = 8`, `rate = "100Gbps"`; MRC). By NIC: a server whose NIC
    i is in plane i (`rate` is that of a NIC; DeepSeek's network). A plane that fails takes 1/planes of every host's rate.
    """
    given = dict(locals())
    hosts, planes = _count("hosts", hosts, MAX_HOSTS), _count("planes", planes)
    tors, spines = _count("tors", tors), _count("spines", spines)
    _share_out("hosts", hosts, "tors", tors)
    host, plane = np.indices((hosts, planes)).reshape(2, -1)
    links = [
        _links(host, hosts + plane * tors + host // (hosts // tors), rate=rate, delay=delay),
        _planes_up(hosts, planes, tors, spines, given),
    ]
    return _assemble("planes", given, [("host", hosts, 0), ("tor", planes * tors, 1), ("spine", planes * spines, 2)], links)


def dragonfly(
    *,
    p: int = 4,
    a: int = 8,
    h: int = 4,
    groups: int | None = None,
    rate: Rate = "100Gbps",
    local_rate: Rate | None = None,
    global_rate: Rate | None = None,
    delay: Time = "500ns",
    global_delay: Time | None = None,
    buffer: Size = "12MB",
) -> Topology:
    """Groups of `a` switches, each linked to all others of its group, to `p` hosts, and by `h` links to other groups.

    A group has a * h links to others, as many to each (Kim et al., ISCA 2008); without `groups` one to each, so that there are
    a * h + 1 groups: the defaults are 33 of them, 1056 hosts. Balanced is a = 2p = 2h. Paths are minimal: at most one link
    between groups, and one within each of the two. `delay` is that of hosts' links and those within groups.
    """
    given = dict(locals())
    p, a, h = _count("p", p), _count("a", a), _count("h", h)
    groups = _count("groups", _or(groups, a * h + 1), minimum=2)
    if a * h % (groups - 1):
        most = [str(1 + int(other)) for other in _divisors(a * h)]
        rule, remedy = f"- 1 must divide a * h = {a * h}, the links of a group to others", f"choose one of {', '.join(most)}"
        raise SpecError(rule, path="groups", value=groups, remedy=remedy)
    hosts, switches = _hosts(groups * a * p), groups * a
    group, one, other = (np.repeat(np.arange(groups), a * (a - 1) // 2), *np.tile(np.triu_indices(a, 1), groups))
    here, block, away = np.indices((groups, a * h // (groups - 1), groups - 1)).reshape(3, -1)
    there = (here + away + 1) % groups  # port `away` of a block leads so far, and its other end is port groups - 2 - away
    once, port, end = here < there, block * (groups - 1) + away, block * (groups - 1) + groups - 2 - away
    links = [
        _links(np.arange(hosts), hosts + np.arange(hosts) // p, rate=rate, delay=delay),
        _links(hosts + group * a + one, hosts + group * a + other, rate=_or(local_rate, rate), delay=delay, prefix="local_"),
        _links(
            hosts + (here * a + port // h)[once],
            hosts + (there * a + end // h)[once],
            rate=_or(global_rate, rate),
            delay=_or(global_delay, delay),
            prefix="global_",
        ),
    ]
    label = np.repeat([0, 0, 1], [len(kind) for kind in links])
    nodes = [("host", hosts, 0), ("switch", switches, 1)]
    return _assemble("dragonfly", given, nodes, links, group=np.repeat(np.arange(groups), a), label=label)


def torus(
    *,
    dims: Sequence[int] = (4, 4, 4),
    hosts_per_switch: int = 1,
    rate: Rate = "100Gbps",
    link_rate: Rate | None = None,
    delay: Time = "500ns",
    buffer: Size = "12MB",
) -> Topology:
    """A grid of switches whose rows are rings in each dimension: `dims = [4, 4, 4]` are 64 switches with six links to others.

    The switch at x, y, z is number (x * dims[1] + y) * dims[2] + z. Two switches in a row have one link. `link_rate` is that of
    the links between switches, `rate` unless given.
    """
    given = dict(locals())
    sizes = [whole(size, f"dims.{i}", 2, MAX_COUNT) for i, size in enumerate(elements(dims, "dims", "such as [4, 4, 4]"))]
    if not 1 <= len(sizes) <= MOST_DIMENSIONS:
        raise SpecError(f"must be 1 to {MOST_DIMENSIONS} sizes", path="dims", value=sizes, remedy="write for example [4, 4, 4]")
    given["dims"] = sizes
    per_switch = _count("hosts_per_switch", hosts_per_switch)
    switches = math.prod(sizes)
    hosts = _hosts(switches * per_switch)
    links = [_links(np.arange(hosts), hosts + np.arange(hosts) // per_switch, rate=rate, delay=delay)]
    labels = [np.zeros(hosts, dtype=np.int8)]
    place = np.arange(switches).reshape(sizes)
    for dimension, size in enumerate(sizes):
        row = np.moveaxis(place, dimension, 0)[: size if size > 2 else 1]
        following = np.roll(np.moveaxis(place, dimension, 0), -1, axis=0)[: len(row)]
        closes = np.arange(len(row)) == (size - 1 if size > 2 else -1)
        ends = hosts + row.ravel(), hosts + following.ravel()
        links.append(_links(*ends, rate=_or(link_rate, rate), delay=delay, prefix="link_"))
        labels.append(2 * dimension + np.repeat(closes, switches // size))
    nodes = [("host", hosts, 0), ("switch", switches, 1)]
    return _assemble("torus", given, nodes, links, label=np.concatenate(labels))


# -- parts of a shape ------------------------------------------------------------------------------------------------


def _three_tiers(
    kind: str, given: dict[str, Any], *, pods: int, tors: int, aggs: int, cores: int, hosts_per_tor: int
) -> Topology:
    hosts = _hosts(pods * tors * hosts_per_tor)
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


def _planes_up(hosts: int, planes: int, leaves: int, spines: int, given: Mapping[str, Any]) -> np.ndarray:
    """The links from every leaf to every spine of its plane."""
    plane, leaf, spine = np.indices((planes, leaves, spines)).reshape(3, -1)
    up = {"rate": _or(given["uplink_rate"], given["rate"]), "delay": _or(given["uplink_delay"], given["delay"])}
    return _links(hosts + plane * leaves + leaf, hosts + planes * leaves + plane * spines + spine, **up, prefix="uplink_")


def _links(a: Any, b: Any, *, rate: Rate, delay: Time, prefix: str = "") -> np.ndarray:
    return make_links(a, b, ps_per_byte(rate, f"{prefix}rate"), delay_ps(delay, f"{prefix}delay"))


def _assemble(
    kind: str,
    given: Mapping[str, Any],
    nodes: list[tuple[str, int, int]],
    links: list[np.ndarray],
    buffers: Mapping[str, str] = MappingProxyType({}),
    group: Any = (),
    label: Any = (),
) -> Topology:
    """A topology of (name, how many, tier) nodes, hosts first; `buffers`: the keys of those that have a buffer of their own."""
    hosts, switches = nodes[0][1], sum(count for _, count, _ in nodes[1:])
    keys = {name: buffers.get(name, "buffer") for name, _, _ in nodes[1:]}
    sizes = [size_bytes(given[key], key) for key in keys.values()]
    return Topology(
        kind=kind,
        hosts=hosts,
        switches=switches,
        links=np.concatenate(links),
        buffer_bytes=np.repeat(sizes, [count for _, count, _ in nodes[1:]]),
        names=tuple(f"{name}{i}" for name, count, _ in nodes for i in range(count)),
        tier=np.repeat([tier for _, _, tier in nodes], [count for _, count, _ in nodes]),
        params={key: value for key, value in given.items() if value is not None},
        group=group,
        label=label,
    )


def _count(path: str, value: Any, maximum: int = MAX_COUNT, *, minimum: int = 1) -> int:
    return whole(value, path, minimum, maximum)


def _hosts(number: int) -> int:
    """The number of hosts that other keys make."""
    if number > MAX_HOSTS:
        raise SpecError(f"makes {number} hosts, at most {MAX_HOSTS} are possible", remedy="choose a smaller network")
    return number


def _divisors(of: int) -> list[str]:
    """The last divisors of a number, to propose."""
    return [str(i) for i in range(1, of + 1) if of % i == 0][-4:]


def _share_out(path: str, value: int, over: str, count: int) -> None:
    """SpecError: so many of `path` cannot be shared out evenly over so many of `over`."""
    if value % count:
        rule, remedy = f"must be a multiple of {over} = {count}", f"choose {_multiple(value, count)}"
        raise SpecError(rule, path=path, value=value, remedy=remedy)


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _multiple(value: int, of: int) -> str:
    """The multiples of `of` around `value`, to propose."""
    low = value // of * of
    return f"{low} or {low + of}" if low else f"{of}"


def _arity(hosts: int) -> int:
    """k of the fat tree with so many hosts."""
    sizes = {k**3 // 4: k for k in range(2, 66, 2)}
    if hosts not in sizes:
        near = sorted(sorted(sizes, key=lambda size: abs(size - hosts))[:2])
        remedy = " or ".join(f"{size} (k = {sizes[size]})" for size in near)
        raise SpecError("a fat tree of k-port switches has k^3/4 hosts", path="hosts", value=hosts, remedy=f"choose {remedy}")
    return sizes[hosts]
