"""Fixtures of the tests of the framework, which stand in for the cache and the simulator."""

from types import SimpleNamespace

import numpy as np
import pytest

from penstock_net.results.run import Run
from penstock_net.spec import Spec


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


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
        return Run.from_arrays(flows, summary={"spec": spec.only(table).to_toml(), "scheme": table.name, "wall_s": 0.5})

    monkeypatch.setattr(Spec, "simulate", simulate)
    monkeypatch.setattr(Spec, "build_topology", lambda spec: None)
    monkeypatch.setattr(Spec, "build_flows", lambda spec, topo, force=False: None)
    return asked
