"""The network of a switch that runs a scheme of the simulator: a host for every port, and the switch, or several of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock_net.composition import Scheme, declared, parse
from penstock_net.composition.hooks import HOOKS, VERBS
from penstock_net.errors import SpecError
from penstock_net.inputs import known_keys, whole
from penstock_net.sim.builder import build, compose
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.settings import Settings
from penstock_net.topology.graph import Topology, make_links
from penstock_net.units import parse_delay, parse_size, ps_per_byte
from penstock_net.vswitch.world import time
from penstock_net.workload.flows import Flows

HEADER = 48  # of the simulator's packets; only schemes that look at payloads care
PLACE_KEYS = ("name", "rate", "delay", "node")
LINK_KEYS = ("between", "rate", "delay", "ends")
MOST_NODES = 64
REMEDY = "take one that acts between switches, such as bfc, dqa, pfc or floodgate"
SWITCH_HOOKS, HOST_HOOKS, NOT_HERE = (
    {name for name, hook in HOOKS.items() if hook.real_switch == what} for what in ("runs", "host", "never")
)
HOST_VERBS = re.compile(rf"\b({'|'.join(name for name, verb in VERBS.items() if verb.host)})\(")


def usable(scheme: str | Scheme, parameters: Mapping[str, Any] | None = None) -> tuple[Scheme, list[str]]:
    """The parts of a scheme that run at a switch, and those that are left out because they run at hosts only.

    SpecError: a part needs its hosts, since an application sends no acknowledgements; or it trims packets or replaces the
    scheduler, which the real switch does not support.
    """
    try:
        made = parse(scheme, parameters)
    except SpecError as error:
        if error.path and not error.place:  # of the name, or of a parameter
            error.path = "switch.scheme" if error.path == "name" else f"scheme.{error.path}"
        raise
    left_out = []
    for name in made.parts:
        found = declared(name)
        hooks = found.hooks_with(made.values(name))
        if refused := sorted(hooks & NOT_HERE | found.answers):
            raise SpecError(
                f'scheme "{made.name}": {name} has {", ".join(refused)}, which only simulated switches do', remedy=REMEDY
            )
        written = found.shared.hooks if found.shared else set()  # into the packets that its hosts read
        at_switch, needs = (hooks | written) & SWITCH_HOOKS, sorted(hooks & HOST_HOOKS)
        needs += sorted(set(HOST_VERBS.findall(found.source)))
        if at_switch and needs:
            asked = ", ".join(needs)
            raise SpecError(
                f'scheme "{made.name}": {name} needs its hosts ({asked}), and applications at a switch are none of its',
                remedy=REMEDY,
            )
        if needs:
            left_out.append(name)
    parts = {name: values for name, values in made.parts.items() if name not in left_out}
    if not parts:
        raise SpecError(f'scheme "{made.name}": nothing of it runs at a switch', remedy="take bfc, dqa, ecn, pfc or floodgate")
    return Scheme(made.name, parts, made.host, made.set_by_user), left_out


def network(places: Sequence[Mapping[str, Any]], links: Sequence[Mapping[str, Any]], buffer: str | int) -> Topology:
    """A host for every port, in the order of the ports, and the switches that ports and links name."""
    if not places:
        raise SpecError("a switch with a scheme needs its ports from the beginning: give at least one [[port]]")
    hosts, rows, nodes = len(places), [], {0}
    for i, place in enumerate(places):
        known_keys(place, PLACE_KEYS, f"port {i + 1}")
        node = whole(place.get("node", 0), f"port {i + 1}.node", 0, MOST_NODES - 1)
        nodes.add(node)
        rows.append((i, hosts + node, *line(place, f"port {i + 1}")))
    for i, link in enumerate(links):
        known_keys(link, LINK_KEYS, f"link {i + 1}")
        ends = link.get("between")
        if not isinstance(ends, (list, tuple)) or len(ends) != 2:
            raise SpecError(f"link {i + 1}.between = {ends!r}: must be two nodes, such as [0, 1]")
        a, b = (whole(end, f"link {i + 1}.between", 0, MOST_NODES - 1) for end in ends)
        nodes |= {a, b}
        rows.append((hosts + a, hosts + b, *line(link, f"link {i + 1}")))
    if nodes != set(range(len(nodes))):
        raise SpecError(f"nodes {sorted(nodes)}: must be numbered from 0 without a gap")
    switches = len(nodes)
    names = (*(str(place["name"]) for place in places), *(f"node{i}" for i in range(switches)))
    return Topology(
        kind="file",
        hosts=hosts,
        switches=switches,
        links=make_links(*(np.array(c) for c in zip(*rows))),
        buffer_bytes=np.full(switches, parse_size(buffer, "switch.buffer")),
        names=names,
        tier=np.repeat([0, 1], [hosts, switches]),
        params={"file": "switch"},
    )


def line(table: Mapping[str, Any], where: str) -> tuple[float, int]:
    """(ps per byte, ps of delay) of a line."""
    return (
        ps_per_byte(table.get("rate", "10Gbps"), f"{where}.rate"),
        parse_delay(table.get("delay", "1us"), f"{where}.delay", positive=True),
    )


def first_number() -> int:
    """First sequence number of the frames on a link to another switch; it grows from start to start."""
    return time.time_ns()


class Network:
    """A simulator core without flows of its own; each packet has space for a frame at `carried_at`."""

    def __init__(self, topo: Topology, scheme: Scheme, frame: int, carried: int, seed: int, trace: bool) -> None:
        columns = {
            name: np.zeros(0, dtype=kind)
            for name, kind in (
                ("start_ps", "i8"),
                ("src", "i4"),
                ("dst", "i4"),
                ("bytes", "i8"),
                ("class_id", "i1"),
                ("priority", "i1"),
            )
        }
        flows = Flows(**columns, classes=("frames",))  # type: ignore[arg-type]
        if frame <= HEADER:
            raise SpecError(f"must be more than {HEADER}", path="switch.frame", value=frame)
        measure = Measure(sample="0us", flows=False, packets=trace, pauses=trace)
        host = HostConfig(mtu=frame - HEADER, header=HEADER)
        settings = Settings(topo, flows, scheme, seed=seed, drain=False, measure=measure, host=host)
        self.composition = compose(settings)
        if self.composition.priorities:
            rule = f'scheme "{scheme.name}": pauses single priorities, and frames at a switch have none'
            raise SpecError(rule, remedy="let it pause whole links")
        self.carried_at = self.composition.sizes["packet"]
        self.composition.sizes["packet"] += -(-(carried + frame) // 64) * 64
        self.sim = build(settings, self.composition)
