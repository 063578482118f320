"""BFC (NSDI 2022), figure 26: two data centres that are joined by a link of 200 us: local tails and use of that link.

Appendix A.9: "a Clos topology with 64 leaf servers, and 100 Gbps links and 12 MB switch buffers" in each, two gateway switches, a
200 Gbit/s link of 200 us between them; flows within each data centre from the Facebook distribution at 60 % load, no incast, and
20 long-lived flows in either direction, which are 10 Gbit/s or 500 KB each, as the text has it.  From the authors' simulator: 4
ToR and 8 spine switches in each, every spine linked to the gateway, whose buffer is 64 MiB, since 400 us of 200 Gbit/s are 10 MB.
Load is that of the links between ToR and spine, see `_fabric`; arrivals are lognormal as there.  The long flows are between hosts
of the same position, every third one.

(a) 99th percentile of the slowdown of flows within a data centre, by size, (b) bytes on the long link, both directions.  The
single data centre is figure 11 (b), whose runs these are.

HPCC's T is one for all flows, the largest base RTT, here that of the long link; in the authors' simulator it is that of a flow's
own path.  HPCC with the T of one data centre is shown beside it, (ours).
"""

from typing import Any

import polars as pl

from penstock.experiments.bfc import _fabric as fabric
from penstock.experiments.bfc import _rivals as rivals
from penstock.experiments.bfc import fig11
from penstock.experiments.bfc._fabric import BFC, DCQCN, HPCC, Scheme, value
from penstock.experiments.cache import Runs, Spec
from penstock.experiments.claims import MORE, OURS, Claim, Differs, ascending, within
from penstock.experiments.style import PAGE, figure, legend_above, lettered

TITLE = "Two data centres: local tails and use of the link between them, Facebook"
PAPER = "BFC, NSDI 2022, appendix A.9, figure 26"
DURATION = {"quick": "2ms", "paper": "50ms"}
SEEDS = fabric.SEEDS
SIZES = "facebook_hadoop"
SITES, HOSTS, TORS, SPINES = 2, 64, 4, 8  # of a site: all but the first
NETWORK: dict[str, Any] = {
    "kind": "sites",
    "sites": SITES,
    "hosts_per_site": HOSTS,
    "tors": TORS,
    "spines": SPINES,
    "rate": "100Gbps",
    "delay": "1us",
    "buffer": "12MB",
    "long_rate": "200Gbps",
    "long_delay": "200us",
    "gateway_buffer": 64 << 20,
}
LONG_BPS = 200e9
LOAD = 0.6  # of the links between ToR and spine
LONG_FLOWS = 20
HPCC_LOCAL = Scheme("HPCC, T of one site", {**HPCC.table, "t": "8.4us"}, nth=1, run="hpcc_local")
SCHEMES = (DCQCN, HPCC, BFC)
SHOWN = (*SCHEMES, HPCC_LOCAL)
TWO, ONE = "two", "one"  # data centres
BETTER = "BFC is better for both types of flows"
FULL = "With BFC, the link utilization of the wide area interconnect is close to 100%"
NEITHER = "neither HPCC nor DCQCN can maintain the link at full utilization, even with ample parallelism"
WORSE = "tail latency FCTs are worse for all three protocols, but the relative advantage of BFC is maintained"
SINGLE = "HPCC has better tail latency than DCQCN in the single data center case for both short and medium-sized flows"
BECOMES = "once inter-data-center traffic is added, HPCC becomes worse than DCQCN"
UNAFFECTED = (
    "tail latencies of intra-data-center flows are relatively unaffected by the presence of inter-data-center flows, while the "
    "opposite is true of HPCC"
)
CLOSE = 90  # per cent: "close to 100%" is within a tenth
DIFFERS: dict[str, Differs] = {}


def specs(scale: str) -> dict[str, Spec]:
    """Two data centres, and the single one of figure 11."""
    one = fig11.specs(scale)["plain"]
    wanted = {scheme.label for scheme in SCHEMES}
    spec = fabric.spec(SHOWN, DURATION[scale], SIZES)
    (poisson,) = spec["workload"]
    poisson |= {"load": load(), "load_on": "host"}
    local = [{**poisson, "hosts": list(range(first, first + HOSTS))} for first in range(0, SITES * HOSTS, HOSTS)]
    return {
        TWO: {**spec, "topology": NETWORK, "workload": [*local, {"kind": "list", "flows": long_flows(), "class": "long"}]},
        ONE: {**one, "scheme": [table for table in one["scheme"] if table["label"] in wanted]},
    }


def load() -> float:
    """The load of a site's flows, of the links of all hosts: LOAD of its uplinks, which flows to other racks use."""
    between_racks = (HOSTS - HOSTS // TORS) / (HOSTS - 1)
    return round(LOAD * TORS * SPINES / between_racks / (SITES * HOSTS), 6)


def long_flows() -> list[list[Any]]:
    """Flows that outlast the run, between hosts of the same position."""
    pairs = [(host, HOSTS + host) for host in range(0, 3 * LONG_FLOWS, 3)]
    return [[*ends, "10GB"] for pair in pairs for ends in (pair, pair[::-1])]


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: flow size; y: slowdown, by traffic and panel; panel long: per cent of the long link, mean of both directions."""
    two = [
        pl.concat([fabric.statistics(runs, TWO, each, SIZES), fabric.totals(runs, TWO, each), use(runs, each)]) for each in SHOWN
    ]
    return pl.concat([*two, *(fabric.statistics(runs, ONE, each, SIZES) for each in SCHEMES)])


def use(runs: Runs, scheme: Scheme) -> pl.DataFrame:
    """Panel long: bytes that gateways sent to gateways, per cent of what the link could carry."""
    label = fabric.of(runs, TWO, scheme)
    gateways = runs.scan(label, "nodes").filter(pl.col("tier") == 3).select("node")
    ports = runs.scan(label, "ports").join(gateways, on="node").join(gateways.rename({"node": "peer"}), on="peer")
    sent = ports.select(pl.col("tx_bytes").mean()).collect().item()
    return fabric.points(TWO, scheme, "long", [0], [100 * sent * 8e9 / runs.summary(label)["end_ns"] / LONG_BPS])


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """The long link, the tails of local flows, and both beside a single data centre."""
    return [*_long_link(data), *_local(data), *_order(data), fabric.no_drops(data, TWO, (BFC,))]


def _local(data: pl.DataFrame) -> list[Claim]:
    """Short flows within a data centre: BFC beside the others, and beside a single data centre."""
    tail, single = ({each.legend: value(data, traffic, each, "short p99") for each in SCHEMES} for traffic in (TWO, ONE))
    growth = {name: tail[name] / single[name] for name in tail}
    nearest = min((DCQCN.legend, HPCC.legend), key=tail.__getitem__)
    what, both = "flows < 3 KB, p99", "two data centres / one"
    best = tail[nearest] / tail[BFC.legend]
    similar = "unaffected is similar: a factor from 0.8 to 1.25"
    return [
        within("best-short", f"{what}: best of HPCC and DCQCN ({nearest}) / BFC", BETTER, best, 1, why=MORE),
        *(
            within(f"worse-{each.label}", f"{what}, {each.legend}: {both}", WORSE, growth[each.legend], 1, why=MORE)
            for each in SCHEMES
        ),
        *(
            within(
                f"maintained-{each.label}",
                f"{what}, {each.legend} / BFC: {both}",
                WORSE,
                growth[each.legend] / growth[BFC.legend],
                0.5,
                2,
                why="maintained is within a factor of two",
            )
            for each in (HPCC, DCQCN)
        ),
        within("unaffected", f"{what}, BFC: {both}", UNAFFECTED, growth[BFC.legend], 0.8, 1.25, why=similar),
        ascending(
            "opposite",
            f"{what}, {both}: BFC below HPCC",
            UNAFFECTED,
            {name: growth[name] for name in (BFC.legend, HPCC.legend)},
            quick=False,
        ),
    ]


def _order(data: pl.DataFrame) -> list[Claim]:
    """HPCC and DCQCN change places."""
    found = []
    for id, where, traffic, said, worse, better in (
        ("single", "one data centre", ONE, SINGLE, DCQCN, HPCC),
        ("becomes", "two data centres", TWO, BECOMES, HPCC, DCQCN),
    ):
        for group, sizes in (("short", "flows < 3 KB"), ("medium", "flows of 200 to 1000 KB")):
            ratio = value(data, traffic, worse, f"{group} p99") / value(data, traffic, better, f"{group} p99")
            what = f"{where}, {sizes}, p99: {worse.legend} / {better.legend}"
            found.append(within(f"{id}-{group}", what, said, ratio, 1, why=MORE))
    return found


def _long_link(data: pl.DataFrame) -> list[Claim]:
    used = {each.label: value(data, TWO, each, "long") for each in SHOWN}
    what = "use of the link between the data centres (%)"
    return [
        within("long-bfc", f"{what}: BFC", FULL, used[BFC.label], CLOSE, 100, why="close is within a tenth"),
        *(
            within(
                f"long-{each.label}",
                f"{what}: {each.legend}",
                NEITHER,
                used[each.label],
                0,
                CLOSE,
                why="full is what is close to 100 %, within a tenth; the paper names no number",
            )
            for each in (HPCC, DCQCN)
        ),
        within(
            "long-hpcc-local",
            f"{what}: {HPCC_LOCAL.legend}",
            "HPCC with the T of one data centre",
            used[HPCC_LOCAL.label],
            0,
            CLOSE,
            why="the same as for HPCC",
            kind=OURS,
        ),
    ]


def plot(data: pl.DataFrame) -> Any:
    """Local flows' slowdown by size, and the use of the long link."""
    made, grid = figure(1, 2, width=PAGE, height=2.7, gridspec_kw={"width_ratios": (1.5, 1)})
    rivals.draw_sizes(grid[0], data, TWO, SHOWN, "p99")
    for place, scheme in enumerate(SHOWN):
        grid[1].bar(place, value(data, TWO, scheme, "long"), 0.7, color=scheme.style["color"], alpha=0.5 if scheme.nth else 1)
    grid[1].set_xticks(range(len(SHOWN)), [scheme.legend.replace(", ", ",\n") for scheme in SHOWN])
    grid[1].tick_params(axis="x", length=0)
    grid[1].grid(visible=False, axis="x")
    grid[1].set(ylabel="Use of the long link (%)", ylim=(0, 100))
    lettered(grid, ("within a data centre, 99th percentile", "between them"))
    legend_above(made, grid[0], columns=len(SHOWN))
    return made
