"""Figures 20, 24 and 25 of BFC on a small fabric and for a moment: specs, statistics, claims and panels, not the numbers; the
collisions of figure 27."""

import json

import polars as pl
import pytest
from test_macro import FEW, SMALL

from penstock_papers import EXPERIMENTS, framework
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import fig20, fig24, fig25, fig27
from penstock_papers.claims import NOT_JUDGED, judge
from penstock_papers.registry import SCALES

MODULES = {"bfc/fig20": fig20, "bfc/fig24": fig24, "bfc/fig25": fig25}


@pytest.mark.parametrize("id", MODULES)
def test_every_step_of_a_figure(id, monkeypatch, tmp_path):
    experiment = EXPERIMENTS[id]
    monkeypatch.setattr(fabric, "FABRIC", SMALL)
    monkeypatch.setattr(fabric, "INCAST", FEW)
    monkeypatch.setattr(MODULES[id], "DURATION", dict.fromkeys(SCALES, "200us"))
    runs = framework.run_all(experiment, "quick", 1, tmp_path / "runs", 1, None)
    data = framework.measured(experiment, runs, "quick")
    claims = judge(experiment.claims(data, "paper"), "paper", experiment.differs) if id != "bfc/fig24" else []
    claims += judge(experiment.claims(data, "quick"), "quick", experiment.differs)
    assert any(claim.verdict != NOT_JUDGED for claim in claims)
    json.dumps([claim.record() for claim in claims], allow_nan=False)
    for panel in experiment.draw(data).axes:
        assert panel.get_lines() and panel.get_title()


def test_specs_are_those_of_the_paper():
    shared = fig20.specs("paper")[fig20.SHARED]
    assert [workload["priority"] for workload in shared["workload"]] == [0, 1, 2, 3]
    assert sum(workload["load"] for workload in shared["workload"]) == pytest.approx(fabric.load_keys(0.6)["load"], rel=1e-4)
    assert {table["queues"] for table in shared["scheme"] if table["name"] == "bfc" and "queues" in table} == {128}
    assert [spec["workload"][1]["fan_in"] for spec in fig24.specs("paper").values()] == list(fig24.DEGREES["paper"])
    tables = {table["label"]: table for table in fig25.specs("paper")["incast"]["scheme"]}
    assert tables["bfc_nic"]["name"] == "bfc+window_cap" and tables["bfc_sampling"] == {
        "name": "bfc_tofino2:ideal",
        "recirculated": 0.5,
        "assignment": "reserved",
        "label": "bfc_sampling",
    }


class Logged:
    """Runs of figure 27: a host, a switch and the packets that came to and left a queue of the switch, by hand."""

    def scan(self, label, table):
        events = [("enqueue", 1), ("enqueue", 2), ("dequeue", 1), ("enqueue", 3), ("dequeue", 2), ("dequeue", 3), ("enqueue", 4)]
        if table == "nodes":
            return pl.LazyFrame({"node": [0, 5], "tier": [0, 1]})
        rows = [("enqueue", 9, 0), *((event, flow, 5) for event, flow in events)]
        columns = dict(zip(("event", "flow_id", "node"), zip(*rows)))
        return pl.LazyFrame({**columns, "kind": [0] * len(rows), "port": [0] * len(rows), "queue": [1] * len(rows)})


@pytest.mark.parametrize("order", ["as it was", "reversed"])
def test_collisions_are_counted_in_the_order_of_events(order, monkeypatch):
    """Whatever the order of a join, which polars leaves open."""
    join = pl.LazyFrame.join
    if order == "reversed":
        monkeypatch.setattr(pl.LazyFrame, "join", lambda left, *args, **more: join(left, *args, **more).reverse())
    assert sorted(fig27.collisions(Logged(), "packets/dynamic")) == [0, 0, 1, 1]
