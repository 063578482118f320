"""BFC (NSDI 2022), figure 7 on the hardware model: queue length and under-utilisation of a link with two flows, by threshold.

The set-up of bfc/fig07 with the limits of section 4 (docs/schemes.md, bfc_tofino2), which the switch had that the figure was
measured on: ingress pipelines know queue lengths as of the last update, and resume a queue when the headers of its packets have
been recirculated. Not in the model is the second reason that the text gives for the overshoot, the small queues after the egress
pipeline, whose size is not published.

The paper gives no period of updates; (c), ours, shows its effect at Th = 2 us, at 0 beside the same switch without limits.
"""

from dataclasses import replace
from typing import Any

import polars as pl

from penstock_papers.bfc import fig07
from penstock_papers.bfc._tofino2 import IDEAL, TOFINO2
from penstock_papers.bfc.fig07 import BYTES_PER_US, FRAME, HRTT_US, PANELS, QUEUES, SHOWN_US, TH_KB, THRESHOLDS_US, WINDOW_US
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import OURS, Differs
from penstock_papers.sentences import Numbers, ascending, within
from penstock_papers.style import BLACK, BLUE, DASHES, PAGE, RED, figure, lettered

TITLE = "Queue length and under-utilisation of two flows at one link, with the limits of Tofino2"
PAPER = "BFC, NSDI 2022, sections 4 and 6.1, figure 7"
DECLARED_US = 1.0  # period of updates of bfc_tofino2
UPDATES_US = (0.25, 0.5, DECLARED_US, 2.0)
LATE_KB = (HRTT_US + DECLARED_US) * BYTES_PER_US / 2e3  # half the line rate more comes in than goes out
DIFFERS: dict[str, Differs] = {}


CLAIMS = (
    *(replace(row, kind=OURS) for row in fig07.CLAIMS if row.id != "peak"),
    within(
        "peak",
        "Th = 2 us: longest queue, KB",
        "limit the queue length near the pause threshold (Th)",
        TH_KB,
        TH_KB + LATE_KB + 4 * FRAME / 1e3,
        why="Th, 25 KB, and the overshoot of an update and the HRTT that a pause takes, with four packets",
        quick=True,
        kind=OURS,
    ),
    ascending("update", "Th = 2 us: mean queue of a flow by period of updates, KB", "no number", kind=OURS),
    within(
        "ideal",
        "Th = 2 us: under-utilisation with the limits less that without, % of the link",
        "no number",
        -10,
        10,
        why="appendix C: at most 20 % of the time a flow has no packets, with an HRTT of 1 us and the latency of 0.5 us",
        kind=OURS,
    ),
)


def specs(scale: str) -> dict[str, Spec]:
    """One spec per offset of the second flow's start, as bfc/fig07 has them: all thresholds, and all periods at one of them."""
    shown = {"queues": QUEUES, "th_bytes": round(SHOWN_US * BYTES_PER_US)}
    schemes = [
        *({**TOFINO2, "queues": QUEUES, "th_bytes": round(th * BYTES_PER_US), "label": f"{th:g}us"} for th in THRESHOLDS_US),
        *({**TOFINO2, **shown, "update": f"{us:g}us", "label": f"update{us:g}us"} for us in UPDATES_US if us != DECLARED_US),
        {**IDEAL, **shown, "label": "update0us"},
    ]
    return {name: {**spec, "scheme": schemes} for name, spec in fig07.specs(scale).items()}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """The panels of bfc/fig07, and those of (c), whose names end with "-update", over the period in us."""
    by_threshold = [_over(runs, scale, f"{th:g}us", "", th, th) for th in THRESHOLDS_US]
    by_update = [
        _over(runs, scale, f"{SHOWN_US:g}us" if us == DECLARED_US else f"update{us:g}us", "-update", us, SHOWN_US)
        for us in (0.0, *UPDATES_US)
    ]
    times, lengths = fig07.queue_of(runs[f"{list(fig07.specs(scale))[-1]}/{SHOWN_US:g}us"])[0]
    kept = (times >= WINDOW_US[0]) & (times <= WINDOW_US[1])
    return pl.concat([*by_threshold, *by_update, fig07._points("time", times[kept], lengths[kept] / 1e3, SHOWN_US)])


def _over(runs: Runs, scale: str, label: str, suffix: str, x: float, th: float) -> pl.DataFrame:
    """The panels of one scheme, over the offsets: mean, smallest and largest."""
    found = pl.DataFrame([fig07._one_run(runs[f"{name}/{label}"]) for name in fig07.specs(scale)])
    return pl.concat(
        fig07._points(f"{panel}{suffix}", [x], [values.mean()], th, float(values.min()), float(values.max()))
        for panel, values in ((panel, found[panel].to_numpy()) for panel in PANELS)
    )


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Those of bfc/fig07, which judges them, here (ours), but for the peak; and what the update does."""
    of = {panel: dict(zip(part["x"], part["y"])) for (panel,), part in data.group_by("panel")}
    return {
        **fig07.numbers(data, scale),
        "update": {f"{us:g} us": of["mean-update"][us] for us in UPDATES_US},
        "ideal": of["idle"][SHOWN_US] - of["idle-update"][0.0],
    }


def plot(data: pl.DataFrame) -> Any:
    """(a) the queue of one flow over time, (b) its mean and the under-utilisation by threshold, (c) by period of updates."""
    made, (left, middle, right) = figure(1, 3, width=PAGE, height=2.5)
    line = data.filter(pl.col("panel") == "time")
    span = WINDOW_US[1] - WINDOW_US[0]
    left.plot(line["x"] - WINDOW_US[0], line["y"], color=BLUE, lw=1.2)
    left.axhline(SHOWN_US * BYTES_PER_US / 1e3, color=BLACK, lw=1.2, ls=DASHES[1])
    left.text(0.8, SHOWN_US * BYTES_PER_US / 1e3 + 0.8, "$Th$")
    left.set(xlabel="Time (us)", ylabel="Queue of one flow (KB)", xlim=(0, span), ylim=(0, 42))
    handles = fig07._by_threshold(middle, data, "")
    mean, idle = (data.filter(pl.col("panel") == f"{name}-update").sort("x") for name in ("mean", "idle"))
    right.plot(mean["x"], mean["y"], color=BLUE, marker="o")
    other = right.twinx()
    other.fill_between(idle["x"], idle["low"], idle["high"], color=RED, alpha=0.15, lw=0)
    other.plot(idle["x"], idle["y"], color=RED, ls=DASHES[1], marker="s")
    right.set(xlabel="Period of updates (us)", ylabel="Mean queue (KB)", xlim=(-0.1, max(UPDATES_US) + 0.1), ylim=(0, 42))
    other.set(ylabel="Under-utilisation (%)", ylim=(0, 42))
    other.grid(visible=False)
    made.legend(handles=handles, loc="outside upper center", ncols=3, handlelength=2.6)
    lettered((left, middle, right), (f"$Th$ = {SHOWN_US:g} us", "by threshold", f"$Th$ = {SHOWN_US:g} us, by update"))
    return made
