"""Flows that have not finished count with their age: penstock_papers/ages.py, by hand and in every paper's statistics."""

import json

import polars as pl
import pytest

from penstock_papers import Runs, ages
from penstock_papers import cache as store
from penstock_papers.beyond import which_scheme
from penstock_papers.bfc import _fabric as bfc
from penstock_papers.bfc import _options
from penstock_papers.floodgate import _setup as floodgate
from penstock_papers.hpcc import _fabric as hpcc

# Ends at 100 us.  Finished in 20 us; arrived, not acknowledged; old; too young to have finished; never started.
FLOWS = {
    "src": [0, 1, 2, 3, 4],
    "dst": [5, 5, 5, 5, 5],
    "bytes": [1000, 1000, 1000, 1000, 1000],
    "class": ["poisson"] * 5,
    "start_ns": [0.0, 40_000.0, 20_000.0, 99_000.0, None],
    "finish_ns": [15_000.0, 99_500.0, None, None, None],
    "fct_ns": [15_000.0, 59_500.0, None, None, None],
    "acked_ns": [20_000.0, None, None, None, None],
    "ideal_fct_ns": [5000.0] * 5,
    "slowdown": [3.0, 11.9, None, None, None],
    "sender_slowdown": [2.0, None, None, None, None],
    "retransmitted_bytes": [0] * 5,
}


@pytest.fixture
def runs(tmp_path):
    pl.DataFrame(FLOWS).write_parquet(tmp_path / "flows.parquet")
    (tmp_path / "summary.json").write_text(json.dumps({"end_ns": 100_000.0, "flows_started": 4, "flows_finished": 2}))
    return Runs({"run": store.Entry("run", "", tmp_path, True, 0.0)})


def test_by_the_receiver_s_clock(runs):
    found = ages.counted(runs, "run", "receiver").collect()
    assert found["src"].to_list() == [0, 1, 2] and found["finished"].to_list() == [True, True, False]
    assert found["fct_ns"].to_list() == [15_000, 59_500, 80_000] and found["slowdown"].to_list() == [3, 11.9, 16]


def test_by_the_sender_s_clock(runs):
    """The ideal is 10 us: the finished flow took 20, twice as long, 5 of them for the path back."""
    found = ages.counted(runs, "run", "sender").collect()
    assert found["src"].to_list() == [0, 1, 2] and found["finished"].to_list() == [True, False, False]
    assert found["fct_ns"].to_list() == [20_000, 60_000, 80_000] and found["slowdown"].to_list() == [2, 6, 8]


def test_no_flow_has_finished(runs, tmp_path):
    none = {
        "finish_ns": [None] * 5,
        "fct_ns": [None] * 5,
        "acked_ns": [None] * 5,
        "slowdown": [None] * 5,
        "sender_slowdown": [None] * 5,
    }
    types = dict.fromkeys(none, pl.Float64)
    pl.DataFrame({**FLOWS, **none}, schema_overrides=types).write_parquet(tmp_path / "flows.parquet")
    for clock in ("receiver", "sender"):
        found = ages.counted(runs, "run", clock).collect()
        assert found["slowdown"].to_list() == [20, 12, 16] and found.select(ages.number_finished()).item() == 0


def test_every_paper_has_the_rule(runs):
    """The mean of the slowdowns or times of all flows that count."""
    assert bfc.counted(runs, "run").collect()["slowdown"].to_list() == [2, 6, 8]
    table = bfc._by_size(bfc.counted(runs, "run"), bfc.SIZES["google"])
    assert table["flows"].to_list() == [1] and table["avg"].to_list() == pytest.approx([16 / 3])
    assert _options.of_class(runs, "run", "poisson").collect()["slowdown"].to_list() == [2, 6, 8]
    assert hpcc.counted(runs, "run")["fct"].to_list() == [20, 60, 80]
    assert floodgate.flows(runs, "run")["fct"].to_list() == [15, 59.5, 80]


def test_the_map_of_schemes_has_the_rule(runs, tmp_path, monkeypatch):
    pl.DataFrame({"node": [9], "tier": [1], "max_buffer_bytes": [0]}).write_parquet(tmp_path / "nodes.parquet")
    pl.DataFrame({"tx_bytes": [10_000]}).write_parquet(tmp_path / "ports.parquet")
    (tmp_path / "summary.json").write_text(json.dumps({"end_ns": 100_000.0, "flows_started": 4, "flows_finished": 2, "drops": 0}))
    longer = {**FLOWS, "bytes": [10**7] * 5}
    pl.DataFrame({name: values * 5 for name, values in longer.items()}).write_parquet(tmp_path / "flows.parquet")
    assert which_scheme.measured(runs, "run", "mix")["mean"] == pytest.approx((3 + 11.9 + 16) / 3)
