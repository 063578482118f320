"""Floodgate (CoNEXT 2021), figure 20: HPCC+Floodgate against BFC with 32, 128 and ideally many queues under an incast mix.

Section 8, appendix B. The incast mix of Memcached and Web Server (`_setup`). The paper's BFC-ideal has a queue for each flow
and no collisions; ours has 1024 queues, the most there are, at each port and NIC, takes one that a flow still sticks to only
when there is no other, has 100 flow-table entries for each, and does not repeat the state of its queues. BFC-32Q and BFC-128Q
are `bfc:unpaused`, empty is empty, as appendix B describes it ("non-incast flows could be pushed into it"). As in the authors'
simulator PFC is below all of them, and ACKs queue behind data. DCQCN+Floodgate is shown beside them.

The Floodgate authors' BFC is not public. How large its flow table is, and how flows are hashed to it, is not known: TABLES are
the candidates, entries for each queue, of which BFC's own paper has 100, which is shown until one is chosen. Appendix B (iii)
can tell: "We observed that at most eight flow IDs could be hashed into the same FIDs simultaneously". Panel "sharing" has the
same number here, at the ToRs' ports to hosts.
"""

from typing import Any

import polars as pl

from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_papers import frames
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.floodgate import _setup as setup
from penstock_papers.floodgate._setup import Scheme, rows, scheme, value
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLACK, BLUE, DASHES, GREEN, ORANGE, PAGE, SKY, figure, legend_above, lettered, log_axis

TITLE = "Against BFC under an incast mix"
PAPER = "Floodgate, CoNEXT 2021, section 8 and appendix B, figure 20"
FLOODGATE = scheme("HPCC", "Floodgate")
PFC = {"pfc": setup.PFC}
TABLES = (100, 10, 4, 1)
TABLE = TABLES[0]
QUEUES = {"BFC-32Q": 32, "BFC-128Q": 128}
BFC_32, BFC_128 = (
    Scheme(name, {"name": "bfc:unpaused+pfc", "dqa": {"queues": n, "table": TABLE}, **PFC}) for name, n in QUEUES.items()
)
BFC_IDEAL = Scheme("BFC-ideal", {"name": "bfc+pfc", "bfc": {"nic_queues": 1024, "refresh": 0}, "dqa": {"queues": 1024}, **PFC})
DCQCN_TOO = scheme(variant="Floodgate")  # not in the paper's figure: what is due to HPCC
SHOWN = (FLOODGATE, BFC_IDEAL, BFC_128, BFC_32, DCQCN_TOO)
LOOKS = dict(zip((s.legend for s in SHOWN), zip((GREEN, BLACK, BLUE, SKY, ORANGE), (*DASHES[:4], DASHES[1]))))
CASES = {"memcached": "Memcached", "web_server": "Web Server"}
SHORT = 100_000  # bytes
STATISTICS = ("average", "99th percentile")
IDEAL_BETTER = "BFC-ideal performs better than Floodgate under Memcached"
OURS_BETTER = "under Web server, Floodgate performs better than BFC-ideal"
SEEDS = setup.SEEDS
DIFFERS: dict[str, Differs] = {}
POORER = "BFC-32Q/128Q performs poorer than Floodgate"
CLAIMS = (
    *(
        within(
            f"{workload}-{name[:3]}",
            f"{where}, {name} of the FCT: Floodgate over the better of BFC-32Q and BFC-128Q",
            POORER,
            high=1,
            why=MORE,
        )
        for workload, where in CASES.items()
        for name in STATISTICS
    ),
    *(
        within(f"{workload}-ideal-{name[:3]}", f"{where}, {name} of the FCT: Floodgate / BFC-ideal", paper, *ends, why=MORE)
        for (workload, where), paper, ends in zip(CASES.items(), (IDEAL_BETTER, OURS_BETTER), ((1, None), (None, 1)))
        for name in STATISTICS
    ),
    holds(
        "short",
        "Web Server, average of the FCT of flows up to 100 KB (us): Floodgate below BFC",
        OURS_BETTER,
        "smallest",
        quick=False,
        kind=OURS,
    ),
    holds(
        "queues",
        "Web Server, p99 (us): BFC-32Q above BFC-ideal",
        "non-incast flows could share the same queue with incast flows",
        "larger",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic per workload."""
    return {workload: setup.mix(SHOWN, workload, scale) for workload in CASES}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "CDF": x us; of a statistic: x 0, y us; traffic: the workload."""
    parts = []
    for workload in CASES:
        for one in SHOWN:
            label = setup.of(runs, workload, one)
            parts += [rows(name, one.legend, [0], [t], workload) for name, t in zip(STATISTICS, setup.fct(runs, label))]
            times = setup.flows(runs, label)
            parts.append(rows("CDF", one.legend, *setup.cdf(times["fct"]), workload))
            for name, kept in (("short", pl.col("bytes") <= SHORT), ("long", pl.col("bytes") > SHORT)):
                parts.append(rows(name, one.legend, [0], [times.filter(kept)["fct"].mean()], workload))
            parts.append(rows("drops", one.legend, [0], [runs.summary(label)["drops"]], workload))
            parts.append(rows("buffer", one.legend, [0], [setup.max_buffer_mb(runs, label)], workload))
            if one.legend in QUEUES:
                flows = runs.scan(label, "flows").select("flow_id", "dst", "start_ns", "finish_ns").collect()
                most = sharing(flows, QUEUES[one.legend] * TABLE, runs.summary(label)["seed"])
                parts.append(rows("sharing", one.legend, [0], [most], workload))
    return pl.concat(parts)


def sharing(flows: pl.DataFrame, entries: int, seed: int) -> int:
    """The most flows to one host that are under way together and share an entry of the table of its ToR's port."""
    tor = setup.FABRIC["hosts"] + flows["dst"].to_numpy() // setup.PER_RACK
    entry = choice(flow_hash(flows["flow_id"].to_numpy(), seed), node_seed(tor, seed) + 1, entries)
    flows = flows.with_columns(entry=entry).filter(pl.col("finish_ns").is_not_null())
    begin, end = (flows.select("dst", "entry", at=at, step=pl.lit(step)) for at, step in (("start_ns", 1), ("finish_ns", -1)))
    steps = pl.concat([begin, end]).sort("at", "step")  # one that ends makes room for one that begins then
    return int(steps.select(pl.col("step").cum_sum().over("dst", "entry").max()).item() or 0)


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Floodgate is better than BFC with 32 and 128 queues; its ideal design than BFC-ideal on Memcached only."""
    found: Numbers = {}
    for workload in CASES:
        for name in STATISTICS:
            ours, ideal, *queues = (value(data, name, s.legend, workload) for s in SHOWN[:4])
            found |= {f"{workload}-{name[:3]}": ours / min(queues), f"{workload}-ideal-{name[:3]}": ours / ideal}
    short = {s.legend: value(data, "short", s.legend, "web_server") for s in SHOWN[:4]}
    late = {s.legend: value(data, STATISTICS[1], s.legend, "web_server") for s in (BFC_IDEAL, BFC_128, BFC_32)}
    return {
        **found,
        "short": (min(short, key=short.__getitem__) == FLOODGATE.legend, frames.text(short)),
        "queues": (late[BFC_32.legend] > late[BFC_IDEAL.legend], frames.text(late)),
    }


def plot(data: pl.DataFrame) -> Any:
    """A CDF for each workload above its tail."""
    made, grid = figure(2, len(CASES), width=PAGE, height=4.2)
    for column, workload in zip(grid.T, CASES):
        for legend, (colour, dash) in LOOKS.items():
            kept = (pl.col("panel") == "CDF") & (pl.col("series") == legend) & (pl.col("traffic") == workload)
            line = data.filter(kept).sort("y")
            for axes in column:
                axes.plot(line["x"], line["y"], color=colour, ls=dash, label=legend)
        for axes, low, high in zip(column, (0, 0.95), (1.01, 1.0005)):
            log_axis(axes.xaxis)
            axes.set(ylim=(low, high))
        column[1].set(xlabel="FCT (us)")
    for axes in grid[:, 0]:
        axes.set(ylabel="CDF")
    lettered(grid.flat, [f"{name}{tail}" for tail in ("", ", tail") for name in CASES.values()])
    legend_above(made, grid[0, 0], columns=5)
    return made
