"""Equal-cost shortest paths over a network's links, and what a flow meets on the way: arithmetic on whole arrays.

Paths are shortest in hops, where a link between two groups of switches counts FAR of them, and never pass through a host, so
everything is computed between *attachment switches* (the switches that have hosts) and shared by all hosts of a switch. A host
with several links stands for itself: it is a place of its own behind the switches, where paths begin and end. `Topology`
(graph.py) is its public interface.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.scratch import parts
from penstock_net.topology import cutthrough
from penstock_net.topology.clock import Packet, Took
from penstock_net.topology.structure import Structure

CHUNK = 1 << 20  # flows handled at once: bounds the memory of temporaries
ROOTS = 1 << 12  # destinations whose distances are found at once
FOLLOWED = 8  # a hop of a flow costs about as much as so many links towards a destination
ATTACHED = -2  # in a table of routes: the host is attached to this switch
FAR = 8  # what a link between groups counts: a path within one is shorter, so paths take as few of these links as they can


@dataclass(frozen=True)
class Routes:
    """Next hops on equal-cost shortest paths: computed from a host's number in a network with a structure, else from tables.

    next_hops   one int16 array per node: groups of them, [count, port, port, ..., count, port, ...], ports ascending
    below, span, unit  int64[nodes]: hosts below .. below + span - 1 are behind the ports 0, 1, ..., `unit` hosts behind each;
                their groups are the first ones
    beyond      int32[nodes]: where the group for all other hosts begins in next_hops; -1: the table says it
    rows        int32[any, classes]: where the group for a class of hosts begins; -1: unreachable; ATTACHED: see host_group
    row_of      int32[nodes]: the node's row
    host_class  int32[hosts]
    host_group  int32[hosts]: where the group for this host begins at its own switch; not of hosts with several links
    """

    next_hops: list[np.ndarray]
    below: np.ndarray
    span: np.ndarray
    unit: np.ndarray
    beyond: np.ndarray
    rows: np.ndarray
    row_of: np.ndarray
    host_class: np.ndarray
    host_group: np.ndarray

    def groups(self, nodes: np.ndarray, hosts: np.ndarray) -> np.ndarray:
        """Where the groups of next hops from nodes to hosts begin in `next_hops`; -1: unreachable (or the host itself)."""
        nodes, hosts = np.broadcast_arrays(nodes, hosts)
        place = hosts - self.below[nodes]
        down = (place >= 0) & (place < self.span[nodes])
        found = np.where(down, 2 * (place // self.unit[nodes]), self.beyond[nodes])
        if self.rows.size:
            row = self.rows[self.row_of[nodes], self.host_class[hosts]]
            found = np.where(found < 0, np.where(row == ATTACHED, self.host_group[hosts], row), found)
        return np.where(nodes == hosts, -1, found)

    def ports(self, node: int, host: int) -> list[int]:
        """The ports of `node` on shortest paths to `host`; empty: unreachable."""
        at = int(self.groups(np.array([node]), np.array([host]))[0])
        if at < 0:
            return []
        group = self.next_hops[node]
        return [int(p) for p in group[at + 1 : at + 1 + int(group[at])]]


class Fabric:
    """The switches, counted from 0, then the hosts with several links, which are places like switches; and the live links between
    them, as directed edges sorted by (place, port)."""

    def __init__(
        self,
        hosts: int,
        switches: int,
        links: np.ndarray,
        down: frozenset[int] = frozenset(),
        group: np.ndarray | None = None,
    ):
        alive = np.ones(len(links), dtype=bool)
        alive[list(down)] = False
        self.hosts, self.switches = hosts, switches
        ends = np.stack((links["a"], links["b"]))
        degree = np.bincount(ends.ravel(), minlength=hosts)[:hosts]
        self.several = np.flatnonzero(degree > 1)  # hosts with several links
        self.places = switches + len(self.several)
        place_of = np.full(hosts + switches, -1, dtype=np.int64)  # of every node; -1: a host with one link
        place_of[hosts:] = np.arange(switches)
        place_of[self.several] = switches + np.arange(len(self.several))
        a, b = place_of[ends]
        self._attach(links, alive, place_of)
        between = np.flatnonzero((a >= 0) & (b >= 0) & alive)
        tail = np.concatenate((a[between], b[between]))
        head = np.concatenate((b[between], a[between]))
        port = np.concatenate((links["port_a"][between], links["port_b"][between]))
        order = np.lexsort((port, tail))
        self.tail, self.head, self.port = tail[order], head[order], port[order]
        self.link = np.concatenate((between, between))[order]
        self.backward = np.repeat([0, 1], len(between))[order]  # from b to a
        self.first = np.searchsorted(self.tail, np.arange(self.places + 1))  # edges of place s: first[s] .. first[s+1]
        self.length = np.ones(len(self.tail), dtype=np.int32)  # what an edge counts
        if group is not None:
            group = np.concatenate((group, np.zeros(len(self.several), dtype=group.dtype)))
            between_switches = (self.tail < switches) & (self.head < switches)
            self.length[between_switches & (group[self.tail] != group[self.head])] = FAR
        self.alike = bool((self.length == 1).all())

    @cached_property
    def distance(self) -> np.ndarray:
        """int32[roots, places]: hops, as they count, from every place to each attachment switch, -1: unreachable."""
        blocks = [self._distances(self.roots[begin : begin + ROOTS]) for begin in range(0, len(self.roots), ROOTS)]
        return np.ascontiguousarray(np.concatenate(blocks, axis=1).T)

    def _attach(self, links: np.ndarray, alive: np.ndarray, place_of: np.ndarray) -> None:
        """Where each host hangs: its link, its switch, the switch's port towards it.  One with several links: at itself, -1."""
        a, b = links["a"], links["b"]
        at_a, at_b = np.flatnonzero(place_of[a] < 0), np.flatnonzero(place_of[b] < 0)
        self.host_link, self.host_port = np.full((2, self.hosts), -1, dtype=np.int64)
        self.host_link[a[at_a]], self.host_link[b[at_b]] = at_a, at_b
        self.host_switch = place_of[: self.hosts].copy()
        self.host_switch[a[at_a]], self.host_switch[b[at_b]] = b[at_a] - self.hosts, a[at_b] - self.hosts
        self.host_port[a[at_a]], self.host_port[b[at_b]] = links["port_b"][at_a], links["port_a"][at_b]
        self.host_up = alive[self.host_link] | (self.host_link < 0)
        self.roots, self.root_of = np.unique(self.host_switch, return_inverse=True)  # root_of[host] indexes roots

    def closer(self, away: np.ndarray, root: int | np.ndarray | slice, edges: np.ndarray | slice) -> np.ndarray:
        """Whether edges are on a shortest path to a root from where that is `away` hops: never through a host."""
        left = self.distance[root][..., self.head[edges]]
        found = (away > 0) & (left >= 0) & (left == away - self.length[edges])
        return found & ((self.head[edges] < self.switches) | (left == 0)) if len(self.several) else found

    def connected(self, root: int) -> np.ndarray:
        """bool by switch: whether there is a path to `root`."""
        found, waiting = np.zeros(self.places, dtype=bool), [root]
        found[root] = True
        while waiting:
            at = waiting.pop()
            peers = self.head[self.first[at] : self.first[at + 1]]
            new = np.unique(peers[~found[peers]])
            found[new] = True
            waiting += new.tolist()
        return found

    def _distances(self, roots: np.ndarray) -> np.ndarray:
        """int32[places, roots]: hops to some places, -1: unreachable.  A bit for each says whether it is reached."""
        words, number = -(-len(roots) // 64), np.arange(len(roots))
        distance = np.full((self.places, 64 * words), -1, dtype=np.int32)
        distance[roots, number] = 0
        new = np.zeros((self.places, words), dtype="<u8")
        new[roots, number >> 6] = np.uint64(1) << (number & 63).astype(np.uint64)
        reached, hops = new.copy(), 0
        kinds = [(length, np.flatnonzero(self.length == length)) for length in np.unique(self.length).tolist()]
        recent = [new]  # by hops: last what was reached a hop ago
        while any(some.any() for some in recent):
            hops += 1
            came = np.zeros_like(new)
            for length, edges in kinds:
                if length <= len(recent):
                    starts = np.flatnonzero(np.diff(self.tail[edges], prepend=-1))
                    over = np.bitwise_or.reduceat(recent[-length][self.head[edges]], starts, axis=0)
                    came[self.tail[edges[starts]]] |= over
            new = came & ~reached
            reached |= new
            some = np.flatnonzero(new)
            word, bit = np.nonzero(np.unpackbits(new.ravel()[some, None].view(np.uint8), axis=1, bitorder="little"))
            distance.ravel()[64 * some[word] + bit] = hops
            new[self.switches :] = 0  # no path leads through a host
            recent = [*recent, new][-max(length for length, _ in kinds) :] if kinds else []
        return distance[:, : len(roots)]

    @cached_property
    def towards(self) -> list[int]:
        """Of every edge: the `roots` that it is on a shortest path to, a bit each, the lowest for the first."""
        closer = np.empty((len(self.head), len(self.roots)), dtype=bool)
        for part in parts(self.head):
            closer[part] = self.closer(self.distance[:, self.tail[part]], slice(None), part).T
        return [int.from_bytes(bits.tobytes(), "little") for bits in np.packbits(closer, axis=1, bitorder="little")]

    def levels(self, root: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(edges, starts) on shortest paths to roots[root], nearest switches first; each start begins a switch."""
        away = self.distance[root][self.tail].astype(np.int16)  # 16 bits are sorted in linear time
        useful = np.flatnonzero(self.closer(away, root, slice(None)))
        useful = useful[np.argsort(away[useful], kind="stable")]
        hops = away[useful]
        for level in np.split(useful, np.flatnonzero(np.diff(hops)) + 1):
            if len(level):
                yield level, np.flatnonzero(np.diff(self.tail[level], prepend=-1))


def computed_routes(hosts: int, structure: Structure) -> Routes:
    """The routes of a network that has a structure: no tables."""
    span, unit = structure.span.copy(), structure.unit
    span[:hosts] = 0
    down = span // unit
    shapes, shape_of = np.unique(np.stack((down, structure.ports), axis=1), axis=0, return_inverse=True)
    made = [
        np.array([*np.stack((np.ones(low, int), np.arange(low)), axis=1).ravel(), most - low, *range(low, most)], dtype=np.int16)
        for low, most in shapes.tolist()
    ]
    none = np.zeros((0, 0), dtype=np.int32), np.zeros(0, dtype=np.int32)
    return Routes(
        [made[i] for i in shape_of.ravel().tolist()],
        structure.below,
        span,
        unit,
        (2 * down).astype(np.int32),
        *none,
        none[1],
        none[1],
    )


def tabulated_routes(fabric: Fabric) -> Routes:
    """The tables of every node, from the distances to the attachment switches; hosts of a switch are a class."""
    hosts, distance, roots = fabric.hosts, fabric.distance, len(fabric.roots)
    nodes = hosts + fabric.switches
    host_class = np.where(fabric.host_up, fabric.root_of, roots).astype(np.int32)  # the last class: hosts whose link is down
    host_group = np.full(hosts, -1, dtype=np.int32)
    rows = np.full((roots + 1 + fabric.places, roots + 1), -1, dtype=np.int32)
    rows[:roots, :roots] = np.where(distance[:, fabric.roots].T >= 0, 0, -1)  # of the hosts of each attachment switch
    next_hops = [np.array([1, 0], dtype=np.int16)] * hosts
    local: list[list[int]] = [[] for _ in range(fabric.places)]
    for host in np.flatnonzero(fabric.host_up & (fabric.host_link >= 0)).tolist():
        local[fabric.host_switch[host]].append(host)
    for place in range(fabric.places):
        groups, of_root = _groups(fabric, place)
        rows[roots + 1 + place, :roots] = of_root
        behind = np.array(local[place], dtype=np.int64)
        host_group[behind] = len(groups) + 2 * np.arange(len(behind))
        own = np.stack((np.ones(len(behind), dtype=np.int16), fabric.host_port[behind].astype(np.int16)), axis=1)
        group = np.concatenate((groups, own.ravel()))
        if place < fabric.switches:
            next_hops.append(group)
        else:
            next_hops[fabric.several[place - fabric.switches]] = group
    rows[roots + 1 + fabric.roots, np.arange(roots)] = np.where(fabric.roots < fabric.switches, ATTACHED, -1)
    row_of = np.concatenate((host_class, roots + 1 + np.arange(fabric.switches))).astype(np.int32)
    row_of[fabric.several] = roots + 1 + np.arange(fabric.switches, fabric.places)
    zeros, ones = np.zeros(nodes, dtype=np.int64), np.ones(nodes, dtype=np.int64)
    return Routes(next_hops, zeros, zeros, ones, np.full(nodes, -1, dtype=np.int32), rows, row_of, host_class, host_group)


def _groups(fabric: Fabric, switch: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct groups of next hops to other attachment switches, flat, and each root's offset in them."""
    edges = slice(fabric.first[switch], fabric.first[switch + 1])
    ports, away = fabric.port[edges], fabric.distance[:, switch]
    of_root = np.full(len(fabric.roots), -1, dtype=np.int32)
    roots = np.flatnonzero(away > 0)
    if not len(ports) or not len(roots):
        return np.zeros(0, dtype=np.int16), of_root
    closer = fabric.closer(away[roots, None], roots, edges)
    first, group = _alike(closer)
    members = closer[first]
    count = members.sum(axis=1)
    begin = np.cumsum(count + 1) - count - 1
    groups = np.empty(len(first) + count.sum(), dtype=np.int16)
    is_count = np.zeros(len(groups), dtype=bool)
    is_count[begin] = True
    groups[is_count], groups[~is_count] = count, ports[np.nonzero(members)[1]]
    of_root[roots] = begin[group]
    return groups, of_root


def _alike(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of each kind of rows, bool[n, any], ascending; the place of each row's kind among them."""
    bits = np.zeros((len(rows), -(-rows.shape[1] // 64) * 8), dtype=np.uint8)
    packed = np.packbits(rows, axis=1)
    bits[:, : packed.shape[1]] = packed
    words = bits.view(np.uint64).T
    _, first, kind = np.unique(words[0], return_index=True, return_inverse=True)
    for word in words[1:]:
        _, number = np.unique(word, return_inverse=True)
        _, first, kind = np.unique(kind * len(rows) + number, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return first[order], place[kind]


def base_rtt_ps(fabric: Fabric, links: np.ndarray, data: int, ack: int) -> int:
    """Largest over host pairs and their equal-cost paths: a frame of `data` bytes there, one of `ack` bytes back."""
    cost = np.stack([links["ps_per_byte"] * size + links["delay_ps"] for size in (data, ack)])
    access = np.full(fabric.places, -1.0)  # the costliest host of each switch, there and back
    round_trip = np.where(fabric.host_link < 0, 0.0, cost.sum(axis=0)[fabric.host_link])
    np.maximum.at(access, fabric.host_switch, round_trip)
    best = _largest_within_one_switch(fabric, round_trip)
    of_links = np.unique(cost[:, fabric.link], axis=1)
    if of_links.shape[1] <= 1 and fabric.alike:
        there = fabric.distance * of_links.sum() + access + access[fabric.roots, None]
        return max(best, int(there[(access >= 0) & (fabric.distance > 0)].max(initial=0)))
    for root in range(len(fabric.roots)):
        path = np.zeros((2, fabric.places))
        for edges, starts in fabric.levels(root):
            costs = cost[:, fabric.link[edges]] + path[:, fabric.head[edges]]
            path[:, fabric.tail[edges[starts]]] = np.maximum.reduceat(costs, starts, axis=1)
        there = path.sum(axis=0) + access + access[fabric.roots[root]]
        there[(access < 0) | (fabric.distance[root] <= 0)] = 0
        best = max(best, int(there.max()))
    return best


def expected_bytes(fabric: Fabric, links: int, src: np.ndarray, dst: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """float64[links, 2]: bytes that flows put on each link between switches, from a to b and from b to a.

    Every switch divides what it has for a destination equally among its next hops: the expectation of ECMP.  Flows between
    hosts that are not connected count as far as there are links.
    """
    out = np.zeros((links, 2))
    totals = np.zeros(len(fabric.roots) * fabric.places)
    for part in parts(src, dst, sizes):
        pair = fabric.root_of[dst[part]].astype(np.int64) * fabric.places + fabric.host_switch[src[part]]
        totals += np.bincount(pair, weights=sizes[part], minlength=len(totals))
    for root, held in enumerate(totals.reshape(-1, fabric.places)):
        for edges, starts in reversed(list(fabric.levels(root)) if held.any() else []):
            ways = np.diff([*starts, len(edges)])
            share = np.repeat(held[fabric.tail[edges[starts]]] / ways, ways)
            np.add.at(held, fabric.head[edges], share)
            np.add.at(out, (fabric.link[edges], fabric.backward[edges]), share)
    return out


def _largest_within_one_switch(fabric: Fabric, round_trip: np.ndarray) -> int:
    order = np.lexsort((-round_trip, fabric.host_switch))
    same = np.flatnonzero(np.diff(fabric.host_switch[order]) == 0)
    return int((round_trip[order][same] + round_trip[order][same + 1]).max(initial=0))


def only_kind(fabric: Fabric, links: np.ndarray) -> tuple[int, int] | None:
    """Rate (ps per byte) and delay of the links between switches, if they are alike, and count alike; else None."""
    kinds = np.unique(links[["ps_per_byte", "delay_ps"]][fabric.link]).tolist()
    return kinds[0] if len(kinds) == 1 and fabric.alike else None


class Profiles:
    """What a path between two attachment switches is like, where all equal-cost paths are alike.

    of[source root, destination root] is a profile, or -1: the paths differ. Profile p has the rates `rates[:, p]`
    (ps per byte, link by link, then zeros) and the delay `delay[p]`.
    """

    def __init__(self, fabric: Fabric, links: np.ndarray, structure: Structure | None):
        if structure and structure.kinds:
            self._by_tier(fabric, structure, structure.kinds)
            return
        if (only := only_kind(fabric, links)) is not None:
            self._by_hops(fabric, *only)
            return
        rate_delay = np.stack((links["ps_per_byte"], links["delay_ps"]), axis=1)
        kinds, kind_of = np.unique(rate_delay, axis=0, return_inverse=True)
        self._kinds = [(float(rate), int(delay)) for rate, delay in kinds]
        self._known: dict[tuple[tuple[float, ...], int], int] = {((), 0): 0}
        self._paths: list[tuple[tuple[float, ...], int]] = [((), 0)]
        self._extended: dict[tuple[int, int], int] = {}
        self.of = np.empty((len(fabric.roots), len(fabric.roots)), dtype=np.int32)
        for root in range(len(fabric.roots)):
            self.of[:, root] = self._towards(fabric, root, kind_of.ravel())[fabric.roots]
        hops = max(len(rates) for rates, _ in self._paths)
        self.rates = np.zeros((hops, len(self._paths)))
        for p, (rates, _) in enumerate(self._paths):
            self.rates[: len(rates), p] = rates
        self.delay = np.array([delay for _, delay in self._paths], dtype=np.int64)

    def _by_tier(self, fabric: Fabric, structure: Structure, kinds: list[tuple[int, int]]) -> None:
        """Paths that turn at the same tier are alike; profile 0: within a switch."""
        paths = [kinds[1:tier] for tier in range(1, structure.farthest + 1)]  # their upper half
        above = fabric.roots + fabric.hosts
        self.of = np.full((len(above), len(above)), len(paths) - 1, dtype=np.int32)
        towers = [above]
        for _ in paths[2:]:
            towers.append(structure.parent[towers[-1]])
        for profile in range(len(towers) - 1, -1, -1):
            first = structure.below[towers[profile]]
            self.of[first[:, None] == first] = profile
        self.rates = np.zeros((2 * len(paths) - 2, len(paths)))
        for p, path in enumerate(paths):
            rates = [rate for rate, _ in path]
            self.rates[: 2 * p, p] = rates + rates[::-1]
        self.delay = np.array([2 * sum(delay for _, delay in path) for path in paths], dtype=np.int64)

    def _by_hops(self, fabric: Fabric, rate: int, delay: int) -> None:
        """Paths of as many links are alike."""
        self.of = fabric.distance[:, fabric.roots].T
        hops = np.arange(int(self.of.max()) + 1)
        self.rates = np.where(hops[1:, None] <= hops, rate, 0)
        self.delay = hops * delay

    def _towards(self, fabric: Fabric, root: int, kind_of: np.ndarray) -> np.ndarray:
        profile = np.zeros(fabric.places, dtype=np.int64)
        for edges, starts in fabric.levels(root):
            width = 1 + len(self._paths)
            onward = kind_of[fabric.link[edges]] * width + profile[fabric.head[edges]] + 1
            distinct, inverse = np.unique(onward, return_inverse=True)
            extended = np.array([self._extend(key // width, key % width - 1) for key in distinct.tolist()])[inverse]
            low, high = np.minimum.reduceat(extended, starts), np.maximum.reduceat(extended, starts)
            profile[fabric.tail[edges[starts]]] = np.where(low == high, low, -1)
        return profile

    def _extend(self, kind: int, rest: int) -> int:
        """The profile of a link of this kind followed by the path `rest`."""
        if rest < 0:
            return -1
        if (kind, rest) not in self._extended:
            rate, delay = self._kinds[kind]
            path = ((rate, *self._paths[rest][0]), delay + self._paths[rest][1])
            if path not in self._known:
                self._known[path] = len(self._paths)
                self._paths.append(path)
            self._extended[kind, rest] = self._known[path]
        return self._extended[kind, rest]


class Tracer:
    """Follows flows hop by hop as the switches forward them: ECMP with the flow's hash and the switch's seed, or as `given`."""

    def __init__(self, table: Routes, fabric: Fabric, links: np.ndarray, seed: int):
        nodes = fabric.hosts + fabric.switches
        sizes = [len(group) for group in table.next_hops]
        self.hosts, self.table, self.flat = fabric.hosts, table, np.concatenate(table.next_hops)
        self.start = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
        self.links, self.seed = links, seed
        self.seeds = node_seed(np.arange(nodes, dtype=np.int64), seed)
        width = 1 + int(max(links["port_a"].max(), links["port_b"].max()))
        ends = ((links["a"], links["port_a"]), (links["b"], links["port_b"]))
        key = np.concatenate([node.astype(np.int64) * width + port for node, port in ends])
        order = np.argsort(key)
        self.width, self.key, self.given, self.numbers = width, key[order], None, np.zeros(0, np.int64)
        self.key_link = np.concatenate((np.arange(len(links)),) * 2)[order]
        self.key_peer = np.concatenate((links["b"], links["a"])).astype(np.int64)[order]

    def steps(
        self, hashes: np.ndarray, src: np.ndarray, dst: np.ndarray, first: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """(flows, node, port, link) of each hop, for the flows that are not there yet; the first hop leaves `src`, by the ports
        `first` if these are given."""
        flows, node, back = np.arange(len(src)), np.asarray(src, dtype=np.int64), first is not None
        while len(flows):
            if first is None:
                at = self.start[node] + self.table.groups(node, dst[flows])
                count = self.flat[at].astype(np.int64)
                taken = np.where(count > 1, choice(hashes[flows], self.seeds[node], count), 0)
                port = self.flat[at + 1 + taken].astype(np.int64)
                port = self.given(self.numbers[flows], back, node, port) if self.given else port
            else:
                port, first = first, None
            entry = np.searchsorted(self.key, node * self.width + port)
            yield flows, node, port, self.key_link[entry]
            there = self.key_peer[entry]
            going = there >= self.hosts
            flows, node = flows[going], there[going]

    def came_by(self, dst: np.ndarray, link: np.ndarray) -> np.ndarray:
        """The port of a host at which what comes over a link arrives."""
        return np.where(self.links["a"][link] == dst, self.links["port_a"][link], self.links["port_b"][link]).astype(np.int64)


def lone_times_ps(
    there: list[np.ndarray],
    back: list[np.ndarray],
    delays: tuple[np.ndarray, np.ndarray],
    sizes: np.ndarray,
    mtu: int,
    header: int,
    ack: int,
    took: Took = np.multiply,
) -> tuple[np.ndarray, np.ndarray]:
    """When the last byte of a flow alone is at the receiver, and its last ACK at the sender; store and forward, per flow.

    there[i] is ps per byte of link i of the path, back[i] of the path of the ACKs, 0: no such link; `delays` their sums of
    propagation. Every packet is acknowledged by one of `ack` bytes as soon as it has arrived. Where a byte does not take whole
    picoseconds, the fractions of all packets count, and the result is rounded down.  took: bytes and rate to ps.

    A permutation flow shop whose jobs are alike except for the last one. With m full packets, which take c_i at link i (s * r_i
    there, ack * r_i back), and a last one that takes d_i (l * r_i there, ack * r_i back): the largest over links i of
    sum(c_1..c_i) + (m-1) * max(c_1..c_i) + sum(d_i..d_h), plus the delays, where h is the last link there, or back.
    """
    full = (sizes - 1) // mtu
    last, frame = sizes - full * mtu + header, mtu + header
    many = full > 0
    done, slowest = np.zeros(len(sizes)), np.zeros(len(sizes))
    left = sum((took(last, rate) for rate in there), np.zeros(len(sizes)))  # of the last packet, from link i on
    worst = left.copy()
    for rate in there:
        done += took(frame, rate)
        np.maximum(slowest, took(frame, rate), out=slowest)
        np.maximum(worst, done + (full - 1) * slowest + left, out=worst, where=many)
        left -= took(last, rate)
    received = worst + delays[0]
    for rate in back:
        left += took(ack, rate)
    worst += left
    for rate in back:
        done += took(ack, rate)
        np.maximum(slowest, took(ack, rate), out=slowest)
        np.maximum(worst, done + (full - 1) * slowest + left, out=worst, where=many)
        left -= took(ack, rate)
    return received.astype(np.int64), (worst + delays[0] + delays[1]).astype(np.int64)


class LoneFlows:
    """Exact completion times of flows alone in the empty network, each on the very path that it and its ACKs take."""

    def __init__(self, table: Routes, fabric: Fabric, links: np.ndarray, structure: Structure | None, headers: np.ndarray):
        self.table, self.fabric, self.links = table, fabric, links
        self.header = np.concatenate((np.zeros(fabric.hosts, dtype=np.int64), headers))  # by node
        self.structure, self.given = structure, None  # ports of flows whose paths are: (flows, back, nodes, ports) -> ports
        self._profiles: Profiles | None = None
        self.hops = 2 * structure.farthest if structure else 2 + int(fabric.distance.max())  # at most

    def times_ps(
        self, numbers: np.ndarray, src: np.ndarray, dst: np.ndarray, sizes: np.ndarray, seed: int, packet: Packet, took: Took
    ) -> tuple[np.ndarray, np.ndarray]:
        """(received, acknowledged); by profile where equal-cost paths are alike, else hop by hop.  packet: mtu, header, ack."""
        profiles = self._profiles_for(len(sizes))
        tracer: Tracer | None = None
        received, acked = np.empty(len(sizes), dtype=np.int64), np.empty(len(sizes), dtype=np.int64)
        for begin in range(0, len(sizes), CHUNK):
            part = slice(begin, begin + CHUNK)
            a, b = src[part], dst[part]
            odd = np.arange(begin, begin + len(a))
            if profiles:
                there, delay, differ = self._alike(profiles, a, b)
                back, delay_back, _ = self._alike(profiles, b, a)
                received[part], acked[part] = lone_times_ps(there, back, (delay, delay_back), sizes[part], *packet, took)
                odd = odd[differ]
            if len(odd):
                tracer = tracer or Tracer(self.table, self.fabric, self.links, seed)
                hashes = flow_hash(numbers[odd], seed)
                tracer.given, tracer.numbers = self.given, numbers[odd]
                there, delay, last, cut = self._traced(tracer, hashes, src[odd], dst[odd])
                came_by = tracer.came_by(dst[odd], last)
                back, delay_back, _, cut_back = self._traced(tracer, ~hashes, dst[odd], src[odd], came_by)
                delays, rest = (delay, delay_back), (sizes[odd], *packet)
                if self.header.any():
                    received[odd], acked[odd] = cutthrough.lone_times_ps(there, back, cut + cut_back, delays, *rest)
                else:
                    received[odd], acked[odd] = lone_times_ps(there, back, delays, *rest, took)
        return received, acked

    def _profiles_for(self, flows: int) -> Profiles | None:
        """None: to follow so many flows hop by hop costs less than to look at all paths, or switches cut through."""
        if self.header.any():
            return None
        if self._profiles is None:
            at_once = (self.structure and self.structure.kinds) or only_kind(self.fabric, self.links)
            if at_once or FOLLOWED * flows * self.hops > len(self.fabric.roots) * len(self.fabric.tail):
                self._profiles = Profiles(self.fabric, self.links, self.structure)
        return self._profiles

    def _alike(self, profiles: Profiles, src: np.ndarray, dst: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """Rates and delays of the paths, and whether they differ, for which these are not valid."""
        link, roots = self.fabric.host_link, self.fabric.root_of
        alone, access = link >= 0, self.links[link]
        rate, delay = np.where(alone, access["ps_per_byte"], 0.0), np.where(alone, access["delay_ps"], 0)
        profile = profiles.of[roots[src], roots[dst]]
        rates = [rate[src], *(hop[profile] for hop in profiles.rates), rate[dst]]
        return rates, delay[src] + profiles.delay[profile] + delay[dst], profile < 0

    def _traced(
        self, tracer: Tracer, hashes: np.ndarray, src: np.ndarray, dst: np.ndarray, first: np.ndarray | None = None
    ) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, list[np.ndarray]]:
        """Rates and delays of the paths, the last links, and behind each link the header of the switch, 0: no cut-through."""
        rates: list[np.ndarray] = []
        header: list[np.ndarray] = []
        delay, last = np.zeros(len(src), dtype=np.int64), np.zeros(len(src), dtype=np.int64)
        for flows, node, _, link in tracer.steps(hashes, src, dst, first):
            if rates:
                header[-1][flows] = self.header[node]
            rate = np.zeros(len(src))
            rate[flows] = self.links["ps_per_byte"][link]
            delay[flows] += self.links["delay_ps"][link]
            last[flows] = link
            rates.append(rate)
            header.append(np.zeros(len(src), dtype=np.int64))
        return rates, delay, last, header

    def check(self, src: np.ndarray, dst: np.ndarray, sizes: np.ndarray, mtu: int, header: int, ack: int) -> None:
        hosts = self.fabric.hosts
        for name, ends in (("src", src), ("dst", dst)):
            wrong = np.flatnonzero((ends < 0) | (ends >= hosts))
            if len(wrong):
                rule, value = f"hosts are 0 to {hosts - 1}", int(ends[wrong[0]])
                raise SpecError(rule, path=f"flows.{wrong[0]}.{name}", value=value)
        wrong = np.flatnonzero(src == dst)
        if len(wrong):
            both = src[wrong[0]]
            raise SpecError(f"src and dst are both {both}; a flow goes from one host to another", path=f"flows.{wrong[0]}")
        wrong = np.flatnonzero(sizes <= 0)
        if len(wrong):
            raise SpecError("a flow has at least one byte", path=f"flows.{wrong[0]}.bytes", value=int(sizes[wrong[0]]))
        largest = int(sizes.max(initial=0))
        packets = largest // mtu + 1
        on_wire = max(largest + header * packets, ack * packets)
        if on_wire * self.hops * float(self.links["ps_per_byte"].max()) >= 1 << 62:
            raise SpecError(f"a flow of {largest} bytes would take longer than the clock can count", remedy="split it up")
