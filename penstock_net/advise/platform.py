"""A platform: its formula, the rows and pools of its shipped tables; and the headroom of its ports, in parts, with its source."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from penstock_net.advise.formulas import KIB, SMALLEST, Fit, Parts, Sonic, formula_tables, platforms
from penstock_net.advise.names import meant, no_platform
from penstock_net.errors import SpecError
from penstock_net.units import format_size, parse_delay

CONTROL = 64  # bytes of a pause
HEADER = 48


@dataclass(frozen=True)
class ByHand:
    """What the simulator's PFC sets aside (docs/modelling.md): both ways of the cable, the response, three frames; in cells.

    mtu       largest lossless packet, bytes, without its header      response_ns  from a pause's arrival to silence
    cell      bytes of a cell of the buffer; 0: bytes are counted     small        share of the bytes in smallest packets, 0 to 1
    lossless  priorities with pauses of their own, which may go first
    """

    mtu: int
    response_ns: float
    cell: int = 0
    small: float = 1.0
    lossless: int = 1

    def xoff(self, gbps: int, metres: int) -> Parts:
        """As `Sonic.xoff`."""
        if gbps <= 0 or metres <= 0:
            raise SpecError("must be greater than zero", path="length" if gbps > 0 else "speed", value=min(gbps, metres))
        cable = 2 * parse_delay(f"{metres}m") * gbps / 8000
        response = gbps * self.response_ns / 8
        frames = 3 * (self.mtu + HEADER + CONTROL) + CONTROL * (self.lossless - 1)
        whole = 2 * (int(cable / 2) + 1) + (int(response) + 1 if response else 0) + frames
        total = ceil(whole * self.blow_up)
        cells = (self.blow_up - 1) * whole
        return Parts(cable, response, frames, cells, total - cable - response - frames - cells, total)

    def response_at(self, gbps: int) -> float:
        """As `Sonic.response_at`."""
        return self.response_ns

    @property
    def blow_up(self) -> float:
        """Bytes of the buffer for a byte of packets, of the smallest (a header and a byte) and of full ones."""
        if not self.cell:
            return 1.0
        smallest, full = HEADER + 1, self.mtu + HEADER
        cells = (smallest + self.cell - 2) // self.cell
        worst = max(_stored(smallest, self.cell) / smallest, (cells + 1) * self.cell / (cells * self.cell + 1))
        return self.small * worst + (1 - self.small) * _stored(full, self.cell) / full


@dataclass(frozen=True)
class Headroom:
    """The headroom of a lossless priority of a port.

    reason    the formula with its numbers      source  the formula, or the row of a vendor's table
    parts     None: the table tells no parts    slack   by how much less a value may be and still pass for it: the fit's error
    """

    total: int
    parts: Parts | None
    reason: str
    source: str
    slack: float = 0.0


@dataclass(frozen=True)
class Platform:
    """A platform, or what a site says of a switch by hand.

    formula  None: rows are all there is        xoff   rows: (Gbit/s, metres) -> bytes
    table    the other keys of rows.toml        fixed  the site has changed the formula's traffic, so that rows do not hold
    names    what it is called                  holds  hwskus that have these very rows
    """

    name: str
    asic: str
    source: str
    formula: Sonic | Fit | ByHand | None
    xoff: dict[tuple[int, int], int]
    table: dict[str, int]
    fixed: bool = False
    names: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()

    @property
    def shipped(self) -> str:
        """What the rows are of, and where they are."""
        return f"table of {', '.join(self.holds)}: {self.source}"

    @property
    def cell(self) -> int:
        """Bytes of a cell of the buffer; 0: not known, or by hand none."""
        return self.formula.cell if self.formula and self.formula.cell else self.table.get("cell", 0)

    def response_ns(self, gbps: int) -> float | None:
        """From a pause's arrival to silence at a port of this rate; None: not known."""
        return self.formula.response_at(gbps) if self.formula else None

    @property
    def assumes(self) -> str:
        """Which packets its headroom is for."""
        of = self.formula
        cells = f", in cells of {self.cell} B" if self.cell else ", cells not known"
        if isinstance(of, Sonic):
            what = f"lossless MTU {of.lossless_mtu} B, port MTU {of.port_mtu} B, {of.small_percent} % packets of {SMALLEST} B"
        elif isinstance(of, ByHand):
            what = f"lossless MTU {of.mtu} B, {100 * of.small:g} % smallest packets"
            cells = f", in cells of {of.cell} B" if of.cell else ", bytes, no cells"
        elif isinstance(of, Fit):
            small = f"{of.small_percent} % packets of {SMALLEST} B" if of.small_percent else "share of small packets not known"
            what = f"MTU not known ({of.frames:.0f} B of frames), {small}"
        else:
            what = "MTU and share of small packets not known"
        return what + cells

    def holds_for(self, hwsku: str) -> bool:
        """Whether the rows are known to be those of this hwsku; of none named they are."""
        return not hwsku or not self.holds or meant(hwsku, self.holds) is not None

    def at_port(self, mtu: int) -> Platform:
        """The platform for a port whose largest packet has so many bytes; 0: as its table has it."""
        of = self.formula
        if not mtu or not isinstance(of, Sonic) or mtu == of.port_mtu:
            return self
        return replace(self, formula=replace(of, port_mtu=mtu), fixed=True)

    def headroom(self, gbps: int, metres: int) -> Headroom:
        """That of a priority of a port.  SpecError: there is neither a formula nor a row that is long enough."""
        rows = {} if self.fixed else self.xoff
        below = max((size for (g, m), size in rows.items() if g <= gbps and m <= metres), default=0)
        above = min((size for (g, m), size in rows.items() if g >= gbps and m >= metres), default=None)
        row = rows.get((gbps, metres))
        if self.formula is None:
            at = min((at for at in rows if at[0] >= gbps and at[1] >= metres), default=None)
            if at is None:
                longest = max((m for g, m in rows if g >= gbps), default=0)
                most = f"{longest} m at this rate" if longest else f"{max(g for g, _ in rows)} Gbit/s"
                raise SpecError(
                    f"its table has no row for {gbps} Gbit/s and {metres} m or more, and no formula of it is known",
                    path="platform",
                    value=self.name,
                    remedy=f"at most {most}, or give response and cell instead of platform",
                )
            next_one = "" if row else f", the next longer or faster one: {at[0]} Gbit/s, {at[1]} m"
            return Headroom(rows[at], None, f"row of its table{next_one}", self.shipped)
        parts = self.formula.xoff(gbps, metres)
        reason, slack = self._formula(gbps, metres), 0.02 if isinstance(self.formula, Fit) else 0.0
        source = "the simulator's bound" if isinstance(self.formula, ByHand) else f"{_kind(self.formula)}; {self.shipped}"
        total = max(parts.total, below) if above is None else min(max(parts.total, below), above)
        if row is not None:
            reason, source, slack = f"row of its table ({reason})", self.shipped, 0.0
        elif total != parts.total:
            reason += f", kept between rows: {total} B"
        if total != parts.total:
            parts = replace(parts, rounding=parts.rounding + total - parts.total, total=total)
        return Headroom(total, parts, reason, source, slack)

    def _formula(self, gbps: int, metres: int) -> str:
        of = self.formula
        if isinstance(of, Fit):
            far = "" if gbps >= 100 and metres <= 2000 else " (beyond the rows of the fit)"
            total = of.xoff(gbps, metres).total
            inner = f"{of.frames:.0f} B + {gbps} Gbit/s x ({of.response_ns:.0f} ns + 10 ns/m x {metres} m)"
            return f"{of.blow_up:g} x ({inner}) = {total} B{far}"
        assert of is not None
        parts = of.xoff(gbps, metres)
        terms = f"frames {parts.frames:.0f} + cable {parts.cable:.0f} + response {parts.response:.0f} + cells {parts.cells:.0f}"
        return f"{terms} + rounding {parts.rounding:.0f} = {parts.total} B"

    def profile(self, headroom: Headroom, lanes: int, shared: bool) -> dict[str, int]:
        """size, xon and, where it has one, xon_offset of the profile for a headroom, bytes."""
        if isinstance(self.formula, Sonic):
            xon = KIB * (19 if lanes < 8 else 37 if self.formula.older else 38)
            private = headroom.total + (self.formula.port_mtu if lanes >= 8 else 0)
            return {"xon": xon, "size": xon if shared else KIB * ceil((xon + private) / KIB)}
        if "size" in self.table:
            found: dict[str, int] = {key: self.table[key] for key in ("xon", "xon_offset", "size") if key in self.table}
            return found if shared else {**found, "size": found["size"] + headroom.total}
        frame = _stored(self.formula.mtu + HEADER, self.formula.cell) if isinstance(self.formula, ByHand) else 10 * KIB
        return {"xon": 0, "xon_offset": 2 * frame, "size": frame if shared else frame + headroom.total}


def platform(name: str) -> Platform:
    """That which a name means, written in any way.  SpecError: it is not known."""
    found = by_text(name)
    if found is None:
        chips: dict[str, list[str]] = {}
        for one in all_platforms().values():
            chips.setdefault(one.asic, []).append(one.name)
        raise no_platform(name, [alias for one in all_platforms().values() for alias in one.names], chips)
    return found


@lru_cache
def all_platforms() -> dict[str, Platform]:
    """All platforms, by name."""
    rows: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("rows.toml").read_text(encoding="utf-8"))
    tables = formula_tables()
    out = {}
    for name, table in rows.items():
        about = {**tables.get(name, {}), **table}
        xoff = {(int(g), int(m)): size for g, row in table["xoff"].items() for m, size in row.items()}
        numbers = {key: value for key, value in table.items() if isinstance(value, int)}
        names, holds = (tuple(table[key]) for key in ("names", "holds"))
        out[name] = Platform(name, about["asic"], about["source"], platforms().get(name), xoff, numbers, names=names, holds=holds)
    return out


def listed() -> Iterator[tuple[str, str, str]]:
    """Of each platform its name, what its headroom comes from, and which packets, hardware, rates and buffer that is for."""
    for name, of in sorted(all_platforms().items(), key=lambda item: item[0].lower()):
        rows = (
            "SONiC's formula" if isinstance(of.formula, Sonic) else "rows, and a fit between them" if of.formula else "rows only"
        )
        rates = sorted({gbps for gbps, _ in of.xoff})
        buffer = f"buffer {format_size(of.table['buffer'], digits=4)}" if "buffer" in of.table else "buffer not known"
        more = f"{of.assumes}; {rates[0]} to {rates[-1]} Gbit/s; {buffer}; as shipped with {', '.join(of.holds)}"
        yield name, f"{of.asic}, {rows}", more


def by_text(text: str) -> Platform | None:
    """The platform that a text names, such as "x86_64-dell_z9864f-r0" or "Mellanox-SN5640-C512X2"; None: none."""
    names = {alias: one for one in all_platforms().values() for alias in (*one.names, one.name)}
    found = meant(text, names)
    return names[found] if found else None


def _stored(size: int, cell: int) -> int:
    return ceil(size / cell) * cell if cell else size


def _kind(formula: Sonic | Fit | ByHand) -> str:
    if isinstance(formula, Fit):
        return "fit of its table"
    older = isinstance(formula, Sonic) and formula.older
    return "SONiC's formula, older form" if older else "SONiC's formula"
