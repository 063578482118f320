"""Backdraft (NSDI 2022), figure 15: the receiver doubles its speed half way.

Section 6.3: one machine sends to a slow receiver that takes 3 million packets per second, later 6 million. Of our packets that
is 25 and 50 Gbit/s; the sender's link has 100 Gbit/s. The paper runs for a minute; here the run is long compared with
the transients. PFC in all switches, with Backdraft as well. Measured are the time until the receiver is fully used, and the share
of its new speed that is used from then on. A third scheme is Backdraft without the rate in its frames.
"""

from typing import Any

import numpy as np
import polars as pl

from penstock_papers import frames
from penstock_papers.backdraft import _setup as setup
from penstock_papers.backdraft._setup import LOSSLESS, OVER_PFC, PREVENTS, Scheme, Servers, value
from penstock_papers.cache import Runs, Spec
from penstock_papers.claims import MORE, Differs
from penstock_papers.sentences import Numbers, holds, within
from penstock_papers.style import BLACK, COLUMN, figure, legend_above

TITLE = "A receiver that doubles its speed"
PAPER = "Backdraft, NSDI 2022, section 6.3, figure 15"
NETWORK = Servers(2)
RECEIVER = NETWORK.app(1)
BEFORE, AFTER = 25.152, 50.304
WITHOUT = {"name": "backdraft+pfc", "backdraft": {"with_rate": False}}
WITHOUT_RATE = Scheme("Backdraft without rates", WITHOUT, 1, like="backdraft")
SCHEMES = (LOSSLESS, OVER_PFC, WITHOUT_RATE)
DURATION_MS = {"quick": 6, "paper": 40}
SETTLED = 0.95
NO_STARVATION = "the overlay network in Backdraft does not suffer from starvation"
DETECTS = "Backdraft detects a change in the receivers rate"
STARVES = "BP (BESS with PFC) suffers from starvation"
AVOIDS = "Avoids extra pause frame generation"
ALL = "all of it: 5 % for a queue that runs empty at times; it can take no more"
MOST = "a tenth less, for the time in which the rate is found; it can take no more"
NOT_ALL = "starved: less than what counts as all of it; a larger effect agrees with the paper"
DIFFERS = {
    "starves": Differs(
        "a virtual switch that sends PFC frames never runs empty here: it resumes its peer long before",
        "backdraft-starvation",
        expected=(0.99, 1.01),
        scales=("quick", "paper"),
    ),
}


SHARES = (
    within(
        "before", "share of its speed that the receiver uses before, Backdraft", NO_STARVATION, 0.95, 1.01, why=ALL, quick=True
    ),
    within(
        "adapts",
        "share of its new speed that the receiver uses in the end, Backdraft",
        NO_STARVATION,
        0.95,
        1.01,
        why=ALL,
        quick=True,
    ),
    within("average", "share of its new speed that it uses in all of the second half, Backdraft", DETECTS, 0.9, 1.01, why=MOST),
    within("starves", "share of its new speed that the receiver uses, PFC", STARVES, None, 0.95, why=NOT_ALL, quick=True),
)
CLAIMS = (
    *SHARES,
    within(
        "fewer",
        "overlay pauses without rates / with",
        "sending a rate in an OPF is important to avoid persistent on/off congestion bursts",
        2.0,
        quick=True,
        why=f"half as many or fewer; {MORE}",
    ),
    holds("no-frames", "PFC frames with Backdraft, with rates and without", AVOIDS, "0"),
    holds("no-drops", "packets dropped, of all three", PREVENTS, "0"),
)


def specs(scale: str) -> dict[str, Spec]:
    """One flow, two speeds."""
    half = DURATION_MS[scale] / 2
    table = NETWORK.table({RECEIVER: f"{BEFORE}Gbps"})
    table["receivers"].append({"host": RECEIVER, "rate": f"{AFTER}Gbps", "start": f"{half}ms"})
    flow = setup.endless([(NETWORK.app(0), RECEIVER)], "UDP")
    return {"two": setup.spec(SCHEMES, table, [flow], f"{DURATION_MS[scale]}ms", sample="20us", port_series=True)}


def measure(runs: Runs, scale: str) -> pl.DataFrame:
    """Panel "rate": x ms, y Gbit/s; "settles": y ms from the change until the receiver has 95 % of its speed; "before", "after",
    "settled": y share of the receiver's speed used in the first half, in the second, in its last quarter; "PFC": y frames that
    paused a link; "pauses": all frames; "drops"."""
    parts, half = [], DURATION_MS[scale] / 2
    for scheme in SCHEMES:
        label = f"two/{scheme.legend}"
        rate = setup.rates(runs, label, RECEIVER)
        there = rate.filter((pl.col("ms") > half + 0.02) & (pl.col("rate") >= SETTLED * AFTER))["ms"].to_list()
        frame = setup.ports(runs, label, NETWORK)
        found = {
            "settles": there[0] - half if there else float("nan"),
            "after": mean(rate, half + 0.02, 2 * half) / AFTER,
            "before": mean(rate, half / 2, half) / BEFORE,
            "settled": mean(rate, 1.75 * half, 2 * half) / AFTER,
            "PFC": sum(setup.port_pauses(runs, label, NETWORK).values()),
            "pauses": setup.total(frame, "pauses_sent"),
            "drops": setup.total(frame, "drops"),
        }
        parts += [
            frames.rows("rate", scheme.legend, rate["ms"], rate["rate"]),
            *(frames.rows(panel, scheme.legend, [0], [y]) for panel, y in found.items()),
        ]
    return pl.concat(parts)


def mean(rate: pl.DataFrame, begin: float, end: float) -> float:
    """Average rate between two times, ms."""
    return float(np.mean(rate.filter(pl.col("ms").is_between(begin, end))["rate"].to_numpy()))


def numbers(data: pl.DataFrame, scale: str) -> Numbers:
    """Backdraft adapts; PFC starves the receiver, according to the paper."""
    pfc, overlay, blunt = (scheme.legend for scheme in SCHEMES)
    drops = sum(value(data, "drops", scheme.legend) for scheme in SCHEMES)
    pfc_frames = value(data, "PFC", overlay) + value(data, "PFC", blunt)
    return {
        "before": value(data, "before", overlay),
        "adapts": value(data, "settled", overlay),
        "average": value(data, "after", overlay),
        "starves": value(data, "after", pfc),
        "fewer": value(data, "pauses", blunt) / value(data, "pauses", overlay),
        "no-frames": (pfc_frames == 0, pfc_frames),
        "no-drops": (drops == 0, drops),
    }


def plot(data: pl.DataFrame) -> Any:
    """Rate at the receiver over time."""
    made, axes = figure(width=COLUMN, height=2.4)
    for scheme in SCHEMES:
        points = setup.line(data, "rate", scheme.legend)
        style = {**scheme.style, "marker": None, "linewidth": 2.5 if scheme is LOSSLESS else 1.2}
        axes.plot(points["x"], points["y"], label=scheme.legend, **style)
    half = float(np.max(data["x"].to_numpy())) / 2
    axes.plot([0, half, half, 2 * half], [BEFORE, BEFORE, AFTER, AFTER], color=BLACK, linestyle=":", label="what it can take")
    axes.set_xlabel("time (ms)")
    axes.set_ylabel("received (Gbit/s)")
    axes.set_ylim(bottom=0)
    legend_above(made, axes, columns=2)
    return made
