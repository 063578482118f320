"""Common set-up of the figures of Floodgate (CoNEXT 2021): the networks and traffic of section 6, the schemes, the statistics.

The authors' public simulator (NASA-NJU/Floodgate-NS3, 5071599) goes before the text, but for PFC's thresholds and the buffer,
which a calibration chooses.

Network: leaf-spine, 160 hosts, 10 ToR and 4 core switches, 100 / 400 Gbit/s, 600 ns, 20 MB per switch (section 6; in the
simulator 20 MiB); or a fat tree with k = 8, 100 Gbit/s everywhere (the authors' file). Packets of 1460 B
payload and 72 B of headers, as in the authors' simulator (38 of them preamble, gap, Ethernet); ACKs queue behind data.

Traffic (incast mix): Poisson flows between racks at 80 % of the hosts' links, and 720 flows of 30 to 40 packets to one host
at load 0.5 of its link, that is every 5.9 ms; the receiver is the first host of each rack in turn, and takes no part in the
Poisson traffic. The paper does not give the duration of its runs; its simulator draws 50000 flows. The runs here have the
corresponding duration: 2, 4 and 80 ms, and 6 us of Memcached, whose flows of 185 B would overload the hosts with their headers in
a longer run. Poisson flows begin 30 us after the first incast, as in the simulator. So there is one incast, at the start, except
for Web Search, which has 14. The flows are the same for all schemes.

Congestion control has a window, as section 6 says. DCQCN, TIMELY and HPCC have the parameters of the authors' configuration;
their HPCC keeps a reference window for each hop. PFC's thresholds, and with them the buffer, are known from three places that
differ: section 6 ("alpha = 2"), the simulator (1/4 at ports of the hosts' rate, 1/2 at twice and 1 at four times as fast ones; a
headroom of 8 rate x delay and 4096 B for each port), which was published after the paper, and table 2. Of the candidates of
unknowns.toml, 1 at every port and 20 MB come nearest to its three times of Web Server. The text's alpha is shown beside it in
figure 2 and table 2, (ours).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock_papers import ages, frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.style import BLACK, DASHES, GREEN, ORANGE, SKY, family, look

BUFFER = "20MB"
FABRIC = {
    "kind": "leaf_spine",
    "hosts": 160,
    "tors": 10,
    "spines": 4,
    "rate": "100Gbps",
    "uplink_rate": "400Gbps",
    "delay": "600ns",
    "buffer": BUFFER,
}
FAT_TREE = {"kind": "fat_tree", "k": 8, "rate": "100Gbps", "delay": "600ns", "buffer": BUFFER}
PACKETS = {"mtu": 1460, "header": 72, "ack": 84, "ack_priority": "data"}
PER_RACK = 16
RECEIVERS = list(range(0, 160, PER_RACK))
INCAST_SIZE = "30..40 x 1460B"
WORKLOADS = {"memcached": "Memcached", "web_server": "Web Server", "hadoop": "Hadoop", "web_search": "Web Search"}
SIZES = {"memcached": "memcached", "web_server": "web_server", "hadoop": "homa_w4", "web_search": "homa_w5"}
DURATION = {
    "quick": {"memcached": "36us", "web_server": "500us", "hadoop": "1ms", "web_search": "3ms"},
    "paper": {"memcached": "36us", "web_server": "2ms", "hadoop": "4ms", "web_search": "80ms"},
}
SEEDS = {"paper": 5}  # where the paper averages: "we run experiments ten times" (section 6)
LONG_SEEDS = {"paper": 3}  # the same with nine schemes, or a network of its own, for Web Search, whose runs take minutes
SAMPLE = "10us"
OF_CODE: dict[str, Any] = {"headroom": 8, "reserve": 4096}
PFC = {"alpha": 1, **OF_CODE}  # the calibration's
PFC_TEXT = {"alpha": 2}
CONTROLS: dict[str, dict[str, Any]] = {
    "DCQCN": {"name": "dcqcn:config", "dcqcn": {"window": True}, "pfc": PFC},
    "TIMELY": {"name": "timely:floodgate", "pfc": PFC},
    "HPCC": {"name": "hpcc:floodgate", "pfc": PFC},
}
VARIANTS = {"": "", "Floodgate": "+floodgate", "ideal": "+floodgate:ideal"}
HOPS = {"ToR-Up": (1, 2), "Core": (2, 1), "ToR-Down": (1, 0)}  # tier of the switch and of its peer


class Scheme(frames.Scheme):
    """A scheme of the figures: the colour says whether Floodgate is on, the dashes of which kind."""

    @property
    def style(self) -> dict[str, Any]:
        """Colour, dashes and marker: the colour by whether Floodgate is on, the dashes by its kind."""
        if family(self.table["name"]) != "floodgate":
            return super().style
        ideal = "ideal" in self.table["name"]
        return {**look("floodgate"), "color": SKY if ideal else GREEN, "linestyle": DASHES[2 if ideal else 0]}


def scheme(control: str = "DCQCN", variant: str = "", **parameters: Any) -> Scheme:
    """DCQCN, TIMELY or HPCC, alone, with Floodgate or with its ideal design; parameters of Floodgate's own."""
    table = {**CONTROLS[control], "name": CONTROLS[control]["name"] + VARIANTS[variant]}
    if parameters:
        table["floodgate"] = parameters
    return Scheme(f"{control}+{variant}" if variant else control, table)


DCQCN, FLOODGATE, IDEAL = (scheme(variant=variant) for variant in VARIANTS)
COLOURS = {"DCQCN": ORANGE, "DCQCN+Floodgate": GREEN, "DCQCN+ideal": SKY, "": BLACK}


def incast(receivers: Sequence[int] = RECEIVERS, fan_in: int = 720, load: float = 0.5) -> dict[str, Any]:
    """The [[workload]] of the incasts."""
    return {
        "kind": "incast",
        "fan_in": fan_in,
        "size": INCAST_SIZE,
        "load": load,
        "load_on": "receiver",
        "replace": True,
        "jitter": "99ns",
        "receivers": list(receivers),
        "order": "in_turn",
        "pairs": "inter_rack",
    }


def poisson(workload: str, exclude: Sequence[int] = RECEIVERS, load: float = 0.8) -> dict[str, Any]:
    """The [[workload]] of the other flows."""
    return {
        "kind": "poisson",
        "sizes": SIZES[workload],
        "load": load,
        "load_on": "host",
        "pairs": "inter_rack",
        "start": "30us",
        **({"exclude": list(exclude)} if exclude else {}),
    }


def spec(
    schemes: Iterable[Scheme],
    workloads: Sequence[dict[str, Any]],
    duration: str,
    fabric: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    **measure: Any,
) -> Spec:
    """The spec of one traffic and several schemes; flows finish (`drain`)."""
    return {
        "run": {"duration": duration, "seed": 1},
        "topology": fabric or FABRIC,
        "host": {**PACKETS, **(host or {})},
        "scheme": [{**scheme.table, "label": scheme.legend} for scheme in schemes],
        "workload": list(workloads),
        "measure": {"sample": SAMPLE, "queueing": True, **measure},
    }


def mix(schemes: Iterable[Scheme], workload: str, scale: str, **measure: Any) -> Spec:
    """The incast mix of one workload: runs are shared by all figures that ask for the same."""
    return spec(schemes, [poisson(workload), incast()], DURATION[scale][workload], **measure)


# -- statistics of a run


def of(runs: Runs, traffic: str, scheme: Scheme) -> str:
    """The label of a run: that of the spec if the spec has only one scheme."""
    both = f"{traffic}/{scheme.legend}"
    return both if both in runs else traffic


def flows(runs: Runs, label: str, kind: str = "poisson") -> pl.DataFrame:
    """fct (us), src, dst, bytes, start_ns, finish_ns of the flows that count: "poisson", "incast", or of the Poisson flows the
    "victims of incast" (to the rack of a receiver that has had its turn) or the "victims of PFC" (all others)."""
    table = ages.counted(runs, label, "receiver")
    is_incast = pl.col("class").cast(pl.String) == "incast"
    wanted = table.filter(is_incast if kind == "incast" else ~is_incast)
    wanted = wanted.select((pl.col("fct_ns") / 1000).alias("fct"), "src", "dst", "bytes", "start_ns", "finish_ns")
    if kind.startswith("victims"):
        hit = table.filter(is_incast).select((pl.col("dst") // PER_RACK).unique()).collect().to_series()
        near = (pl.col("dst") // PER_RACK).is_in(hit.implode())
        wanted = wanted.filter(near if kind == "victims of incast" else ~near)
    return wanted.collect()


def fct(runs: Runs, label: str, kind: str = "poisson") -> tuple[float, float]:
    """Average and 99th percentile of the completion time, us."""
    times = flows(runs, label, kind)["fct"]
    return (float(times.mean()), float(times.quantile(0.99, "linear"))) if len(times) else (float("nan"), float("nan"))  # type: ignore[arg-type]


def ports(runs: Runs, label: str) -> pl.DataFrame:
    """Every port with the tier of its node and of its peer (`to`)."""
    tier = runs.scan(label, "nodes").select("node", "tier").collect()
    table = runs.scan(label, "ports").collect()
    return table.join(tier, on="node").join(tier.rename({"node": "peer", "tier": "to"}), on="peer")


def hop_buffers(runs: Runs, label: str, hops: dict[str, tuple[int, int]] | None = None) -> dict[str, float]:
    """Largest number of bytes stored for a port of each kind, held packets included, MB."""
    table = ports(runs, label)
    found = {}
    for name, (tier, to) in (hops or HOPS).items():
        kind = table.filter((pl.col("tier") == tier) & (pl.col("to") == to))
        found[name] = float(kind["max_queue_bytes"].max()) / 1e6  # type: ignore[arg-type]
    return found


def queueing(runs: Runs, label: str, kind: str = "poisson", hops: dict[str, tuple[int, int]] | None = None) -> dict[str, float]:
    """Average queueing time of the data packets of one class at each kind of port, us."""
    tier = runs.scan(label, "nodes").select("node", "tier").collect()
    peers = runs.scan(label, "ports").select("node", "port", "peer").collect()
    table = runs.scan(label, "queueing").filter(pl.col("class") == kind).collect()
    table = table.join(peers, on=["node", "port"]).join(tier, on="node")
    table = table.join(tier.rename({"node": "peer", "tier": "to"}), on="peer")
    found = {}
    for name, (at, to) in (hops or HOPS).items():
        part = table.filter((pl.col("tier") == at) & (pl.col("to") == to))
        packets = int(part["packets"].sum())
        found[name] = float(part["queueing_ns"].sum()) / packets / 1000 if packets else 0.0
    return found


def pfc_us(runs: Runs, label: str) -> dict[str, float]:
    """Total time for which egress ports of hosts, ToRs and cores were paused by PFC, us."""
    table = ports(runs, label)
    names = {"Host": 0, "ToR": 1, "Core": 2}
    return {name: float(table.filter(pl.col("tier") == tier)["paused_ns"].sum()) / 1000 for name, tier in names.items()}


def switches(runs: Runs, label: str) -> pl.DataFrame:
    """Every switch with its largest use of the buffer and of virtual output queues."""
    return runs.scan(label, "nodes").filter(pl.col("tier") > 0).collect()


def max_buffer_mb(runs: Runs, label: str) -> float:
    """Largest buffer use of any switch, MB."""
    return float(switches(runs, label)["max_buffer_bytes"].max()) / 1e6  # type: ignore[arg-type]


def max_voqs(runs: Runs, label: str) -> int:
    """Largest number of virtual output queues in use at the same time in any switch."""
    return int(switches(runs, label)["max_voqs"].max())  # type: ignore[arg-type]


def rows(panel: str, series: str, x: Any, y: Any, traffic: str = "") -> pl.DataFrame:
    """Rows of data.parquet."""
    return frames.rows(panel, series, x, y, traffic=traffic)


def value(data: pl.DataFrame, panel: str, series: str, traffic: str = "", x: float = 0.0) -> float:
    """One number of data.parquet."""
    return frames.value(data, panel=panel, series=series, traffic=traffic, x=x)


def mean_ratio(ratios: Mapping[str, float]) -> float:
    """The geometric mean: what a sentence says of all bars of a figure together."""
    return float(np.exp(np.log(list(ratios.values())).mean()))


def least(numbers: Mapping[str, float]) -> tuple[float, str]:
    """The smallest number and its name."""
    name = min(numbers, key=numbers.__getitem__)
    return numbers[name], name


def most(numbers: Mapping[str, float]) -> tuple[float, str]:
    """The largest number and its name."""
    name = max(numbers, key=numbers.__getitem__)
    return numbers[name], name


def cdf(times: pl.Series, points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """x, y of a CDF with a fine tail."""
    share = np.concatenate([np.linspace(0, 0.99, points), 1 - np.geomspace(0.01, 1e-5, points // 4)])
    return np.quantile(times.to_numpy(), share), share
