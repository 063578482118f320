"""What the outputs say of training jobs: each by itself, and why its steps took as long; which flows are short and long."""

import re

import numpy as np
import polars as pl
import pytest

import penstock_net as ps
from penstock_net.report import html, jobs, plots, tables
from penstock_net.report.plots.sweeps import axis_of
from penstock_net.results import cells
from penstock_net.results.limits import FIXED, Limits, sizes, sizes_of
from penstock_net.results.run import Run
from penstock_net.workload.taskgraph import TaskGraph

PS = 10**6  # of a us
SPEC = """
[run]
duration = "1ms"
[topology]
kind = "star"
hosts = 4
[scheme]
name = "pfc"
[[workload]]
kind = "training"
hosts = [0, 1]
class = "v1.5 big"
data = 2
layers = 1
parameters = "100KB"
[[workload]]
kind = "training"
hosts = [2, 3]
class = "small"
data = 2
layers = 1
forward = "50us"
parameters = "50KB"
"""


def run_of(sizes: list[int], class_: str = "poisson", slowdown: int = 1) -> Run:
    same = {name: [0] * len(sizes) for name in ("start_ps", "src", "class_id", "priority")}
    flows = {**same, "dst": [1] * len(sizes), "bytes": sizes, "ideal_ps": [100] * len(sizes), "classes": (class_,)}
    return Run.from_arrays(
        flows | {"finish_ps": [100 * slowdown * nth for nth in range(1, len(sizes) + 1)]}, summary={"scheme": "x"}
    )


# -- short and long


@pytest.mark.parametrize(
    ("given", "short", "long"),
    [
        ([1000, 5000, 4_000_000], FIXED.short, FIXED.long),
        ([3000, 5000, 4_000_000], 3000, FIXED.long),
        ([2999, 5000, 3_000_000], FIXED.short, 3_000_000),
        (list(range(10_000, 100_000, 10_000)), 30_000, 70_000),
        ([62_500] * 7, 62_500, 62_500),
        ([10_000] * 8 + [20_000], 10_000, 10_000),
        ([], FIXED.short, FIXED.long),
    ],
)
def test_limits_are_the_papers_where_they_hold_flows_and_thirds_elsewhere(given, short, long):
    assert Limits.of_sizes([sizes_of(np.array(given, dtype=np.int64))]) == Limits(short, long)
    parts = [sizes_of(np.array(part, dtype=np.int64)) for part in (given[::2], given[1::2])]
    assert Limits.of_sizes(parts) == Limits(short, long)  # of several runs, which have some sizes in common


def test_runs_have_the_same_limits_and_one_that_has_such_flows_decides():
    """Else a mean over the runs would be one of different flows."""
    without, one_short = run_of([10_000, 20_000, 30_000]), run_of([2000, 20_000, 30_000])
    assert Limits.of_runs([without, one_short]).short == FIXED.short
    frame = tables.comparison([without, one_short])
    assert frame["short_p50"].to_list() == [None, 1]
    assert tables.comparison([without])["short_p50"].to_list() == [1]


def test_what_short_means_is_said():
    assert str(FIXED) == "short: below 3KB, long: above 3MB"
    run = run_of(list(range(10_000, 100_000, 10_000)))
    said = "short: up to 30KB (the smallest third; none is below 3KB), long: from 70KB (the largest third; none is above 3MB)"
    assert said in tables.shown([run]) and said in html.page([run]).replace("\n", " ")
    assert max(map(len, tables.shown([run]).splitlines())) <= 135
    assert axis_of("short_p99", Limits(30_000))[0] == "FCT slowdown, smallest third of flows (99th pct.)"
    assert axis_of("short_p99")[0] == "FCT slowdown, short flows (99th pct.)"


def test_incast_has_a_column_of_its_own():
    topo = ps.star(hosts=8)
    flows = ps.poisson(topo, load=0.2, load_on="host", duration="100us") + ps.incast(
        topo, fan_in=6, total="600KB", every="50us", duration="100us"
    )
    run = ps.simulate(topo, flows, scheme="pfc")
    row = tables.row(run)
    done = run.selected().drop_nulls("slowdown")
    assert row["incast_p99"] == done.filter(pl.col("class") == "incast")["slowdown"].quantile(0.99, "linear")
    assert row["all_p99"] == done.filter(pl.col("class") != "incast")["slowdown"].quantile(0.99, "linear")
    assert row["incast_p99"] != row["all_p99"] and row["flows"] == done.height
    assert "incast" in tables.text([run]).splitlines()[0]
    assert "incast" not in tables.text(
        [ps.simulate(topo, ps.poisson(topo, load=0.2, load_on="host", duration="100us"), scheme="pfc")]
    )


# -- jobs in a sweep


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "two.toml").write_text(SPEC)
    return ps.sweep(folder / "two.toml", {"topology.rate": ["50Gbps", "100Gbps"]}, out=folder / "out", workers=1, progress=False)


def test_a_sweep_knows_the_steps_of_each_job(swept):
    """By its name, which may have a point in it; two jobs are never averaged."""
    assert swept.parameters == ("topology.rate",)
    for row, run in swept:
        training = run.summary["training"]
        assert training["step_ns"] is None and [job["name"] for job in training["jobs"]] == ["v1.5 big", "small"]
        for job in training["jobs"]:
            for kind in cells.OF_JOB:
                assert row[f"{kind} of {job['name']}"] == job[kind]
    assert swept.runs["step_ns of small"][0] != swept.runs["step_ns of v1.5 big"][0]
    head, first, *_ = swept.table().splitlines()
    for text in ("step, v1.5 big", "exposed, small", "bus bandwidth, small"):
        assert text in head
    assert "Gbit/s" in first and re.search(r"\d us|\dus", first)
    assert "step, small" in swept.table("step_ns of small")
    assert swept.where(rate="50Gbps").limits == swept.limits != FIXED


def test_a_sweep_of_messages_has_short_and_long_ones(swept):
    assert swept.runs["short_p99"].null_count() == swept.runs["long_p99"].null_count() == 0
    assert "the smallest third" in swept.table() and "the smallest third" in swept.table("short_p99")
    assert "third" not in swept.table("drops")
    figure = plots.against(swept, y="short_p99")
    assert "third" in figure.axes[0].get_ylabel() and "the smallest third" in "".join(text.get_text() for text in figure.texts)
    assert ps.Sweep.load(swept.path).limits == swept.limits
    (row, run), *_ = swept
    assert row["short_p50"] == tables.row(run, swept.limits)["short_p50"]
    assert swept.limits == Limits.of_sizes(sizes(run) for _, run in swept)


def test_steps_of_a_job_against_a_parameter(swept):
    figure = plots.against(swept, y="step_ns of small")
    assert figure.axes[0].get_ylabel().replace("\n", " ") == "Step time of small (ms)"
    drawn = figure.axes[0].lines[0].get_ydata() if figure.axes[0].lines else figure.axes[0].containers[0].lines[0].get_ydata()
    assert max(drawn) == pytest.approx(max(swept.runs["step_ns of small"]) / 1e6)


# -- why


def chain(
    topo: ps.Topology,
    others: list[tuple[int, int, str, str]],
    scheme: str = "pfc",
    job_hosts: tuple[int, ...] = (0, 1, 2),
    size: int = 100_000,
) -> Run:
    """Rank 0 computes 10 us and sends to rank 1, which computes 5 us; rank 2 sends to rank 1 at once, and is waited for, too."""
    graph = TaskGraph(hosts=np.array(job_hosts))
    ranks = np.arange(3)
    begun = graph.begin(ranks)
    computed = graph.compute(ranks[:1], 10 * PS, [begun[:1]], "forward")
    sent = graph.send(ranks[:1], ranks[1:2], size, [computed])
    early = graph.send(ranks[2:], ranks[1:2], 1000, [begun[2:]])
    graph.compute(ranks[1:2], 5 * PS, [sent, early], "backward")
    return ps.simulate(topo, graph.flows() + ps.flow_list(topo, others), scheme=scheme)


def test_what_a_step_waited_for_is_read_off_its_flows():
    topo = ps.star(hosts=5, rate="100Gbps")
    alone = chain(topo, [(3, 4, "1KB", "0us")]).summary["training"]["iterations"][0]["waited_for"]
    assert (alone["compute_ns"], alone["late_ns"], alone["src"], alone["dst"]) == (15_000, 0, 0, 1)
    assert "later than alone" in jobs.waited_for(alone)
    run = chain(topo, [(3, 1, "2MB", "0us")])
    found = run.summary["training"]["iterations"][0]["waited_for"]
    (message,) = run.flows.filter((pl.col("src") == 0) & (pl.col("bytes") == 100_000)).rows(named=True)
    late = message["fct_ns"] - message["ideal_fct_ns"]
    assert late > 5000 and found["late_ns"] == pytest.approx(late) and found["pair_late_ns"] == pytest.approx(late)
    assert (found["compute_ns"], found["src"], found["dst"], found["messages"]) == (15_000, 0, 1, 1)
    assert found["port"] == "switch0:1" and 0.5 < found["utilization"] <= 1 and found["max_queue_bytes"] > 10_000
    step = run.summary["training"]["iterations"][0]["step_ns"]
    assert found["compute_ns"] + found["late_ns"] + message["ideal_fct_ns"] == pytest.approx(step)
    said = jobs.waited_for(found)
    assert (
        "those from rank 0 to 1 (1)" in said
        and "busiest port on their path: switch0:1" in said
        and "no port of it was paused" in said
    )


def test_ranks_are_named_by_their_place_in_the_job_not_by_their_host():
    found = chain(ps.star(hosts=5), [(3, 4, "2MB", "0us")], job_hosts=(2, 4, 0)).summary["training"]["iterations"][0][
        "waited_for"
    ]
    assert (found["src"], found["dst"], found["port"]) == (0, 1, "switch0:4")


def test_pauses_of_the_sender_are_counted():
    topo = ps.star(hosts=5, buffer="250KB")
    found = chain(topo, [(3, 1, "2MB", "0us"), (4, 1, "2MB", "0us")], size=2_000_000).summary["training"]["jobs"][0]["waited_for"]
    assert found["paused_port"] == "host0:0" and found["paused_port_ns"] > 100_000 and found["pair_paused_ns"] == 0
    assert "port paused longest: host0:0" in jobs.waited_for(found)
    others = [(3, 1, "2MB", "0us"), (4, 1, "2MB", "0us")]
    by_flow = chain(topo, others, scheme="bfc", size=2_000_000).summary["training"]["jobs"][0]["waited_for"]
    assert 0 < by_flow["pair_paused_ns"] <= by_flow["pair_late_ns"] and by_flow["paused_port"] is None
    assert "their flows were paused at the sender for" in jobs.waited_for(by_flow)


def test_no_port_is_named_where_packets_may_take_several_paths():
    topo = ps.leaf_spine(hosts=6, tors=2, spines=2)
    found = chain(topo, [(3, 1, "2MB", "0us")], scheme="pfc+spray").summary["training"]["jobs"][0]["waited_for"]
    assert found["late_ns"] > 0 and found["port"] is None and "busiest" not in jobs.waited_for(found)


def test_time_behind_earlier_messages_of_a_connection():
    """Two messages to one rank that are ready at once: the second waits for the first."""
    topo = ps.star(hosts=2)
    graph = TaskGraph(hosts=np.arange(2), connections="pair")
    ranks = np.arange(2)
    begun = graph.begin(ranks)
    sent = [graph.send(ranks[:1], ranks[1:], 1_000_000, [begun[:1]]) for _ in range(2)]
    graph.compute(ranks[1:], PS, sent, "x")
    run = ps.simulate(topo, graph.flows(), scheme="pfc")
    found = run.summary["training"]["jobs"][0]["waited_for"]
    first, second = sorted(run.flows["finish_ns"])
    assert 0.9 * first < found["pair_behind_ns"] <= found["pair_late_ns"] < first
    assert second > 1.9 * first


def test_a_step_that_has_not_ended_is_waited_for_by_nobody():
    topo = ps.star(hosts=2)
    flows = ps.training(topo, data=2, layers=1, parameters="100MB", forward="10us", iterations=2)
    run = ps.simulate(topo, flows, scheme="pfc", max_time_ps=10**9)
    assert all(row["waited_for"] is None for row in run.summary["training"]["iterations"])
    assert "not known" in tables.shown([run])


# -- the page


def test_the_page_shows_steps_operations_and_a_timeline(swept):
    (_, run), *_ = swept
    page = html.page([run, run_of([1000])])
    for text in ("Training: every step", "Training: operations", "v1.5 big, all-reduce", "late by", "What each rank computes"):
        assert text in page
    from test_report import data_of

    (timeline,) = [figure for figure in data_of(page)["figures"] if figure["kind"] == "spans"]
    curve, other = timeline["variants"]["|"]
    assert other is None and curve["ticks"][1] == ["v1.5 big 0", "v1.5 big 1", "small 0", "small 1"]
    rows = run.frame("timeline").drop_nulls().filter(pl.col("finish_ns") > pl.col("start_ns"))
    assert sum(len(part["x"]) for part in curve["spans"]) == rows.height
    ends = max(base + length for part in curve["spans"] for base, length in zip(part["base"], part["x"]))
    assert ends == pytest.approx(rows["finish_ns"].max() / 1e6, rel=1e-3)
    assert "timeline0" not in html.page([run_of([1000])])
