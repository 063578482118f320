"""Random networks and traffic for the laws, and how to look at the results."""

import dataclasses
from collections import Counter

import numpy as np
import polars as pl
from hypothesis import strategies as st

from penstock_net.composition import available, parse, scheme_type
from penstock_net.results.run import Run
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import Topology, clos, dumbbell, fat_tree, leaf_spine, make_links, parking_lot, rails, star
from penstock_net.workload import Flows, flow_list

__all__ = [
    "BFC",
    "DQA",
    "FIFO",
    "PFC",
    "SHAPES",
    "HostConfig",
    "Measure",
    "Run",
    "Topology",
    "available",
    "cutting",
    "fitting",
    "flow_list",
    "frames",
    "headroom_buffer",
    "hosts_under",
    "incasts",
    "make_links",
    "networks",
    "one_dst",
    "reasons",
    "same",
    "simulate",
    "trace",
    "unbounded",
]

BFC, DQA, FIFO, PFC = (scheme_type(name) for name in ("bfc", "dqa", "fifo", "pfc"))
QUIET = Measure(sample="0s", flows=False)

SHAPES = {
    "leaf_spine": lambda: leaf_spine(hosts=16, tors=4, spines=4),
    "oversubscribed": lambda: leaf_spine(hosts=16, tors=2, spines=2, uplink_rate="400Gbps", uplink_delay="3us"),
    "fat_tree": lambda: fat_tree(k=4, uplink_rate="200Gbps"),
    "clos": lambda: clos(pods=3, tors=2, aggs=2, cores=4, hosts_per_tor=3),
    "dumbbell": lambda: dumbbell(left=3, right=3, bottleneck_rate="10Gbps"),
    "star": lambda: star(hosts=130, delay="50ns"),
    "parking_lot": lambda: parking_lot(hops=4, cross=2, bottleneck_rate="40Gbps"),
    "rails": lambda: rails(servers=4, gpus=2, segment=2, spines=2, ports=2, uplink_rate="200Gbps"),
}


def hosts_under(scheme, **values: str) -> HostConfig:
    """Hosts with these values, but for those that the scheme's preset says otherwise."""
    return HostConfig(**{key: value for key, value in values.items() if key not in parse(scheme).host})


def unbounded(topo: Topology) -> Topology:
    """The same network, its switches without a limit to their buffers."""
    return dataclasses.replace(topo, buffer_bytes=np.zeros(topo.switches, dtype=np.int64))


@st.composite
def networks(
    draw, hosts=(2, 8), switches=(1, 6), ps_per_byte=(1, 4000), delay_ps=(10_000, 20_000_000), alike=False, whole=False, nics=3
):
    """A connected random graph of switches, some joined by links in parallel, with hosts here and there, of up to `nics` links
    each; any delay and any ps per byte (`whole`: no fractions)."""
    host_count, switch_count = draw(st.integers(*hosts)), draw(st.integers(*switches))
    pairs = [(draw(st.integers(0, new - 1)), new) for new in range(1, switch_count)]  # a tree, and some more links
    if switch_count > 1:
        more = st.tuples(st.integers(0, switch_count - 1), st.integers(0, switch_count - 1))
        pairs += [(min(p), max(p)) for p in draw(st.lists(more, max_size=8)) if p[0] != p[1]]
    several = nics > 1 and draw(st.booleans())  # half of the networks are of hosts with one link
    homes = st.lists(st.integers(0, switch_count - 1), min_size=1, max_size=nics if several else 1)
    ends = [(host, host_count + switch) for host in range(host_count) for switch in draw(homes)]
    ends += [(host_count + a, host_count + b) for a, b in sorted(pairs)]
    count = 1 if alike else len(ends)
    rate = st.integers(*ps_per_byte)
    if not whole:
        rate |= st.integers(*(round(8e12 / end) for end in reversed(ps_per_byte))).map(lambda bps: 8e12 / bps)
    rates = draw(st.lists(rate, min_size=count, max_size=count))
    delays = draw(st.lists(st.integers(*delay_ps), min_size=count, max_size=count))
    a, b = zip(*ends)
    return Topology(
        kind="file",
        hosts=host_count,
        switches=switch_count,
        params={},
        links=make_links(a, b, rates * (len(ends) // count), delays * (len(ends) // count)),
        buffer_bytes=np.zeros(switch_count, dtype=np.int64),
        names=tuple([f"h{i}" for i in range(host_count)] + [f"s{i}" for i in range(switch_count)]),
        tier=np.repeat([0, 1], [host_count, switch_count]),
    )


@st.composite
def cutting(draw, topo: Topology):
    """The same network; in half of the cases some of its switches cut through."""
    some = draw(st.lists(st.sampled_from(topo.names[topo.hosts :]), max_size=topo.switches)) if draw(st.booleans()) else []
    return topo.with_cut_through(some, draw(st.sampled_from([64, 1, 200, 2000])))


def fitting(topo: Topology, names: list[str]) -> list[str]:
    """The schemes that the hosts' links allow."""
    return [name for name in names if not (len(topo.several) and available()[name].fabric.get("one_link"))]


def headroom_buffer(
    topo: Topology, spare: int, host: HostConfig | None = None, headroom: float = 3.0, priorities: int = 1, lossless: int = 1
) -> Topology:
    """Buffers that hold PFC's headroom and `spare` bytes more: the least that is accepted when spare is 0.

    lossless: how many of the priorities have headroom.
    """
    frame = (host or HostConfig()).mtu + (host or HostConfig()).header
    bdp = topo.links["delay_ps"] // topo.links["ps_per_byte"] + 1
    room = np.maximum(np.floor(headroom * bdp), 2 * bdp + 3 * (frame + 64) + 64 * (priorities - 1)).astype(np.int64) * lossless
    spare += frame + 64 if priorities > 1 else 0
    need = np.zeros(topo.nodes, dtype=np.int64)
    np.add.at(need, topo.links["a"], room)
    np.add.at(need, topo.links["b"], room)
    return dataclasses.replace(topo, buffer_bytes=need[topo.hosts :] + frame + spare)


@st.composite
def incasts(draw, topo: Topology, dst: int | None, most_bytes=60_000, flows=(2, 30)):
    """Random flows within a short time, all to `dst` (None: to anywhere)."""
    items = []
    for _ in range(draw(st.integers(*flows))):
        to = draw(st.integers(0, topo.hosts - 1)) if dst is None else dst
        src = draw(st.integers(0, topo.hosts - 1).filter(lambda h, to=to: h != to))
        items.append((src, to, draw(st.integers(1, most_bytes)), f"{draw(st.integers(0, 5000))}ns"))
    return flow_list(topo, items)


def one_dst(topo: Topology, size: int, start: str = "0s") -> Flows:
    """Every other host sends `size` bytes to host 0 at once."""
    return flow_list(topo, [(host, 0, size, start) for host in range(1, topo.hosts)])


def reasons(run: Run) -> Counter:
    """Drops by reason."""
    out: Counter = Counter()
    for text in run.ports["drop_reason"].drop_nulls():
        for part in text.split(", "):
            name, count = part.rsplit(": ", 1)
            out[name] += int(count)
    return out


def frames(run: Run) -> dict[str, pl.DataFrame]:
    """All frames of a run."""
    return run.frames


def same(a: Run, b: Run, what: str) -> None:
    """Both runs hold the same bits."""
    assert a.frames.keys() == b.frames.keys(), f"{what}: frames {list(a.frames)} and {list(b.frames)}"
    for name, frame in a.frames.items():
        other = b.frames[name]
        if frame.equals(other):
            continue
        assert frame.height == other.height, f"{what}: {name} has {frame.height} rows and {other.height}"
        for column in frame.columns:
            differ = np.flatnonzero((frame[column].ne_missing(other[column])).to_numpy())
            assert not len(differ), (
                f"{what}: {name}.{column} differs in {len(differ)} rows, first row {differ[0]}: "
                f"{frame.row(int(differ[0]), named=True)} and {other.row(int(differ[0]), named=True)}"
            )
    for key in ("packet_hops", "drops", "retransmissions", "max_buffer_bytes", "end_ns", "flows_finished"):
        assert a.summary[key] == b.summary[key], f"{what}: summary {key}: {a.summary[key]} and {b.summary[key]}"


def trace(run: Run, event: str = "dequeue", kind: int = 0) -> pl.DataFrame:
    """Rows of the packet trace at switches."""
    return run.frame("packets").filter((pl.col("event") == event) & (pl.col("kind") == kind))
