"""BFC (NSDI 2022), figure 7: queue length and under-utilisation of a link with two flows, by pause threshold.

Testbed of figure 6 (section 6.1): a group-2 flow (switch 1 to switch 2) and a group-3 flow (switch 3 to switch 2) meet
at the link from switch 2 to receiver 2; all ports 100 Gbit/s with 16 queues; no end-to-end control. The pause threshold
Th is fixed, in us of line rate (12.5 KB per us).

Set-up: three switches in a row (kind parking_lot, whose middle switch is switch 2), a host per flow. The testbed's
one-hop round trip is not published: it loops packets back on one switch, so there is no cable, and footnote 4 gives a
switch 500 ns; hence 500 ns per link, 1 us for the round trip. The second flow starts 0 to 10 us after the first, spread
evenly over the runs, because two flows can lock into step (docs/differences.md); shown is the mean over the runs. (c) is
ours: the same as (b) when a new flow takes the first empty queue.
"""

import itertools
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc._variants import HARDWARE, HARDWARE_BESIDE
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, about, ascending, within
from penstock_papers.style import BLACK, BLUE, DASHES, PAGE, RED, figure, lettered

TITLE = "Queue length and under-utilisation of two flows at one link"
PAPER = "BFC, NSDI 2022, section 6.1, figure 7"
BYTES_PER_US, PS_PER_BYTE, FRAME = 12_500, 80, 1048
QUEUES = 16
HRTT_US = 1.0
THRESHOLDS_US = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
SHOWN_US = 2.0
OFFSETS_US = {"quick": (2.5,), "paper": tuple(float(offset) for offset in np.linspace(0, 10, 9))}
DURATION_US = {"quick": 500, "paper": 1000}
SETTLED_US = 100
PANELS = ("mean", "peak", "empty", "idle", "queues")
SHOWN = {"": HARDWARE, "-beside": HARDWARE_BESIDE}  # by what their runs' labels and their panels end with
SENDER_2, SENDER_3, RECEIVER = 2, 5, 3  # hosts at switches 1, 3 and 2
SWITCH_2 = 7
TH_KB = SHOWN_US * BYTES_PER_US / 1e3
OVERSHOOT_KB = HRTT_US * BYTES_PER_US / 2e3  # half the line rate more comes in than goes out, for a one-hop round trip
WINDOW_US = (100, 160)  # what panel (a) shows
DIFFERS = {
    "utilised": Differs(
        "two flows run in step, which leaves 9 % idle by appendix C, less where they do not begin together",
        "bfc-fig07",
        expected=(90, 94.5),
    )
}


CLAIMS = (
    within(
        "queues",
        "fewest queues in use at the link",
        "a queue for each flow",
        2,
        2,
        why="there are two flows",
        quick=True,
        kind=OURS,
    ),
    within(
        "oscillates",
        f"Th = 2 us: times that the queue rises through Th in {WINDOW_US[1] - WINDOW_US[0]} us",
        "resumes the upstreamQ when it has drained all the packets from the upstreamQ that exceeded Th",
        3,
        why="pauses and resumes repeat; the paper does not say how often",
        quick=True,
    ),
    within(
        "peak",
        "Th = 2 us: longest queue, KB",
        "limit the queue length near the pause threshold (Th)",
        TH_KB,
        TH_KB + OVERSHOOT_KB + 4 * FRAME / 1e3,
        why="Th, 25 KB, and the overshoot of the HRTT that a pause takes, with four packets",
        quick=True,
    ),
    within(
        "touches-0",
        "Th = 2 us: fraction of time at which a flow has no packets",
        "the queue length goes to 0 temporarily",
        0.005,
        0.25,
        why="more than once in the run; by appendix C at most a fifth of the time, and a quarter more",
        quick=True,
    ),
    about("mean", "Th = 2 us: mean queue of a flow, KB", "an average queue length of 15 KB", 15, quick=True),
    within(
        "utilised",
        "Th = 2 us: utilisation of the link, %",
        "BFC achieves close to 100% utilization",
        95,
        why="close to 100 % is within 5 %; the other end is 100 %",
    ),
    ascending(
        "falls",
        "under-utilisation by threshold, %",
        "Increasing Th reduces the maximum value for the fraction of time f can run out of packets",
        quick=False,
    ),
    ascending("falls-2", "under-utilisation from Th = 2 us on, %", "a part of the thresholds", kind=OURS),
    ascending("grows", "mean queue of a flow by threshold, KB", "Increasing Th increases the buffering for f (linearly)"),
)


def specs(scale: str) -> dict[str, Spec]:
    """One spec per offset of the second flow's start, each with all thresholds."""
    return {f"offset{offset:g}us": _spec(offset, DURATION_US[scale]) for offset in OFFSETS_US[scale]}


def _spec(offset_us: float, duration_us: float) -> Spec:
    schemes = [
        {**variant, "queues": QUEUES, "th_bytes": round(th * BYTES_PER_US), "label": f"{th:g}us{suffix}"}
        for suffix, variant in SHOWN.items()
        for th in THRESHOLDS_US
    ]
    flows = [[SENDER_2, RECEIVER, "1GB", "0s"], [SENDER_3, RECEIVER, "1GB", f"{round(offset_us * 1e6)}ps"]]
    return {
        "run": {"duration": f"{duration_us}us", "drain": False},
        "topology": {"kind": "parking_lot", "hops": 2, "cross": 1, "delay": "500ns"},
        "scheme": schemes,
        "workload": [{"kind": "list", "flows": flows}],
        "measure": {"sample": "100ns", "port_series": True, "queues": True},
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "time": x us, y KB of the first flow's queue. The other panels: by Th, over the runs.

    `mean` and `peak` are in KB per flow, `empty` is the fraction of time without packets of a flow, `idle` that without
    anything to send on the link, in percent, and `queues` the number of queues in use.
    """
    frames = []
    for suffix, th in itertools.product(SHOWN, THRESHOLDS_US):
        found = [_one_run(runs[f"offset{offset:g}us/{th:g}us{suffix}"]) for offset in OFFSETS_US[scale]]
        for panel in PANELS:
            values = [each[panel] for each in found]
            mean, low, high = float(np.mean(values)), float(min(values)), float(max(values))
            frames.append(_points(f"{panel}{suffix}", [th], [mean], th, low, high))
    shown = runs[f"offset{OFFSETS_US[scale][-1]:g}us/{SHOWN_US:g}us"]
    times, lengths = queue_of(shown)[0]
    kept = (times >= WINDOW_US[0]) & (times <= WINDOW_US[1])
    frames.append(_points("time", times[kept], lengths[kept] / 1e3, SHOWN_US))
    return pl.concat(frames)


def _points(panel: str, x: Any, y: Any, th: float, low: float = np.nan, high: float = np.nan) -> pl.DataFrame:
    frame = pl.DataFrame({"series": f"Th = {th:g} us", "x": x, "y": y, "panel": panel, "th": th})
    return frame.with_columns(pl.lit(low).alias("low"), pl.lit(high).alias("high"))


def _bottleneck(run: Any) -> tuple[pl.DataFrame, int]:
    """The samples of the port from switch 2 to the receiver, once settled, and the port's number."""
    port = run.ports.filter((pl.col("node") == SWITCH_2) & (pl.col("peer") == RECEIVER))["port"].item()
    series = run.frame("port_series").filter((pl.col("node") == SWITCH_2) & (pl.col("port") == port))
    return series.filter(pl.col("time_ns") >= SETTLED_US * 1e3).sort("time_ns"), port


def queue_of(run: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Times in us and bytes of every queue that was in use at the bottleneck; samples at which it was empty are 0."""
    series, port = _bottleneck(run)
    waiting = run.frame("queues").filter((pl.col("node") == SWITCH_2) & (pl.col("port") == port))
    found = []
    for number in waiting.filter(pl.col("time_ns") >= SETTLED_US * 1e3)["queue"].unique().sort():
        one = waiting.filter(pl.col("queue") == number).select("time_ns", "bytes")
        whole = series.select("time_ns").join(one, on="time_ns", how="left", maintain_order="left").fill_null(0)
        found.append((whole["time_ns"].to_numpy() / 1e3, whole["bytes"].to_numpy()))
    return found


def _one_run(run: Any) -> dict[str, float]:
    """Mean, peak and share of empty samples of the queues, a queue per flow, and the idle share of the link."""
    series, _ = _bottleneck(run)
    lengths = [length for _, length in queue_of(run)]
    busy_ns = (series["tx_bytes"][-1] - series["tx_bytes"][0]) * PS_PER_BYTE / 1e3
    return {
        "mean": float(np.sum([np.mean(length) for length in lengths])) / 2e3,
        "peak": float(np.max(lengths)) / 1e3,
        "empty": float(np.mean([np.mean(length == 0) for length in lengths])),
        "queues": len(lengths),
        "idle": 100 * (1 - busy_ns / (series["time_ns"][-1] - series["time_ns"][0])),
    }


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The oscillation of the queue at Th = 2 us, the two numbers of the text, and the effect of a larger threshold."""
    of = {panel: dict(zip(part["th"], part["y"])) for (panel,), part in data.group_by("panel") if panel != "time"}
    line = data.filter(pl.col("panel") == "time")["y"].to_numpy()
    return {
        "queues": min(of["queues"][th] for th in THRESHOLDS_US),
        "oscillates": np.sum((line[:-1] < TH_KB) & (line[1:] >= TH_KB)),
        "peak": of["peak"][SHOWN_US],
        "touches-0": of["empty"][SHOWN_US],
        "mean": of["mean"][SHOWN_US],
        "utilised": 100 - of["idle"][SHOWN_US],
        "falls": {f"{th:g} us": of["idle"][th] for th in reversed(THRESHOLDS_US)},
        "falls-2": {f"{th:g} us": of["idle"][th] for th in reversed(THRESHOLDS_US) if th >= 2 * HRTT_US},
        "grows": {f"{th:g} us": of["mean"][th] for th in THRESHOLDS_US},
    }


def plot(data: pl.DataFrame) -> Any:
    """(a) the queue of one flow over time, (b) its mean and the under-utilisation by threshold, (c) with the other variant."""
    made, (left, middle, right) = figure(1, 3, width=PAGE, height=2.5)
    line = data.filter(pl.col("panel") == "time")
    left.plot(line["x"] - WINDOW_US[0], line["y"], color=BLUE, lw=1.2)
    left.axhline(SHOWN_US * BYTES_PER_US / 1e3, color=BLACK, lw=1.2, ls=DASHES[1])
    left.text(0.8, SHOWN_US * BYTES_PER_US / 1e3 + 0.8, "$Th$")
    left.set(xlabel="Time (us)", ylabel="Queue of one flow (KB)", xlim=(0, WINDOW_US[1] - WINDOW_US[0]), ylim=(0, 42))
    handles = [_by_threshold(panel, data, suffix) for panel, suffix in zip((middle, right), SHOWN)]
    made.legend(handles=handles[-1], loc="outside upper center", ncols=3, handlelength=2.6)
    lettered((left, middle, right), (f"$Th$ = {SHOWN_US:g} us", "by threshold", f"the same, {HARDWARE_BESIDE['assignment']}"))
    return made


def _by_threshold(panel: Any, data: pl.DataFrame, suffix: str) -> list[Any]:
    """Mean queue, left, and under-utilisation, right; returns what the legend shows."""
    mean, idle = (data.filter(pl.col("panel") == f"{name}{suffix}").sort("x") for name in ("mean", "idle"))
    other = panel.twinx()
    (first,) = panel.plot(mean["x"], mean["y"], color=BLUE, marker="o", label="mean queue of a flow")
    other.fill_between(idle["x"], idle["low"], idle["high"], color=RED, alpha=0.15, lw=0)
    (second,) = other.plot(idle["x"], idle["y"], color=RED, ls=DASHES[1], marker="s", label="under-utilisation")
    (paper,) = panel.plot([2.0], [15.0], "D", color="white", mec=BLACK, ms=5, label="paper: 15 KB")
    panel.set(xlabel="Pause threshold $Th$ (us)", ylabel="Mean queue (KB)", xlim=(0, 4.2), ylim=(0, 42))
    other.set(ylabel="Under-utilisation (%)", ylim=(0, 42))
    other.grid(visible=False)
    return [first, second, paper]
