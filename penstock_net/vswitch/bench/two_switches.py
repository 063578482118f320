"""Two servers, each with a switch and applications, and the network between them, under one virtual clock.

Each server has a switch with applications, as in `rig`, and a port that leads over the network to the other server: two links
and a physical switch between them. Without the overlay a server does not read its link while all its buffers are in use; frames
then wait in the physical switch, which either is lossless, so that its buffer fills up and blocks the sending server, or drops
frames. Where hardware would send a PFC frame, the reader or writer tries again after 100 us: each PFC frame counted here pauses
for that long.

With `overlay` the two switches exchange credits and Overlay Pause Frames. Frames cost a switch the time given in `rig`;
between a port's memory and the link they cost none. The clock of the network advances in steps of a microsecond.
"""

from dataclasses import dataclass, field
from typing import Any

from penstock_net.vswitch.attach.devices import Device
from penstock_net.vswitch.attach.open import open_link
from penstock_net.vswitch.bench.rig import Bench, head
from penstock_net.vswitch.dataplane.driver import attach_device
from penstock_net.vswitch.ports.base import Clock, PortHandle

STEP_NS = 1000
FIRST_FAR = 100  # number of the address of the far server's first application
BUFFERS = 2048  # of the port, without the overlay
WINDOW = 4 << 20  # bytes that may be in flight, as of a socket's memory
Counts = dict[str, float]


@dataclass
class Network:
    """A physical switch with two links: frames that do not fit into a link's buffer wait (lossless) or are dropped."""

    rate: str
    lossless: bool
    clock: Clock
    buffer: str = "1MiB"
    drops: int = 0
    servers: list[PortHandle] = field(default_factory=list)
    inner: list[PortHandle] = field(default_factory=list)
    held: list[bytes | None] = field(default_factory=lambda: [None, None])

    def __post_init__(self) -> None:
        for _ in range(2):
            outer, inner = open_link(rate=self.rate, delay="1us", memory=self.buffer, headers=False, clock=self.clock)
            self.servers.append(outer)
            self.inner.append(inner)

    def forward(self) -> None:
        """Forward the frames that have arrived, in both directions."""
        for side in range(2):
            while frame := self.held[side] or self.inner[side].receive():
                self.held[side] = None
                if self.inner[1 - side].send(frame):
                    continue
                if self.lossless:
                    self.held[side] = frame
                    break
                self.drops += 1


class Servers:
    """Two servers, near and far, of which the near one sends."""

    def __init__(self, settings: dict[str, Any], rate: str, lossless: bool = True, overlay: bool = False) -> None:
        self.clock, self.overlay = Clock(), overlay
        self.network = Network(rate, lossless, self.clock)
        self.near, self.far = Bench(settings), Bench(settings, FIRST_FAR)
        self.benches = (self.near, self.far)
        self.clock.ns = int(self.near.harness.now)
        self.before: Counts = {}

    def connect(self) -> None:
        """Attach the network to both switches, with the addresses of the other's applications, after all have been added."""
        for bench, other, port in zip(self.benches, reversed(self.benches), self.network.servers):
            known = [other.address(number) for number in range(len(other.regions))]
            device = Device(port, window=WINDOW if self.overlay else 0, lossless=not self.overlay)
            device.buffers = device.buffers if self.overlay else BUFFERS
            attach_device(bench.switch, "network", device, known)

    def udp(self, source: int, target: int, port: int, length: int, **options: Any) -> None:
        """A stream from an application of the near server to one of the far server."""
        start = head(self.near.address(source), self.far.address(target), port, length)
        self.near.harness.stream(source, start, length=length, seed=port, **options)

    def run(self, ms: float) -> None:
        """Run for `ms` of virtual time."""
        for _ in range(round(1e6 * ms / STEP_NS)):
            self.network.forward()
            for bench in self.benches:
                bench.harness.run(STEP_NS)
            self.clock.ns += STEP_NS

    def reset(self) -> None:
        """Start the measurement: results count from now on."""
        for bench in self.benches:
            bench.harness.reset()
        self.before = self.totals()

    def totals(self) -> Counts:
        """All counters since the beginning."""
        near, far = (bench.switch.ports()[-1]["device"] for bench in self.benches)
        overlay = far.get("overlay", {})
        return {
            "server frames": far["waits_for_buffer"],
            "network frames": near["no_room"],
            "overlay pauses": overlay.get("pauses_sent", 0),
            "drops in the network": self.network.drops,
            "drops at switches": sum(bench.drops() for bench in self.benches),
            "sent": near["frames_out"],
        }

    def counts(self) -> Counts:
        """All counters since `reset`."""
        return {name: count - self.before.get(name, 0) for name, count in self.totals().items()}

    def close(self) -> None:
        """Release the memory."""
        for bench in self.benches:
            bench.close()
        for port in (*self.network.servers, *self.network.inner):
            port.close()
