"""BFC (NSDI 2022), table 1: a long flow against bursty cross-traffic on one 100 Gbit/s link.

A long-lived flow shares a link with Facebook Hadoop cross-traffic at 60 % average load; the minimum round trip is 8 us
(section 2.1). HPCC+SFQ is in table 1 of the longer version (arXiv 1909.09923).

Set-up: leaf-spine with 100 Gbit/s and 1 us per link, so that the round trip is 8 us and the one-hop round trip 2 us.
Sixteen hosts send, each from a rack of its own: the first the long flow, the others the cross-traffic, all to the last
rack, so that the spine's link to that rack is the only one that is short. (The text does not say where on the path the
shared link lies; see docs/differences.md for the first hop.) Flow arrivals are lognormal with sigma 2, as everywhere in
the paper, stretched so that they offer exactly 60 %.

Units: the ideal of 40 % is what 60 % leave, so both are shares of the link with the headers that every packet has
(48 B per 1000 B); what only HPCC adds to a packet counts for neither. The delay is that of flows of one packet: their
completion time less the one they would have alone.

DCQCN is chosen by its two numbers here, see `_dcqcn`. Ours are BFC when a new flow takes the first empty queue, and DCQCN
without a window.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_net import SizeDistribution
from penstock_papers import fluid, frames
from penstock_papers.bfc._variants import NS3, NS3_BESIDE, VARIANTS
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import BLACK, BLUE, GREEN, ORANGE, PAGE, PURPLE, RED, SKY, YELLOW, figure, legend_above, lettered

TITLE = "Throughput of a long flow and queueing delay of single packets"
PAPER = "BFC, NSDI 2022, section 2.1, table 1; HPCC+SFQ: arXiv 1909.09923, table 1"
MTU, HEADER, PS_PER_BYTE = 1000, 48, 80
SENDERS, LOAD, SIGMA = 16, 0.6, 2.0
PER_RACK = 2
LONG_TO, CROSS_TO = PER_RACK * SENDERS, PER_RACK * SENDERS + 1  # the two hosts of the last rack
DURATION_MS = {"quick": 10.0, "paper": 100.0}
SEEDS = {"paper": 20}  # fewer left a claim undecided
TRAFFIC = "cross"
WARM_UP = 0.1
SCHEMES: dict[str, dict[str, Any]] = {
    "BFC": NS3,
    f"BFC, {NS3_BESIDE['assignment']}": NS3_BESIDE,
    "HPCC": {"name": VARIANTS["hpcc"]},
    "HPCC+SFQ": {"name": f"{VARIANTS['hpcc']}+dqa:stochastic"},
    "DCQCN": {"name": VARIANTS["dcqcn"]},
    "DCQCN, no window": {"name": "dcqcn"},
    "Ideal-FQ": {"name": "ideal_fq"},
}
THROUGHPUT = {"BFC": 37.3, "HPCC": 22.9, "HPCC+SFQ": 21.9, "DCQCN": 10.0, "Ideal-FQ": 40.0}
DELAY_US = {"BFC": 1.2, "HPCC": 23.9, "HPCC+SFQ": 15.9, "DCQCN": 30.4}
DIFFERS: dict[str, Differs] = {}
COLOURS = dict(zip(SCHEMES, (BLUE, SKY, RED, PURPLE, ORANGE, YELLOW, GREEN)))


BANDS = ("HPCC", "HPCC+SFQ", "DCQCN")
CLAIMS = (
    within(
        "ideal",
        "Ideal-FQ: throughput of the long flow, %",
        "ideal throughput (40%) for the long flow",
        39,
        41,
        why="what 60 % leave, to a point of 1 %",
    ),
    within(
        "throughput-bfc",
        "BFC: throughput of the long flow, %",
        "37.3",
        35,
        40,
        why="from the ideal of 40 % to about as much below the paper's number",
    ),
    about("delay-bfc", "BFC: p99 queueing delay of single packets, us", "1.2", DELAY_US["BFC"], quick=True),
    ascending("order-throughput", "throughput of the long flow, %", "10.0 < 22.9 < 37.3", kind=OURS),
    ascending("order-delay", "p99 queueing delay of single packets, us", "1.2 < 15.9 < 23.9 < 30.4", quick=False, kind=OURS),
    *(
        within(
            f"{what}-{label.lower()}",
            f"{label}: {text}",
            f"{paper[label]}",
            0.7 * paper[label],
            1.3 * paper[label],
            why="30 % of the paper's number either way, stricter than its half and double",
        )
        for what, text, paper in (
            ("throughput", "throughput of the long flow, %", THROUGHPUT),
            ("delay", "p99 queueing delay of single packets, us", DELAY_US),
        )
        for label in BANDS
    ),
)


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """One traffic with all schemes."""
    flows, end_ps = cross_traffic(seed, DURATION_MS[scale])
    spec = {
        "run": {"duration": f"{end_ps}ps", "drain": False, "seed": seed},
        "topology": {"kind": "leaf_spine", "hosts": PER_RACK * (SENDERS + 1), "tors": SENDERS + 1, "spines": 1},
        "scheme": [{**scheme, "label": label} for label, scheme in SCHEMES.items()],
        "workload": [
            {"kind": "list", "class": "long", "flows": [[0, LONG_TO, "100GB", "0s"]]},
            {"kind": "list", "class": "cross", "flows": flows},
        ],
        "measure": {"sample": "100us", "flow_series": True},
    }
    return {TRAFFIC: spec}


def cross_traffic(seed: int, duration_ms: float) -> tuple[list[list[Any]], int]:
    """Flows (src, dst, bytes, start) of all senders but the first, and the time after the last arrival."""
    rng = np.random.default_rng([1, seed])
    sizes = SizeDistribution.load("facebook_hadoop")
    count = round(duration_ms * 1e9 * LOAD / (sizes.mean() * (MTU + HEADER) / MTU * PS_PER_BYTE))
    drawn = np.asarray(sizes.sample(rng, count))
    work_ps = (drawn + HEADER * np.ceil(drawn / MTU)) * PS_PER_BYTE
    starts = fluid.offered(fluid.lognormal_gaps(rng, count, SIGMA), work_ps, LOAD)
    src = PER_RACK * rng.integers(1, SENDERS, count)
    flows = [[int(host), CROSS_TO, int(size), f"{int(start)}ps"] for host, size, start in zip(src, drawn, starts)]
    return flows, int(starts[-1]) + 1


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "throughput": y in percent of the link; "delay", "median delay": y in us; "packets": how many; series: the scheme."""
    parts = []
    for label in SCHEMES:
        throughput, delays = one_run(runs[f"{TRAFFIC}/{label}"])
        numbers = {
            "throughput": throughput,
            "delay": np.percentile(delays, 99),
            "median delay": np.median(delays),
            "packets": len(delays),
        }
        parts += [frames.rows(panel, label, [0], [number]) for panel, number in numbers.items()]
    return pl.concat(parts)


def by_scheme(data: pl.DataFrame, panel: str) -> dict[str, float]:
    """The numbers of one panel."""
    return {label: frames.value(data, panel=panel, series=label) for label in SCHEMES}


def one_run(run: Any) -> tuple[float, np.ndarray]:
    """Throughput in percent, and the queueing delays in us of the flows of one packet."""
    flow = run.selected("long")["flow_id"][0]
    acked = run.frame("flow_series").filter(pl.col("flow_id") == flow).sort("time_ns")
    acked = acked.filter(pl.col("time_ns") >= WARM_UP * acked["time_ns"][-1])
    sent = (acked["acked_bytes"][-1] - acked["acked_bytes"][0]) * (MTU + HEADER) / MTU
    busy_ns = sent * PS_PER_BYTE / 1000
    single = run.selected("cross").filter((pl.col("bytes") <= MTU) & pl.col("fct_ns").is_not_null())
    delays = (single["fct_ns"] - single["ideal_fct_ns"]).to_numpy() / 1000
    return 100 * busy_ns / (acked["time_ns"][-1] - acked["time_ns"][0]), delays


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """BFC's absolute numbers, and bands of 30 % for the others; ours: two orders."""
    throughput, delay = by_scheme(data, "throughput"), by_scheme(data, "delay")
    return {
        "ideal": throughput["Ideal-FQ"],
        "throughput-bfc": throughput["BFC"],
        "delay-bfc": delay["BFC"],
        "order-throughput": {label: throughput[label] for label in ("DCQCN", "HPCC", "BFC")},
        "order-delay": {label: delay[label] for label in ("BFC", "HPCC+SFQ", "HPCC", "DCQCN")},
        **{f"throughput-{label.lower()}": throughput[label] for label in BANDS},
        **{f"delay-{label.lower()}": delay[label] for label in BANDS},
    }


def plot(data: pl.DataFrame) -> Any:
    """The two columns of the table as bars, with the paper's numbers as diamonds."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.8, sharey=True)
    names = list(SCHEMES)
    _bars(left, by_scheme(data, "throughput"), THROUGHPUT, names)
    _bars(right, by_scheme(data, "delay"), DELAY_US, names)
    left.set_yticks(range(len(names)), names)
    left.invert_yaxis()
    left.set(xlabel="Throughput of the long flow (% of the link)", xlim=(0, 55))
    right.set(xlabel="p99 queueing delay of single packets (us)", xscale="log", xlim=(0.5, 3000))
    right.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    lettered((left, right), ("long flow", "single packets"))
    legend_above(made, left, columns=2)
    return made


def _bars(panel: Any, ours: dict[str, float], paper: dict[str, float], names: list[str]) -> None:
    panel.grid(visible=False, axis="y")
    panel.barh(
        range(len(names)),
        [ours[name] for name in names],
        height=0.5,
        color=[COLOURS[name] for name in names],
        alpha=0.85,
        label="penstock",
    )
    known = [(paper[name], row) for row, name in enumerate(names) if name in paper]
    panel.plot(*zip(*known), "D", color="white", mec=BLACK, ms=5, label="paper (in brackets)")
    for row, name in enumerate(names):
        text = f"{ours[name]:.3g}" + (f"  ({paper[name]:.3g})" if name in paper else "")
        right = max(ours[name], paper.get(name, 0))
        panel.annotate(text, (right, row), (6, 8), textcoords="offset points", va="center", fontsize=8)
