"""What a run records and when (`Measure`), the parameters of hosts (`HostConfig`), and what switches reduce (`InNetwork`)."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from penstock_net.errors import SpecError, nearest, shown
from penstock_net.inputs import boolean, instance, known_keys, one_of, real, time_ps, whole

ACK_PRIORITIES = ("control", "data")
LINK_CLOCKS = ("ps", "ns")
FROM_DUE_TIME = "from due time"
PACINGS = ("from start", FROM_DUE_TIME)
PORTS = ("flow", "packet", "rail")
WINDOWS = ("arrivals", "run")
MAX_FRAME = 32_000  # packet sizes are 16 bits, and a scheme may add bytes
MAX_QUEUES = 2**15 - 1  # queue numbers are int16 in the core
MOST_PPM = 1000
MOST_CHUNKS = 2**20
MOST_TOGETHER = 1000


@dataclass(frozen=True)
class Measure:
    """What a run records, and the measurement window of its statistics.  Logs that are off cost nothing.

    window   "arrivals": from the first arrival of a flow to `duration`, the same for every scheme; the whole run if all
             flows start at once, or if some wait for others.  "run": to the end of the run.  "1ms..3ms": from, to
    warmup   the window "arrivals" or "run" does not begin before this time
    sample   time between two samples of every switch (switches.parquet); "0us": no samples
    flows    count active flows, in the samples and per port (active_flows.parquet)
    ports    counters of every port (ports.parquet)
    pauses   every pause and resume (pauses.parquet)
    queues   every queue that is not empty, at each sample (queues.parquet: large)
    packets  every packet at every hop (packets.parquet: very large)
    port_series  queue and bytes sent of every port, at each sample (port_series.parquet: large)
    queueing     queueing time of data at every port of a switch, by class of flow (queueing.parquet)
    flow_series  bytes acknowledged and window of every unfinished flow, at each sample (flow_series.parquet: large)
    records      what the scheme's file declares as records, whenever a sample finds it changed (records.parquet)
    """

    sample: str | int | float = "2us"
    flows: bool = True
    ports: bool = True
    pauses: bool = False
    queues: bool = False
    packets: bool = False
    port_series: bool = False
    flow_series: bool = False
    queueing: bool = False
    records: bool = False
    window: str = "arrivals"
    warmup: str | int | float = "0us"

    def __post_init__(self) -> None:
        for name in ("sample", "warmup"):
            time_ps(getattr(self, name), f"measure.{name}")
        warmup_ps, bounds_ps = self.warmup_ps, self.bounds_ps
        if warmup_ps and bounds_ps:
            raise SpecError(
                f"the window {self.window} has a start of its own",
                path="measure.warmup",
                value=self.warmup,
                remedy='leave one out, or give window = "arrivals"',
            )
        for name in ("flows", "ports", "pauses", "queues", "packets", "port_series", "flow_series", "queueing", "records"):
            boolean(getattr(self, name), f"measure.{name}")

    @property
    def sample_ps(self) -> int:
        """Picoseconds between two samples; 0: none are taken."""
        return time_ps(self.sample, "measure.sample")

    @property
    def warmup_ps(self) -> int:
        """Earliest start of the measurement window, ps, unless the window has explicit bounds."""
        return time_ps(self.warmup, "measure.warmup")

    @property
    def bounds_ps(self) -> tuple[int, int] | None:
        """Start and end of a window with explicit bounds, ps; None if it is one of WINDOWS."""
        path, rule = "measure.window", f'must be {" or ".join(WINDOWS)}, or two times such as "1ms..3ms"'
        if self.window in WINDOWS:
            return None
        low, _, high = self.window.partition("..") if isinstance(self.window, str) else ("", "", "")
        if not low.strip() or not high.strip():
            raise SpecError(rule, path=path, value=self.window, remedy=nearest(str(self.window), WINDOWS))
        start, end = (time_ps(text.strip(), path) for text in (low, high))
        if end <= start:
            raise SpecError("must end after it begins", path=path, value=self.window)
        return start, end


@dataclass(frozen=True)
class InNetwork:
    """What switches do for collectives whose algorithm is "in_network".  SpecError: a value is out of range.

    window  packets of a group that a host may be ahead of the sums that it has received; a switch has as many accumulators for a
            group, each of mtu bytes
    groups  how many groups a switch reduces at a time; others wait until one has ended, by their start and then as they are
            listed. 0: any number, and groups do not ask before they begin
    root    the root of each tree is a switch with such a name (a pattern such as "spine*" is possible), the one whose farthest
            host is nearest; groups of other hosts take their turn of several that are as good
    """

    window: int = 64
    groups: int = 0
    root: str = "*"

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("groups", 0)):
            object.__setattr__(self, name, whole(getattr(self, name), f"in_network.{name}", least, MOST_CHUNKS))
        instance(self.root, str, "in_network.root", 'such as "spine*"')


@dataclass(frozen=True)
class HostConfig:
    """The hosts: sizes in bytes, times with a unit.  SpecError: a value is out of range.

    mtu           payload bytes of a full packet
    header        bytes that every data packet carries on top of its payload; mtu + header is at most 32000
    ack           bytes of an acknowledgement
    control       bytes of the frames that schemes send: pauses, grants, tokens, pulls; some schemes make theirs longer
    rto           without progress for this long, a sender retransmits from the first unacknowledged byte on; at least 1ns
    ack_priority  "control": acknowledgements use the strict-priority control queue; "data": they queue behind data
    nic_queues    data queues of a NIC, which hop-by-hop pauses can pause one by one; 0: as many as the scheme asks for
    pacing        when the next packet of a paced flow is due: size / rate after this one was due ("from due time"), so that
                  waiting for the NIC does not lower the rate, or after it was sent ("from start", as in ns-3)
    ports         "flow": of several links a flow leaves by the one that its hash chooses; "packet": packets take turns of them;
                  "rail": connection n of two hosts leaves by link n, counted in a circle, other flows by their hash
    ack_every     packets of a flow that are acknowledged together; 0: any number, until `ack_after`. At once: the last packet of
                  a flow or message, one out of order or sent again, one with another ECN mark than the one before
    ack_after     so long after the first packet that waits they are acknowledged, though fewer; with ack_every = 1 none waits
    ack_delay     time that a receiver takes to make an acknowledgement; it makes others meanwhile
    clock_ppm     each host's clock, and with it its rate, is off by up to this many parts per million, drawn by the seed
    """

    mtu: int = 1000
    header: int = 48
    ack: int = 60
    control: int = 64
    rto: str | int | float = "4ms"
    ack_priority: Literal["control", "data"] = "control"
    nic_queues: int = 0
    pacing: Literal["from start", "from due time"] = "from due time"
    ports: Literal["flow", "packet", "rail"] = "flow"
    ack_every: int = 1
    ack_after: str | int | float = "5us"
    ack_delay: str | int | float = "0us"
    clock_ppm: float = 0.0

    def __new__(cls, *values: Any, **named: Any) -> "HostConfig":
        made = super().__new__(cls)
        names = [field.name for field in fields(cls)]
        object.__setattr__(made, "_given", frozenset([*names[: len(values)], *named]))
        return made

    def __post_init__(self) -> None:
        sizes = (("mtu", 1, None), ("header", 0, None), ("ack", 1, MAX_FRAME), ("control", 1, MAX_FRAME))
        for name, least, most in (*sizes, ("nic_queues", 0, MAX_QUEUES), ("ack_every", 0, MOST_TOGETHER)):
            object.__setattr__(self, name, whole(getattr(self, name), f"host.{name}", least, most))
        if time_ps(self.rto, "host.rto", positive=True) < 1000:
            raise SpecError("must be 1ns or more", path="host.rto", value=self.rto)
        if self.mtu + self.header > MAX_FRAME:
            rule = f"mtu + header must be {MAX_FRAME} bytes or less"
            raise SpecError(rule, path="host.mtu", value=self.mtu, remedy=f"header is {self.header}")
        one_of(self.ack_priority, "host.ack_priority", ACK_PRIORITIES)
        one_of(self.pacing, "host.pacing", PACINGS)
        one_of(self.ports, "host.ports", PORTS)
        after, delay = self.ack_after_ps, self.ack_delay_ps
        if delay + (after if self.ack_every != 1 else 0) >= self.rto_ps:
            key = "ack_delay" if delay >= self.rto_ps else "ack_after"
            rule = f"senders give up a packet that is not acknowledged within rto, {shown(self.rto)}"
            raise SpecError(rule, path=f"host.{key}", value=getattr(self, key), remedy="use less")
        object.__setattr__(self, "clock_ppm", real(self.clock_ppm, "host.clock_ppm", 0, MOST_PPM))

    @property
    def given(self) -> frozenset[str]:
        """The keys that were written, even if their values are the defaults."""
        found: frozenset[str] = vars(self)["_given"]
        return found

    def under(
        self, scheme: str, sets: Mapping[str, Any], section: str = "", where: Callable[[str], str] | None = None
    ) -> "HostConfig":
        """These hosts under a scheme that sets some of their values, by key.  SpecError: hosts have no such key, or another value
        of it was written.

        section: the scheme's in a spec, "scheme.0"; where: the place of a path there, "my.toml:3"
        """
        known_keys(sets, [field.name for field in fields(self)], f"{section or 'scheme'}.host")
        made = HostConfig(**{**asdict(self), **sets})
        for key in sorted(self.given & sets.keys()):
            ours, theirs = getattr(self, key), getattr(made, key)
            if ours != theirs and (key not in TIMES or TIMES[key](self) != TIMES[key](made)):
                place = f" ({where(f'{section}.host.{key}')})" if where else ""
                rule = f'the scheme "{scheme}"{place} sets it to {shown(theirs)}'
                other = f"set {section}.host.{key}" if section else f'give the scheme the parameter "host.{key}"'
                raise SpecError(rule, path=f"host.{key}", value=ours, remedy=f"leave it out, or {other}")
        return made

    @property
    def rto_ps(self) -> int:
        """Retransmission timeout, ps."""
        return time_ps(self.rto, "host.rto", positive=True)

    @property
    def ack_after_ps(self) -> int:
        """Time after which the packets that wait are acknowledged, ps."""
        return time_ps(self.ack_after, "host.ack_after", positive=True)

    @property
    def ack_delay_ps(self) -> int:
        """Time that a receiver takes to make an acknowledgement, ps."""
        return time_ps(self.ack_delay, "host.ack_delay")


TIMES: dict[str, Callable[[HostConfig], int]] = {  # keys of hosts that are equal if their picoseconds are
    "rto": lambda host: host.rto_ps,
    "ack_after": lambda host: host.ack_after_ps,
    "ack_delay": lambda host: host.ack_delay_ps,
}
