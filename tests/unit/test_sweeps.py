"""Values and seeds of a sweep, intervals over seeds, and the tables of a sweep."""

import json
import math
import shutil

import polars as pl
import pytest
from fake_simulator import synthetic_sweep
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.inputs import seeds, values
from penstock_net.report import sweep_page, sweeps
from penstock_net.results import sweep_table
from penstock_net.results.intervals import interval, ratio_interval, t_quantile
from penstock_net.results.sweep import Sweep


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5,0.7", ["0.5", "0.7"]),
        ("1..4", ["1", "2", "3", "4"]),
        ("-2..1", ["-2", "-1", "0", "1"]),
        ("0.3..0.9..0.3", ["0.3", "0.6", "0.9"]),
        ("0.1..0.35..0.1", ["0.1", "0.2", "0.3"]),
        ("10us..50us..20us", ["10us", "30us", "50us"]),
        ("10us..50us..20", ["10us", "30us", "50us"]),
        ("1..3, 8, 10..11", ["1", "2", "3", "8", "10", "11"]),
        ("1ms..3ms", ["1ms..3ms"]),  # the bounds of a window are a value
        ('[1,2],{a="b,c"}', ["[1,2]", '{a="b,c"}']),
        ("bfc,hpcc:ns3", ["bfc", "hpcc:ns3"]),
        ("./my.scheme.py", ["./my.scheme.py"]),
        ("../up/my.py", ["../up/my.py"]),
    ],
)
def test_values(text, expected):
    assert values(text, "--param") == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1,,2", "expected values"),
        ("", "expected values"),
        ("3..1", "is empty"),
        ("0.1..0.5", "needs a step"),
        ("1..5..0", "is empty"),
        ("1us..5ms..1us", "more than one unit"),
        ("1us..5us..1ms", "more than one unit"),
        ("0..1000000", "at most"),
        ("1.2.3..5..1", "not a number"),
    ],
)
def test_bad_values(text, says):
    with pytest.raises(SpecError, match=says) as refused:
        values(text, "--param x")
    assert "--param x" in str(refused.value)


@given(st.text("0123456789.,-+eusm[]{} ", max_size=20))
def test_any_text_gives_values_or_one_error(text):
    try:
        found = values(text, "--param x")
    except SpecError as error:
        assert len(str(error).splitlines()) <= 2
    else:
        assert found and all(found)


@given(st.integers(-1000, 1000), st.integers(0, 50))
def test_ranges_of_whole_numbers_have_both_ends(low, count):
    assert values(f"{low}..{low + count}", "") == [str(n) for n in range(low, low + count + 1)]


@pytest.mark.parametrize(("text", "expected"), [("3", [1, 2, 3]), ("1", [1]), ("5..7", [5, 6, 7]), ("3,9,0", [3, 9, 0])])
def test_seeds(text, expected):
    assert seeds(text) == expected


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "a", "3,3", "-2..4", "", "1e3", "٣", "9" * 30])
def test_bad_seeds(text):
    with pytest.raises(SpecError, match="--seeds"):
        seeds(text)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 10, 29, 100, 101])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_quantiles_of_students_t(degrees, confidence):
    assert t_quantile(degrees, confidence) == pytest.approx(stats.t.ppf((1 + confidence) / 2, degrees), rel=1e-9)


def test_an_interval_by_hand():
    found = interval([2.0, 4.0, 9.0])  # deviation sqrt(13), t(2) = 4.302653
    assert found.mean == 5 and found.runs == 3
    assert found.half == pytest.approx(4.302653 * math.sqrt(13) / math.sqrt(3), rel=1e-6)
    assert (found.low, found.high) == (5 - found.half, 5 + found.half)
    assert str(found) == "5 ± 9"


def test_intervals_of_few_values():
    assert interval([3.0, None, math.nan])[0] == 3 and math.isnan(interval([3.0]).half)
    assert interval([]).runs == 0 and math.isnan(interval([None]).mean)
    assert interval([7, 7, 7]) == (7, 0, 3)


def test_the_interval_covers_the_mean_in_95_of_100():
    import numpy as np

    rng = np.random.default_rng(5)
    inside = sum(found.low < 10 < found.high for found in (interval(rng.normal(10, 3, 5)) for _ in range(4000)))
    assert 0.94 < inside / 4000 < 0.96


def sweep_of(tmp_path, rows):
    pl.DataFrame(rows).write_parquet(tmp_path / "sweep.parquet")
    return Sweep.load(tmp_path)


ROWS = [
    {"workload.0.load": load, "scheme": scheme, "seed": seed, "key": f"{scheme}{load}{seed}", "short_p99": p99, "drops": 0}
    for load, scheme, seed, p99 in [
        (0.5, "bfc", 1, 2.0),
        (0.5, "bfc", 2, 4.0),
        (0.5, "bfc", 3, 9.0),
        (0.5, "hpcc", 1, 8.0),
        (0.7, "bfc", 1, 5.0),
        (0.7, "bfc", 2, None),
    ]
]


def test_means_of_a_sweep(tmp_path):
    sweep = sweep_of(tmp_path, ROWS)
    assert sweep.parameters == ("workload.0.load",) and sweep.statistics == ["short_p99", "drops"]
    tidy = sweep.tidy()
    assert tidy.height == 12 and tidy.columns == ["workload.0.load", "scheme", "seed", "key", "statistic", "value"]
    table = sweep.over_seeds("short_p99")
    assert table.select("workload.0.load", "scheme", "mean", "runs").rows() == [
        (0.5, "bfc", 5.0, 3),
        (0.5, "hpcc", 8.0, 1),
        (0.7, "bfc", 5.0, 1),
    ]
    found = ratio_interval([2.0, 4.0, 9.0])
    assert (table["low"][0], table["high"][0]) == (found.low, found.high)
    assert table["low"][1] is None and table["high"][2] is None
    assert sweep.where(scheme="bfc", workload__0__load=0.5).runs.height == 3


def test_parts_of_a_sweep(tmp_path):
    sweep = sweep_of(tmp_path, ROWS)
    assert len(sweep.where(load=0.5)) == 4 and len(sweep.where(load=[0.5, 0.7], scheme=("bfc", "hpcc"))) == len(sweep)
    assert len(sweep.where(seed=range(1, 2))) == sweep.runs["seed"].to_list().count(1)
    for wrong, rule in (
        ({"load": 0.6}, "workload.0.load = 0.6: no run of the sweep has it; known: 0.5, 0.7"),
        ({"scheme": ["bfc", "homa"]}, 'scheme = "homa": no run of the sweep has it; known: bfc, hpcc'),
        ({"laod": 0.5}, 'parameter = "laod": the sweep has no such parameter; known: scheme, seed, workload.0.load'),
    ):
        with pytest.raises(SpecError) as refused:
            sweep.where(**wrong)
        assert str(refused.value) == rule
    two = Sweep(sweep.path, sweep.runs.with_columns(pl.lit(1).alias("workload.1.load")), (*sweep.parameters, "workload.1.load"))
    with pytest.raises(SpecError, match=r"which of them\?; workload.0.load or workload.1.load"):
        two.where(load=0.5)


def test_the_table_of_a_sweep(tmp_path):
    text = sweep_of(tmp_path, ROWS).table()
    assert "5.00 (0.74 to 33.96)" in text and "bfc" in text and "workload.0.load" in text.splitlines()[0]
    assert sweep_table.NOTE in text


def test_the_seeds_of_a_row_are_those_that_have_run(tmp_path):
    """A statistic that one of them has not does not make it fewer."""
    made = sweeps.table(sweep_of(tmp_path, ROWS))
    place = made.heads.index("seeds")
    assert [row[place] for row in made.rows] == ["3", "1", "2"]


def test_sweeps_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecError, match=r"holds no sweep\.parquet"):
        Sweep.load(tmp_path)
    (tmp_path / "sweep.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(SpecError, match="cannot be read"):
        Sweep.load(tmp_path)
    pl.DataFrame({"scheme": ["bfc"], "key": ["k"]}).write_parquet(tmp_path / "sweep.parquet")
    with pytest.raises(SpecError, match="an older version"):
        Sweep.load(tmp_path)
    with pytest.raises(SpecError, match="no such statistic"):
        sweep_of(tmp_path, ROWS).over_seeds("short_p98")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return synthetic_sweep(tmp_path_factory.mktemp("sweep"))


def test_slowdown_of_a_sweep_is_that_of_its_runs_averaged(swept):
    table = swept.slowdown(90)
    part = table.filter((pl.col("scheme") == "hpcc") & (pl.col("workload.0.load") == 0.8)).drop_nulls("to_bytes")
    runs = [run.slowdown(90) for row, run in swept if row["scheme"] == "hpcc" and row["workload.0.load"] == 0.8]
    for to, mean, low, high, count in part.select("to_bytes", "mean", "low", "high", "runs").iter_rows():
        values = [v for run in runs for v in run.filter(pl.col("to_bytes") == to)["slowdown"]]
        assert (mean, count) == (pytest.approx(sum(values) / len(values)), len(values))
        found = ratio_interval(values)
        assert (low, high) == (None, None) if count == 1 else (low, high) == pytest.approx((found.low, found.high))


def test_figures_of_a_sweep(swept):
    from penstock_net.report import plots

    figure = plots.draw_sweep("slowdown", swept)
    (axes,) = figure.axes
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["bfc, load 0.4", "bfc, load 0.8", "hpcc, load 0.4", "hpcc, load 0.8"]
    assert len(axes.collections) == 4  # bands
    assert "95 %" in figure.get_supxlabel() and "poisson" in figure.get_supxlabel()
    figure = plots.draw_sweep("against", swept, x="load")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "Load"
    means = {bars.get_label(): list(bars.lines[0].get_ydata()) for bars in axes.containers}
    assert means == {"bfc": pytest.approx([2.4, 2.8]), "hpcc": pytest.approx([3.2, 4.4])}


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("buffer_cdf", {}, "can be drawn as slowdown or against"),
        ("against", {"x": "laod"}, "known: workload.0.load"),
        ("against", {"y": "short_p98"}, "no such statistic"),
        ("nope", {}, "no such kind"),
    ],
)
def test_figures_that_a_sweep_does_not_have(swept, kind, options, says):
    from penstock_net.report import plots

    with pytest.raises(SpecError, match=says):
        plots.draw_sweep(kind, swept, **options)


def test_a_run_is_no_sweep(swept):
    from penstock_net.report import plots

    with pytest.raises(SpecError, match="penstock sweep"):
        plots.draw("against", next(iter(swept))[1])


def data_of(page: str) -> dict:
    """What the page's script reads."""
    return json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])


def test_the_page_of_a_sweep_says_what_is_missing(tmp_path):
    sweep = synthetic_sweep(tmp_path)
    assert "not in the folder" not in sweep_page.page(sweep)
    for seed in (1, 2):
        shutil.rmtree(tmp_path / f"hpcc-0.8-{seed}")
    page = sweep_page.page(Sweep.load(tmp_path), "<loads>")
    assert "2 of 12 runs are not in the folder" in page and "&lt;loads&gt;" in page and "3.20 (1.45 to 7.08)" in page
    last = data_of(page)["slowdown"]["all|p99"][-1]
    assert set(last["n"]) == {1} and last["low"] == last["y"] == last["high"]


def test_the_page_of_a_sweep_of_seeds_only(tmp_path):
    sweep = synthetic_sweep(tmp_path)
    only = Sweep(sweep.path, sweep.where(workload__0__load=0.4).runs.drop("workload.0.load"), ())
    against = data_of(sweep_page.page(only))["against"]["scheme"]
    assert [(curve["x"], curve["label"]) for curve in against["curves"]] == [(["bfc"], "bfc"), (["hpcc"], "hpcc")]
    assert [curve["y"]["short_p99"] for curve in against["curves"]] == [pytest.approx([2.4]), pytest.approx([3.2])]


def test_the_page_of_a_sweep_without_runs(tmp_path):
    with pytest.raises(SpecError, match="none of its runs is there"):
        sweep_page.page(sweep_of(tmp_path, ROWS))


def test_report_of_a_sweep(tmp_path, capsys):
    synthetic_sweep(tmp_path / "sweep")
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "sweep"), "-o", str(page)]) == 0
    assert data_of(page.read_text())["parameters"] == ["workload.0.load"]
    assert main(["report", str(tmp_path / "sweep"), "-o", str(page), "--clock", "sender"]) == 2
    assert "receiver's clock" in capsys.readouterr().err


def test_explain_says_what_a_sweep_is_and_where_its_runs_are(tmp_path, capsys):
    from penstock_net.cli import main

    pl.DataFrame(ROWS).write_parquet(tmp_path / "sweep.parquet")
    assert main(["explain", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "a sweep of 6 runs, workload.0.load = 0.5, 0.7; scheme = bfc, hpcc; seed = 1, 2, 3" in said
    assert "5.00 (0.74 to 33.96)" in said and "sweep.parquet   6 rows" in said and "flows.parquet" not in said
    for row in ROWS:
        assert (
            f"  {row['key']}  workload.0.load = {row['workload.0.load']}, scheme = {row['scheme']}, seed = {row['seed']}" in said
        )
