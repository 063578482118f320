"""The settings of a switch, [switch] in its SPEC.toml, and addresses as the data plane compares them."""

import ipaddress
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import penstock_net.pxd as pxd
from penstock_net.errors import SpecError
from penstock_net.inputs import boolean, known_keys, one_of, whole
from penstock_net.units import parse_size, parse_time

STATE = "vswitch/dataplane/state.pxd"
MODES = list(pxd.enum(STATE, first="LOSSY"))
REASON_NAMES = [name for name in pxd.enum(STATE, first="FULL") if name != "reasons"]  # why a frame is dropped
STATE_NAMES = [{"broken_off": "nonsense"}.get(name, name) for name in pxd.enum(STATE, first="ABSENT")]  # of a port
DEVICE_STATES = ("gone", "down", "edge failed", "changed", "no guest")  # of a port that is a device, instead of "up"
OF_GONE = (  # sums over the applications of a port that have gone
    "received_frames",
    "received_bytes",
    "sent_frames",
    "sent_bytes",
    "applications",
    "lost_frames",
    "lost_bytes",
    "dropped_frames",
    "not_delivered_frames",
)
DROP_NAMES = [  # why a switch that runs a scheme drops a frame
    {"admission": "refused", "loss": "line", "down": "line_down"}.get(name, name)
    for name in pxd.enum("fabric/constants.pxd", "DROP_")
    if name not in ("reasons", "switch")  # the latter: a simulated switch fails
]
# Reasons of a port's line, of a switch that runs a scheme: frames that had been taken, to whatever application is there.
LINE_DROPS = frozenset((*DROP_NAMES, "gone")) - frozenset(REASON_NAMES)
MOST_WORKERS = pxd.read("vswitch/memory/layout.pxd").constants["MOST_WORKERS"]
DEFAULTS = {
    "mode": "backdraft",
    "workers": 1,
    "doorbells": True,
    "th_goal": "32KB",
    "th_over": "128KB",
    "th_net": "512KB",
    "burst": 32,
    "flows": 1 << 22,
    "spin": "20us",
    "idle": "100ms",
}
TIMES = ("spin", "idle")  # ns in a running switch
WHILE_RUNNING = ("mode", "th_goal", "th_over", "th_net", "burst", "spin", "idle")
MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", re.I)


def validate_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a switch with defaults, parsed (bytes, ns) and in range."""
    out: dict[str, Any] = {}
    known_keys(settings, DEFAULTS, "switch")
    for key, default in DEFAULTS.items():
        value = settings.get(key, default)
        if key == "mode":
            one_of(value, "switch.mode", MODES)
        elif key == "doorbells":
            boolean(value, "switch.doorbells")
        elif key.startswith("th_"):
            value = parse_size(value, f"switch.{key}", positive=True)
        elif key in TIMES:
            value = parse_time(value, f"switch.{key}") // 1000
        else:
            value = whole(value, f"switch.{key}", 1, {"workers": MOST_WORKERS, "flows": 1 << 23}.get(key, 1 << 20))
        out[key] = value
    if not out["th_goal"] < out["th_over"] < out["th_net"] < 1 << 31:
        given = ", ".join(f"{key} = {out[key]} B" for key in ("th_goal", "th_over", "th_net"))
        rule, remedy = f"{given}: must rise in this order, to less than 2GB", "the defaults are 32KB, 128KB, 512KB"
        raise SpecError(rule, path="switch", remedy=remedy)
    return out


def with_units(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a running switch in the form in which they can be set: times with a unit."""
    return {key: f"{value}ns" if key in TIMES else value for key, value in settings.items()}


def address_words(text: Any) -> tuple[int, int, int]:
    """The two words of a flow's key for an address or a prefix such as "10.1.0.0/16", and how many of their bits count."""
    return _address_words(str(text))


@lru_cache(1 << 14)
def _address_words(text: str) -> tuple[int, int, int]:
    if MAC.fullmatch(text):
        return (1 << 64) - 1, int.from_bytes(bytes.fromhex(text.replace(":", "")), "little"), 128
    try:
        if "/" not in text:
            return *_words(ipaddress.ip_address(text)), 128
        found = ipaddress.ip_interface(text)
    except ValueError:
        kinds = "an IPv4, IPv6 or Ethernet address, such as 10.0.0.1 or 02:00:00:00:00:01, or a prefix, such as 10.1.0.0/16"
        raise SpecError(f"address {text!r}: must be {kinds}") from None
    left = found.max_prefixlen - found.network.prefixlen
    if found.ip != found.network.network_address:
        remedy = f"{found.network} is the prefix, {found.ip} the address"
        raise SpecError(f"prefix {text}: its last {left} bits must be 0", remedy=remedy)
    return *_words(found.ip), 128 - left


def _words(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> tuple[int, int]:
    raw = (b"\0" * 10 + b"\xff\xff" if address.version == 4 else b"") + address.packed
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


@lru_cache(4096)  # of ports, each time that somebody asks for a switch's rows
def address_text(high: int, low_half: int, bits: int = 128) -> str:
    """The inverse of address_words."""
    raw = high.to_bytes(8, "little") + low_half.to_bytes(8, "little")
    if high == (1 << 64) - 1 and bits == 128:
        return ":".join(f"{b:02x}" for b in raw[8:14])
    address = ipaddress.IPv6Address(raw)
    plain = address.ipv4_mapped if bits >= 96 else None
    if bits == 128:
        return str(plain or address)
    return f"{plain}/{bits - 96}" if plain else f"{address}/{bits}"
