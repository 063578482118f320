"""Several seeds and all figures: the runs, what is judged, the bands, the page."""

import json
import tomllib
from dataclasses import replace

import polars as pl
import pytest
from fake import SPEC, experiment, run, with_runs
from made import holds, within
from rich.console import Console

from penstock_net.errors import SpecError
from penstock_net.results.intervals import interval
from penstock_net.spec import parse_spec
from penstock_papers import EXPERIMENTS, bands, everything, records
from penstock_papers.claims import OPEN
from penstock_papers.registry import completed
from penstock_papers.style import figure

pytestmark = pytest.mark.usefixtures("own_cache")


def by_seed(claims=lambda data: [], **kwargs):
    """An experiment whose only number is the seed of its run."""

    def measure(runs, scale):
        seed = tomllib.loads(runs["base/bfc"].summary["spec"])["run"]["seed"]
        return pl.DataFrame({"series": ["a", "a"], "x": [1.0, 2.0], "y": [1.0 * seed, 10.0 * seed]})

    found = experiment([], specs=lambda scale: {"base": SPEC}, measure=measure, **kwargs)
    return {id: replace(each, claims=lambda data, scale: claims(data)) for id, each in found.items()}


def test_every_seed_has_runs_of_its_own_and_the_mean_is_judged(tmp_path, simulated):
    experiments = by_seed(lambda data: [within("a", "b", "c", data["y"][0], 0, 9, quick=True, why="of a test")])
    outcome = run(experiments, tmp_path / "out", cache=tmp_path / "runs", seeds=[2, 3, 7])
    assert simulated == ["bfc", "hpcc"] * 3
    (claim,) = outcome.claims
    assert (claim.value, claim.seeds, claim.verdict) == (4.0, 3, OPEN)  # the interval is wider than the band
    assert outcome.data.rows() == [("a", x, float(y), seed) for seed in (2, 3, 7) for x, y in ((1.0, seed), (2.0, 10 * seed))]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["seeds"] == [2, 3, 7] and list(summary["runs"])[-1] == "base/hpcc, seed 7"
    assert tomllib.loads((tmp_path / "out" / "spec.toml").read_text())["run"]["seed"] == 2
    run(experiments, tmp_path / "out", cache=tmp_path / "runs", seeds=[3])
    assert len(simulated) == 6


def test_a_figure_says_how_many_seeds_it_needs(tmp_path, simulated):
    experiments = by_seed(seeds={"paper": 4})
    assert run(experiments, tmp_path / "a", scale="paper").summary["seeds"] == [1, 2, 3, 4]
    assert run(experiments, tmp_path / "b").summary["seeds"] == [1]


def test_seeds_of_a_figure_without_random_numbers_are_refused(tmp_path):
    with pytest.raises(SpecError, match="fake/fig01 takes no seeds"):
        run(experiment([]), tmp_path, seeds=[1, 2])


def test_a_figure_without_runs_may_take_seeds(tmp_path):
    def measure(runs, scale, seed=1):
        return pl.DataFrame({"series": ["a"], "x": [1.0], "y": [float(seed)]})

    experiments = experiment([], measure=measure)
    outcome = run(experiments, tmp_path / "out", seeds=[2, 5])
    assert outcome.data["y"].to_list() == [2.0, 5.0] and outcome.summary["seeds"] == [2, 5]
    assert run(experiments, tmp_path / "one").data["y"].to_list() == [1.0]
    options = {"experiments": experiments, "console": Console(quiet=True)}
    assert everything.reproduce_all(list(experiments), tmp_path / "all", seeds=[3, 4], **options) == {}
    assert everything.read(tmp_path / "all/fake/fig01")["seeds"] == [3, 4]


def test_a_module_that_draws_random_numbers_gets_the_seed():
    made = completed(lambda scale, seed: {"a": {"run": {"duration": f"{seed}ms"}}}, "run", "quick", 7)
    assert made["a"]["run"] == {"duration": "7ms"}
    assert completed(lambda scale: {"a": {}}, "run", "quick", 7)["a"]["run"] == {"seed": 7}


@pytest.mark.parametrize("id", [id for id in EXPERIMENTS if EXPERIMENTS[id].specs])
def test_another_seed_is_another_run(id):
    one, two = (EXPERIMENTS[id].specs("quick", seed) for seed in (1, 2))
    assert one.keys() == two.keys()
    for label in one:
        assert parse_spec(one[label], name=label).key() != parse_spec(two[label], name=label).key()


def points(*rows):
    return pl.DataFrame(rows, schema=["series", "x", "y"], orient="row")


def test_means_by_hand():
    data = bands.joined(
        {1: points(("a", 1, 1.0), ("a", 3, 5.0), ("b", 1, None)), 2: points(("a", 2, 3.0), ("a", 3, 5.0), ("b", 1, 4.0))}
    )
    means = bands.means_of(data)
    assert means.mean.rows() == [("a", 1.5, 2.0), ("a", 3.0, 5.0), ("b", 1.0, 4.0)]
    half = interval([1.0, 3.0]).half
    assert means.high["y"].to_list() == pytest.approx([2 + half, 5.0, 4.0])
    assert means.low["y"].to_list() == pytest.approx([2 - half, 5.0, 4.0]) and means.low["x"].equals(means.mean["x"])


def test_the_interval_of_a_cdf_is_that_of_x():
    means = bands.means_of(
        bands.joined({1: points(("a", 1.0, 0.5), ("a", 2.0, 1.0)), 2: points(("a", 2.0, 0.5), ("a", 2.0, 1.0))})
    )
    half = interval([1.0, 2.0]).half
    assert means.low.rows() == [("a", pytest.approx(1.5 - half), 0.5), ("a", 2.0, 1.0)]


def test_a_line_with_other_points_with_each_seed_is_that_of_the_first():
    means = bands.means_of(bands.joined({1: points(("a", 1, 1.0)), 2: points(("a", 1, 3.0), ("a", 2, 3.0))}))
    assert means.mean.rows() == means.low.rows() == [("a", 1, 1.0)]


@pytest.mark.parametrize(("kind", "count"), [("plot", 20), ("plot", 3), ("bar", 3), ("barh", 3)])
def test_intervals_are_drawn(kind, count):
    def plot(data):
        made, axes = figure()
        getattr(axes, kind)(data["x"], data["y"], color="blue")
        return made

    rest = [("a", 2.0 + i, 2.0) for i in range(count)]
    means = bands.means_of(bands.joined({seed: points(("a", 1.0, 1.0 + seed), *rest) for seed in (1, 2)}))
    plain, (axes,) = plot(means.mean).axes[0], bands.draw(plot, means).axes
    assert (axes.get_xlim(), axes.get_ylim()) == (plain.get_xlim(), plain.get_ylim())
    if kind == "plot":
        (band,) = axes.collections  # or the error bars, one path each
        ends = {round(y, 6) for x, y in band.get_paths()[0].vertices if x == 1.0}
    else:
        bar = axes.lines[0]
        ends = {round(float(v), 6) for v in (bar.get_ydata() if kind == "bar" else bar.get_xdata())}
    half = interval([2.0, 3.0]).half
    assert ends == {round(2.5 - half, 6), round(2.5 + half, 6)}


# -- all figures


def test_all_figures_with_one_page_that_goes_on_where_it_was(tmp_path, simulated, monkeypatch):
    def judged(data, scale):
        assert not interrupted
        return [within("number", "a <claim>", "7", 9, 0, 1, quick=True, why="of a test")]

    interrupted = True
    experiments = experiment([holds("a", "b", "c", "d", True)]) | {
        id: replace(*with_runs().values(), id=id, claims=judged) for id in ("fake/fig02", "fake/fig03")
    }
    ids = everything.chosen("fake", "quick", experiments)
    options = {"experiments": experiments, "console": Console(quiet=True), "cache": tmp_path / "runs"}
    with pytest.raises(AssertionError):
        everything.reproduce_all(ids, tmp_path, **options)
    assert "1 figures; 1 PASS" in (tmp_path / "index.html").read_text()
    interrupted = False
    first = (tmp_path / "fake/fig01/summary.json").stat().st_mtime_ns
    wrong = everything.reproduce_all(ids, tmp_path, **options)
    assert wrong == {id: f"{id}: failed: number" for id in ("fake/fig02", "fake/fig03")}
    assert everything.reproduce_all(ids, tmp_path, **options) == wrong
    assert (tmp_path / "fake/fig01/summary.json").stat().st_mtime_ns == first and len(simulated) == 2
    text = (tmp_path / "index.html").read_text()
    assert "3 figures; 2 FAIL, 1 PASS" in text and "a &lt;claim&gt;" in text and 'src="fake/fig03/figure.png"' in text
    assert everything.reproduce_all(ids, tmp_path, seeds=[1, 2], **options) == wrong
    assert len(simulated) == 4 and everything.read(tmp_path / "fake/fig02")["seeds"] == [1, 2]
    monkeypatch.setattr(records, "sources", lambda *of: "changed")
    assert not everything.is_current(experiments["fake/fig01"], tmp_path / "fake/fig01", "quick", [1])


def test_papers_by_name():
    assert {id.split("/")[0] for id in everything.chosen("hpcc", "paper")} == {"hpcc"}
    assert everything.chosen(None, "paper") == list(EXPERIMENTS)
    assert "backdraft/fig16" in everything.chosen(None, "real") and "bfc/fig09" not in everything.chosen(None, "real")
    with pytest.raises(SpecError, match='did you mean "hpcc"'):
        everything.chosen("hpc", "paper")
