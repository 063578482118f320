"""Writes the numbers of docs/ultra-ethernet.md, and its picture, from a reproduction of beyond/ultra_ethernet.

penstock reproduce beyond/ultra_ethernet --scale paper --workers 2
python tools/ultra_ethernet.py reproductions/beyond/ultra_ethernet
"""

import json
import sys
from pathlib import Path

import polars as pl

from penstock_papers import bands
from penstock_papers.beyond import ultra_ethernet
from penstock_papers.beyond._ultra_ethernet import FABRICS, MEASURES, NAMES, RIVALS, TRAFFICS
from penstock_papers.beyond.ultra_ethernet import of

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs/ultra-ethernet.md", ROOT / "docs/ultra-ethernet.png"
MARKS = ("<!-- numbers -->", "<!-- end of numbers -->")
NEAR = 1.1  # times the best counts as equally good
BOLD = ("p50", "p99", "max")


def shown(number: float) -> str:
    """Three digits, and "" for what is not there."""
    if number != number:
        return ""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def cell(means: bands.Means, fabric: str, traffic: str, panel: str) -> dict[str, str]:
    """Of each scheme the mean and half of its 95 % interval; in bold what is within a tenth of the least."""
    mean, high = (of(each, fabric, traffic, panel) for each in (means.mean, means.high))
    least = min((number for number in mean.values() if number == number), default=float("nan"))
    found = {}
    for name, number in mean.items():
        half = high[name] - number
        text = shown(number) + (f" ±{shown(float(f'{half:.2g}'))}" if half == half and half > 0.005 * abs(number) > 0 else "")
        found[name] = f"**{text}**" if panel in BOLD and number <= NEAR * least else text
    return found


def table(means: bands.Means, fabric: str, traffic: str) -> list[str]:
    """Schemes down, measures across, and the name of the cell's spec."""
    columns = {panel: cell(means, fabric, traffic, panel) for panel in MEASURES}
    columns = {panel: cells for panel, cells in columns.items() if any(cells.values())}
    lines = [f"| scheme | {' | '.join(MEASURES[panel] for panel in columns)} | spec |", "|---" + "|--:" * len(columns) + "|---|"]
    for rival in RIVALS:
        cells = [columns[panel][rival.legend] for panel in columns]
        if any(cells):
            lines.append(f"| {rival.legend} | {' | '.join(cells)} | `{fabric}-{traffic}-{rival.scheme.label}` |")
    return lines


def hardware() -> list[str]:
    return ["| scheme | switches | NICs |", "|---|---|---|", *(f"| {r.legend} | {r.switches} | {r.hosts} |" for r in RIVALS)]


def numbers(data: pl.DataFrame, claims: list[dict[str, str]], scale: str) -> str:
    """The generated part of the page."""
    means = bands.means_of(data)
    about = (ultra_ethernet.__doc__ or "").strip().split("\n\n")
    seeds = data[bands.SEED].n_unique() if bands.SEED in data.columns else 1
    lines = [*"\n\n".join(about[1:-1]).split("\n"), ""]
    lines += [f"Scale {scale}, means of {seeds} seeds and half of their 95 % intervals. In bold: within 10 % of the best.", ""]
    lines += ["### The questions, and what was checked", "", "| claim | ours | band | verdict |", "|---|---|---|---|"]
    lines += [f"| {each['claim']} | {each['ours']} | {each['band']} | {each['verdict']} |" for each in claims]
    for fabric in FABRICS:
        for traffic, name in TRAFFICS.items():
            lines += ["", f"### {name}, {NAMES[fabric]}", "", *table(means, fabric, traffic)]
    lines += ["", "### What hardware each asks for", "", *hardware()]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    claims, said = (json.loads((folder / f"{name}.json").read_text()) for name in ("claims", "summary"))
    before, rest = PAGE.read_text().split(MARKS[0])
    found = numbers(pl.read_parquet(folder / "data.parquet"), claims, said["scale"])
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{found}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")
    PICTURE.write_bytes((folder / "figure.png").read_bytes())
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
