"""BFC (NSDI 2022), appendix B: backpressure graphs with and without cycles, a deadlock, and BFC without the edges of the cycle.

The paper has no network or traffic for it; the case is ours. Four ToRs of 16 hosts under two spines, links, delays and buffers as
in section 6.2.1. The links ToR 0 - spine 0 and ToR 1 - spine 1 fail before the traffic begins, so that ToRs 0 and 1 reach each
other by way of ToR 2 or 3: up, down, up, down. Every host sends 4 flows of 250 KB to its partner, host i of ToR 0 and of ToR 1 to
each other, likewise those of ToRs 2 and 3, whose paths go up and down once. On each link of the circle spine 1, ToR 2, spine 0,
ToR 3 traffic that goes on meets traffic that leaves. After 1 ms the links are repaired; routes are shortest again at once.

PFC is that of section 6.2.1, without congestion control. Its watchdog (ours) is that of SONiC, with times a thousandth of
what is usual in practice: 200 us to detect, 400 us to restore, instead of 200 and 400 ms. BFC has 32 queues per port; since a
cycle of the graph does not deadlock unless queues are shared all along it, it is shown with one queue per port, too (ours).
Elided edges are those of packets that come from above and leave upwards: "up-down paths but not temporary loops or detour
routes" (section 3.3.4). Both scales are the same.
"""

from typing import Any

import polars as pl

from penstock_net import Topology
from penstock_net.report.plots.backpressure import draw_graph
from penstock_net.topology import build
from penstock_net.topology.backpressure import Backpressure, over_time
from penstock_papers import frames
from penstock_papers.bfc._fabric import FABRIC
from penstock_papers.bfc._variants import NS3
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import (
    BLACK,
    BLUE,
    DASHES,
    GREEN,
    ORANGE,
    PAGE,
    PURPLE,
    RED,
    SKY,
    active,
    figure,
    legend_above,
    lettered,
)

TITLE = "Backpressure graphs, a deadlock after link failures, and elided edges"
PAPER = "BFC, NSDI 2022, appendix B"
PER_RACK, FLOWS, SIZE = 16, 4, "250KB"
FAILED = (("tor0", "spine0"), ("tor1", "spine1"))
REPAIRED_MS, END_MS, SHOWN_MS, BIN_US = 1, 100, 4, 20
NETWORK: dict[str, Any] = {
    **FABRIC,
    "hosts": 4 * PER_RACK,
    "tors": 4,
    "spines": 2,
    "changes": [
        *({"time": "1ns", "a": tor, "b": spine, "up": False} for tor, spine in FAILED),
        *({"time": f"{REPAIRED_MS}ms", "a": tor, "b": spine, "up": True} for tor, spine in FAILED),
    ],
}
CLOS: dict[str, dict[str, Any]] = {"leaf-spine": FABRIC, "fat tree": {"kind": "fat_tree", "k": 8}}
SCHEMES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "PFC": ({"name": "pfc"}, ORANGE, DASHES[0]),
    "PFC, watchdog": ({"name": "pfc", "watchdog": "200us", "restoration": "400us"}, RED, DASHES[1]),
    "BFC, all edges": (NS3, SKY, DASHES[2]),
    "BFC, elided": ({**NS3, "elide": True}, BLUE, DASHES[0]),
    "BFC, one queue, all edges": ({**NS3, "assignment": "single"}, PURPLE, DASHES[3]),
    "BFC, one queue, elided": ({**NS3, "assignment": "single", "elide": True}, GREEN, DASHES[4]),
}
PFC, WATCHDOG, KEPT, ELIDED, SINGLE, SINGLE_ELIDED = SCHEMES
TRAFFIC = "detour"
COUNT = "a count: the sentence leaves no other"
UP_DOWN = "this would allow up-down paths"
NONE = "no deadlocks even under link failures or routing errors"
SOME = "one is enough; how many is a matter of the network"


CLAIMS = (
    within("clos", "Clos networks: cycles", UP_DOWN, 0, 0, quick=True, why=COUNT),
    within("clos-elided", "Clos networks: edges to remove", UP_DOWN, 0, 0, quick=True, why=COUNT),
    within("failures", "two links failed: cycles", "temporary loops or detour routes", 1, quick=True, why=SOME),
    within("failures-elided", "two links failed, edges removed: cycles", NONE, 0, 0, quick=True, why=COUNT),
    within(
        "pfc",
        f"PFC: flows that have not finished after {END_MS} ms",
        "vulnerable to deadlocks in the presence of cyclic buffer dependencies",
        1,
        quick=True,
        why=SOME,
    ),
    within(
        "pfc-cycle",
        "PFC: egresses of the deadlock that the run reports",
        "a situation when a node (egress port) contains a queue that has been paused indefinitely",
        4,
        4,
        quick=True,
        why="the circle of two ToRs and two spines",
    ),
    within("elided", "BFC, edges removed: flows that have not finished", NONE, 0, 0, quick=True, why=COUNT),
    within(
        "single-elided",
        "BFC with one queue per port, edges removed: flows that have not finished",
        NONE,
        0,
        0,
        quick=True,
        why=COUNT,
        kind=OURS,
    ),
    within(
        "kept",
        "BFC with one queue per port, all edges: flows that have not finished",
        "(ours)",
        1,
        kind=OURS,
        quick=True,
        why=SOME,
    ),
    within("watchdog", "PFC, watchdog: flows that have not finished", "(ours)", 0, 0, kind=OURS, quick=True, why=COUNT),
    within("watchdog-drops", "PFC, watchdog: drops", "(ours)", 1, kind=OURS, quick=True, why=SOME),
)


def specs(scale: str) -> dict[str, Spec]:
    """One traffic, at both scales; it begins when the links have failed."""
    partner = [1, 0, 3, 2]
    pairs = [(tor * PER_RACK + i, partner[tor] * PER_RACK + i) for tor in range(4) for i in range(PER_RACK)]
    return {
        TRAFFIC: {
            "run": {"duration": "10us", "max_time": f"{END_MS}ms"},
            "topology": NETWORK,
            "scheme": [{**table, "label": name} for name, (table, _, _) in SCHEMES.items()],
            "workload": [{"kind": "list", "flows": [[src, dst, SIZE, "1us"] for src, dst in pairs for _ in range(FLOWS)]}],
            "measure": {"sample": f"{BIN_US}us", "port_series": True, "window": "run"},
        }
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "cycles": y of a graph; "elided": edges that BFC elides in it; "throughput": x ms, y Gbit/s of data to all hosts;
    "unfinished": flows; "stuck": egresses of the deadlock that the run reports; "drops": packets that had no room."""
    found = []
    for name, graph in graphs().items():
        without = graph.without_elided()
        found += [
            frames.rows("cycles", name, [0], [len(graph.cycles)]),
            frames.rows("cycles", f"{name}, elided", [0], [len(without.cycles)]),
            frames.rows("elided", name, [0], [len(graph.edges) - len(without.edges)]),
        ]
    for name in SCHEMES:
        summary = runs.summary(f"{TRAFFIC}/{name}")
        series = throughput(runs, f"{TRAFFIC}/{name}").filter(pl.col("ms") <= SHOWN_MS)
        stuck = summary["deadlock"]["egresses"] if summary["deadlock"] else []
        found += [
            frames.rows("throughput", name, series["ms"], series["rate"]),
            frames.rows("unfinished", name, [0], [summary["flows_started"] - summary["flows_finished"]]),
            frames.rows("stuck", name, [0], [len(stuck)]),
            frames.rows("drops", name, [0], [summary["drops"]]),
        ]
    return pl.concat(found)


def graphs() -> dict[str, Backpressure]:
    """The graphs of Clos networks, and that of ours after its failures."""
    made = {name: Backpressure.of(build(table)) for name, table in CLOS.items()}
    return {**made, "failures": failed()}


def failed() -> Backpressure:
    """The graph while the links are down."""
    network: Topology = build(NETWORK)
    return next(graph for graph in over_time(network) if graph.down)


def throughput(runs: Runs, label: str) -> pl.DataFrame:
    """ms, rate (Gbit/s): data sent by ToRs to hosts."""
    hosts = runs[label].frame("nodes").filter(pl.col("tier") == 0)["node"]
    down = runs[label].ports.filter(pl.col("peer").is_in(hosts.to_list())).select("node", "port")
    series = runs[label].frame("port_series").join(down, on=["node", "port"])
    data = (pl.col("tx_bytes") - pl.col("ack_bytes") - pl.col("control_bytes")).sum().alias("data")
    sums = series.group_by("time_ns").agg(data).sort("time_ns")
    rate = pl.col("data").diff() * 8 / pl.col("time_ns").diff()
    return sums.select((pl.col("time_ns") / 1e6).alias("ms"), rate.alias("rate")).drop_nulls()


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Cycles of the graphs; who deadlocks, and who does not."""

    def value(panel: str, series: str) -> float:
        return frames.value(data, panel=panel, series=series)

    return {
        "clos": sum(value("cycles", n) for n in CLOS),
        "clos-elided": sum(value("elided", n) for n in CLOS),
        "failures": value("cycles", "failures"),
        "failures-elided": value("cycles", "failures, elided"),
        "pfc": value("unfinished", PFC),
        "pfc-cycle": value("stuck", PFC),
        "elided": value("unfinished", ELIDED),
        "single-elided": value("unfinished", SINGLE_ELIDED),
        "kept": value("unfinished", SINGLE),
        "watchdog": value("unfinished", WATCHDOG),
        "watchdog-drops": value("drops", WATCHDOG),
    }


def plot(data: pl.DataFrame) -> Any:
    """The network with its cycles, and a line per scheme."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.9)
    with active():
        network = draw_graph(left, failed())
        left.legend(handles=network, loc="upper center", ncols=2, bbox_to_anchor=(0.5, 0.0), frameon=False)
    for name, (_, colour, dash) in SCHEMES.items():
        line = frames.chosen(data, panel="throughput", series=name).sort("x")
        right.plot(line["x"], line["y"], color=colour, linestyle=dash, label=name)
    right.axvline(REPAIRED_MS, color=BLACK, lw=0.8, ls=":")
    right.set(xlabel="Time (ms)", ylabel="Data to all hosts (Gbit/s)", xlim=(0, SHOWN_MS), ylim=(0, None))
    legend_above(made, right, columns=3)
    lettered((left, right), ("cycles after two failures", "links repaired at the dotted line"))
    return made
