"""Statistics of a sweep by name and by function, intervals of ratios, tables in other forms."""

import csv
import io
import math
import shutil
import statistics as exact

import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic, synthetic_sweep

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.results import sweep as of_sweeps
from penstock_net.results.cells import mean
from penstock_net.results.intervals import interval, ratio_interval, t_quantile
from penstock_net.results.printed import Printed, escaped
from penstock_net.results.run import Run
from penstock_net.results.statistic import Statistic, bounds
from penstock_net.results.sweep import Sweep

SMALL = "p99.9 slowdown of flows < 10KB"


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return synthetic_sweep(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def run():
    return synthetic("bfc", 3000)


# -- intervals of ratios


def test_an_interval_of_ratios_is_symmetric_on_a_logarithmic_scale_and_above_0():
    found = ratio_interval([2.0, 4.0, 9.0])
    assert found.mean == 5 and found.low > 0 and found.low * found.high == pytest.approx(25)
    assert found == ratio_interval([9.0, None, 2.0, math.nan, 4.0]), "the order does not matter, nor what is missing"
    assert str(found) == "5 (0.736 to 34)"


def test_its_standard_error_is_that_of_all_samples_with_replacement():
    """Of three values there are 27 samples: the exact bootstrap, without any random number."""
    values = (2.0, 4.0, 9.0)
    logs = [math.log((a + b + c) / 3) for a in values for b in values for c in values]
    error = exact.pstdev(logs) * math.sqrt(3 / 2)
    assert ratio_interval(values).factor == pytest.approx(math.exp(t_quantile(2) * error), rel=0.1)


def test_where_values_are_close_it_is_that_of_students_t():
    values = [5.0, 5.01, 5.03, 4.98, 4.97]
    found, other = ratio_interval(values), interval(values)
    assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=0.05 * other.half)


def test_it_covers_the_mean_of_heavy_tails_more_often_than_students_t():
    rng = np.random.default_rng(5)
    draws, true = rng.lognormal(0, 0.8, (600, 5)), math.exp(0.32)
    by_ratio, by_t = ([f(x) for x in draws] for f in (ratio_interval, interval))
    share = [sum(found.low < true < found.high for found in each) / 600 for each in (by_ratio, by_t)]
    assert share[0] > 0.9 > share[1]
    assert all(found.low > 0 for found in by_ratio) and sum(found.low < 0 for found in by_t) > 100


def test_ratios_of_few_values():
    assert math.isnan(ratio_interval([]).mean) and ratio_interval([None]).runs == 0
    assert ratio_interval([3.0]).mean == 3 and math.isnan(ratio_interval([3.0]).low)
    assert str(ratio_interval([3.0])) == "3"
    same = ratio_interval([7, 7])
    assert (same.low, same.mean, same.high, same.runs) == (7, 7, 7, 2)
    with pytest.raises(ValueError, match="is no ratio"):
        ratio_interval([0.0, 1.0])


# -- statistics by name


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        (SMALL, Statistic(99.9, size="< 10KB")),
        ("mean fct of incast flows", Statistic(of="fct", class_="incast", statistic="mean")),
        ("p50 slowdown of !incast flows 10KB..100KB", Statistic(50, class_="!incast", size="10KB..100KB")),
        ("max slowdown", Statistic(statistic="max")),
        ("p5 fct of all flows", Statistic(5, of="fct", class_="all")),
    ],
)
def test_names_are_read_and_written(name, parsed):
    assert Statistic.parse(name) == parsed and str(parsed) == name


def test_a_median_is_the_50th_percentile():
    assert Statistic.parse("median slowdown") == Statistic(50) and str(Statistic(50)) == "p50 slowdown"


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("p99 slowdwon", "is the name of no statistic; such as"),
        ("p0.99 slowdown", "is a share, and percentiles are 0 to 100; write 99"),
        ("p101 slowdown", "percentile = 101.0: must be"),
        ("p1.2.3 slowdown", "is the name of no statistic"),
        ("p99 slowdown of flows 10KB", "must be a range of sizes"),
        ("p99 slowdown of flows < 10", "the unit is missing"),
        ("p99 slowdown of flows 10KB..1KB", "the range is empty"),
    ],
)
def test_bad_names(name, rule):
    with pytest.raises(SpecError) as refused:
        Statistic.parse(name)
    assert rule in str(refused.value)


@pytest.mark.parametrize(
    ("size", "ends"),
    [
        ("< 10KB", (0, 9_999)),
        ("<=10KB", (0, 10_000)),
        ("> 10KB", (10_001, 2**62)),
        (">= 10KB", (10_000, 2**62)),
        ("1KB .. 2KB", (1_000, 2_000)),
        ("..2KB", (0, 2_000)),
        ("1MB..", (10**6, 2**62)),
        (None, (0, 2**62)),
    ],
)
def test_bounds_of_sizes(size, ends):
    assert bounds(size) == ends


def test_values_are_those_of_the_flows(run: Run):
    background = run.flows.filter(pl.col("class") == "poisson").drop_nulls("slowdown")
    small = background.filter(pl.col("bytes") < 10_000)
    assert Statistic.parse(SMALL)(run) == pytest.approx(np.percentile(small["slowdown"].to_numpy(), 99.9))
    incast = run.flows.filter(pl.col("class") == "incast").drop_nulls("fct_ns")
    assert Statistic.parse("mean fct of incast flows")(run) == incast["fct_ns"].mean()
    assert Statistic.parse("max slowdown of all flows")(run) == run.flows["slowdown"].max()
    assert Statistic.parse("max slowdown")(run) == background["slowdown"].max()
    assert Statistic.parse("p99 slowdown of flows > 1GB")(run) is None
    with pytest.raises(SpecError, match='no flows of class "incats"; did you mean "incast"'):
        Statistic.parse("p99 slowdown of incats flows")(run)


# -- in a sweep


def test_a_sweep_has_any_statistic_by_name(swept):
    table = swept.over_seeds("short_p99", SMALL)
    assert table["statistic"].to_list() == ["short_p99"] * 4 + [SMALL] * 4
    values = [Statistic.parse(SMALL)(run) for row, run in swept if row["scheme"] == "hpcc" and row["workload.0.load"] == 0.8]
    found = ratio_interval(values)
    assert table.row(-1) == (0.8, "hpcc", SMALL, found.mean, found.low, found.high, 3)
    assert swept.over_seeds(Statistic(99.9, size="< 10KB"))["mean"].to_list() == table["mean"].to_list()[4:]


def test_one_run_of_a_sweep(swept):
    for row, run in swept:
        values = {"load": row["workload.0.load"], "scheme": row["scheme"], "seed": row["seed"]}
        assert swept.run(**values) == run and swept.run(**values).summary["seed"] == row["seed"]
    with pytest.raises(SpecError, match=r"2 runs have it; say which workload\.0\.load: 0\.4, 0\.8"):
        swept.run(scheme="bfc", seed=1)
    with pytest.raises(SpecError, match='scheme = "none": no run of the sweep has it'):
        swept.run(scheme="none", seed=1)


def test_a_sweep_has_any_statistic_by_a_function(swept):
    def first_seed(run):
        return run.summary["seed"]

    table = swept.over_seeds(first_seed, hops=lambda run: run.summary["packet_hops"] if run.summary["seed"] < 3 else None)
    assert table["statistic"].unique(maintain_order=True).to_list() == ["first_seed", "hops"]
    found = interval([1, 2, 3])
    assert table.select("mean", "low", "high", "runs").row(0) == (2.0, found.low, found.high, 3), "no ratio: Student's t"
    assert set(table.filter(pl.col("statistic") == "hops")["runs"]) == {2}
    more = swept.with_statistics(hops=lambda run: run.summary["packet_hops"])
    assert more.runs["hops"].to_list() == [4e7] * 12 and "hops" in more.statistics and more.parameters == swept.parameters
    assert swept.with_statistics("short_p99") is swept


@pytest.mark.parametrize(
    ("given", "named", "rule"),
    [
        (["short_p98"], {}, "the sweep has no such statistic; did you mean"),
        (["p99 slwdown"], {}, "is the name of no statistic"),
        ([lambda run: 1.0], {}, "must be a name, or a function with one; give it as a keyword"),
        ([3], {}, "must be a name, or a function of a run"),
        ([], {"text": lambda run: "a"}, 'text = "a": must be a finite number'),
        ([], {"short_p99": lambda run: 1}, "the sweep has a column of this name"),
    ],
)
def test_bad_statistics(swept, given, named, rule):
    with pytest.raises(SpecError) as refused:
        swept.over_seeds(*given, **named)
    assert rule in str(refused.value)


def test_a_run_that_is_missing_is_named(tmp_path):
    sweep = synthetic_sweep(tmp_path)
    shutil.rmtree(tmp_path / "bfc-0.4-2")
    with pytest.raises(SpecError, match=r'run = "bfc-0\.4-2": is not in the folder of the sweep'):
        sweep.over_seeds(SMALL)


def test_ratios_that_are_0_have_students_interval():
    table = pl.DataFrame({"scheme": ["bfc"] * 2, "value": [0.0, 2.0]})
    assert of_sweeps.over_seeds(table, ["scheme"], ratio=True)["low"][0] == interval([0, 2]).low


def test_the_last_bin_has_no_bound_and_a_place(swept):
    """Its `to_bytes` is null, which joins the place of the bin to its mean all the same."""
    table = swept.slowdown(99, bins=[1000, 10_000]).filter(pl.col("to_bytes").is_null())
    assert table.height == 4
    medians = [run.slowdown(99, bins=[1000, 10_000])["bytes"][-1] for row, run in swept if row["key"].startswith("bfc-0.4")]
    assert table["bytes"][0] == pytest.approx(sum(medians) / 3)


def test_a_bin_without_finished_flows_is_left_out(tmp_path):
    """Not a row without a value, and no seed more in the number of runs."""
    keys = [f"bfc-{seed}" for seed in (1, 2)]
    for seed, key in enumerate(keys, 1):
        run = synthetic("bfc", 200, seed=seed)
        lost = pl.col("bytes") > (1000 if seed == 1 else 10_000)
        run.flows = run.flows.with_columns(pl.when(lost).then(None).otherwise(pl.col("slowdown")).alias("slowdown"))
        run.save(tmp_path / key)
    pl.DataFrame({"scheme": "bfc", "seed": [1, 2], "key": keys, "drops": 0}).write_parquet(tmp_path / "sweep.parquet")
    table = Sweep.load(tmp_path).slowdown(99, bins=[1000, 10_000])
    assert table.select("to_bytes", "runs").rows() == [(1000, 2), (10_000, 1)]


def test_intervals_need_several_seeds_of_one_point(swept):
    assert swept.has_intervals and not swept.where(seed=1).has_intervals
    assert swept.where(seed=[1, 2], scheme="bfc", load=0.4).has_intervals


def test_the_seed_is_neither_a_parameter_nor_a_statistic(tmp_path):
    """`--seeds` writes it as run.seed, too."""
    rows = [{"run.seed": seed, "scheme": "bfc", "seed": seed, "key": f"k{seed}", "short_p99": 2.0} for seed in (1, 2)]
    pl.DataFrame(rows).write_parquet(tmp_path / "sweep.parquet")
    sweep = Sweep.load(tmp_path)
    assert sweep.parameters == () and sweep.statistics == ["short_p99"]
    assert sweep.over_seeds()["runs"].to_list() == [2]


# -- tables


def test_tables_of_a_sweep(swept):
    text = swept.where(load=0.4).table("short_p99", "max_buffer_bytes")
    assert text.splitlines()[1].split() == ["0.4", "bfc", "3", "2.40", "(0.82", "to", "7.07)", "2MB", "±", "2.48MB"]
    latex = swept.table("short_p99", SMALL, form="latex")
    assert r"\begin{tabular}{llrrr}" in latex and r"\toprule" in latex and r"\bottomrule" in latex
    assert "\nLoad & Scheme & Seeds & short p99 & " in latex
    assert r"p99.9 slowdown of flows \textless{} 10KB \\" in latex and latex.count(r"\\") == 5
    rows = list(csv.DictReader(io.StringIO(swept.table("short_p99", form="csv"))))
    assert len(rows) == 4 and float(rows[0]["mean"]) == pytest.approx(2.4) and float(rows[0]["low"]) > 0
    assert swept.table("short_p99", form="markdown").splitlines()[1] == "| :--- | :--- | ---: | ---: |"
    with pytest.raises(SpecError, match='table = "tex": must be one of text, latex, csv, markdown'):
        swept.table(form="tex")
    assert "short: below" in swept.table() and "short: below" not in swept.table("short_p99")


def test_cells_of_means():
    row = {"mean": 3.0, "low": 2.0, "high": 4.5}
    assert mean("all_p99", row) == "3.00 (2.00 to 4.50)"
    assert mean("drops", row) == "3.0 ± 1.5"
    assert mean("p50 fct", {"mean": 2000.0, "low": None, "high": None}) == "2us"
    assert mean("utilisation", {"mean": 0.123456, "low": 0.1, "high": 0.146912}) == "0.1235 ± 0.02346"


def test_what_latex_takes_for_a_command_is_escaped():
    assert escaped(r"100 % of a_b & {c} #1 $2 ~ ^ \x ± |") == (
        r"100 \% of a\_b \& \{c\} \#1 \$2 \textasciitilde{} \textasciicircum{} \textbackslash{}x $\pm$ \textbar{}"
    )
    made = Printed(["a|b"], [["1|2"]], pl.DataFrame(), ["what\nit means"])
    assert made.show("markdown") == "| a&#124;b |\n| :--- |\n| 1&#124;2 |\n\nwhat\nit means"
    assert "% what\n% it means\n" in made.show("latex")


def test_tables_at_the_command_line(tmp_path, capsys):
    sweep = synthetic_sweep(tmp_path / "sweep")
    folder = str(tmp_path / "sweep")
    assert main(["report", folder, "--table", "latex", "--statistic", SMALL]) == 0
    out = capsys.readouterr().out
    assert out == sweep.table(SMALL, form="latex") + "\n" and not (tmp_path / "report.html").exists()
    page = str(tmp_path / "page.html")
    assert main(["report", f"{folder}/bfc-0.4-1", f"{folder}/hpcc-0.4-1=HPCC", "--table", "csv", "-o", page]) == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert [row["scheme"] for row in rows] == ["bfc", "HPCC"] and "written to" in said.err
    assert float(rows[0]["short_p99"]) > 1
    for wrong, rule in (
        (["report", folder, "--table", "tex"], 'table = "tex": must be one of'),
        (["report", folder, "--statistic", SMALL], "is for the table of a sweep"),
        (["report", f"{folder}/bfc-0.4-1", "--table", "csv", "--statistic", SMALL], "is for the table of a sweep"),
        (["sweep", "quickstart", "--seeds", "2", "--statistic", "p99 slow"], "is the name of no statistic"),
        (["run", "quickstart", "--table", "tex"], 'table = "tex": must be one of'),
    ):
        assert main(wrong) == 2
        assert rule in capsys.readouterr().err


# -- pandas


def test_pandas(swept):
    pd = pytest.importorskip("pandas", reason="needs pip install 'penstock-net[pandas]'")
    frame = swept.to_pandas()
    assert isinstance(frame, pd.DataFrame) and list(frame.columns) == swept.runs.columns and len(frame) == 12


def test_what_pandas_needs_is_named(swept, monkeypatch):
    def fail(frame):
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr(pl.DataFrame, "to_pandas", fail)
    with pytest.raises(SpecError, match=r"needs pyarrow; pip install 'penstock-net\[pandas\]'"):
        swept.to_pandas()


def test_the_class_is_public():
    assert ps.Statistic is Statistic
