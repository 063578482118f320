"""BFC (NSDI 2022), figure 14: HPCC with queues per flow beside BFC: slowdown (p99) and buffer.

Section 6.4 on the set-up of figure 11 (a): Facebook distribution, 55 % load and 5 % 100-to-1 incast, see `_fabric`. HPCC-PFC has
no PFC and perfect retransmission; with stochastic fair queueing (+SFQ) or dynamic queue assignment (+DQA) it has 32 queues per
port, as BFC, see `_rivals`. A switch drops a packet when its shared buffer is full, as in the authors' simulator. There a sender
falls to its minimum rate at every drop; the paper does not say so, and here it does not.

(a) 99th percentile of the slowdown by flow size, (b) the buffer in use at a switch, (c), ours, packets dropped.
"""

from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc._fabric import BFC, IDEAL, value
from penstock_papers.bfc._rivals import HPCC_DQA, HPCC_PFC, HPCC_SFQ
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, WORDS, Differs
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

TITLE = "HPCC with queues per flow: slowdown (p99) and buffer, Facebook"
PAPER = "BFC, NSDI 2022, section 6.4, figure 14"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.MAIN_SEEDS
SIZES = "facebook_hadoop"
HPCCS = (HPCC_PFC, HPCC_SFQ, HPCC_DQA)
SCHEMES = (*HPCCS, BFC, IDEAL)
SFQ = "Adding SFQ to HPCC improves short flow latency by isolating them from long flows in different queues"
COLLISIONS = "it still suffers from more collisions (and thus higher tail latency for short flows) than DQA"
NO_BENEFIT = "DQA on its own, however, has no benefit for long flows"
UNABLE = "it is unable to fully utilize the link for long flows, even with DQA"
DEEP = "both HPCC-PFC+SFQ and HPCC-PFC+DQA build deep buffers and experience drops at the same rate as HPCC-PFC"
BETTER = "HPCC-PFC+DQA achieves better tail latency for short flows than both BFC and IdealFQ"
DIFFERS: dict[str, Differs] = {}


_SHORT, _LONG = "flows < 3 KB, p99", "flows > 3 MB, average"
CLAIMS = (
    ascending("sfq", f"{_SHORT}: SFQ helps", SFQ),
    ascending("collisions", f"{_SHORT}: DQA below SFQ", COLLISIONS, quick=False),
    within(
        "no-benefit",
        f"{_LONG}: HPCC-PFC / HPCC-PFC+DQA",
        NO_BENEFIT,
        *WORDS["similar"],
        why="no benefit is a similar number: the band of that word",
    ),
    *(within(f"unable-{base.label}", f"{_LONG}: HPCC-PFC+DQA / {base.legend}", UNABLE, 1, why=MORE) for base in (BFC, IDEAL)),
    *(
        row
        for each in (HPCC_SFQ, HPCC_DQA)
        for row in (
            within(
                f"deep-{each.label}",
                f"buffer in use, p99: {each.legend} / BFC",
                DEEP,
                1.5,
                why=f"deep is half as much again as BFC's, or more; {MORE}",
            ),
            within(
                f"drops-{each.label}",
                f"packets dropped: {each.legend} / HPCC-PFC",
                DEEP,
                *WORDS["similar"],
                why="the same rate is a similar number: the band of that word",
            ),
        )
    ),
    *(
        ascending(f"better-{base.label}", f"{_SHORT}: HPCC-PFC+DQA below {base.legend}", BETTER, quick=False)
        for base in (BFC, IDEAL)
    ),
    fabric.no_drops(),
)


def specs(scale: str) -> dict[str, Spec]:
    """The traffic of figure 11 (a)."""
    return {"incast": fabric.spec(SCHEMES, DURATION[scale], SIZES, incast=0.05)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size or buffer; y: slowdown, CDF or per cent of packets, by panel."""
    return pl.concat(
        part
        for scheme in SCHEMES
        for part in (fabric.everything(runs, "incast", scheme, SIZES), rivals.dropped(runs, "incast", scheme))
    )


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Short flows by the kind of queues, long flows, the buffer and the drops."""
    tail = {each.legend: value(data, "incast", each, "short p99") for each in SCHEMES}
    mean = {each.legend: value(data, "incast", each, "long avg") for each in SCHEMES}
    return {
        "sfq": {name: tail[name] for name in ("HPCC-PFC+SFQ", "HPCC-PFC")},
        "collisions": {name: tail[name] for name in ("HPCC-PFC+DQA", "HPCC-PFC+SFQ")},
        "no-benefit": mean["HPCC-PFC"] / mean["HPCC-PFC+DQA"],
        **{f"unable-{base.label}": mean["HPCC-PFC+DQA"] / mean[base.legend] for base in (BFC, IDEAL)},
        **_buffers(data),
        **{f"better-{base.label}": {name: tail[name] for name in ("HPCC-PFC+DQA", base.legend)} for base in (BFC, IDEAL)},
        "drops": fabric.dropped(data, "incast"),
    }


def _buffers(data: pl.DataFrame) -> Numbers:
    deep = {each.legend: rivals.buffer_at(data, "incast", each, 0.99) for each in SCHEMES}
    lost = {each.legend: value(data, "incast", each, "dropped") for each in HPCCS}
    found: Numbers = {}
    for each in (HPCC_SFQ, HPCC_DQA):
        found |= {
            f"deep-{each.label}": deep[each.legend] / deep["BFC"],
            f"drops-{each.label}": lost[each.legend] / lost["HPCC-PFC"] if lost["HPCC-PFC"] else float("nan"),
        }
    return found


def plot(data: pl.DataFrame) -> Any:
    """Slowdown, buffer, drops."""
    made, grid = figure(1, 3, width=PAGE, height=2.6, gridspec_kw={"width_ratios": (1.25, 1.25, 1)})
    rivals.draw_sizes(grid[0], data, "incast", SCHEMES, "p99")
    rivals.draw_cdf(grid[1], data, "incast", SCHEMES, "buffer", "Buffer in use at a switch (MB)")
    grid[1].set(xlim=(0, 14))
    for place, scheme in enumerate(SCHEMES):
        grid[2].bar(place, value(data, "incast", scheme, "dropped"), 0.7, color=scheme.style["color"])
    names = [scheme.legend.replace("HPCC-PFC+", "+") for scheme in SCHEMES]
    grid[2].set_xticks(range(len(SCHEMES)), names, rotation=40, ha="right")
    grid[2].grid(visible=False, axis="x")
    grid[2].set(ylabel="Packets dropped (%)")
    lettered(grid, ("99th percentile", "buffer", "drops"))
    legend_above(made, grid[0], columns=len(SCHEMES))
    return made
