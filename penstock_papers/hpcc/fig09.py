"""HPCC (SIGCOMM 2019), figure 9: four micro-benchmarks of HPCC and DCQCN on the testbed, over time.

Section 5.2, at one rack of the testbed (25 Gbit/s, base RTT 5.4 us, see `_testbed`); HPCC has the testbed's maxStage 5
(`_fabric`):

(a, b)  Long-Short: a long flow at line rate; 1 ms later a short flow of 1 MB to the same receiver
(c, d)  Incast: seven senders start at the same time towards the receiver of a long flow.  The size of their flows is not
        published; 1 MB, the short flow's
(e, f)  Mice: flows of 1 KB through a link that two long flows saturate.  Their rate is not published; one every 50 us, from a
        host of its own, is 0.6 % of the link.  The first 5 ms, in which the long flows converge, are left out
(g, h)  Fairness: four flows join a link one by one every second and leave afterwards.  Flows end by their size here: the first to
        come is to go first, one second after another, and each has the bytes of its fair share until then

Throughput is that of bytes acknowledged.  Scale quick: a second of (g, h) is 20 ms.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, OURS, Differs
from penstock_papers.frames import Scheme
from penstock_papers.hpcc import _fabric as fabric
from penstock_papers.hpcc._fabric import curve, value
from penstock_papers.hpcc._testbed import RACK
from penstock_papers.hpcc.fig14 import jain
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import BLUE, DASHES, GREEN, ORANGE, PAGE, PURPLE, figure, legend_above, lettered

TITLE = "Rate recovery, incast, mice and fairness on the testbed"
PAPER = "HPCC, SIGCOMM 2019, section 5.2, figure 9"
SEEDS = {"paper": 3}  # ECN marks at random
ALL = fabric.schemes("25Gbps")
SCHEMES = (ALL["DCQCN"], ALL["HPCC"])
LINE, T_US, RTT_US = 25.0, 9.0, 5.4  # Gbit/s, us
RECEIVER = 0
START_MS = 1.0  # of the short flow and of the incast
SHORT_END_MS, INCAST_END_MS, MICE_END_MS, CONVERGED_MS = 6.0, 6.0, 25.0, 5.0
MICE_EVERY_US = 50
STEP_MS = {"quick": 20.0, "paper": 1000.0}
SHORT_BYTES = 1_000_000
SENDERS = 4  # of (g, h)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE)
# link-steps of the flow that is the k-th to come and to go: shares of 1, 1/2, 1/3, 1/4, 1/3, 1/2, 1 of the link
STEPS = (25 / 12, 17 / 12, 17 / 12, 25 / 12)
GOODPUT = 0.95 * 1000 / 1090  # HPCC's target, without headers and INT
RECOVERED = 0.95  # of the rate before the short flow
WINDOWS_US = 8 * T_US  # in which the link sends a window of each of eight flows
EMPTY_KB = 10.0
K_MIN_KB, K_MAX_KB = 100.0, 400.0  # ECN thresholds at 25 Gbit/s (section 5.1)
DIFFERS = {
    "mice-dcqcn": Differs(
        "a cut of a sixth empties the queue before the first increase, 300 us later: one to two base RTTs",
        "hpcc-fig09",
        expected=(5.3, 10.6),
        scales=("quick", "paper"),
    ),
}
CLAIMS = (
    within(
        "recovery-hpcc",
        "long-short, HPCC: time until the long flow is back at 95 % of its rate, us",
        "recovers the rate of the long flow right after the short flow ends",
        0,
        100,
        quick=True,
        why="right after is a twentieth of the 2 ms in which DCQCN does not recover",
    ),
    within(
        "recovery-dcqcn",
        "long-short, DCQCN: the same",
        "cannot recover to line rate even after 2 ms (>350 RTTs)",
        2000,
        quick=True,
        why="even after 2 ms: the paper names no end",
    ),
    within(
        "incast-hpcc",
        "incast, HPCC: time until the queue has drained, us",
        "quickly reacts after just one round trip, so the queue drains quickly",
        0,
        2 * WINDOWS_US,
        quick=True,
        why="twice the time in which the link sends a window of each of the eight flows",
    ),
    about("incast-dcqcn", "incast, DCQCN: longest queue, KB", "the queue builds up to 550 KB", 550, quick=True),
    ascending("incast-order", "incast: time until the queue has drained, us", "faster and better congestion avoidance"),
    within(
        "mice-hpcc",
        "mice, HPCC: latency p50, us",
        "close to 5.4us, the base RTT",
        RTT_US * 0.99,
        RTT_US * 1.5,
        quick=True,
        why="close is at most half as much again",
    ),
    within(
        "mice-dcqcn",
        "mice, DCQCN: latency p5, us",
        "consistently higher than 35us",
        35,
        quick=True,
        why=f"higher than that; {MORE}",
    ),
    about("mice-dcqcn-p50", "mice, DCQCN: latency p50, us", "35us", 35, quick=True, kind=OURS),
    within(
        "mice-queue-hpcc",
        "mice, HPCC: queue length p50, KB",
        "keeps a near-zero queue",
        0,
        LINE * RTT_US * 0.5 / 8,
        quick=True,
        why="no more than makes the latency half as much again",
    ),
    within(
        "mice-queue-dcqcn",
        "mice, DCQCN: queue length p50, KB",
        "a standing queue around the ECN marking threshold",
        K_MIN_KB / 2,
        K_MAX_KB,
        quick=True,
        why="from half of K_min to K_max",
    ),
    within(
        "fairness-hpcc",
        "fairness, HPCC: Jain's index of the rates in a hundredth of a step, mean",
        "good fairness even in a short time scale",
        0.95,
        1,
        quick=True,
        why="1 is ideal",
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One for each of the four."""
    start, step = f"{START_MS:g}ms", STEP_MS[scale]
    long: list[Any] = [1, RECEIVER, "1GB", "0s"]
    mice = [[3, RECEIVER, "1KB", f"{k * MICE_EVERY_US}us"] for k in range(int(MICE_END_MS * 1e3 / MICE_EVERY_US))]
    share = LINE * 1e6 / 8 * step * GOODPUT  # bytes
    joining = [[1 + k, RECEIVER, f"{share * steps:.0f}B", f"{k * step:g}ms"] for k, steps in enumerate(STEPS)]
    return {
        "long-short": _spec(3, [long, [2, RECEIVER, "1MB", start]], SHORT_END_MS, "20us"),
        "incast": _spec(9, [long, *([2 + k, RECEIVER, "1MB", start] for k in range(7))], INCAST_END_MS, "5us"),
        "mice": _spec(4, [long, [2, *long[1:]], *mice], MICE_END_MS, "5us", flow_series=False),
        "fairness": _spec(1 + SENDERS, joining, 2 * SENDERS * step, f"{step / 100:g}ms"),
    }


def _spec(hosts: int, flows: list[Any], end_ms: float, sample: str, flow_series: bool = True) -> Spec:
    table = fabric.spec(
        {**RACK, "hosts": hosts},
        SCHEMES,
        [{"kind": "list", "flows": flows}],
        f"{end_ms:g}ms",
        sample=sample,
        port_series=True,
        flow_series=flow_series,
    )
    return {**table, "run": {**table["run"], "drain": False}}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panels rate (x ms, y Gbit/s, a line per flow), queue (x ms, y KB), CDFs (x us or KB, y share), and numbers by name."""
    return pl.concat(part(runs, scheme) for scheme in SCHEMES for part in (_long_short, _incast, _mice, _fairness))


def _rates(runs: Runs, traffic: str, scheme: Scheme, every: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals of `every` samples (ms), and the rate (Gbit/s) of every flow in each: what was acknowledged."""
    label = f"{traffic}/{scheme.label}"
    sizes = runs.scan(label, "flows").select("flow_id", "bytes").sort("flow_id").collect()["bytes"].to_numpy()
    acked = runs.scan(label, "flow_series").select("time_ns", "flow_id", "acked_bytes").collect()
    table = acked.pivot("flow_id", index="time_ns", values="acked_bytes").sort("time_ns")[::every]
    columns = []
    for flow, size in enumerate(sizes):
        known = table[str(flow)].to_numpy().astype(float) if str(flow) in table.columns else np.full(len(table), np.nan)
        begun = np.maximum.accumulate(~np.isnan(known))
        columns.append(np.where(np.isnan(known), np.where(begun, float(size), 0.0), known))
    times = table["time_ns"].to_numpy()
    done = np.stack(columns, axis=1)
    return times[1:] / 1e6, np.diff(done, axis=0) * 8 / np.diff(times)[:, None]


def _queue(runs: Runs, traffic: str, scheme: Scheme) -> tuple[np.ndarray, np.ndarray]:
    """Times (ms) and lengths (KB) of the queue in front of the receiver."""
    label = f"{traffic}/{scheme.label}"
    switch = runs.scan(label, "nodes").filter(pl.col("tier") > 0).select("node").collect().item()
    ports = runs.scan(label, "ports").filter((pl.col("node") == switch) & (pl.col("peer") == RECEIVER))
    at = (pl.col("node") == switch) & (pl.col("port") == ports.select("port").collect().item())
    samples = runs.scan(label, "port_series").filter(at).sort("time_ns").select("time_ns", "queue_bytes").collect()
    return samples["time_ns"].to_numpy() / 1e6, samples["queue_bytes"].to_numpy() / 1e3


def _rows(traffic: str, scheme: Scheme, panel: str, x: Any, y: Any, flow: int = -1) -> pl.DataFrame:
    return fabric.rows(traffic, scheme, panel, x, y).with_columns(pl.lit(str(flow)).alias("flow"))


def _long_short(runs: Runs, scheme: Scheme) -> pl.DataFrame:
    """The rates, and recovery: us from the end of the short flow until the long one is back for good, or until the run ends.

    (Just after that end what had been queued is acknowledged, at line rate whatever the sender's rate is.)
    """
    times, rates = _rates(runs, "long-short", scheme)
    short = runs.scan(f"long-short/{scheme.label}", "flows").filter(pl.col("bytes") == SHORT_BYTES)
    end = short.select("acked_ns").collect().item() / 1e6
    before = rates[(times > START_MS / 2) & (times <= START_MS), 0].mean()
    below = times[(times > end) & (rates[:, 0] < RECOVERED * before)]
    recovery = below[-1] - end if len(below) else 0.0
    parts = [_rows("long-short", scheme, "rate", times, rates[:, flow], flow) for flow in range(2)]
    return pl.concat([*parts, _rows("long-short", scheme, "recovery", [0], [recovery * 1e3])])


def _incast(runs: Runs, scheme: Scheme) -> pl.DataFrame:
    """The queue, its peak (KB), and drained: us from the start of the incast until it is first short after its peak."""
    times, queue = _queue(runs, "incast", scheme)
    top = int(np.argmax(queue))
    empty = times[top:][queue[top:] <= EMPTY_KB]
    drained = (empty[0] if len(empty) else times[-1]) - START_MS
    rate_times, rates = _rates(runs, "incast", scheme, every=4)
    parts = [
        _rows("incast", scheme, "queue", times, queue),
        _rows("incast", scheme, "rate", rate_times, rates.sum(axis=1)),
        _rows("incast", scheme, "peak", [0], [queue.max()]),
        _rows("incast", scheme, "drained", [0], [drained * 1e3]),
    ]
    return pl.concat(parts)


def _mice(runs: Runs, scheme: Scheme) -> pl.DataFrame:
    """CDFs of the latency (us) and of the queue (KB), and their percentiles."""
    flows = runs.scan(f"mice/{scheme.label}", "flows").filter(pl.col("bytes") == 1000)
    settled = flows.filter((pl.col("start_ns") >= CONVERGED_MS * 1e6) & pl.col("acked_ns").is_not_null())
    latency = settled.select((pl.col("acked_ns") - pl.col("start_ns")) / 1e3).collect().to_series().to_numpy()
    times, queue = _queue(runs, "mice", scheme)
    share = np.linspace(0, 1, 201)
    parts = []
    for panel, values in (("latency", latency), ("queue", queue[times >= CONVERGED_MS])):
        parts.append(_rows("mice", scheme, panel, np.quantile(values, share), share))
        parts += [_rows("mice", scheme, f"{panel} p{p}", [0], [np.quantile(values, p / 100)]) for p in (5, 50, 95)]
    return pl.concat(parts)


def _fairness(runs: Runs, scheme: Scheme) -> pl.DataFrame:
    """The rates, and jain: the mean over the intervals of Jain's index of the flows that were there from its start to its end."""
    times, rates = _rates(runs, "fairness", scheme)
    flows = runs.scan(f"fairness/{scheme.label}", "flows").sort("flow_id").select("start_ns", "acked_ns").collect() / 1e6
    start, end = flows["start_ns"].to_numpy(), flows["acked_ns"].fill_null(np.inf).to_numpy()
    begin = np.concatenate([[0.0], times[:-1]])
    there = (start[None, :] <= begin[:, None]) & (end[None, :] >= times[:, None])
    found = [jain(row[who]) for row, who in zip(rates, there) if who.sum() > 1]
    parts = [_rows("fairness", scheme, "rate", times, rates[:, flow], flow) for flow in range(SENDERS)]
    return pl.concat([*parts, _rows("fairness", scheme, "jain", [0], [np.mean(found)])])


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Section 5.2's sentences on figure 9."""

    def both(traffic: str, panel: str) -> dict[str, float]:
        return {scheme.legend: value(data, traffic, scheme.legend, panel) for scheme in reversed(SCHEMES)}

    recovery, drained = both("long-short", "recovery"), both("incast", "drained")
    latency, least = both("mice", "latency p50"), both("mice", "latency p5")
    queue = both("mice", "queue p50")
    return {
        "recovery-hpcc": recovery["HPCC"],
        "recovery-dcqcn": recovery["DCQCN"],
        "incast-hpcc": drained["HPCC"],
        "incast-dcqcn": value(data, "incast", "DCQCN", "peak"),
        "incast-order": drained,
        "mice-hpcc": latency["HPCC"],
        "mice-dcqcn": least["DCQCN"],
        "mice-dcqcn-p50": latency["DCQCN"],
        "mice-queue-hpcc": queue["HPCC"],
        "mice-queue-dcqcn": queue["DCQCN"],
        "fairness-hpcc": value(data, "fairness", "HPCC", "jain"),
    }


def plot(data: pl.DataFrame) -> Any:
    """A row for each of the four; rates in a panel for each scheme, the others with both."""
    made, grid = figure(4, 2, width=PAGE, height=7.4)
    for row, traffic in zip((0, 3), ("long-short", "fairness")):
        for axes, scheme in zip(grid[row], SCHEMES):
            lines = curve(data, traffic, scheme.legend, "rate")
            for (flow,), line in lines.group_by("flow", maintain_order=True):
                name = ("long flow", "short flow")[int(flow)] if traffic == "long-short" else f"flow {int(flow) + 1}"
                axes.plot(line["x"], line["y"], color=COLOURS[int(flow)], ls=DASHES[int(flow)], lw=1.2, label=name)
            axes.set(xlabel="Time (ms)", ylabel="Throughput (Gbit/s)", ylim=(0, LINE * 1.04), xlim=(0, None))
            axes.legend(loc="center right" if row == 0 else "upper center", fontsize=7, ncols=1 + row, columnspacing=1.0)
            if row:
                axes.set_ylim(top=LINE * 1.3)
    for scheme in SCHEMES:
        look = {**scheme.style, "marker": None, "lw": 1.2}
        for axes, panel in zip(grid[1], ("rate", "queue")):
            line = curve(data, "incast", scheme.legend, panel)
            axes.plot(line["x"], line["y"], label=scheme.legend, **look)
        for axes, panel in zip(grid[2], ("latency", "queue")):
            line = curve(data, "mice", scheme.legend, panel)
            axes.plot(line["x"], line["y"], label=scheme.legend, **look)
    grid[1, 0].set(xlabel="Time (ms)", ylabel="Throughput (Gbit/s)", ylim=(0, LINE * 1.04), xlim=(0, None))
    grid[1, 1].set(xlabel="Time (ms)", ylabel="Queue length (KB)", ylim=(0, None), xlim=(0, None))
    grid[2, 0].set(xlabel="Latency of mice (us)", ylabel="CDF", ylim=(0, 1.02), xlim=(0, None))
    grid[2, 1].set(xlabel="Queue length (KB)", ylabel="CDF", ylim=(0, 1.02), xlim=(0, None))
    names = ("Long-Short, DCQCN", "Long-Short, HPCC", "Incast: all flows", "Incast: queue", "Mice: latency", "Mice: queue")
    lettered(grid.flat, [*names, "Fairness, DCQCN", "Fairness, HPCC"])
    legend_above(made, grid[1, 0], columns=2)
    return made
