"""A switch with applications at its ports, under a virtual clock or in real time.

The switch is the one that `penstock vswitch up` runs, with its shared memory, flow table and queues; applications are those of
`vswitch.loadgen.apps`, in a `vswitch.loadgen.harness`. In virtual time every frame, doorbell and queue check
takes the time given in `vswitch.bench.costs`, so results are the same on each machine; at scale "real" the switch and
the applications run on two cores.

BESS is the same switch with one transmit and one receive queue of 1024 slots for each application: its frames have the same
addresses and ports, so that they are one flow to the switch. Doorbells stay on, which costs it less than polling would.
"""

import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from penstock_net.vswitch.bench import noise
from penstock_net.vswitch.bench.costs import Costs
from penstock_net.vswitch.dataplane.switch import Switch
from penstock_net.vswitch.loadgen.harness import Harness
from penstock_net.vswitch.memory.region import Region

CYCLE_NS = 1 / 2.445  # of the machine on which the costs were measured
BESS_SLOTS = 1024  # of BESS's queues
COSTS = Costs()
REAL_S = 0.25  # of a measurement in real time
Row = tuple[str, str, float, float]  # panel, series, x, y


def bess(mode: str = "lossy", length: int = 64, slots: int = BESS_SLOTS) -> dict[str, Any]:
    """Settings of a switch whose queues have `slots` slots for frames of `length` bytes."""
    return {
        "mode": mode,
        "th_goal": f"{slots * length // 4}B",
        "th_over": f"{slots * length // 2}B",
        "th_net": f"{slots * length}B",
    }


def head(source: str, target: str, port: int, length: int, back: int = 2000) -> bytes:
    """Ethernet, IPv4 and UDP headers of a frame of `length` bytes, from UDP port `port` to `back`."""
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, length - 14, 0, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(target))
    return b"\2" * 6 + b"\4" * 6 + b"\x08\0" + ip + struct.pack("!HHHH", port, back, length - 34, 0)


@dataclass
class Bench:
    """A switch with a harness of applications: one region, port and address for each."""

    settings: dict[str, Any]
    first: int = 0  # number that the address of the first application is made of
    seed: int = 1  # of random arrivals and losses, and of the flow table's hashes
    harness: Any = None
    switch: Any = None
    regions: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.switch = Switch(**{"idle": "1s", "flows": 16384, "spin": "1s", **self.settings}, hash_seed=self.seed)
        self.harness = Harness(self.switch, COSTS)

    def app(
        self, name: str, queues: int = 128, buffers: int = 4096, rings: int = 1024, buffer_bytes: int = 64, **options: Any
    ) -> int:
        """Add an application and return its number; the first has the address 10.0.0.1, the next 10.0.0.2."""
        region = Region.create(queues=queues, buffers=buffers, rings=rings, buffer_bytes=buffer_bytes, bells=4096)
        number = self.harness.app(name, region, seed=self.seed, **options)
        self.switch.attach(name, Region.attach(region.fd, region.shape), [self.address(number)])
        self.regions.append(region)
        return int(number)

    def address(self, number: int) -> str:
        """The address of an application's port."""
        number += self.first
        return f"10.0.{number // 200}.{number % 200 + 1}"

    def _seed(self, port: int) -> int:
        """The seed of a stream, from its port and the seed of the bench."""
        return port + (self.seed - 1) * 65536

    def udp(self, source: int, target: int, port: int, length: int = 64, **options: Any) -> int:
        """Add a stream of frames of `length` bytes; options as of `Harness.stream`; returns its number."""
        return int(
            self.harness.stream(
                source,
                head(self.address(source), self.address(target), port, length),
                length=length,
                seed=self._seed(port),
                **options,
            )
        )

    def rpc(self, client: int, server: int, port: int, length: int = 64, answer_length: int = 64, **options: Any) -> int:
        """Add requests and answers, one request at a time; options as of `Harness.rpc`; returns the number of the stream."""
        there = head(self.address(client), self.address(server), port, length)
        back = head(self.address(server), self.address(client), 2000, answer_length, port)
        return int(
            self.harness.rpc(
                client, server, there, back, length=length, answer_length=answer_length, seed=self._seed(port), **options
            )
        )

    def calls(
        self,
        client: int,
        server: int,
        port: int,
        length: int = 64,
        answer_length: int = 64,
        *,
        count: int,
        gap: float,
        **options: Any,
    ) -> int:
        """Add RPCs that retransmit lost frames; options as of `Harness.calls`; returns their number at the client."""
        there = head(self.address(client), self.address(server), port, length)
        back = head(self.address(server), self.address(client), 2000, answer_length, port)
        options = {"count": count, "gap": gap, "length": length, "answer_length": answer_length, **options}
        return int(self.harness.calls(client, server, there, back, seed=self._seed(port), **options))

    def run(self, warm_ms: float, ms: float) -> None:
        """Run in virtual time: a warm-up that does not count, then the measurement (both in ms)."""
        self.harness.run(1e6 * warm_ms)
        self.harness.reset()
        self.harness.run(1e6 * ms)

    def go(self, scale: str, warm_ms: float, ms: float) -> list[Row]:
        """Run in virtual time, or in real time at scale "real"; returns rows of its disturbances.  Raises MachineBusy."""
        if scale != "real":
            self.run(warm_ms, ms)
            return []
        seen = noise.drive(self.switch, self.harness, REAL_S / 5, REAL_S)
        return [("machine", name, 0.0, amount) for name, amount in seen.items()]

    def pauses(self) -> int:
        """Pauses of transmit queues and ports so far."""
        return sum(row["pauses"] for row in self.switch.ports())

    def drops(self, name: str | None = None) -> int:
        """Frames dropped so far, of those that came in by one port or by all."""
        return sum(sum(row["drops"].values()) for row in self.switch.ports() if name in (None, row["port"]))

    def rate(self, number: int, kind: int = 0) -> float:
        """Rate at which an application has received frames of one kind, Mpps."""
        frames, _, ns = self.harness.received(number, kind)
        return 1e3 * frames / ns

    def goodput(self, number: int, kind: int = 0) -> float:
        """Rate at which an application has received frames of one kind, Gbit/s."""
        _, size, ns = self.harness.received(number, kind)
        return 8 * size / ns

    def p99(self, number: int, kind: int = 0, share: float = 0.99) -> float:
        """A quantile of the latency in us; requests without an answer count with their age."""
        self.harness.finish(number)
        return float(self.harness.quantile(number, share, kind)) / 1e3

    def lost(self) -> float:
        """Share of the frames that the switch dropped since the start of the measurement."""
        found = self.harness.counters()
        return found["drops"] / max(1, found["drops"] + found["frames"])

    def close(self) -> None:
        """Release the memory."""
        self.switch.close()
        self.harness = self.switch = None
        self.regions.clear()
