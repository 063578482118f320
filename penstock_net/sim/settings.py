"""The settings of one run, checked: everything that its results depend on, and the number of threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock_net.composition import Scheme
from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_SEED, below_one, one_of, whole
from penstock_net.sim.config import LINK_CLOCKS, MAX_FRAME, HostConfig, InNetwork, Measure
from penstock_net.sim.paths import read_paths
from penstock_net.sim.reductions import Reductions, reductions
from penstock_net.topology import turns
from penstock_net.topology.wiring import switches_named
from penstock_net.units import format_time

if TYPE_CHECKING:
    from penstock_net.topology import Topology
    from penstock_net.workload.flows import Flows

MAX_END_PS = 2 * 10**15  # an event's key holds 51 bits of time, 2251 s
DRAIN_PS = 10**12
MAX_SAMPLES = 2**25  # of a switch: about a GB if it is busy all the time
SMALLEST_FRAME = 64  # B
LEAST_SAMPLE_PS = 1000


@dataclass(frozen=True)
class Settings:
    """The settings of one run.  SpecError: it cannot be simulated.

    seed         seed of ECMP, marking and loss
    threads      at most one per node is used
    duration_ps  how long flows arrive
    arrivals_ps  end of the arrivals for the measurement window; None: it is not known, and the window is the whole run
    drain        run on until every flow has finished, at most until max_time_ps (default: one second after duration_ps)
    host         as given, with what the scheme sets of it; SpecError if both are written and differ
    control_loss probability that a control frame is lost on a link, in addition to the link's own loss
    in_network   of collectives that switches reduce
    paths        a file or frame of paths (docs/formats.md), and then what it says; None: none are given
    link_clock   of LINK_CLOCKS
    """

    topo: Topology
    flows: Flows
    scheme: Scheme
    seed: int = 1
    threads: int = 1
    duration_ps: int = 1
    drain: bool = True
    max_time_ps: int | None = None
    measure: Measure = field(default_factory=Measure)
    host: HostConfig = field(default_factory=HostConfig)
    control_loss: float = 0.0
    arrivals_ps: int | None = None
    in_network: InNetwork = field(default_factory=InNetwork)
    paths: Any = None
    link_clock: str = "ps"

    def __post_init__(self) -> None:
        threads = whole(self.threads, "threads", 1)
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0, MAX_SEED))
        below_one(self.control_loss, "control_loss")
        one_of(self.link_clock, "link_clock", LINK_CLOCKS)
        self.flows.check(self.topo)
        object.__setattr__(self, "threads", min(threads, self.topo.nodes))
        object.__setattr__(self, "host", self.host.under(self.scheme.name, self.scheme.host))
        if self.paths is not None:
            object.__setattr__(self, "paths", read_paths(self.paths, self.topo, self.flows))
        self._check_numbers()
        _ = self.window_ps, self.reductions

    @property
    def end_ps(self) -> int:
        """The latest time at which the run ends, ps."""
        return (self.max_time_ps or self.duration_ps + DRAIN_PS) if self.drain else self.duration_ps

    @property
    def window_ps(self) -> tuple[int, int | None]:
        """Start and end of the measurement window, ps; None: it ends with the run.  SpecError: it would be empty."""
        measure, start_ps = self.measure, self.flows.start_ps
        if measure.bounds_ps:
            if measure.bounds_ps[0] >= self.end_ps:
                rule = f"begins after the run, which ends at {format_time(self.end_ps)} at the latest"
                raise SpecError(rule, path="measure.window", value=measure.window)
            return measure.bounds_ps
        at_once = len(start_ps) == 0 or start_ps[0] == start_ps[-1] or self.flows.after is not None
        end = self.arrivals_ps
        if measure.window == "run" or at_once or end is None or start_ps[0] >= end:
            return measure.warmup_ps, None
        start = max(int(start_ps[0]), measure.warmup_ps)
        if start >= end:
            rule = f"no flow arrives after it: arrivals end at {format_time(end)}"
            raise SpecError(rule, path="measure.warmup", value=measure.warmup)
        return start, end

    @property
    def pauses_may_be_lost(self) -> bool:
        """Whether links lose frames or fail, so that a lossless scheme may drop packets; links that are dark lose none."""
        fails = any(change.fails for change in self.topo.changes)
        return bool(self.control_loss or fails or self.topo.links["loss"].any())

    @cached_property
    def reductions(self) -> Reductions | None:
        """The trees of the collectives that switches reduce; None: there are none.  SpecError: see `reductions`."""
        return reductions(self)

    def alone_ps(self, sent: slice | np.ndarray, numbers: np.ndarray, sizes: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What flows take alone in the network until they are received, and acknowledged, ps.

        sent     which flows; numbers: those that decide their paths; sizes: bytes of each, in place of its own
        """
        flows, host = self.flows, self.host
        ends = flows.src[sent], flows.dst[sent]
        if self.in_turn:
            sizes = turns.busiest(sizes, host.mtu, turns.ports(self.topo.routes(), *ends))
        alone = numbers, *ends, sizes, self.seed, host.mtu, host.header, host.ack
        received, acked = self.topo.ideal_times_ps(*alone, self.paths, self.link_clock)
        return received, acked + host.ack_delay_ps if host.ack_delay_ps else acked

    @property
    def in_turn(self) -> bool:
        """Whether packets of a flow take turns of the ports of its host."""
        return self.host.ports == "packet" and len(self.topo.several) > 0

    @property
    def by_rail(self) -> bool:
        """Whether flows of connections leave by the ports of their numbers."""
        return self.host.ports == "rail" and len(self.topo.several) > 0 and self.flows.connection is not None

    @cached_property
    def plain_switches(self) -> np.ndarray:
        """For each node, whether it is a switch without the scheme.  SpecError: there is no switch of such a name."""
        topo = self.topo
        found = np.zeros(topo.nodes, dtype=bool)
        for pattern in self.scheme.plain_switches:
            found[topo.hosts :] |= switches_named(pattern, topo.names[topo.hosts :], "scheme.plain_switches")
        return found

    def _check_numbers(self) -> None:
        """Raise SpecError for values outside the range of the core's integers."""
        links = self.topo.links
        if self.end_ps > MAX_END_PS:
            raise SpecError(
                f"simulated time = {format_time(self.end_ps)}: at most {format_time(MAX_END_PS)} are possible",
                remedy="let flows start earlier, or set a lower max_time",
            )
        for path, value, ps in (
            ("measure.sample", self.measure.sample, self.measure.sample_ps),
            ("host.rto", self.host.rto, self.host.rto_ps),
        ):
            if ps > MAX_END_PS // 10:  # so that the event's time has room, too
                raise SpecError(f"must be at most {format_time(MAX_END_PS // 10)}", path=path, value=value)
        self._check_sample(float(links["ps_per_byte"].min()))
        hop = int((links["delay_ps"] + MAX_FRAME * links["ps_per_byte"]).max())
        if hop > MAX_END_PS // 10:
            raise SpecError(
                f"a link takes {format_time(hop)} for a packet of {MAX_FRAME} B",
                path="topology",
                remedy=f"at most {format_time(MAX_END_PS // 10)} are possible",
            )

    def _check_sample(self, ps_per_byte: float) -> None:
        """SpecError for samples that are closer than changes of a queue, or too many to be kept of a switch that is busy.

        ps_per_byte: of the fastest link
        """
        sample, period = self.measure.sample, self.measure.sample_ps
        least = min(LEAST_SAMPLE_PS, int(SMALLEST_FRAME * ps_per_byte))
        if 0 < period < least:
            rule = f"must be at least {format_time(least)}: 1ns, or less if {SMALLEST_FRAME} B take less on the fastest link"
            raise SpecError(rule, path="measure.sample", value=sample, remedy="every change of a queue: [measure] packets = true")
        longest = int(self.flows.bytes.max(initial=0) * ps_per_byte)  # the largest flow alone, on the fastest link
        lasts = min(max(self.duration_ps, longest), self.end_ps)
        if period and lasts // period > MAX_SAMPLES:
            rule = f"{lasts // period} samples of a switch in {format_time(lasts)} are more than {MAX_SAMPLES}"
            raise SpecError(
                rule, path="measure.sample", value=sample, remedy=f"sample less often, such as {format_time(lasts // 1000)}"
            )
