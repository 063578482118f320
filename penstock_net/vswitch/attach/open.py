"""Opens ports by kind, with validated options, links inside this process, and wrappers around any port.

    with open_port("tap", name="tap0") as port: ...
    open_port("packet", device="eth0")
    open_port("xdp", device="eth0", queue=0)
    open_port("udp", local="10.0.0.1:7000", peer="10.0.0.2:7000")
    open_port("pcap", read="in.pcapng", timing="recorded", write="out.pcapng")
    left, right = open_link(rate="10Gbps", delay="50us")
    capture(port, "seen.pcapng");  faults(port, drop=0.01);  trace(port)

All ports that exchange frames have the same `headers`: True for super-frames of up to 64 KB with partial checksums
(virtio_net_hdr), False for frames in wire format.
"""

import importlib
import pkgutil
from functools import cache
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import boolean, known_keys, one_of, whole
from penstock_net.units import parse_delay, parse_rate, parse_size
from penstock_net.vswitch import ports
from penstock_net.vswitch.ports.base import Clock, PortHandle
from penstock_net.vswitch.support.port_kind import REQUIRED, PortKind
from penstock_net.vswitch.world import pathlib


def kinds() -> dict[str, PortKind]:
    """Every kind of port by name: the KIND of each module of penstock_net.vswitch.ports that has one."""
    return _kinds(tuple(ports.__path__))


@cache
def _kinds(folders: tuple[str, ...]) -> dict[str, PortKind]:
    names = [module.name for module in pkgutil.iter_modules(folders)]
    modules = [importlib.import_module(f"{ports.__name__}.{name}") for name in names]
    return {module.KIND.name: module.KIND for module in modules if hasattr(module, "KIND")}


def open_port(kind: str, **options: Any) -> PortHandle:
    """Open a port of a kind with the options that its KIND declares, each validated by its check."""
    found = kinds()
    one_of(kind, "kind", found)
    known = {option.name: option for option in found[kind].options}
    known_keys(options, known, kind)
    if missing := [name for name, option in known.items() if option.default is REQUIRED and name not in options]:
        raise SpecError("is missing", path=f"{kind}.{missing[0]}")
    values = {name: option.check(options.get(name, option.default), f"{kind}.{name}") for name, option in known.items()}
    return found[kind].open(**values)


def kinds_table() -> str:
    """The kinds and their options as a table in Markdown, as docs/vswitch-ports.md has it."""
    lines = ["| kind | options | what it is |", "|---|---|---|"]
    for kind in kinds().values():
        options = ", ".join(f"`{option.name}`" for option in kind.options if option.name != "headers")
        lines.append(f"| `{kind.name}` | {options} | {kind.summary} |")
    return "\n".join(lines)


def _share(value: Any, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise SpecError("must be a share from 0 to 1", path=what, value=value)
    return round(value * 2**32)


def open_link(
    *,
    rate: str | int = "10Gbps",
    delay: str | int | float = "10us",
    loss: float = 0.0,
    burst: str | int = 0,
    seed: int = 1,
    memory: str | int = "4MiB",
    headers: bool = True,
    clock: Clock | None = None,
) -> tuple[PortHandle, PortHandle]:
    """The two ends of a link in this process.

    `rate` and `burst` are those of a token bucket; `memory` bounds the bytes queued or in flight in each direction. With a
    `clock` the link is deterministic: the same calls give the same answers.
    """
    from penstock_net.vswitch.ports.link import open_link as ends

    bits = parse_rate(rate, "link.rate")
    if bits > 8 * 10**12:
        raise SpecError("at most 8 Tbps", path="link.rate", value=rate)
    delay_ps = parse_delay(delay, "link.delay")
    size = parse_size(memory, "link.memory", positive=True)
    if not 1 << 18 <= size <= 1 << 32:
        raise SpecError("must be from 256 KiB to 4 GiB", path="link.memory", value=memory)
    number = whole(seed, "link.seed", 0, 2**62)
    size += -size % 16
    way = [round(8 * 10**12 / bits), delay_ps, parse_size(burst, "link.burst"), _share(loss, "link.loss")]
    return ends(boolean(headers, "link.headers"), clock, [*way, _random(number, 0), size], [*way, _random(number, 1), size])


def _random(seed: int, stream: int) -> int:
    """Seed of a stream of random numbers, never zero."""
    from penstock_net.hashing import mix64

    return int(mix64(2 * seed + stream + 1)) or 1


# ---- Wrappers ----


def capture(port: PortHandle, path: str | pathlib.Path) -> PortHandle:
    """A port that writes every frame, with its direction, to a .pcap or .pcapng file; closing it closes `port`."""
    from penstock_net.vswitch.ports.wrap import open_capture

    return open_capture(port, open_port("pcap", write=path, headers=port.headers))


def faults(
    port: PortHandle,
    *,
    drop: float = 0.0,
    duplicate: float = 0.0,
    corrupt: float = 0.0,
    reorder: float = 0.0,
    no_room: float = 0.0,
    direction: str = "both",
    seed: int = 1,
) -> PortHandle:
    """A port that injects faults into a share of the frames: loss, duplication, a flipped bit, reordering, or no room.

    `port.report()` counts the faults by direction.
    """
    from penstock_net.vswitch.ports.wrap import open_faults

    if direction not in ("in", "out", "both"):
        raise SpecError('must be "in", "out" or "both"', path="faults.direction", value=direction)
    shares = {"drop": drop, "duplicate": duplicate, "corrupt": corrupt, "reorder": reorder, "no_room": no_room}
    harm = [_share(value, f"faults.{name}") for name, value in shares.items()]
    number = whole(seed, "faults.seed", 0, 2**62)
    ways = [[_random(number, i), *(harm if direction in (side, "both") else [0] * 5)] for i, side in enumerate(("in", "out"))]
    return open_faults(port, ways)


def trace(port: PortHandle, last: int = 1000) -> PortHandle:
    """A port that records the last frames that passed: `port.report()` is a list of (ns, "in" or "out", bytes, digest)."""
    from penstock_net.vswitch.ports.wrap import open_trace

    return open_trace(port, whole(last, "trace.last", 1, 10**7))
