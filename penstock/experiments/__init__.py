"""The papers' figures, each reproduced by one file named after it: runs, claims and plot.

    from penstock.experiments import EXPERIMENTS, reproduce
    reproduce("bfc/fig04", scale="paper", out="fig04")

A new figure is a new file in its paper's folder, for example bfc/fig09.py, with a docstring that gives the set-up and
its sources, and these names:

    TITLE = "FCT slowdown with incast"                 PAPER = "BFC, NSDI 2022, section 6.2.2, figure 9"
    def specs(scale) -> dict[label, spec as a dict]    only if it simulates; several [[scheme]]s give runs label/SCHEME
    def measure(runs, scale) -> polars.DataFrame       series, x, y, and whatever claims and plot need
    def claims(data, scale) -> list[Claim]             made with within(), about(), as_said(), ascending() and holds()
    def plot(data) -> matplotlib Figure                made with penstock.experiments.style
    SCALES = ("quick", "paper", "real")                only if it can run in real time as well, on a quiet machine
    DIFFERS = {"claim-id": Differs(reason, anchor, expected=(low, high))}
                                                       only if a claim is known to lie outside its band: why, and which
                                                       number of ours that predicts

A change of bands, claims, set-up or variants after a result was seen is an entry of changes.toml.
"""

from penstock.experiments.cache import Runs
from penstock.experiments.claims import Claim, Differs, about, as_said, ascending, holds, within
from penstock.experiments.framework import Outcome, State, reproduce, state
from penstock.experiments.registry import EXPERIMENTS, Experiment

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Differs",
    "Experiment",
    "Outcome",
    "Runs",
    "State",
    "about",
    "as_said",
    "ascending",
    "holds",
    "reproduce",
    "state",
    "within",
]
