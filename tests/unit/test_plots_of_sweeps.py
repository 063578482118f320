"""Figures as they are printed: sweeps with several parameters, single points, equal shares of flows, styles."""

import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic, synthetic_sweep
from matplotlib.colors import to_rgb

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.cli._runs import part_of
from penstock_net.errors import SpecError
from penstock_net.report import plots
from penstock_net.report.plots import canvas
from penstock_net.report.plots.flows import finished_sizes
from penstock_net.report.plots.sweeps import MOST_BANDS, axis_of
from penstock_net.results.bins import equal_shares
from penstock_net.results.cells import words
from penstock_net.results.sweep import Sweep

RUNS = [synthetic(name, 2000) for name in ("bfc", "hpcc")]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return synthetic_sweep(tmp_path_factory.mktemp("sweep"))


def names(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_slowdown_draws_a_sweep(swept):
    figure = ps.plot.slowdown(swept, percentile=90)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    found = swept.slowdown(90, class_="poisson").filter((pl.col("scheme") == "hpcc") & (pl.col("workload.0.load") == 0.8))
    assert list(lines["hpcc, load 0.8"].get_ydata()) == pytest.approx(found["mean"].to_list())
    with pytest.raises(SpecError, match="a sweep is drawn by itself"):
        ps.plot.slowdown(swept, RUNS[0])


def test_colour_and_marker_are_the_schemes_and_dashes_the_other_parameters(swept):
    figure = ps.plot.slowdown(swept)
    looks = {line.get_label(): (line.get_color(), line.get_marker(), line.get_linestyle()) for line in figure.axes[0].lines}
    for scheme in ("bfc", "hpcc"):
        assert len({looks[f"{scheme}, load {load}"][:2] for load in (0.4, 0.8)}) == 1
    for load in (0.4, 0.8):
        assert looks[f"bfc, load {load}"][2] == looks[f"hpcc, load {load}"][2]
    assert len(set(looks.values())) == 4
    assert names(figure) == ["bfc", "hpcc", "load 0.4", "load 0.8"]
    assert names(ps.plot.slowdown(swept.where(load=0.4))) == ["bfc", "hpcc"]
    assert names(ps.plot.slowdown(swept.where(scheme="bfc"))) == ["load 0.4", "load 0.8"]
    assert names(ps.plot.slowdown(swept.where(scheme="bfc", load=0.4))) == []


def test_schemes_of_other_families_have_other_markers():
    looks = canvas.looks_of(["dctcp", "homa", "bfc", "timely", "hpcc", "swift"])
    assert len({look["marker"] for look in looks}) == 6


def test_a_point_has_a_bar_where_a_band_cannot_be(swept):
    figure = ps.plot.slowdown(swept.where(load=0.4), bins=[10**9])
    (axes,) = figure.axes
    assert len(axes.containers) == 2 and "bar: 95 %" in figure.get_supxlabel()
    at = [bars.lines[0].get_xdata()[0] for bars in axes.containers]
    assert at[0] < at[1], "beside one another"
    low, high = axes.containers[0].lines[2][0].get_segments()[0][:, 1]
    found = swept.where(load=0.4).slowdown(99, bins=[10**9], class_="poisson").row(0, named=True)
    assert (low, high) == pytest.approx((max(1, found["low"]), found["high"]))


def test_bands_end_at_the_smallest_slowdown(swept):
    figure = ps.plot.slowdown(swept, percentile=50)
    for band in figure.axes[0].collections:
        assert band.get_paths()[0].vertices[:, 1].min() >= 1


def test_many_curves_have_no_bands(tmp_path):
    rows = []
    for nth in range(MOST_BANDS + 1):
        for seed in (1, 2):
            key = f"{nth}-{seed}"
            synthetic("bfc", 60, seed=seed).save(tmp_path / key)
            rows.append({"workload.0.load": nth / 10, "scheme": "bfc", "seed": seed, "key": key, "short_p99": 2.0 + nth})
    pl.DataFrame(rows).write_parquet(tmp_path / "sweep.parquet")
    sweep = Sweep.load(tmp_path)
    figure = ps.plot.slowdown(sweep)
    assert not figure.axes[
        0
    ].collections and "9 curves, means over the seeds, without intervals" in figure.get_supxlabel().replace("\n", " ")
    assert ps.plot.slowdown(sweep.where(load=[0.1, 0.2])).axes[0].collections


# -- bins with equal shares of flows


def test_bins_with_equal_shares():
    assert equal_shares(np.arange(1, 101), 4) == [25, 50, 75, 100]
    assert equal_shares(np.array([5, 5, 5, 9]), 4) == [5, 9], "fewer where many have one size"
    assert equal_shares(np.array([3, 1, 2]), 10) == [1, 2, 3]
    assert equal_shares(np.array([], dtype=int), 10) == [1]
    for wrong in (0, 1001, 2.5, True):
        with pytest.raises(SpecError, match="bins = "):
            equal_shares(np.array([1]), wrong)


def test_slowdown_by_equal_shares():
    table = RUNS[0].slowdown(99, bins=10)
    finished = RUNS[0].flows["slowdown"].drop_nulls().len()
    assert table.height == 10 and table["flows"].sum() == finished
    assert table["flows"].max() - table["flows"].min() <= 2
    whole = ps.plot.slowdown(*RUNS, bins=5)
    (axes,) = whole.axes
    sizes = np.concatenate([finished_sizes(run.changed(flows=run.selected("poisson"))) for run in RUNS])
    bounds = equal_shares(sizes, 5)
    assert [list(line.get_xdata()) for line in axes.lines] == [[0, 1, 2, 3, 4]] * 2
    table = RUNS[1].slowdown(99, bins=bounds, class_="poisson")
    assert list(axes.lines[1].get_ydata()) == pytest.approx(table["slowdown"].to_list())
    assert len(axes.get_xticklabels()) == 5 and "each bin has 1/5 of the flows" in axes.get_xlabel()


def test_a_sweep_by_equal_shares(swept):
    lines = ps.plot.slowdown(swept, bins=4).axes[0].lines
    assert len(lines) == 4 and all(list(line.get_xdata()) == [0, 1, 2, 3] for line in lines)


# -- words


@pytest.mark.parametrize(
    ("parameter", "among", "text"),
    [
        ("workload.0.load", ["workload.0.load"], "Load"),
        ("workload.1.fan_in", [], "Fan in"),
        ("host.mtu", [], "MTU"),
        ("scheme.bfc.queues", [], "Queues (scheme.bfc)"),
        ("workload.0.load", ["workload.0.load", "workload.1.load"], "Load (workload.0)"),
    ],
)
def test_titles_of_axes(parameter, among, text):
    assert words(parameter, among) == text


def test_statistics_as_axes():
    assert axis_of("p99.9 slowdown of flows < 10KB") == ("FCT slowdown, flows < 10KB (99.9th pct.)", 1.0)
    assert axis_of("mean fct of !incast flows") == ("FCT (us), not incast flows (mean)", 1e-3)
    assert axis_of("max slowdown")[0] == "FCT slowdown (worst)" and axis_of("my_number") == ("My number", 1.0)


def test_bars_at_one_place_are_beside_one_another(swept):
    (axes,) = ps.plot.against(swept, y="p50 fct of flows < 10KB").axes
    at = [bars.lines[0].get_xdata() for bars in axes.containers]
    assert (at[0] < at[1]).all() and at[0] == pytest.approx([0.4, 0.8], abs=0.01)
    assert axes.get_ylabel() == "FCT (us), flows < 10KB (50th pct.)"


# -- style


def test_the_style_of_a_figure(swept):
    plain = ps.plot.slowdown(swept.where(load=0.4))
    with ps.plot.style(width="page", caption=False, font="serif", font_size=6, order=["hpcc"], colours={"bfc": "black"}):
        figure = ps.plot.slowdown(swept.where(load=0.4))
        with ps.plot.style(caption="mine"):
            assert ps.plot.slowdown(*RUNS).get_supxlabel() == "mine"
        assert ps.plot.slowdown(*RUNS).axes[0].lines[0].get_color() == "black"
    assert (plain.get_size_inches()[0], figure.get_size_inches()[0]) == (3.4, 7.0)
    assert plain.get_supxlabel() and not figure.get_supxlabel()
    assert names(figure) == ["hpcc", "bfc"]
    assert [to_rgb(line.get_color()) for line in figure.axes[0].lines][1] == (0, 0, 0)
    label = figure.axes[0].xaxis.label
    assert label.get_fontfamily()[0] == "serif" and label.get_fontsize() == 6
    assert ps.plot.slowdown(swept.where(load=0.4)).get_size_inches()[0] == 3.4, "as before"


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"width": "wide"}, 'width = "wide": must be one of column, page'),
        ({"font_size": 100}, "font_size = 100: must be"),
        ({"colours": {"bfc": "blueish"}}, 'colours.bfc = "blueish": is no colour'),
    ],
)
def test_bad_styles(options, rule):
    with pytest.raises(SpecError) as refused:
        ps.plot.style(**options)
    assert rule in str(refused.value)


def test_an_order_of_unknown_labels(swept):
    with ps.plot.style(order=["homa"]), pytest.raises(SpecError, match='order = "homa": no curve has this label; known: bfc'):
        ps.plot.slowdown(swept)
    assert ps.plot.slowdown(swept), "the style ends with its block, also after an error"


def test_parts_of_a_sweep_at_the_command_line(swept, tmp_path, monkeypatch, capsys):
    assert len(part_of(swept, ["load=0.40", "scheme=bfc,hpcc", "seed=1,2"])) == 4
    assert part_of(swept, []) is swept and part_of(None, []) is None
    for wrong, rule in (
        (["load"], "expected KEY=VALUE"),
        (["load=0.5"], "no run of the sweep has it"),
        (["laod=0.4"], "has no such parameter"),
    ):
        with pytest.raises(SpecError, match=rule):
            part_of(swept, wrong)
    with pytest.raises(SpecError, match="this is none"):
        part_of(None, ["load=0.4"])
    drawn = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.append(figure))
    look = [
        "--width",
        "page",
        "--caption",
        "",
        "--font",
        "serif",
        "--font-size",
        "8",
        "--order",
        "hpcc,bfc",
        "--colour",
        "bfc=#000000",
    ]
    assert main(["plot", "slowdown", str(swept.path), "--where", "load=0.8", "--bins", "4", *look, "-o", "a.pdf"]) == 0
    figure = drawn[0]
    assert names(figure) == ["hpcc", "bfc"] and figure.get_size_inches()[0] == 7 and not figure.get_supxlabel()
    assert figure.axes[0].lines[1].get_color() == "#000000" and len(figure.axes[0].get_xticklabels()) == 4
    runs = [f"{swept.path}/bfc-0.4-1", f"{swept.path}/hpcc-0.4-1"]
    assert main(["plot", "slowdown", *runs, "--order", "hpcc", "--bins", "1KB,10KB", "-o", "a.pdf"]) == 0
    assert names(drawn[1]) == ["hpcc", "bfc"]
    capsys.readouterr()
    for wrong, rule in (
        (["--colour", "black"], "expected LABEL=COLOUR"),
        (["--bins", "10XB"], "unknown unit"),
        (["--bins", "googol"], "no such bins"),
        (["--where", "load=0.4"], "this is none"),
    ):
        assert main(["plot", "slowdown", *runs, *wrong, "-o", "a.pdf"]) == 2
        assert rule in capsys.readouterr().err
