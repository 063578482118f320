"""HPCC (SIGCOMM 2019), figure 14: fairness and queue length by the additive increase W_AI, 16 flows.

Section 5.4: the 16-to-1 scenario of figure 13 for 10 ms. Figure 14a shows the throughput of the flows, figure 14b the
distribution of the queue length, sampled every 1 us. The rule of thumb for 16 flows gives 100 Gbit/s x 4 us x
(1 - 0.95) / 16, about 150 bytes. HPCC is that of the authors' simulator (`_fabric`): eta 95 %, maxStage 0, the lowest
rate of its configuration file, 100 Mbit/s. The queue with the text's maxStage 5, dotted, is (ours).

Fairness is Jain's index of the bytes that the flows had acknowledged in each 0.5 ms, averaged over the run; the first
0.5 ms, in which the incast drains, is left out of it and of the queue. Queue lengths are in whole KB, as the authors'
queue monitor counts them.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs, Spec
from penstock_papers.hpcc import VARIANTS
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import BLUE, DASHES, GREEN, ORANGE, PAGE, PURPLE, RED, figure, lettered

TITLE = "Fairness and queue length by W_AI, 16 flows"
PAPER = "HPCC, SIGCOMM 2019, section 5.4, figure 14"
SENDERS, RECEIVER, SWITCH = 16, 16, 17
STEPS = (25, 50, 80, 150, 300)  # bytes
LIMIT = 150  # the rule of thumb
TEXT = "maxStage 5 (ours)"
STAGES = {"": {}, f", {TEXT}": {"max_stage": 5}}  # by the end of a series and of a run
TABLE = {"name": VARIANTS["hpcc"], "min_rate": "100Mbps", "r_ai": 0}
DURATION_MS, SETTLED_NS, INTERVAL_NS = 10, 5e5, 5e5
SHADES = dict(zip(STEPS, zip((PURPLE, GREEN, ORANGE, BLUE, RED), DASHES)))
SHOWN = (25, 150, 300)  # whose flows are drawn
CLAIMS = (
    *(
        within(
            f"p95-{step}",
            f"W_AI {step} B: 95th percentile of the queue, KB",
            "within 150 bytes achieve a queue length within 4 KB at 95-th percentile",
            0,
            4,
            why="the paper's bound, in whole KB as its authors' monitor counts them: less than 5000 B",
            quick=True,
        )
        for step in STEPS
        if step <= LIMIT
    ),
    within(
        "p95-300",
        "W_AI 300 B: 95th percentile of the queue, KB",
        "a queue length of 13 KB at 95-th percentile",
        10,
        16,
        why="a quarter of the paper's number either way, stricter than its half and double",
        quick=True,
    ),
    ascending(
        "fairness", "Jain's index of the throughputs by W_AI", "Within the 150 bytes range, a higher W_AI has better fairness"
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One run for each W_AI, at both scales."""
    flows = [[sender, RECEIVER, "1GB", "0s"] for sender in range(SENDERS)]
    return {
        "16-to-1": {
            "run": {"duration": f"{DURATION_MS}ms", "drain": False},
            "topology": {"kind": "star", "hosts": SENDERS + 1, "rate": "100Gbps", "delay": "1us"},
            "scheme": [
                {**TABLE, **more, "w_ai": f"{step}B", "label": f"{step}B{end}"} for end, more in STAGES.items() for step in STEPS
            ],
            "workload": [{"kind": "list", "flows": flows}],
            "measure": {"sample": "1us", "port_series": True, "flow_series": True},
        }
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "queue": x whole KB, y CDF; "flow": x ms, y Gbit/s of flow `flow`; "p95" and "jain": x is W_AI; and those of
    the text's maxStage."""
    frames = []
    for end in STAGES:
        for step in STEPS:
            run = runs[f"16-to-1/{step}B{end}"]
            lengths = _queue_kb(run)
            levels, counts = np.unique(lengths, return_counts=True)
            times, rates = _throughputs(run)
            fairness = np.mean([jain(row) for row in rates[times > SETTLED_NS / 1e6]])
            frames.append(_points(f"queue{end}", levels, np.cumsum(counts) / len(lengths), step))
            frames.append(_points(f"p95{end}", [step], [np.percentile(lengths, 95, method="inverted_cdf")], step))
            frames.append(_points(f"jain{end}", [step], [fairness], step))
            if not end:
                frames += [_points("flow", times, rates[:, flow], step, flow) for flow in range(SENDERS)]
    return pl.concat(frames)


def _points(panel: str, x: Any, y: Any, step: int, flow: int = -1) -> pl.DataFrame:
    points = {"series": f"{step} B", "x": np.asarray(x, float), "y": np.asarray(y, float)}
    return pl.DataFrame({**points, "panel": panel, "step": step, "flow": flow})


def _queue_kb(run: Any) -> np.ndarray:
    """The settled queue at the receiver's port, in whole KB."""
    port = run.ports.filter((pl.col("node") == SWITCH) & (pl.col("peer") == RECEIVER))["port"].item()
    samples = run.frame("port_series").filter((pl.col("node") == SWITCH) & (pl.col("port") == port))
    return samples.filter(pl.col("time_ns") > SETTLED_NS)["queue_bytes"].to_numpy() // 1000


def _throughputs(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each interval in ms, and the throughput of each flow in it in Gbit/s."""
    samples = run.frame("flow_series").filter(pl.col("time_ns") % INTERVAL_NS == 0)
    table = samples.pivot("flow_id", index="time_ns", values="acked_bytes").sort("time_ns")
    times, acked = table["time_ns"].to_numpy(), table.drop("time_ns").to_numpy()
    return (times[1:] + times[:-1]) / 2e6, np.diff(acked, axis=0) * 8 / INTERVAL_NS


def jain(rates: np.ndarray) -> float:
    """Jain's fairness index, 1 for equal rates."""
    return float(rates.sum() ** 2 / (len(rates) * (rates**2).sum()))


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The queue within and beyond the rule of thumb, and fairness."""
    p95 = dict(data.filter(pl.col("panel") == "p95").select("step", "y").iter_rows())
    fair = dict(data.filter(pl.col("panel") == "jain").select("step", "y").iter_rows())
    return {
        **{f"p95-{step}": p95[step] for step in STEPS if step <= LIMIT},
        "p95-300": p95[300],
        "fairness": {f"{step} B": fair[step] for step in STEPS if step <= LIMIT},
    }


def plot(data: pl.DataFrame) -> Any:
    """(a) throughput of the 16 flows for three W_AI, (b) CDF of the queue."""
    made, panels = figure(1, 4, width=PAGE, height=2.3, gridspec_kw={"width_ratios": [1, 1, 1, 1.7]})
    for panel, step in zip(panels, SHOWN):
        for flow in range(SENDERS):
            line = data.filter((pl.col("panel") == "flow") & (pl.col("step") == step) & (pl.col("flow") == flow))
            panel.plot(line["x"], line["y"], color=SHADES[step][0], lw=0.6)
        panel.set(xlabel="Time (ms)", xlim=(0, DURATION_MS), ylim=(0, 12), xticks=[0, 5, 10])
    for panel in panels[1:3]:
        panel.set_yticklabels([])
    panels[0].set(ylabel="Throughput of a flow (Gbit/s)")
    last = panels[3]
    for step, (colour, dash) in SHADES.items():
        line = data.filter((pl.col("panel") == "queue") & (pl.col("step") == step))
        last.plot(line["x"], line["y"], ds="steps-post", color=colour, ls=dash, label=f"{step} B")
        line = data.filter((pl.col("panel") == f"queue, {TEXT}") & (pl.col("step") == step))
        last.plot(line["x"], line["y"], ds="steps-post", color=colour, ls=":", lw=0.8)
    last.axhline(0.95, color="0.35", lw=0.8)
    last.text(19.7, 0.935, "95 %", ha="right", va="top", fontsize=7.5)
    last.set(xlabel="Queue length (KB)", ylabel="CDF", xlim=(0, 20), ylim=(0, 1.02))
    last.legend(loc="lower right", title="$W_{AI}$", handlelength=2.6)
    lettered(panels, (*(f"$W_{{AI}}$ = {step} B" for step in SHOWN), "queue length"))
    return made
