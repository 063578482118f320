"""What files of graphs call rate, delay and the like, with the units that other programs write, and what of them is not read.

    unread = Unread("g.gml")
    unread.link({"bandwidth": "100 Gbit", "colour": "red"}, "g.gml:5")     # {"rate": "100Gbps"}
    unread.say()                                            # warns: g.gml: not read: attributes of links: colour (1)

Upper and lower case, blanks, - and _ in names make no difference. Two names of one thing that say the same are read; two that do
not are refused.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import inside, left_out, remark
from penstock_net.topology.parts import LINK_KEYS, NODE_KEYS
from penstock_net.units import parse_delay, ps_per_byte

SYNONYMS = {
    "rate": ("bandwidth", "bw", "capacity", "speed", "datarate", "linkspeedraw"),
    "delay": ("latency", "propagationdelay"),
    "loss": ("packetloss",),
    "a": ("source", "src", "from"),
    "b": ("target", "dst", "to"),
}
_MEANS = {name: key for key, others in SYNONYMS.items() for name in (key, *others)} | {
    key.replace("_", ""): key for key in NODE_KEYS
}
_UNITS = {"rate": "bps|kbps|mbps|gbps|tbps", "delay": "ps|ns|us|ms|s"}
_RATE = re.compile(
    r"\s*([\d.]{1,40}(?:[eE][+-]?\d{1,3})?)\s*(?:([KMGTkmgt])|([KMGTkmgt]?)(?:bps|bits?|b/s|bits?/s))\s*", re.ASCII
)
_TIME = re.compile(r"\s*([\d.]{1,40}(?:[eE][+-]?\d{1,3})?)\s*(?:(m|u|n|p)sec|(milli|micro|nano|pico)?sec(?:ond)?s?)\s*", re.ASCII)


def meaning(name: str, keys: tuple[str, ...]) -> tuple[str | None, str]:
    """The key that a name means, None if none of `keys`, and the unit that the name ends in: "rate", "Gbps" of bandwidth_gbps."""
    plain = re.sub(r"[\s_-]", "", name).lower()
    key = _MEANS.get(plain)
    if key is None:
        for key, units in _UNITS.items():
            if (found := re.fullmatch(rf"(\w+?)\(?({units})\)?", plain)) and _MEANS.get(found[1]) == key and key in keys:
                return key, found[2].capitalize() if key == "rate" else found[2]
        return None, ""
    return (key if key in keys else None), ""


class Unread:
    """Reads the attributes of a file and counts what means nothing."""

    def __init__(self, path: object) -> None:
        self.path = path
        self.counts: dict[str, Counter[str]] = {}  # by what has it: "attributes of links"
        self.without = Counter[str]()  # links without a rate, a delay
        self.links = 0

    def link(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What the attributes of a link mean, by LINK_KEYS."""
        found = self._read(given, LINK_KEYS, "attributes of links", where)
        self.links += 1
        self.without.update(key for key in ("rate", "delay") if key not in found)
        return found

    def node(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """What the attributes of a node mean, by NODE_KEYS."""
        return self._read(given, NODE_KEYS, "attributes of nodes", where)

    def count(self, what: str, name: str, times: int = 1) -> None:
        """Something else that means nothing."""
        self.counts.setdefault(what, Counter())[name] += times

    def say(self, defaults: Mapping[str, Any]) -> None:
        """One warning of all that is not read, and one of links that have no rate or delay where others have."""
        if self.counts:
            listed = {what: [f"{_shown(name)} ({n})" for name, n in names.items()] for what, names in self.counts.items()}
            left_out(self.path, "; ".join(f"{what}: {', '.join(names)}" for what, names in listed.items()))
        for key, count in self.without.items():
            if count < self.links and defaults.get(key) is not None:
                remark(self.path, f"{count} of {self.links} links without a {key} take that of the network, {defaults[key]}")

    def _read(self, given: Mapping[str, Any], keys: tuple[str, ...], owner: str, where: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        names: dict[str, str] = {}
        for name, value in given.items():
            key, unit = meaning(str(name), keys)
            if key is None:
                self.count(owner, str(name))
            elif value not in (None, ""):
                with inside(place=where):
                    value = _with_unit(key, value, unit)
                    if name != key and key in _CHECKS:
                        _CHECKS[key](value, str(name))
                    if key in found and _compared(key, found[key], names[key]) != _compared(key, value, str(name)):
                        rule = f"contradicts {names[key]} = {found[key]}"
                        raise SpecError(rule, path=str(name), value=value, remedy="both mean the same: keep one")
                found[key], names[key] = value, str(name)
        return found


def _shown(name: str) -> str:
    return name if name and name.isprintable() and len(name) <= 60 else ascii(name)[:60]


def _with_unit(key: str, value: Any, unit: str) -> Any:
    """A value with the unit of its name, or in our spelling of units."""
    if unit and not isinstance(value, bool) and re.fullmatch(r"\s*[\d.]+(?:[eE][+-]?\d{1,3})?\s*", str(value), re.ASCII):
        return f"{str(value).strip()}{unit}"
    if not isinstance(value, str):
        return value
    if key == "rate" and (match := _RATE.fullmatch(value)):
        return f"{match[1]}{(match[2] or match[3] or '').upper()}bps"
    if key == "delay" and (match := _TIME.fullmatch(value)):
        prefix = match[2] or {"milli": "m", "micro": "u", "nano": "n", "pico": "p", None: ""}[match[3]]
        return f"{match[1]}{prefix}s"
    return value


def _loss(value: Any, path: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise SpecError("must be a probability, at least 0 and less than 1", path=path, value=value) from None


_CHECKS: dict[str, Callable[[Any, str], Any]] = {"rate": ps_per_byte, "delay": parse_delay, "loss": _loss}


def _compared(key: str, value: Any, name: str) -> Any:
    return _CHECKS[key](value, name) if key in _CHECKS else value
