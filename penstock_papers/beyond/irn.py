"""Beyond the papers: IRN beside RoCE, each with and without PFC (Mittal et al., SIGCOMM 2018).

Claims: the abstract's, "IRN (without PFC) outperforms RoCE (with PFC) by 6-83% for typical network scenarios", of the three
metrics of section 4, average slowdown, average and 99th percentile of the completion time, without congestion control, with
TIMELY and with DCQCN; that IRN does not need PFC, and that RoCE does.  The factors of section 4, 2.8 to 3.7 without congestion
control and 1.5 to 2.2 with it, were taken from notes, not from the text, and are claims of our own.

Set-up of section 4.1: a fat tree of 54 hosts, full bisection, 40 Gbit/s, 2 us per link, ECMP; packets of 1000 B; Poisson arrivals
between random hosts, 70 % of the hosts' links.  Half of the flows have a packet of 32 B to 1 KB, 15 % 200 KB to 3 MB; the rest
lies between. The distribution itself is not published: sizes are log-uniform in each of the three ranges.  Each ingress has a
buffer of 240 KB of its own: with PFC it pauses beyond 220 KB, and its headroom, 20 KB there, is what our links need, 47 KB;
without, the scheme `pfc` has two priorities that pause nobody, each with 240 KB, and one of them is used.  IRN: 120 KB in flight,
timeouts of 100 and 320 us.  RoCE: go-back-N without a limit in flight, no timeouts with PFC, 320 us without; here timeouts back
off, and a NACK for the same packet is repeated after 500 us.  TIMELY and DCQCN have the parameters of their papers and begin at
line rate.

40 ms of arrivals, three seeds; all flows finish.  RoCE without PFC or congestion control collapses: it is compared in 1 ms.
Scale quick: 1 ms.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLUE, ORANGE, PAGE, SKY, figure, legend_above, lettered

TITLE = "IRN beside RoCE, with and without PFC"
PAPER = "Beyond the papers: IRN, SIGCOMM 2018, section 4"
HOSTS, GBPS, LOAD, PORTS = 54, 40, 0.7, 6
TREE: dict[str, Any] = {"kind": "fat_tree", "k": PORTS, "rate": f"{GBPS}Gbps", "delay": "2us"}
RANGES = ((32, 1e3), (1e3, 2e5), (2e5, 3e6))
SHARES = (0.5, 0.35, 0.15)
MS = {"quick": 1, "paper": 40}
SHORT = 1  # ms, of RoCE without PFC
SEEDS = {"paper": 3}
NEVER = "10s"
PAUSING = {"alpha": 0, "reserve": "220KB"}
DROPPING = {"alpha": 0, "reserve": "240KB", "priorities": 2, "lossless": []}
CONTROLS = {"none": "", "TIMELY": "timely", "DCQCN": "dcqcn"}
IRN, IRN_PFC, ROCE, ROCE_PFC = "IRN", "IRN+PFC", "RoCE", "RoCE+PFC"
COLOURS = {ROCE_PFC: ORANGE, IRN: BLUE, IRN_PFC: SKY}
METRICS = {"slowdown": "average slowdown", "fct": "average FCT (ms)", "tail": "FCT p99 (ms)"}
ABSTRACT = "IRN (without PFC) outperforms RoCE (with PFC) by 6-83% for typical network scenarios"
DIFFERS: dict[str, Differs] = {}
FACTORS = {"none": (2.8, 3.7), "TIMELY": (1.5, 2.2), "DCQCN": (1.5, 2.2)}
CLAIMS = (
    *(
        row
        for control, (low, high) in FACTORS.items()
        for metric, name in METRICS.items()
        for row in (
            within(
                f"{control.lower()}-{metric}",
                f"congestion control {control}: {name.removesuffix(' (ms)')} of IRN without PFC, below that of RoCE with it, %",
                ABSTRACT,
                6,
                83,
                why="the range of the abstract",
            ),
            within(
                f"factor-{control.lower()}-{metric}",
                f"congestion control {control}: {name.removesuffix(' (ms)')}: RoCE with PFC / IRN without",
                f"{low} to {high}",
                max(low / 2, 1.06),
                2 * high,
                why="half of the lower and double of the upper number, and better than RoCE: the sizes are not published",
                kind=OURS,
            ),
        )
    ),
    within(
        "irn-needs-none",
        "IRN with PFC / without, least of all metrics and congestion controls",
        "IRN eliminates the need for PFC",
        0.95,
        why=f"PFC gains less than 5 %, what seeds differ; {MORE}",
    ),
    within(
        "irn-pfc",
        "without congestion control: IRN with PFC / without, least of all metrics",
        "pauses spread congestion, drops do not",
        1,
        why="PFC does not help where most packets are dropped; how much it costs is not in the abstract",
        kind=OURS,
    ),
    holds(
        "roce-needs-it",
        "without congestion control: RoCE without PFC is worse than with it by every metric",
        "To achieve good performance, RoCE requires a lossless network",
        "ratios above 1",
        quick=False,
    ),
)


def specs(scale: str, seed: int = 1) -> dict[str, Spec]:
    """One for each transport over the same flows, whose schemes are the congestion controls; two of RoCE in a short time."""
    made = {transport: _spec(transport, tuple(CONTROLS), MS[scale], seed) for transport in COLOURS}
    return made | {f"short-{transport}": _spec(transport, ("none",), SHORT, seed) for transport in (ROCE, ROCE_PFC)}


def _spec(transport: str, controls: tuple[str, ...], ms: int, seed: int) -> Spec:
    lossless, irn = transport.endswith("+PFC"), transport.startswith(IRN)
    host = {} if irn else {"host": {"rto": NEVER if lossless else "320us"}}
    return {
        "run": {"duration": f"{ms}ms", "seed": seed},
        "topology": {**TREE, "buffer": f"{PORTS * (267 if lossless else 484)}KB"},
        "scheme": [_table(name, irn, lossless) for name in controls],
        "workload": [{"kind": "list", "flows": flows(ms, seed)}],
        "measure": {"sample": "0s"},
        **host,
    }


def _table(control: str, irn: bool, lossless: bool) -> dict[str, Any]:
    first, pfc = CONTROLS[control] or "pfc", PAUSING if lossless else DROPPING
    if first == "pfc" and not irn:
        return {"name": first, "label": control, **pfc}
    table = {"name": first + "+recovery:irn" * irn, "label": control, "pfc": pfc}
    return {**table, "recovery": {"cap": "120KB"}} if irn else table


def flows(ms: int, seed: int) -> list[list[Any]]:
    """Sender, receiver, bytes and start of each."""
    r = np.random.default_rng([54, seed, ms])
    mean = sum(share * (high - low) / np.log(high / low) for share, (low, high) in zip(SHARES, RANGES))
    starts = np.cumsum(
        r.exponential(mean * 8 / (LOAD * HOSTS * GBPS), int(2 * ms * 1e6 * LOAD * HOSTS * GBPS / (8 * mean)) + 100)
    )
    starts = starts[starts < ms * 1e6]
    low, high = np.log(RANGES)[r.choice(3, len(starts), p=SHARES)].T
    sizes = np.exp(r.uniform(low, high)).astype(int)
    src, step = r.integers(0, HOSTS, len(starts)), r.integers(1, HOSTS, len(starts))
    return [[int(a), int((a + s) % HOSTS), int(size), f"{1000 * at:.0f}ps"] for a, s, size, at in zip(src, step, sizes, starts)]


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """A panel for each metric, x the number of the congestion control, and the share of packets dropped; "short-METRIC"."""
    parts = []
    for transport in COLOURS:
        for x, control in enumerate(CONTROLS):
            found = _numbers(runs[f"{transport}/{control}"])
            parts += [frames.rows(panel, transport, [x], [number]) for panel, number in found.items()]
    for transport in (ROCE, ROCE_PFC):
        found = _numbers(runs[f"short-{transport}"])
        parts += [frames.rows(f"short-{panel}", transport, [0], [number]) for panel, number in found.items()]
    return pl.concat(parts)


def _numbers(run: Any) -> dict[str, float]:
    fct = run.flows["fct_ns"] / 1e6
    packets = int(((run.flows["bytes"] + 999) // 1000).sum()) + int(run.summary["retransmissions"])
    return {
        "slowdown": run.flows["slowdown"].mean(),
        "fct": fct.mean(),
        "tail": fct.quantile(0.99, "linear"),
        "dropped": 100 * int(run.summary["drops"]) / packets,
    }


def ratios(data: pl.DataFrame, over: str, under: str) -> dict[tuple[str, str], float]:
    """Of two transports, by congestion control and metric."""
    return {
        (control, metric): frames.value(data, panel=metric, series=over, x=x)
        / frames.value(data, panel=metric, series=under, x=x)
        for x, control in enumerate(CONTROLS)
        for metric in METRICS
    }


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The abstract's, and section 4's factors."""
    found: Numbers = {}
    for (control, metric), ratio in ratios(data, ROCE_PFC, IRN).items():
        found[f"{control.lower()}-{metric}"] = 100 * (1 - 1 / ratio)
        found[f"factor-{control.lower()}-{metric}"] = ratio
    with_pfc = ratios(data, IRN_PFC, IRN)
    lossy = {
        metric: frames.value(data, panel=f"short-{metric}", series=ROCE)
        / frames.value(data, panel=f"short-{metric}", series=ROCE_PFC)
        for metric in METRICS
    }
    return {
        **found,
        "irn-needs-none": min(with_pfc.values()),
        "irn-pfc": min(with_pfc["none", metric] for metric in METRICS),
        "roce-needs-it": (min(lossy.values()) > 1, frames.text(lossy)),
    }


def plot(data: pl.DataFrame) -> Any:
    """A panel for each metric, three bars for each congestion control."""
    made, grid = figure(1, 3, width=PAGE, height=2.5)
    for axes, (metric, label) in zip(grid, METRICS.items()):
        for place, (transport, colour) in enumerate(COLOURS.items()):
            part = frames.chosen(data, panel=metric, series=transport).sort("x")
            axes.bar(part["x"] + 0.25 * (place - 1), part["y"], 0.25, lw=0, color=colour, label=transport)
        axes.set_xticks(range(len(CONTROLS)), list(CONTROLS))
        axes.set(ylabel=label[0].upper() + label[1:], ylim=(0, None))
        axes.grid(visible=False, axis="x")
    lettered(grid, ["average slowdown", "average FCT", "99th percentile"])
    legend_above(made, grid[0], columns=3)
    return made
