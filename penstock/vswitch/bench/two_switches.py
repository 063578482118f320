"""Two servers, each with a switch and applications, and the network between them, under one virtual clock.

Each server has a switch with applications, as in `rig`, and a port that leads over the network to the other one: two links
and a physical switch between them. A server does not read its link while all 2048 buffers behind it are taken; frames then wait
in the physical switch. That one is lossless, so that its own buffer fills and the sending server finds no room, or it drops.
Where hardware would send PFC frames the reader, or the writer, tries again after 100 us: the frames counted here last as long.

With `overlay` the two switches talk to each other: grants and Overlay Pause Frames. What frames cost a switch is in `rig`;
between a port's memory and the link they cost nothing. The clock of the network goes in steps of a microsecond.
"""

from dataclasses import dataclass, field
from typing import Any

from penstock.vswitch.attach.devices import Device
from penstock.vswitch.attach.open import open_link
from penstock.vswitch.bench.rig import Bench, head
from penstock.vswitch.dataplane.driver import attach_device
from penstock.vswitch.ports.base import Clock, PortHandle

STEP_NS = 1000
FIRST_FAR = 100  # the address of the first application there
WINDOW = 4 << 20  # bytes of a socket's memory that may be under way
Counts = dict[str, float]


@dataclass
class Network:
    """A physical switch with two links: what a link has no room for waits (lossless), or is dropped."""

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
        """Everything that has come goes on, both ways."""
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
        """Tell each switch the addresses of the other's applications; call it when all applications exist."""
        for bench, other, port in zip(self.benches, reversed(self.benches), self.network.servers):
            known = [other.address(number) for number in range(len(other.regions))]
            attach_device(bench.switch, "network", Device(port, window=WINDOW if self.overlay else 0), known)

    def udp(self, source: int, target: int, port: int, length: int, **options: Any) -> None:
        """A stream from an application of the near server to one of the far server."""
        start = head(self.near.address(source), self.far.address(target), port, length)
        self.near.harness.stream(source, start, length=length, seed=port, **options)

    def run(self, ms: float) -> None:
        """Run for so many ms of virtual time."""
        for _ in range(round(1e6 * ms / STEP_NS)):
            self.network.forward()
            for bench in self.benches:
                bench.harness.run(STEP_NS)
            self.clock.ns += STEP_NS

    def reset(self) -> None:
        """Count results from now on."""
        for bench in self.benches:
            bench.harness.reset()
        self.before = self.totals()

    def totals(self) -> Counts:
        """Everything counted since the beginning."""
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
        """The same since `reset`."""
        return {name: count - self.before.get(name, 0) for name, count in self.totals().items()}

    def close(self) -> None:
        """Give the memory back."""
        for bench in self.benches:
            bench.close()
        for port in (*self.network.servers, *self.network.inner):
            port.close()
