"""The headroom (xoff) that vendors give a lossless priority, by their formulas or by a fit of their tables, in parts."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.units import SPEED_OF_LIGHT

KIB = 1024
SMALLEST = 64
# Quanta of 64 bytes that a peer sends before it is silent, by Gbit/s; from SONiC's buffer_headroom_mellanox.lua.
QUANTA = {10: 67, 25: 80, 40: 118, 50: 147, 100: 394, 200: 453, 400: 905, 800: 905}


@dataclass(frozen=True)
class Parts:
    """Bytes of headroom of one lossless priority of one port, by what they are for.

    cable     in flight, both ways                            response  sent while the peer and the circuits react
    frames    packets that have begun, at both ends           cells     lost because small packets do not fill their cells
    rounding  to whole KiB, and what a vendor adds
    """

    cable: float
    response: float
    frames: float
    cells: float
    rounding: float
    total: int


@dataclass(frozen=True)
class Sonic:
    """SONiC's formula (sonic-swss, cfgmgr/buffer_headroom_mellanox.lua, August 2026).

    cell           bytes of a cell of the buffer              small_percent  share of small packets, 0 to 100
    lossless_mtu   largest lossless packet, bytes             port_mtu       largest packet of the port, bytes
    mac_phy_delay, peer_response  KiB                         tile_ns        delay of the tiles (Spectrum-4 and -5: 120)
    shared_pool    the headrooms share a pool
    older          the form of older tables: the peer's response is `peer_response` at all rates, and cells are not rounded up
    """

    cell: int
    small_percent: int = 50
    lossless_mtu: int = 1024
    port_mtu: int = 9100
    mac_phy_delay: float = 0.8
    peer_response: float = 3.8
    tile_ns: int = 0
    shared_pool: bool = True
    older: bool = False

    def xoff(self, gbps: int, metres: int) -> Parts:
        """Of a port of so many Gbit/s with a cable of so many metres.  SpecError: one of them is not above zero."""
        _check(gbps, metres)
        cable = Fraction(2 * metres * gbps * 10**9, 8 * SPEED_OF_LIGHT)
        response = self._response(gbps)
        through = self.port_mtu + cable + response
        worst = self._worst()
        part = Fraction(self.small_percent, 100)
        cells = through * (self._occupancy() - 1)
        exact = self.lossless_mtu + through + cells
        total = _whole_kib(exact)
        if part < 1 and not self.shared_pool and total + 2 * KIB < _whole_kib(self.lossless_mtu + through * worst):
            total += 2 * KIB
        return Parts(float(cable), float(response), self.port_mtu + self.lossless_mtu, float(cells), float(total - exact), total)

    def response_at(self, gbps: int) -> float:
        """Nanoseconds in which the response part is sent at a rate."""
        return float(8 * self._response(gbps) / gbps)

    def _response(self, gbps: int) -> Fraction:
        """Bytes that are sent while the peer and the circuits react."""
        peer = self.older or gbps not in QUANTA
        sent = KIB * _exact(self.peer_response) if peer else Fraction(SMALLEST * QUANTA[gbps])
        return KIB * _exact(self.mac_phy_delay) + sent + Fraction(gbps * self.tile_ns, 8)

    @property
    def blow_up(self) -> float:
        """Bytes of the buffer for a byte of packets."""
        return float(self._occupancy())

    def _occupancy(self) -> Fraction:
        part = Fraction(self.small_percent, 100)
        small = SMALLEST / (part * SMALLEST + (1 - part) * self.lossless_mtu)
        return 1 + small * (self._worst() - 1)

    def _worst(self) -> Fraction:
        """Bytes of cells for a byte of the smallest packets."""
        worst = Fraction(self.cell, SMALLEST) if self.cell > 2 * SMALLEST else Fraction(2 * self.cell, 1 + self.cell)
        return worst if self.older else Fraction(ceil(worst))


@dataclass(frozen=True)
class Fit:
    """A fit of a vendor's table: blow_up * (frames + rate * (response_ns + 10 ns/m)), from 100 Gbit/s, up to 2 km.

    cell  bytes of a cell of the buffer; 0: not known     small_percent  share of small packets, 0 to 100; 0: not known
    """

    blow_up: float
    response_ns: float
    frames: float
    cell: int = 0
    small_percent: int = 0

    def response_at(self, gbps: int) -> float:
        """As `Sonic.response_at`: the same at every rate."""
        return self.response_ns

    def xoff(self, gbps: int, metres: int) -> Parts:
        """As `Sonic.xoff`; within 2 % of the table."""
        _check(gbps, metres)
        cable, response = gbps * 10 * metres / 8, gbps * self.response_ns / 8
        through = self.frames + cable + response
        exact = self.blow_up * through
        return Parts(cable, response, self.frames, exact - through, ceil(exact) - exact, ceil(exact))


@lru_cache
def formula_tables() -> dict[str, dict[str, Any]]:
    """The tables of platforms.toml by name, with the key `kind`: "sonic" or "fit"."""
    kinds = tomllib.loads(Path(__file__).with_name("platforms.toml").read_text(encoding="utf-8"))
    return {name: {"kind": kind, **table} for kind, tables in kinds.items() for name, table in tables.items()}


@lru_cache
def platforms() -> dict[str, Sonic | Fit]:
    """The platforms that have a formula, by name; platforms.toml has their sources."""
    out: dict[str, Sonic | Fit] = {}
    for name, table in formula_tables().items():
        make: Any = Sonic if table["kind"] == "sonic" else Fit
        out[name] = make(**{key: value for key, value in table.items() if key not in ("kind", "source", "asic")})
    return out


def _exact(value: float) -> Fraction:
    return Fraction(str(value))


def _whole_kib(size: Fraction) -> int:
    return KIB * ceil(size / KIB)


def _check(gbps: int, metres: int) -> None:
    for what, value in (("speed", gbps), ("length", metres)):
        if value <= 0:
            raise SpecError("must be greater than zero", path=what, value=value)
