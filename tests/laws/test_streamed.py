"""Results that are written a part at a time, from columns and logs on the disk, are the same as those of a run in memory."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from drawn import examples
from networks import Run, same, simulate
from test_resumed import EVERYTHING, MACHINES, Interrupted
from test_same_bits import SCENARIOS

from penstock_net import scratch
from penstock_net.results.streamed import StreamedRun
from penstock_net.sim import logs, starts
from penstock_net.sim import simulate as core
from penstock_net.sim.layouts import log_type
from penstock_net.topology import star
from penstock_net.workload.collectives import ring_all_reduce

SETTINGS = {"seed": 11, "measure": EVERYTHING}


@pytest.fixture
def small(monkeypatch):
    """What has some hundred rows is large; logs are moved after a few windows."""
    monkeypatch.setattr(scratch, "LARGE", 500)
    monkeypatch.setattr(scratch, "CHUNK", 397)
    monkeypatch.setattr(logs, "MOST_BYTES", 20_000)
    monkeypatch.setattr(starts, "FLOWS_AT_ONCE", 20)
    monkeypatch.setattr(core, "CHUNK_S", 1e-9)


def equal(path, streamed, whole, what) -> None:
    """What is written, and read again, of both."""
    assert isinstance(streamed, StreamedRun) and not isinstance(whole, StreamedRun)
    folders = [run.save(path / name) for name, run in (("streamed", streamed), ("whole", whole))]
    files = [sorted(file.name for file in folder.iterdir()) for folder in folders]
    assert files[0] == files[1], what
    one, other = map(Run.load, folders)
    same(one, other, what)
    assert all(frame.schema == other.frames[name].schema for name, frame in one.frames.items()), what
    assert list(one.summary) == list(other.summary)
    assert all(value == other.summary[key] for key, value in one.summary.items() if key not in MACHINES), what
    same(streamed, whole, f"{what}, in memory")
    assert streamed.fingerprint() == whole.fingerprint() == Run.load(folders[0]).fingerprint()


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(small, tmp_path, name):
    topo, flows, scheme, settings = SCENARIOS[name]()
    whole = simulate(topo, flows, scheme, **SETTINGS | settings)
    with scratch.on_disk(tmp_path / "run"):
        topo, flows, scheme, settings = SCENARIOS[name]()
        run = simulate(topo, flows, scheme, threads=3, **SETTINGS | settings)
    equal(tmp_path, run, whole, name)


def test_flows_that_wait_for_others(small, tmp_path):
    topo = star(hosts=8)
    flows = ring_all_reduce(topo, bytes="80KB")
    for duration in (None, "10us"):
        whole = simulate(topo, flows, "bfc", duration=duration, drain=duration is None, **SETTINGS)
        with scratch.on_disk(tmp_path / "run"):
            run = simulate(topo, flows, "bfc", duration=duration, drain=duration is None, **SETTINGS)
        equal(tmp_path / str(duration), run, whole, f"duration = {duration}")


@pytest.mark.parametrize("name", ["bfc", "lossy", "changes"])
def test_interrupted_and_resumed(small, monkeypatch, tmp_path, name):
    topo, flows, scheme, settings = SCENARIOS[name]()
    settings = SETTINGS | settings
    whole, state = simulate(topo, flows, scheme, **settings), tmp_path / "state"
    with scratch.on_disk(tmp_path / "run"):
        for windows, threads in ((9, 1), (14, 3)):
            with monkeypatch.context() as patch:
                patch.setattr(core, "Runner", lambda *given, n=windows: Interrupted(*given, windows=n))
                part = simulate(topo, flows, scheme, threads=threads, checkpoint=state, on_interrupt="return", **settings)
            assert part.summary["interrupted"]
            kept = Run.load(part.save(tmp_path / "part", overwrite=True))
            assert kept.flows.height == len(flows) and kept.switches["time_ns"].max() <= kept.summary["end_ns"]
        again = simulate(topo, flows, scheme, threads=2, checkpoint=state, **settings)
    equal(tmp_path, again, whole, name)
    in_memory = simulate(topo, flows, scheme, checkpoint=state, **settings)  # the logs that were moved are in the checkpoint
    assert not isinstance(in_memory, StreamedRun)
    same(in_memory, whole, f"{name}, resumed in memory")


def test_a_small_run_is_in_memory(tmp_path):
    topo, flows, scheme, settings = SCENARIOS["bfc"]()
    with scratch.on_disk(tmp_path / "run"):
        assert type(simulate(topo, flows, scheme, **SETTINGS | settings)) is Run


rows = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6), st.integers(0, 3)), max_size=12)


@given(rows, st.integers(1, 4), st.integers(1, 30))
@examples(50)
def test_series_in_parts(found, sample_ps, most):
    table = np.zeros(len(found), dtype=log_type("port"))
    for i, (time, repeat, node) in enumerate(found):
        table[i]["time"], table[i]["repeat"], table[i]["node"], table[i]["port"] = time, repeat, node, i
    expected = sorted((t + k * sample_ps, node, i) for i, (t, repeat, node) in enumerate(found) for k in range(repeat))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scratch, "LARGE", most)
        parts = list(logs.Logs(None, sample_ps)._series(table))
    assert [(row["time"], row["node"], row["port"]) for part in parts for row in part] == expected


def test_columns_on_the_disk(small, tmp_path):
    with scratch.on_disk(tmp_path / "missing" / "run"):
        column, few = scratch.filled(1000, -1), scratch.Column(np.int32)
        for i in range(300):
            few.append(np.arange(i))
    values = few.array()
    assert scratch._mapping(column) is not None and scratch._mapping(values[5:]) is not None
    column[::3] = np.arange(334)
    scratch.release(column, values)
    assert (column[::3] == np.arange(334)).all() and (column[1::3] == -1).all() and column.sum() == 334 * 333 // 2 - 666
    assert (values == np.concatenate([np.arange(i) for i in range(300)])).all()
    assert scratch._mapping(scratch.filled(1000, 0)) is None
    assert list(tmp_path.rglob("*")) == [tmp_path / "missing"], "a file has a name"
