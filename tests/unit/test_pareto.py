"""The Pareto front of a sweep, paired by seed, and which of its differences are real."""

import csv
import io
import itertools
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.results.intervals import log_interval, t_quantile
from penstock_net.results.pareto import compare, dominates, front_of
from penstock_net.results.sweep import Sweep

SEEDS = range(1, 7)
# What traffic of a seed does to all points alike, by far more than they differ.
TRAFFIC = [1.0, 3.0, 0.4, 7.0, 1.7, 0.2]


def swept(points, folder="."):
    """A sweep with a row per point and seed: {name: {statistic: value, or values by seed}}."""
    rows = []
    for name, statistics in points.items():
        for i, seed in enumerate(SEEDS):
            values = {key: value[i] if isinstance(value, (list, tuple)) else value for key, value in statistics.items()}
            rows.append({"ecn.k": name, **values, "scheme": "dcqcn", "seed": seed, "key": f"{name}{seed}"})
    return Sweep(folder, pl.DataFrame(rows, strict=False), ("ecn.k",))


def times(factor, noise=()):
    return [factor * t * n for t, n in zip(TRAFFIC, noise or [1.0] * len(TRAFFIC))]


NOISE = [1.01, 0.99, 1.02, 0.98, 1.0, 1.005]
WILD = [3.0, 0.2, 1.5, 0.3, 2.0, 0.6]


def states(front):
    return dict(zip(front.points["ecn.k"], front.points["front"]))


def test_front_beaten_and_open():
    sweep = swept(
        {
            "a": {"short_p99": times(1), "long_p99": times(2, NOISE)},
            "b": {"short_p99": times(2, NOISE), "long_p99": times(1)},
            "worse": {"short_p99": times(1.5, NOISE), "long_p99": times(3)},  # than a, by 50 % whatever the seed
            "unclear": {"short_p99": times(2, WILD), "long_p99": times(2, NOISE)},  # than a, in the mean
        }
    )
    front = sweep.pareto("short_p99", "long_p99")
    assert states(front) == {"a": "front", "b": "front", "worse": "beaten", "unclear": "open"}
    rows = {row["ecn.k"]: row for row in front.points.iter_rows(named=True)}
    assert rows["worse"]["by"] == "a" and rows["worse"]["in_what"] == ["short_p99", "long_p99"]
    assert rows["unclear"]["by"] == "a" and rows["unclear"]["in_what"] == []
    assert rows["a"]["by"] is None


def test_pairs_are_by_seed():
    """Traffic differs between seeds by far more than points do: a comparison of means would see nothing."""
    front = swept({"a": {"x_slowdown": times(1)}, "b": {"x_slowdown": times(1.05, NOISE)}}).pareto("x_slowdown")
    found = front.difference("b", "a", "x_slowdown")
    logs = np.log([1.05 * n for n in NOISE])
    assert found.real == 1 and found.seeds == 6
    assert found.ratio == pytest.approx(math.exp(logs.mean()))
    assert 1 < found.low < found.ratio < found.high < 1.1
    back = front.difference("a", "b", "x_slowdown")
    assert back.real == -1 and back.low == pytest.approx(1 / found.high) and back.ratio == pytest.approx(1 / found.ratio)
    mean, low, high = sweep_interval(front, "a")
    assert low < mean * 1.05 < high  # the means' own intervals overlap


def sweep_interval(front, name):
    i = front.names.index(name)
    values = times(1)
    half = t_quantile(5) * np.std(values, ddof=1) / math.sqrt(6)
    return front.points["x_slowdown"][i], np.mean(values) - half, np.mean(values) + half


def test_seeds_that_one_point_has_not():
    first, second = {1: 2.0, 2: 4.0, 3: 8.0, 4: None}, {1: 1.0, 2: 2.1, 3: 3.9, 5: 100.0}
    found = compare(first, second)
    assert found.seeds == 3 and found.real == 1 and found.ratio == pytest.approx((2 * 4 * 8 / (1 * 2.1 * 3.9)) ** (1 / 3))
    assert compare({1: 2.0}, {1: 1.0}).real == 0  # of one seed nothing is known
    assert compare({1: 2.0}, {2: 1.0}).seeds == 0


def test_zeros_are_compared_by_their_difference():
    assert compare({1: 0.0, 2: 0.0, 3: 0.0}, {1: 0.0, 2: 0.0, 3: 0.0}).real == 0
    found = compare({1: 5.0, 2: 5.1, 3: 4.9}, {1: 0.0, 2: 0.0, 3: 0.0})
    assert found.real == 1 and math.isnan(found.ratio)
    assert compare({1: 9.0, 2: 0.1, 3: 0.0}, {1: 0.0, 2: 0.0, 3: 0.0}).real == 0


def test_coverage_of_the_interval():
    """Of logarithms that vary normally the interval has the true mean in nearly 95 % of the cases, for 3, 5 and 10 seeds."""
    random = np.random.default_rng(1)
    for count in (3, 5, 10):
        hits = 0
        for _ in range(1000):
            found = log_interval(random.normal(0.3, 0.2, count))
            hits += found.low <= 0.3 <= found.high
        assert 930 <= hits <= 985, (count, hits)


def test_the_order_of_the_seeds_does_not_matter():
    logs = [0.1, -0.3, 0.7, 0.2]
    assert {log_interval(order) for order in itertools.permutations(logs)} == {log_interval(logs)}
    assert log_interval([0.2, 0.2]).half == 0 and math.isnan(log_interval([0.2]).half) and math.isnan(log_interval([]).mean)


POINTS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=8)


@given(POINTS)
def test_the_front_is_what_nothing_dominates(points):
    sweep = swept({str(i): dict(zip(("p", "q", "r"), map(float, point))) for i, point in enumerate(points)})
    front = sweep.pareto("p", "q", "r")
    for i, (mine, state) in enumerate(zip(points, front.points["front"])):
        worse = [other for other in points if other != mine and all(a <= b for a, b in zip(other, mine))]
        assert (state == "front") == (not worse), (i, points)
        assert not worse or state == "beaten"  # no seeds differ, so all is certain


MEAN = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf, math.nan, None])


@given(st.integers(1, 3).flatmap(lambda count: st.lists(st.tuples(*[MEAN] * count), max_size=8)))
def test_the_front_without_a_look_at_every_pair(points):
    named = [dict(enumerate(point)) for point in points]
    assert front_of(points) == {i for i, mine in enumerate(named) if not any(dominates(other, mine) for other in named)}


def test_every_pair_can_be_looked_at():
    front = swept({name: {"s": times(i + 1.0), "t": 1.0} for i, name in enumerate("abc")}).pareto("s", "t")
    found = front.pairs.select("a", "b", "statistic", "ratio").rows()
    assert [row[:3] for row in found] == [(a, b, name) for a, b in ("ab", "ac", "bc") for name in "st"]
    assert [row[3] for row in found] == pytest.approx([1 / 2, 1, 1 / 3, 1, 2 / 3, 1])


def test_a_value_that_is_missing_is_worse_than_any():
    known, missing = {"a": 1.0}, {"a": None}
    assert dominates(known, missing) and not dominates(missing, known) and not dominates(missing, missing)


@pytest.mark.parametrize("form", ["text", "latex", "csv", "markdown"])
def test_tables(form):
    text = swept({"a": {"short_p99": times(1)}, "b": {"short_p99": times(3, NOISE)}}).pareto("short_p99").table(form)
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert [row["front"] for row in rows] == ["front", "beaten"] and rows[1]["in_what"] == "short_p99"
    else:
        assert "beaten: a (short p99)" in text and "*" in text.splitlines()[-4 if form == "text" else 0 :][0] + text


def test_marks_in_the_table():
    """* best, ~ not different from it beyond chance, nothing: it is."""
    points = {"a": {"s": times(1)}, "b": {"s": times(2, WILD)}, "c": {"s": times(4, NOISE)}}
    lines = swept(points).pareto("s").table().splitlines()
    assert " *" in lines[1] and " ~" in lines[2] and "*" not in lines[3] and "~" not in lines[3]


def test_errors():
    one = swept({"a": {"s": 1.0}})
    with pytest.raises(SpecError, match="one point only"):
        one.pareto("s")
    two = swept({"a": {"s": 1.0}, "b": {"s": 2.0}})
    with pytest.raises(SpecError, match="no such statistic"):
        two.pareto("short_p98")
    with pytest.raises(SpecError, match="no two points"):
        two.pareto("s").difference("a", "z", "s")


def test_a_picture(tmp_path):
    sweep = swept(
        {
            "a": {"short_p99": times(1), "long_p99": times(2, NOISE), "max_buffer_bytes": 1e6},
            "b": {"short_p99": times(2, NOISE), "long_p99": times(1), "max_buffer_bytes": 2e6},
            "c": {"short_p99": times(3, NOISE), "long_p99": times(3), "max_buffer_bytes": 3e6},
        }
    )
    figure = ps.plot.pareto(sweep)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.texts] == ["a", "b", "c"]
    faces = [line.get_markerfacecolor() for line in axes.lines if line.get_marker() == "o"]
    assert faces[0] == faces[1] != faces[2] == "white"
    with pytest.raises(SpecError, match="draws one sweep"):
        ps.plot.pareto(sweep, sweep)
