"""Writes docs/comparison.md: runs beyond/comparison, or takes what a cache or an earlier reproduction has of it.

python tools/comparison.py                       # run it (about ten minutes) and write the page
python tools/comparison.py FOLDER                # write the page from a reproduction
"""

import json
import sys
from pathlib import Path

import polars as pl

from penstock_papers.beyond import comparison
from penstock_papers.beyond.comparison import IDEALS, METRICS, SCHEMES, TRAFFICS
from penstock_papers.floodgate._setup import value
from penstock_papers.framework import reproduce

ROOT = Path(__file__).resolve().parents[1]
NEAR = 1.1  # times the best counts as equally good
GOALS = (
    ("Short tail of the other flows during an incast, small messages", "victims", "memcached"),
    ("The same, medium flows", "victims", "web_server"),
    ("The same, large flows, an incast every few milliseconds", "victims", "web_search"),
    ("Mean completion time with incasts, medium flows", "average", "web_server"),
    ("Mean completion time with incasts, large flows", "average", "web_search"),
    ("No incast, tail", "p99", "calm"),
    ("No incast, mean", "average", "calm"),
    ("Least buffer, medium flows with an incast", "buffer", "web_server"),
    ("Least buffer, many incasts at once", "buffer", "successive"),
    ("Shortest completion time of the incast itself", "incast", "successive"),
)


def shown(number: float) -> str:
    if number != number:
        return ""
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def table(data: pl.DataFrame, traffic: str) -> list[str]:
    """Schemes down, metrics across; the best that can be built in bold."""
    metrics = [m for m in METRICS if any(value(data, m, s.legend, traffic) == value(data, m, s.legend, traffic) for s in SCHEMES)]
    lines = [f"| scheme | {' | '.join(METRICS[m] for m in metrics)} |", "|---" + "|--:" * len(metrics) + "|"]
    best = {m: min(value(data, m, s.legend, traffic) for s in SCHEMES if s.legend not in IDEALS) for m in metrics}
    for s in SCHEMES:
        cells = []
        for m in metrics:
            number = value(data, m, s.legend, traffic)
            bold = "**" if number == best[m] and s.legend not in IDEALS and m not in ("pfc", "control") else ""
            cells.append(f"{bold}{shown(number)}{bold}")
        lines.append(f"| {s.legend} | {' | '.join(cells)} |")
    return lines


def choice(data: pl.DataFrame, goal: str, metric: str, traffic: str) -> str:
    """The best, what comes within ten per cent of it, and the worst."""
    all_of = {s.legend: value(data, metric, s.legend, traffic) for s in SCHEMES if s.legend not in IDEALS}
    ranked = sorted(all_of, key=all_of.__getitem__)
    best = all_of[ranked[0]]
    near = [f"{n} ({shown(all_of[n])})" for n in ranked[1:] if all_of[n] <= NEAR * best]
    return (
        f"| {goal} | {METRICS[metric]} | {ranked[0]} ({shown(best)}) | {', '.join(near) or 'none'} | "
        f"{ranked[-1]} ({shown(all_of[ranked[-1]])}) |"
    )


def page(folder: Path) -> str:
    data = pl.read_parquet(folder / "data.parquet")
    said = json.loads((folder / "summary.json").read_text())
    judged = json.loads((folder / "claims.json").read_text())
    about = (comparison.__doc__ or "").strip().split("\n\n")
    lines = [
        "# Floodgate or BFC: which to use when",
        "",
        "<!-- written by tools/comparison.py; do not edit -->",
        "",
        f"Made by `python tools/comparison.py`, at scale {said['scale']}.",
        "",
        *[paragraph.replace("\n", " ") for block in about[1:3] for paragraph in (block, "")],
        "## Which to use when",
        "",
        "Of the schemes that can be built: BFC ideal (1024 queues per port) and Floodgate ideal (a credit per packet, paused "
        "hosts) are left out.",
        "",
        "| you want | measured by | best | within 10 % | worst |",
        "|---|---|---|---|---|",
        *[choice(data, *goal) for goal in GOALS],
        "",
        "![tail of the victims and buffer](comparison.png)",
        "",
    ]
    for traffic, name in TRAFFICS.items():
        lines += [f"## {name}", "", *table(data, traffic), ""]
    lines += ["## What was checked", "", "| claim | ours | verdict |", "|---|---|---|"]
    lines += [f"| {c['claim']} | {c['ours']} | {c['verdict']} |" for c in judged]
    return "\n".join([*lines, ""])


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else reproduce("beyond/comparison", scale="paper").out
    (ROOT / "docs/comparison.md").write_text(page(folder))
    (ROOT / "docs/comparison.png").write_bytes((folder / "figure.png").read_bytes())
    print("docs/comparison.md written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
