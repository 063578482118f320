"""Figures 17 to 19 and table 2 of BFC, and Homa beside its published slowdowns: on small fabrics and by hand."""

import numpy as np
import polars as pl
import pytest
from steps import every_step

import penstock_net as ps
from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, Runs, blind, frames, records
from penstock_papers import cache as store
from penstock_papers.beyond import homa
from penstock_papers.bfc import _fabric as fabric
from penstock_papers.bfc import _srf as srf
from penstock_papers.bfc import fig17, fig18, fig19, table2
from penstock_papers.registry import SCALES

SMALL = {"kind": "leaf_spine", "hosts": 32, "tors": 4, "spines": 4, "rate": "100Gbps", "delay": "1us", "buffer": "6MB"}
FEW = {"kind": "incast", "fan_in": 20, "total": "500KB", "every": "50us", "replace": True}
FIGURES = {"bfc/fig17": fig17, "bfc/fig18": fig18, "bfc/fig19": fig19, "bfc/table2": table2}


@pytest.fixture
def small(monkeypatch):
    """The experiments on 32 hosts for 0.1 ms, in a rack for 1 ms."""
    monkeypatch.setattr(fabric, "FABRIC", SMALL)
    monkeypatch.setattr(fabric, "INCAST", FEW)
    monkeypatch.setattr(fig17, "DURATION", dict.fromkeys(SCALES, dict.fromkeys(srf.WORKLOADS, "100us")))
    monkeypatch.setattr(fig18, "MS", dict.fromkeys(SCALES, dict.fromkeys(srf.WORKLOADS, 1)))
    for module in (fig19, table2):
        monkeypatch.setattr(module, "DURATION", dict.fromkeys(SCALES, "100us"))


@pytest.mark.parametrize("id", FIGURES)
def test_every_step_of_a_figure(id, small, tmp_path):
    runs, data, _ = every_step(id, tmp_path)
    for label in runs:
        said = runs.summary(label)
        assert said["drops"] == 0 and ("homa" not in label or said["retransmissions"] == 0), label
    if id != "bfc/table2":
        assert data.filter(pl.col("panel").is_in(["avg", "p99"]))["y"].drop_nulls().min() > 0.999
        assert set(data["traffic"]) == set(srf.WORKLOADS)


def test_homa_has_buffers_without_a_limit_and_the_others_12_mb():
    for id in FIGURES:
        for label, table in EXPERIMENTS[id].specs("paper").items():
            spec = parse_spec(table, name=label)
            homas = [scheme.name.startswith("homa") for scheme in spec.schemes]
            assert all(homas) if label.endswith(srf.UNBOUNDED) else not any(homas)
            assert spec.build_topology().buffer_bytes.max() == (0 if all(homas) else 12_000_000)


def test_flows_of_the_rack_have_the_load_of_the_receiver_s_link():
    made = [flow for seed in range(8) for flow in fig18.flows("google", 20, seed)]
    assert sum(size for _, _, size, _ in made) * 8 / (8 * 20e-3) == pytest.approx(60e9, rel=0.1)
    assert {to for _, to, _, _ in made} == {fig18.RECEIVER} and {src for src, *_ in made} == set(range(15))
    gaps = np.diff([int(start[:-2]) for *_, start in fig18.flows("google", 20, 1)])
    assert np.log(gaps[gaps > 0]).std() == pytest.approx(fig18.SIGMA, rel=0.05)


def of_run(tmp_path, run):
    run.save(tmp_path / "run")
    return Runs({"run": store.Entry("run", "", tmp_path / "run", True, 0.0)})


def test_delays_are_those_of_scheduled_packets_in_the_core(tmp_path, monkeypatch):
    """Two flows of three packets from two racks to a host of a third: they meet behind the spine, each packet waits once."""
    monkeypatch.setattr(table2, "BDP", 2000)
    topo = ps.leaf_spine(hosts=6, tors=3, spines=1)
    flows = ps.flow_list(topo, [(0, 4, 3000, "0s"), (2, 5, 3000, "0s")])
    run = ps.simulate(topo, flows, scheme="fifo", measure=ps.Measure(packets=True))
    found = table2.delays(of_run(tmp_path, run), "run").sort("link", "us")
    packet_us = 1048 * 8 / 100e3  # the third of one flow waits for three packets of the other, and then two of its own have gone
    assert found["link"].to_list() == ["Agg-ToR", "Agg-ToR", "ToR-Agg", "ToR-Agg"]
    assert found["us"].to_list() == pytest.approx([2 * packet_us, 3 * packet_us, 0, 0])


def test_cutoffs_share_the_bytes_on_the_wire_and_levels_follow_the_blind_bytes():
    for sizes, levels in (("homa_w1", 7), ("homa_w3", 4)):
        cutoffs = blind.cutoffs(sizes, levels, 9328, 1442, 58)
        messages = blind._messages(sizes)
        shares = np.zeros(levels)
        for size in messages[4::10]:
            left = size - np.arange(0, size, 1442)
            left = left[(size - left < 10_094) | (left <= 9328)]
            np.add.at(shares, np.searchsorted(cutoffs, left), np.minimum(left, 1442) + 58)
        assert shares / shares.sum() == pytest.approx(np.full(levels, 1 / levels), abs=0.03)
    assert (blind.levels("homa_w1", 8, 9328), blind.levels("homa_w5", 8, 9328)) == (7, 1)


def test_published_bins_have_their_deciles():
    bins = homa.published(homa.HOMA, "homa_w1")
    assert bins["percent"].sum() == pytest.approx(100, abs=0.01) and bins["bytes"].is_sorted()
    assert bins.filter(pl.col("bytes") <= 2)["decile"].to_list() == [1, 1]  # 0.6 % and 17.8 %, whose middle is at 9.5 %
    assert set(homa.published(homa.OTHERS[3], "homa_w5")["decile"]) == set(range(1, 11))
    assert not len(homa.published(homa.OTHERS[3], "homa_w1"))


def test_the_claims_name_the_published_means_of_the_record():
    """Which bins have too few messages depends on the runs."""
    for data in records.points(records.RECORDS, "beyond/homa", records.of(records.RECORDS, "beyond/homa", "paper")).values():
        for sizes, deciles in homa.DECILES.items():
            theirs = frames.chosen(data, panel=sizes, series=homa.HOMA.legend + homa.PUBLISHED)
            assert {int(x): float(f"{y:.3g}") for x, y in theirs.select("x", "y").iter_rows()} == deciles


def test_deciles_are_means_over_bins_with_messages_enough():
    theirs = pl.DataFrame({"bytes": [10, 20, 30], "percent": [1.0, 3.0, 96.0], "p99": [2.0, 6.0, 9.0], "decile": [1, 1, 2]})
    messages = pl.DataFrame({"bytes": [5, 10, 11, 20, 30], "slowdown": [4.0, 4.0, 8.0, 8.0, 1.0], "sample": 0})
    found = homa.deciles(theirs, messages, 2)
    assert found.select("ours", "theirs").rows()[0] == (7.0, 5.0)
    assert found["decile"].to_list() == [1, 2] and found["ours"].is_nan().to_list() == [False, True]


def test_a_bin_s_percentile_is_the_mean_of_its_samples_by_messages():
    """Receivers with three messages and one: the largest of each, three times and once."""
    theirs = pl.DataFrame({"bytes": [10], "percent": [100.0], "p99": [2.0], "decile": [1]})
    messages = pl.DataFrame({"bytes": 10, "slowdown": [1.0, 2.0, 3.0, 7.0], "sample": [0, 0, 0, 1]})
    assert homa.deciles(theirs, messages, 4)["ours"].to_list() == [4.0]
    assert homa.deciles(theirs, messages.with_columns(sample=0), 4)["ours"].to_list() == [7.0]


def test_as_many_receivers_make_a_sample_as_have_the_messages_of_a_published_one():
    assert [homa.samples_of("paper", sizes) for sizes in homa.MTU] == [1, 2, 144]
    assert [homa.samples_of("quick", sizes) for sizes in homa.MTU] == [1, 1, 2]


def test_the_published_percentiles_of_w5_are_those_of_samples():
    """Between 30 and 77 KB 1.27 % of the messages have a bin, or 0.64 %, in no order: half the messages, a lower largest one."""
    bins = homa.published(homa.HOMA, "homa_w5").filter(pl.col("bytes").is_between(29_000, 77_000))
    few, many = (bins.filter(pl.col("percent").is_between(*ends)) for ends in ((0.5, 0.8), (1.2, 1.5)))
    assert len(few) + len(many) == len(bins) == 22
    assert few["p99"].mean() < 0.96 * many["p99"].mean()
    assert few["bytes"].mean() > 0.9 * many["bytes"].mean()


def test_the_least_time_is_that_of_homa_s_simulator():
    """1 B: a frame of 84 B over links of 10, 40, 40 and 10 Gbit/s; 1500 B: 1538 and 94 B; in a rack without the switch."""
    table = pl.DataFrame({"bytes": [1, 1, 1500], "same": [False, True, False]})
    found = table.select(homa.least_ns(pl.col("bytes"), pl.col("same"))).to_series().to_list()
    small, large = 84 * 8 / 10, 1538 * 8 / 10
    assert found == pytest.approx([2250 + 2.5 * small, 1500 + 2 * small, 2250 + 2.5 * large + 94 * 8 / 10])


def test_every_step_of_homa_beside_its_slowdowns(monkeypatch, tmp_path):
    monkeypatch.setattr(homa, "FABRIC", {**homa.FABRIC, "hosts": 36})
    monkeypatch.setattr(homa, "DURATION", {scale: dict(zip(homa.MTU, ("40us", "300us", "5ms"))) for scale in SCALES})
    monkeypatch.setattr(homa, "FEWEST", dict.fromkeys(SCALES, 5))
    runs, _, claims = every_step("beyond/homa", tmp_path)
    assert len(claims) == 9 + 10 + 10
    for sizes in homa.MTU:
        assert runs.summary(sizes)["retransmissions"] == runs.summary(sizes)["drops"] == 0
