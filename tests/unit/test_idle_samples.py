"""Samples of switches without rows for idle ones: whatever is computed of them is what all rows say."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.inputs import time_ps
from penstock_net.report import dictionary, figures, plots
from penstock_net.report.plots import canvas
from penstock_net.results.distribution import Distribution
from penstock_net.results.frames import make_frame
from penstock_net.results.reading import read_samples, scan_frame
from penstock_net.results.samples import KEY, Grid, Samples
from penstock_net.sim.settings import Settings
from penstock_net.trace import write_trace

COLUMNS = ("buffer_bytes", "max_queue_bytes", "active_flows")
SWITCHES = [3, 4, 9]


@st.composite
def sampled(draw) -> tuple[Samples, Samples]:
    """Samples with a row for each, and the same without rows for idle switches."""
    period, first, count = draw(st.integers(1, 10**7)), draw(st.integers(0, 9)), draw(st.integers(0, 6))
    idle = draw(st.lists(st.sampled_from([0, -1]), min_size=3, max_size=3))
    number = len(SWITCHES) * count
    busy = draw(st.lists(st.booleans(), min_size=number, max_size=number))
    values = draw(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=number, max_size=number))
    grid = Grid(period, first, first + count, np.array(SWITCHES, dtype=np.int32), np.array(idle, dtype=np.int32))
    rows = [value if is_busy else (0, 0, idle[i % 3]) for i, (is_busy, value) in enumerate(zip(busy, values))]
    frame = make_frame(
        "switches",
        {
            "time_ps": np.repeat(np.arange(first, first + count) * period, 3),
            "switch": np.tile(np.array(SWITCHES, dtype=np.int64), count),
            **dict(zip(COLUMNS, np.array(rows, dtype=np.int64).reshape(-1, 3).T)),
        },
    )
    return Samples(frame), Samples(frame.filter(pl.Series(busy, dtype=pl.Boolean)), grid)


def same(one: Samples, other: Samples) -> None:
    assert one.height == other.height and one.whole.equals(other.whole) and one.whole.schema == other.whole.schema
    assert one.switches == other.switches and one.times.equals(other.times)
    for column in COLUMNS:
        found, expected = other.distribution(column), one.distribution(column)
        assert found.values.tolist() == expected.values.tolist() and found.counts.tolist() == expected.counts.tolist()
        assert one.largest(column).rows() == other.largest(column).rows()


@given(sampled(), st.sampled_from(SWITCHES), st.integers(0, 20), st.integers(0, 20), st.booleans())
@examples(40)
def test_everything_counts_samples_without_rows(both, switch, low, high, with_last):
    whole, sparse = both
    same(whole, sparse)
    if whole.height:
        same(whole.of(switch), sparse.of(switch))
        step = sparse.grid.period_ps / 1000.0
        same(*(samples.between(low * step, high * step, with_last=with_last) for samples in both))
        rows = whole.rows
        for wrong in (
            rows.with_columns(pl.col("time_ns") + 0.25 * step),
            rows.with_columns(switch=pl.lit(5, pl.Int32)),
            rows.with_columns(max_queue_bytes=pl.lit(None, pl.Int64)),
            rows.reverse(),
            pl.concat([rows, rows.tail(1)]),
        ):
            with pytest.raises(ValueError, match=KEY):
                Samples(wrong, sparse.grid)
    again = Grid.parse(sparse.grid.text())
    assert again.text() == sparse.grid.text() and again.end == sparse.grid.end


@given(sampled(), st.integers(1, 9), st.integers(0, 9))
@examples(40)
def test_they_are_read_in_parts(both, chunk, rows):
    whole, sparse = (samples.lazy() for samples in both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock_net.results.samples.CHUNK", chunk)
        assert sparse.collect().equals(whole.collect()) and sparse.collect_schema() == whole.collect_schema()
        for query in (
            lambda frame: frame.filter(pl.col("switch") == 4).select("active_flows"),
            lambda frame: frame.head(rows),
            lambda frame: frame.filter(pl.col("buffer_bytes") > 3).sort("time_ns").select(pl.col("buffer_bytes") / 2),
        ):
            assert query(sparse).collect().equals(query(whole).collect())


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.lists(st.floats(0, 100), min_size=1, max_size=5))
@examples(40)
def test_a_distribution_is_that_of_its_values(numbers, shares):
    values = np.array(numbers) / 7
    found = Distribution.of(values)
    assert len(found) == len(values) and found.mean() == pytest.approx(values.mean(), rel=1e-12)
    assert found.percentiles(shares).tolist() == np.percentile(values, shares).tolist()
    x, y = canvas.cdf(found)
    assert y.tolist()[1:] == [np.mean(values <= at) for at in x[1:]]
    assert x.tolist() == [values.min(), *np.unique(values)]


def incast(scheme: str, **measure) -> ps.Run:
    """Some switches have BFC and count flows, others have none, and most of them are idle."""
    topo = ps.fat_tree(k=4)
    flows = ps.flow_list(topo, [(4, 0, 30_000, 0), (8, 0, 30_000, "3us"), (9, 0, 30_000, "3us"), (12, 0, 2000, "200us")])
    parameters = {"plain_switches": ["core*", "agg*"]} if scheme == "bfc" else {}
    return ps.simulate(topo, flows, parse(scheme, parameters), measure=ps.Measure(sample="500ns", **measure))


@pytest.fixture(scope="module")
def runs() -> list[tuple[ps.Run, ps.Run]]:
    """Runs, and the same with a row for each sample."""
    found = [incast(scheme, queues=True, pauses=True, port_series=True) for scheme in ("bfc", "pfc")]
    return [(run, run.changed(samples=Samples(run.switches))) for run in found]


def test_idle_switches_have_no_rows(runs, tmp_path):
    for number, (run, whole) in enumerate(runs):
        rows = run.samples.rows
        busy = (pl.col("buffer_bytes") > 0) | (pl.col("max_queue_bytes") > 0) | (pl.col("active_flows") > 0)
        assert rows.equals(whole.switches.filter(busy)) and 0 < rows.height < whole.switches.height / 20
        assert whole.switches.height == 20 * whole.switches["time_ns"].n_unique() == run.samples.height
        path = run.save(tmp_path / str(number))
        assert pl.read_parquet(path / "switches.parquet").equals(rows)
        again = ps.Run.load(path)
        assert again == run == whole and again.fingerprint() == run.fingerprint() == whole.fingerprint()
        assert scan_frame(path, "switches").collect().equals(whole.switches)
        assert f"switches.parquet   {rows.height} rows" in dictionary.text(again)
    counted = runs[0][0].switches.group_by("switch").agg(pl.col("active_flows").min()).sort("switch")["active_flows"]
    assert counted.to_list() == [0 if name.startswith("tor") else -1 for name in ps.fat_tree(k=4).names[16:]]


def test_a_run_of_an_older_version_has_all_rows(runs, tmp_path):
    run, whole = runs[0]
    path = whole.save(tmp_path / "old")
    assert KEY not in pl.read_parquet_metadata(path / "switches.parquet")
    again = ps.Run.load(path)
    assert again == run and again.samples.grid is None
    same(again.samples, run.samples)


def test_figures_and_reports_are_the_same(runs):
    for window in (None, [1000.0, 20_000.0]):
        both = [[run.changed(summary=run.summary | {"window_ns": window}) for run in part] for part in zip(*runs)]
        sparse, whole = both
        found, expected = (figures.figures(part, "receiver") for part in both)
        assert [figure.data() for figure in found] == [figure.data() for figure in expected]
        assert [figure.table for figure in found] == [figure.table for figure in expected]
        queue = sparse[0].queues.row(0, named=True)
        options = (
            ("buffer_cdf", {}),
            ("timeseries", {"column": "max_queue_bytes"}),
            ("timeseries", {"switch": "tor0", "time": "1us..9us"}),
            ("active_flows", {}),
            ("port", {"port": f"{queue['node']}:{queue['port']}", "queue": queue["queue"]}),
        )
        for kind, more in options:
            drawn = []
            for part in (sparse[:1], whole[:1]):
                axes = plots.draw(kind, *part, **more).axes
                drawn.append([line.get_xydata().tolist() for panel in axes for line in panel.get_lines()])
            assert drawn[0] == drawn[1] and drawn[0], kind


def test_counters_of_a_trace_are_the_same(runs, tmp_path):
    pytest.importorskip("perfetto")
    traces = [tmp_path / name for name in ("sparse.pftrace", "whole.pftrace")]
    for run, path in zip(runs[0], traces):
        write_trace(run, path)
    assert traces[0].read_bytes() == traces[1].read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"period_ps": 0},
        {"period_ps": "2"},
        {"period_ps": 400_000},
        {"count": 3},
        {"count": 10**30},
        {"switches": [17]},
        {"switches": None},
        {"switches": [10**12]},
        {"active_flows": [7] * 20},
        {"active_flows": []},
    ],
)
def test_metadata_that_do_not_fit_are_refused(runs, tmp_path, change):
    path: Path = runs[0][0].save(tmp_path / "run")
    (path / "SHA256SUMS").unlink()
    file = path / "switches.parquet"
    about = pl.read_parquet_metadata(file)
    for text in (json.dumps(json.loads(about[KEY]) | change), "[]", "{", "1"):
        pl.read_parquet(file).write_parquet(file, metadata={KEY: text})
        with pytest.raises(SpecError, match=f"switches.parquet: cannot be read .metadata {KEY}: "):
            read_samples(path)


def test_few_flows_among_many_hosts_for_long(tmp_path):
    topo = ps.fat_tree(k=32)
    run = ps.simulate(topo, ps.flow_list(topo, [(0, 8191, 1000), (1, 8190, 1000, "30ms")]), duration="100ms", drain=False)
    assert run.samples.height > 1280 * 15_000 and run.samples.rows.height < 100
    run.samples.distribution("buffer_bytes")
    assert (run.save(tmp_path / "run") / "switches.parquet").stat().st_size < 50_000


@pytest.mark.parametrize(
    ("rate", "sample", "duration", "refused"),
    [
        ("100Gbps", "1ps", "1ns", "must be at least 1ns"),
        ("100Gbps", "999ps", "1us", "must be at least 1ns"),
        ("100Gbps", "1ns", "1us", ""),
        ("800Gbps", "640ps", "1us", ""),
        ("800Gbps", "639ps", "1us", "must be at least 640ps"),
        ("1Mbps", "1ns", "1us", "8000000000 samples of a switch in 8s are more than 33554432; sample less often, such as 8ms"),
        ("1Mbps", "2us", "10s", ""),
        ("100Gbps", "100ns", "10s", "samples of a switch in 10s are more than"),
        ("100Gbps", "0us", "10s", ""),
        ("100Gbps", "2us", "60s", ""),
    ],
)
def test_samples_that_are_too_close(rate, sample, duration, refused):
    topo = ps.star(hosts=3, rate=rate)
    flows, measure = ps.flow_list(topo, [(0, 1, 10**6)]), ps.Measure(sample=sample)
    given = {"duration_ps": time_ps(duration, "duration"), "measure": measure, "max_time_ps": 10**15}
    if not refused:
        Settings(topo, flows, parse("fifo"), **given)
        return
    with pytest.raises(SpecError, match=f'measure.sample = "{sample}": .*{refused}'):
        Settings(topo, flows, parse("fifo"), **given)
