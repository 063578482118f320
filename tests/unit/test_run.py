"""Runs: exact columns, slowdown by size, directories that are whole or not there."""

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from fake_simulator import synthetic
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.report import dictionary
from penstock_net.results import rundir
from penstock_net.results.columns import COLUMNS, FILES, SUMMARY
from penstock_net.results.frames import empty_frame, flow_frame, make_frame
from penstock_net.results.run import FACEBOOK_BINS, GOOGLE_BINS, Run

CONTRACT = {
    "flows": "flow_id, src, dst, bytes, class, priority, start_ns, finish_ns, fct_ns, ideal_fct_ns, slowdown, "
    "retransmitted_bytes, paused_ns",
    "switches": "time_ns, switch, buffer_bytes, max_queue_bytes, active_flows",
    "ports": "node, port, peer, tx_bytes, tx_packets, drops, drop_reason, ecn_marks, "
    "pauses_sent, pauses_received, paused_ns, "
    "max_queue_bytes, utilization",
}


def flows(**changes: object) -> dict[str, object]:
    return {
        "start_ps": [0, 1001, 5],
        "finish_ps": [8_083_840, -1, 25],
        "ideal_ps": [8_083_840, 10, 10],
        "src": [0, 1, 2],
        "dst": [1, 2, 0],
        "bytes": [1000, 2000, 1_000_000],
        "class_id": [0, 1, 0],
        "classes": ("poisson", "incast"),
        "priority": [0, 0, 7],
        **changes,
    }


def test_columns_are_those_of_the_contract():
    run = synthetic("bfc", 100)
    for name, columns in CONTRACT.items():
        kept = re.split(r",\s*", columns)
        assert run.frames[name].columns == list(COLUMNS[name]) and list(COLUMNS[name])[: len(kept)] == kept


def test_flows_of_arrays():
    frame = flow_frame(**flows())
    assert frame["finish_ns"].to_list() == [8083.84, None, 0.025]
    assert frame["fct_ns"].to_list() == [8083.84, None, 0.02]
    assert frame["slowdown"].to_list() == [1.0, None, 2.0]
    assert frame["start_ns"].to_list() == [0.0, 1.001, 0.005]
    assert frame["class"].to_list() == ["poisson", "incast", "poisson"]
    assert frame["flow_id"].to_list() == [0, 1, 2] and frame["paused_ns"].to_list() == [0, 0, 0]
    assert frame.schema["bytes"] == pl.Int64 and frame.schema["slowdown"] == pl.Float64


def test_the_sender_s_clock():
    """By the sender a flow ends with its last acknowledgement; null: it had none."""
    frame = flow_frame(**flows(acked_ps=[9_000_000, -1, -1], ideal_acked_ps=[4_500_000, 10, 10]))
    assert frame["acked_ns"].to_list() == [9000.0, None, None]
    assert frame["sender_slowdown"].to_list() == [2.0, None, None]
    assert frame["slowdown"].to_list() == flow_frame(**flows())["slowdown"].to_list()
    unknown = flow_frame(**flows())
    assert unknown["acked_ns"].null_count() == unknown["sender_slowdown"].null_count() == 3
    with pytest.raises(ValueError, match="no column 'late_ps'"):
        flow_frame(**flows(late_ps=[1, 2, 3]))


def test_a_flow_that_never_started_has_no_times():
    frame = flow_frame(**flows(start_ps=[0, -1, 5]))
    assert frame["start_ns"].to_list() == [0.0, None, 0.005] and frame["fct_ns"][1] is None


@given(st.integers(0, 3600 * 10**12))
def test_nanoseconds_give_the_picoseconds_back(ps: int):
    ns = make_frame("pauses", {"time_ps": [ps], "node": [0], "port": [0], "queue": [0], "paused": [True]})["time_ns"][0]
    assert round(ns * 1000) == ps


def test_wrong_columns_are_refused():
    good = {"time_ns": [0.0], "switch": [1], "buffer_bytes": [2], "max_queue_bytes": [3], "active_flows": [4]}
    assert make_frame("switches", good).height == 1
    with pytest.raises(ValueError, match="no column 'foo'"):
        make_frame("switches", {**good, "foo": [1]})
    with pytest.raises(ValueError, match="'active_flows' is missing"):
        make_frame("switches", {k: v for k, v in good.items() if k != "active_flows"})


def test_the_summary_is_filled_in():
    run = Run.from_arrays(flows(), summary={"scheme": "bfc", "wall_s": 2.0, "packet_hops": 10})
    assert run.summary["flows_started"] == 3 and run.summary["flows_finished"] == 2
    assert run.summary["packet_hops_per_s"] == 5.0 and run.summary["drops"] == 0
    assert run.label == run.scheme == "bfc" and repr(run) == "<Run bfc: 3 flows, 0 drops>"


def test_no_flows_at_all():
    none = np.zeros(0, dtype=np.int64)
    run = Run.from_arrays(
        {
            "start_ps": none,
            "finish_ps": none,
            "ideal_ps": none,
            "src": none,
            "dst": none,
            "bytes": none,
            "class_id": none,
            "classes": ("poisson",),
            "priority": none,
        }
    )
    assert run.flows.height == 0 and run.slowdown(99).height == 0


# -- slowdown


def test_slowdown_by_either_clock():
    run = synthetic("hpcc", 2000)
    for clock, column in (("receiver", "slowdown"), ("sender", "sender_slowdown")):
        table = run.slowdown(50, by="priority", clock=clock)
        assert table["slowdown"][0] == run.flows[column].quantile(0.5, "linear"), clock
    assert run.slowdown(50).equals(run.slowdown(50, clock="receiver"))
    with pytest.raises(SpecError, match='clock = "nic": must be one of receiver, sender'):
        run.slowdown(50, clock="nic")


def test_slowdown_matches_numpy():
    run = synthetic("hpcc", 5000)
    table = run.slowdown(99, bins="google")
    frame = run.flows
    assert table["flows"].sum() + table["unfinished"].sum() == 5000
    for row in table.iter_rows(named=True):
        inside = frame.filter((pl.col("bytes") > row["above_bytes"]) & (pl.col("bytes") <= (row["to_bytes"] or 2**62)))
        done = inside["slowdown"].drop_nulls().to_numpy()
        assert row["flows"] == len(done)
        assert row["slowdown"] == pytest.approx(np.percentile(done, 99))
    assert run.slowdown(statistic="mean", by="class").filter(pl.col("class") == "incast")["slowdown"][0] == pytest.approx(
        frame.filter(pl.col("class") == "incast")["slowdown"].mean()
    )
    assert run.slowdown([50, 99.9]).columns[-2:] == ["p50", "p99.9"]
    assert run.slowdown(statistic="max")["slowdown"].max() == frame["slowdown"].max()


def test_bins():
    run = Run.from_arrays(flows())
    assert run.slowdown(bins=[1000, 5000])["to_bytes"].to_list() == [1000, 5000, None]
    assert run.slowdown(bins="google")["above_bytes"].to_list() == [0, 1000, 256_000]
    assert run._usual_bins() == "log"
    run.summary["nominal"] = [{"kind": "poisson", "sizes": "google"}, {"kind": "incast"}]
    assert run._usual_bins() == "google" and run._bounds(None, run.flows) == list(GOOGLE_BINS)
    run.summary["nominal"] = [{"sizes": "facebook_hadoop"}]
    assert run._bounds(None, run.flows) == list(FACEBOOK_BINS)
    bounds = run._bounds("log", run.flows)
    assert bounds == [1000, 3000, 10_000, 30_000, 100_000, 300_000]


def test_the_size_of_a_bin_is_that_of_its_finished_flows():
    sizes = {"bytes": [10, 20, 900], "finish_ps": [8_083_840, 9_000_000, -1], "start_ps": [0, 0, 0]}
    (row,) = Run.from_arrays(flows(**sizes)).slowdown(bins=[1000]).rows(named=True)
    assert (row["bytes"], row["flows"], row["unfinished"]) == (15, 2, 1)


def test_selection_of_classes():
    run = Run.from_arrays(flows())
    assert run.background() == ["poisson"]
    assert run.selected("incast").height == 1 and run.selected("!incast").height == 2
    assert run.selected(["poisson", "incast"]).height == 3 and run.selected().height == 3
    assert Run.from_arrays(flows(class_id=[0, 0, 0])).background() is None
    assert Run.from_arrays(flows(class_id=[1, 1, 1])).background() is None
    several = Run.from_arrays(flows(class_id=[0, 1, 2], classes=("poisson", "incast", "incast large")))
    assert several.background() == ["poisson"], "every incast has a name that begins with it"


@pytest.mark.parametrize("window, last", [("run", 3), ("arrivals", 2)])
def test_samples_of_the_window_are_those_within_it(window, last):
    """A sample at the very end belongs to a window that is the whole run, and to no other."""
    run = Run.from_arrays(flows(), summary={"window": window, "window_ns": [1.0, 3.0]})
    columns = {"time_ps": [0, 1000, 2000, 3000, 4000], "switch": [3] * 5}
    run.switches = make_frame(
        "switches", columns | {name: [7] * 5 for name in ("buffer_bytes", "max_queue_bytes", "active_flows")}
    )
    assert run.window_samples.whole["time_ns"].to_list() == [*range(1, last + 1)] == run.within("switches")["time_ns"].to_list()


def test_a_class_that_is_asked_for_and_ruled_out_is_out():
    run = Run.from_arrays(flows())
    assert run.selected(["incast", "!incast"]).height == 0
    assert run.selected(["poisson", "incast", "!incast"])["class"].unique().to_list() == ["poisson"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"percentile": 101}, "between 0 and 100"),
        ({"by": "colour"}, "size, class, priority"),
        ({"bins": "googel"}, "google"),
        ({"bins": [3, 2]}, "increasing"),
        ({"bins": []}, "increasing"),
        ({"class_": "incst"}, 'did you mean "incast"'),
        ({"statistic": "mode"}, "percentile, mean, max"),
    ],
)
def test_bad_questions(options: dict[str, object], rule: str):
    with pytest.raises(SpecError, match=re.escape(rule)):
        Run.from_arrays(flows()).slowdown(**options)


# -- directories


def test_save_and_load(tmp_path: Path):
    run = synthetic("bfc", 200)
    run.summary["spec"] = "[run]\n"
    run.summary["numpy"] = np.int64(3)
    assert run.save(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    again = Run.load(tmp_path / "a" / "b")
    for name, frame in run.frames.items():
        assert again.frames[name].equals(frame), name
    assert again.summary["numpy"] == 3 and again.summary["scheme"] == "bfc"
    assert (tmp_path / "a" / "b" / "spec.toml").read_text() == "[run]\n"
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["b"]
    about = json.loads(pl.read_parquet_metadata(tmp_path / "a" / "b" / "flows.parquet")["columns"])
    assert about["fct_ns"]["unit"] == "ns" and set(about) == set(run.flows.columns)


def test_an_earlier_run_is_not_replaced_unless_asked(tmp_path: Path):
    path = tmp_path / "run"
    synthetic("bfc", 10).save(path)
    (path / "notes.md").write_text("mine")
    (path / "old.parquet").write_text("stale")
    with pytest.raises(SpecError, match="holds a run already"):
        synthetic("hpcc", 20).save(path)
    synthetic("hpcc", 20).save(path, overwrite=True)
    assert Run.load(path).flows.height == 20
    assert (path / "notes.md").read_text() == "mine" and not (path / "old.parquet").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_an_empty_folder_is_filled_and_others_are_left_alone(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    synthetic("bfc", 10).save(tmp_path / "empty")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    for name, rule in (("full", "not empty"), ("file", "is a file"), ("file/x", "cannot be written")):
        for overwrite in (False, True):
            with pytest.raises(SpecError, match=rule):
                synthetic("bfc", 10).save(tmp_path / name, overwrite=overwrite)
            with pytest.raises(SpecError, match=rule):
                rundir.check_writable(tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "full" / "thesis.tex").read_text() == "x"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_cannot_be_written():
    for path in ("/proc/penstock", "/proc/penstock/a/b"):
        with pytest.raises(SpecError, match="cannot be written"):
            rundir.check_writable(Path(path))
        with pytest.raises(SpecError, match="cannot be written"):
            synthetic("bfc", 10).save(path)


FULL = [
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)"),
]


@pytest.mark.parametrize("error", FULL, ids=["os", "polars"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch, error: Exception, overwrite: bool):
    path = tmp_path / "run"
    if overwrite:
        synthetic("hpcc", 20).save(path)
    write = pl.DataFrame.write_parquet

    def full(self: pl.DataFrame, file: Path, **options: object) -> None:
        write(self, file, **options)
        if "ports" in str(file):
            raise error

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(SpecError, match=r"No space left on device.*free some") as caught:
        synthetic("bfc", 10).save(path, overwrite=overwrite)
    assert len(str(caught.value).splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == (["run"] if overwrite else [])
    if overwrite:
        assert Run.load(path).flows.height == 20


def test_too_little_space_is_told_before_the_work(tmp_path: Path):
    with pytest.raises(SpecError, match="GB are free"):
        rundir.check_writable(tmp_path / "run", flows=10**14)
    rundir.check_writable(tmp_path / "a" / "b" / "run", flows=10)
    assert list(tmp_path.iterdir()) == []


def test_space_is_asked_for_by_the_flow(tmp_path: Path, monkeypatch):
    """A flow has a dozen columns of 8 bytes: a million of them take more than 64 MB, and not as much as 512 MB."""

    def free(size: int) -> None:
        monkeypatch.setattr(rundir.shutil, "disk_usage", lambda _: rundir.shutil._ntuple_diskusage(10**12, 0, size))

    free(64 * 10**6)
    with pytest.raises(SpecError, match=r"of 1,000,000 flows need about .*MB, 64MB are free"):
        rundir.check_writable(tmp_path / "run", flows=10**6)
    free(512 * 10**6)
    rundir.check_writable(tmp_path / "run", flows=10**6)


def test_damaged_and_missing_runs(tmp_path: Path):
    with pytest.raises(SpecError, match="no such folder"):
        Run.load(tmp_path / "none")
    with pytest.raises(SpecError, match="not a run directory"):
        Run.load(tmp_path)
    for name in ("bfc", "hpcc"):
        synthetic(name, 10).save(tmp_path / name)
    with pytest.raises(SpecError, match="several runs; give one of them: bfc, hpcc"):
        Run.load(tmp_path)
    assert [p.name for p in rundir.all_runs([tmp_path, tmp_path / "bfc"])] == ["bfc", "hpcc", "bfc"]
    (tmp_path / "bfc" / "flows.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(SpecError, match=r"flows.parquet: is not what the run wrote: it was cut off, edited or damaged"):
        Run.load(tmp_path / "bfc")
    for name in ("bfc", "hpcc"):
        (tmp_path / name / "SHA256SUMS").unlink()
    with pytest.raises(SpecError, match=r"flows.parquet: cannot be read"):
        Run.load(tmp_path / "bfc")
    (tmp_path / "hpcc" / "summary.json").write_text("{")
    with pytest.raises(SpecError, match=r"summary.json: cannot be read"):
        Run.load(tmp_path / "hpcc")
    (tmp_path / "hpcc" / "summary.json").write_text('{"scheme": 7}')
    with pytest.raises(SpecError, match=r"summary.json: cannot be read"):
        Run.load(tmp_path / "hpcc")
    (tmp_path / "hpcc" / "summary.json").write_text('{"scheme": "hpcc"}')
    (tmp_path / "hpcc" / "ports.parquet").unlink()
    with pytest.raises(SpecError, match=r"ports.parquet is missing"):
        Run.load(tmp_path / "hpcc")


def test_a_run_of_an_older_version():
    """Made by version 0.1.0, before acked_ns: what it lacks is null, and what it has is as it was."""
    run = Run.load(Path(__file__).parent / "data" / "run-0.1.0")
    assert run.flows.columns == list(COLUMNS["flows"])
    assert run.flows["slowdown"].to_list() == [1.3281380462009462, 1.3294600612301697, None]
    assert run.flows["acked_ns"].to_list() == run.flows["sender_slowdown"].to_list() == [None] * 3
    assert run.flows.schema["acked_ns"] == pl.Float64 and run.slowdown(50)["flows"].sum() == 2
    with pytest.raises(SpecError, match='no acked_ns, which clock = "sender" needs; run the simulation again'):
        run.slowdown(50, clock="sender")
    assert "acked_ns" in dictionary.text(run)


def test_columns_of_others_stay(tmp_path: Path):
    path = synthetic("bfc", 10).save(tmp_path / "run")
    changed = pl.read_parquet(path / "flows.parquet").drop("paused_ns").with_columns(mine=pl.lit(1))
    changed.write_parquet(path / "flows.parquet")
    (path / "SHA256SUMS").unlink()
    flows = Run.load(path).flows
    assert flows.columns == [*COLUMNS["flows"], "mine"] and flows["paused_ns"].null_count() == 10


def test_a_frame_that_is_not_there():
    run = synthetic("bfc", 10)
    with pytest.raises(SpecError, match=r"\[measure\] packets = true"):
        run.frame("packets")
    with pytest.raises(SpecError, match='did you mean "ports"'):
        run.frame("prots")
    assert run.frame("ports").height == 32
    assert all(empty_frame(name).columns == list(columns) for name, columns in COLUMNS.items())


# -- the dictionary


def test_the_documentation_matches_the_tables():
    page = Path(__file__).parents[2] / "docs" / "outputs.md"
    assert page.read_text() == dictionary.markdown(), "run: penstock explain --markdown > docs/outputs.md"


def test_every_column_is_explained():
    assert set(FILES) == set(COLUMNS)
    for name, columns in COLUMNS.items():
        for column, about in columns.items():
            assert about.text and "|" not in about.text, (name, column)
            for suffix, unit in (("_ns", "ns"), ("_bytes", "B")):
                assert not column.endswith(suffix) or about.unit == unit, (name, column)
    run = synthetic("bfc", 10)
    assert not set(run.summary) - set(SUMMARY)
    text = dictionary.text(run)
    assert "slowdown" in text and "flows.parquet   10 rows" in text


def test_fingerprint_is_of_the_results(tmp_path):
    run = Run.from_arrays(flows(), summary={"wall_s": 1.0})
    again = Run.from_arrays(flows(), summary={"wall_s": 2.0})
    loaded = Run.load(again.save(tmp_path / "r"))
    assert run.fingerprint() == again.fingerprint() == loaded.fingerprint() and len(run.fingerprint()) == 32
    others = [{"finish_ps": [8_083_840, -1, 26]}, {"finish_ps": [8_083_840, 0, 25]}, {"classes": ("poisson", "other")}]
    others.append({"start_ps": [-1, 1001, 5]})
    assert len({Run.from_arrays(flows(**other)).fingerprint() for other in ({}, *others)}) == len(others) + 1
