"""Builds the compiled core from the settings of a run: arrays and numbers of the network, the schemes and the hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.composition import Composition
from penstock.errors import SpecError
from penstock.hashing import flow_hash, node_seed
from penstock.sim.core.build import Simulation, struct_sizes
from penstock.sim.headroom import Headroom
from penstock.sim.layouts import LEVELS
from penstock.sim.lookahead import Lookahead, lookahead
from penstock.units import format_size

if TYPE_CHECKING:
    from penstock.sim.settings import Settings
    from penstock.topology import Topology
    from penstock.topology.routes import Routes

ACTIVE_AT_ONCE = 4_000_000  # flows that may be unfinished at the same time, per thread
SLOTS = 2**31 - 1  # numbers of these flows are int32 in the core
NACK_INTERVAL_PS = 500_000_000
ACK_HEADER = 46  # an ACK is padded to HostConfig.ack; what a scheme adds comes on top of this
UNBOUNDED = 2**63 - 1


def compose(settings: Settings) -> Composition:
    """The parts of the scheme, each with its fields of the core's structs.  SpecError: a buffer is too small for them."""
    made = settings.scheme.compose(struct_sizes(), LEVELS, settings.host.nic_queues, settings.topo.hosts)
    check_buffers(settings, made)
    check_priorities(settings, made)
    return replace(made, lossless=False) if settings.plain_switches.any() else made


def build(settings: Settings, composition: Composition, ahead: Lookahead | None = None, flow_parts: int = 0) -> Simulation:
    """The core at time 0, without flows; without a Lookahead its windows are as long as the shortest link delay.

    flow_parts: of the table of unfinished flows, at least one per thread.
    """
    ahead = ahead or lookahead(settings.topo, settings.threads, apart=False)
    given = numbers(settings)
    given["flow_parts"] = max(flow_parts, settings.threads)
    given["flow_limit"] = min(given["flow_limit"], SLOTS // given["flow_parts"])
    return Simulation(network(settings, composition.symmetric, ahead), given, composition)


def check_buffers(settings: Settings, composition: Composition) -> None:
    """SpecError if a switch buffer cannot hold one packet, or the headroom of a lossless scheme and one packet."""
    frame = settings.host.mtu + settings.host.header
    smallest = int(min((b for b in settings.topo.buffer_bytes if b), default=UNBOUNDED))
    if smallest < frame:
        raise SpecError(
            f"less than one packet of {frame} B", path="topology.buffer", value=format_size(smallest), remedy="use at least that"
        )
    for part in composition.parts:
        if "headroom" in part.values and part.declared.fabric.get("lossless") and not composition.unbounded:
            _check_headroom(settings.topo, Headroom(settings.topo, part.values, frame))


def _check_headroom(topo: Topology, headroom: Headroom) -> None:
    for i, size in enumerate(topo.buffer_bytes):
        least = int(headroom.needs[topo.hosts + i]) + headroom.spare
        if size and least > size:
            raise SpecError(
                f"the lossless headroom of {topo.names[topo.hosts + i]} alone takes {format_size(least)}",
                path="topology.buffer",
                value=format_size(int(size)),
                remedy="give it more buffer, or less headroom",
            )


def check_priorities(settings: Settings, composition: Composition) -> None:
    """SpecError if a flow has a priority for which a scheme that pauses single priorities has no queue."""
    count = composition.priorities
    lowest = int(settings.flows.priority.max(initial=0))
    if count and lowest >= count:
        rule = f"the scheme has {count} priorities, so it must be below {count}"
        remedy = "give the scheme more of them, or the flows a higher one"
        raise SpecError(rule, path="workload.priority", value=lowest, remedy=remedy)


def network(settings: Settings, symmetric: bool, ahead: Lookahead) -> dict[str, Any]:
    """Nodes, links and routes, as `Simulation` takes them; with symmetric paths all switches of a tier choose alike."""
    topo, host, seed = settings.topo, settings.host, settings.seed
    links, nodes = topo.links, np.arange(topo.nodes)
    chance = np.round(links["loss"] * 2**31).astype(np.int64)
    control = np.round((1 - (1 - links["loss"]) * (1 - settings.control_loss)) * 2**31).astype(np.int64)
    host_links = links[(links["a"] < topo.hosts) | (links["b"] < topo.hosts)]
    line = int(host_links["ps_per_byte"].min())
    base_rtt = topo.base_rtt_ps(host.mtu, host.header, host.ack)
    columns = [links[c].tolist() for c in ("a", "port_a", "b", "port_b", "ps_per_byte", "delay_ps")]
    columns += [ahead.near.tolist(), chance.tolist(), control.tolist()]
    return {
        "hosts": topo.hosts,
        "nodes": topo.nodes,
        "degrees": topo.port_count.tolist(),
        "window": ahead.window_ps,
        "grid": int(links["delay_ps"].min()),
        "base_rtt": base_rtt,
        "bdp": -(-base_rtt // line),
        "line_ps_per_byte": line,
        "node_seeds": node_seed(topo.tier if symmetric else nodes, seed).tolist(),
        "random_seeds": (flow_hash(nodes + (1 << 41), seed).astype(np.int64) * 4).tolist(),
        "buffers": topo.buffer_bytes.tolist(),
        "links": list(zip(*columns)),
        "tiers": topo.tier.tolist(),
        "plain": settings.plain_switches.tolist(),
        "workers": [(agenda.above, agenda.steps, agenda.numbers) for agenda in ahead.agendas],
        "routes": route_tables(topo.routes()),
    }


def numbers(settings: Settings) -> dict[str, int]:
    """Hosts, threads and what is measured, as `Simulation` takes them."""
    measure, host = settings.measure, settings.host
    return {
        "threads": settings.threads,
        "seed": settings.seed & 0xFFFFFFFF,
        "mtu": host.mtu,
        "header": host.header,
        "ack": host.ack,
        "ack_header": min(ACK_HEADER, host.ack),
        "ack_lane": int(host.ack_priority == "data"),
        "rto": host.rto_ps,
        "nack_interval": NACK_INTERVAL_PS,
        "sample": measure.sample_ps,
        "sample_ports": int(measure.port_series),
        "sample_queues": int(measure.queues),
        "sample_flows": int(measure.flow_series),
        "log_pauses": int(measure.pauses),
        "trace": int(measure.packets),
        "count_flows": int(measure.flows),
        "flow_limit": max(1, min(len(settings.flows), ACTIVE_AT_ONCE)),
        "flow_parts": settings.threads,
    }


def route_tables(routes: Routes) -> dict[str, Any]:
    """Routes as `Simulation` takes them: lists by node, and tables as contiguous arrays.

    share: 2^32 / unit, rounded up; place * share >> 32 is place // unit for all places below 2^16
    """
    return {
        "below": routes.below.tolist(),
        "span": routes.span.tolist(),
        "share": (-(-(1 << 32) // routes.unit)).tolist(),
        "beyond": routes.beyond.tolist(),
        "next_hops": [np.ascontiguousarray(hops, dtype=np.int16) for hops in routes.next_hops],
        "rows": list(np.ascontiguousarray(routes.rows, dtype=np.int32)),
        "row_of": routes.row_of.tolist(),
        "host_class": np.ascontiguousarray(routes.host_class, dtype=np.int32),
        "host_group": np.ascontiguousarray(routes.host_group, dtype=np.int32),
    }
