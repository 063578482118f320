"""BFC (NSDI 2022), figure 30 and appendix C: how often a long flow runs out of packets while it waits to be resumed.

A flow is enqueued at x times its dequeue rate mu. Its queue grows to Th, overshoots for one HRTT, drains, and is empty
for the HRTT that the resume takes; the fraction of time in that last phase is E_f(x, Th), equation 4. Everything scales
with HRTT * mu (the one-hop BDP at the drain rate), so `th` below is in units of it.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock.experiments.cache import Runs
from penstock.experiments.claims import Claim, within
from penstock.experiments.style import BLUE, DASHES, GREEN, PAGE, RED, figure, lettered

TITLE = "Worst-case fraction of time without packets by pause threshold"
PAPER = "BFC, NSDI 2022, figure 30"
BFC_TH = 1.0  # BFC pauses at one one-hop BDP
RATIOS = (1.1, 2.0)  # the two x the text gives numbers for


def inefficiency(x: np.ndarray | float, th: np.ndarray | float) -> np.ndarray:
    """E_f(x, Th) of equation 4; x > 1, th in units of HRTT * mu."""
    x, th = np.asarray(x, float), np.asarray(th, float)
    return (x - 1) / (th * x + x * x - 1)


def worst_ratio(th: np.ndarray | float) -> np.ndarray:
    """The x at which E_f is largest."""
    return np.sqrt(np.asarray(th, float)) + 1


def worst_case(th: np.ndarray | float) -> np.ndarray:
    """max over x of E_f, equation 5."""
    return 1 / ((np.sqrt(np.asarray(th, float)) + 1) ** 2 + 1)


def cycle(x: float, th: float) -> tuple[float, float, float]:
    """The lengths of the three phases in units of HRTT, equations 1 to 3; E_f is the third's share."""
    return th / (x - 1) + 1, th + x - 1, 1.0


def simulated(runs: Runs, scale: str) -> pl.DataFrame:
    """Points measured in the packet simulator: columns series, x, y, panel, th as in `measure`. None yet."""
    return formula_curves().clear()


def formula_curves() -> pl.DataFrame:
    """Panel "max": the worst case by Th, as the paper draws it. Panel "x": E_f by x for three thresholds."""
    thresholds = np.linspace(0, 5, 101)
    ratios = np.concatenate([np.linspace(1.001, 5, 400), RATIOS])
    ratios.sort()
    frames = [_points("formula", thresholds, worst_case(thresholds), "max", thresholds)]
    frames += [_points(f"Th = {th:g}", ratios, inefficiency(ratios, th), "x", th) for th in (0.5, BFC_TH, 2.0)]
    return pl.concat(frames)


def _points(series: str, x: np.ndarray, y: np.ndarray, panel: str, th: np.ndarray | float) -> pl.DataFrame:
    return pl.DataFrame({"series": series, "x": x, "y": y, "panel": panel, "th": np.broadcast_to(th, x.shape)})


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """x: threshold (panel "max") or ratio of rates (panel "x"), y: fraction of time without packets."""
    return pl.concat([formula_curves(), simulated(runs, scale)])


def claims(data: pl.DataFrame, scale: str) -> list[Claim]:
    """The two numbers of the text, and equation 5 against a numerical maximum of equation 4."""
    curve = data.filter((pl.col("panel") == "x") & (pl.col("th") == BFC_TH) & pl.col("series").str.starts_with("Th"))
    at = dict(zip(curve["x"], curve["y"]))
    peak = curve.sort("y", descending=True).row(0, named=True)
    return [
        within("max", "Th = one-hop BDP: largest E_f", "0.2", peak["y"], 0.195, 0.205, quick=True),
        within("argmax", "Th = one-hop BDP: x of the largest E_f", "2", peak["x"], 1.95, 2.05, quick=True),
        within("x-1.1", "Th = one-hop BDP: E_f at x = 1.1", "0.076", at[1.1], 0.0755, 0.0765, quick=True),
    ]


def plot(data: pl.DataFrame) -> Any:
    """The paper's curve over Th, and E_f over x."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.4)
    worst = data.filter(pl.col("panel") == "max")
    formula = worst.filter(pl.col("series") == "formula")
    left.plot(formula["x"], formula["y"], color=BLUE, label="Equation 5")
    left.plot([BFC_TH], [float(worst_case(BFC_TH))], "o", color=RED, label="BFC: one-hop BDP")
    left.set(xlabel="Pause threshold $Th\\,/\\,(HRTT\\cdot\\mu_f)$", ylabel="$\\max_x\\,E_f(x, Th)$")
    left.set(ylim=(0, 0.5), xlim=(0, 5))
    left.legend(loc="upper right")
    curves = data.filter((pl.col("panel") == "x") & pl.col("series").str.starts_with("Th"))
    for (th, curve), colour, dash in zip(curves.group_by("th", maintain_order=True), (GREEN, BLUE, RED), DASHES):
        right.plot(curve["x"], curve["y"], color=colour, ls=dash, label=f"$Th$ = {th[0]:g} one-hop BDP")
    right.set(xlabel="Enqueue rate / dequeue rate, $x$", ylabel="$E_f(x, Th)$", xlim=(1, 5), ylim=(0, 0.4))
    right.legend(loc="upper right", handlelength=2.6)
    _draw_simulated(left, right, data)
    lettered((left, right), ("worst case over $x$", "by $x$"))
    return made


def _draw_simulated(left: Any, right: Any, data: pl.DataFrame) -> None:
    """Markers for what `simulated` returned."""
    for panel, name in ((left, "max"), (right, "x")):
        points = data.filter((pl.col("panel") == name) & (pl.col("series") == "simulated"))
        if not points.is_empty():
            panel.plot(points["x"], points["y"], "s", color="black", ms=4, label="Simulated")
            panel.legend(loc="upper right", handlelength=2.6)
