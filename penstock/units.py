"""Numbers with units at the door, integers inside: bit/s, picoseconds, bytes."""

import bisect
import math
import re
from fractions import Fraction

from penstock.errors import SpecError

PS_PER_S = 10**12
TIME = {"ps": 1, "ns": 10**3, "us": 10**6, "µs": 10**6, "ms": 10**9, "s": 10**12}
SIZE = {"B": 1, "KB": 10**3, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
RATE = {"bps": 1, "Kbps": 10**3, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12}

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ/]*)\s*\Z")


def _parse(value: str | int | float, units: dict[str, int], default: str, what: str, example: str) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SpecError(f'{what} = {value!r}: expected a number with a unit, such as "{example}"')
    if isinstance(value, (int, float)):
        if not math.isfinite(value):
            raise SpecError(f'{what} = {value!r}: expected a finite number, such as "{example}"')
        return Fraction(repr(float(value)) if isinstance(value, float) else value) * units[default]
    match = _NUMBER.match(value)
    if not match:
        raise SpecError(f'{what} = "{value}": expected a number with a unit, such as "{example}"')
    number, unit = match.groups()
    if not unit:
        raise SpecError(f'{what} = "{value}": the unit is missing; write it as "{example}" ({", ".join(units)})')
    if unit not in units:
        raise SpecError(f'{what} = "{value}": unknown unit "{unit}"; known: {", ".join(units)}')
    return Fraction(number) * units[unit]


def _whole(value: str | int | float, exact: Fraction, what: str, unit: str, positive: bool) -> int:
    if exact < 0 or (positive and exact == 0):
        raise SpecError(f"{what} = {value}: must be {'greater than zero' if positive else 'zero or more'}")
    if exact.denominator != 1:
        raise SpecError(f"{what} = {value}: is not a whole number of {unit}; nearest: {round(exact)} {unit}")
    return int(exact)


def parse_time(value: str | int | float, what: str = "time", *, positive: bool = False) -> int:
    """Picoseconds of "1us"; a bare number is seconds."""
    return _whole(value, _parse(value, TIME, "s", what, "1us"), what, "ps", positive)


def parse_size(value: str | int | float, what: str = "size", *, positive: bool = False) -> int:
    """Bytes of "12MB" (decimal) or "12MiB"; a bare number is bytes."""
    return _whole(value, _parse(value, SIZE, "B", what, "12MB"), what, "B", positive)


def parse_rate(value: str | int | float, what: str = "rate") -> int:
    """Bits per second of "100Gbps"; a bare number is bit/s."""
    return _whole(value, _parse(value, RATE, "bps", what, "100Gbps"), what, "bit/s", True)


def ps_per_byte(rate: str | int | float, what: str = "rate") -> int:
    """Picoseconds that one byte takes on a link; the simulator's clock needs a whole number of them."""
    bits = parse_rate(rate, what)
    exact = Fraction(8 * PS_PER_S, bits)
    if exact.denominator != 1:
        near = ", ".join(format_rate(r) for r in _whole_rates(bits))
        raise SpecError(f"{what} = {rate}: one byte would take {float(exact):.3f} ps, not a whole number; nearest rates: {near}")
    return int(exact)


def _whole_rates(bits: int) -> list[int]:
    """The rates below and above that take a whole number of picoseconds per byte and can be written in full."""
    rates = sorted(2**i * 5**j for i in range(16) for j in range(13))  # what divides 8e12
    rates = [rate for rate in rates if parse_rate(format_rate(rate)) == rate]
    at = bisect.bisect(rates, bits)
    return rates[max(at - 1, 0) : at + 1]


def _format(value: Fraction, units: dict[str, int], keep: tuple[str, ...], separator: str = "") -> str:
    for unit in reversed(keep):
        if abs(value) >= units[unit]:
            return f"{float(value / Fraction(units[unit])):.6g}{separator}{unit}"
    return f"{float(value):.6g}{separator}{keep[0]}"


def format_time(ps: int | float | Fraction) -> str:
    """ "1us" of 1000000."""
    return _format(Fraction(ps), TIME, ("ps", "ns", "us", "ms", "s"))


def format_size(size: int | float | Fraction, separator: str = "") -> str:
    """ "12MB" of 12000000; the separator stands before the unit."""
    return _format(Fraction(size), SIZE, ("B", "KB", "MB", "GB"), separator)


def format_rate(bits_per_second: int | float | Fraction) -> str:
    """ "100Gbps" of 100000000000."""
    return _format(Fraction(bits_per_second), RATE, ("bps", "Kbps", "Mbps", "Gbps"))
