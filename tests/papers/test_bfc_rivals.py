"""Figures 13, 14, 21 to 23 and 29 of BFC on a small fabric and for a moment: specs, statistics, claims and panels."""

import polars as pl
import pytest
from steps import every_step
from test_macro import FEW, SMALL

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _rivals as rivals
from penstock_papers.bfc import fig13, fig14, fig21, fig22, fig23, fig29
from penstock_papers.registry import SCALES

FIGURES = {f"bfc/{module.__name__.rpartition('.')[2]}": module for module in (fig13, fig14, fig21, fig22, fig23, fig29)}


@pytest.fixture
def small(monkeypatch):
    """The experiments on 32 hosts for 0.2 ms."""
    monkeypatch.setattr(fabric, "FABRIC", SMALL)
    monkeypatch.setattr(fabric, "INCAST", FEW)
    for module in FIGURES.values():
        monkeypatch.setattr(module, "DURATION", dict.fromkeys(SCALES, "200us"))
    monkeypatch.setattr(fig13, "DEGREES", dict.fromkeys(SCALES, fig13.DEGREES["quick"]))


@pytest.mark.parametrize("id", FIGURES)
def test_every_step_of_a_figure(id, small, tmp_path):
    runs, data, _ = every_step(id, tmp_path)
    assert data.filter(pl.col("panel").is_in(["avg", "p50", "p95", "p99"]))["y"].drop_nulls().min() > 0.999
    if id == "bfc/fig14":
        assert all(runs.summary(f"incast/{each.label}")["pfc_pause_fraction"] == 0 for each in fig14.HPCCS)


@pytest.mark.parametrize("id", FIGURES)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_the_paper_s_and_quick_is_shorter(id, scale):
    for label, table in EXPERIMENTS[id].specs(scale).items():
        spec = parse_spec(table, name=label)
        buffer = rivals.EXPRESSPASS_BUFFER if label.endswith("expresspass") else fabric.FABRIC["buffer"]
        assert spec.topology.model_dump() == {"file": None, **fabric.FABRIC, "buffer": buffer}
        assert spec.duration_ps == 50_000_000_000 or (scale == "quick" and spec.duration_ps <= 4_000_000_000)


def test_degrees_share_the_same_bytes():
    for degree in fig13.DEGREES["paper"]:
        spec = parse_spec(
            EXPERIMENTS["bfc/fig13"].specs("quick" if degree in fig13.DEGREES["quick"] else "paper")[fig13.name(degree)]
        )
        assert spec.workload[1].extra["fan_in"] == degree and spec.workload[1].extra["total"] == "20MB"


@pytest.mark.parametrize("traffic", fig22.TRAFFIC)
def test_spatial_locality_loads_all_links_alike(traffic):
    """By the paths of the flows: links of hosts and of the core carry the same share, half of the traffic stays in the racks."""
    table = EXPERIMENTS["bfc/fig22"].specs("paper")[traffic]
    spec = parse_spec({**table, "run": {**table["run"], "duration": "10ms"}})
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    found = flows.realised(topo, spec.duration_ps)["classes"]["poisson"]
    share = 0.6 - fig22.TRAFFIC[traffic]
    assert found["load_host"] == pytest.approx(share, rel=0.1)
    assert found["load_crossing"] == pytest.approx(share, rel=0.1)


def test_slow_start_is_compared_in_the_bins_that_both_have():
    def line(scheme, sizes, slowdowns):
        return fabric.points("plain", scheme, "p50", sizes, slowdowns)

    data = pl.concat([line(rivals.DCTCP_SS, [500, 9e7, 2e4], [3, 8, 6]), line(fig23.DCTCP, [600, 3e4], [2, 3])])
    assert fig23.slower(data, "plain", "p50") == {0: 1.5, 2: 2.0}
