"""BFC (NSDI 2022), figure 30 and appendix C: how often a long flow runs out of packets while it waits to be resumed.

A flow is enqueued at x times its dequeue rate mu. Its queue grows to Th, overshoots for one HRTT, drains, and is empty
for the HRTT that the resume takes; the fraction of time in that last phase is E_f(x, Th), equation 4. Everything scales
with HRTT * mu (the one-hop BDP at the drain rate), so `th` below is in units of it.

Simulated points: one flow from a host at rate x mu over a switch and a link at rate mu (kind dumbbell with one host a
side), so that the upstream is a NIC that always has more to send; 20 us per link and packets of 100 B without headers,
so that the one-hop BDP of 50 to 62.5 KB is hundreds of packets, nearly a fluid; no bitmap, since nothing is lost. The
fraction is the time in which the link at rate mu does not send, over whole cycles after the first ones. The ratios are
exact: a spec's rates are whole numbers of bit/s and of picoseconds per byte, which allows 1.024 and 1.25. For 1.1, eleven
hosts, each with a tenth of the bottleneck's rate, share one queue, and their NICs are paused together.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers.bfc._variants import NS3
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS
from penstock_papers.sentences import Numbers, within
from penstock_papers.style import BLUE, DASHES, GREEN, PAGE, RED, figure, lettered

TITLE = "Worst-case fraction of time without packets by pause threshold"
PAPER = "BFC, NSDI 2022, appendix C, figure 30"
BFC_TH = 1.0  # BFC pauses at one one-hop BDP
RATIOS = (1.1, 2.0)  # the two x the text gives numbers for
RATES = {  # x: picoseconds per byte of the host's link and of the bottleneck
    1.024: (625, 640),
    1.25: (512, 640),
    1.5625: (512, 800),
    2.0: (320, 640),
    2.5: (256, 640),
    3.125: (256, 800),
    4.0: (160, 640),
}
POINTS = {0.5: (1.25, 2.0, 4.0), 1.0: tuple(RATES), 2.0: (1.25, 2.0, 4.0)}  # Th: x
WORST = {0.25: 1.5625, 1.0: 2.0, 2.25: 2.5, 4.0: 3.125}  # Th: a ratio next to sqrt(Th) + 1
SHARED_X, SHARING = 1.1, 11  # the ratio for which so many flows share a queue
BOTTLENECK = 640  # picoseconds per byte, where eleven flows share a queue
DELAY_US, PACKET = 20, 100
ROUND_TRIPS = {"quick": 150, "paper": 400}


_FORMULA: dict[str, Any] = {"why": "the paper's digits", "quick": True, "kind": OURS}
CLAIMS = (
    within("max", "Th = one-hop BDP: largest E_f", "0.2", 0.195, 0.205, **_FORMULA),
    within("argmax", "Th = one-hop BDP: x of the largest E_f", "2", 1.95, 2.05, **_FORMULA),
    within("x-1.1", "Th = one-hop BDP: E_f at x = 1.1", "0.076", 0.0755, 0.0765, **_FORMULA),
    within(
        "simulated",
        "largest distance of {} simulated points from equation 4",
        "0",
        None,
        0.02,
        quick=True,
        why="a distance is at least 0; 2 points of 1 % are some packets of a queue of hundreds",
        kind=OURS,
    ),
    within(
        "simulated-max",
        "simulated, Th = one-hop BDP: largest fraction without packets",
        "the maximum value of E_f(x,Th) is 0.2",
        0.18,
        0.22,
        why="2 points of 1 %, some packets of a queue of hundreds",
        quick=True,
    ),
    within(
        "simulated-argmax",
        "simulated, Th = one-hop BDP: x of the largest",
        "the maximum value of E_f(x,Th) is 0.2 (at x=2)",
        2,
        2,
        why="one of the ratios that are simulated",
        quick=True,
    ),
    within(
        "simulated-1.1",
        "simulated, Th = one-hop BDP, x = 1.1: fraction without packets",
        "when x = 1.1 [...] E_f(x,Th) is only 7.6%",
        0.056,
        0.096,
        quick=True,
        why="2 points of 1 %, some packets of a queue of hundreds",
    ),
)


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


def cases() -> list[tuple[float, float]]:
    """(Th, x) of every simulated point."""
    return sorted({(th, x) for th, ratios in POINTS.items() for x in ratios} | set(WORST.items()))


def specs(scale: str) -> dict[str, Spec]:
    """One spec per ratio of rates, with the thresholds as schemes; eleven flows at the ratio of 1.1."""
    grouped: dict[float, list[float]] = {}
    for th, x in cases():
        grouped.setdefault(x, []).append(th)
    made = {f"x{x:g}": _spec(RATES[x], thresholds, ROUND_TRIPS[scale]) for x, thresholds in grouped.items()}
    shared = _spec((10 * BOTTLENECK, BOTTLENECK), [BFC_TH], ROUND_TRIPS[scale], SHARING)
    shared["scheme"]["assignment"] = "single"
    return {**made, f"x{SHARED_X:g}": shared}


def _spec(rates: tuple[int, int], thresholds: list[float], round_trips: int, flows: int = 1) -> Spec:
    fast, slow = rates
    schemes = [{**NS3, "th": th, "refresh": "0us", "label": f"th{th:g}"} for th in thresholds]
    return {
        "run": {"duration": f"{2 * DELAY_US * round_trips}us", "drain": False},
        "topology": {
            "kind": "dumbbell",
            "left": flows,
            "right": flows,
            "rate": 8 * 10**12 // fast,
            "bottleneck_rate": 8 * 10**12 // slow,
            "delay": f"{DELAY_US}us",
        },
        "scheme": schemes if len(schemes) > 1 else schemes[0],
        "workload": [{"kind": "list", "flows": [[i, flows + i, "10GB", "0s"] for i in range(flows)]}],
        "measure": {"sample": "1us", "port_series": True},
        "host": {"mtu": PACKET, "header": 0},
    }


def simulated(runs: Runs, scale: str) -> pl.DataFrame:
    """Points measured in the packet simulator: columns series, x, y, panel, th as in `measure`."""
    frames = []
    for th, x in cases():
        shared = sum(other == x for _, other in cases()) > 1
        idle = idle_fraction(runs[f"x{x:g}/th{th:g}" if shared else f"x{x:g}"], x, th, RATES[x][1])
        frames.append(_points("simulated", np.array([x]), np.array([idle]), "x", th))
        if WORST.get(th) == x:
            frames.append(_points("simulated", np.array([th]), np.array([idle]), "max", th))
    idle = idle_fraction(runs[f"x{SHARED_X:g}"], SHARED_X, BFC_TH, BOTTLENECK)
    return pl.concat([*frames, _points("simulated", np.array([SHARED_X]), np.array([idle]), "x", BFC_TH)])


def idle_fraction(run: Any, x: float, th: float, slow: int) -> float:
    """The share of time in which the bottleneck, of `slow` ps per byte, does not send, over whole cycles after the first two."""
    sender, receiver = run.frame("nodes").filter(pl.col("tier") > 0)["node"].sort()  # the dumbbell's two switches
    port = run.ports.filter((pl.col("node") == sender) & (pl.col("peer") == receiver))["port"].item()
    series = run.frame("port_series").filter((pl.col("node") == sender) & (pl.col("port") == port)).sort("time_ns")
    times, sent = series["time_ns"].to_numpy(), series["tx_bytes"].to_numpy()
    period = sum(cycle(x, th)) * 2 * DELAY_US * 1e3
    first = 2 * period
    last = first + (times[-1] - first) // period * period
    inside = (times >= first) & (times <= last)
    times, sent = times[inside], sent[inside]
    return float(1 - (sent[-1] - sent[0]) * slow / 1e3 / (times[-1] - times[0]))


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


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """The two numbers of the text: by the simulator, and, ours, by equation 4."""
    curve = data.filter((pl.col("panel") == "x") & (pl.col("th") == BFC_TH) & pl.col("series").str.starts_with("Th"))
    at = dict(zip(curve["x"], curve["y"]))
    peak = curve.sort("y", descending=True).row(0, named=True)
    return {"max": peak["y"], "argmax": peak["x"], "x-1.1": at[1.1], **_simulated(data)}


def _simulated(data: pl.DataFrame) -> Numbers:
    """The simulator against equations 4 and 5, in points of 1 %."""
    points = data.filter((pl.col("series") == "simulated") & (pl.col("panel") == "x"))
    away = np.abs(points["y"].to_numpy() - inefficiency(points["x"].to_numpy(), points["th"].to_numpy()))
    own = points.filter(pl.col("th") == BFC_TH)
    largest = own.sort("y", descending=True).row(0, named=True)
    return {
        "simulated": (away.max(), len(points)),
        "simulated-max": largest["y"],
        "simulated-argmax": largest["x"],
        "simulated-1.1": own.filter(pl.col("x") == SHARED_X)["y"].item(),
    }


def plot(data: pl.DataFrame) -> Any:
    """The paper's curve over Th, and E_f over x."""
    made, (left, right) = figure(1, 2, width=PAGE, height=2.4)
    worst = data.filter(pl.col("panel") == "max")
    formula = worst.filter(pl.col("series") == "formula")
    left.plot(formula["x"], formula["y"], color=BLUE, label="Equation 5")
    left.plot([BFC_TH], [float(worst_case(BFC_TH))], "o", color=RED, ms=9, alpha=0.6, mew=0, label="BFC: one-hop BDP")
    left.set(xlabel="Pause threshold $Th\\,/\\,(HRTT\\cdot\\mu_f)$", ylabel="$\\max_x\\,E_f(x, Th)$")
    left.set(ylim=(0, 0.5), xlim=(0, 5))
    curves = data.filter((pl.col("panel") == "x") & pl.col("series").str.starts_with("Th"))
    for (th, curve), colour, dash in zip(curves.group_by("th", maintain_order=True), (GREEN, BLUE, RED), DASHES):
        right.plot(curve["x"], curve["y"], color=colour, ls=dash, label=f"$Th$ = {th[0]:g} one-hop BDP")
    right.set(xlabel="Enqueue rate / dequeue rate, $x$", ylabel="$E_f(x, Th)$", xlim=(1, 5), ylim=(0, 0.4))
    _draw_simulated(left, right, data)
    lettered((left, right), ("worst case over $x$", "by $x$"))
    return made


def _draw_simulated(left: Any, right: Any, data: pl.DataFrame) -> None:
    """Markers for what `simulated` returned, as far as the curve of their threshold is drawn."""
    for panel, name in ((left, "max"), (right, "x")):
        points = data.filter((pl.col("panel") == name) & (pl.col("series") == "simulated"))
        drawn = points if name == "max" else points.filter(pl.col("th").is_in(list(POINTS)))
        panel.plot(drawn["x"], drawn["y"], "s", color="black", ms=3.5, mfc="white", label="simulated")
        panel.legend(loc="upper right", handlelength=2.6)
