"""Beyond the papers: Homa beside the data of its own paper (Montazeri et al., SIGCOMM 2018), W1, W3 and W5 at 80 % load.

homa.csv has the published 99th percentiles of the slowdown by message size, of Homa and, from the same paper, of pFabric, pHost,
PIAS and NDP. Claims: in each decile of messages, ordered by size, ours is within 25 % of Homa's published number, both the mean
over the published bins of the decile that have 200 of our messages, weighted by the published shares. The other transports are
shown, not judged: their authors' simulators, with which Homa's authors ran them, have other headers and timers. PIAS has the
thresholds, marks and windows of their runs (branch pias, pias*Params.py), and NICs that send by level, as ns-2's do.

A published number of Homa's is the mean, by messages, of the 99th percentiles of the 144 receivers (digestModulesStats in its
simulator's MetricsDashBoard.py), and ours is, too. A receiver of W5 has 4 to 11 messages of a bin in the published 1.9 s, so that
its percentile is the largest of these; the percentile of all messages is up to 1.5 times as high (docs/differences.md). Where we
run a part of the published time, as many receivers are taken together as have the messages of one there. Of the other transports
it is the percentile of all messages, here and there.

Set-up of Homa's simulator (PlatformLab/HomaSimulation, homaTransportConfig.ini): 144 hosts, 9 ToR and 4 spine switches, 10 and 40
Gbit/s, 250 ns per switch and 1.5 us in hosts, which are delays of our links; unlimited buffers, packets are sprayed. Of 8 levels
7, 4 and 1 are for blind packets, 9328 B of a message; K is the rest. The load includes headers, 96 B of a blind packet; 0.657,
0.887 and 0.898 of it are payload. A packet has 96 B here (W5: 78 B, as granted ones there, which most are). No message is
acknowledged there: acknowledgements have 1 byte here, under all transports. Sizes are those of the points of the distribution;
only W1 has a continuous tail.

What the agreement hangs on, by W1's last decile, published 4.7 (400 us): 4.5 with this set-up, 12.6 with acknowledgements of
60 B, a sixth of the link for messages of 185 B, and 3.0 with headers of 58 B; the 99th percentile of the whole decile is 5.7.

Slowdown is by the simulator's definition (WorkloadSynthesizer): the time over that of a message without Homa's header and, within
a rack, without the delay of the switch, which it leaves out.
"""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from penstock_net.units import parse_time
from penstock_papers import blind, frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import Differs
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import DASHES, PAGE, figure, legend_above, lettered, log_axis

TITLE = "Homa beside its published slowdowns"
PAPER = "Beyond the papers: Homa, SIGCOMM 2018, slowdowns at 80 % load"
HOSTS, RACK, GBPS = 144, 16, 10
FABRIC: dict[str, Any] = {
    "kind": "leaf_spine",
    "hosts": HOSTS,
    "tors": 9,
    "spines": 4,
    "rate": f"{GBPS}Gbps",
    "uplink_rate": "40Gbps",
    "delay": "875ns",  # the mean of both directions: 1 us from host to ToR, 750 ns back
    "uplink_delay": "250ns",
    "buffer": "0B",
}
BLIND, PRIORITIES, FRAME = 9328, 8, 1538
LEVELS = {"homa_w1": 7, "homa_w3": 4, "homa_w5": 1}
PAYLOAD = {"homa_w1": 0.657, "homa_w3": 0.887, "homa_w5": 0.898}  # of the load
MTU = {"homa_w1": 1442, "homa_w3": 1442, "homa_w5": 1460}
UNIT = {"homa_w5": 1460 / 1442}  # W5 is in packets: of 1442 B there
NAMES = {"homa_w1": "W1", "homa_w3": "W3", "homa_w5": "W5"}
DURATION = {
    "quick": {"homa_w1": "400us", "homa_w3": "2ms", "homa_w5": "20ms"},
    "paper": {"homa_w1": "4ms", "homa_w3": "60ms", "homa_w5": "1900ms", "homa_w5-others": "600ms"},
}
PUBLISHED_RUN = {"homa_w1": "1.2s", "homa_w3": "3.75s", "homa_w5": "1.9s"}  # arrivals, of Homa
SEEDS = {"paper": 3}
FEWEST = {"quick": 20, "paper": 200}  # messages of a bin
NEVER = "10s"  # Homa's timers: its simulator drops nothing and has none
HOMA = Scheme("Homa", {"name": "homa+spray"})
OTHERS = (
    Scheme("pFabric", {"name": "pfabric:simulator+spray"}, like="dcqcn"),
    Scheme("pHost", {"name": "phost:simulator+spray"}, like="bfc"),
    Scheme("PIAS", {"name": "pias", "k": "22500B", "nic": "levels"}, like="dctcp"),  # 15 packets of 1500 B
    Scheme("NDP", {"name": "ndp"}),
)
THRESHOLDS = {
    "homa_w1": [183, 259, 287, 314, 332, 352, 367],
    "homa_w3": [436, 554, 633, 720, 784, 865, 939],
    "homa_w5": [1460 * packets for packets in (909, 1329, 1648, 1960, 2143, 2337, 2484)],
}
CWND = {"slow_start": 7, "w_max": "363540B"}  # PIAS: 7 to 249 packets
PUBLISHED = ", published"
DIFFERS: dict[str, Differs] = {}
# p99 by decile, without the bins that have too few messages at scale paper
DECILES = {
    "homa_w1": {1: 1.84, 3: 1.87, 4: 1.89, 5: 2.0, 6: 2.01, 7: 2.04, 8: 2.14, 9: 2.47, 10: 4.7},
    "homa_w3": dict(enumerate((2.22, 2.19, 2.17, 2.12, 2.06, 2.01, 1.96, 2.01, 1.83, 2.78), start=1)),
    "homa_w5": dict(enumerate((1.41, 1.34, 1.51, 1.46, 1.49, 1.51, 1.8, 2.15, 2.7, 9.51), start=1)),
}
CLAIMS = tuple(
    within(
        f"{name.lower()}-{decile}",
        f"{name}, decile {decile} by size: p99 slowdown / published",
        f"{theirs:.3g}",
        0.75,
        1.25,
        why="25 % to either side of the published number",
    )
    for sizes, name in NAMES.items()
    for decile, theirs in DECILES[sizes].items()
)


def specs(scale: str) -> dict[str, Spec]:
    """A spec per workload for Homa, and one for the others, which need their timers."""
    made = {}
    for sizes, mtu in MTU.items():
        cutoffs = blind.cutoffs(sizes, LEVELS[sizes], BLIND, mtu, FRAME - mtu)
        homa = {"rtt_bytes": BLIND, "priorities": PRIORITIES, "unscheduled": LEVELS[sizes], "cutoffs": cutoffs, "resend": NEVER}
        made[sizes] = _spec(scale, sizes, sizes, [{**HOMA.table, "homa": homa, "label": HOMA.label}], rto=NEVER)
        others = [{**scheme.table, "label": scheme.label} for scheme in OTHERS if len(published(scheme, sizes))]
        for table in others:
            if table["name"] == "pias":
                table.update(thresholds=THRESHOLDS[sizes], dctcp=CWND)
        label = f"{sizes}-others"
        made[label] = _spec(scale, label, sizes, others)
    return made


def _spec(scale: str, label: str, sizes: str, tables: list[dict[str, Any]], **host: str) -> Spec:
    return {
        "run": {"duration": DURATION[scale].get(label, DURATION[scale][sizes]), "seed": 1},
        "topology": FABRIC,
        "scheme": tables,
        "workload": [
            {
                "kind": "poisson",
                "sizes": sizes,
                "load": round(0.8 * PAYLOAD[sizes], 6),
                "load_on": "host",
                "interpolate": sizes == "homa_w1",
            }
        ],
        "host": {"mtu": MTU[sizes], "header": FRAME - MTU[sizes], "ack": 1, **host},
        "measure": {"sample": "100us"},
    }


def published(scheme: Scheme, sizes: str) -> pl.DataFrame:
    """bytes (the upper end of a bin), percent of all messages, and p99; decile: 1 to 10, by the middle of the bin."""
    table = pl.read_csv(Path(__file__).with_name("homa.csv"))
    bins = table.filter((pl.col("transport") == scheme.legend) & (pl.col("sizes") == sizes)).sort("bytes")
    middle = (pl.col("percent").cum_sum() - pl.col("percent") / 2) / pl.col("percent").sum()
    return bins.select("bytes", "percent", "p99", decile=(10 * middle).floor().cast(pl.Int64) + 1)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: decile of the messages by size; y: p99 of the slowdown, of ours and published; panel: the workload."""
    parts = []
    for sizes in MTU:
        for scheme in (HOMA, *OTHERS):
            theirs = published(scheme, sizes)
            if not len(theirs):
                continue
            label = sizes if scheme == HOMA else f"{sizes}-others/{scheme.label}"
            samples = samples_of(scale, sizes) if scheme == HOMA else 1
            both = deciles(theirs, slowdowns(runs, label, UNIT.get(sizes, 1.0), samples), FEWEST[scale])
            parts.append(frames.rows(sizes, scheme.legend, both["decile"], both["ours"]))
            parts.append(frames.rows(sizes, scheme.legend + PUBLISHED, both["decile"], both["theirs"]))
    return pl.concat(parts)


def samples_of(scale: str, sizes: str) -> int:
    """Into how many samples of the published size the receivers divide: 144 if the run is as long as the published one."""
    ours, theirs = parse_time(DURATION[scale][sizes]), parse_time(PUBLISHED_RUN[sizes])
    return max(1, round(HOSTS * min(ours / theirs, 1.0)))


def slowdowns(runs: Runs, label: str, unit: float, samples: int) -> pl.DataFrame:
    """bytes, in the published unit, and slowdown of every message by the published definition; sample, by its receiver."""
    flows = runs.scan(label, "flows").filter(pl.col("fct_ns").is_not_null()).select("bytes", "src", "dst", "fct_ns")
    bytes, same = (pl.col("bytes") / unit).round().cast(pl.Int64), pl.col("src") // RACK == pl.col("dst") // RACK
    slowdown, sample = pl.col("fct_ns") / least_ns(bytes, same), pl.col("dst") * samples // HOSTS
    return flows.select(bytes, slowdown=slowdown, sample=sample).collect()


def least_ns(bytes: pl.Expr, same_rack: pl.Expr) -> pl.Expr:
    """The time of a message in the empty network by the published definition: Ethernet, IP and UDP headers, 66 B a packet."""
    full, rest = bytes // 1472, bytes % 1472
    last = pl.when(rest == 0).then(0).when(rest < 18).then(84).otherwise(rest + 66)
    first = pl.when(full > 0).then(FRAME).otherwise(last)
    wire = full * FRAME + last + first  # and once more at the last hop
    across = 750 + 2 * first * 8 / 40
    return 1500 + wire * 8 / GBPS + pl.when(same_rack).then(0.0).otherwise(across)


def deciles(theirs: pl.DataFrame, messages: pl.DataFrame, fewest: int) -> pl.DataFrame:
    """decile, ours and theirs: means over the bins that have at least `fewest` of our messages, by the published shares.

    Ours of a bin is the mean over its samples, by messages, of the 99th percentile, which is the largest of fewer than 100.
    """
    ends = theirs["bytes"].to_numpy()
    places = np.minimum(np.searchsorted(ends, messages["bytes"].to_numpy()), len(ends) - 1)
    binned = messages.with_columns(bytes=pl.Series(ends[places]))
    sampled = binned.group_by("bytes", "sample").agg(pl.len().alias("messages"), p99=pl.col("slowdown").quantile(0.99, "higher"))
    ours = (pl.col("p99") * pl.col("messages")).sum() / pl.col("messages").sum()
    found = sampled.group_by("bytes").agg(pl.col("messages").sum(), ours=ours)
    both = theirs.join(found, on="bytes", how="left").with_columns(pl.col("ours").fill_null(0.0))
    weight = pl.when(pl.col("messages") >= fewest).then(pl.col("percent")).otherwise(0.0)
    numbers = {name: (pl.col(column) * weight).sum() / weight.sum() for name, column in (("ours", "ours"), ("theirs", "p99"))}
    return both.group_by("decile").agg(**numbers).sort("decile")


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Homa in each decile that has a published bin."""

    def p99(sizes: str, series: str, decile: int) -> float:
        return frames.value(data, panel=sizes, series=series, x=decile)

    return {
        f"{name.lower()}-{decile}": p99(sizes, HOMA.legend, decile) / p99(sizes, HOMA.legend + PUBLISHED, decile)
        for sizes, name in NAMES.items()
        for decile in DECILES[sizes]
    }


def plot(data: pl.DataFrame) -> Any:
    """Homa above, the others below; lines are ours, dashes are published."""
    made, grid = figure(2, 3, width=PAGE, height=4.6, sharex=True)
    for column, sizes in zip(grid.T, NAMES):
        for axes, schemes in zip(column, ((HOMA,), OTHERS)):
            for scheme in schemes:
                ours, theirs = (frames.chosen(data, panel=sizes, series=scheme.legend + which) for which in ("", PUBLISHED))
                axes.plot(ours["x"], ours["y"], label=scheme.legend, **{**scheme.style, "linestyle": "-"})
                axes.plot(theirs["x"], theirs["y"], color=scheme.style["color"], linestyle=DASHES[2])
            axes.plot([], [], color="0.35", linestyle=DASHES[2], label="published")
            log_axis(axes.yaxis, None, (1, 1.5, 2, 3, 5, 7))
            axes.set(ylabel="p99 slowdown", xticks=range(1, 11))
        column[1].set_xlabel("Messages by size (decile)")
    names = list(NAMES.values())
    lettered(grid.flat, [*(f"{name}, Homa" for name in names), *(f"{name}, others" for name in names)])
    legend_above(made, grid[1, 2], columns=5)
    return made
