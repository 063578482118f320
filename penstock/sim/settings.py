"""The settings of one run, checked: everything that its results depend on, and the number of threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from penstock.composition import Scheme
from penstock.errors import SpecError, nearest
from penstock.inputs import MAX_SEED, below_one, whole
from penstock.sim.config import MAX_FRAME, HostConfig, Measure
from penstock.units import format_time

if TYPE_CHECKING:
    from penstock.topology import Topology
    from penstock.workload.flows import Flows

MAX_END_PS = 2 * 10**15  # an event's key holds 51 bits of time, 2251 s
DRAIN_PS = 10**12
MAX_SAMPLES = 2**25  # about a GB


@dataclass(frozen=True)
class Settings:
    """The settings of one run.  SpecError: it cannot be simulated.

    seed         seed of ECMP, marking and loss
    threads      at most one per node is used
    duration_ps  how long flows arrive
    arrivals_ps  end of the arrivals for the measurement window; None: it is not known, and the window is the whole run
    drain        run on until every flow has finished, at most until max_time_ps (default: one second after duration_ps)
    host         as given, with what the scheme sets of it
    control_loss probability that a control frame is lost on a link, in addition to the link's own loss
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

    def __post_init__(self) -> None:
        threads = whole(self.threads, "threads", 1)
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0, MAX_SEED))
        below_one(self.control_loss, "control_loss")
        self.flows.check(self.topo)
        object.__setattr__(self, "threads", min(threads, self.topo.nodes))
        object.__setattr__(self, "host", HostConfig(**{**vars(self.host), **self.scheme.host}))
        self._check_numbers()
        _ = self.window_ps

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
        """Whether links lose frames or fail, so that a lossless scheme may drop packets."""
        fails = any(change.up is not None for change in self.topo.changes)
        return bool(self.control_loss or fails or self.topo.links["loss"].any())

    @cached_property
    def plain_switches(self) -> np.ndarray:
        """Whether each node is a switch without schemes.  SpecError: a name is that of no switch."""
        topo = self.topo
        found = np.zeros(topo.nodes, dtype=bool)
        for pattern in self.scheme.plain_switches:
            named = [fnmatchcase(name, pattern) for name in topo.names[topo.hosts :]]
            if not any(named):
                remedy = f"nearest: {nearest(pattern, topo.names[topo.hosts :])}; a pattern such as spine* is possible"
                raise SpecError("no switch has this name", path="scheme.plain_switches", value=pattern, remedy=remedy)
            found[topo.hosts :] |= named
        return found

    def _check_numbers(self) -> None:
        """SpecError for values outside the ranges of the core's integers."""
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
        samples = self.duration_ps // (self.measure.sample_ps or MAX_END_PS) * self.topo.switches
        if samples > MAX_SAMPLES:
            rule = f"{samples} samples of {self.topo.switches} switches are more than {MAX_SAMPLES}"
            raise SpecError(rule, path="measure.sample", value=self.measure.sample, remedy="sample less often")
        hop = int((links["delay_ps"] + MAX_FRAME * links["ps_per_byte"]).max())
        if hop > MAX_END_PS // 10:
            raise SpecError(
                f"a link takes {format_time(hop)} for a packet of {MAX_FRAME} B",
                path="topology",
                remedy=f"at most {format_time(MAX_END_PS // 10)} are possible",
            )
