"""BFC (NSDI 2022), figure 15: median slowdown of mice beside long-running flows to one receiver.

Appendix A.1, on the fabric of section 6.2.1 (see `_fabric`). So many elephants to receiver A start together; "direct" mice go
to A, "indirect" ones to B in A's rack, 1 KB each and 3 % of the link's capacity per group. The text leaves open who sends: here
hosts of other racks, elephants in turn, mice at random with exponential gaps. The numbers of elephants are chosen around the 32
and 128 queues and 8 times as many. 20 ms (quick: 4 ms); counted are mice that start in the third quarter, because the elephants
begin at line rate and Algorithm 1 takes less than a packet off a window per ACK; the slowdown of those that do not finish counts
as infinite.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._cc import BFC_CC
from penstock_papers.bfc._fabric import BFC, BFC_128, IDEAL, Scheme, points, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, WORDS
from penstock_papers.sentences import Numbers, Row, ascending, within
from penstock_papers.style import BLACK, BLUE, GREEN, PAGE, SKY, figure, legend_above, lettered, log_axis

TITLE = "Mice beside long-running flows to one receiver"
PAPER = "BFC, NSDI 2022, appendix A.1, figure 15"
ELEPHANTS = {"quick": (16, 64, 256), "paper": (8, 16, 32, 64, 128, 256, 512, 1024)}
DURATION_US = {"quick": 4000, "paper": 20_000}
SEEDS = {"paper": 10}  # fewer left a claim undecided
A, B, OTHERS = 112, 113, 112  # hosts of the last rack; hosts of the others
GROUPS = {"direct": A, "indirect": B}
BFC_32 = replace(BFC, legend="BFC 32")
SCHEMES = (BFC_32, replace(BFC_128, legend="BFC 128"), BFC_CC, IDEAL)
COLOURS = dict(zip((scheme.label for scheme in SCHEMES), (BLUE, SKY, GREEN, BLACK)))
DIRECT = "for direct mice flows, the FCT degrades when the number of long-running flows exceeds the number of queues"
INDIRECT = "For indirect flows, the degradation only happens when long flows exceed 8x the number of queues"
CLOSE = "The performance is close to IdealFQ in all the cases"
_BELOW = "no degradation is comparable: the band of that word"
_ABOVE = f"degrades: a factor of 1.5 or more, as substantially is; {MORE}"
REACH = (  # mice, what is said of them, variant, elephants that do no harm and that do
    ("direct", DIRECT, SCHEMES[0], 16, 64),
    ("direct", DIRECT, SCHEMES[1], 64, 256),
    ("indirect", INDIRECT, SCHEMES[0], 128, 512),
    ("indirect", INDIRECT, SCHEMES[1], 512, None),
)


def _reach_rows(id: str, where: str, said: str, below: int, above: int | None) -> list[Row]:
    kept = within(f"{id}-below", f"{where}, {below} elephants", said, *WORDS["comparable"], why=_BELOW)
    return [kept, *([within(f"{id}-above", f"{where}, {above} elephants", said, 1.5, why=_ABOVE)] if above else [])]


_PAPER = (
    *(ascending(f"{group}-order", f"512 elephants: {group} mice, median", CLOSE, kind=OURS) for group in GROUPS),
    *(
        row
        for group, said, scheme, below, above in REACH
        for row in _reach_rows(f"{group}-{scheme.label}", f"{group} mice, median: {scheme.legend} / Ideal-FQ", said, below, above)
    ),
    within(
        "cc-largest",
        f"{BFC_CC.legend} / Ideal-FQ, largest",
        CLOSE,
        None,
        1.5,
        why="close is at most half as much again, as in figure 12; an ideal that is bettered has been reached",
    ),
    within(
        "cc-smallest",
        f"{BFC_CC.legend} / Ideal-FQ, smallest",
        "not far below the ideal either",
        1 / 1.5,
        why="the same factor downwards; its upper end is that of the largest",
        kind=OURS,
    ),
)
CLAIMS = (
    ascending("direct-order", "256 elephants: direct mice, median", CLOSE, kind=OURS).at("quick"),
    *(row.at("paper") for row in _PAPER),
)


def specs(scale: str) -> dict[str, Spec]:
    """A spec per number of elephants."""
    return {f"elephants{n}": _spec(n, DURATION_US[scale]) for n in ELEPHANTS[scale]}


def _spec(elephants: int, duration_us: int) -> Spec:
    mice = {"kind": "incast", "fan_in": 1, "size": "1KB", "arrivals": "exponential", "load": 0.03, "load_on": "receiver"}
    return {
        "run": {"duration": f"{duration_us}us", "drain": False},
        "topology": fabric.FABRIC,
        "scheme": [{**scheme.table, "label": scheme.label} for scheme in SCHEMES],
        "workload": [
            {"kind": "list", "class": "elephants", "flows": [[i % OTHERS, A, "1GB", "0s"] for i in range(elephants)]},
            *({**mice, "class": name, "receivers": [to], "hosts": list(range(OTHERS))} for name, to in GROUPS.items()),
        ],
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels direct and indirect: x elephants, y median slowdown by the sender's clock."""
    parts = [
        points(group, scheme, group, [n], [median(runs, f"elephants{n}/{scheme.label}", group, DURATION_US[scale])])
        for scheme in SCHEMES
        for group in GROUPS
        for n in ELEPHANTS[scale]
    ]
    return pl.concat(parts)


def median(runs: Runs, label: str, group: str, duration_us: int) -> float:
    """Of the mice of a group; infinite if half of them do not finish."""
    flows = runs.scan(label, "flows").filter(pl.col("class").cast(pl.String) == group)
    kept = flows.filter(pl.col("start_ns").is_between(500 * duration_us, 750 * duration_us))
    return float(kept.select(pl.col("sender_slowdown").fill_null(float("inf")).median()).collect().item())


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """How far each variant is from Ideal-FQ below and above its queues."""
    if scale == "quick":
        return {"direct-order": _order(data, "direct", 256)}
    found: Numbers = {f"{group}-order": _order(data, group, 512) for group in GROUPS}
    for group, _, scheme, below, above in REACH:
        found[f"{group}-{scheme.label}-below"] = _over_ideal(data, group, scheme, below)
        if above:
            found[f"{group}-{scheme.label}-above"] = _over_ideal(data, group, scheme, above)
    ratios = [_over_ideal(data, group, BFC_CC, n) for group in GROUPS for n in ELEPHANTS[scale]]
    return {**found, "cc-largest": max(ratios), "cc-smallest": min(ratios)}


def _order(data: pl.DataFrame, group: str, elephants: int) -> dict[str, float]:
    """Congestion control helps these mice."""
    return {scheme.legend: _at(data, group, scheme, elephants) for scheme in (BFC_CC, BFC_32)}


def _at(data: pl.DataFrame, group: str, scheme: Scheme, elephants: int) -> float:
    return value(data.filter(pl.col("x") == elephants), group, scheme, group)


def _over_ideal(data: pl.DataFrame, group: str, scheme: Scheme, elephants: int) -> float:
    return _at(data, group, scheme, elephants) / _at(data, group, IDEAL, elephants)


def plot(data: pl.DataFrame) -> Any:
    """Direct and indirect mice by the number of elephants."""
    made, panels = figure(1, 2, width=PAGE, height=2.6, sharey=True)
    for axes, group in zip(panels, GROUPS):
        for scheme in SCHEMES:
            line = fabric.curve(data, group, scheme.label, group).filter(pl.col("y").is_finite()).sort("x")
            axes.plot(line["x"], line["y"], **{**scheme.style, "color": COLOURS[scheme.label]}, label=scheme.legend)
        for axis in (axes.xaxis, axes.yaxis):
            log_axis(axis, None, (1, 2, 5))
        axes.set(xlabel="Long-running flows", ylabel="FCT slowdown, median")
    lettered(panels, ("direct mice", "indirect mice"))
    legend_above(made, panels[0], columns=4)
    return made
