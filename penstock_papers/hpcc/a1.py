"""HPCC (SIGCOMM 2019), appendix A.1: the queue of paced flows is short, even at full load.

N flows that each send one packet per period T, with independent random phases, into a server that takes one unit of
time per packet: the homogeneous sum D_i/D/1 (or N*D/D/1) queue, with load rho = N / T. We draw many sets of phases and
follow the work V in the queue through one period, exactly; it repeats, so one period after a warm-up period is all
there is. Beside the simulation stand

* the exact tail of V (the ballot formula for N*D/D/1; the appendix cites the analyses as [34, 36]), which also reaches
  probabilities that cannot be simulated, and
* the Brownian bridge of heavy traffic, P(V > x) = exp(-2 x (x / N + 1 / rho - 1)), with mean (pi N / 8)^0.5 at rho = 1.

V counts the packet in service as far as it is not sent yet. The packets that wait behind it are fewer: more than n wait
if and only if V > n + 1. "Packets in the queue" are those that wait in every claim of the appendix; the work is (ours).
"""

import functools
import math
from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs
from penstock_papers.claims import FROM_PAPER, OURS, Differs
from penstock_papers.frames import text
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import BLACK, BLUE, DASHES, PAGE, RED, figure, lettered

TITLE = "Queue of N paced flows, sum D_i/D/1"
PAPER = "HPCC, SIGCOMM 2019, appendix A.1"
SOURCES, LOAD = 50, 0.95
COUNTS = (10, 20, 50, 100, 200, 500)
DRAWS = {"quick": 4_000, "paper": 200_000}
BATCH = 4_000
VALUES = (("", "packets waiting", "waiting", FROM_PAPER), ("-work", "work in packets", "simulated", OURS))
THRESHOLDS = np.arange(31.0)
BRIDGE = Differs("(pi N / 8)^0.5 is the mean of the work; half a packet less waits", "hpcc-a1", scales=("quick", "paper"))
DIFFERS = {"mean-100": BRIDGE.expecting(3.6, 3.95), "root-n": BRIDGE.expecting(0.6, 0.75)}
CLAIMS = (
    within(
        "mean-95",
        "50 sources at 95 %: mean packets waiting",
        "the mean number of packets in the queues is about 3",
        2.5,
        3.5,
        why="what rounds to 3",
        quick=True,
    ),
    *(
        within(
            f"mean-100{suffix}",
            f"50 sources at 100 %: mean {what}",
            "only about (pi N / 8)^0.5 [...] (and thus less than 5 with 50 sources)",
            4.0,
            5.0,
            why="less than 5, and the formula's 4.43 to a tenth",
            quick=True,
            kind=kind,
        )
        for suffix, what, _, kind in VALUES
    ),
    *(
        within(
            f"root-n{suffix}",
            f"100 %: mean {what} / (pi N / 8)^0.5, smallest of N = {{}}",
            "only about (pi N / 8)^0.5 where N is the number of streams",
            0.9,
            1.1,
            why="about is to a tenth, for every N",
            quick=True,
            kind=kind,
        )
        for suffix, what, _, kind in VALUES
    ),
    within(
        "tail-20",
        "50 sources at 95 %: P(more than 20 packets wait), exact",
        "about 1e-9",
        0.5e-9,
        2e-9,
        why="a formula, evaluated: half and double of the paper's number",
        quick=True,
        kind=OURS,
    ),
    within(
        "exact",
        "simulated tail against the exact one, largest relative error where P > 0.001",
        "equal",
        high=0.05,
        why="a relative error is at least 0; 5 % are the noise of so many draws",
        kind=OURS,
    ),
)


def phases(rng: np.random.Generator, draws: int, n: int, load: float) -> np.ndarray:
    """Arrival times within the first period n / load, sorted; one row per draw."""
    return np.sort(rng.random((draws, n)), axis=1) * (n / load)


def work_at_arrivals(arrivals: np.ndarray, period: float) -> tuple[np.ndarray, np.ndarray]:
    """The work just after each arrival of a stationary period, and the gap to the next one.

    Lindley's recursion over two periods in closed form: with arrival k at t_k, it is k + 1 - t_k plus the largest
    t_i - i of the arrivals i <= k. After one period the start no longer matters, at full load neither.
    """
    n = arrivals.shape[1]
    twice = np.concatenate([arrivals, arrivals + period], axis=1)
    count = np.arange(2 * n)
    work = count + 1 - twice + np.maximum.accumulate(twice - count, axis=1)
    gaps = np.diff(twice[:, n:], axis=1, append=arrivals[:, :1] + 2 * period)
    return work[:, n:], gaps


def mean_work(work: np.ndarray, gaps: np.ndarray, period: float) -> float:
    """Time average of the work, which falls at rate 1 after each arrival until it is zero."""
    busy = np.minimum(work, gaps)
    return float((work * busy - busy * busy / 2).sum(axis=1).mean() / period)


def tail_of_work(work: np.ndarray, gaps: np.ndarray, period: float, thresholds: np.ndarray) -> np.ndarray:
    """The fraction of time with more work than each threshold."""
    total = len(work) * period
    return np.array([np.clip(work - x, 0, gaps).sum() / total for x in thresholds])


def simulate(rng: np.random.Generator, draws: int, n: int, load: float) -> tuple[float, float, np.ndarray]:
    """Mean work, mean waiting packets (Little: load times the mean wait), and the tail of the work at THRESHOLDS."""
    period = n / load
    means, waits, tails, sizes = [], [], [], []
    for start in range(0, draws, BATCH):
        size = min(BATCH, draws - start)
        work, gaps = work_at_arrivals(phases(rng, size, n, load), period)
        means.append(mean_work(work, gaps, period))
        waits.append(load * float((work - 1).mean()))
        tails.append(tail_of_work(work, gaps, period, THRESHOLDS))
        sizes.append(size)
    average = functools.partial(np.average, axis=0, weights=sizes)
    return float(average(means)), float(average(waits)), average(tails)


def exact_tail(x: float, n: int, load: float) -> float:
    """P(V > x) of N*D/D/1: sum over k > x of C(n,k) p^k (1-p)^(n-k) (T-n+x) / (T-k+x) with p = (k-x) / T."""
    period = n / load
    total = 0.0
    for k in range(math.floor(x) + 1, n + 1):
        p = (k - x) / period
        if p < 1:
            log = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p)
            total += math.exp(log + (n - k) * math.log1p(-p)) * (period - n + x) / (period - k + x)
    return total


def bridge_tail(x: np.ndarray | float, n: int, load: float) -> np.ndarray:
    """P(V > x) of the Brownian bridge."""
    x = np.asarray(x, float)
    return np.exp(-2 * x * (x / n + 1 / load - 1))


def bridge_mean(n: int, load: float) -> float:
    """The integral of `bridge_tail`."""
    drift = (1 / load - 1) * math.sqrt(n / 2)
    return math.sqrt(math.pi * n / 8) * math.exp(drift * drift) * math.erfc(drift)


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "mean": mean work, or packets waiting, (y) by sources (x). Panel "tail": P(V > x), 50 sources, 95 %."""
    rows: list[tuple[str, str, float, float, float]] = []
    for step, (load, n) in enumerate((load, n) for load in (LOAD, 1.0) for n in COUNTS):
        runs.report(f"{n} sources at {load:.0%}", step / (2 * len(COUNTS)))
        draws = max(1000, DRAWS[scale] * SOURCES // n)
        mean, waiting, tail = simulate(np.random.default_rng([1, n, round(100 * load)]), draws, n, load)
        found: dict[str, float] = {"simulated": mean, "waiting": waiting, "Brownian bridge": bridge_mean(n, load)}
        rows += [("mean", series, load, float(n), y) for series, y in found.items()]
        if (n, load) == (SOURCES, LOAD):
            rows += [("tail", "simulated", load, x, y) for x, y in zip(THRESHOLDS.tolist(), tail.tolist()) if y > 0]
    for x in THRESHOLDS.tolist():
        rows.append(("tail", "exact N*D/D/1", LOAD, x, exact_tail(x, SOURCES, LOAD)))
        rows.append(("tail", "Brownian bridge", LOAD, x, float(bridge_tail(x, SOURCES, LOAD))))
    schema = {"panel": pl.String, "series": pl.String, "load": pl.Float64, "x": pl.Float64, "y": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The three numbers of the appendix, the law behind them for other N, and the simulation against the exact tail."""
    mean = {(row["series"], row["load"], row["x"]): row["y"] for row in _panel(data, "mean").iter_rows(named=True)}
    tail = {(row["series"], row["x"]): row["y"] for row in _panel(data, "tail").iter_rows(named=True)}
    ratios = {suffix: {n: mean[series, 1.0, n] / math.sqrt(math.pi * n / 8) for n in COUNTS} for suffix, _, series, _ in VALUES}
    probable = [x for x in THRESHOLDS if tail["exact N*D/D/1", x] > 1e-3]
    gap = max(abs(tail["simulated", x] / tail["exact N*D/D/1", x] - 1) for x in probable)
    return {
        "mean-95": mean["waiting", LOAD, SOURCES],
        **{f"mean-100{suffix}": mean[series, 1.0, SOURCES] for suffix, _, series, _ in VALUES},
        **{f"root-n{suffix}": (min(ratio.values()), text(ratio)) for suffix, ratio in ratios.items()},
        "tail-20": tail["exact N*D/D/1", 21.0],
        "exact": gap,
    }


def _panel(data: pl.DataFrame, name: str) -> pl.DataFrame:
    return data.filter(pl.col("panel") == name)


def plot(data: pl.DataFrame) -> Any:
    """Mean by number of sources, and the tail at 50 sources and 95 %."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.5)
    for load, colour, marker in ((1.0, RED, "s"), (LOAD, BLUE, "o")):
        for series, look in (("simulated", {"ls": "", "marker": marker}), ("Brownian bridge", {"ls": DASHES[0]})):
            curve = _panel(data, "mean").filter((pl.col("series") == series) & (pl.col("load") == load))
            left.plot(curve["x"], curve["y"], color=colour, label=f"{series}, {load:.0%}", **look)
    left.set(xscale="log", yscale="log", xlabel="Sources, $N$", ylabel="Mean work (packets)", ylim=(0.8, 40))
    left.set_xticks(COUNTS, COUNTS)
    left.set_yticks([1, 2, 5, 10, 20], [1, 2, 5, 10, 20])
    left.minorticks_off()
    left.legend(loc="upper left")
    looks = {
        "exact N*D/D/1": {"color": BLACK, "ls": DASHES[0]},
        "Brownian bridge": {"color": RED, "ls": DASHES[1]},
        "simulated": {"color": BLUE, "ls": "", "marker": "o"},
    }
    for series, look in looks.items():
        curve = _panel(data, "tail").filter(pl.col("series") == series)
        right.plot(curve["x"], curve["y"], label=series, **look)
    right.axvline(21, color="0.5", lw=0.8, ls=(0, (2, 2)))
    right.set(yscale="log", xlabel="Work in the queue (packets), $x$", ylabel="$P(V > x)$")
    right.set(xlim=(-0.4, 25), ylim=(1e-12, 3))
    right.legend(loc="lower left")
    lettered((left, right), ("mean", "tail, 50 sources at 95 %"))
    return made
