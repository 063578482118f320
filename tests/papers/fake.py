"""Made-up experiments, for the tests of the framework."""

import functools

import polars as pl
from rich.console import Console

from penstock_papers import Experiment, reproduce
from penstock_papers.registry import completed
from penstock_papers.style import figure

SPEC = {
    "run": {"duration": "1ms", "seed": 3},
    "topology": {"kind": "star", "hosts": 4, "rate": "100Gbps", "delay": "1us"},
    "scheme": [{"name": "bfc"}, {"name": "hpcc"}],
    "workload": [{"kind": "poisson", "sizes": "google", "load": 0.5}],
}


def draw(data):
    made, axes = figure()
    axes.plot(data["x"], data["y"])
    return made


def experiment(claims, specs=None, **kwargs):
    if specs:
        kwargs["specs"] = functools.partial(completed, specs, "run")
    defaults = {
        "measure": lambda runs, scale: pl.DataFrame({"series": ["a"], "x": [1.0], "y": [2.0]}),
        "claims": lambda data, scale: claims,
        "plot": draw,
    }
    return {"fake/fig01": Experiment("fake/fig01", "A title", "A paper, figure 1", **{**defaults, **kwargs})}


def run(experiments, out, **kwargs):
    return reproduce("fake/fig01", out=out, experiments=experiments, console=Console(quiet=True), **kwargs)


def with_runs(specs=None, **kwargs):
    """An experiment that plots the slowdown of each run's only flow."""

    def measure(runs, scale):
        return pl.DataFrame(
            [(label, 1.0, runs[label].flows["slowdown"][0]) for label in runs], schema=["series", "x", "y"], orient="row"
        )

    return experiment([], specs=specs or (lambda scale: {"base": SPEC}), measure=measure, **kwargs)
