"""Writes the numbers of docs/which-scheme.md: runs beyond/which_scheme at scale quick, or takes an earlier reproduction.

python tools/which_scheme.py                     # run it (some ten minutes) and write the page
python tools/which_scheme.py FOLDER              # write the page from a reproduction
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import polars as pl

from penstock_net.errors import ClaimFailed
from penstock_papers import bands, frames
from penstock_papers.beyond import which_scheme
from penstock_papers.beyond.which_scheme import IDEALS, MEASURES, TRAFFICS, of
from penstock_papers.framework import reproduce

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/which-scheme.md"
MARKS = ("<!-- numbers -->", "<!-- end of numbers -->")
COLUMNS = {**MEASURES, "drops": "packets dropped"}
NEAR = 1.1  # times the best counts as equally good


def shown(number: float) -> str:
    if number != number:
        return ""
    return f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def table(data: pl.DataFrame, traffic: str) -> list[str]:
    """Schemes down, measures across; the best ones that can be built in bold."""
    found = {panel: of(data, traffic, panel) for panel in COLUMNS}
    found = {panel: numbers for panel, numbers in found.items() if any(number == number for number in numbers.values())}
    lines = [f"| scheme | {' | '.join(COLUMNS[panel] for panel in found)} |", "|---" + "|--:" * len(found) + "|"]
    good = {panel: best(panel, numbers) for panel, numbers in found.items()}
    for name in next(iter(found.values())):
        cells = [f"**{shown(found[p][name])}**" if name in good[p] else shown(found[p][name]) for p in found]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def best(panel: str, numbers: dict[str, float]) -> set[str]:
    """The schemes within ten per cent of the best one that can be built; none for what is not compared."""
    built = {name: number for name, number in numbers.items() if name not in IDEALS and number == number}
    if panel not in ("tail", "mean"):
        return set()
    return {name for name, number in built.items() if number <= NEAR * min(built.values())}


def numbers(folder: Path) -> str:
    """The generated part of the page."""
    means = bands.means_of(pl.read_parquet(folder / "data.parquet"))
    data = means.mean
    judged = json.loads((folder / "claims.json").read_text())
    about = (which_scheme.__doc__ or "").strip().split("\n\n")
    lines = [*"\n\n".join(about[1:5]).replace("docs/which-scheme.md", "This page").split("\n"), ""]
    lines += ["Dropped packets include credits, which ExpressPass drops by design.", ""]
    lines += ["In bold: within 10 % of the best scheme that can be built (Ideal-FQ and Ideal-SRF cannot).", ""]
    lines += [spread(means), ""]
    for traffic, name in TRAFFICS.items():
        lines += [f"### {name}", "", *table(data, traffic), ""]
    lines += ["### What was checked", "", "| claim | ours | verdict |", "|---|---|---|"]
    lines += [f"| {claim['claim']} | {claim['ours']} | {claim['verdict']} |" for claim in judged]
    return "\n".join(lines)


def spread(means: bands.Means) -> str:
    """How wide the intervals of both slowdowns are, relative to them."""
    parts = []
    for panel in ("tail", "mean"):
        both = (frames.chosen(each, panel=panel)["y"].to_numpy() for each in (means.mean, means.high))
        half = [100 * (high / mean - 1) for mean, high in zip(*both) if mean == mean]
        median, ninth = np.quantile(half, (0.5, 0.9))
        what = MEASURES[panel].split(", ")[1]
        parts.append(f"of the {what} {median:.2g} % in the median, more than {ninth:.2g} % in a tenth of the cases")
    return f"Numbers are means of {which_scheme.SEEDS['quick']} seeds. Half of the 95 % interval is, {'; '.join(parts)}."


def reproduced() -> Path:
    """The folder of a reproduction made now; a claim that fails is on the page."""
    folder = Path("reproductions/beyond/which_scheme")
    with suppress(ClaimFailed):
        reproduce("beyond/which_scheme", scale="quick", out=folder)
    return folder


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else reproduced()
    before, rest = PAGE.read_text().split(MARKS[0])
    PAGE.write_text(f"{before}{MARKS[0]}\n\n{numbers(folder)}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")
    (ROOT / "docs/which-scheme.png").write_bytes((folder / "figure.png").read_bytes())
    print("docs/which-scheme.md written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
