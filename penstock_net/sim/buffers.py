"""The buffer that ports of switches need, to lose nothing and never to idle: as schemes themselves have set it up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock_net.composition import Scheme, available, declared, parse
from penstock_net.errors import SpecError
from penstock_net.inputs import elements, instance
from penstock_net.sim.builder import at_all_rates, compose
from penstock_net.sim.config import HostConfig
from penstock_net.sim.settings import Settings
from penstock_net.topology import Topology, leaf_spine
from penstock_net.units import PS_PER_S, SPEED_OF_LIGHT, bits_per_second
from penstock_net.workload.flows import Flows

if TYPE_CHECKING:
    from penstock_net.composition import Composition
    from penstock_net.composition.declare import Declarations

# what a part says of each of its ports, the fields of a record `buffer` of its port_state: bytes for one class to lose nothing,
# and for the full rate; flows, each in a class of its own, with which a link is full; and how many classes there are
BUFFER = "buffer"
FIELDS = ("lossless", "full_rate", "flows", "classes")
RATES = ("100Gbps", "200Gbps", "400Gbps", "800Gbps")
CABLES = ("2m", "10m", "40m", "100m", "300m", "2km", "10km", "40km")
SCHEMA = {
    "scheme": pl.String,
    "part": pl.String,
    "ports": pl.Int64,
    "rate_gbps": pl.Float64,
    "delay_ns": pl.Float64,
    "cable_m": pl.Float64,
    "lossless_bytes": pl.Int64,
    "full_rate_bytes": pl.Int64,
    "flows": pl.Int64,
    "classes": pl.Int64,
}
LINK = ["scheme", "part", "rate_gbps", "delay_ns", "cable_m"]


def buffer_needs(
    schemes: str | Scheme | Iterable[str | Scheme] | None = None,
    *,
    topo: Topology | None = None,
    rates: Sequence[str | float] = RATES,
    cables: Sequence[str | float] = CABLES,
    host: HostConfig | None = None,
) -> pl.DataFrame:
    """What a switch's port needs of the buffer for what comes in by one link, as lossless schemes set it up themselves.

    schemes  one or several; None: every scheme of the package that says what it needs
    topo     the network whose ports are asked for, a row for each kind; None: a port between two switches, a row for each of
             `rates` and `cables`, lengths or delays such as "40m" or "1us"
    host     sizes of packets; None: the default ones

    Columns: scheme, part (of the scheme, that says so), ports (how many are of this kind), rate_gbps (at which the neighbour
    sends), delay_ns, cable_m (a cable of this delay); of one class, that is a priority, channel or queue, lossless_bytes (never
    to lose a packet) and full_rate_bytes (nor to let the link idle, in which lossless_bytes are contained); flows (so many are
    needed for that, each in a class of its own); classes (of the port, each of which may need so much).

    SpecError: none of a scheme's parts says what it needs, or a rate, length or scheme is refused.
    """
    if schemes is None:
        schemes = saying()
    given = [schemes] if isinstance(schemes, str | Scheme) else list(elements(schemes, "schemes", 'such as ps.scheme("NAME")'))
    made = [parse(scheme) if isinstance(scheme, str) else scheme for scheme in given]
    rates, cables = list(elements(rates, "rates", 'such as ["400Gbps"]')), list(elements(cables, "cables", 'such as ["40m"]'))
    if topo is not None:
        instance(topo, Topology, "topo", "such as ps.leaf_spine()")
    if host is not None:
        instance(host, HostConfig, "host", "such as ps.HostConfig(mtu=4096)")
    found = []
    for scheme in made:
        instance(scheme, Scheme, "schemes", 'such as ps.scheme("NAME")')
        if not parts_saying(scheme):
            raise SpecError(
                f"no part of {scheme.name} says what buffer it needs", path="schemes", remedy=f"name one of {', '.join(saying())}"
            )
        settings = Settings(topo or pair(RATES[0], CABLES[0]), Flows.none(), scheme, host=host or HostConfig())
        found.append(of_ports(settings) if topo is not None else by_cable(settings, rates, cables))
    return pl.concat(found) if found else pl.DataFrame(schema=SCHEMA)


def says(declarations: Declarations) -> bool:
    """Whether a scheme says what buffer a port needs."""
    found = [field.record for field in declarations.state["port"].fields if field.name == BUFFER and field.length == "1"]
    return any(record and {field.name for field in record.fields}.issuperset(FIELDS) for record in found)


def saying() -> list[str]:
    """The schemes of the package that do."""
    return [name for name, found in available().items() if says(found)]


def parts_saying(scheme: Scheme) -> list[str]:
    return [part for part in scheme.parts if says(declared(part))]


def of_ports(settings: Settings) -> pl.DataFrame:
    """Each kind of port of the switches of a run: at the highest rate that its link has."""
    topo = settings.topo
    rows = _rows(settings, compose(settings), range(len(topo.links)))
    counted = pl.DataFrame(list(rows), schema=SCHEMA, orient="row")
    return (
        counted.group_by([name for name in SCHEMA if name != "ports"], maintain_order=True)
        .agg(pl.len().alias("ports").cast(pl.Int64))
        .select(list(SCHEMA))
        .sort(LINK)
    )


def by_cable(settings: Settings, rates: Sequence[str | float] = RATES, cables: Sequence[str | float] = CABLES) -> pl.DataFrame:
    """A port between two switches, for each rate and length, under the scheme and hosts of a run."""
    everywhere = replace(settings.scheme, plain_switches=())
    runs = [Settings(pair(rate, cable), Flows.none(), everywhere, host=settings.host) for rate in rates for cable in cables]
    composition = compose(runs[0]) if runs else None
    rows = [row for run in runs if composition for row in _rows(run, composition, run.topo.core_links[:1].tolist(), "a")]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def pair(rate: str | float, cable: str | float) -> Topology:
    """Two ToRs and a spine, with a host each, and no limit to buffers."""
    return leaf_spine(hosts=2, tors=2, spines=1, rate=rate, delay=cable, buffer=0)


def _rows(settings: Settings, composition: Composition, links: Iterable[int], ends: str = "ab") -> Iterator[tuple[Any, ...]]:
    """A row for each end of these links that is a port of a switch with the scheme."""
    sim, table = at_all_rates(settings, composition), settings.topo.links
    for part in (part.name for part in composition.parts if says(part.declared)):
        for link in links:
            for end in ends:
                state = sim.scheme_state(part, int(table[end][link]), int(table[f"port_{end}"][link]))
                if state:
                    needs = [int(state[BUFFER][0][field]) for field in FIELDS]
                    delay = float(table["delay_ps"][link])
                    gbps = bits_per_second(float(table["ps_per_byte"][link])) / 1e9
                    metres = delay * SPEED_OF_LIGHT / PS_PER_S
                    yield settings.scheme.name, part, 1, gbps, delay / 1000, metres, *needs
