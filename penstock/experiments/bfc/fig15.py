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

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc._cc import BFC_CC
from penstock.experiments.bfc._fabric import BFC, BFC_128, IDEAL, Scheme, points, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import MORE, OURS, Claim, ascending, within
from penstock.experiments.style import BLACK, BLUE, GREEN, PAGE, SKY, figure, legend_above, lettered, log_axis

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


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """How far each variant is from Ideal-FQ below and above its queues."""
    if scale == "quick":
        return [_order(data, "direct", max(ELEPHANTS[scale]))]
    bfc_32, bfc_128, *_ = SCHEMES
    found = [_order(data, group, 512) for group in GROUPS]
    for group, said, few, many in (("direct", DIRECT, (16, 64), (64, 256)), ("indirect", INDIRECT, (128, 512), (512, None))):
        for scheme, (below, above) in ((bfc_32, few), (bfc_128, many)):
            where = f"{group} mice, median: {scheme.legend} / Ideal-FQ"
            id = f"{group}-{scheme.label}"
            ratio = _over_ideal(data, group, scheme, below)
            why = "no degradation is a factor of 1.25 at most, as comparable is"
            found.append(within(f"{id}-below", f"{where}, {below} elephants", said, ratio, 0.8, 1.25, why=why))
            if above:
                ratio = _over_ideal(data, group, scheme, above)
                why = f"degrades: a factor of 1.5 or more, as substantially is; {MORE}"
                found.append(within(f"{id}-above", f"{where}, {above} elephants", said, ratio, 1.5, why=why))
    ratios = [_over_ideal(data, group, BFC_CC, n) for group in GROUPS for n in ELEPHANTS[scale]]
    for id, what, number in (("largest", "largest", max(ratios)), ("smallest", "smallest", min(ratios))):
        why = "close is at most half as much again, as in figure 12"
        text = f"{BFC_CC.legend} / Ideal-FQ, {what}"
        found.append(within(f"cc-{id}", text, CLOSE, number, 1 / 1.5, 1.5, why=why))
    return found


def _order(data: pl.DataFrame, group: str, elephants: int) -> Claim:
    """Congestion control helps these mice."""
    numbers = {scheme.legend: _at(data, group, scheme, elephants) for scheme in (BFC_CC, BFC_32)}
    return ascending(f"{group}-order", f"{elephants} elephants: {group} mice, median", CLOSE, numbers, kind=OURS)


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
