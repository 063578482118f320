"""Figures 12 to 15 of Floodgate and its deadlock: every step at scale quick, specs, and claims on made-up numbers."""

import json

import numpy as np
import polars as pl
import pytest

from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, framework, sentences
from penstock_papers.claims import FAIL, FROM_PAPER, judge, stale_differences
from penstock_papers.floodgate import deadlock, fig12, fig13, fig14, fig15
from penstock_papers.floodgate._setup import WORKLOADS, rows
from penstock_papers.registry import SCALES

IDS = [f"floodgate/{name}" for name in ("fig12", "fig13", "fig14", "fig15", "deadlock")]
FLOODGATE = "DCQCN+Floodgate"


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("scale", SCALES)
def test_specs_are_accepted(id, scale):
    for label, table in EXPERIMENTS[id].specs(scale).items():
        checked = parse_spec(table, name=label)
        checked.build_topology()
        assert parse_spec(checked.to_toml()) == checked


@pytest.mark.parametrize("id", ["floodgate/fig12", "floodgate/fig14", "floodgate/deadlock"])
def test_every_step_of_a_figure(id, tmp_path, monkeypatch):
    monkeypatch.setattr(fig14, "TORS", {"quick": (5, 10, 20)})
    monkeypatch.setattr(fig12, "LAST_MS", {"quick": 1})
    monkeypatch.setattr(deadlock, "END_MS", 4)
    experiment = EXPERIMENTS[id]
    runs = framework.run_all(experiment, "quick", 1, tmp_path / "runs", 1, None)
    data = framework.measured(experiment, runs, "quick")
    claims = judge(experiment.claims(data, "quick"), "quick", experiment.differs)
    assert not [claim for claim in claims if claim.verdict == FAIL]
    assert stale_differences(claims, "quick", experiment.differs) == []
    ids = [claim.id for claim in claims]
    assert len(set(ids)) == len(ids) and set(experiment.differs) <= set(ids)
    json.dumps([claim.record() for claim in claims], allow_nan=False)
    for panel in experiment.draw(data).axes:
        assert panel.get_ylabel() and panel.get_lines()


def failed(module, data, scale="paper"):
    """Ids of the claims that do not hold; every DIFFERS is about a claim that there is."""
    claims = sentences.claims(module.CLAIMS, module.numbers(data, scale), scale)
    assert set(module.DIFFERS) <= {claim.id for claim in claims}
    return {claim.id for claim in claims if not claim.ok}


def curves(**panels):
    """rows() of {panel: {series: {x: y}}}."""
    return pl.concat(
        rows(panel.replace("_", " "), series, list(line), list(line.values()))
        for panel, of in panels.items()
        for series, line in of.items()
    )


# -- figure 12


def losses(of_10=95.0, unfinished=0.0):
    times = np.arange(1, 161) / 10
    frames = []
    for name, rate in (("no loss", 96.0), ("5 % loss", 95.5), ("10 % loss", of_10)):
        frames += [rows(panel, name, times, np.full(160, rate)) for panel in fig12.PANELS]
        frames += [rows("lost", name, [0], [10]), rows("unfinished", name, [0], [unfinished])]
    return pl.concat(frames)


def test_a_window_that_stays_narrow_or_a_flow_that_never_ends_is_noticed():
    assert not failed(fig12, losses())
    assert failed(fig12, losses(of_10=79)) == {"mean-10-last-link", "mean-10-from-cores"}
    assert failed(fig12, losses(of_10=20)) == {
        f"{what}-10-{panel}" for what in ("mean", "least") for panel in ("last-link", "from-cores")
    }
    assert failed(fig12, losses(unfinished=1)) == {"stuck"}


def test_the_first_incast_is_left_out():
    assert len(fig12.settled(losses(), "no loss")) == 157


# -- figure 13


def trees(gain=2.0, of_memcached=5.0, buffer=1.0, reduction=1.1):
    """`reduction`: of the average on the leaf-spine network over that on the fat tree."""
    frames = []
    for workload in WORKLOADS:
        faster = of_memcached if workload == "memcached" else gain
        two_tiers = 1 / (1 - reduction * (1 - 1 / faster))
        for panel, better in (("average", faster), ("99th percentile", faster), ("leaf-spine average", two_tiers)):
            frames += [rows(panel, "DCQCN", [0], [100.0], workload), rows(panel, FLOODGATE, [0], [100 / better], workload)]
        frames += [
            rows("buffer", "DCQCN", range(5), [0, 0, 2, 6, 18], workload),
            rows("buffer", FLOODGATE, range(5), [1, 1, 1, buffer, 0.5], workload),
        ]
    return pl.concat(frames)


def test_gains_of_the_fat_tree():
    assert not failed(fig13, trees())
    assert failed(fig13, trees(gain=1.1)) == {"average-least", "tail-least"}  # the mean is (5 x 1.1^3)^(1/4) = 1.61
    assert failed(fig13, trees(gain=1.1, of_memcached=2)) == {
        f"{what}{end}" for what in ("average", "tail") for end in ("", "-least")
    }
    assert failed(fig13, trees(reduction=1.24)) == set() and fig13.reduction(5.0) == pytest.approx(0.8)
    assert failed(fig13, trees(of_memcached=2.6, reduction=1.5)) == {f"smaller-{w}" for w in WORKLOADS}
    assert failed(fig13, trees(reduction=0.8)) == {f"smaller-{w}" for w in WORKLOADS}
    assert failed(fig13, trees(of_memcached=1.5)) == {"memcached-gain", "memcached"}
    assert failed(fig13, trees(buffer=7)) == {"buffer-agg-down"}


# -- figure 14


def tors(core=1.0, pfc_from=20, top=17.0):
    numbers = fig14.TORS["paper"]
    flat = dict.fromkeys(numbers, 2.0)
    return curves(
        **{
            "ToR-Up": {"DCQCN": flat, FLOODGATE: flat},
            "Core": {"DCQCN": flat, FLOODGATE: {n: 1 + (core - 1) * n / 40 for n in numbers}},
            "ToR-Down": {"DCQCN": {n: min(0.8 * n, top) for n in numbers}, FLOODGATE: flat},
            "pfc": {"DCQCN": {n: 100.0 * (n >= pfc_from) for n in numbers}, FLOODGATE: dict.fromkeys(numbers, 0.0)},
        }
    )


def test_buffers_by_the_number_of_tors():
    assert not failed(fig14, tors())
    assert failed(fig14, tors(core=12)) == {"floodgate-core"}
    assert failed(fig14, tors(pfc_from=25)) == failed(fig14, tors(pfc_from=15)) == {"dcqcn-pfc"}
    assert failed(fig14, tors(top=30)) == {"dcqcn-maximum"}


def test_all_hosts_but_one_send_to_it_at_once():
    checked = parse_spec(fig14.spec(20))
    flows = checked.build_flows(checked.build_topology())
    assert sorted(flows.src) == list(range(1, 320)) and set(flows.dst) == {0}
    assert flows.start_ps.max() <= 99_000 and set(flows.bytes // 1460) == set(range(30, 41))


# -- figure 15


def incasts(storm=16, up=1.0, pause=0.3, core=1.0):
    dcqcn, flood, paused = fig15.LEGENDS.values()
    numbers = fig15.TIMES["paper"]
    flat = dict.fromkeys(numbers, 1.0)
    one = curves(
        **{
            "ToR-Up": {
                dcqcn: {n: 0.3 + max(0, n - storm) for n in numbers},
                flood: {n: 0.2 * n**up for n in numbers},
                paused: {n: pause for n in numbers},
            },
            "Core": {dcqcn: flat, flood: {n: 1 + (core - 1) * n / 24 for n in numbers}, paused: flat},
            "ToR-Down": {dcqcn: dict.fromkeys(numbers, 16.0), flood: flat, paused: flat},
            "switch_Core": {dcqcn: dict.fromkeys(numbers, 18.0), flood: flat, paused: flat},
            "pfc_ToR": {dcqcn: {n: 5.0 * (n >= storm) for n in numbers}, flood: flat, paused: flat},
        }
    ).drop("traffic")
    return pl.concat(one.with_columns(pl.lit(str(fan_in)).alias("traffic")) for fan_in in fig15.FAN_INS)


def failed_of(data):
    """Ids of the claims of either number of flows that do not hold: the two have the same data here."""
    found = failed(fig15, data)
    of_320 = {id.removeprefix("320-") for id in found if id.startswith("320-")}
    assert of_320 == {id for id in found if not id.startswith("320-")}
    return of_320


def test_buffers_by_the_number_of_incasts():
    assert not failed_of(incasts())
    assert failed_of(incasts(core=3)) == {"floodgate-core"}
    assert failed_of(incasts(up=0.2)) == {"floodgate-tor-up", "floodgate-proportional", "pause", "pause-everywhere"}
    assert failed_of(incasts(pause=2)) == {"pause", "pause-everywhere"}
    assert failed_of(incasts(storm=4)) == {"dcqcn-storm"}
    assert failed_of(incasts(storm=25)) == {"dcqcn-storm", "dcqcn-tor-up"}
    assert {row.id.startswith("320-") for row in fig15.CLAIMS if row.kind == FROM_PAPER} == {False}


def test_an_incast_goes_to_the_next_rack():
    for fan_in in fig15.FAN_INS:
        checked = parse_spec(fig15.specs("paper")[f"24 x {fan_in}"])
        flows = checked.build_flows(checked.build_topology())
        order = flows.dst[np.argsort(flows.start_ps, kind="stable")].reshape(24, fan_in)
        assert (order == order[:, :1]).all()
        assert list(order[:, 0]) == [*range(0, 160, 16), *range(1, 160, 16), 2, 18, 34, 50]


def test_all_other_hosts_send_once_to_each_receiver():
    checked = parse_spec(fig15.specs("paper")["2 x 159"])
    flows = checked.build_flows(checked.build_topology())
    assert sorted(flows.src[flows.dst == 0]) == list(range(1, 160))


# -- the deadlock


def pods(mixed=2560.0, apart=0.0, last=0.14):
    frames = []
    for name, left, used in zip(deadlock.SCHEMES, (mixed, apart, 0.0), (4, 4, 16)):
        frames += [
            rows("unfinished", name, [0], [left]),
            rows("last", name, [0], [last]),
            rows("voqs", name, [0], [used]),
        ]
    return pl.concat(frames)


def test_a_deadlock_is_one_that_lasts():
    assert not failed(deadlock, pods())
    assert failed(deadlock, pods(mixed=0)) == {"mixed"}
    assert failed(deadlock, pods(apart=1)) == {"apart"}
    assert failed(deadlock, pods(last=99)) == {"mixed-stops"}


def test_receivers_are_half_of_each_rack():
    topo = parse_spec(deadlock.specs("paper")["pods"]).build_topology()
    racks = topo.host_switches[deadlock.RECEIVERS]
    assert np.unique(racks, return_counts=True)[1].tolist() == [4, 4, 4, 4]
