"""The experiments that need no packet simulator, or one for a moment: laws of their models, claims at scale quick."""

import json
import math
from contextlib import nullcontext
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock_net.errors import ClaimFailed
from penstock_net.workload.distributions import SizeDistribution
from penstock_papers import EXPERIMENTS, fluid, frames, reproduce
from penstock_papers.bfc import fig02, fig03, fig30
from penstock_papers.claims import DIFFERS, FAIL, FROM_PAPER, NOT_JUDGED, PASS, stale_differences
from penstock_papers.floodgate import fig07
from penstock_papers.hpcc import a1, a2, fig05

ANALYTIC = ("bfc/fig02", "bfc/fig03", "bfc/fig04", "bfc/fig30", "floodgate/fig07", "hpcc/fig05", "hpcc/a1", "hpcc/a2")
FLOWS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=25)
FAIL_HERE = {"hpcc/a2": ["steps", "pareto"]}  # docs/differences.md says why


@pytest.mark.parametrize("id", ANALYTIC)
def test_quick_claims_pass(id, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ClaimFailed) if id in FAIL_HERE else nullcontext():
        reproduce(id, out=tmp_path, console=Console(quiet=True))
    claims = [SimpleNamespace(**claim) for claim in json.loads((tmp_path / "claims.json").read_text())]
    judged = [claim for claim in claims if claim.verdict != NOT_JUDGED]
    assert judged
    assert {claim.verdict for claim in judged} <= {PASS, DIFFERS, FAIL}
    assert [claim.id for claim in judged if claim.verdict == FAIL] == FAIL_HERE.get(id, [])
    assert stale_differences(claims, "quick", EXPERIMENTS[id].differs) == []
    assert (tmp_path / "figure.png").stat().st_size > 10_000


# -- one link


def slowly(discipline, arrivals, sizes, permanent=0):
    """Departures by following every flow from event to event in exact arithmetic."""
    left, departures, now = {}, {}, Fraction(0)
    waiting = list(enumerate(zip(arrivals, sizes)))
    while left or waiting:
        if discipline == "FQ":
            served = {flow: Fraction(1, len(left) + permanent) for flow in left}
        else:
            first = min(left, key=lambda flow: (left[flow], flow) if discipline == "SRF" else flow, default=None)
            served = {} if first is None else {first: Fraction(1)}
        done = min(((now + left[flow] / rate, flow) for flow, rate in served.items()), default=(math.inf, None))
        until = min(done[0], waiting[0][1][0] if waiting else math.inf)
        for flow, rate in served.items():
            left[flow] -= (until - now) * rate
        now = until
        for flow in [flow for flow in served if left[flow] == 0]:
            departures[flow] = now
            del left[flow]
        while waiting and waiting[0][1][0] == now:
            flow, (_, size) = waiting.pop(0)
            left[flow] = Fraction(size)
    return [float(departures[flow]) for flow in range(len(sizes))]


@examples(150)
@given(FLOWS, st.sampled_from(["FQ", "SRF", "FIFO"]))
def test_departures_are_those_of_a_slow_and_exact_link(flows, discipline):
    arrivals = np.cumsum([gap for gap, _ in flows]).astype(float)
    sizes = np.array([size for _, size in flows], float)
    ours = fluid.DISCIPLINES[discipline](arrivals, sizes)
    slow = slowly(discipline, [Fraction(int(a)) for a in arrivals], [int(s) for s in sizes])
    if discipline == "SRF":  # flows with equal work left may change places
        ours, slow = np.sort(ours), np.sort(slow)
    assert ours == pytest.approx(slow)


@examples(60)
@given(FLOWS, st.integers(1, 3))
def test_flows_that_never_end_take_their_share(flows, permanent):
    arrivals = np.cumsum([gap for gap, _ in flows]).astype(float)
    sizes = np.array([size for _, size in flows], float)
    ours = fluid.fair_queueing(arrivals, sizes, permanent)
    slow = slowly("FQ", [Fraction(int(a)) for a in arrivals], [int(s) for s in sizes], permanent)
    assert ours == pytest.approx(slow)


@examples(60)
@given(FLOWS)
def test_no_discipline_loses_work(flows):
    """The link is work-conserving: the last departure of every busy period is the same under all three."""
    arrivals = np.cumsum([gap for gap, _ in flows]).astype(float)
    sizes = np.array([size for _, size in flows], float)
    ends = {name: discipline(arrivals, sizes).max() for name, discipline in fluid.DISCIPLINES.items()}
    assert ends["FQ"] == pytest.approx(ends["FIFO"]) and ends["SRF"] == pytest.approx(ends["FIFO"])


def test_occupancy_is_weighted_by_time():
    arrivals, departures = np.array([1.0, 2.0, 6.0]), np.array([4.0, 5.0, 8.0])
    weights = fluid.occupancy(*fluid.population(arrivals, departures), 0.0, 10.0)
    assert weights == pytest.approx([0.4, 0.4, 0.2])
    assert fluid.mean(weights) == pytest.approx(0.8)
    assert fluid.above(weights, 1) == pytest.approx(0.2) and fluid.quantile(weights, 0.5) == 1
    inside = fluid.occupancy(*fluid.population(arrivals, departures), 3.0, 7.0)
    assert inside == pytest.approx([0.25, 0.5, 0.25])


@pytest.mark.parametrize("sizes", ["exponential", "constant", "pareto"])
def test_processor_sharing_is_geometric_whatever_the_sizes(sizes):
    """M/G/1-PS: P(n) = (1 - rho) rho^n (BFC, section 2.3, and its [37, 39])."""
    rng, n, load = np.random.default_rng(7), 400_000, 0.7
    draw = {"exponential": lambda: rng.exponential(1, n), "constant": lambda: np.ones(n), "pareto": lambda: rng.pareto(2.5, n)}
    work = draw[sizes]()
    arrivals = fluid.offered(fluid.lognormal_gaps(rng, n, 0), work, load)
    weights = fluid.occupancy(*fluid.population(arrivals, fluid.fair_queueing(arrivals, work)), 0, arrivals[-1])
    expected = (1 - load) * load ** np.arange(len(weights))
    assert fluid.mean(weights) == pytest.approx(load / (1 - load), rel=0.05)
    assert weights == pytest.approx(expected, abs=0.01)


def test_processor_sharing_with_a_permanent_flow_is_negative_binomial():
    """One flow that never ends: the others number 2 rho / (1 - rho) on average, which is figure 3's N - 1."""
    rng, n, load = np.random.default_rng(8), 400_000, 0.6
    work = rng.exponential(1, n)
    arrivals = fluid.offered(fluid.lognormal_gaps(rng, n, 0), work, load)
    departures = fluid.fair_queueing(arrivals, work, permanent=1)
    weights = fluid.occupancy(*fluid.population(arrivals, departures), 0, arrivals[-1])
    expected = (1 - load) ** 2 * (np.arange(len(weights)) + 1) * load ** np.arange(len(weights))
    assert fluid.mean(weights) == pytest.approx(2 * load / (1 - load), rel=0.05)
    assert weights == pytest.approx(expected, abs=0.01)


def test_lognormal_gaps_have_mean_one_and_the_variance_of_their_sigma():
    gaps = fluid.lognormal_gaps(np.random.default_rng(1), 2_000_000, 0.5)
    assert gaps.mean() == pytest.approx(1, rel=0.01)
    assert gaps.var() == pytest.approx(math.exp(0.25) - 1, rel=0.03)
    assert np.log(fluid.lognormal_gaps(np.random.default_rng(1), 100_000, 2.0)).std() == pytest.approx(2, rel=0.01)


def test_the_offered_load_is_exact():
    rng = np.random.default_rng(1)
    work, gaps = rng.pareto(1.5, 1000), fluid.lognormal_gaps(rng, 1000, 2.0)
    assert work.sum() / fluid.offered(gaps, work, 0.9)[-1] == pytest.approx(0.9)


# -- BFC


def test_change_of_fair_share_by_hand():
    """N is 2 for 10 us, then 4: f falls by half if the interval spans the step, and rises by 100 % the other way."""
    times, flows = np.array([0.0, 10.0, 20.0]), np.array([2, 4, 2])
    assert fig03.mean_change(times, flows, np.array([5.0]), 10.0) == 0.5
    assert fig03.mean_change(times, flows, np.array([15.0]), 10.0) == 1.0
    assert fig03.mean_change(times, flows, np.array([1.0, 5.0]), 1.0) == 0.0


def test_bdp_marks_of_figure_2():
    assert [fig02.bdp_bytes(gbps) for gbps in (10, 40, 100)] == [15_000, 60_000, 150_000]


@given(st.floats(1.001, 50), st.floats(0.01, 20))
def test_inefficiency_is_the_third_phase_s_share(x, th):
    """Equation 4 from equations 1 to 3, and equation 5 above all of it."""
    phases = fig30.cycle(x, th)
    assert float(fig30.inefficiency(x, th)) == pytest.approx(phases[2] / sum(phases))
    assert float(fig30.inefficiency(x, th)) <= float(fig30.worst_case(th)) * (1 + 1e-9)
    assert float(fig30.inefficiency(fig30.worst_ratio(th), th)) == pytest.approx(float(fig30.worst_case(th)))


# -- Floodgate


def test_fewest_flows_with_half_of_the_bytes():
    """By hand: half of 1, 1 and 2 bytes is one flow of three; with three of 4 bytes half are one and a half flows."""
    assert fig07.fewest(SizeDistribution("two", [1, 2], [2 / 3, 1], interpolate=False)) == pytest.approx(1 / 3)
    assert fig07.fewest(SizeDistribution("one", [4], [1])) == pytest.approx(0.5)
    assert fig07.fewest(SizeDistribution("part", [1, 4], [0.5, 1], interpolate=False)) == pytest.approx(0.5 * 2.5 / 4)


def test_exponential_sizes_have_half_of_their_bytes_in_the_share_of_figure_7():
    share = np.linspace(0, 1, 100_001)
    sizes = np.round(-1e6 * np.log1p(-share[:-1])).astype(int)
    exponential = SizeDistribution("exponential", [*sizes, 20_000_000], share)
    assert fig07.fewest(exponential) == pytest.approx(fig07.EXPONENTIAL, abs=5e-4)


# -- HPCC


def test_overreaction_window_by_window():
    assert fig05.windows(fig05.PER_ACK, [2.0, 2.0, 2.0]) == [1, 0.5, 0.25, 0.125]
    assert fig05.windows(fig05.REFERENCE, [2.0, 2.0, 2.0]) == [1, 0.5, 0.5, 0.5]


def test_overreaction_is_judged_by_the_run():
    def data(per_ack, reference, two_acks=0.25):
        ends = {fig05.PER_ACK: [1, two_acks, per_ack], fig05.REFERENCE: [1, 1, reference]}
        run = [frames.rows("run", strategy, [0, 2, 50], y) for strategy, y in ends.items()]
        hand = [frames.rows("by hand", strategy, range(4), fig05.windows(strategy, [2.0] * 3)) for strategy in ends]
        return pl.concat([*run, *hand])

    def failed(data):
        claims = EXPERIMENTS["hpcc/fig05"].claims(data, "paper")
        assert {claim.id for claim in claims if claim.kind == FROM_PAPER} == {"order", "reference", "per-ack"}
        return {claim.id for claim in claims if not claim.ok}

    assert failed(data(0.02, 0.5)) == set()
    assert failed(data(0.5, 0.5)) == {"order", "per-ack-window"}
    assert failed(data(0.02, 0.5, two_acks=0.97)) == {"per-ack"}
    assert failed(data(0.02, 1.0)) == {"reference"}


def test_work_of_periodic_sources_by_hand():
    """Two packets at 0 and 0.5 in a period of 4: work 1, then 1.5, empty at 2."""
    work, gaps = a1.work_at_arrivals(np.array([[0.0, 0.5]]), 4.0)
    assert work.tolist() == [[1.0, 1.5]] and gaps.tolist() == [[0.5, 3.5]]
    assert a1.mean_work(work, gaps, 4.0) == pytest.approx((0.375 + 1.125) / 4)
    assert a1.tail_of_work(work, gaps, 4.0, np.array([0.0, 1.0])) == pytest.approx([0.5, 0.125])


def test_work_of_periodic_sources_at_full_load_repeats():
    """Two packets at 3.5 and 3.7 in a period of 2 packets' time: the second one is always late by 0.8."""
    work, _ = a1.work_at_arrivals(np.array([[1.5, 1.7]]), 2.0)
    assert work[0].tolist() == pytest.approx([1.0, 1.8])


@pytest.mark.parametrize("n", [5, 20, 50])
@pytest.mark.parametrize("load", [0.5, 0.95, 1.0])
def test_exact_tail_of_periodic_sources(n, load):
    """At x = 0 it is the load; at every x it is what is simulated."""
    assert load == 1 or a1.exact_tail(0, n, load) == pytest.approx(load)
    _, _, tail = a1.simulate(np.random.default_rng(n), 20_000, n, load)
    for x in (1, 2, 3):
        assert tail[x] == pytest.approx(a1.exact_tail(x, n, load), abs=0.01)


def test_bridge_mean_is_the_integral_of_its_tail():
    x = np.linspace(0, 200, 2_000_001)
    for n, load in ((50, 0.95), (50, 1.0), (200, 0.9)):
        assert a1.bridge_mean(n, load) == pytest.approx(np.trapezoid(a1.bridge_tail(x, n, load), x), rel=1e-6)


def test_the_lemma_fails_for_equation_6_in_exact_arithmetic():
    """Two resources, two paths: the second path's rate still grows at step 3 = I + 1."""
    capacity, rates, seen = (Fraction(1), Fraction(10)), (Fraction(1), Fraction(1)), []
    for _ in range(4):
        load = (rates[0] / capacity[0], (rates[0] + rates[1]) / capacity[1])
        rates = (rates[0] / max(load), rates[1] / load[1])
        seen.append(rates)
    assert [r[1] for r in seen] == [5, Fraction(25, 3), Fraction(125, 14), Fraction(1250, 139)]
    assert seen[1] != seen[2] and all(r[0] == 1 for r in seen)


@examples(60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 20))
def test_parts_of_the_lemma_that_hold(seed, resources, paths):
    case = a2.random_networks(np.random.default_rng(seed), 20, resources, paths)
    assert case[0].any(axis=1).all()
    for printed in (True, False):
        found = a2.check(*case[:2], a2.trajectory(*case, printed, resources + 2))
        assert (found["load"] <= 1 + 1e-9).all() and (found["fall"] <= 1e-9).all()
    assert (found["steps"] <= resources).all()
    assert (found["filled"][resources - 1] >= 1 - 1e-9).all()
