"""Per-hop, per-flow flow control for data-centre networks: simulate it packet by packet and reproduce the papers.

    import penstock as ps

    topo = ps.leaf_spine(hosts=128, tors=8, spines=8, rate="100Gbps", delay="1us", buffer="12MB")
    flows = ps.poisson(topo, sizes="google", load=0.6, duration="5ms", seed=1)
    run = ps.simulate(topo, flows, scheme=ps.BFC(queues=32), seed=1)
    run.slowdown(99)

Names are imported on first use, so that `import penstock` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.composition import Scheme
    from penstock.composition import parse as scheme
    from penstock.errors import ClaimFailed, InvariantError, PenstockError, SchemeError, SpecError
    from penstock.report import plots as plot
    from penstock.results.run import Run
    from penstock.sim.config import HostConfig, Measure
    from penstock.sim.simulate import simulate
    from penstock.spec import load_spec
    from penstock.topology import (
        Topology,
        behind_vswitches,
        clos,
        dumbbell,
        fat_tree,
        from_file,
        leaf_spine,
        parking_lot,
        star,
        with_receivers,
    )
    from penstock.workload import (
        Flows,
        SizeDistribution,
        all_to_all,
        flow_list,
        flows_from_csv,
        incast,
        long_flows,
        permutation,
        poisson,
        ring_all_reduce,
        tree_all_reduce,
    )

_HOMES = {
    "penstock.errors": ("ClaimFailed", "InvariantError", "PenstockError", "SchemeError", "SpecError"),
    "penstock.sim.config": ("HostConfig", "Measure"),
    "penstock.results.run": ("Run",),
    "penstock.composition": ("Scheme",),
    "penstock.sim.simulate": ("simulate",),
    "penstock.spec": ("load_spec",),
    "penstock.topology": (
        "Topology",
        "behind_vswitches",
        "clos",
        "dumbbell",
        "fat_tree",
        "from_file",
        "leaf_spine",
        "parking_lot",
        "star",
        "with_receivers",
    ),
    "penstock.workload": (
        "Flows",
        "SizeDistribution",
        "all_to_all",
        "flow_list",
        "flows_from_csv",
        "incast",
        "long_flows",
        "permutation",
        "poisson",
        "ring_all_reduce",
        "tree_all_reduce",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_SCHEMES = {
    "Backdraft": "backdraft",
    "BFC": "bfc",
    "DCQCN": "dcqcn",
    "DCTCP": "dctcp",
    "DQA": "dqa",
    "ECN": "ecn",
    "FIFO": "fifo",
    "Floodgate": "floodgate",
    "HPCC": "hpcc",
    "IdealFQ": "ideal_fq",
    "PFC": "pfc",
    "PFCTagged": "pfc_tagged",
    "Spray": "spray",
    "TIMELY": "timely",
    "WindowCap": "window_cap",
}
__all__ = sorted([*_HOME_OF, *_SCHEMES, "__version__", "plot", "scheme"])


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    if name in _SCHEMES:
        return importlib.import_module("penstock.composition").scheme_type(_SCHEMES[name])
    if name == "scheme":
        return importlib.import_module("penstock.composition").parse
    if name == "plot":
        return importlib.import_module("penstock.report.plots")
    if name == "__version__":
        return importlib.import_module("penstock.results.run").version()
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
