"""No figure depends on the order of a join's rows, which polars leaves open: its points are the same if joins are reversed."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from penstock_papers import EXPERIMENTS
from penstock_papers.framework import measured, run_all

WITH_RUNS = [id for id, each in EXPERIMENTS.items() if each.specs]


@pytest.mark.parametrize("id", WITH_RUNS)
def test_points_are_the_same_if_joins_are_reversed(id, tmp_path, monkeypatch):
    runs = run_all(EXPERIMENTS[id], "quick", 1, tmp_path, 1, None)
    before, join = measured(EXPERIMENTS[id], runs, "quick"), pl.LazyFrame.join

    def reversed_join(left, other, *args, **more):
        found = join(left, other, *args, **more)
        return found if more.get("maintain_order", "none") != "none" else found.reverse()

    monkeypatch.setattr(pl.LazyFrame, "join", reversed_join)
    assert_frame_equal(before, measured(EXPERIMENTS[id], runs, "quick"), rel_tol=1e-9)
