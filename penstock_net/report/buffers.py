"""The buffer that ports need as text and as a table: under the schemes of a spec, and under others beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from penstock_net.composition import parse
from penstock_net.sim.buffers import CABLES, RATES, by_cable, of_ports, parts_saying, saying
from penstock_net.sim.settings import Settings
from penstock_net.units import format_rate, format_size, format_time, parse_delay, parse_rate

OWN = 6  # kinds of ports of a network that are shown in tables and pictures, the most frequent ones
KEY = ["rate_gbps", "delay_ns"]


@dataclass(frozen=True)
class Needs:
    """What ports need.

    ports    of the spec's network, under its schemes; empty: none of these says what it needs
    table    of a port between two switches, for rates and cables, under these schemes and those beside them
    beside   schemes that are not the spec's, with their default parameters
    silent   schemes of the spec of which no part says what it needs
    """

    ports: pl.DataFrame
    table: pl.DataFrame
    beside: list[str]
    silent: list[str]

    @property
    def own(self) -> pl.DataFrame:
        """Rates and delays of the spec's network, the most frequent ones."""
        return _own(self.ports)


def needs_of(settings: Sequence[Settings]) -> Needs:
    """Those of the runs of a spec; other schemes that say what they need stand beside, with the first one's hosts."""
    first = settings[0]
    speaking = [one for one in settings if parts_saying(one.scheme)]
    silent = [one.scheme.name for one in settings if not parts_saying(one.scheme)]
    parts = {part for one in speaking for part in parts_saying(one.scheme)}
    beside = [name for name in saying() if name not in parts]
    plain = [Settings(first.topo, first.flows, parse(name), host=first.host) for name in beside]
    ports = pl.concat([of_ports(one) for one in (*speaking, *plain)])
    own = _own(ports)
    rates = sorted({parse_rate(rate) for rate in RATES} | {round(gbps * 1e9) for gbps in own["rate_gbps"]})
    delays = sorted({parse_delay(cable) for cable in CABLES} | {round(1000 * ns) for ns in own["delay_ns"]})
    tables = [by_cable(one, rates, [f"{delay}ps" for delay in delays]) for one in (*speaking, *plain)]
    return Needs(*_merged(ports, pl.concat(tables)), beside, silent)


def _merged(ports: pl.DataFrame, table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Schemes with a part in common that needs the same under all of them are one, "hpcc, dcqcn"."""
    found: dict[tuple[object, ...], list[str]] = {}
    for scheme, part in table.select("scheme", "part").unique(maintain_order=True).rows():
        rows = [tuple(frame.filter(scheme=scheme, part=part).drop("scheme").rows()) for frame in (ports, table)]
        found.setdefault((part, *rows), []).append(scheme)
    merged = [(part, names, ", ".join(names)) for (part, *_), names in found.items()]
    return tuple(  # type: ignore[return-value]
        pl.concat(
            frame.filter(pl.col("part") == part, pl.col("scheme") == names[0]).with_columns(scheme=pl.lit(label))
            for part, names, label in merged
        )
        for frame in (ports, table)
    )


def _own(ports: pl.DataFrame) -> pl.DataFrame:
    return ports.group_by(KEY).agg(pl.col("ports").sum()).sort("ports", *KEY, descending=[True, False, False]).head(OWN).sort(KEY)


def lines(needs: Needs) -> Iterator[str]:
    """The text: for each scheme the ports of the network, then rates and cables."""
    yield "What a port needs of the buffer for what comes in by one link, of one class (a priority, channel or queue):"
    yield "to lose nothing / and for the full rate, or both. (n): the full rate with n flows or more, each in a class of its own."
    for name in needs.silent:
        yield f"{name}: no part of it says what it needs"
    own = set(needs.own.select(KEY).iter_rows())
    for (scheme, part), rows in needs.table.group_by("scheme", "part", maintain_order=True):
        title = str(scheme) if scheme == part else f"{part} of {scheme}"
        yield f"{title}{', not in the spec: with its default parameters' if scheme in needs.beside else ''}"
        yield from _ports(needs.ports.filter(scheme=scheme, part=part))
        yield from _table(rows, own)


def _ports(ports: pl.DataFrame) -> Iterator[str]:
    for row in ports.iter_rows(named=True):
        count = f"{row['ports']} port{'s' if row['ports'] > 1 else ''}"
        link = f"{format_rate(round(row['rate_gbps'] * 1e9))}, {format_time(round(row['delay_ns'] * 1000))}"
        text = f"  {count} of {link}: {_sizes(row)}"
        if row["classes"] != 1:
            text += (
                f"; for all {row['classes']} classes {_sizes(row, row['classes'])}" if row["classes"] else "; no class needs it"
            )
        yield text


def _sizes(row: dict[str, float], times: int = 1, digits: int = 6) -> str:
    sizes = [format_size(int(row[name]) * times, digits=digits) for name in ("lossless_bytes", "full_rate_bytes")]
    return " / ".join(dict.fromkeys(sizes)) + (f" ({row['flows']})" if row["flows"] > 1 and times == 1 else "")


def _table(rows: pl.DataFrame, own: set[tuple[float, ...]]) -> Iterator[str]:
    """A row for each delay, a column for each rate; the network's own with a star."""
    rates = rows["rate_gbps"].unique().sort().to_list()
    body = [["cable", "delay", *(format_rate(round(rate * 1e9)) for rate in rates)]]
    for (delay,), cells in rows.group_by("delay_ns", maintain_order=True):
        by_rate = {row["rate_gbps"]: row for row in cells.iter_rows(named=True)}
        found = [_sizes(by_rate[rate], digits=3) + ("*" if (rate, delay) in own else "") for rate in rates]
        metres = by_rate[rates[0]]["cable_m"]
        body.append([f"{metres:.3g}m" if metres < 1000 else f"{metres / 1000:.3g}km", format_time(round(1000 * delay)), *found])  # type: ignore[operator]
    widths = [max(map(len, column)) for column in zip(*body)]
    for line in body:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
    if own:
        yield "  * the network's own"
