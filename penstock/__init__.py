"""Per-hop, per-flow flow control for data-centre networks: simulate it packet by packet and reproduce the papers.

    import penstock as ps

    topo = ps.leaf_spine(hosts=128, tors=8, spines=8, rate="100Gbps", delay="1us", buffer="12MB")
    flows = ps.poisson(topo, sizes="google", load=0.6, duration="5ms", seed=1)
    run = ps.simulate(topo, flows, scheme=ps.BFC(queues=32), seed=1)
    run.slowdown(99)

Names are imported on first use, so that `import penstock` costs nothing. Those of topologies, generators of traffic and schemes
come from their registries: the `__all__` of the modules in _REGISTRIES, and the files in penstock/schemes.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.composition import Scheme
    from penstock.composition import parse as scheme
    from penstock.composition.constructors import *  # noqa: F403
    from penstock.errors import ClaimFailed, InvariantError, PenstockError, SchemeError, SpecError
    from penstock.report import plots as plot
    from penstock.results.pause_times import pause_times
    from penstock.results.run import Run
    from penstock.results.sweep import Sweep
    from penstock.sim.checkpoint import Checkpoint
    from penstock.sim.config import HostConfig, Measure
    from penstock.sim.simulate import simulate
    from penstock.spec import load_spec
    from penstock.topology import Topology, behind_vswitches, from_file, with_receivers
    from penstock.topology.shapes import *  # noqa: F403
    from penstock.workload import Flows, SizeDistribution, flows_from_csv
    from penstock.workload.collectives import *  # noqa: F403
    from penstock.workload.generators import *  # noqa: F403
    from penstock.workload.training import *  # noqa: F403

    __version__: str

_HOMES = {
    "penstock.errors": ("ClaimFailed", "InvariantError", "PenstockError", "SchemeError", "SpecError"),
    "penstock.sim.checkpoint": ("Checkpoint",),
    "penstock.sim.config": ("HostConfig", "Measure"),
    "penstock.results.pause_times": ("pause_times",),
    "penstock.results.run": ("Run",),
    "penstock.results.sweep": ("Sweep",),
    "penstock.composition": ("Scheme",),
    "penstock.sim.simulate": ("simulate",),
    "penstock.spec": ("load_spec",),
    "penstock.topology": ("Topology", "behind_vswitches", "from_file", "with_receivers"),
    "penstock.workload": ("Flows", "SizeDistribution", "flows_from_csv"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_REGISTRIES = (
    "penstock.topology.shapes",
    "penstock.workload.generators",
    "penstock.workload.collectives",
    "penstock.workload.training",
)


def _composition() -> Any:
    return importlib.import_module("penstock.composition")


def _public() -> list[str]:
    registered = [name for home in _REGISTRIES for name in importlib.import_module(home).__all__]
    return sorted([*_HOME_OF, *registered, *_composition().classes(), "__version__", "plot", "scheme"])


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name == "scheme":
        return _composition().parse
    if name == "plot":
        return importlib.import_module("penstock.report.plots")
    if name == "__version__":
        return importlib.import_module("penstock.results.run").version()
    if name == "__all__":
        return _public()
    if not name.startswith("_"):
        for home in map(importlib.import_module, _REGISTRIES):
            if name in home.__all__:
                return getattr(home, name)
        if name in _composition().classes():
            return _composition().scheme_type(_composition().classes()[name])
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return _public()
