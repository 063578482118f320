"""Ports by kind, checked before anything is opened, links inside this process, and wrappers that fit any port.

    with open_port("tap", name="tap0") as port: ...
    open_port("packet", device="eth0")
    open_port("xdp", device="eth0", queue=0)
    open_port("udp", local="10.0.0.1:7000", peer="10.0.0.2:7000")
    open_port("pcap", read="in.pcapng", timing="recorded", write="out.pcapng")
    left, right = open_link(rate="10Gbps", delay="50us")
    capture(port, "seen.pcapng");  faults(port, drop=0.01);  trace(port)

All ports that exchange frames have the same `headers`: True for frames of up to 64 KB with check sums still to be computed
(virtio_net_hdr), False for frames as they are on a wire.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

from penstock.errors import SpecError
from penstock.inputs import boolean, known_keys, one_of, whole
from penstock.units import parse_rate, parse_size, parse_time
from penstock.vswitch import ports
from penstock.vswitch.ports.base import Clock, PortHandle
from penstock.vswitch.ports.kind import REQUIRED, PortKind


def kinds() -> dict[str, PortKind]:
    """Every kind of port by name: what the modules of penstock.vswitch.ports export as KIND."""
    names = [module.name for module in pkgutil.iter_modules(ports.__path__)]
    modules = [importlib.import_module(f"{ports.__name__}.{name}") for name in names]
    return {module.KIND.name: module.KIND for module in modules if hasattr(module, "KIND")}


def open_port(kind: str, **options: Any) -> PortHandle:
    """A port of a kind; its options are those that its KIND declares, each checked by what it declares."""
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

    `burst` bytes may pass faster than `rate` after a rest; `memory` bounds the bytes on the way in each direction, the ones that
    wait for the rate included. With a `clock` nothing is left to chance: the same calls give the same answers.
    """
    from penstock.vswitch.ports.link import open_link as ends

    bits = parse_rate(rate, "link.rate")
    if bits > 8 * 10**12:
        raise SpecError("at most 8 Tbps", path="link.rate", value=rate)
    delay_ps = parse_time(delay, "link.delay")
    size = parse_size(memory, "link.memory", positive=True)
    if not 1 << 18 <= size <= 1 << 32:
        raise SpecError("must be from 256 KiB to 4 GiB", path="link.memory", value=memory)
    number = whole(seed, "link.seed", 0, 2**62)
    size += -size % 16
    way = [round(8 * 10**12 / bits), delay_ps, parse_size(burst, "link.burst"), _share(loss, "link.loss")]
    return ends(boolean(headers, "link.headers"), clock, [*way, _random(number, 0), size], [*way, _random(number, 1), size])


def _random(seed: int, stream: int) -> int:
    """The beginning of a stream of random numbers: never zero."""
    from penstock.hashing import mix64

    return int(mix64(2 * seed + stream + 1)) or 1


# ---- Wrappers ----


def capture(port: PortHandle, path: str | Path) -> PortHandle:
    """A port that writes every frame, and the direction it went, to a .pcap or .pcapng file; closing it closes `port`."""
    from penstock.vswitch.ports.wrap import open_capture

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
    """A port that harms a share of the frames: loses them, doubles them, flips a bit, swaps neighbours, or has no room for them.

    `port.report()` counts what was done, by direction.
    """
    from penstock.vswitch.ports.wrap import open_faults

    if direction not in ("in", "out", "both"):
        raise SpecError('must be "in", "out" or "both"', path="faults.direction", value=direction)
    shares = {"drop": drop, "duplicate": duplicate, "corrupt": corrupt, "reorder": reorder, "no_room": no_room}
    harm = [_share(value, f"faults.{name}") for name, value in shares.items()]
    number = whole(seed, "faults.seed", 0, 2**62)
    ways = [[_random(number, i), *(harm if direction in (side, "both") else [0] * 5)] for i, side in enumerate(("in", "out"))]
    return open_faults(port, ways)


def trace(port: PortHandle, last: int = 1000) -> PortHandle:
    """A port that remembers the last frames that passed: `port.report()` is a list of (ns, "in" or "out", bytes, digest)."""
    from penstock.vswitch.ports.wrap import open_trace

    return open_trace(port, whole(last, "trace.last", 1, 10**7))
