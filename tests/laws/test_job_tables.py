"""The table of training jobs: each job by its name, its numbers those of the frames; two jobs are never averaged."""

import csv
import io

import polars as pl
import pytest

import penstock_net as ps
from penstock_net.report import html, jobs, tables

PLAN = {"data": 4, "tensor": 1, "layers": 1, "parameters": "200KB", "iterations": 2}


@pytest.fixture(scope="module")
def run():
    topo = ps.star(hosts=8, rate="100Gbps", delay="1us", buffer="4MB")
    large = ps.training(topo, hosts=[0, 1, 2, 3], class_name="large", **PLAN | {"parameters": "2MB"})
    small = ps.training(topo, hosts=[4, 5, 6, 7], class_name="small", **PLAN)
    return ps.simulate(topo, large + small, scheme="pfc")


def test_a_row_per_job_by_its_name(run):
    table = jobs.printed([run])
    assert [row[:3] for row in table.rows] == [["pfc", "large", "2"], ["pfc", "small", "2"]]
    for number, row in enumerate(table.frame.iter_rows(named=True)):
        ranks = run.frame("ranks").filter(pl.col("job") == number)
        assert row["exposed_ns"] == pytest.approx(ranks["exposed_ns"].mean())
        ends = ranks.group_by("iteration", maintain_order=True).agg(pl.col("start_ns").min(), pl.col("finish_ns").max())
        assert row["step_ns"] == pytest.approx((ends["finish_ns"][-1] - ends["start_ns"][0]) / 2)
        done = run.frame("operations").filter((pl.col("job") == number) & (pl.col("kind") == row["collective"]))
        assert row["bus_bandwidth_bps"] == pytest.approx(done["bus_bandwidth_bps"].median())
        assert row["slowest_in"] in (1, 2) and row["slowest_rank"] in ranks["rank"]
    assert table.frame["step_ns"][0] > table.frame["step_ns"][1], "two megabytes take longer than 200 KB"


def test_jobs_of_one_class_are_told_apart():
    topo = ps.star(hosts=8, rate="100Gbps", delay="1us", buffer="4MB")
    both = ps.training(topo, hosts=[0, 1, 2, 3], **PLAN) + ps.training(topo, hosts=[4, 5, 6, 7], **PLAN)
    names = [job["name"] for job in ps.simulate(topo, both, scheme="pfc").summary["training"]["jobs"]]
    assert names == ["training 0", "training 1"]


def test_where_the_table_is(run):
    text = tables.shown([run])
    assert "bus bandwidth" in text and jobs.NOTE in text
    page = html.page([run])
    assert "Training: steps by job" in page and "large" in page
    rows = list(csv.DictReader(io.StringIO(tables.shown([run], "csv").split("\n\n")[1])))
    assert [row["job"] for row in rows] == ["large", "small"] and float(rows[0]["step_ns"]) > 0
    assert tables.shown([run], "latex").count(r"\begin{tabular}") == 2


def test_the_timeline_has_the_names_of_the_jobs(run):
    figure = ps.plot.rank_timeline(run)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["large 0", "1", "2", "3", "small 0", "1", "2", "3"]
    one = run.changed(extra=run.extra | {"timeline": run.frame("timeline").filter(pl.col("job") == 0)})
    labels = [label.get_text() for label in ps.plot.rank_timeline(one).axes[0].get_yticklabels()]
    assert labels == ["0", "1", "2", "3"]


def test_runs_without_jobs_have_no_such_table(run):
    other = run.changed(summary={key: value for key, value in run.summary.items() if key != "training"})
    assert jobs.printed([other]) is None and "Training" not in html.page([other])
    older = {"jobs": [{"job": 0, "step_ns": 1.0}], "iterations": []}
    assert jobs.printed([run.changed(summary=run.summary | {"training": older})]) is None
