"""Floodgate (CoNEXT 2021), figure 23: NDP beside DCQCN and DCQCN+Floodgate in the incast mix, Memcached and Web Server.

Appendix B; the runs of section 6.1, see `_setup`: "MTU is set to 1.5 KB", as there, 1460 B and 72 B of headers.  The paper says
nothing else of NDP.  `ndp` has the parameters of its own paper: queues of eight packets, ten headers for a data packet, paths by
permutation; the first window is one bandwidth-delay product, as NDP's authors choose it (30 packets of 1.5 KB there), here 43, so
that all of an incast flow is sent blind.

The share of the headers is that of the bytes which the last hop has sent to the receiver of the first incast.  It takes no part
in the Poisson traffic; what is not a data packet of the incast is a header of one.  With ten headers of 64 B to one packet of
1532 B it can be 29.5 %.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._mix import STATISTICS
from penstock_papers.floodgate._setup import DCQCN, FLOODGATE, PACKETS, RECEIVERS, WORKLOADS, Scheme, rows, value
from penstock_papers.sentences import Numbers, Row, about, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered, log_axis

TITLE = "NDP in the incast mix"
PAPER = "Floodgate, CoNEXT 2021, appendix B, figure 23"
NDP = Scheme("NDP", {"name": "ndp"})
SCHEMES = (DCQCN, FLOODGATE, NDP)
TRAFFICS = {"memcached": 30.5, "web_server": 28.0}  # the paper's share of the headers, %
KINDS = {"poisson": "non-incast flows", "incast": "incast flows"}
BETTER = "For non-incast flows, benefiting from a relatively small buffer occupancy, NDP performs better than DCQCN"
DOWNGRADE = "when compared with DCQCN + Floodgate, a significant FCT performance downgrade is observed"
PROLONGS = "NDP prolongs the FCT performance of incast flows"
HEADERS = "30.5% and 28% of bottleneck bandwidth is used under Memcached and WebServer workloads, respectively"
MOST = 100 * 640 / (640 + 1532)
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
SIGNIFICANT = f'"significant" as "significantly": a factor of 1.5 or more; {MORE}'
SLOWER = "NDP / the slower one of DCQCN and DCQCN+Floodgate"
PERMITTED = "what the switch's weighted round robin permits while data wait"


def _rows(workload: str, share: float) -> Iterator[Row]:
    where = WORKLOADS[workload]
    for statistic in STATISTICS:
        name, others = f"{workload}-{statistic[:3]}", f"{where}, non-incast flows, {statistic}"
        yield within(f"better-{name}", f"{others}: DCQCN / NDP", BETTER, 1, quick=True, why=MORE)
        yield within(f"downgrade-{name}", f"{others}: NDP / DCQCN+Floodgate", DOWNGRADE, 1.5, why=SIGNIFICANT)
        incast = f"{where}, incast flows, {statistic}: {SLOWER}"
        yield within(f"prolongs-{name}", incast, PROLONGS, 1, quick=True, why=MORE)
    headers, bound = f"{where}: headers at the bottleneck, %", "ten headers for a data packet"
    yield about(f"headers-{workload}", headers, HEADERS, share)
    yield within(f"bound-{workload}", headers, bound, 0, MOST, quick=True, kind=OURS, why=PERMITTED)
    yield ascending(f"buffer-{workload}", f"{where}: largest buffer in use, MB", BETTER)


CLAIMS = tuple(row for workload, share in TRAFFICS.items() for row in _rows(workload, share))


def specs(scale: str) -> dict[str, Spec]:
    """The incast mix of two workloads."""
    return {workload: setup.mix(SCHEMES, workload, scale) for workload in TRAFFICS}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: 0, y: us, MB or %, by panel; and the CDFs of completion times (us), panels "poisson cdf" and "incast cdf"."""
    parts = []
    for workload in TRAFFICS:
        for scheme in SCHEMES:
            label = setup.of(runs, workload, scheme)
            for kind in KINDS:
                times = setup.fct(runs, label, kind)
                parts += [rows(f"{kind} {name}", scheme.legend, [0], [y], workload) for name, y in zip(STATISTICS, times)]
                parts.append(rows(f"{kind} cdf", scheme.legend, *setup.cdf(setup.flows(runs, label, kind)["fct"]), workload))
            numbers = {"buffer": setup.max_buffer_mb(runs, label), "headers": header_share(runs, label)}
            parts += [rows(panel, scheme.legend, [0], [y], workload) for panel, y in numbers.items()]
    return pl.concat(parts)


def header_share(runs: Runs, label: str) -> float:
    """Of the bytes that the last hop of the first incast has sent to its receiver, %: what is not a full data packet."""
    sent = runs.scan(label, "ports").filter(pl.col("peer") == RECEIVERS[0]).select("tx_bytes").collect().item()
    flows = runs.scan(label, "flows").filter(pl.col("dst") == RECEIVERS[0]).select("bytes").collect()["bytes"]
    packet: dict[str, Any] = PACKETS
    count = -(-flows.to_numpy() // packet["mtu"])
    return float(100 * (1 - (flows.sum() + count.sum() * packet["header"]) / sent))


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Appendix B's sentences on figure 23."""
    return {id: number for workload in TRAFFICS for id, number in _numbers(data, workload).items()}


def _numbers(data: pl.DataFrame, workload: str) -> Numbers:
    dcqcn, floodgate, ndp = ({p: value(data, p, s.legend, workload) for p in _panels()} for s in SCHEMES)
    found: Numbers = {}
    for statistic in STATISTICS:
        name, others, incast = f"{workload}-{statistic[:3]}", f"poisson {statistic}", f"incast {statistic}"
        found |= {
            f"better-{name}": dcqcn[others] / ndp[others],
            f"downgrade-{name}": ndp[others] / floodgate[others],
            f"prolongs-{name}": ndp[incast] / max(dcqcn[incast], floodgate[incast]),
        }
    return {
        **found,
        f"headers-{workload}": ndp["headers"],
        f"bound-{workload}": ndp["headers"],
        f"buffer-{workload}": {NDP.legend: ndp["buffer"], DCQCN.legend: dcqcn["buffer"]},
    }


def _panels() -> list[str]:
    return [f"{kind} {statistic}" for kind in KINDS for statistic in STATISTICS] + ["buffer", "headers"]


def plot(data: pl.DataFrame) -> Any:
    """CDFs of completion times: the non-incast flows of both workloads, then the incasts'."""
    made, grid = figure(1, 4, width=PAGE, height=2.3)
    places = [(kind, workload) for kind in KINDS for workload in TRAFFICS]
    for axes, (kind, workload) in zip(grid, places):
        for scheme in SCHEMES:
            kept = (pl.col("panel") == f"{kind} cdf") & (pl.col("series") == scheme.legend) & (pl.col("traffic") == workload)
            curve = data.filter(kept).sort("y", "x")
            unit = 1000 if kind == "incast" else 1
            axes.plot(curve["x"] / unit, curve["y"], label=scheme.legend, **{**scheme.style, "marker": ""})
        if kind == "poisson":
            log_axis(axes.xaxis)
            axes.set(xlabel="FCT, non-incast (us)", ylim=(0, 1.01))
        else:
            axes.set(xlabel="FCT, incast (ms)", xlim=(0, None), ylim=(0, 1.01))
    grid[0].set_ylabel("CDF")
    lettered(grid, [WORKLOADS[workload] for _, workload in places])
    legend_above(made, grid[0], columns=3)
    return made
