"""The network as it is: hosts, switches, full-duplex links, and what happens to links and switches during a run."""

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock_net.errors import ABSENT, SpecError, nearest
from penstock_net.hashing import flow_hash
from penstock_net.inputs import below_one, inside, instance, one_of, whole
from penstock_net.notebook import lines
from penstock_net.topology import cutthrough, schedule
from penstock_net.topology.changes import (
    Change,
    LinkChange,
    SwitchChange,
    check_agreement,
    check_change,
    check_order,
    exact,
    in_order,
    nights,
)
from penstock_net.topology.clock import CLOCKS
from penstock_net.topology.llr import Llr
from penstock_net.topology.routes import (
    Fabric,
    LoneFlows,
    Routes,
    Tracer,
    base_rtt_ps,
    computed_routes,
    expected_bytes,
    tabulated_routes,
)
from penstock_net.topology.scale_up import Servers, servers_of
from penstock_net.topology.structure import Structure, structure_of
from penstock_net.topology.wiring import check_links, check_names, number_ports
from penstock_net.units import PS_PER_S, bits_per_second, format_rate, format_size, format_time

LINK = np.dtype(
    [("a", "i4"), ("b", "i4"), ("port_a", "i4"), ("port_b", "i4"), ("ps_per_byte", "f8"), ("delay_ps", "i8"), ("loss", "f8")]
)
MAX_HOSTS = 65536
MAX_PORTS = 2000
MAX_NICS = 64  # ports of a host
TIERS = ("virtual", "ToR", "spine/aggregation", "core")  # of switches


def make_links(a: Any, b: Any, ps_per_byte: Any, delay_ps: Any, loss: Any = 0.0) -> np.ndarray:
    """A LINK array of links between nodes a[i] and b[i] (`Topology` numbers the ports)."""
    links = np.zeros(len(a), dtype=LINK)
    links["a"], links["b"] = a, b
    links["ps_per_byte"], links["delay_ps"], links["loss"] = ps_per_byte, delay_ps, loss
    return links


@dataclass(frozen=True, eq=False, repr=False)
class Topology:
    """Hosts (nodes 0 .. hosts-1), switches (the nodes after them) and full-duplex links; immutable and checked.

    links         array of LINK; ports of a node are numbered 0.. in the order of its links, by this class
    buffer_bytes  int64 per switch; 0 = unbounded
    names         one per node
    tier          int8 per node: 0 host, or switch in a server (virtual, or an NVSwitch), 1 ToR, 2 aggregation or spine, 3 core
    params        the keyword arguments that made it, so that a spec can be written back: build(topo.spec) == topo
    changes       LinkChange and SwitchChange, sorted by time; at one time what only changes a rate comes first
    group         int32 per switch: paths take as few links between groups as they can; without it all are in one
    label         int8 per link, for schemes: twice the dimension that it is in; plus 1: it joins two groups, or closes a ring
    headers       int64 per switch: bytes of a packet after which it may forward it (virtual cut-through); 0: all of it
    llr           link-level retry of all links but those within a server; None: they have none
    """

    kind: str
    hosts: int
    switches: int
    links: np.ndarray
    buffer_bytes: np.ndarray
    names: tuple[str, ...]
    tier: np.ndarray
    params: dict[str, Any]
    changes: tuple[Change, ...] = ()
    group: Any = ()
    label: Any = ()
    headers: Any = ()
    llr: Llr | None = None

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "names", tuple(self.names))
        fix(self, "params", copy.deepcopy(dict(self.params)))
        fix(self, "changes", tuple(sorted(self.changes, key=in_order)))
        fix(self, "links", np.array(self.links, dtype=LINK))
        fix(self, "buffer_bytes", np.array(self.buffer_bytes, dtype=np.int64))
        fix(self, "tier", np.array(self.tier, dtype=np.int8))
        fix(self, "headers", np.array(self.headers if np.any(self.headers) else [0] * self.switches, dtype=np.int64))
        fix(self, "group", np.array(self.group if np.any(self.group) else [0] * self.switches, dtype=np.int32))
        fix(self, "label", np.array(self.label if np.any(self.label) else [0] * len(self.links), dtype=np.int8))
        _check(self)
        number_ports(self.links, self.nodes)
        for array in (self.links, self.buffer_bytes, self.tier, self.group, self.label, self.headers):
            array.flags.writeable = False
        _check_connected(self)

    @property
    def nodes(self) -> int:
        """Hosts and switches together."""
        return self.hosts + self.switches

    @property
    def spec(self) -> dict[str, Any]:
        """The [topology] table that makes this network."""
        return copy.deepcopy(self.params if "file" in self.params else {"kind": self.kind, **self.params})

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each node by its name."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def port_count(self) -> np.ndarray:
        """Links of each node, int32."""
        return _ends(self.links, self.nodes).astype(np.int32)

    @cached_property
    def first_port(self) -> np.ndarray:
        """Number of the first port of each node, when all ports are counted by node and port."""
        return np.cumsum(self.port_count, dtype=np.int64) - self.port_count

    @cached_property
    def core_links(self) -> np.ndarray:
        """Indices of the switch-to-switch links."""
        return np.flatnonzero((self.links["a"] >= self.hosts) & (self.links["b"] >= self.hosts))

    @cached_property
    def host_links(self) -> np.ndarray:
        """The links of the hosts, as indices, by host and port."""
        ends = np.flatnonzero(np.minimum(self.links["a"], self.links["b"]) < self.hosts)
        return ends[np.argsort(np.minimum(self.links["a"], self.links["b"])[ends], kind="stable")]

    @cached_property
    def several(self) -> np.ndarray:
        """The hosts with several links."""
        return np.flatnonzero(self.port_count[: self.hosts] > 1)

    @cached_property
    def host_switches(self) -> np.ndarray:
        """The node number of the switch of each host: of its first port that leaves its server, if it has several."""
        hosts = np.minimum(self.links["a"], self.links["b"])[self.nic_links]
        first = self.links[self.nic_links[np.searchsorted(hosts, np.arange(self.hosts))]]
        return np.maximum(first["a"], first["b"]).astype(np.int64)

    @cached_property
    def host_bps(self) -> np.ndarray:
        """float64[hosts]: the rate of each host's links that leave its server together, one direction."""
        links = self.links[self.nic_links]
        hosts = np.minimum(links["a"], links["b"])
        return np.bincount(hosts, weights=8 * PS_PER_S / links["ps_per_byte"], minlength=self.hosts)

    @cached_property
    def servers(self) -> "Servers | None":
        """Which hosts are GPUs of one server, joined by a switch of tier 0 that has links to hosts only; None: there are none."""
        return servers_of(self.hosts, self.nodes, self.tier, self.links)

    @property
    def tier_names(self) -> tuple[str, ...]:
        """What the switches of each tier are called."""
        return TIERS if self.servers is None else ("scale-up", *TIERS[1:])

    @cached_property
    def nic_links(self) -> np.ndarray:
        """Of `host_links` those that leave the server; of hosts that have no others all."""
        if self.servers is None:
            return self.host_links
        leaves = ~np.isin(self.host_links, self.servers.links)
        host = np.minimum(self.links["a"], self.links["b"])[self.host_links]
        return self.host_links[leaves | ~np.isin(host, host[leaves])]

    @property
    def min_delay_ps(self) -> int:
        """The shortest delay of any link: what the simulator may compute ahead without looking."""
        return int(self.links["delay_ps"].min())

    @cached_property
    def host_capacity_bps(self) -> float:
        """Sum of the rates of the host links that leave their server, one direction."""
        return _bits_per_second(self.links[self.nic_links])

    @cached_property
    def core_capacity_bps(self) -> float:
        """Sum of the rates of the links from ToRs upwards, one direction.

        Without an upper tier, of all switch-to-switch links (dumbbell: the bottleneck); 0 if there are none.
        """
        core = self.links[self.core_links]
        core = core[(self.tier[core["a"]] > 0) & (self.tier[core["b"]] > 0)]
        low, high = np.sort((self.tier[core["a"]], self.tier[core["b"]]), axis=0)
        uplinks = core[(low == 1) & (high > 1)]
        return _bits_per_second(uplinks if len(uplinks) else core)

    def capacity_bps(self, load_on: str) -> float:
        """What a load of 1 on "core" or "host" is; SpecError where there is no core."""
        one_of(load_on, "load_on", ("core", "host"))
        if load_on == "core" and not self.core_capacity_bps:
            raise SpecError(
                f'topology "{self.kind}" has no links between switches to relate a load to',
                path="load_on",
                value=load_on,
                remedy='use load_on = "host"',
            )
        return self.core_capacity_bps if load_on == "core" else self.host_capacity_bps

    @cached_property
    def tier_links(self) -> dict[str, np.ndarray]:
        """Indices of the links between switches by the tiers that they join: "ToR - spine/aggregation"; ascending tiers."""
        ends = np.sort((self.tier[self.links["a"]], self.tier[self.links["b"]]), axis=0)
        low, high = ends[:, self.core_links]
        joined = sorted(set(zip(low.tolist(), high.tolist())))
        return {f"{TIERS[i]} - {TIERS[j]}": self.core_links[(low == i) & (high == j)] for i, j in joined}

    def offered_loads(self, src: np.ndarray, dst: np.ndarray, sizes: np.ndarray, duration_ps: int) -> dict[str, float]:
        """Load that flows of so many bytes within `duration_ps` offer to the links of each entry of `tier_links`, without
        headers: the larger direction, divided equally over equal-cost paths.  Links within a tier: the most loaded one."""
        offered = self.expected_bytes(src, dst, sizes) * 8 * PS_PER_S / duration_ps
        loads = {}
        for name, chosen in self.tier_links.items():
            links = self.links[chosen]
            rates, sent = 8 * PS_PER_S / links["ps_per_byte"], offered[chosen]
            if self.tier[links["a"][0]] == self.tier[links["b"][0]]:
                loads[name] = float((sent / rates[:, None]).max())
            else:
                upwards = (self.tier[links["a"]] < self.tier[links["b"]])[:, None]
                loads[name] = float(np.where(upwards, sent, sent[:, ::-1]).sum(axis=0).max() / rates.sum())
        return loads

    def expected_bytes(self, src: np.ndarray, dst: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """float64[links, 2]: bytes that flows put on each link between switches, from a to b and from b to a."""
        if self._structure and self._structure.regular:
            return self._structure.expected_bytes(self.links, src, dst, sizes)
        return expected_bytes(self._fabric, len(self.links), src, dst, sizes)

    # What is where

    def node(self, name: str | int) -> int:
        """The number of the node of this name (a number is checked and returned)."""
        if isinstance(name, str):
            if name not in self.numbers:
                raise SpecError(f'"{name}" is not a node of topology "{self.kind}"', remedy=nearest(name, self.names[-2000:]))
            return self.numbers[name]
        if not 0 <= whole(name, "node", -(2**63)) < self.nodes:
            raise SpecError(f'node {name} is not in topology "{self.kind}"', remedy=f"nodes are 0 to {self.nodes - 1}")
        return int(name)

    def link(self, a: str | int, b: str | int, parallel: int | None = None) -> int:
        """The index of the link between two nodes, given by name or number; `parallel`: which of several, in their order."""
        here, there = self.node(a), self.node(b)
        found = self.links_between(here, there)
        if len(found) == 1 and parallel is None:
            return found[0]
        if found:
            number, most = -1 if parallel is None else parallel, len(found) - 1
            if 0 <= number <= most:
                return found[number]
            rule = f"{self.names[here]} and {self.names[there]} are joined by {len(found)} link{'s' if most else ''}"
            value = ABSENT if parallel is None else parallel
            raise SpecError(rule, path="parallel", value=value, remedy=f"write parallel = {f'0 to {most}' if most else '0'}")
        peers = [self.names[peer] for peer in self.peers(here)]
        raise SpecError(
            f"no link between {self.names[here]} and {self.names[there]}; {self.names[here]} is linked to "
            + ", ".join(peers[:8])
            + (", ..." if len(peers) > 8 else "")
        )

    def links_between(self, a: int, b: int) -> list[int]:
        """The indices of all links between two nodes, in their order."""
        return self._links_between.get((min(a, b), max(a, b)), [])

    def peers(self, node: int) -> list[int]:
        """The nodes at the other end of the links of `node`, by port."""
        links = self.links[(self.links["a"] == node) | (self.links["b"] == node)]
        return [int(peer) for peer in np.where(links["a"] == node, links["b"], links["a"])]

    # Variations

    def with_changes(self, changes: Iterable[Change | Mapping[str, Any]]) -> "Topology":
        """With these changes in addition: LinkChange and SwitchChange, or as in TOML
        `{time = "1ms", a = "tor0", b = "spine1", up = false}` and `{..., rate = "40Gbps"}`; with `of = "tor0"`
        what that end alone sends; `{time = "1ms", switch = "spine1", up = false}`; nights in a row:
        `{time = "180us", a = "tor0", b = "spine1", on_down = "hold", night = "20us", every = "200us", until = "1ms"}`."""
        added: list[Change] = []
        tables: list[list[Change]] = []
        written = list(self.params.get("changes", ()))
        for i, change in enumerate(changes):
            if isinstance(change, (LinkChange, SwitchChange)):
                added.append(exact(change))
                written.append(schedule.written(self, added[-1]))
                continue
            with inside(f"changes.{i}"):
                more, table = schedule.read(self, change)
            added += more
            tables.append(more)
            written.append(table)
        with inside("changes"):
            check_agreement(tables, self.links, self.names)
        return replace(
            self, changes=(*self.changes, *added), params={**self.params, "changes": written} if written else self.params
        )

    def with_loss(self, loss: float) -> "Topology":
        """With this probability of losing a frame on each link and direction; those within a server lose none."""
        loss = below_one(loss, "loss")
        links = self.links.copy()
        links["loss"] = np.where((self.tier[links["a"]] == 0) & (self.tier[links["b"]] == 0), 0.0, loss)
        return replace(self, links=links, params={**self.params, "loss": loss})

    def with_llr(self, **llr: Any) -> "Topology":
        """With links that send lost frames again themselves (`Llr` has the keys): all but those within a server.  SpecError."""
        return replace(self, llr=Llr.read(llr), params={**self.params, "llr": dict(llr)})

    @property
    def retry_links(self) -> np.ndarray:
        """The indices of the links with link-level retry, be it on or off."""
        within = (self.tier[self.links["a"]] == 0) & (self.tier[self.links["b"]] == 0)
        return np.flatnonzero(~within & (self.llr is not None))

    def with_cut_through(self, switches: Any = True, header: str | int | None = None) -> "Topology":
        """With switches that forward a packet after the first `header` bytes ("64B"), if nothing is in its way: all but those
        within servers (True), those of some names (["spine*"]), none (False), or those that do already (None).  SpecError."""
        found = cutthrough.headers(switches, header, self.headers, self.names[self.hosts :], self.tier[self.hosts :])
        given = {"cut_through": switches, "cut_through_header": header}
        return replace(self, headers=found, params=self.params | {k: v for k, v in given.items() if v is not None})

    # Paths

    def routes(self, down: frozenset[int] = frozenset()) -> Routes:
        """Equal-cost shortest paths (in hops, after links between groups) that avoid the links in `down` and never pass through
        a host."""
        if not down:
            return self._routes
        return tabulated_routes(self.fabric(frozenset(down)))

    def fabric(self, down: frozenset[int] = frozenset()) -> Fabric:
        """The switches and the links between them without those in `down`, for paths."""
        return Fabric(self.hosts, self.switches, self.links, down, self.group)

    def base_rtt_ps(self, mtu: int = 1000, header: int = 48, ack: int = 60) -> int:
        """Largest over host pairs: one full data frame there, one ACK back, store and forward."""
        by_tier = self._structure.base_rtt_ps(mtu + header, ack) if self._structure else None
        return by_tier or base_rtt_ps(self._fabric, self.links, mtu + header, ack)

    def ideal_fct_ps(
        self, numbers: Any, src: Any, dst: Any, bytes: Any, seed: int, mtu: int = 1000, header: int = 48
    ) -> np.ndarray:
        """Exact completion time of each flow alone in the empty network, on the ECMP path that it takes; int64.

        Of the network before any of its changes, without loss. Numbers may stand for arrays.
        """
        return self.ideal_times_ps(numbers, src, dst, bytes, seed, mtu, header)[0]

    def ideal_times_ps(
        self,
        numbers: Any,
        src: Any,
        dst: Any,
        bytes: Any,
        seed: int,
        mtu: int = 1000,
        header: int = 48,
        ack: int = 60,
        given: Any = None,
        link_clock: str = "ps",
    ) -> tuple[np.ndarray, np.ndarray]:
        """`ideal_fct_ps`, and the same by the sender's clock: until the last ACK, of `ack` bytes, has come back on the path of
        ACKs; int64.  given: ports on paths that are given; link_clock: as in `simulate`."""
        numbers, src, dst, sizes = np.broadcast_arrays(*map(np.atleast_1d, (numbers, src, dst, bytes)))
        lone = copy.copy(self._lone_flows)
        lone.given, took = given, CLOCKS[one_of(link_clock, "link_clock", CLOCKS)]
        lone.check(src, dst, sizes.astype(np.int64), mtu, header, ack)
        self.refuse_unreachable(src, dst)
        return lone.times_ps(numbers, src, dst, sizes.astype(np.int64), seed, (mtu, header, ack), took)

    def path_links(self, number: int, src: int, dst: int, seed: int, *, ack: bool = False) -> list[tuple[int, int]]:
        """(node, port) of each hop of flow `number`, from its host on; `ack`: of its ACKs, from dst to src."""
        if self.node(src) == self.node(dst) or max(src, dst) >= self.hosts:
            last = self.hosts - 1
            raise SpecError(f"no path from {src} to {dst}: a flow goes from one host to another", remedy=f"hosts are 0 to {last}")
        hashes, ends = flow_hash(np.array([number]), seed), np.array([[src], [dst]])
        self.refuse_unreachable(*ends)
        tracer = Tracer(self._routes, self._fabric, self.links, seed)
        hops = list(tracer.steps(hashes, *ends))
        if ack:
            hops = list(tracer.steps(~hashes, ends[1], ends[0], tracer.came_by(ends[1], hops[-1][-1])))
        return [(int(node[0]), int(port[0])) for _, node, port, _ in hops]

    def refuse_unreachable(self, src: np.ndarray, dst: np.ndarray, flows: np.ndarray | None = None) -> None:
        """SpecError if there is no path between the hosts of a flow, of those in `flows`.  Only hosts with several links may be
        apart, such as in a network of rails."""
        if not len(self.several):
            return
        flows = np.arange(len(src)) if flows is None else flows
        fabric = self._fabric
        wrong = flows[fabric.distance[fabric.root_of[dst[flows]], fabric.host_switch[src[flows]]] < 0]
        if len(wrong):
            a, b = self.names[src[wrong[0]]], self.names[dst[wrong[0]]]
            raise SpecError(
                f"there is no path from {a} to {b}: paths lead through switches only, never through a host",
                path=f"flows.{wrong[0]}",
                remedy="join their switches, or send to a host that reaches both and on from there, as two flows",
            )

    # Identity

    def key(self) -> str:
        """Stable hash of the content (not of how it was made), to cache by."""
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.kind, self.hosts, self.switches, self.links, self.buffer_bytes, self.names, self.tier)
        return Topology, (*fields, self.params, self.changes, self.group, self.label, self.headers, self.llr)

    def __repr__(self) -> str:
        return f"<Topology {self.kind}: {self.hosts} hosts, {self.switches} switches, {len(self.links)} links>"

    def _repr_html_(self) -> str:
        return lines(self.describe())

    def describe(self) -> str:
        """A few lines for people."""
        of_tier = [f"{n} {self.tier_names[t]}" for t, n in enumerate(np.bincount(self.tier[self.hosts :])) if n]
        lines = [
            f"{self.kind}: {self.hosts} hosts, {self.switches} switches ({', '.join(of_tier)}), {len(self.links)} links",
            f"host links    {_kinds(self.links[self.nic_links])}",
        ]
        if self.servers is not None:
            lines.append(f"in servers    {_kinds(self.links[self.servers.links])}; {self.servers.count} servers")
        for name, links in self.tier_links.items():
            ratio = self.host_capacity_bps / _bits_per_second(self.links[links])
            lines.append(f"{name} links  {_kinds(self.links[links])}; host links : these {ratio:.4g} : 1")
        buffers = [format_size(size) if size else "unbounded" for size in np.unique(self.buffer_bytes).tolist()]
        lines.append(f"buffer        {', '.join(buffers)} per switch")
        if self.headers.any():
            lines.append(cutthrough.described(self.headers, self.names[self.hosts :], self.tier[self.hosts :]))
        lines.append(f"base RTT      {format_time(self.base_rtt_ps())} (1000 B of payload there, an ACK back)")
        if self.links["loss"].any():
            lines.append(f"loss          up to {self.links['loss'].max():g} per frame and link")
        if self.llr is not None:
            lines.append(f"llr           {len(self.retry_links)} links retry, {'on' if self.llr.on else 'off'} at first")
        if self.changes:
            lines.append(f"changes       {len(self.changes)}, the first at {format_time(self.changes[0].time_ps)}")
            lines += nights(self.changes, self.links, self.names)
            failing = sorted({change.switch for change in self.changes if isinstance(change, SwitchChange)})
            if failing:
                shown = [self.names[switch] for switch in failing[:8]]
                lines.append(f"failing       {', '.join(shown)}" + (f" and {len(failing) - 8} more" if len(failing) > 8 else ""))
        return "\n".join(lines)

    @cached_property
    def _links_between(self) -> dict[tuple[int, int], list[int]]:
        low, high = np.sort((self.links["a"], self.links["b"]), axis=0).tolist()
        found: dict[tuple[int, int], list[int]] = {}
        for link, ends in enumerate(zip(low, high)):
            found.setdefault(ends, []).append(link)
        return found

    @cached_property
    def _fabric(self) -> Fabric:
        return self.fabric()

    @cached_property
    def _structure(self) -> Structure | None:
        return None if len(self.several) else structure_of(self.hosts, self.switches, self.links, self.tier)

    @cached_property
    def _routes(self) -> Routes:
        return computed_routes(self.hosts, self._structure) if self._structure else tabulated_routes(self._fabric)

    @cached_property
    def _lone_flows(self) -> LoneFlows:
        return LoneFlows(self._routes, self._fabric, self.links, self._structure, self.headers)

    @cached_property
    def _key(self) -> str:
        what = (self.hosts, self.switches, self.names, self.changes, *([self.llr] if self.llr else []))
        digest = hashlib.sha256(repr(what).encode())
        more = [array for array in (self.group, self.label, self.headers) if array.any()]
        for array in (self.links, self.buffer_bytes, self.tier, *more):
            digest.update(array.tobytes())
        return digest.hexdigest()


def check_topology(topo: Any) -> None:
    """SpecError unless `topo`, an argument of that name, is a Topology."""
    instance(topo, Topology, "topo", "such as ps.star(hosts=16)")


def _bits_per_second(links: np.ndarray) -> float:
    return float((8 * PS_PER_S / links["ps_per_byte"]).sum())


def _kinds(links: np.ndarray) -> str:
    """ "100Gbps 1us, 400Gbps 1us" of links."""
    kinds = np.unique(links[["ps_per_byte", "delay_ps"]]).tolist()
    shown = [f"{format_rate(bits_per_second(rate))} {format_time(delay)}" for rate, delay in kinds[:4]]
    return ", ".join(shown) + (f" and {len(kinds) - 4} more kinds" if len(kinds) > 4 else "")


def _ends(links: np.ndarray, nodes: int) -> np.ndarray:
    return np.bincount(np.concatenate((links["a"], links["b"])), minlength=nodes)


# Checks, loud: every message names the value, the rule and the remedy


def _check(topo: Topology) -> None:
    if not 2 <= topo.hosts <= MAX_HOSTS:
        raise SpecError(f"a network has 2 to {MAX_HOSTS} hosts", path="hosts", value=topo.hosts, remedy="choose a number between")
    if topo.switches < 1:
        raise SpecError("hosts need a switch between them", path="switches", value=topo.switches, remedy="add one")
    lengths = (("names", topo.nodes), ("tier", topo.nodes), ("label", len(topo.links)))
    for field, length in (*lengths, *((field, topo.switches) for field in ("buffer_bytes", "group", "headers"))):
        if len(getattr(topo, field)) != length:
            each = "link" if field == "label" else "switch" if length < topo.nodes else "node"
            raise SpecError(f"{field} has {len(getattr(topo, field))} entries", remedy=f"give {length}, one per {each}")
    check_names(topo.names)
    if not len(topo.links):
        raise SpecError("there are none; hosts need links to a switch", path="links", remedy="add them")
    ends = np.stack((topo.links["a"], topo.links["b"]))
    if ends.min() < 0 or ends.max() >= topo.nodes:
        wrong = int(ends.max() if ends.max() >= topo.nodes else ends.min())
        raise SpecError(f"node {wrong} does not exist", path="links", remedy=f"nodes are 0 to {topo.nodes - 1}")
    if topo.buffer_bytes.min() < 0:
        raise SpecError("must be zero (unbounded) or more bytes", path="buffer", value=int(topo.buffer_bytes.min()))
    if topo.headers.min() < 0:
        raise SpecError("must be zero (store and forward) or more bytes", path="headers", value=int(topo.headers.min()))
    check_links(topo.links, topo.names)
    _check_degrees(topo)
    _check_changes(topo)


def _check_degrees(topo: Topology) -> None:
    degree = _ends(topo.links, topo.nodes)
    wrong = np.flatnonzero((degree[: topo.hosts] < 1) | (degree[: topo.hosts] > MAX_NICS))
    if len(wrong):
        raise SpecError(
            f"{topo.names[wrong[0]]} has {degree[wrong[0]]} links: a host has 1 to {MAX_NICS}",
            remedy="make it a switch or remove links" if degree[wrong[0]] else "link it to a switch",
        )
    both = np.flatnonzero((topo.links["a"] < topo.hosts) & (topo.links["b"] < topo.hosts))
    if len(both):
        a, b = (topo.names[topo.links[end][both[0]]] for end in ("a", "b"))
        raise SpecError(f"{a} and {b} are hosts linked to each other: a host links to a switch", remedy="put one between them")
    wrong = np.flatnonzero(degree > MAX_PORTS)
    if len(wrong):
        raise SpecError(f"{topo.names[wrong[0]]} has {degree[wrong[0]]} ports: at most {MAX_PORTS}", remedy="use more switches")


def _check_changes(topo: Topology) -> None:
    if topo.llr is not None and topo.headers.any():
        rule = "a switch that cuts through has sent a frame on before it can know that it must come again"
        raise SpecError(rule, path="llr", remedy="leave out cut_through, or llr")
    retry = set(topo.retry_links.tolist())
    for change in topo.changes:
        if isinstance(change, LinkChange) and change.llr is not None and change.link not in retry:
            rule = (
                f"{topo.names[topo.links['a'][change.link]]} - {topo.names[topo.links['b'][change.link]]} has no link-level retry"
            )
            raise SpecError(rule, path="changes.llr", value=change.llr, remedy="give the network llr = {on = false}")
        check_change(change, topo.links, topo.hosts, topo.names)
    check_order(topo.changes, topo.names)


def _check_connected(topo: Topology) -> None:
    if topo._structure or len(topo.several):  # hosts with several links may be apart: see refuse_unreachable
        return
    unreached = np.flatnonzero(~topo._fabric.connected(topo._fabric.host_switch[0]))
    if not len(unreached):
        return
    behind = np.flatnonzero(topo._fabric.host_switch == unreached[0])
    other = int(behind[0]) if len(behind) else topo.hosts + int(unreached[0])
    raise SpecError(
        f"{topo.names[0]} and {topo.names[other]} are not connected: paths lead through switches only",
        remedy="link them or remove the part that is cut off",
    )
