"""Fixtures of the tests of the framework, which stand in for the cache and the simulator."""

from types import SimpleNamespace

import numpy as np
import pytest

from penstock.experiments import EXPERIMENTS, confirm, measuring, points, records
from penstock.results.run import Run
from penstock.spec import Spec

HASHES = {name: getattr(records, name) for name in ("sources", "simulator", "judging", "specs")}
MEASURING = measuring.measuring


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache folder of the test's own; sources for made-up figures, which have no file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, real in HASHES.items():
        monkeypatch.setattr(records, name, lambda id, *of, real=real: real(id, *of) if id in EXPERIMENTS else f"of {id}")
    for module in (points, confirm):
        monkeypatch.setattr(module, "measuring", lambda id: MEASURING(id) if id in EXPERIMENTS else f"of {id}")


@pytest.fixture
def simulated(monkeypatch):
    """Instead of the simulator: the names of the schemes it was asked for."""
    asked = []

    def simulate(spec, table, topo, flows, *, threads=None, progress=None):
        asked.append(table.name)
        if progress:
            progress(SimpleNamespace(share=0.5))
        zero = np.zeros(1, np.int64)
        flows = {
            "start_ps": zero,
            "finish_ps": zero + 10 * len(table.name),
            "ideal_ps": zero + 10,
            "src": zero,
            "dst": zero + 1,
            "bytes": zero + 100,
            "class_id": zero,
            "classes": ["poisson"],
            "priority": zero,
        }
        return Run.from_arrays(flows, summary={"spec": spec.only(table).to_toml(), "wall_s": 0.5})

    monkeypatch.setattr(Spec, "simulate", simulate)
    monkeypatch.setattr(Spec, "build_topology", lambda spec: None)
    monkeypatch.setattr(Spec, "build_flows", lambda spec, topo, force=False: None)
    return asked
