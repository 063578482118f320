"""Per-hop, per-flow flow control for data-centre networks: simulate it packet by packet and reproduce the papers.

    import penstock_net as ps

    topo = ps.leaf_spine(hosts=128, tors=8, spines=8, rate="100Gbps", delay="1us", buffer="12MB")
    flows = ps.poisson(topo, sizes="google", load=0.6, duration="5ms", seed=1)
    run = ps.simulate(topo, flows, scheme=ps.BFC(queues=32), seed=1)
    run.slowdown(99)

Names are imported on first use, so that `import penstock_net` costs nothing. Those of topologies, traffic generators and schemes
come from their registries: the `__all__` of the modules in _REGISTRIES, and the files in penstock_net/schemes.
"""

import importlib
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock_net.composition import Scheme as Scheme
    from penstock_net.composition import parse as _parse
    from penstock_net.composition.constructors import *  # noqa: F403
    from penstock_net.errors import ClaimFailed as ClaimFailed
    from penstock_net.errors import Interrupted as Interrupted
    from penstock_net.errors import InvariantError as InvariantError
    from penstock_net.errors import PenstockError as PenstockError
    from penstock_net.errors import SchemeError as SchemeError
    from penstock_net.errors import SpecError as SpecError
    from penstock_net.report import plots as _plots
    from penstock_net.results.comparison import Comparison as Comparison
    from penstock_net.results.comparison import compare as compare
    from penstock_net.results.pause_times import pause_times as pause_times
    from penstock_net.results.run import Run as Run
    from penstock_net.results.statistic import Statistic as Statistic
    from penstock_net.results.sweep import Sweep as Sweep
    from penstock_net.sim.buffers import buffer_needs as buffer_needs
    from penstock_net.sim.checkpoint import Checkpoint as Checkpoint
    from penstock_net.sim.config import HostConfig as HostConfig
    from penstock_net.sim.config import InNetwork as InNetwork
    from penstock_net.sim.config import Measure as Measure
    from penstock_net.sim.simulate import simulate as simulate
    from penstock_net.spec import load_spec as load_spec
    from penstock_net.sweeps.sweep import SweepFailed as SweepFailed
    from penstock_net.sweeps.sweep import sweep as sweep
    from penstock_net.topology import Topology as Topology
    from penstock_net.topology import behind_vswitches as behind_vswitches
    from penstock_net.topology import from_file as from_file
    from penstock_net.topology import with_receivers as with_receivers
    from penstock_net.topology.shapes import *  # noqa: F403
    from penstock_net.workload import Flows as Flows
    from penstock_net.workload import SizeDistribution as SizeDistribution
    from penstock_net.workload import flows_from_csv as flows_from_csv
    from penstock_net.workload.collectives import *  # noqa: F403
    from penstock_net.workload.generators import *  # noqa: F403
    from penstock_net.workload.inference import *  # noqa: F403
    from penstock_net.workload.training import *  # noqa: F403

    scheme = _parse
    plot = _plots
    __version__: str

_HOMES = {
    "penstock_net.errors": ("ClaimFailed", "Interrupted", "InvariantError", "PenstockError", "SchemeError", "SpecError"),
    "penstock_net.sim.buffers": ("buffer_needs",),
    "penstock_net.sim.checkpoint": ("Checkpoint",),
    "penstock_net.sim.config": ("HostConfig", "InNetwork", "Measure"),
    "penstock_net.results.comparison": ("Comparison", "compare"),
    "penstock_net.results.pause_times": ("pause_times",),
    "penstock_net.results.run": ("Run",),
    "penstock_net.results.statistic": ("Statistic",),
    "penstock_net.results.sweep": ("Sweep",),
    "penstock_net.composition": ("Scheme",),
    "penstock_net.sim.simulate": ("simulate",),
    "penstock_net.spec": ("load_spec",),
    "penstock_net.sweeps.sweep": ("SweepFailed", "sweep"),
    "penstock_net.topology": ("Topology", "behind_vswitches", "from_file", "with_receivers"),
    "penstock_net.workload": ("Flows", "SizeDistribution", "flows_from_csv"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_REGISTRIES = (
    "penstock_net.topology.shapes",
    "penstock_net.workload.generators",
    "penstock_net.workload.collectives",
    "penstock_net.workload.training",
    "penstock_net.workload.inference",
)


def _composition() -> Any:
    return importlib.import_module("penstock_net.composition")


def _is_module(name: str) -> bool:
    """Whether `from penstock_net import name` means a module, which asks here first."""
    return PathFinder.find_spec(f"penstock_net.{name}", __spec__.submodule_search_locations) is not None


def _public() -> list[str]:
    registered = [name for home in _REGISTRIES for name in importlib.import_module(home).__all__]
    return sorted([*_HOME_OF, *registered, *_composition().classes(), "__version__", "plot", "scheme"])


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name == "scheme":
        return _composition().parse
    if name == "plot":
        return importlib.import_module("penstock_net.report.plots")
    if name == "__version__":
        return importlib.import_module("penstock_net.version").version()
    if name == "__all__":
        return _public()
    if not name.startswith("_") and not _is_module(name):
        for home in map(importlib.import_module, _REGISTRIES):
            if name in home.__all__:
                return getattr(home, name)
        if name in _composition().classes():
            return _composition().scheme_type(_composition().classes()[name])
    raise AttributeError(f"module 'penstock_net' has no attribute {name!r}")


def __dir__() -> list[str]:
    return _public()
