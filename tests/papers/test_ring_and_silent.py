"""beyond/ring and beyond/silent: what they count, by hand, and the set-up of their runs."""

import polars as pl
import pytest

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, frames, framework
from penstock_papers.beyond import ring, silent
from penstock_papers.claims import OURS


def arrived(*rows):
    return pl.DataFrame(rows, schema={"dst": pl.Int64, "finish_ns": pl.Float64}, orient="row")


def test_a_step_is_that_of_the_rank_that_is_furthest_behind():
    two = [(dst, 1e3 * step * (8 + dst)) for dst in range(2) for step in (1, 2)]
    assert ring.slowest_step(arrived(*two), 2, 99e3) == 9  # both have all two messages, rank 1 the last one at 18 us
    assert ring.slowest_step(arrived(*two[:3]), 2, 40e3) == 40  # rank 1 has one of two in 40 us
    assert ring.slowest_step(arrived(*two[:2]), 2, 40e3) == 40  # rank 1 has none
    assert ring.empty_us() == pytest.approx(7.652)


def test_every_step_of_a_small_ring(monkeypatch, tmp_path):
    monkeypatch.setattr(ring, "RANKS", {"quick": 32})
    monkeypatch.setattr(ring, "PACKETS", 1)
    asked = {name for _, *names, _, _, _ in ring.QUESTIONS.values() for name in names}
    monkeypatch.setattr(ring, "SHOWN", [rival for rival in ring.SHOWN if rival.legend in asked])
    monkeypatch.setattr(ring, "LOSSLESS", [name for name in ring.LOSSLESS if name in asked])
    experiment = EXPERIMENTS["beyond/ring"]
    runs = framework.run_all(experiment, "quick", 1, tmp_path, 1, None)
    data = framework.measured(experiment, runs, "quick")
    claims = {claim.id: claim for claim in experiment.claims(data, "quick")}
    assert {claim.kind for claim in claims.values()} == {OURS} and set(ring.QUESTIONS) < set(claims)
    assert claims["finish"].ours == "all do" and claims["lossless"].ours == "none"
    assert frames.value(data, panel="step", series="BFC", fabric="full") >= ring.empty_us() - 1e-9
    experiment.draw(data)


def test_a_ring_at_scale_paper_ends_at_its_time():
    spec = parse_spec(ring.specs("paper")["full-bfc"])
    assert not spec.run.drain and ring.specs("quick")["full-bfc"]["run"]["max_time"] == "1s"


def test_what_is_lost_elsewhere():
    said = ["link down: 7", None, "link down: 2, refused by the scheme: 3", "buffer full: 4"]
    assert silent.elsewhere(pl.DataFrame({"drop_reason": said})) == 7
    assert silent.elsewhere(pl.DataFrame({"drop_reason": [None]}, schema={"drop_reason": pl.String})) == 0


def test_a_link_dies_in_three_ways():
    made = silent.specs("paper")
    ways = {kind: made[f"full-{kind}-bfc"]["topology"]["changes"] for kind in silent.KINDS}
    assert ways["calm"] == [] and [ways[kind][0]["on_down"] for kind in ("told", "silent")] == ["lose", "silent"]
    assert not any("ndp" in label for label in made if label.startswith("rails"))


def test_what_is_said_of_a_link_that_dies():
    """Three flows of BFC + spray and four of Pyrrha do not end, DCQCN + PFC loses packets, one takes 40 us; others take one."""
    odd = {("unfinished", "BFC + spray", "told", "core"): 3, ("elsewhere", "DCQCN + PFC", "silent", "rails"): 5}
    odd |= {("max", "BFC + spray", "silent", "full"): 40, ("unfinished", "Pyrrha", "silent", "core"): 4}
    rows = []
    for fabric, kind, rival in silent.cells():
        for panel in silent.MEASURES:
            usual = 0 if panel in ("unfinished", "elsewhere") else 1
            y = float(odd.get((panel, rival.legend, kind, fabric), usual))
            rows.append({"panel": panel, "series": rival.legend, "traffic": kind, "fabric": fabric, "x": 0.0, "y": y})
    data = pl.DataFrame(rows)
    found = silent.numbers(data, "quick")
    assert found["told"] == (False, "4:1, told, BFC + spray 3") and found["ends"] == (True, "all do")
    assert found["elsewhere"] == (False, "rails, 8 planes, silent, DCQCN + PFC 5")
    assert found["by-flow"] == (0, "BFC") and found["go-back"] == 40 and found["one-timeout"] == 0
