"""Common set-up of figures 2, 3 and 9 to 11 of HPCC (SIGCOMM 2019): networks, schemes, traffic, statistics.

Sources.  The authors' public simulator (alibaba-edu/High-Precision-Congestion-Control, 9f4be2a, simulation/) goes before the
text. Figures 6 and 11 to 14 are of it; figures 2, 3, 9 and 10 are measurements of two testbeds, of which there is no code.

Networks.  FAT_TREE is that of the simulations (section 5.1; buffers of 32 MiB, run.py).  The testbeds are in `_testbed`.

Schemes.  HPCC of the simulations is that of run.py (preset ns3): maxStage 0, 50 Mbit/s of increase, which is section 5.1's W_AI
of 80 B at its T of 13 us, eta 95 %.  The text has maxStage 5, which an author calls "a typo for the simulation" (issue 24 of
the repository): (ours), beside it.  By that issue the testbed did run with maxStage 5: there HPCC is Algorithm 1 with section
5.1's numbers and T of 9 us.  For the others section 5.1 names sources instead of numbers; they have those of the simulator
(presets ns3), where the authors say that the paper used its `dcqcn` and `dcqcn_vwin` (issue 36): timers of 300 us and 4 us as
section 2.3's "vendor's default", increases of 5 and 50 Mbit/s for each 25 Gbit/s, P_max 0.2.  ACKs share the queue of data, as
there. PFC: "triggered when an ingress queue consumes more than 11% of the free buffer" (section 5.1) is an alpha of 1/8 in the
simulator (third.cc), which is 1/9 of the buffer for one ingress; ports that are four times as fast as the servers' have 1/2,
and each has 4096 B of its own.  The text says nothing of fast ports, so this is the testbeds' PFC, too; one alpha of 11 % at
all ports is (ours), beside it in figure 11.  Data packets carry 1000 B, and HPCC's 42 B of INT.

Traffic.  Flows of a Poisson process between any two hosts.  A load of X % is X % of the hosts' links, payload only, as in the
authors' generator; figure 10's is in `_testbed`.  An incast is 60 random hosts that send 500 KB each to a random one (section
5.3), in a Poisson process that adds 2 % of the hosts' capacity, as an author explains.  No flow is added after the duration;
those that have started finish.

Statistics.  A flow ends when its last ACK reaches the sender, as in the authors' simulator.  Slowdowns are shown for twenty
groups of as many flows each by size, at the largest size of the group, as the authors' script does; flows of incasts are not
among them.  Latency is the time from the start of a flow of one packet to its ACK: one round trip.  Queue lengths are those of
every egress port of the switches while flows arrive.  Time paused is that of all egress ports, hosts' included, relative to the
time for which flows arrive.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import ages, frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import VARIANTS
from penstock_papers.style import BLUE, GREEN, ORANGE, log_axis, size_text

FAT_TREE: dict[str, Any] = {
    "kind": "clos",
    "pods": 5,
    "tors": 4,
    "aggs": 4,
    "cores": 16,
    "hosts_per_tor": 16,
    "rate": "100Gbps",
    "uplink_rate": "400Gbps",
    "delay": "1us",
    "buffer": "32MiB",
}
T = {"100Gbps": "13us", "25Gbps": "9us"}
# 1/8 at ports to servers, 1/2 at those between switches, which are four times as fast in every network here
PFC = {"alpha": 0.125, "reserve": 4096, "rates": ["100Gbps", "400Gbps"], "rate_alpha": [0.5, 0.5], "host_alpha": [0.125, 0.125]}
PFC_TEXT = {"alpha": 0.11, "reserve": 4096}  # section 5.1 to the letter
INCAST = {"kind": "incast", "fan_in": 60, "size": "500KB", "load": 0.02, "load_on": "host", "arrivals": "exponential"}

PERCENTILES = (50, 95, 99)
GROUPS = 20
SHADES = (ORANGE, BLUE, GREEN)  # of settings of one scheme
SHORT_BYTES, LONG_BYTES = 3_000, 1_000_000  # "flows shorter than 3KB" (section 5.2); "long" is ours
PACKET_BYTES = 1_000
POINTS = 400  # of a CDF


def schemes(rate: str) -> dict[str, Scheme]:
    """Those of section 5.1 by legend: of the simulations, whose hosts have 100 Gbit/s, or of the testbeds, with 25."""
    gbps = int(rate.removesuffix("Gbps"))
    dcqcn = {"name": VARIANTS["dcqcn"], "r_ai": f"{gbps // 5}Mbps", "r_hai": f"{2 * gbps}Mbps", "pfc": PFC}
    timely = {"name": VARIANTS["timely"], "delta": f"{gbps}Mbps", "r_hai": f"{5 * gbps}Mbps", "pfc": PFC}
    made = (
        Scheme("DCQCN", dcqcn),
        Scheme("TIMELY", timely),
        Scheme("DCQCN+win", {**dcqcn, "window": True}, nth=1),
        Scheme("TIMELY+win", {**timely, "window": True}, nth=1),
        Scheme("DCTCP", {"name": VARIANTS["dctcp"], "pfc": PFC}),
        Scheme("HPCC", {"name": VARIANTS["hpcc"] if gbps == 100 else "hpcc", "t": T[rate], "pfc": PFC}),
    )
    return {scheme.legend: scheme for scheme in made}


def spec(
    fabric: dict[str, Any], shown: Iterable[Scheme], workloads: Sequence[dict[str, Any]], duration: str, **measure: Any
) -> Spec:
    """The spec of one traffic and several schemes; ACKs queue behind data."""
    return {
        "run": {"duration": duration, "seed": 1},
        "topology": fabric,
        "host": {"ack_priority": "data"},
        "scheme": [{**scheme.table, "label": scheme.label} for scheme in shown],
        "workload": list(workloads),
        "measure": {"flows": False, **measure},
    }


def poisson(sizes: str, load: float) -> dict[str, Any]:
    """The [[workload]] of this load of the hosts' links."""
    return {"kind": "poisson", "sizes": sizes, "load": load, "load_on": "host"}


# -- statistics of a run


def rows(traffic: str, scheme: Scheme, panel: str, x: Any, y: Any) -> pl.DataFrame:
    """Rows of data.parquet."""
    return frames.rows(panel, scheme.legend, x, y, scheme=scheme.label, traffic=traffic)


def with_thresholds(table: dict[str, Any], k_min: int, k_max: int) -> dict[str, Any]:
    """The scheme with these ECN thresholds, KB, at every port, whatever its rate."""
    return {**table, "ecn": {"k_min": f"{k_min}KB", "k_max": f"{k_max}KB", "per": 0}}


def geometric_mean(numbers: pl.Series) -> float:
    """Of positive numbers."""
    return float(np.exp(numbers.log().to_numpy().mean()))


def value(data: pl.DataFrame, traffic: str, legend: str, panel: str) -> float:
    """The one number of a panel."""
    return frames.value(data, traffic=traffic, series=legend, panel=panel)


def curve(data: pl.DataFrame, traffic: str, legend: str, panel: str) -> pl.DataFrame:
    """The points of one line."""
    return frames.chosen(data, traffic=traffic, series=legend, panel=panel)


def counted(runs: Runs, label: str) -> pl.DataFrame:
    """bytes, slowdown and fct (us), by the sender's clock, of the flows that count and are not of an incast; by size."""
    flows = ages.counted(runs, label, "sender").filter(pl.col("class").cast(pl.String) != "incast")
    return flows.select("bytes", "slowdown", fct=pl.col("fct_ns") / 1e3).sort("bytes", maintain_order=True).collect()


def slowdowns(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panels p50, p95, p99 by size, and of short and long flows; fct of short ones and latency (us)."""
    flows = counted(runs, f"{traffic}/{scheme.label}")
    group = pl.int_range(pl.len()) * GROUPS // pl.len()
    by_size = flows.group_by(group.alias("group")).agg(pl.col("bytes").max(), *_percentiles("slowdown")).sort("group")
    parts = [rows(traffic, scheme, panel, by_size["bytes"], by_size[panel]) for panel in _names()]
    parts += _of_some(traffic, scheme, "short ", flows.filter(pl.col("bytes") < SHORT_BYTES), "slowdown")
    parts += _of_some(traffic, scheme, "long ", flows.filter(pl.col("bytes") > LONG_BYTES), "slowdown")
    parts += _of_some(traffic, scheme, "short fct ", flows.filter(pl.col("bytes") < SHORT_BYTES), "fct")
    parts += _of_some(traffic, scheme, "latency ", flows.filter(pl.col("bytes") <= PACKET_BYTES), "fct")
    return pl.concat(parts)


def _of_some(traffic: str, scheme: Scheme, prefix: str, flows: pl.DataFrame, column: str) -> list[pl.DataFrame]:
    row = flows.select(*_percentiles(column))
    return [rows(traffic, scheme, f"{prefix}{name}", [flows.height], row[name]) for name in _names()]


def _names() -> list[str]:
    return [f"p{p}" for p in PERCENTILES]


def _percentiles(column: str) -> list[pl.Expr]:
    return [pl.col(column).quantile(p / 100, "linear").alias(name) for p, name in zip(PERCENTILES, _names())]


def switch_samples(runs: Runs, label: str, between: bool = False) -> pl.DataFrame:
    """queue_bytes and sent (bytes since the sample before) of every egress port of a switch, while flows arrive.

    between  of those to other switches only
    """
    tiers = runs.scan(label, "nodes").filter(pl.col("tier") > 0).select("node").collect()["node"]
    sent = (pl.col("tx_bytes") - pl.col("tx_bytes").shift(1).over("node", "port")).fill_null(0)
    samples = runs.scan(label, "port_series").filter(pl.col("node").is_in(tiers.implode()))
    if between:
        ports = runs.scan(label, "ports").filter(pl.col("peer").is_in(tiers.implode())).select("node", "port")
        samples = samples.join(ports, on=["node", "port"], how="semi")
    samples = samples.sort("node", "port", "time_ns")
    samples = samples.with_columns(sent=sent).filter(pl.col("time_ns") <= runs.summary(label)["duration_ns"])
    return samples.select("queue_bytes", "sent").collect()


def queues(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panel queue: the CDF of the queue length, KB; queue p50, p95, p99; and, with "seen ", weighted by the bytes sent since
    the sample before: what a byte finds in front of it."""
    return _queues(switch_samples(runs, f"{traffic}/{scheme.label}"), traffic, scheme, "")


def queues_between(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """The same of the ports between switches: panels "between queue", "between queue p50", "seen between queue p50", ..."""
    return _queues(switch_samples(runs, f"{traffic}/{scheme.label}", between=True), traffic, scheme, "between ")


def _queues(samples: pl.DataFrame, traffic: str, scheme: Scheme, which: str) -> pl.DataFrame:
    samples = samples.sort("queue_bytes")
    length = samples["queue_bytes"].to_numpy() / 1e3
    share = np.concatenate([np.linspace(0, 0.99, POINTS), 1 - np.geomspace(0.01, 1e-5, POINTS // 4)])
    parts = [rows(traffic, scheme, f"{which}queue", np.quantile(length, share, method="inverted_cdf"), share)]
    weights = samples["sent"].to_numpy().cumsum()
    for p, name in zip(PERCENTILES, _names()):
        seen = length[min(np.searchsorted(weights, weights[-1] * p / 100), len(length) - 1)]
        parts.append(rows(traffic, scheme, f"{which}queue {name}", [0], [np.quantile(length, p / 100, method="inverted_cdf")]))
        parts.append(rows(traffic, scheme, f"seen {which}queue {name}", [0], [seen]))
    return pl.concat(parts)


def totals(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panels pfc (% of the time for which flows arrive), drops and unfinished: one number each."""
    label = f"{traffic}/{scheme.label}"
    said = runs.summary(label)
    paused = runs.scan(label, "ports").select(pl.col("paused_ns").mean()).collect().item()
    numbers = {
        "pfc": 100 * paused / said["duration_ns"],
        "drops": said["drops"],
        "unfinished": said["flows_started"] - said["flows_finished"],
    }
    return pl.concat([rows(traffic, scheme, panel, [0], [number]) for panel, number in numbers.items()])


# -- panels


def draw_slowdown(
    axes: Any, data: pl.DataFrame, traffic: str, shown: Iterable[Scheme], colours: Sequence[str] = (), panel: str = "p95"
) -> None:
    """FCT slowdown by flow size, both axes logarithmic; `colours` of the lines instead of the schemes'."""
    for nth, scheme in enumerate(shown):
        line = curve(data, traffic, scheme.legend, panel)
        colour = {"color": colours[nth]} if colours else {}
        axes.plot(line["x"], line["y"], label=scheme.legend, **{**scheme.style, "markersize": 2.5, **colour})
    slowdown_axes(axes, panel)


def slowdown_axes(axes: Any, panel: str = "") -> None:
    """Both logarithmic."""
    log_axis(axes.xaxis, lambda size, _: size_text(size) if round(np.log10(size)) % 2 else "")
    log_axis(axes.yaxis, None, (1, 2, 5) if axes.get_ylim()[1] < 200 else (1,))
    axes.set_ylim(bottom=0.9, top=max(10, axes.get_ylim()[1]))
    axes.set(xlabel="Flow size", ylabel=f"FCT slowdown ({panel})" if panel else "FCT slowdown")


def draw_queue(axes: Any, data: pl.DataFrame, traffic: str, shown: Iterable[Scheme], panel: str = "queue") -> None:
    """The upper half of the CDF of queue lengths at switches."""
    for scheme in shown:
        line = curve(data, traffic, scheme.legend, panel)
        axes.plot(line["x"], line["y"], ds="steps-post", label=scheme.legend, **{**scheme.style, "marker": None})
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "", "100", ""])
    axes.set(xlabel="Queue length (KB)", ylabel="CDF", ylim=(0.5, 1.01), xlim=(0, None))


def draw_bars(
    axes: Any, data: pl.DataFrame, traffic: str, shown: Iterable[Scheme], panel: str, what: str, colours: Sequence[str] = ()
) -> None:
    """One number of every scheme as a bar; `colours` instead of the schemes'."""
    for place, scheme in enumerate(shown):
        hatch = "////" if scheme.nth and not colours else ""
        colour = {"color": colours[place] if colours else scheme.style["color"], "hatch": hatch, "edgecolor": "white"}
        axes.bar([place], [value(data, traffic, scheme.legend, panel)], 0.85, lw=0, label=scheme.legend, **colour)
    axes.set_xticks([])
    axes.grid(visible=False, axis="x")
    axes.set(ylabel=what, ylim=(0, None if axes.dataLim.y1 > 0 else 1))
