"""The micro-benchmarks of the BFC and HPCC papers: every claim at scale quick, and the measures they rest on."""

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from penstock_net.spec import parse_spec
from penstock_net.units import ps_per_byte
from penstock_net.workload.distributions import SizeDistribution
from penstock_papers import EXPERIMENTS, reproduce
from penstock_papers.bfc import fig08, fig08_tofino2, fig30, table1
from penstock_papers.claims import DIFFERS, FROM_PAPER, NOT_JUDGED, PASS, stale_differences
from penstock_papers.hpcc import fig06, fig14

BESIDE = {  # the points of a figure's other variants, which are (ours)
    "bfc/deadlock": pl.col("series").str.starts_with("BFC, one queue"),
    "bfc/fig07": pl.col("panel").str.ends_with("-beside"),
    "bfc/fig07_tofino2": pl.col("panel").str.ends_with("-update"),
    "bfc/fig08": pl.col("series") == fig08.OTHER,
    "bfc/fig08_tofino2": pl.col("series") == fig08_tofino2.BESIDE,
    "bfc/table1": pl.col("series").is_in(["BFC, unpaused", "DCQCN, no window"]),
}
MICRO = [
    *("bfc/table1", "bfc/deadlock", "bfc/fig07", "bfc/fig07_tofino2", "bfc/fig08", "bfc/fig08_tofino2", "bfc/fig30"),
    *("hpcc/fig06", "hpcc/fig13", "hpcc/fig14"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Runs are shared by the tests of this file."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("id", MICRO)
def test_quick_claims_pass(id, tmp_path, cache, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    outcome = reproduce(id, out=tmp_path, console=Console(quiet=True))
    judged = [claim for claim in outcome.claims if claim.verdict != NOT_JUDGED]
    assert judged
    assert {claim.verdict for claim in judged} <= {PASS, DIFFERS}
    assert stale_differences(outcome.claims, "quick", EXPERIMENTS[id].differs) == []
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    data = outcome.data.drop("seed")
    changed = data.with_columns(y=pl.when(BESIDE.get(id, pl.lit(False))).then(3 * pl.col("y")).otherwise(pl.col("y")))
    assert changed.equals(data) == (id not in BESIDE)
    before, after = (EXPERIMENTS[id].claims(each, "quick") for each in (data, changed))
    paper = [{claim.id: (claim.ours, claim.ok) for claim in claims if claim.kind == FROM_PAPER} for claims in (before, after)]
    assert paper[0] == paper[1], "what is beside the paper's series must not change its claims"


@pytest.mark.parametrize("id", MICRO)
@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_specs_are_accepted(id, scale):
    for label, spec in EXPERIMENTS[id].specs(scale).items():
        checked = parse_spec(spec, name=label)
        assert parse_spec(checked.to_toml()) == checked
        checked.build_flows(checked.build_topology())


# -- the measures


def test_cross_traffic_offers_sixty_per_cent():
    flows, end_ps = table1.cross_traffic(1, 20.0)
    sizes = np.array([flow[2] for flow in flows])
    wire = sizes + table1.HEADER * np.ceil(sizes / table1.MTU)
    assert wire.sum() * table1.PS_PER_BYTE / end_ps == pytest.approx(0.6, rel=1e-6)
    assert {flow[0] for flow in flows} == {2 * i for i in range(1, table1.SENDERS)}
    assert np.mean(sizes) == pytest.approx(SizeDistribution.load("facebook_hadoop").mean(), rel=0.5)


def test_groups_have_the_paths_of_figure_6():
    spec = parse_spec(fig08._spec(20, 1))
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    at = topo.host_switches
    first, middle, last = (int(at[host]) for host in (0, 3, 1))
    for name, source, count in (("group1", first, 2), ("group2", first, 20), ("group3", last, 8)):
        chosen = flows.class_id == flows.classes.index(name)
        assert chosen.sum() == count and len(set(flows.src[chosen])) == count
        assert set(at[flows.src[chosen]]) == {source} and set(at[flows.dst[chosen]]) == {middle}
    receivers = [set(flows.dst[flows.class_id == flows.classes.index(name)]) for name in ("group1", "group2", "group3")]
    assert receivers[0] != receivers[1] == receivers[2] and all(len(each) == 1 for each in receivers)


@pytest.mark.parametrize("x", fig30.RATES)
def test_ratios_of_rates_are_exact(x):
    fast, slow = fig30.RATES[x]
    assert slow / fast == x
    assert ps_per_byte(8 * 10**12 // fast) == fast and ps_per_byte(8 * 10**12 // slow) == slow


def test_worst_cases_are_nearly_the_worst():
    for th, x in fig30.WORST.items():
        assert float(fig30.worst_case(th)) - float(fig30.inefficiency(x, th)) < 0.001


@pytest.mark.parametrize(
    "queue, expected",
    [
        ([0, 50, 20, 0, 0, 1, 0], 0),
        ([0, 50, 0, 9, 0, 6, 1, 4, 0], 2),
        ([0, 50, 9, 40, 0], 0),
        ([50, 0, 5, 5, 5], 1),
    ],
)
def test_swings(queue, expected):
    assert fig06.swings(np.array(queue, float)) == expected


def test_jain():
    assert fig14.jain(np.full(16, 5.0)) == pytest.approx(1)
    assert fig14.jain(np.array([1.0, 0, 0, 0])) == pytest.approx(0.25)
