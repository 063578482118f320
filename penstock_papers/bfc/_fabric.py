"""Common set-up of figures 9 to 12 of BFC (NSDI 2022): the fabric and traffic of section 6.2.1, the schemes, the statistics.

Fabric: leaf-spine, 128 hosts, 8 ToR and 8 spine switches, 100 Gbit/s, 1 us, 12 MB per switch. Traffic: one lognormal
arrival process with sigma 2, uniform pairs of hosts; 5 % of the load may be incast: 100 flows to one host, 20 MB in all,
every 500 us. 50 ms without a drain, as in the authors' simulator: flows that have not finished by then count with their age, see
penstock_papers/ages.py (there they are in no statistic, so that schemes whose slow flows do not finish look faster).

Load has two definitions. UPLINKS is that of the authors' simulator: the load of all flows divided by the rate of the ToR uplinks,
so that the core has 0.88 X %. CORE is that of section 6.2.1: "by X% load we mean X% load on the links in the core", those between
ToR and spine switches, which 112 of 127 pairs of hosts use. Figure 12 is nearer to UPLINKS, which all figures have; figures 9 to
12 have BFC and HPCC with CORE beside it, (ours).
An incast is the same in both: 20 MB every 500 us are 5 % of the uplinks' rate, 4.4 % of it in the core.

BFC is the variant that `_variants` names for the ns-3 part of the paper.

Baselines are those of the authors' simulator (presets hpcc:bfc and dctcp:bfc): HPCC with maxStage 0 instead of the 5
of the text, W_AI of 50 Mbit/s, 42 B of INT, where section 6.3 has 80 B (figure 12 shows both); DCTCP marking between 100 and
400 KB, g 1/256, 500 Mbit/s per window. DCQCN, whose parameters are not public, is the one that table 1 chooses, see `_dcqcn`:
that of its own paper with BFC's marking and a window (preset dcqcn:bfc). HPCC-PFC and ExpressPass: `_without_pfc`.

The slowdown is by the sender's clock (`sender_slowdown` of flows.parquet), as in the authors' simulator, where a flow ends
when its last ACK reaches the sender. (`slowdown` of flows.parquet ends when the last byte reaches the receiver, which makes
short flows' slowdowns about twice as large.)
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from penstock_net.results.run import FACEBOOK_BINS, GOOGLE_BINS, LONG_BYTES, SHORT_BYTES
from penstock_papers import ages, frames
from penstock_papers.bfc._variants import CORE, LOAD, NS3, UPLINKS, VARIANTS
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import FROM_PAPER, MORE, OURS
from penstock_papers.frames import Scheme
from penstock_papers.sentences import Numbers, Row, as_said, within
from penstock_papers.style import log_axis, size_text

FABRIC: dict[str, Any] = {
    "kind": "leaf_spine",
    "hosts": 128,
    "tors": 8,
    "spines": 8,
    "rate": "100Gbps",
    "delay": "1us",
    "buffer": "12MB",
}
INCAST = {"kind": "incast", "fan_in": 100, "total": "20MB", "every": "500us", "replace": True}
SIZES = {"google": GOOGLE_BINS, "facebook_hadoop": FACEBOOK_BINS}
PERCENTILES = (95, 99)
MEDIUM = (200_000, 1_000_000)  # "medium flows (200-1000KB)", section 6.2.2
POINTS = 400  # of a CDF
SEEDS = {"paper": 3}  # the paper does not say how many it averages
MAIN_SEEDS = {
    "paper": 10
}  # of figures 9 to 14, and of the abstract, which has the same runs: short flows' tail differs most there
UNSEEN = 0.03  # per cent of the time
NEVER = (
    "never is of the paper's run, here of more: 0.03 % of 50 ms are 15 us of a link, less than two round trips, which no flow "
    "feels; a time is at least 0"
)
RANGE = "the range that the paper names"
WORSE = "HPCC has 5-30x worse tail latency for short flows with incast, and 2.3-3x worse without"
BEST = "BFC achieves the best FCTs (both average and tail) among all the schemes"
LINKS = ("host to ToR", "ToR to spine", "spine to ToR")
OTHER_LOAD = {CORE: "load of section 6.2.1", UPLINKS: "load of the authors' simulator"}
SHORTER = {CORE: "load of the text", UPLINKS: "load of the code"}  # in titles

BFC = Scheme("BFC", NS3, run="bfc")
IDEAL = Scheme("Ideal-FQ", {"name": "ideal_fq"}, run="ideal_fq")
HPCC = Scheme("HPCC", {"name": VARIANTS["hpcc"]}, run="hpcc")
DCTCP = Scheme("DCTCP", {"name": VARIANTS["dctcp"]}, run="dctcp")
DCQCN = Scheme("DCQCN", {"name": VARIANTS["dcqcn"]}, run="dcqcn")
BFC_64 = Scheme("BFC, 64 queues", {**BFC.table, "queues": 64}, nth=1, run="bfc64")
BFC_128 = Scheme("BFC, 128 queues", {**BFC.table, "queues": 128}, nth=2, run="bfc128")
HPCC_80 = Scheme("HPCC, 80 B of INT", {**HPCC.table, "int_bytes": 80}, nth=1, run="hpcc80")
HPCC_5 = Scheme("HPCC, maxStage 5", {**HPCC.table, "max_stage": 5}, nth=2, run="hpcc_stage5")
DCQCN_ALONE = Scheme("DCQCN, no window", {"name": "dcqcn"}, nth=1, run="dcqcn_alone")
SCHEMES = (DCQCN, DCTCP, HPCC, BFC, IDEAL)
EXISTING = (DCQCN, DCTCP, HPCC)
KNOWN = {scheme.label: scheme for scheme in (*SCHEMES, BFC_64, BFC_128, HPCC_80, HPCC_5, DCQCN_ALONE)}


def spec(
    schemes: Iterable[Scheme], duration: str, sizes: str = "google", load: float = 0.6, incast: float = 0.0, load_of: str = LOAD
) -> Spec:
    """The spec of one traffic and several schemes.

    `incast` is the part of the load that comes as incast: 0.05 or 0; `load_of`: what the load refers to.
    """
    share = round(load - incast, 4)
    poisson = {"kind": "poisson", "sizes": sizes, **load_keys(share, load_of)}
    return {
        "run": {"duration": duration, "seed": 1, "drain": False},
        "topology": FABRIC,
        "scheme": [{**scheme.table, "label": scheme.label} for scheme in schemes],
        "workload": [{**poisson, "arrivals": "lognormal", "sigma": 2.0}, *([INCAST] if incast else [])],
    }


def load_keys(share: float, load_of: str = LOAD) -> dict[str, Any]:
    """`load` and `load_on` of a workload with uniform pairs, by a definition of load; CORE is 127/112 of UPLINKS."""
    hosts, tors, spines = (FABRIC[name] for name in ("hosts", "tors", "spines"))
    counted = (hosts - hosts // tors) / (hosts - 1) if load_of == CORE else 1
    return {"load": round(share * tors * spines / hosts / counted, 6), "load_on": "host"}


def named(traffic: str, load_of: str) -> str:
    """The name of a traffic with this definition of load."""
    return traffic if load_of == LOAD else f"{traffic}-{load_of}"


def prefix_of(load_of: str) -> tuple[str, str]:
    """What the ids and the texts of claims with this definition of load begin with."""
    return ("", "") if load_of == LOAD else (f"{load_of}-", f"{OTHER_LOAD[load_of]}: ")


def kind_of(load_of: str) -> str:
    """The kind of claims with this definition of load."""
    return FROM_PAPER if load_of == LOAD else OURS


# -- statistics of a run


def of(runs: Runs, traffic: str, scheme: Scheme) -> str:
    """The label of a run: that of the spec if the spec has only one scheme."""
    both = f"{traffic}/{scheme.label}"
    return both if both in runs else traffic


def statistics(runs: Runs, traffic: str, scheme: Scheme, sizes: str) -> pl.DataFrame:
    """Slowdown by size, and of short, medium and long flows, of all but incast flows: panels avg, p95, p99, class."""
    return of_flows(counted(runs, of(runs, traffic, scheme)), traffic, scheme, sizes)


def of_flows(flows: pl.LazyFrame, traffic: str, scheme: Scheme, sizes: str) -> pl.DataFrame:
    """The panels of `statistics` for these flows, with bytes, slowdown and finished."""
    flows = flows.collect().lazy()  # once, and not for each of the statistics
    by_size = _by_size(flows, SIZES[sizes])
    parts = [
        points(traffic, scheme, panel, by_size["bytes"], by_size[panel], by_size["flows"]) for panel in ("avg", "p95", "p99")
    ]
    for group, (low, high) in {"short": (0, SHORT_BYTES), "medium": MEDIUM, "long": (LONG_BYTES + 1, None)}.items():
        inside = flows.filter(pl.col("bytes") >= low)
        inside = inside if high is None else inside.filter(pl.col("bytes") < high)
        row = inside.select(*_aggregates()).collect()
        parts += [points(traffic, scheme, f"{group} {p}", [low], row[p], row["flows"]) for p in ("avg", "p95", "p99")]
    return pl.concat(parts)


def counted(runs: Runs, label: str, incast: bool = False) -> pl.LazyFrame:
    """Bytes, slowdown by the sender's clock, and finished, of the flows that count: incast flows or all others."""
    of_incast = pl.col("class").cast(pl.String) == "incast"
    flows = ages.counted(runs, label, "sender").filter(of_incast if incast else ~of_incast)
    return flows.select("bytes", "slowdown", "finished")


def _by_size(flows: pl.LazyFrame, bounds: Sequence[int]) -> pl.DataFrame:
    """A row per size bin: median size, number and statistics."""
    place = pl.lit(0)
    for bound in bounds:
        place = place + (pl.col("bytes") > bound).cast(pl.Int32)
    grouped = flows.with_columns(place.alias("bin")).group_by("bin")
    return grouped.agg(pl.col("bytes").median(), *_aggregates()).sort("bin").collect()


def _aggregates() -> list[pl.Expr]:
    value = pl.col("slowdown")
    tails = [value.quantile(p / 100, "linear").alias(f"p{p}") for p in PERCENTILES]
    return [ages.number_finished().alias("flows"), value.mean().alias("avg"), *tails]


def points(traffic: str, scheme: Scheme, panel: str, x: Any, y: Any, flows: Any = None) -> pl.DataFrame:
    """Rows of data.parquet; `flows`: how many have finished of those that each of them stands for."""
    frame = frames.rows(panel, scheme.legend, x, y, scheme=scheme.label, traffic=traffic)
    count = np.full(len(frame), -1) if flows is None else np.asarray(flows)
    return frame.insert_column(2, pl.Series("flows", count.astype(np.int64)))


def buffers(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panel buffer: the CDF of the buffer in use, MB, over samples of every switch every 2 us."""
    used = runs.scan(of(runs, traffic, scheme), "switches").select("buffer_bytes").collect()["buffer_bytes"]
    share = np.concatenate([np.linspace(0, 0.99, POINTS), 1 - np.geomspace(0.01, 1e-5, POINTS // 2)])
    return points(traffic, scheme, "buffer", np.quantile(used.to_numpy() / 1e6, share), share)


def pauses(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panel pfc: per cent of time that the links of each kind (x: index in LINKS) were paused by PFC."""
    label = of(runs, traffic, scheme)
    tier = runs.scan(label, "nodes").select("node", "tier").collect()
    ports = runs.scan(label, "ports").select("node", "peer", "paused_ns").collect()
    ports = ports.join(tier, on="node").join(tier.rename({"node": "peer", "tier": "to"}), on="peer")
    end = runs.summary(label)["end_ns"]
    kinds = ((0, 1), (1, 2), (2, 1))
    held = [ports.filter((pl.col("tier") == a) & (pl.col("to") == b))["paused_ns"].mean() / end for a, b in kinds]
    return points(traffic, scheme, "pfc", range(len(kinds)), [100 * share for share in held])


def active_flows(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panel active: the CDF of the flows with packets waiting at a port, over samples of every port of every switch."""
    counts = runs.scan(of(runs, traffic, scheme), "active_flows").group_by("active_flows").agg(pl.col("samples").sum())
    table = counts.sort("active_flows").collect()
    return points(traffic, scheme, "active", table["active_flows"], table["samples"].cum_sum() / table["samples"].sum())


def everything(runs: Runs, traffic: str, scheme: Scheme, sizes: str) -> pl.DataFrame:
    """Slowdowns, buffers, pauses and totals of a run."""
    rest = (part(runs, traffic, scheme) for part in (buffers, pauses, totals))
    return pl.concat([statistics(runs, traffic, scheme, sizes), *rest])


def totals(runs: Runs, traffic: str, scheme: Scheme) -> pl.DataFrame:
    """Panels drops, unfinished, wall and memory, which the figure does not show: one number each."""
    said = runs.summary(of(runs, traffic, scheme))
    numbers = {"drops": said["drops"], "unfinished": said["flows_started"] - said["flows_finished"]}
    return pl.concat([points(traffic, scheme, panel, [0], [value]) for panel, value in numbers.items()])


# -- reading data.parquet


def value(data: pl.DataFrame, traffic: str, scheme: Scheme | str, panel: str) -> float:
    """The one number of a panel (the largest, if it has several)."""
    label = scheme if isinstance(scheme, str) else scheme.label
    return frames.value(curve(data, traffic, label, panel).sort("y", descending=True))


def curve(data: pl.DataFrame, traffic: str, label: str, panel: str) -> pl.DataFrame:
    """The points of one line."""
    return frames.chosen(data, traffic=traffic, scheme=label, panel=panel)


def labels(data: pl.DataFrame, traffic: str, panel: str) -> list[str]:
    """The schemes of a panel in the order of the data."""
    kept = data.filter((pl.col("traffic") == traffic) & (pl.col("panel") == panel))
    return kept["scheme"].unique(maintain_order=True).to_list()


# -- claims of several figures: their rows, and their numbers


def long_rows(prefix: str = "", where: str = "") -> list[Row]:
    """Section 6.2.2 on flows > 3 MB: BFC is best, and HPCC does worse than DCQCN and DCTCP."""
    hpcc = "HPCC ({} flows finished) / worst of DCTCP and DCQCN ({}, {} flows finished)"
    said = (
        ("long-best", "best existing scheme ({}) / BFC", BEST, FROM_PAPER),
        ("long-hpcc", hpcc, "Long flows do worse with HPCC than DCQCN and DCTCP", FROM_PAPER),
        ("long-dctcp", "HPCC / DCTCP", "a part of the sentence", OURS),
    )
    return [
        within(f"{prefix}{id}", f"{where}flows > 3 MB, average: {what}", paper, 1, why=MORE, kind=kind)
        for id, what, paper, kind in said
    ]


def long_flows(data: pl.DataFrame, traffic: str, prefix: str = "") -> Numbers:
    """The numbers of `long_rows`."""
    mean = {scheme.legend: value(data, traffic, scheme, "long avg") for scheme in (BFC, DCTCP, HPCC, DCQCN)}
    worst = max(("DCTCP", "DCQCN"), key=mean.__getitem__)
    counts = {s.legend: curve(data, traffic, s.label, "long avg")["flows"][0] for s in (HPCC, DCTCP, DCQCN)}
    return {
        f"{prefix}long-best": best_existing(mean),
        f"{prefix}long-hpcc": (mean["HPCC"] / mean[worst], counts["HPCC"], worst, counts[worst]),
        f"{prefix}long-dctcp": mean["HPCC"] / mean["DCTCP"],
    }


def medium_rows(prefix: str = "", where: str = "") -> list[Row]:
    """Section 6.2.2 on flows of 200 to 1000 KB: slightly better with every existing scheme than with BFC and Ideal-FQ."""
    return [
        row
        for base in (BFC, IDEAL)
        for row in (
            as_said(
                f"{prefix}medium-{base.label}",
                f"{where}flows of 200 to 1000 KB, average: {base.legend} / worst existing scheme ({{}})",
                "latency for medium flows (200-1000KB) is slightly better with existing schemes",
                "slightly",
            ),
            within(
                f"{prefix}medium-tail-{base.label}",
                f"{where}{base.legend}, p99: flows of 200 to 1000 KB / flows > 3 MB",
                "tail slowdown is better for long flows than medium flows",
                1,
                why=MORE,
            ),
        )
    ]


def medium_flows(data: pl.DataFrame, traffic: str, prefix: str = "") -> Numbers:
    """The numbers of `medium_rows`."""
    mean = {scheme.legend: value(data, traffic, scheme, "medium avg") for scheme in EXISTING}
    worst = max(mean, key=mean.__getitem__)
    found: Numbers = {}
    for base in (BFC, IDEAL):
        medium, long = (value(data, traffic, base, f"{group} p99") for group in ("medium", "long"))
        found[f"{prefix}medium-{base.label}"] = (value(data, traffic, base, "medium avg") / mean[worst], worst)
        found[f"{prefix}medium-tail-{base.label}"] = medium / long
    return found


def pfc_rows(prefix: str = "", where: str = "") -> list[Row]:
    """Caption of figure 10, for all schemes."""
    said = "For all the schemes, PFC was never triggered"
    return [
        within(f"{prefix}pfc", f"{where}all schemes: time paused by PFC, worst kind of link (%)", said, None, UNSEEN, why=NEVER)
    ]


def paused(data: pl.DataFrame, traffic: str, prefix: str = "") -> Numbers:
    """The number of `pfc_rows`."""
    return {f"{prefix}pfc": max(value(data, traffic, each, "pfc") for each in (BFC, *EXISTING))}


def no_drops(prefix: str = "", where: str = "") -> Row:
    """Section 6 and section 5 on drops under BFC; the number is that of `dropped`."""
    said = "BFC never incurred drops except under a 2000-to-1 incast"
    return within(f"{prefix}drops", f"{where}packets dropped under BFC", said, 0, 0, why="never", quick=True)


def dropped(data: pl.DataFrame, traffic: str, schemes: Iterable[Scheme] = (BFC,)) -> float:
    """Packets dropped under these schemes."""
    return sum(value(data, traffic, scheme, "drops") for scheme in schemes)


def near_optimal(id: str, claim: str, quick: bool = True) -> Row:
    """A ratio of BFC to Ideal-FQ without incast."""
    said = "Without incast, BFC performance closely tracks optimal"
    return within(id, claim, said, 0.85, 1.15, why="closely is within 15 %, in figures 10 and 11", quick=quick)


def best(id: str, what: str) -> Row:
    """The best scheme that can be built over BFC, of one statistic; the number is that of `best_existing`."""
    return within(id, f"{what}: best existing scheme ({{}}) / BFC", BEST, 1, why=MORE)


def best_existing(numbers: dict[str, float]) -> tuple[float, str]:
    """The best scheme that can be built over BFC, and which it is."""
    nearest = min((scheme.legend for scheme in EXISTING), key=numbers.__getitem__)
    return numbers[nearest] / numbers["BFC"], nearest


# -- panels


def draw_slowdown(axes: Any, data: pl.DataFrame, traffic: str, panel: str) -> None:
    """FCT slowdown by flow size, both axes logarithmic."""
    for label in labels(data, traffic, panel):
        line = curve(data, traffic, label, panel).drop_nulls()
        axes.plot(line["x"], line["y"], label=line["series"][0], **KNOWN[label].style)
    log_axis(axes.xaxis, size_text)
    log_axis(axes.yaxis, None, (1, 2, 5) if axes.get_ylim()[1] < 100 else (1,))
    axes.set_ylim(bottom=0.9)
    axes.set(xlabel="Flow size", ylabel="FCT slowdown")


def draw_buffer(axes: Any, data: pl.DataFrame, traffic: str, limit: float | None = None) -> None:
    """The CDF of the buffer in use at a switch."""
    for label in labels(data, traffic, "buffer"):
        line = curve(data, traffic, label, "buffer")
        axes.plot(line["x"], line["y"], label=line["series"][0], **{**KNOWN[label].style, "marker": None})
    axes.set(xlabel="Buffer in use at a switch (MB)", ylabel="CDF", ylim=(0, 1.02), xlim=(0, limit))


def draw_pauses(axes: Any, data: pl.DataFrame, traffic: str) -> None:
    """Time paused by PFC per kind of link, a bar per scheme that has PFC."""
    shown = [label for label in labels(data, traffic, "pfc") if KNOWN[label] in (BFC, *EXISTING)]
    width = 0.8 / max(1, len(shown))
    for i, label in enumerate(shown):
        bars = curve(data, traffic, label, "pfc")
        place = bars["x"].to_numpy() + (i - (len(shown) - 1) / 2) * width
        axes.bar(place, bars["y"], width * 0.92, color=KNOWN[label].style["color"], label=bars["series"][0])
    axes.set_xticks(range(len(LINKS)), [kind.replace(" to ", " to\n") for kind in LINKS])
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    axes.set(ylabel="Time paused by PFC (%)")


def draw_active(axes: Any, data: pl.DataFrame, lines: dict[str, tuple[str, Any]], queues: int = 32) -> None:
    """CDF of active flows at a port for BFC; `lines`: traffic -> legend and dashes. The bar marks the queues."""
    for traffic, (legend, dash) in lines.items():
        line = curve(data, traffic, BFC.label, "active")
        axes.plot(line["x"], line["y"], ds="steps-post", color=BFC.style["color"], ls=dash, label=legend)
    axes.axvline(queues, color="0.35", lw=1.2)
    axes.annotate(
        f"{queues} queues",
        (queues, 0.04),
        xycoords=("data", "axes fraction"),
        rotation=90,
        fontsize=7.5,
        color="0.35",
        ha="right",
        va="bottom",
        xytext=(-1, 0),
        textcoords="offset points",
    )
    axes.set(xlabel="Active flows at a port", ylabel="CDF", xlim=(0, 4 * queues))
