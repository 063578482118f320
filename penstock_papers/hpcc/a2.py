"""HPCC (SIGCOMM 2019), appendix A.2: how fast multiplicative updates reach a Pareto optimal allocation.

I resources with capacities C, J paths with incidence matrix A (no column of zeros), any positive start, and once per
round trip Y(n) = A R(n), R_j(n+1) = R_j(n) / max_i {Y_i(n) A_ij / C_i} (equations 5 and 6). The lemma says: (i) Y(n) is
at most C from the first step; (ii) R never falls after it; (iii) R is constant from step I on, and then Pareto optimal:
each path crosses a resource that is full. We draw thousands of random networks of every size and check all three.

(i) and (ii) hold. (iii) holds for the recursion that the *proof* describes, in which a full resource is removed with
all its paths, so that the others are left with what those paths do not take. It does not hold for equation 6 as
printed: a path stuck at a full resource still counts in the load of the others but does not grow with the rest, so they
approach C without reaching it. With A = [[1, 0], [1, 1]], C = (1, 10), R(0) = (1, 1), the second path gets 5, 8.33,
8.93, ..., towards 9, where the lemma has it constant from step 2. Both are measured.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.cache import Runs
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import BLACK, BLUE, DASHES, GREEN, ORANGE, PAGE, RED, figure, lettered

TITLE = "Steps to a Pareto optimal allocation"
PAPER = "HPCC, SIGCOMM 2019, appendix A.2"
RESOURCES = (1, 2, 3, 4, 6, 8, 12, 16)
PATHS = (1, 2, 4, 8, 16, 40)
NETWORKS = {"quick": 100, "paper": 2_000}  # of each number of resources and paths
STEPS = 40
Network = tuple[np.ndarray, np.ndarray, np.ndarray]
TOLERANCE = 1e-9  # relative, for "constant" and "not above"
FULL = 1e-12  # relative, for "a resource is full"
PRINTED, PROOF = "equation 6 as printed", "as the proof removes full resources"
DIFFERS: dict[str, Differs] = {}
LEMMA = "the lemma says always"
OVER = f"I = {min(RESOURCES)} .. {max(RESOURCES)}"
FEASIBLE = f"{LEMMA}; a feasible load is at most 1"
CLAIMS = (
    within(
        "feasible",
        f"(i) largest load / capacity from step 1 on, {OVER}",
        "<= 1",
        high=1 + TOLERANCE,
        kind=OURS,
        why=f"{LEMMA}; a load below the capacity is feasible",
        quick=True,
    ),
    within(
        "rising",
        f"(ii) largest relative fall of a rate after step 1, {OVER}",
        "0",
        high=TOLERANCE,
        kind=OURS,
        why=f"{LEMMA}; a fall is at least 0",
        quick=True,
    ),
    within("steps", "(iii) equation 6: fraction of networks constant from step I on", "1", 1, 1, why=LEMMA, quick=True),
    within(
        "pareto",
        "(iii) equation 6: after step I, least filled resource that limits a path",
        "1 (Pareto optimal)",
        1 - TOLERANCE,
        why=FEASIBLE,
        quick=True,
    ),
    within(
        "steps-proof",
        "(iii) recursion of the proof: most steps beyond I",
        "0",
        high=0,
        why=f"{LEMMA}; a number of steps is at least 0",
        quick=True,
    ),
    within(
        "pareto-proof",
        "(iii) recursion of the proof: after step I, least filled resource that limits a path",
        "1 (Pareto optimal)",
        1 - TOLERANCE,
        why=FEASIBLE,
        quick=True,
    ),
    within(
        "single",
        "one resource: steps to the target",
        "we could achieve the target utilization in one RTT",
        1,
        1,
        kind=OURS,
        why="one is one",
        quick=True,
    ),
)


def random_networks(rng: np.random.Generator, count: int, resources: int, paths: int) -> Network:
    """Incidence matrices [count, I, J], capacities [count, I] and starts [count, J], spread over decades."""
    density = rng.uniform(0.05, 0.9, (count, 1, 1))
    a = rng.random((count, resources, paths)) < density
    somewhere = rng.integers(resources, size=(count, paths))
    np.put_along_axis(a, somewhere[:, None, :], True, axis=1)
    return a, 10 ** rng.uniform(-1, 1, (count, resources)), 10 ** rng.uniform(-2, 2, (count, paths))


def step(a: np.ndarray, capacity: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Equations 5 and 6 for a batch of networks."""
    return rates / _most_loaded(a, np.einsum("nij,nj->ni", a, rates) / capacity)


def residual_step(a: np.ndarray, capacity: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """The step of the proof: full resources are removed with all their paths, which use up part of the others."""
    load = np.einsum("nij,nj->ni", a, rates)
    full = load >= capacity * (1 - FULL)
    fixed = (a & full[:, :, None]).any(axis=1)
    taken = np.einsum("nij,nj->ni", a, rates * fixed)
    left = np.where(full, 1.0, capacity - taken)
    ratio = _most_loaded(a, np.where(full, 0.0, (load - taken) / left))
    return np.where(fixed, rates, rates / np.where(fixed, 1.0, ratio))


def _most_loaded(a: np.ndarray, utilization: np.ndarray) -> np.ndarray:
    return (a * utilization[:, :, None]).max(axis=1)


def trajectory(a: np.ndarray, capacity: np.ndarray, start: np.ndarray, printed: bool, steps: int) -> np.ndarray:
    """Rates [steps + 1, count, J]. The first step is equation 6 either way: nothing has been removed yet."""
    rates = [start, step(a, capacity, start)]
    following = step if printed else residual_step
    while len(rates) <= steps:
        rates.append(following(a, capacity, rates[-1]))
    return np.array(rates)


def filled(a: np.ndarray, capacity: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Per network: how full the fullest resource of its worst-off path is. 1 means Pareto optimal."""
    return _most_loaded(a, np.einsum("nij,nj->ni", a, rates) / capacity).min(axis=1)


def check(a: np.ndarray, capacity: np.ndarray, rates: np.ndarray) -> dict[str, np.ndarray]:
    """Per network of a trajectory: largest load, largest fall, last step that changed a rate, and `filled` by step."""
    load = np.array([(np.einsum("nij,nj->ni", a, now) / capacity).max(axis=1) for now in rates[1:]])
    fall = (1 - rates[2:] / rates[1:-1]).max(axis=(0, 2), initial=0.0)
    moved = np.any(np.abs(rates[1:] - rates[:-1]) > TOLERANCE * rates[:-1], axis=2)
    last = np.where(moved.any(axis=0), len(moved) - np.argmax(moved[::-1], axis=0), 0)
    return {
        "load": load.max(axis=0),
        "fall": fall,
        "steps": last,
        "filled": np.array([filled(a, capacity, now) for now in rates[1:]]),
    }


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "steps": last step that changes a rate (y) by I (x). Panel "short": what is left to fill (y) after step x.

    `load` and `fall` are the worst of the series, `least` is how full the worst-off path's resource is after step I.
    """
    rows = []
    for number, resources in enumerate(RESOURCES):
        runs.report(f"{resources} resources", number / len(RESOURCES))
        rng = np.random.default_rng([2, resources])
        networks = [random_networks(rng, NETWORKS[scale], resources, paths) for paths in PATHS]
        for series in (PRINTED, PROOF):
            steps = STEPS if series == PRINTED else resources + 2
            found = [check(a, c, trajectory(a, c, start, series == PRINTED, steps)) for a, c, start in networks]
            rows += _rows(series, resources, {name: np.concatenate([f[name] for f in found], -1) for name in found[0]})
    names = ["panel", "series", "quantile", "resources", "x", "y", "load", "fall", "least", "constant"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _rows(series: str, resources: int, found: dict[str, np.ndarray]) -> list[tuple[Any, ...]]:
    least = float(found["filled"][resources - 1].min())
    constant = float((found["steps"] <= resources).mean())
    extra = (float(found["load"].max()), float(found["fall"].max()), least, constant)
    rows: list[tuple[Any, ...]] = []
    for quantile, name in ((0.5, "median"), (0.99, "99th percentile"), (1.0, "largest")):
        at = float(np.quantile(found["steps"], quantile, method="lower"))
        rows.append(("steps", series, name, resources, float(resources), at, *extra))
        for n, now in enumerate(found["filled"], 1):
            short = max(0.0, 1 - float(np.quantile(now, 1 - quantile)))
            rows.append(("short", series, name, resources, float(n), short, *extra))
    return rows


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The lemma for equation 6 as printed, and for the recursion of its proof."""
    steps = data.filter((pl.col("panel") == "steps") & (pl.col("quantile") == "largest"))
    printed, proof = (steps.filter(pl.col("series") == series) for series in (PRINTED, PROOF))

    def worst(column: str) -> float:
        return float(steps[column].to_numpy().max())

    return {
        "feasible": worst("load"),
        "rising": worst("fall"),
        "steps": printed["constant"].min(),
        "pareto": printed["least"].min(),
        "steps-proof": max(0.0, (proof["y"] - proof["x"]).to_numpy().max()),
        "pareto-proof": proof["least"].min(),
        "single": printed.filter(pl.col("resources") == 1)["y"].max(),
    }


def plot(data: pl.DataFrame) -> Any:
    """Steps by I for the proof's recursion, and how equation 6 approaches its limit."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.6)
    looks = {
        "largest": (RED, DASHES[0], "s"),
        "99th percentile": (BLUE, DASHES[1], "o"),
        "median": (GREEN, DASHES[2], "^"),
    }
    proof = data.filter((pl.col("panel") == "steps") & (pl.col("series") == PROOF))
    left.plot(RESOURCES, RESOURCES, color=BLACK, lw=0.9, ls=(0, (2, 2)), label="bound, $I$")
    for name, (colour, dash, marker) in looks.items():
        curve = proof.filter(pl.col("quantile") == name)
        left.plot(curve["x"], curve["y"], color=colour, ls=dash, marker=marker, label=name)
    left.set(xlabel="Resources, $I$", ylabel="Steps until constant", ylim=(0, 17), xlim=(0, 17))
    left.set(xticks=range(0, 17, 4), yticks=range(0, 17, 4))
    left.legend(loc="upper left", handlelength=2.6)
    printed = data.filter((pl.col("panel") == "short") & (pl.col("series") == PRINTED))
    for resources, colour, dash in ((2, RED, DASHES[0]), (4, BLUE, DASHES[1]), (16, ORANGE, DASHES[3])):
        curve = printed.filter((pl.col("resources") == resources) & (pl.col("quantile") == "99th percentile"))
        right.plot(curve["x"], 100 * curve["y"], color=colour, ls=dash, label=f"$I$ = {resources}")
        at = curve.filter(pl.col("x") == resources)
        right.plot(at["x"], 100 * at["y"], "o", color=colour)
    right.set(xlabel="Step, $n$", ylabel="Capacity left to fill (%)", xlim=(0, STEPS), ylim=(0, 105))
    right.legend(loc="upper right", handlelength=2.6, title="99th percentile; dot: step $I$", title_fontsize=8)
    lettered((left, right), ("full resources removed", "equation 6 as printed"))
    return made
