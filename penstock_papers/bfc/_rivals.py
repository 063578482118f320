"""Rivals of BFC (NSDI 2022) that sections 6.3, 6.4 and the appendix add to those of figures 9 to 12, on the set-up of `_fabric`.

HPCC-PFC is HPCC without PFC and with perfect retransmission (section 6.2.1): the switch that drops a packet tells its sender,
which sends it again and has the least rate until its next ACK (authors' code). +SFQ hashes flows to 32 queues, +DQA assigns 32
queues as BFC does (section 6.4), by the variant of BFC that `_variants` names for the ns-3 part. DCTCP+SS is DCTCP with an
initial window of 10 packets (appendix A.6). ExpressPass: see `_without_pfc`.
"""

from collections.abc import Iterable
from typing import Any

import polars as pl

from penstock_net.units import parse_time
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc._fabric import VARIANTS, Scheme
from penstock_papers.bfc._variants import NS3_QUEUES
from penstock_papers.cache import Runs, Spec
from penstock_papers.style import log_axis, size_text

_LOSSY = {"pfc": False}
HPCC_PFC = Scheme("HPCC-PFC", {"name": f"{VARIANTS['hpcc']}+recovery:bfc", **_LOSSY}, nth=1, run="hpcc_pfc")
HPCC_SFQ = Scheme("HPCC-PFC+SFQ", {"name": f"{VARIANTS['hpcc']}+sfq+recovery:bfc", **_LOSSY}, nth=2, run="hpcc_pfc_sfq")
HPCC_DQA = Scheme(
    "HPCC-PFC+DQA",
    {"name": f"{VARIANTS['hpcc']}+dqa+recovery:bfc", **_LOSSY, "dqa": NS3_QUEUES},
    nth=3,
    run="hpcc_pfc_dqa",
)
DCTCP_SS = Scheme("DCTCP+SS", {"name": "dctcp:bfc_slow_start"}, nth=1, run="dctcp_ss")
EXPRESSPASS = Scheme("ExpressPass", {"name": VARIANTS["expresspass"]}, run="expresspass")
EXPRESSPASS_8 = Scheme("ExpressPass, 8 credits", {**EXPRESSPASS.table, "credits": 8}, nth=1, run="expresspass8")
EXPRESSPASS_BUFFER = "1800MB"  # of a switch: 75 MB for each of 24 ports, without a shared buffer
EXPRESSPASS_HOST = {"mtu": 1460, "header": 78}  # frames of 1538 B
EXPRESSPASS_DRAIN = parse_time("10ms")


def as_its_script(spec: Spec) -> Spec:
    """The spec with what the public script of ExpressPass's simulator sets: buffers, arrivals, packets, a drain of 10 ms."""
    poisson, *others = spec["workload"]
    poisson = {key: value for key, value in poisson.items() if key not in ("arrivals", "sigma")}  # exponential ones
    end = parse_time(spec["run"]["duration"]) + EXPRESSPASS_DRAIN
    run = {**spec["run"], "drain": True, "max_time": f"{end}ps"}
    topology = {**fabric.FABRIC, "buffer": EXPRESSPASS_BUFFER}
    return {**spec, "topology": topology, "run": run, "host": EXPRESSPASS_HOST, "workload": [poisson, *others]}


def dropped(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panel dropped: packets lost anywhere, per cent of those that hosts sent."""
    label = fabric.of(runs, traffic, scheme)
    hosts = runs.scan(label, "nodes").filter(pl.col("tier") == 0).select("node")
    sent = runs.scan(label, "ports").join(hosts, on="node").select(pl.col("tx_packets").sum()).collect().item()
    return fabric.points(traffic, scheme, "dropped", [0], [100 * runs.summary(label)["drops"] / max(1, sent)])


def buffer_at(data: pl.DataFrame, traffic: str, scheme: Scheme, share: float) -> float:
    """The buffer, MB, that a switch does not exceed for this share of the time."""
    line = fabric.curve(data, traffic, scheme.label, "buffer").filter(pl.col("y") >= share)
    return float(line["x"].min())  # type: ignore[arg-type]


def draw_sizes(axes: Any, data: pl.DataFrame, traffic: str, schemes: Iterable[Scheme], panel: str) -> None:
    """A statistic of the slowdown by flow size, both axes logarithmic."""
    for scheme in schemes:
        line = fabric.curve(data, traffic, scheme.label, panel).drop_nulls()
        axes.plot(line["x"], line["y"], label=scheme.legend, **scheme.style)
    log_axis(axes.xaxis, size_text)
    log_axis(axes.yaxis, None, (1, 2, 5) if axes.get_ylim()[1] < 100 else (1,))
    axes.set_ylim(bottom=0.9)
    axes.set(xlabel="Flow size", ylabel="FCT slowdown")


def draw_cdf(axes: Any, data: pl.DataFrame, traffic: str, schemes: Iterable[Scheme], panel: str, xlabel: str) -> None:
    """A cumulative distribution for every scheme."""
    for scheme in schemes:
        line = fabric.curve(data, traffic, scheme.label, panel)
        axes.plot(line["x"], line["y"], label=scheme.legend, **{**scheme.style, "marker": None})
    axes.set(xlabel=xlabel, ylabel="CDF", ylim=(0, 1.02), xlim=(0, None))
