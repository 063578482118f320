"""Common set-up of figures 2, 3 and 9 to 11 of HPCC (SIGCOMM 2019): networks, schemes, traffic, statistics.

Networks.  FAT_TREE is that of the simulations (section 5.1).  TESTBED is the PoD of figure 10, POD that of section 2.3:

* A host has one port, so a server with two ports of 25 Gbit/s is two hosts: a flow uses one port, as with RDMA.
* "Four ToRs connected via four 100Gbps links" to the Agg is read as four links of each ToR: that is as much as its sixteen
  ports of 25 Gbit/s, as in section 2.3 (8 x 100 Gbit/s for 28.75 servers) and in the simulations.  With one link each, 50 % load
  would need 152 % of it.  Two switches have at most one link here: the Agg is four switches with a link to every ToR.
* Section 2.3's 230 servers are not a multiple of 16 ToRs: POD has 29 ports at every ToR, 232 servers.
* Delays give section 5.1's base RTTs of the testbed, 5.4 us within a rack and 8.5 us across, for a packet of 1000 B.
* The testbeds' buffers are not published; they have the simulations' 32 MB, "derived from real device configurations".

Schemes.  HPCC is Algorithm 1 with section 5.1's eta 95 %, maxStage 5, W_AI 80 B, and T of 13 us or 9 us.  For the others,
section 5.1 names sources instead of numbers; they have those of the authors' simulator (presets ns3), where the authors say that
the paper used its `dcqcn` and `dcqcn_vwin`: timers of 300 us and 4 us as section 2.3's "vendor's default", increases of 5 and 50
Mbit/s for each 25 Gbit/s, P_max 0.2.  ACKs share the queue of data, as there.  PFC pauses an ingress that holds more than 11 %
of the free buffer (section 5.1).  Data packets carry 1000 B, and HPCC's 42 B of INT.

Traffic.  Flows of a Poisson process between any two hosts.  A load of X % is X % of the hosts' links, payload only, as in
the authors' generator.  An incast is 60 random hosts that send 500 KB each to a random one (section 5.3), in a Poisson process
that adds 2 % of the hosts' capacity, as an author explains.  No flow is added after the duration; those that have started finish.

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
    "buffer": "32MB",
}
DELAYS = {"rate": "25Gbps", "uplink_rate": "100Gbps", "delay": "1.17us", "uplink_delay": "0.73us", "buffer": "32MB"}
TESTBED: dict[str, Any] = {"kind": "leaf_spine", "hosts": 64, "tors": 4, "spines": 4, **DELAYS}
POD: dict[str, Any] = {"kind": "leaf_spine", "hosts": 464, "tors": 16, "spines": 8, **DELAYS}
RACK: dict[str, Any] = {"kind": "star", **{key: DELAYS[key] for key in ("rate", "delay", "buffer")}}
T = {"100Gbps": "13us", "25Gbps": "9us"}
PFC = {"alpha": 0.11, "reserve": 4096}
INCAST = {"kind": "incast", "fan_in": 60, "size": "500KB", "load": 0.02, "load_on": "host", "arrivals": "exponential"}

PERCENTILES = (50, 95, 99)
GROUPS = 20
SHADES = (ORANGE, BLUE, GREEN)  # of settings of one scheme
SHORT_BYTES, LONG_BYTES = 3_000, 1_000_000  # "flows shorter than 3KB" (section 5.2); "long" is ours
PACKET_BYTES = 1_000
POINTS = 400  # of a CDF


def schemes(rate: str) -> dict[str, Scheme]:
    """Those of section 5.1 for hosts of this rate, by legend."""
    gbps = int(rate.removesuffix("Gbps"))
    dcqcn = {"name": VARIANTS["dcqcn"], "r_ai": f"{gbps // 5}Mbps", "r_hai": f"{2 * gbps}Mbps", "pfc": PFC}
    timely = {"name": VARIANTS["timely"], "delta": f"{gbps}Mbps", "r_hai": f"{5 * gbps}Mbps", "pfc": PFC}
    made = (
        Scheme("DCQCN", dcqcn),
        Scheme("TIMELY", timely),
        Scheme("DCQCN+win", {**dcqcn, "window": True}, nth=1),
        Scheme("TIMELY+win", {**timely, "window": True}, nth=1),
        Scheme("DCTCP", {"name": VARIANTS["dctcp"], "pfc": PFC}),
        Scheme("HPCC", {"name": VARIANTS["hpcc"], "t": T[rate], "pfc": PFC}),
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


def switch_samples(runs: Runs, label: str) -> pl.DataFrame:
    """queue_bytes and sent (bytes since the sample before) of every egress port of a switch, while flows arrive."""
    tiers = runs.scan(label, "nodes").filter(pl.col("tier") > 0).select("node").collect()["node"]
    sent = (pl.col("tx_bytes") - pl.col("tx_bytes").shift(1).over("node", "port")).fill_null(0)
    samples = runs.scan(label, "port_series").filter(pl.col("node").is_in(tiers.implode())).sort("node", "port", "time_ns")
    samples = samples.with_columns(sent=sent).filter(pl.col("time_ns") <= runs.summary(label)["duration_ns"])
    return samples.select("queue_bytes", "sent").collect()


def queues(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panel queue: the CDF of the queue length, KB; queue p50, p95, p99; and, with "seen ", weighted by the bytes sent since
    the sample before: what a byte finds in front of it."""
    samples = switch_samples(runs, f"{traffic}/{scheme.label}").sort("queue_bytes")
    length = samples["queue_bytes"].to_numpy() / 1e3
    share = np.concatenate([np.linspace(0, 0.99, POINTS), 1 - np.geomspace(0.01, 1e-5, POINTS // 4)])
    parts = [rows(traffic, scheme, "queue", np.quantile(length, share, method="inverted_cdf"), share)]
    weights = samples["sent"].to_numpy().cumsum()
    for p, name in zip(PERCENTILES, _names()):
        seen = length[min(np.searchsorted(weights, weights[-1] * p / 100), len(length) - 1)]
        parts.append(rows(traffic, scheme, f"queue {name}", [0], [np.quantile(length, p / 100, method="inverted_cdf")]))
        parts.append(rows(traffic, scheme, f"seen queue {name}", [0], [seen]))
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


def draw_queue(axes: Any, data: pl.DataFrame, traffic: str, shown: Iterable[Scheme]) -> None:
    """The upper half of the CDF of queue lengths at switches."""
    for scheme in shown:
        line = curve(data, traffic, scheme.legend, "queue")
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
