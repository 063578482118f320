"""Traffic drawn at random: flows between random hosts, and incasts.

A new generator is a function here, and its name in `__all__`; penstock_net.workload reads that list.

What load means is said in penstock_net.workload.flows; size distributions in penstock_net.workload.distributions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_TIME_PS, boolean, one_of, positive, real, time_ps, whole
from penstock_net.scratch import Column, filled
from penstock_net.topology.graph import check_topology
from penstock_net.units import PS_PER_S, format_time, parse_size
from penstock_net.workload.distributions import SizeDistribution
from penstock_net.workload.flows import PRIORITIES, Flows, class_name, host_numbers
from penstock_net.workload.streams import stream

if TYPE_CHECKING:
    from penstock_net.topology import Topology

__all__ = ["incast", "poisson"]

LOAD_ON = ("core", "host")
PAIRS = ("any", "inter_rack")

_CHUNK = 1 << 16  # flows drawn at a time; the result does not depend on it
_MANY_FLOWS = 2**28  # 7 GB of columns
_MAX_FLOWS = 2**31 - 1
_MANY_EVENTS = 2**20  # several seconds, as each is drawn on its own
_PACKETS = re.compile(r"\s*(\d{1,13})\s*\.\.\s*(\d{1,13})\s*x\s*(\d.*)", re.ASCII)
MAX_SIGMA = 5  # beyond, hardly any gap comes near the mean, and the load is anything but what was asked for
_GRID = 16  # gaps are rounded to 1/16 ps, so that the last bit of a machine's exp() does not show


def poisson(
    topo: Topology,
    *,
    sizes: str | SizeDistribution = "google",
    load: float = 0.6,
    load_on: str = "core",
    arrivals: str = "exponential",
    sigma: float | None = None,
    duration: str = "5ms",
    seed: int = 1,
    start: str = "0s",
    class_name: str = "poisson",
    priority: int = 0,
    pairs: str = "any",
    hosts: Any = None,
    exclude: Any = None,
    interpolate: bool = True,
    round_up: int | None = None,
    force: bool = False,
    index: int = 0,
) -> Flows:
    """Flows of random size between random hosts: one arrival process for the fabric, in [start, start + duration).

    sizes      a bundled distribution, a CSV file or a SizeDistribution; `interpolate` and `round_up` as there
    load       of the core or of the hosts (`load_on`); sets the rate lambda = load * capacity / (8 * exact mean size)
    arrivals   gaps of mean 1/lambda: "exponential", or "lognormal" with `sigma` (2.0) and mu = -sigma**2 / 2 - ln(lambda)
    pairs      "any": src uniform, dst uniform over the others; "inter_rack": dst uniform over the hosts of other racks
    hosts      None: all; a number: the first so many; a list. The load stays relative to the whole fabric
    exclude    hosts whose flows are removed after all are drawn: other flows, and the load that is referred to, do not change
    seed, index   key the random streams: sources of different index are independent
    force      admits load > 1 and more than 268 million flows

    SpecError names whatever is out of range.
    """
    check_topology(topo)
    dist = SizeDistribution.load(sizes, interpolate=interpolate, round_up=round_up)
    window = _window(start, duration)
    capacity = topo.capacity_bps(one_of(load_on, "load_on", LOAD_ON))
    rate = _checked_load(load, force) * capacity / (8 * dist.mean())
    gap_ps = PS_PER_S / rate
    _check_count(window[1] / gap_ps, force)
    _check_some(gap_ps, window[1], load)
    one_of(arrivals, "arrivals", ("exponential", "lognormal"))
    if sigma is not None and arrivals != "lognormal":
        raise SpecError(
            "exponential gaps have none", path="sigma", value=sigma, remedy='leave it out, or give arrivals = "lognormal"'
        )
    wide = real(positive(2.0 if sigma is None else sigma, "sigma"), "sigma", high=MAX_SIGMA) if arrivals == "lognormal" else 0.0
    draw_pairs = _Pairs(topo, host_numbers(topo, hosts), one_of(pairs, "pairs", PAIRS))
    left_out = np.zeros(topo.hosts, dtype=bool)
    if exclude is not None:
        left_out[host_numbers(topo, exclude, "exclude", least=0)] = True
    rng = {purpose: stream(seed, index, purpose) for purpose in ("gaps", "sizes", "src", "dst")}
    columns = {"start": Column(np.int64), "src": Column(np.int32), "dst": Column(np.int32), "bytes": Column(np.int64)}
    for times in _arrivals(rng["gaps"], gap_ps, wide, window[1]):
        src, dst = draw_pairs(rng["src"], rng["dst"], len(times))
        drawn = {"start": times + window[0], "src": src, "dst": dst, "bytes": dist.sample(rng["sizes"], len(times))}
        keep = slice(None) if exclude is None else ~(left_out[src] | left_out[dst])
        for key, column in drawn.items():
            columns[key].append(column[keep])
    nominal = {
        "kind": "poisson",
        "class": class_name,
        "sizes": dist.name,
        "mean_bytes": dist.mean(),
        "load": float(load),
        "load_on": load_on,
        "arrivals": arrivals,
        "sigma": wide or None,
        "pairs": pairs,
        "exclude": None if exclude is None else np.flatnonzero(left_out).tolist(),
        "flows_per_s": rate,
        "start_ps": window[0],
        "duration_ps": window[1],
        "seed": seed,
        "index": index,
    }
    start_ps, src, dst, size = (columns.pop(key).array() for key in list(columns))
    return _one_class(start_ps, src, dst, size, class_name, priority, nominal)


def incast(
    topo: Topology,
    *,
    fan_in: int = 100,
    total: str | int | None = None,
    size: str | int | None = None,
    every: str | None = None,
    load: float | None = None,
    load_on: str = "core",
    duration: str = "5ms",
    seed: int = 1,
    start: str = "0s",
    arrivals: str = "periodic",
    replace: bool = False,
    jitter: str = "0s",
    receivers: Any = None,
    order: str = "random",
    hosts: Any = None,
    pairs: str = "any",
    class_name: str = "incast",
    priority: int = 0,
    force: bool = False,
    index: int = 0,
) -> Flows:
    """Events at which `fan_in` hosts send to one host at the same instant, in [start, start + duration).

    total | size   bytes of an event (default "20MB"; shared out evenly, the first senders a byte more) or of each flow;
                   size = "30..40 x 1460B": each flow has 30 to 40 packets of 1460 B, uniformly
    every | load   time between events (default "500us"), or the load they add: of the core or the hosts (`load_on`), or
                   of the link of a receiver ("receiver"), as if there were no other receivers
    arrivals       "periodic": the first event at `start`; "exponential": a Poisson process of that mean gap
    replace        draw senders with replacement, so that one may send several flows (the BFC paper's simulator);
                   without it all senders differ, unless fan_in exceeds the hosts there are: then they are drawn
                   with replacement, and the run warns of it
    jitter         each flow starts up to this much later, uniformly
    receivers      hosts that the destination is one of; None: all of `hosts`
    order          of the receivers: "random", uniformly; "in_turn": the first of them, the second ..., and round again
    hosts          hosts that send; None: all
    pairs          "any", or "inter_rack": only hosts of other racks than the receiver's send to it

    The BFC paper's: the defaults with replace=True. HPCC's: fan_in=60, size="500KB", load=0.02, load_on="host",
    arrivals="exponential". Floodgate's: fan_in=720, size="30..40 x 1460B", load=0.5, load_on="receiver", replace=True,
    jitter="99ns", receivers=[0, 16, ...], order="in_turn", pairs="inter_rack". SpecError names whatever is out of range.
    """
    senders = host_numbers(topo, hosts)
    targets = senders if receivers is None else host_numbers(topo, receivers, "receivers", least=1)
    fan_in = whole(fan_in, "fan_in", 1, 10**6)
    sizes = _EventSizes(fan_in, total, size)
    start_ps, duration_ps = _window(start, duration)
    gap_ps = _event_gap(topo, targets, sizes.event_bytes, every, load, load_on, force)
    _check_count(duration_ps / gap_ps * fan_in, force)
    if duration_ps / gap_ps > _MANY_EVENTS and not force:
        path, value = ("every", every) if load is None else ("load", load)
        rule = f"about {duration_ps / gap_ps:.3g} events would happen, more than {_MANY_EVENTS}"
        raise SpecError(
            rule, path=path, value=value, remedy="let more time pass between them, or give --force (in Python: force=True)"
        )
    one_of(arrivals, "arrivals", ("periodic", "exponential"))
    events = (
        _periodic(gap_ps, duration_ps)
        if arrivals == "periodic"
        else np.concatenate(list(_arrivals(stream(seed, index, "incast gaps"), gap_ps, 0.0, duration_ps)))
    )
    if one_of(order, "order", ("random", "in_turn")) == "in_turn":
        to = targets[np.arange(len(events)) % len(targets)]
    else:
        to = targets[stream(seed, index, "incast dst").integers(0, len(targets), len(events))]
    draw_senders = _Senders(topo, senders, targets, one_of(pairs, "pairs", PAIRS))
    src = draw_senders(stream(seed, index, "incast src"), to, fan_in, boolean(replace, "replace"))
    fewest = draw_senders.fewest(to)
    times = np.repeat(events + start_ps, fan_in)
    jitter_ps = time_ps(jitter, "jitter")
    if jitter_ps:
        times += stream(seed, index, "incast jitter").integers(0, jitter_ps, len(times), endpoint=True)
    nominal = {
        "kind": "incast",
        "class": class_name,
        "fan_in": fan_in,
        "event_bytes": sizes.event_bytes,
        "size": size,
        "every_ps": gap_ps,
        "load": load,
        "load_on": None if load is None else load_on,
        "arrivals": arrivals,
        "replace": replace,
        "order": order,
        "pairs": pairs,
        "events": len(events),
        "start_ps": start_ps,
        "duration_ps": duration_ps,
        "seed": seed,
        "index": index,
        **({"senders": fewest} if fewest < fan_in and not replace else {}),
    }
    size_of = sizes.draw(stream(seed, index, "incast sizes"), len(events))
    return _one_class(times, src.ravel(), np.repeat(to, fan_in), size_of, class_name, priority, nominal)


# -- parts of the two -------------------------------------------------------------------------------------------------


def _window(start: str, duration: str) -> tuple[int, int]:
    start_ps, duration_ps = time_ps(start, "start"), time_ps(duration, "duration", positive=True)
    if start_ps + duration_ps > MAX_TIME_PS:
        raise SpecError(
            f"flows would start after {format_time(MAX_TIME_PS)}", path="duration", value=duration, remedy="make it shorter"
        )
    return start_ps, duration_ps


def _checked_load(load: Any, force: bool) -> float:
    load = positive(load, "load")
    if load > 1 and not force:
        raise SpecError(
            "more than the links can carry",
            path="load",
            value=load,
            remedy="use a load up to 1, or give --force (in Python: force=True)",
        )
    return load


def _check_count(expected: float, force: bool) -> None:
    if expected > _MAX_FLOWS or (expected > _MANY_FLOWS and not force):
        or_force = "" if expected > _MAX_FLOWS else ", or give --force (in Python: force=True; 26 B of memory per flow)"
        raise SpecError(
            f"about {expected:.3g} flows would start", path="duration", remedy=f"shorten it, lower the load{or_force}"
        )


def _check_some(gap_ps: float, duration_ps: int, load: float) -> None:
    if gap_ps > duration_ps:
        rule = f"one flow per {format_time(gap_ps)} on average, but flows arrive for {format_time(duration_ps)} only"
        raise SpecError(rule, path="load", value=load, remedy="raise the load or the duration")


def _arrivals(rng: np.random.Generator, gap_ps: float, sigma: float, duration_ps: int) -> Iterator[np.ndarray]:
    """Chunks of arrival times in [0, duration_ps), int64: a renewal process that starts at 0."""
    if gap_ps < 1:
        raise SpecError(
            f"a flow every {gap_ps:.3g} ps is more than the clock can tell apart", path="load", remedy="lower the load"
        )
    now = 0.0
    while True:
        if sigma:
            gaps = np.exp(sigma * rng.standard_normal(_CHUNK) + (math.log(gap_ps) - sigma**2 / 2))
        else:
            gaps = rng.standard_exponential(_CHUNK) * gap_ps
        times = now + np.cumsum(np.rint(gaps * _GRID) / _GRID)
        now = float(times[-1])
        if now >= duration_ps:
            yield times[: np.searchsorted(times, duration_ps)].astype(np.int64)
            return
        yield times.astype(np.int64)


class _Pairs:
    """Draws (src, dst): dst is uniform over the hosts that are not in the source's block (itself, or its rack)."""

    def __init__(self, topo: Topology, hosts: np.ndarray, pairs: str) -> None:
        block = topo.host_switches[hosts] if pairs == "inter_rack" else np.arange(len(hosts))
        order = np.argsort(block, kind="stable")
        self.hosts = hosts[order]
        _, first, member, size = np.unique(block[order], return_index=True, return_inverse=True, return_counts=True)
        if len(size) < 2:
            raise SpecError("all hosts are in one rack", path="pairs", value=pairs, remedy='use pairs = "any"')
        self.first, self.size = first[member].astype(np.int32), size[member].astype(np.int32)

    def __call__(self, src_rng: np.random.Generator, dst_rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        src = src_rng.integers(0, len(self.hosts), n, dtype=np.int32)
        size = self.size[src]
        dst = (dst_rng.random(n) * (len(self.hosts) - size)).astype(np.int32)
        dst += np.where(dst >= self.first[src], size, 0).astype(np.int32)
        return self.hosts[src], self.hosts[dst]


def _one_class(
    start_ps: np.ndarray, src: np.ndarray, dst: np.ndarray, size: np.ndarray, name: str, priority: int, nominal: dict[str, Any]
) -> Flows:
    priority = whole(priority, "priority", 0, PRIORITIES - 1)
    class_id, priorities = filled(len(src), 0, np.int8), filled(len(src), priority, np.int8)
    return Flows(start_ps, src, dst, size, class_id, priorities, (class_name(name),), None, [nominal])


class _EventSizes:
    """Bytes of the flows of an event: the same at every event, or drawn. `event_bytes` is what an event has on average."""

    def __init__(self, fan_in: int, total: str | int | None, size: str | int | None) -> None:
        if size is not None and total is not None:
            rule = f"total = {total} is given too"
            raise SpecError(rule, path="size", value=size, remedy="give one of them, bytes of an event or of each flow")
        self.fan_in, self.packets = fan_in, _packets(size)
        if self.packets:
            low, high, packet = self.packets
            twice = fan_in * (low + high) * packet
            self.event_bytes: int | float = twice / 2 if twice % 2 else twice // 2
        else:
            self.fixed = _fixed_sizes(fan_in, total, size)
            self.event_bytes = int(self.fixed.sum())

    def draw(self, rng: np.random.Generator, events: int) -> np.ndarray:
        """int64[events * fan_in]; takes nothing from rng where sizes are fixed."""
        if not self.packets:
            return np.tile(self.fixed, events)
        low, high, packet = self.packets
        return packet * rng.integers(low, high, events * self.fan_in, endpoint=True)


def _packets(size: Any) -> tuple[int, int, int] | None:
    """(fewest, most, bytes of each) of "30..40 x 1460B"; None of anything without dots."""
    if not isinstance(size, str) or ".." not in size:
        return None
    match = _PACKETS.fullmatch(size)
    if not match:
        raise SpecError("is not a range of whole packets", path="size", value=size, remedy='write it as "30..40 x 1460B"')
    low, high, packet = int(match[1]), int(match[2]), parse_size(match[3], "size", positive=True)
    if not 1 <= low <= high:
        raise SpecError(
            "must go from 1 or more packets up to as many or more",
            path="size",
            value=size,
            remedy=f'write "{max(min(low, high), 1)}..{max(low, high, 1)} x {match[3]}"',
        )
    if high * packet > MAX_FLOW_BYTES:
        raise SpecError(f"more than {MAX_FLOW_BYTES} B per flow", path="size", value=size, remedy="make it smaller")
    return low, high, packet


def _fixed_sizes(fan_in: int, total: str | int | None, size: str | int | None) -> np.ndarray:
    """Bytes of each sender's flow."""
    if size is not None:
        each = parse_size(size, "size", positive=True)
        sizes = np.full(fan_in, min(each, MAX_FLOW_BYTES + 1), dtype=np.int64)
    else:
        event = parse_size("20MB" if total is None else total, "total", positive=True)
        if event < fan_in:
            raise SpecError(
                "fewer bytes than senders", path="total", value=total, remedy=f"fan_in = {fan_in} needs at least {fan_in} B"
            )
        each, longer = divmod(min(event, fan_in * (MAX_FLOW_BYTES + 1)), fan_in)
        sizes = each + (np.arange(fan_in) < longer).astype(np.int64)
    if sizes[0] > MAX_FLOW_BYTES:
        raise SpecError(f"more than {MAX_FLOW_BYTES} B per flow", path="size", value=size or total, remedy="make it smaller")
    return sizes


def _event_gap(
    topo: Topology, targets: np.ndarray, event_bytes: float, every: str | None, load: float | None, load_on: str, force: bool
) -> float:
    """Mean time between events, ps."""
    one_of(load_on, "load_on", (*LOAD_ON, "receiver"))
    if load is None:
        return float(time_ps("500us" if every is None else every, "every", positive=True))
    if every is not None:
        raise SpecError(f"every = {every} is given too", path="load", value=load, remedy="give one of them; the other follows")
    capacity = _receiver_bps(topo, targets) if load_on == "receiver" else topo.capacity_bps(load_on)
    return 8 * event_bytes * PS_PER_S / (_checked_load(load, force) * capacity)


def _receiver_bps(topo: Topology, targets: np.ndarray) -> float:
    """The rate that the links of all receivers have."""
    rates = np.unique(topo.host_bps[targets])
    if len(rates) > 1:
        rule, remedy = "the links of the receivers have different rates", "name receivers of one rate"
        raise SpecError(rule, path="load_on", value="receiver", remedy=remedy)
    return float(rates[0])


def _periodic(gap_ps: float, duration_ps: int) -> np.ndarray:
    times = np.rint(np.arange(math.ceil(duration_ps / gap_ps)) * gap_ps).astype(np.int64)
    return times[times < duration_ps]


class _Senders:
    """Draws the hosts that send to an event's destination: those that are not in its block (itself, or its rack)."""

    def __init__(self, topo: Topology, senders: np.ndarray, targets: np.ndarray, pairs: str) -> None:
        self.block, self.senders = np.arange(topo.hosts), senders
        if pairs == "inter_rack":
            self.block = topo.host_switches
            self.senders = senders[np.argsort(self.block[senders], kind="stable")]
        found, first, size = np.unique(self.block[self.senders], return_index=True, return_counts=True)
        self.first, self.size = (np.zeros(int(self.block.max()) + 1, dtype=np.int64) for _ in range(2))
        self.first[found], self.size[found] = first, size
        alone = targets[self.size[self.block[targets]] == len(senders)]
        if len(alone):
            rule = f"all senders are in the rack of host {alone[0]}"
            raise SpecError(rule, path="pairs", value="inter_rack", remedy='use pairs = "any"')

    def fewest(self, to: np.ndarray) -> int:
        """The least number of hosts that may send to one of these destinations."""
        return len(self.senders) - int(self.size[self.block[to]].max(initial=0))

    def __call__(self, rng: np.random.Generator, to: np.ndarray, fan_in: int, replace: bool) -> np.ndarray:
        """int32[events, fan_in]"""
        result = np.empty((len(to), fan_in), dtype=np.int32)
        for event, block in enumerate(self.block[to]):
            first, size = self.first[block], self.size[block]
            others = len(self.senders) - size
            again = replace or fan_in > others
            drawn = rng.integers(0, others, fan_in) if again else rng.choice(others, fan_in, replace=False)
            result[event] = self.senders[np.where(drawn >= first, drawn + size, drawn)]
        return result
