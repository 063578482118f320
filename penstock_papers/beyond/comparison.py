"""Beyond the papers: Floodgate against BFC, and each with HPCC and with packet spraying, on the same traffic.

The network and the incast mixes of Floodgate (section 6: 160 hosts, 100 / 400 Gbit/s, 600 ns, 20 MB; see `floodgate/_setup`),
the same traffic without incasts, and twelve incasts within 12 us, to different hosts. PFC with alpha = 2 under all, so that
nothing is dropped. Where nothing else limits a flow it has a window of one bandwidth-delay product; BFC's pauses
limit the NICs instead. DCQCN is that of the Floodgate authors' simulator, with a window.

BFC "ideal" has 1024 queues per port. HPCC needs a fixed path, so it is not sprayed.
docs/comparison.md is written from these numbers by tools/comparison.py.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import PER_RACK, Scheme, value
from penstock_papers.sentences import Numbers, ascending, holds, within
from penstock_papers.style import PAGE, figure, lettered, log_axis

TITLE = "Floodgate against BFC, with HPCC and with packet spraying"
PAPER = "Beyond the papers: Floodgate and BFC compared"
NETWORK = {**setup.FABRIC, "buffer": "20MB"}
ALPHA = {"pfc": {"alpha": 2}}
MANY = {"dqa": {"queues": 1024, "table": 20}, "bfc": {"nic_queues": 1024, "refresh": 0}}
Q128 = {"dqa": {"queues": 128}}
SCHEMES = (
    Scheme("DCQCN", {**setup.CONTROLS["DCQCN"], **ALPHA}),
    Scheme("HPCC", {"name": "hpcc", **ALPHA}),
    Scheme("DCQCN+Floodgate", {**setup.FLOODGATE.table, **ALPHA}),
    Scheme("HPCC+Floodgate", {"name": "hpcc+floodgate", **ALPHA}),
    Scheme("Floodgate", {"name": "floodgate+window_cap", **ALPHA}),
    Scheme("Floodgate+spray", {"name": "floodgate+window_cap+spray", **ALPHA}),
    Scheme("Floodgate ideal", {"name": "floodgate:ideal+window_cap", **ALPHA}),
    Scheme("BFC 32", {"name": "bfc+pfc", **ALPHA}),
    Scheme("BFC 128", {"name": "bfc+pfc", **Q128, **ALPHA}, 1),
    Scheme("BFC 128+spray", {"name": "bfc+pfc+spray", **Q128, **ALPHA}, 2),
    Scheme("HPCC+BFC 128", {"name": "hpcc+bfc", **Q128, **ALPHA}, 3),
    Scheme("Floodgate+BFC 128", {"name": "bfc+floodgate", **Q128, **ALPHA}, 4),
    Scheme("BFC ideal", {"name": "bfc+pfc", **MANY, **ALPHA}, 5),
)
IDEALS = ("Floodgate ideal", "BFC ideal")  # what no switch has: credits for every packet and hosts that obey, 1024 queues
TRAFFICS = {
    "memcached": "Memcached at 40 % and an incast",
    "web_server": "Web Server at 80 % and an incast",
    "web_search": "Web Search at 80 % and an incast every 5.9 ms",
    "calm": "Web Server at 80 %, no incast",
    "successive": "Twelve incasts in 12 us, nothing else",
}
DURATION = {
    "quick": {"memcached": "40us", "web_server": "300us", "web_search": "500us", "calm": "100us"},
    "paper": {"memcached": "300us", "web_server": "2ms", "web_search": "20ms", "calm": "1ms"},
}
METRICS = {
    "average": "slowdown, average",
    "p99": "slowdown, p99",
    "victims": "slowdown, p99, to the incast's rack",
    "incast": "incast flows, p99 FCT (us)",
    "buffer": "largest buffer in use (MB)",
    "pfc": "time paused by PFC, all ports (us)",
    "control": "control frames (% of bytes)",
}
DIFFERS: dict[str, Differs] = {}
JUDGED = ("memcached", "web_server", "web_search")
CLAIMS = (
    *(
        row
        for traffic in JUDGED
        for row in (
            ascending(
                f"{traffic}-32",
                f"{TRAFFICS[traffic]}: Floodgate below BFC with 32 queues, p99 of the victims",
                "figure 20: BFC-32Q performs poorer",
                quick=False,
                kind=OURS,
            ),
            holds(
                f"{traffic}-alone",
                f"{TRAFFICS[traffic]}: the victims better off than with congestion control alone, p99",
                "section 2.3",
                "DCQCN and HPCC above DCQCN+Floodgate",
                quick=False,
                kind=OURS,
            ),
        )
    ),
    within(
        "calm",
        "no incast: average slowdown, DCQCN+Floodgate / DCQCN",
        "appendix A.2",
        0.98,
        1.02,
        why="no change is less than 2 %",
        kind=OURS,
    ),
    within(
        "pfc",
        "Web Server with an incast: time paused by PFC under Floodgate, the largest of its schemes (us)",
        "section 6.1",
        0,
        0,
        why="PFC never acts",
        kind=OURS,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic pattern, all schemes."""
    loads = {"memcached": 0.4, "web_server": 0.8, "web_search": 0.8}  # Memcached's headers and ACKs are as much again
    mixes = {name: [setup.poisson(name, load=load), setup.incast()] for name, load in loads.items()}
    made = {name: setup.spec(SCHEMES, parts, DURATION[scale][name], NETWORK) for name, parts in mixes.items()}
    made["calm"] = setup.spec(SCHEMES, [setup.poisson("web_server", exclude=())], DURATION[scale]["calm"], NETWORK)
    receivers = [PER_RACK * (i % 10) + i // 10 for i in range(12)]
    crowd = {
        "kind": "incast",
        "fan_in": 159,
        "size": setup.INCAST_SIZE,
        "receivers": receivers,
        "order": "in_turn",
        "every": "1us",
    }
    made["successive"] = setup.spec(SCHEMES, [crowd], "12us", NETWORK)
    return made


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """A number for every traffic, metric (panel) and scheme (series)."""
    pieces = []
    for traffic in TRAFFICS:
        for one in SCHEMES:
            label = setup.of(runs, traffic, one)
            pieces += [setup.rows(metric, one.legend, [0], [number], traffic) for metric, number in of_run(runs, label).items()]
    return pl.concat(pieces)


def of_run(runs: Runs, label: str) -> dict[str, float]:
    """The metrics of one run; those that its traffic does not have are left out."""
    flows = runs.scan(label, "flows").with_columns(pl.col("class").cast(pl.String)).collect()
    crowd, others = flows.filter(pl.col("class") == "incast"), flows.filter(pl.col("class") != "incast")
    found: dict[str, float] = {}
    if others.height:
        found["average"] = mean(others["slowdown"])
        found["p99"] = p99(others["slowdown"])
    if others.height and crowd.height:
        racks = (crowd["dst"] // PER_RACK).unique()
        found["victims"] = p99(others.filter((pl.col("dst") // PER_RACK).is_in(racks.implode()))["slowdown"])
    if crowd.height:
        found["incast"] = p99(crowd["fct_ns"]) / 1000
    table = setup.ports(runs, label)
    at_switches = table.filter(pl.col("tier") > 0)
    found["buffer"] = setup.max_buffer_mb(runs, label)
    found["pfc"] = sum(setup.pfc_us(runs, label).values())
    found["control"] = 100 * float(at_switches["control_bytes"].sum()) / float(at_switches["tx_bytes"].sum())
    return found


def mean(values: pl.Series) -> float:
    return float(values.mean())  # type: ignore[arg-type]


def p99(values: pl.Series) -> float:
    return float(values.quantile(0.99, "linear"))  # type: ignore[arg-type]


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Which scheme is better with and without an incast, and the effect of spraying."""

    def of(metric: str, traffic: str) -> dict[str, float]:
        return {scheme.legend: value(data, metric, scheme.legend, traffic) for scheme in SCHEMES}

    found: Numbers = {}
    for traffic in JUDGED:
        tail = of("victims", traffic)
        found[f"{traffic}-32"] = {name: tail[name] for name in ("DCQCN+Floodgate", "BFC 32")}
        found[f"{traffic}-alone"] = min(tail["DCQCN"], tail["HPCC"]) > tail["DCQCN+Floodgate"], frames.text(tail)
    calm, paused = of("average", "calm"), of("pfc", "web_server")
    return {
        **found,
        "calm": calm["DCQCN+Floodgate"] / calm["DCQCN"],
        "pfc": max(us for name, us in paused.items() if "Floodgate" in name),
    }


def plot(data: pl.DataFrame) -> Any:
    """The victims' tail and the buffer in use by scheme, for each traffic pattern with an incast."""
    mixes = ("memcached", "web_server", "web_search")
    made, grid = figure(2, 3, width=PAGE, height=5.6, sharey=True)
    names = [s.legend for s in SCHEMES]
    for row, metric in zip(grid, ("victims", "buffer")):
        for axes, traffic in zip(row, mixes):
            heights = [value(data, metric, name, traffic) for name in names]
            axes.barh(np.arange(len(names)), heights, 0.7, color=[s.style["color"] for s in SCHEMES])
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis() if axes is row[0] and metric == "victims" else None
            axes.grid(visible=False, axis="y")
            axes.set_xlabel("Slowdown of the victims, p99" if metric == "victims" else "Largest buffer in use (MB)")
            if metric == "victims":
                log_axis(axes.xaxis)
    lettered(grid.flat, [setup.WORKLOADS[t] + suffix for suffix in ("", ": buffer") for t in mixes])
    return made
