"""Writes the numbers of docs/ultra-ethernet.md, and its pictures, from reproductions of the three figures.

penstock reproduce beyond/ultra_ethernet --scale paper --workers 2
penstock reproduce beyond/silent --scale paper --workers 2
penstock reproduce beyond/ring --scale paper --workers 2
python tools/ultra_ethernet.py reproductions/beyond/ultra_ethernet reproductions/beyond/silent reproductions/beyond/ring
"""

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

import polars as pl

from penstock_papers import bands
from penstock_papers.beyond import ring, silent, ultra_ethernet
from penstock_papers.beyond._ultra_ethernet import FABRICS, MEASURES, NAMES, RIVALS, TRAFFICS, Rival

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/ultra-ethernet.md"
PICTURES = {
    "ultra_ethernet": ROOT / "docs/ultra-ethernet.png",
    "silent": ROOT / "docs/ultra-ethernet-silent.png",
    "ring": ROOT / "docs/ultra-ethernet-ring.png",
}
MARKS = {
    "ultra_ethernet": ("<!-- numbers -->", "<!-- end of numbers -->"),
    "silent": ("<!-- silent -->", "<!-- end of silent -->"),
    "ring": ("<!-- ring -->", "<!-- end of ring -->"),
}
NEAR = 1.1  # times the best counts as equally good
BOLD = ("p50", "p99", "max", "step")


def shown(number: float) -> str:
    """Three digits, and "" for what is not there."""
    if number != number:
        return ""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def cells(means: bands.Means, panel: str, read: Callable[[pl.DataFrame, str], dict[str, float]]) -> dict[str, str]:
    """Of each scheme the mean and half of its 95 % interval; in bold what is within a tenth of the least."""
    mean, high = (read(each, panel) for each in (means.mean, means.high))
    least = min((number for number in mean.values() if number == number), default=float("nan"))
    found = {}
    for name, number in mean.items():
        half = high[name] - number
        text = shown(number) + (f" ±{shown(float(f'{half:.2g}'))}" if half == half and half > 0.005 * abs(number) > 0 else "")
        found[name] = f"**{text}**" if panel in BOLD and number <= NEAR * least else text
    return found


def table(
    means: bands.Means,
    measures: Mapping[str, str],
    read: Callable[[pl.DataFrame, str], dict[str, float]],
    prefix: str,
    rivals: tuple[Rival, ...] = RIVALS,
) -> list[str]:
    """Schemes down, measures across, and the name of the cell's spec; `read`: a measure by scheme."""
    columns = {panel: cells(means, panel, read) for panel in measures}
    columns = {panel: found for panel, found in columns.items() if any(found.values())}
    lines = [f"| scheme | {' | '.join(measures[panel] for panel in columns)} | spec |", "|---" + "|--:" * len(columns) + "|---|"]
    for rival in rivals:
        row = [columns[panel][rival.legend] for panel in columns]
        if any(row):
            lines.append(f"| {rival.legend} | {' | '.join(row)} | `{prefix}-{rival.scheme.label}` |")
    return lines


def hardware() -> list[str]:
    return ["| scheme | switches | NICs |", "|---|---|---|", *(f"| {r.legend} | {r.switches} | {r.hosts} |" for r in RIVALS)]


def begun(figure: ModuleType, data: pl.DataFrame, claims: list[dict[str, str]], scale: str, title: str) -> list[str]:
    """What a generated part of the page begins with: the set-up, the scale, the claims."""
    about = (figure.__doc__ or "").strip().split("\n\n")
    seeds = data[bands.SEED].n_unique() if bands.SEED in data.columns else 1
    means = f"means of {seeds} seeds and half of their 95 % intervals" if seeds > 1 else "one seed"
    lines = [*"\n\n".join(about[1:-1]).split("\n"), ""]
    lines += [f"Scale {scale}, {means}. In bold: within 10 % of the best.", ""]
    lines += [f"### {title}", "", "| claim | ours | band | verdict |", "|---|---|---|---|"]
    return lines + [f"| {each['claim']} | {each['ours']} | {each['band']} | {each['verdict']} |" for each in claims]


def numbers(data: pl.DataFrame, claims: list[dict[str, str]], scale: str) -> str:
    """The part of the page that is made of beyond/ultra_ethernet."""
    means = bands.means_of(data)
    lines = begun(ultra_ethernet, data, claims, scale, "The questions, and what was checked")
    for fabric in FABRICS:
        for traffic, name in TRAFFICS.items():
            read = partial(_of_table, fabric=fabric, traffic=traffic)
            lines += ["", f"### {name}, {NAMES[fabric]}", "", *table(means, MEASURES, read, f"{fabric}-{traffic}")]
    lines += ["", "### What hardware each asks for", "", *hardware()]
    return "\n".join(lines)


def _of_table(data: pl.DataFrame, panel: str, fabric: str, traffic: str) -> dict[str, float]:
    return ultra_ethernet.of(data, fabric, traffic, panel)


def of_silent(data: pl.DataFrame, claims: list[dict[str, str]], scale: str) -> str:
    """The part of the page that is made of beyond/silent."""
    means = bands.means_of(data)
    lines = begun(silent, data, claims, scale, "What was checked of a link that dies")
    for fabric in FABRICS:
        for kind in silent.KINDS:
            read = partial(_of_silent, fabric=fabric, kind=kind)
            lines += ["", f"### A link dies: {kind}, {NAMES[fabric]}", ""]
            lines += table(means, silent.MEASURES, read, f"{fabric}-{kind}", silent.ALL)
    return "\n".join(lines)


def _of_silent(data: pl.DataFrame, panel: str, fabric: str, kind: str) -> dict[str, float]:
    return silent.of(data, fabric, kind, panel)


def of_ring(data: pl.DataFrame, claims: list[dict[str, str]], scale: str) -> str:
    """The part of the page that is made of beyond/ring."""
    means = bands.means_of(data)
    lines = begun(ring, data, claims, scale, "What was checked of the ring")
    for fabric in FABRICS:
        read = partial(_of_ring, fabric=fabric)
        lines += [
            "",
            f"### A ring of {ring.RANKS[scale]} ranks, {NAMES[fabric]}",
            "",
            *table(means, ring.MEASURES, read, fabric, ring.SHOWN),
        ]
    return "\n".join(lines)


def _of_ring(data: pl.DataFrame, panel: str, fabric: str) -> dict[str, float]:
    return ring.of(data, fabric, panel)


MADE = {"ultra_ethernet": numbers, "silent": of_silent, "ring": of_ring}


def main(arguments: list[str]) -> int:
    for folder in map(Path, arguments):
        name = folder.name
        claims, said = (json.loads((folder / f"{each}.json").read_text()) for each in ("claims", "summary"))
        before, rest = PAGE.read_text().split(MARKS[name][0])
        found = MADE[name](pl.read_parquet(folder / "data.parquet"), claims, said["scale"])
        PAGE.write_text(f"{before}{MARKS[name][0]}\n\n{found}\n\n{MARKS[name][1]}{rest.split(MARKS[name][1])[1]}")
        PICTURES[name].write_bytes((folder / "figure.png").read_bytes())
        print(f"{PAGE.relative_to(ROOT)}: {name} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
