"""beyond/faults: its phases, windows and counts by hand, and every step on a short run."""

import numpy as np
import polars as pl
import pytest
from steps import every_step

from penstock_net.hashing import choice
from penstock_papers.beyond import _faults as faults
from penstock_papers.claims import OURS
from penstock_papers.frames import value
from penstock_papers.registry import SCALES


def test_every_step_of_faults(monkeypatch, tmp_path):
    monkeypatch.setattr(faults, "MS", dict.fromkeys(SCALES, (0.6, 0.8, 1)))
    monkeypatch.setattr(faults, "WINDOW_US", dict.fromkeys(SCALES, 50))
    runs, data, claims = every_step("beyond/faults", tmp_path)
    assert len(runs) == 3 * len(faults.SCHEMES) and {claim.kind for claim in claims} == {OURS}
    assert "spine0 failed at 600us" in " ".join(runs.summary("spine-hpcc")["warnings"])
    assert value(data, panel="on the wire", series="HPCC", traffic=faults.OUTAGE) > 0
    assert value(data, panel="elsewhere", series="HPCC", traffic=faults.FLAP) == 0
    assert value(data, panel="changed", series="HPCC", traffic=faults.FLAP) == 0


def test_a_link_that_flaps_is_down_half_of_the_time_and_up_in_the_end():
    made = faults.changes(faults.FLAP, 1, 2)
    assert [change["up"] for change in made] == 10 * [False, True] and made[1]["time"] == "1050us"
    assert made[-1] == {"time": "1950us", "a": "tor0", "b": "spine0", "up": True}
    assert (faults.failures("quick"), faults.failures("paper")) == (10, 30)
    assert faults.changes(faults.CALM, 1, 2) == []


def test_phases_by_start_and_by_finish_without_the_fault():
    start = [0.1, 0.7, 0.8, 1.0, 1.9, 2.0]
    finish = [0.2, 0.9, 1.3, 1.1, 2.5, 2.2]
    flows = pl.DataFrame({"start_ns": start, "finish_ns": finish}) * 1e6
    expected = [None, faults.BEFORE, faults.IN_FLIGHT, faults.DURING, faults.DURING, faults.AFTER]
    assert faults.phase(flows, "quick").to_list() == expected


def test_settled_is_the_first_of_three_windows_in_a_row():
    starts = np.arange(0, 1, 0.1)
    ratio = np.array([9, 9, 1, 2, 1.25, 1, 1, 9, 1, 1])
    assert faults.settled(starts, ratio, 0.2) == pytest.approx(200)
    assert faults.settled(starts, ratio, 0.4) == 0
    assert faults.settled(starts, ratio, 0.5) == pytest.approx(400)  # to the end


def test_losses_count_where_the_fault_is():
    number = {"tor0": 2, "spine0": 4, "spine1": 5}
    rows = [(2, 4, "link down: 3, buffer full: 1"), (4, 2, "switch down: 5, link down: 2"), (2, 5, "link down: 7"), (5, 2, None)]
    ports = pl.DataFrame(rows, schema=["node", "peer", "drop_reason"], orient="row")
    assert list(faults.lost(ports, faults.OUTAGE, number).values()) == [5, 5, 8]
    assert list(faults.lost(ports, faults.FLAP, number).values()) == [5, 0, 13]
    assert list(faults.lost(ports, faults.CALM, number).values()) == [0, 0, 18]


def test_half_of_the_flows_keep_their_uplink_when_one_of_eight_goes():
    hashes = np.random.default_rng(1).integers(0, 2**31, 100_000).astype(np.int32)
    seeds = np.full(len(hashes), 7, np.int32)
    before, after = (choice(hashes, seeds, n) for n in (8, 7))
    assert np.mean(before == after + 1) == pytest.approx(0.5, abs=0.01)  # the first one has gone
    assert np.mean(before == after) == pytest.approx(0.5, abs=0.01)  # the last one has
