"""The papers' figures, each reproduced by one file named after it: runs, claims and plot.

    from penstock_papers import EXPERIMENTS, reproduce
    reproduce("bfc/fig04", scale="paper", out="fig04")

A new figure is a new file in its paper's folder, for example bfc/fig09.py, with a docstring that gives the set-up and
its sources, and these names:

    TITLE = "FCT slowdown with incast"                 PAPER = "BFC, NSDI 2022, section 6.2.2, figure 9"
    def specs(scale) -> dict[label, spec as a dict]    only if it simulates; several [[scheme]]s give runs label/SCHEME
    def measure(runs, scale) -> polars.DataFrame       series, x, y, and whatever claims and plot need
    CLAIMS = (within(...), about(...), ...)            a row for each sentence: its band, and why; see penstock_papers.sentences
    def numbers(data, scale) -> dict[id, number]       what the rows judge
    def plot(data) -> matplotlib Figure                made with penstock_papers.style
    SCALES = ("quick", "paper", "real")                only if it can run in real time as well, on a quiet machine
    DIFFERS = {"claim-id": Differs(reason, anchor, expected=(low, high))}
                                                       only if a claim is known to lie outside its band: why, and which
                                                       number of ours that predicts

A change of bands, claims, set-up or variants after a result was seen is an entry of changes.toml.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_papers.cache import Runs as Runs
    from penstock_papers.claims import Claim as Claim
    from penstock_papers.claims import Differs as Differs
    from penstock_papers.framework import Outcome as Outcome
    from penstock_papers.framework import reproduce as reproduce
    from penstock_papers.local import State as State
    from penstock_papers.local import state as state
    from penstock_papers.registry import EXPERIMENTS as EXPERIMENTS
    from penstock_papers.registry import Experiment as Experiment
    from penstock_papers.sentences import about as about
    from penstock_papers.sentences import as_said as as_said
    from penstock_papers.sentences import ascending as ascending
    from penstock_papers.sentences import holds as holds
    from penstock_papers.sentences import within as within

_HOMES = {  # imported on first use: `penstock --help` and `penstock reproduce --list` need no figure
    "cache": ("Runs",),
    "claims": ("Claim", "Differs"),
    "sentences": ("about", "as_said", "ascending", "holds", "within"),
    "framework": ("Outcome", "reproduce"),
    "registry": ("EXPERIMENTS", "Experiment"),
    "local": ("State", "state"),
}
__all__ = sorted(name for names in _HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"penstock_papers.{home}"), name)
    raise AttributeError(f"module 'penstock_papers' has no attribute {name!r}")
