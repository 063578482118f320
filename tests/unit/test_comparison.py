"""A run beside the completion times of another simulator: which flow is which, what is reported, what is refused."""

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

import penstock_net as ps
from penstock_net.cli.compare import text
from penstock_net.errors import SpecError
from penstock_net.results.comparison import NEAR_NS


@pytest.fixture(scope="module")
def run():
    topo = ps.leaf_spine(hosts=8, tors=2, spines=2, rate="100Gbps", delay="1us", buffer="1MB")
    flows = ps.poisson(topo, sizes="google", load=0.5, duration="300us", seed=1)
    return ps.simulate(topo, flows, scheme="bfc", seed=1)


def written(path, flows, factor=1.0, shift_ns=0.0, unit="ns", scale=1.0, names=None):
    """The times of these flows, multiplied, as another simulator's file."""
    hosts = (lambda n: names[n]) if names else str
    lines = [f"src,dst,bytes,start_{unit},fct_{unit}"]
    for row in flows.iter_rows(named=True):
        start, fct = (row["start_ns"] + shift_ns) * scale, row["fct_ns"] * factor * scale
        lines.append(f"{hosts(row['src'])},{hosts(row['dst'])},{row['bytes']},{start:.12f},{fct:.12f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("unit, scale", [("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)])
def test_the_same_times_agree_in_everything(run, tmp_path, unit, scale):
    found = ps.compare(run, written(tmp_path / "other.csv", run.flows.reverse(), unit=unit, scale=scale))
    assert len(found.flows) == len(run.flows) and not found.warnings
    ratios = found.table.drop("size", "flows").to_numpy()
    assert np.allclose(ratios, 1, rtol=1e-4), "as many digits as the file has"
    assert found.flows["flow_id"].to_list() == sorted(found.flows["flow_id"])


def test_a_factor_is_found_in_every_row_and_a_shift_of_all_starts_is_none(run, tmp_path):
    found = ps.compare(run, written(tmp_path / "other.csv", run.flows, factor=2, shift_ns=2e9))
    assert np.allclose(found.table.drop("size", "flows").to_numpy(), 0.5, rtol=1e-6)
    assert found.shift_ns == pytest.approx(2e9) and not found.apart and not found.warnings
    rows = found.table
    assert rows["size"][0] == "all" and rows["flows"][0] == rows["flows"][1:].sum() == len(run.flows)


def test_by_the_clock_of_the_sender(run, tmp_path):
    at_sender = run.flows.with_columns(fct_ns=pl.col("acked_ns") - pl.col("start_ns"))
    other = written(tmp_path / "other.csv", at_sender)
    assert np.allclose(ps.compare(run, other, clock="sender").table.drop("size", "flows").to_numpy(), 1, rtol=1e-6)
    assert (ps.compare(run, other).flows["ratio"] < 1).all(), "the last acknowledgement comes after the last byte"
    with pytest.raises(SpecError, match='clock = "nic"'):
        ps.compare(run, other, clock="nic")


def test_a_size_between_two_rows_counts_in_the_upper_one(tmp_path):
    topo = ps.star(hosts=3)
    run = ps.simulate(topo, ps.flow_list(topo, [(0, 1, size, f"{9 * i}us") for i, size in enumerate((9_999, 10_000))]), "fifo")
    rows = ps.compare(run, written(tmp_path / "other.csv", run.flows)).table
    assert rows.select("size", "flows").rows() == [("all", 2), ("..10KB", 1), ("10KB..100KB", 1)]


def test_quantiles_that_agree_hide_flows_that_do_not(run, tmp_path):
    """Two flows of one size, whose times are exchanged."""
    flows = run.flows.with_columns(fct_ns=pl.col("fct_ns").reverse())
    found = ps.compare(run, written(tmp_path / "other.csv", flows))
    row = found.table.row(0, named=True)
    assert row["p50"] == pytest.approx(1) and row["p99"] == pytest.approx(1) and row["mean"] == pytest.approx(1)
    assert row["flow_p95"] > 1.5 and row["flow_p5"] < 0.7
    worst = found.worst(1).row(0, named=True)
    assert abs(np.log(worst["ratio"])) == pytest.approx(np.abs(np.log(found.flows["ratio"].to_numpy())).max())


@examples(40)
@given(lost=st.sets(st.integers(0, 200), max_size=60), more=st.integers(0, 3), jitter=st.floats(0, 0.4 * NEAR_NS))
def test_each_flow_is_itself_though_others_are_missing(run, tmp_path_factory, lost, more, jitter):
    """Flows of one source, destination and size are told apart by their starts, which may be a little off."""
    one = run.flows.head(40)
    apart = pl.Series([20_000.0 * i for i in range(len(one))])
    repeated = pl.concat(
        [one.with_columns(start_ns=apart + 10_000.0 * k, flow_id=pl.col("flow_id") + 1000 * k) for k in range(3)]
    )
    ours = run.changed(flows=repeated)
    theirs = repeated.with_columns(fct_ns=pl.col("flow_id") + 1.0, start_ns=pl.col("start_ns") + jitter)
    kept = theirs.filter(~pl.Series([i in lost for i in range(len(theirs))]))
    extra = theirs.head(more).with_columns(start_ns=pl.col("start_ns") + 5e6)
    found = ps.compare(ours, written(tmp_path_factory.mktemp("m") / "other.csv", pl.concat([kept, extra])))
    exact = found.flows.filter((pl.col("reference_start_ns") - pl.col("start_ns") - jitter).abs() < 1)
    assert (exact["reference_fct_ns"] == exact["flow_id"] + 1).all()
    assert len(exact) >= len(kept) - 3 * more - (3 if lost else 0), "all but those beside a flow that the other has in its place"
    assert len(found.flows) + found.only_run == len(repeated) and len(found.flows) + found.only_reference == len(kept) + more


def test_flows_that_one_does_not_have_are_counted(run, tmp_path):
    found = ps.compare(run, written(tmp_path / "other.csv", run.flows[5:]))
    assert found.only_run == 5 and not found.only_reference and "5 finished flows" in found.warnings[0]
    fewer = run.changed(flows=run.flows[7:])
    found = ps.compare(fewer, written(tmp_path / "other.csv", run.flows))
    assert found.only_reference == 7 and "7 flows of" in found.warnings[0]


def test_starts_that_differ_are_said(run, tmp_path):
    late = run.flows.with_columns(start_ns=pl.col("start_ns") + pl.when(pl.int_range(pl.len()) < 9).then(50_000).otherwise(0))
    found = ps.compare(run, written(tmp_path / "other.csv", late))
    assert found.apart == 9 and "9 of" in found.warnings[-1]


def test_the_file_of_the_hpcc_simulator(run, tmp_path):
    """Host i is 11.(i / 256).(i % 256).1; times in ns, from 2 s on."""
    lines = []
    for row in run.flows.iter_rows(named=True):
        src, dst = (0x0B000001 + (row[end] // 256 << 16) + (row[end] % 256 << 8) for end in ("src", "dst"))
        start, fct = 2_000_000_000 + round(row["start_ns"]), round(row["fct_ns"] * 2)
        lines.append(f"{src:08x} {dst:08x} 10000 100 {row['bytes']} {start} {fct} {round(row['ideal_fct_ns'])}")
    (tmp_path / "fct.txt").write_text("\n".join(lines) + "\n")
    found = ps.compare(run, tmp_path / "fct.txt")
    assert len(found.flows) == len(run.flows) and not found.apart
    assert found.table["p50"][0] == pytest.approx(0.5, rel=1e-3)
    (tmp_path / "fct.txt").write_text("\n".join(lines)[:-40] + "\n")
    with pytest.raises(SpecError, match="truncated"):
        ps.compare(run, tmp_path / "fct.txt")


def test_hosts_by_name(run, tmp_path):
    names = run.frame("nodes").sort("node")["name"].to_list()
    found = ps.compare(run, written(tmp_path / "other.csv", run.flows, names=names))
    assert len(found.flows) == len(run.flows)


@pytest.mark.parametrize(
    "content, says",
    [
        ("", "empty"),
        ("src,dst,bytes,start_us,fct_us\n", "no flows"),
        ("src,dst,bytes,start,fct\n0,1,1000,0,9\n", "unit is missing"),
        ("src,dst,bytes,start_us\n0,1,1000,0\n", "fct_us is missing"),
        ("src,dst,bytes,start_us,start_ns,fct_us\n0,1,1000,0,0,9\n", "occurs twice"),
        ("src,dst,bytes,start_us,fct_us\n0,1,1000,0\n", ":2"),
        ("src,dst,bytes,start_us,fct_us\n0,1,1000,0,x\n", "fct = "),
        ("src,dst,bytes,start_us,fct_us\n0,1,1000,0,0\n", "more than 0"),
        ("src,dst,bytes,start_us,fct_us\n0,1,1000,-1,9\n", "start"),
        ("src,dst,bytes,start_us,fct_us\n0,1,1000,1e300,9\n", "start"),
        ("src,dst,bytes,start_us,fct_us\nnobody,1,1000,0,9\n", "no such host"),
        ("src,dst,bytes,start_us,fct_us\n0,1,1.5,0,9\n", "bytes"),
        ("src,dst,bytes,start_us,fct_us\n0,1,123456789,0,9\n", "same flows"),
    ],
)
def test_a_file_that_is_none_is_refused(run, tmp_path, content, says):
    (tmp_path / "other.csv").write_text(content)
    with pytest.raises(SpecError, match=says):
        ps.compare(run, tmp_path / "other.csv")


def test_columns_that_are_not_read_are_said(run, tmp_path):
    path = written(tmp_path / "other.csv", run.flows)
    path.write_text(path.read_text().replace("\n", ",x\n"))
    with pytest.warns(UserWarning, match="columns x"):
        assert len(ps.compare(run, path).flows) == len(run.flows)


@examples(100)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: ("src,dst,bytes,start_us,fct_us\n" + t).encode()))
def test_any_file_is_taken_or_refused_in_words(run, tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "other.csv"
    path.write_bytes(content)
    with pytest.raises(SpecError):
        ps.compare(run, path)


def test_what_is_printed_and_drawn(run, tmp_path):
    found = ps.compare(run, written(tmp_path / "other.csv", run.flows, factor=1.1))
    lines = text(found).splitlines()
    assert lines[1].split()[:4] == ["size", "flows", "mean", "p5"] and lines[2].split()[2] == "0.909"
    figure = ps.plot.agreement(found)
    (axes,) = figure.axes
    assert len(axes.get_lines()) == 3 and axes.get_ylabel() == "FCT here / FCT there"
