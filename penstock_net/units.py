"""Conversion of numbers with units to integers, and back: bit/s, picoseconds, bytes."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from penstock_net.errors import SpecError

PS_PER_S = 10**12
TIME = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
SIZE = {"B": 1, "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
RATE = {"bps": 1, "Kbps": 10**3, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}
LENGTH = {"m": 1, "km": 1000}
# Metres per second of light in a fibre, as SONiC computes with it: 5.05 ns a metre.
SPEED_OF_LIGHT = 198_000_000
FASTEST_BPS = 100 * 10**12

# Bounded, so that no number can make exact arithmetic slow.
_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,3})?)\s*([A-Za-zµ/]*)\s*\Z")


def _parse(value: str | int | float, units: dict[str, int], default: str, path: str, example: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SpecError(f'must be a number with a unit, such as "{example}"', path=path, value=value)
    if isinstance(value, (int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            raise SpecError(f'must be a finite number, such as "{example}"', path=path, value=value)
        return Fraction(repr(float(value)) if isinstance(value, float) else value) * units[default]
    match = _NUMBER.match(value)
    if not match:
        raise SpecError(f'must be a number with a unit, such as "{example}"', path=path, value=value)
    number, unit = match.groups()
    if not unit:
        raise SpecError("the unit is missing", path=path, value=value, remedy=f'write it as "{example}" ({", ".join(units)})')
    if unit not in units:
        raise SpecError(f'unknown unit "{unit}"', path=path, value=value, remedy=f"known: {', '.join(units)}")
    return Fraction(number) * units[unit]


def _whole(value: str | int | float, exact: Fraction, path: str, unit: str, positive: bool) -> int:
    if exact < 0 or (positive and exact == 0):
        raise SpecError(f"must be {'greater than zero' if positive else 'zero or more'}", path=path, value=value)
    if exact.denominator != 1:
        remedy = f"the smallest is 1 {unit}" if exact < 1 else f"nearest: {round(exact)} {unit}"
        raise SpecError(f"is not a whole number of {unit}", path=path, value=value, remedy=remedy)
    return int(exact)


@dataclass(frozen=True, eq=False)
class _Quantity:
    """What is counted: units with factors to the smallest one, the unit of a bare number, an example, the smallest unit."""

    units: dict[str, int]
    default: str
    example: str
    smallest: str

    def of(self, value: str | int | float, path: str, positive: bool) -> int:
        """The number in the smallest unit."""
        if type(value) is str and (known := _known(self, value, positive)) is not None:
            return known
        return self.parse(value, path, positive)

    def parse(self, value: str | int | float, path: str, positive: bool) -> int:
        """The same, also if it is known."""
        return _whole(value, _parse(value, self.units, self.default, path, self.example), path, self.smallest, positive)


@lru_cache(maxsize=4096)
def _known(quantity: _Quantity, text: str, positive: bool) -> int | None:
    """A list of flows repeats its texts.  None: it is wrong, and the error is to name its place."""
    try:
        return quantity.parse(text, "", positive)
    except SpecError:
        return None


_TIME = _Quantity(TIME, "s", "1us", "ps")
_SIZE = _Quantity(SIZE, "B", "12MB", "B")
_RATE = _Quantity(RATE, "bps", "100Gbps", "bit/s")


def parse_time(value: str | int | float, path: str = "time", *, positive: bool = False) -> int:
    """Picoseconds of "1us"; a bare number is seconds."""
    return _TIME.of(value, path, positive)


def parse_delay(value: str | int | float, path: str = "delay", *, positive: bool = False) -> int:
    """Picoseconds of "1us", or those that light takes through a fibre of "40m" or "2km", rounded up."""
    match = _NUMBER.match(value) if isinstance(value, str) else None
    if match is None or match.group(2) not in LENGTH:
        return _whole(value, _parse(value, TIME | LENGTH, "s", path, "1us"), path, "ps", positive)
    exact = parse_metres(value, path) * PS_PER_S / SPEED_OF_LIGHT
    return _whole(value, Fraction(math.ceil(exact)), path, "ps", positive)


def parse_metres(value: str | int | float, path: str = "cable") -> Fraction:
    """Metres of "40m" or "2km"; a bare number is metres."""
    return _parse(value, LENGTH, "m", path, "40m")


def parse_size(value: str | int | float, path: str = "size", *, positive: bool = False) -> int:
    """Bytes of "12MB" (decimal) or "12MiB"; a bare number is bytes."""
    return _SIZE.of(value, path, positive)


def parse_rate(value: str | int | float, path: str = "rate") -> int:
    """Bits per second of "100Gbps"; a bare number is bit/s."""
    return _RATE.of(value, path, positive=True)


def ps_per_byte(rate: str | int | float, path: str = "rate") -> float:
    """Picoseconds that one byte takes on a link of at most FASTEST_BPS, of which the simulator knows 2^-32 ps."""
    bits = parse_rate(rate, path)
    if bits > FASTEST_BPS:
        raise SpecError("must be at most 100Tbps", path=path, value=rate)
    return 8 * PS_PER_S / bits


def bits_per_second(ps_per_byte: float) -> int:
    """The rate of a link on which one byte takes so many picoseconds."""
    return round(8 * PS_PER_S / ps_per_byte)


def _format(value: Fraction, units: dict[str, int], keep: tuple[str, ...], separator: str = "", digits: int = 6) -> str:
    """In the largest unit of which the value, rounded to so many digits, is at least one."""
    unit, number, rounded = keep[0], 0.0, 0.0
    for unit in reversed(keep):
        number = float(value / units[unit])
        rounded = abs(float(f"{number:.{digits}g}"))
        if rounded >= 1:
            break
    shown = f"{number:.0f}" if rounded >= 10**digits else f"{number:.{digits}g}"
    return f"{shown}{separator}{unit}"


def format_time(ps: int | float | Fraction) -> str:
    """ "1us" of 1000000."""
    return _format(Fraction(ps), TIME, ("ps", "ns", "us", "ms", "s"))


def format_size(size: int | float | Fraction, separator: str = "", digits: int = 6) -> str:
    """ "12MB" of 12000000; the separator stands before the unit."""
    return _format(Fraction(size), SIZE, ("B", "KB", "MB", "GB"), separator, digits)


def format_rate(bits_per_second: int | float | Fraction) -> str:
    """ "100Gbps" of 100000000000."""
    return _format(Fraction(bits_per_second), RATE, ("bps", "Kbps", "Mbps", "Gbps"))
