"""Builds the compiled core from the settings of a run: arrays and numbers of the network, the schemes and the hosts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.composition import Composition
from penstock_net.composition.declare import Declarations
from penstock_net.errors import SpecError
from penstock_net.hashing import flow_hash, node_seed
from penstock_net.sim.config import FROM_DUE_TIME
from penstock_net.sim.core.build import Simulation, struct_sizes
from penstock_net.sim.layouts import LEVELS, QUEUED, row_type
from penstock_net.sim.lookahead import Lookahead, lookahead
from penstock_net.sim.recording import NOTHING, PRINTED, counted, recorded
from penstock_net.topology.changes import LinkChange
from penstock_net.topology.routes import Routes, tabulated_routes
from penstock_net.units import format_size

if TYPE_CHECKING:
    from penstock_net.sim.settings import Settings
    from penstock_net.topology import Topology

ACTIVE_AT_ONCE = 4_000_000  # flows that may be unfinished at the same time, per thread
SLOTS = 2**31 - 1  # numbers of these flows are int32 in the core
NACK_INTERVAL_PS = 500_000_000
PACING_DEBT = 128  # full packets: as long as these take on the line, a paced packet may be late without moving those after it
ACK_HEADER = 46  # an ACK is padded to HostConfig.ack; what a scheme adds comes on top of this
UNBOUNDED = 2**63 - 1


def compose(settings: Settings) -> Composition:
    """Lay out the scheme's parts, with their state in the core's structs.  SpecError: a buffer is too small for a packet."""
    made = settings.scheme.compose(struct_sizes(), LEVELS, settings.host.nic_queues, settings.topo.hosts)
    check_buffers(settings, made)
    check_priorities(settings, made)
    check_hosts(settings, made)
    check_links(settings, made)
    check_acks_and_counts(settings, made)
    check_turns(settings, made)
    check_paths(settings, made)
    check_limits(settings, made)
    made = with_answers(settings, made)
    return replace(made, lossless=False) if settings.plain_switches.any() else made


def build(settings: Settings, composition: Composition, ahead: Lookahead | None = None, flow_parts: int = 0) -> Simulation:
    """Build the core at time 0, without flows.  Without a Lookahead, windows are as long as the shortest link delay.
    SpecError: a buffer is too small for the headroom of a lossless scheme.

    flow_parts: of the table of unfinished flows, at least one per thread.
    """
    ahead = ahead or lookahead(settings.topo, settings.threads, apart=False)
    given = numbers(settings)
    given["flow_parts"] = max(flow_parts, settings.threads)
    given["flow_limit"] = min(given["flow_limit"], SLOTS // given["flow_parts"])
    given |= {"counted": counted(composition), "recorded": recorded(composition) if settings.measure.records else NOTHING}
    sim = Simulation(network(settings, composition, ahead), given, composition)
    if settings.topo.llr is not None:
        numbers_of = settings.topo.llr.numbers(settings.host.mtu + settings.host.header)
        sim.retry(ends(settings.topo, settings.topo.retry_links), int(settings.topo.llr.on), numbers_of)
    check_headroom(settings, composition, sim)
    check_reserved(settings, composition, sim)
    return sim


def ends(topo: Topology, links: Any) -> list[tuple[int, int]]:
    """(node, port) of both ends of links, given by their indices."""
    found = topo.links[links]
    return [(int(node), int(port)) for end in "ab" for node, port in zip(found[end], found[f"port_{end}"])]


def at_all_rates(settings: Settings, composition: Composition) -> Simulation:
    """A core without flows whose links have had all their rates, one after another: what schemes set up for the highest."""
    ahead = lookahead(settings.topo, 1, apart=False)
    given = {**numbers(settings), "threads": 1, "flow_parts": 1, "flow_limit": 1, "sample": 0}
    sim = Simulation(network(settings, composition, ahead), given, composition)
    for change in rate_changes(settings.topo):
        a, b, port_a, port_b = (int(settings.topo.links[change.link][column]) for column in ("a", "b", "port_a", "port_b"))
        only = -1 if change.node is None else change.node
        sim.change_link(0, a, port_a, b, port_b, -1, change.ps_per_byte or 0.0, only)
    return sim


def has_headroom(declared: Declarations) -> bool:
    """Whether a scheme takes headroom from what a switch shares, and says in `shared_size` how much is left."""
    return "headroom" in declared.parameters and any(field.name == "shared_size" for field in declared.state["node"].fields)


def rate_changes(topo: Topology) -> list[LinkChange]:
    """The changes of links that change their rate."""
    return [change for change in topo.changes if isinstance(change, LinkChange) and change.ps_per_byte]


def check_buffers(settings: Settings, composition: Composition) -> None:
    """SpecError if a switch buffer cannot hold one packet."""
    frame = settings.host.mtu + settings.host.header
    smallest = int(min((b for b in settings.topo.buffer_bytes if b), default=UNBOUNDED))
    if smallest < frame:
        raise SpecError(
            f"less than one packet of {frame} B", path="topology.buffer", value=format_size(smallest), remedy="use at least that"
        )


def check_headroom(settings: Settings, composition: Composition, sim: Simulation) -> None:
    """SpecError if a scheme's headroom leaves no packet's room in a switch, at some rate of its links."""
    topo, frame = settings.topo, settings.host.mtu + settings.host.header
    parts = [part.name for part in composition.parts if has_headroom(part.declared)]
    if not parts or composition.unbounded:
        return
    if rate_changes(topo):
        sim = at_all_rates(settings, composition)
    for name in parts:
        for i, size in enumerate(topo.buffer_bytes.tolist()):
            state = sim.scheme_state(name, topo.hosts + i, -1) if size else None
            if state and state["shared_size"] < frame:
                raise SpecError(
                    f"the lossless headroom of {topo.names[topo.hosts + i]} alone takes "
                    f"{format_size(size - state['shared_size'] + frame)}",
                    path="topology.buffer",
                    value=format_size(size),
                    remedy="give it more buffer, or less headroom",
                )


def check_reserved(settings: Settings, composition: Composition, sim: Simulation) -> None:
    """SpecError if what a scheme reserves of a buffer for each link is more than there is, or too little for a packet."""
    topo = settings.topo
    for part in composition.parts:
        names = {field.name for field in part.declared.state["node"].fields}
        for i, size in enumerate(topo.buffer_bytes.tolist() if {"reserved", "lacking"} <= names else ()):
            state = sim.scheme_state(part.name, topo.hosts + i, -1)
            if state and state["lacking"]:
                rule = f"a full packet takes {state['lacking']} credits, and a channel has fewer: nothing could be sent"
                raise SpecError(
                    rule, path=f"{part.name}.limit", remedy=f"give it at least {state['lacking']}, 0 for what its link needs"
                )
            if state and size and state["reserved"] > size and not composition.unbounded:
                name, links = topo.names[topo.hosts + i], int(topo.port_count[topo.hosts + i])
                rule = f"{part.name} reserves {format_size(state['reserved'])} of {name} for its {links} links, each for itself"
                remedy = "give it more buffer, or less to each link (docs/schemes.md)"
                raise SpecError(rule, path="topology.buffer", value=format_size(size), remedy=remedy)


def check_priorities(settings: Settings, composition: Composition) -> None:
    """SpecError if a flow has a priority for which a scheme that pauses single priorities has no queue."""
    count = composition.priorities
    lowest = int(settings.flows.priority.max(initial=0))
    if count and lowest >= count:
        rule = f"the scheme has {count} priorities, so it must be below {count}"
        remedy = "give the scheme more of them, or the flows a higher one"
        raise SpecError(rule, path="workload.priority", value=lowest, remedy=remedy)


def check_hosts(settings: Settings, composition: Composition) -> None:
    """SpecError if a parameter, such as storm_host, is the number of a host that there is not."""
    hosts = settings.topo.hosts
    for part in composition.parts:
        for name, value in part.values.items():
            numbers = part.declared.parameters[name][0].startswith("int32 -1..")  # -1: none
            if name.endswith("_host") and numbers and value >= hosts:
                rule = f"no such host: this network has {hosts}"
                raise SpecError(rule, path=f"{part.name}.{name}", value=value, remedy=f"they are numbered 0 to {hosts - 1}")


def check_acks_and_counts(settings: Settings, composition: Composition) -> None:
    """SpecError if packets are counted at both ends of links, and one of them does not take part, or cannot, or if switches are
    to see acknowledgements and do not."""
    name = composition.counts_packets
    if name and settings.plain_switches.any():
        rule = f"{name} is of both ends of a link, and these switches would give nothing back"
        raise SpecError(rule, path="scheme.plain_switches", remedy="leave it out")
    if composition.counts_by_port and settings.host.ack_priority == "data":
        rule = f"{name} does not see acknowledgements that wait at a host while its links are one channel each"
        remedy = 'give it a channel for each priority (vcs), or leave host.ack_priority = "control"'
        raise SpecError(rule, path="host.ack_priority", value="data", remedy=remedy)
    if composition.queued_acks and settings.host.ack_priority == "control":
        rule = f"switches of {composition.queued_acks} write into acknowledgements, which they see only among the data"
        raise SpecError(rule, path="host.ack_priority", value="control", remedy='set it to "data"')


def check_links(settings: Settings, composition: Composition) -> None:
    """SpecError if a host has several links and the scheme is for hosts that have one, or if a scheme's ports are not those of
    switches that cut through."""
    topo = settings.topo
    if settings.link_clock == "ns" and topo.headers.any():
        rule = "switches that cut through forward a packet within a nanosecond of its header"
        raise SpecError(rule, path="link_clock", value="ns", remedy="leave it out, or topology.cut_through")
    if composition.chooses_ports and topo.headers.any():
        rule = f"switches forward a header by its route, and {composition.chooses_ports} chooses other ports"
        raise SpecError(rule, path="topology.cut_through", remedy="leave out one of them")
    if composition.one_link and len(topo.several):
        host = int(topo.several[0])
        raise SpecError(
            f"{composition.one_link} is for hosts with one link, whose receivers pace what they are sent for it; "
            f"{topo.names[host]} has {topo.port_count[host]}",
            path="scheme",
            remedy="use another scheme, or a network whose hosts have one link each",
        )


def with_answers(settings: Settings, composition: Composition) -> Composition:
    """With room for what acknowledgements say of their receivers, where they are not sent at once.  SpecError: the scheme's
    receivers answer otherwise."""
    host = settings.host
    if host.ack_every == 1 and not host.ack_delay_ps:
        return composition
    rule, key = "", "ack_every" if host.ack_every != 1 else "ack_delay"
    if composition.own_answers:
        rule = f"receivers of {composition.own_answers} answer each packet themselves, by frames that are no acknowledgements"
    elif composition.each_acked and key == "ack_every":
        rule = f"{composition.each_acked} reads the network from every two acknowledgements, and needs one of each packet"
    if rule:
        raise SpecError(rule, path=f"host.{key}", value=getattr(host, key), remedy="leave it out, or use another scheme")
    return composition.with_answers(row_type("Answer").itemsize)


def check_turns(settings: Settings, composition: Composition) -> None:
    """SpecError if packets take turns of the ports of their host, and the scheme needs them in order, or in one NIC queue."""
    if not settings.in_turn:
        return
    single = composition.nic_queues > 1 and not composition.nic_by_destination and not composition.priorities
    if not composition.reordering:
        rule = "packets overtake one another, which receivers of the scheme do not tolerate"
        remedy = "add a scheme whose receivers do, see Packets that take turns in docs/modelling.md"
    elif single:
        rule, remedy = "the scheme pauses the NIC queue of a flow, which has one at each port", "use another scheme"
    else:
        return
    raise SpecError(rule, path="host.ports", value="packet", remedy=remedy)


def check_paths(settings: Settings, composition: Composition) -> None:
    """SpecError if paths are given where the scheme, the hosts or trees of switches decide them, or needs others."""
    paths = settings.paths
    if paths is None:
        return
    rule = remedy = ""
    if composition.chooses_ports:
        rule = f"{composition.chooses_ports} sends packets by other ports than those of shortest paths"
        remedy = "use another scheme"
    elif paths.turns is not None and not composition.reordering:
        rule = "packets overtake one another, which receivers of the scheme do not tolerate"
        remedy = "add a scheme whose receivers do, see Paths in docs/formats.md"
    elif paths.turns is not None and composition.symmetric:
        rule, remedy = "the scheme needs the same paths there and back", "give the paths of flows, or use another scheme"
    elif paths.turns is None and settings.in_turn:
        rule, remedy = "packets of a flow take turns of the links of their host", 'leave host.ports "flow", or give no paths'
    elif paths.turns is None and settings.reductions and paths.pin_of[settings.reductions.seat_of > 0].any():
        number = int(np.flatnonzero((settings.reductions.seat_of > 0) & (paths.pin_of > 0))[0])
        rule, remedy = f"switches reduce flow {number}, whose path is that of their tree", "remove its rows"
    elif composition.symmetric and paths.lopsided >= 0:
        rule = f"the scheme needs the same path there and back, and flow {paths.lopsided} has others"
        remedy = 'give its path with the direction "both"'
    if rule:
        raise SpecError(rule, path="run.paths", remedy=remedy)


def check_limits(settings: Settings, composition: Composition) -> None:
    """SpecError if a flow has a rate or a window of its own where others decide when it sends."""
    limits = settings.flows.limits
    if limits is None:
        return
    bounded = np.logical_or.reduce([column != 0 for column in limits])
    which, rule = np.flatnonzero(bounded), ""
    if composition.one_link:
        rule = f"receivers of {composition.one_link} say when a flow sends, and count on it to do so"
    elif settings.reductions and (bounded & (settings.reductions.seat_of > 0)).any():
        which = np.flatnonzero(bounded & (settings.reductions.seat_of > 0))
        rule = "switches reduce it, which say when it sends"
    elif composition.ranked == QUEUED and limits.open_loop.any():
        which = np.flatnonzero(limits.open_loop)
        rule = f"a NIC of {settings.scheme.name} queues all packets that a flow's window allows, and this flow has no window"
    if rule:
        name = next(name for name in reversed(limits._fields) if getattr(limits, name)[which[0]])
        value = int(getattr(limits, name)[which[0]])
        raise SpecError(rule, path=f"flows.{which[0]}.{name}", value=value, remedy="leave it out, or use another scheme")


def network(settings: Settings, composition: Composition, ahead: Lookahead) -> dict[str, Any]:
    """Nodes, links and routes in the form that `Simulation` takes.  With symmetric paths, all switches of a tier hash alike."""
    topo, host, seed = settings.topo, settings.host, settings.seed
    links, nodes = topo.links, np.arange(topo.nodes)
    chance = np.round(links["loss"] * 2**31).astype(np.int64)
    control = np.round((1 - (1 - links["loss"]) * (1 - settings.control_loss)) * 2**31).astype(np.int64)
    line = float(links["ps_per_byte"][topo.nic_links].min())
    base_rtt = topo.base_rtt_ps(host.mtu, host.header, host.ack) + host.ack_delay_ps
    columns = [links[c].tolist() for c in ("a", "port_a", "b", "port_b", "ps_per_byte", "delay_ps")]
    columns += [ahead.near.tolist(), chance.tolist(), control.tolist(), topo.label.tolist()]
    return {
        "hosts": topo.hosts,
        "nodes": topo.nodes,
        "degrees": topo.port_count.tolist(),
        "window": ahead.window_ps,
        "grid": int(links["delay_ps"].min()),
        "base_rtt": base_rtt,
        "bdp": math.ceil(base_rtt / line),
        "node_seeds": node_seed(topo.tier if composition.symmetric else nodes, seed).tolist(),
        "random_seeds": (flow_hash(nodes + (1 << 41), seed).astype(np.int64) * 4).tolist(),
        "buffers": topo.buffer_bytes.tolist(),
        "links": list(zip(*columns)),
        "tiers": topo.tier.tolist(),
        "groups": [*topo.group[topo.host_switches - topo.hosts].tolist(), *topo.group.tolist()],
        "clocks": clocks(settings).tolist(),
        "plain": settings.plain_switches.tolist(),
        "retries": int(topo.llr is not None),
        "cut_through": [0] * topo.hosts + topo.headers.tolist(),
        "workers": [(agenda.above, agenda.steps, agenda.numbers) for agenda in ahead.agendas],
        "routes": route_tables(routes_of(topo, composition)),
    }


def clocks(settings: Settings) -> np.ndarray:
    """float64[nodes]: what each node's line takes for a picosecond; hosts, and virtual switches in servers, are off by chance."""
    topo, most = settings.topo, settings.host.clock_ppm * 1e-6
    drawn = flow_hash(np.arange(topo.nodes) + (1 << 42), settings.seed) / 2**30 - 1
    return np.where(topo.tier == 0, 1 + most * drawn, 1.0)


def numbers(settings: Settings) -> dict[str, Any]:
    """Settings of hosts, threads and measurement in the form that `Simulation` takes."""
    measure, host = settings.measure, settings.host
    return {
        "threads": settings.threads,
        "seed": settings.seed & 0xFFFFFFFF,
        "mtu": host.mtu,
        "header": host.header,
        "ack": host.ack,
        "control": host.control,
        "ack_header": min(ACK_HEADER, host.ack),
        "in_turn": int(settings.in_turn),
        "ack_lane": int(host.ack_priority == "data"),
        "ack_every": host.ack_every,
        "ack_after": host.ack_after_ps,
        "ack_delay": host.ack_delay_ps,
        "rto": host.rto_ps,
        "grain": 1000 if settings.link_clock == "ns" else 0,
        "pacing_debt": PACING_DEBT * (host.mtu + host.header) if host.pacing == FROM_DUE_TIME else 0,
        "nack_interval": NACK_INTERVAL_PS,
        "sample": measure.sample_ps,
        "sample_ports": int(measure.port_series),
        "sample_queues": int(measure.queues),
        "sample_flows": int(measure.flow_series),
        "log_pauses": int(measure.pauses),
        "trace": int(measure.packets),
        "count_flows": int(measure.flows),
        "counted": NOTHING,
        "recorded": NOTHING,
        "print_limit": PRINTED,
        "flow_limit": max(1, min(len(settings.flows), ACTIVE_AT_ONCE)),
        "flow_parts": settings.threads,
    }


def routes_of(topo: Topology, composition: Composition, down: frozenset[int] = frozenset()) -> Routes:
    """The routes without the links in `down`; where a scheme chooses ports there are none that need no table."""
    return tabulated_routes(topo.fabric(down)) if composition.chooses_ports else topo.routes(down)


def route_tables(routes: Routes) -> dict[str, Any]:
    """Routes in the form that `Simulation` takes: lists by node, and tables as contiguous arrays.

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
