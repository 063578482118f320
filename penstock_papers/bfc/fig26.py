"""BFC (NSDI 2022), figure 26: two data centres that are joined by a link of 200 us: local tails and use of that link.

Appendix A.9: "a Clos topology with 64 leaf servers, and 100 Gbps links and 12 MB switch buffers" in each, two gateway switches, a
200 Gbit/s link of 200 us between them; flows within each data centre from the Facebook distribution at 60 % load, no incast, and
20 long-lived flows in either direction, which are 10 Gbit/s or 500 KB each, as the text has it.  From the authors' simulator: 4
ToR and 8 spine switches in each, every spine linked to the gateway, whose buffer is 64 MiB, since 400 us of 200 Gbit/s are 10 MB.
Load is that of the ToRs' uplinks by all flows of a site, as there (UTILIZATION_FACTOR of 32 links, for each) and in `_fabric`;
arrivals are lognormal.  The long flows are between hosts of the same position, every third one.

(a) 99th percentile of the slowdown of flows within a data centre, by size, (b) bytes on the long link, both directions.  The
single data centre is figure 11 (b), whose runs these are.

HPCC's T with two data centres, and with it a flow's window, is the base RTT of the flow's own path, as in the authors' simulator,
whose branch for this figure has GLOBAL_T 0.  Beside it, (ours), one T for all flows, the largest base RTT, that of the long link.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import fig11
from penstock_papers.bfc._fabric import BFC, DCQCN, HPCC, Scheme, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, WORDS, Differs
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import PAGE, figure, legend_above, lettered

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
LOAD = 0.6  # of the links between ToR and spine, by all flows of a site
LONG_FLOWS = 20
HPCC_OWN = replace(HPCC, table={**HPCC.table, "own_t": True})
HPCC_ONE = Scheme("HPCC, one T", HPCC.table, nth=1, run="hpcc_one_t")
SCHEMES = (DCQCN, HPCC_OWN, BFC)
SHOWN = (*SCHEMES, HPCC_ONE)
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


_USE, _SHORT, _BOTH = "use of the link between the data centres (%)", "flows < 3 KB, p99", "two data centres / one"
_NOT_FULL = "full is what is close to 100 %, within a tenth; the paper names no number"
CLAIMS = (
    within("long-bfc", f"{_USE}: BFC", FULL, CLOSE, 100, why="close is within a tenth"),
    *(within(f"long-{each.label}", f"{_USE}: {each.legend}", NEITHER, 0, CLOSE, why=_NOT_FULL) for each in (HPCC, DCQCN)),
    within("best-short", f"{_SHORT}: best of HPCC and DCQCN ({{}}) / BFC", BETTER, 1, why=MORE),
    *(within(f"worse-{each.label}", f"{_SHORT}, {each.legend}: {_BOTH}", WORSE, 1, why=MORE) for each in SCHEMES),
    *(
        within(
            f"maintained-{each.label}",
            f"{_SHORT}, {each.legend} / BFC: {_BOTH}",
            WORSE,
            0.5,
            2,
            why="maintained is within a factor of two",
        )
        for each in (HPCC, DCQCN)
    ),
    within(
        "unaffected", f"{_SHORT}, BFC: {_BOTH}", UNAFFECTED, *WORDS["similar"], why="unaffected is similar: the band of that word"
    ),
    ascending("opposite", f"{_SHORT}, {_BOTH}: BFC below HPCC", UNAFFECTED, quick=False),
    *(
        within(f"{id}-{group}", f"{where}, {sizes}, p99: {ratio}", said, 1, why=MORE)
        for id, where, ratio, said in (
            ("single", "one data centre", "DCQCN / HPCC", SINGLE),
            ("becomes", "two data centres", "HPCC / DCQCN", BECOMES),
        )
        for group, sizes in (("short", "flows < 3 KB"), ("medium", "flows of 200 to 1000 KB"))
    ),
    fabric.no_drops(),
)


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
    """The load of a site's flows, of the links of all hosts: LOAD of the rate of its uplinks."""
    return round(LOAD * TORS * SPINES / (SITES * HOSTS), 6)


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


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The long link, the tails of local flows, and both beside a single data centre."""
    used = {f"long-{each.label}": value(data, TWO, each, "long") for each in SCHEMES}
    return {**used, **_local(data), **_order(data), "drops": fabric.dropped(data, TWO)}


def _local(data: pl.DataFrame) -> Numbers:
    """Short flows within a data centre: BFC beside the others, and beside a single data centre."""
    tail, single = ({each.legend: value(data, traffic, each, "short p99") for each in SCHEMES} for traffic in (TWO, ONE))
    growth = {name: tail[name] / single[name] for name in tail}
    nearest = min((DCQCN.legend, HPCC.legend), key=tail.__getitem__)
    return {
        "best-short": (tail[nearest] / tail[BFC.legend], nearest),
        **{f"worse-{each.label}": growth[each.legend] for each in SCHEMES},
        **{f"maintained-{each.label}": growth[each.legend] / growth[BFC.legend] for each in (HPCC, DCQCN)},
        "unaffected": growth[BFC.legend],
        "opposite": {name: growth[name] for name in (BFC.legend, HPCC.legend)},
    }


def _order(data: pl.DataFrame) -> Numbers:
    """HPCC and DCQCN change places."""
    return {
        f"{id}-{group}": value(data, traffic, worse, f"{group} p99") / value(data, traffic, better, f"{group} p99")
        for id, traffic, worse, better in (("single", ONE, DCQCN, HPCC), ("becomes", TWO, HPCC, DCQCN))
        for group in ("short", "medium")
    }


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
