"""NDP, ExpressPass, IRN and ConWeave beside their published numbers: on small fabrics and by hand."""

import numpy as np
import polars as pl
import pytest
from steps import every_step

import penstock_net as ps
from penstock_papers import Runs, frames
from penstock_papers import cache as store
from penstock_papers.beyond import conweave, expresspass, irn, ndp
from penstock_papers.claims import PASS
from penstock_papers.registry import SCALES


def of_run(tmp_path, run, label="run"):
    run.save(tmp_path / label)
    return Runs({label: store.Entry(label, "", tmp_path / label, True, 0.0)})


# ---- NDP ----


def test_every_step_of_ndp(monkeypatch, tmp_path):
    monkeypatch.setattr(
        ndp,
        "ARITY",
        {"short": 6, "large": dict.fromkeys(SCALES, 6), "permutation": dict.fromkeys(SCALES, 4), "shares": 8, "failure": 4},
    )
    monkeypatch.setattr(ndp, "SENDERS", dict.fromkeys(SCALES, (1, 11, 51)))
    monkeypatch.setattr(ndp, "MANY", dict.fromkeys(SCALES, (1, 2, 4, 8, 53)))
    monkeypatch.setattr(ndp, "END_MS", 4)
    monkeypatch.setattr(ndp, "LAST_MS", 2)
    monkeypatch.setattr(ndp, "FAILURE_MS", dict.fromkeys(SCALES, (2, 4)))
    runs, data, claims = every_step("beyond/ndp", tmp_path)
    assert all(runs.summary(label)["drops"] == 0 for label in runs)
    exact = [claim for claim in claims if claim.id.startswith("exact")]
    assert len(exact) == 6 and {claim.verdict for claim in exact} == {PASS}
    ours = data.filter((pl.col("panel") == "nacks") & (pl.col("series") == ndp.OURS_HERE) & (pl.col("window") == 23))
    assert ours.filter(pl.col("x") == 4)["y"].item() == pytest.approx(80, abs=8)  # published: 80


def test_published_numbers_of_ndp():
    assert ndp.published("last").row(0) == (1.0, 404.816) and len(ndp.published("first")) == 44
    assert ndp.published("nacks", 23).filter(pl.col("x") == 4)["y"].item() == 80
    assert ndp.published("large", 1)["x"].to_list() == list(ndp.MANY["paper"])
    assert len(ndp.published("shares")) == len(ndp.FLOWS)
    assert ndp.published("penalty")["y"].mean() == pytest.approx(9.64189, abs=1e-4)
    assert ndp.published("no penalty")["y"].min() == 4.1386


def test_the_optimum_is_a_saturated_link_after_an_idle_path():
    assert ndp.overhead("last", 1, 404.816) == pytest.approx(0, abs=1e-6)
    assert ndp.overhead("large", 2, 2 * (30 * 2 * 7.2512 + 5 * 7.2512 + 6)) == pytest.approx(100)


# ---- ExpressPass ----


def test_every_step_of_expresspass(monkeypatch, tmp_path):
    monkeypatch.setattr(expresspass, "REPEATS", dict.fromkeys(SCALES, 1))
    monkeypatch.setattr(expresspass, "LINKS", dict.fromkeys(SCALES, (2, 6)))
    monkeypatch.setattr(expresspass, "FLOWS", dict.fromkeys(SCALES, (4,)))
    monkeypatch.setattr(expresspass, "MS", dict.fromkeys(SCALES, 10))
    monkeypatch.setattr(expresspass, "RANDOM", dict.fromkeys(expresspass.RANDOM, 0.5))
    runs, data, claims = every_step("beyond/expresspass", tmp_path)
    assert all(runs.summary(label)["retransmissions"] == 0 for label in runs)
    assert {claim.verdict for claim in claims if claim.id.startswith("one-")} == {PASS}
    waste = data.filter(pl.col("panel") == "waste")["y"]
    assert len(waste) == 24 and 0 < waste.min() < waste.max() < 100


def test_a_flow_has_converged_with_its_share_three_times_in_a_row(monkeypatch):
    shares = [0, 0.3, 0.8, 0.6, 0.9, 1.1, 1.24, 0.5]
    monkeypatch.setattr(expresspass, "joined", lambda runs, label: np.array(shares))
    assert expresspass.converged(None, "") == 4
    shares[5] = 1.3
    assert expresspass.converged(None, "") == expresspass.JOINED_RTTS


def test_wasted_credits_are_counted_by_hand(tmp_path):
    """A flow of one packet with credits at the maximum rate: those of an RTT; the first one is used."""
    topo = ps.star(hosts=2, rate="10Gbps", delay="10us")
    flows = ps.flow_list(topo, [(0, 1, 1460, "0s")])
    host = ps.HostConfig(mtu=1460, header=78, ack=60)
    run = ps.simulate(topo, flows, scheme=ps.ExpressPass(alpha=1, jitter=0, spread=0), host=host)
    rtt, gap = 2 * (64 + 1538) * 0.8 + 40_000, (64 + 1538) * 0.8
    wasted = int(rtt / gap)
    assert expresspass.wasted(of_run(tmp_path, run), "run") == pytest.approx(100 * wasted / (wasted + 1))


# ---- IRN ----


def test_every_step_of_irn(monkeypatch, tmp_path):
    monkeypatch.setattr(irn, "MS", dict.fromkeys(SCALES, 1))
    runs, data, claims = every_step("beyond/irn", tmp_path)
    for label in runs:
        drops = runs.summary(label)["drops"]
        assert drops == 0 if "PFC" in label else drops > 0 or "none" not in label
    dropped = data.filter((pl.col("panel") == "dropped") & (pl.col("series") == irn.IRN) & (pl.col("x") == 0))["y"].item()
    assert 0 < dropped < 20 and len(claims) == 2 * 9 + 3


def test_flows_of_irn_have_the_shares_and_the_load_of_the_paper():
    made = irn.flows(20, 1)
    sizes = np.array([size for _, _, size, _ in made])
    assert np.mean(sizes < 1000) == pytest.approx(0.5, abs=0.01) and np.mean(sizes > 200_000) == pytest.approx(0.15, abs=0.01)
    assert sizes.sum() * 8 / (irn.HOSTS * irn.GBPS * 20e6) == pytest.approx(0.7, abs=0.03)
    assert all(src != dst for src, dst, _, _ in made) and sizes.min() >= 32 and sizes.max() < 3_000_000


# ---- ConWeave ----


def test_every_step_of_conweave(monkeypatch, tmp_path):
    monkeypatch.setattr(conweave, "US", dict.fromkeys(SCALES, 60))
    runs, data, claims = every_step("beyond/conweave", tmp_path)
    assert all(runs.summary(label)["drops"] == 0 for label in runs if label.startswith("PFC"))
    twice = data.filter((pl.col("panel") == "again") & (pl.col("series") == conweave.DRILL) & (pl.col("traffic") == "IRN"))
    assert twice["y"].min() > 0 and len(claims) == len(conweave.CLAIMS)
    assert list(conweave.COLOURS) == list(conweave.PARTS) and len(set(conweave.COLOURS.values())) == len(conweave.PARTS)


def test_what_is_compared_with_conweave_is_by_hand():
    """Over PFC the best other is LetFlow, since DRILL is none of them; over IRN it is DRILL, by which the gain is smaller."""
    panels = {"average": 1.0, "tail": 10.0, "again": 0.0, "drops": 0.0, "unfinished": 0.0}
    factors = {conweave.ECMP: 4.0, conweave.LETFLOW: 2.0, conweave.DRILL: 1.25, conweave.CONWEAVE: 1.0}
    parts = [
        frames.rows(panel, name, [load], [unit * factor], traffic=transport)
        for panel, unit in panels.items()
        for name, factor in factors.items()
        for transport in conweave.OTHERS
        for load in conweave.LOADS
    ]
    found = conweave.numbers(pl.concat(parts), "paper")
    assert found["average"] == (50, "PFC, load 50 %, LetFlow") and found["tail"] == (50, "PFC, load 50 %, LetFlow")
    assert found["pfc-80-average"] == 75 and found["irn-50-tail"] == 75 and found["drill-irn"] == 1.25
    assert found["letflow"][0] == 0.5 and found["order"][0] and found["lossless"][0] and found["ends"][0]
