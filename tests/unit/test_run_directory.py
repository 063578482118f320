"""A run directory stands alone: it holds the files that its spec names, and runs again anywhere. What a spec says in full."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import penstock_net as ps
from penstock_net.cli import main
from penstock_net.composition import names_of
from penstock_net.errors import SpecError
from penstock_net.files import write_file
from penstock_net.results.run import Run
from penstock_net.spec import load_spec, parse_spec, presets

FLOWS = "src,dst,bytes,start_ns\n0,1,100000,0\n2,1,100000,10\n3,1,5000,20\n"
SIZES = "bytes,cdf\n0,0\n1000,0.5\n10000,1\n"
MARK = '''"""Marks every packet that leaves a queue longer than a threshold."""

parameters = {"k": ("bytes", "10KB", "threshold")}


def on_dequeue(mark, node, port, queue, pkt):
    if pkt.kind == DATA and queue.bytes > mark.k:
        pkt.ecn = 1
        port.ecn_marks += 1
'''
GRAPH = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="h0"/><node id="h1"/><node id="h2"/><node id="h3"/><node id="s"/>
<edge source="h0" target="s"/><edge source="h1" target="s"/><edge source="h2" target="s"/><edge source="h3" target="s"/>
</graph></graphml>"""
SPEC = """
run = {duration = "20us"}
topology = {file = "net.graphml", rate = "100Gbps", delay = "1us"}
scheme = [{name = "./mark.py+pfc", k = "20KB"}, {name = "bfc"}]
workload = [{kind = "flows", file = "flows.csv"}, {kind = "poisson", sizes = "sizes.csv", load = 0.3, load_on = "host"}]
"""


@pytest.fixture
def experiment(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a spec and the four files that it names; the current directory is another one."""
    folder = tmp_path / "experiment"
    folder.mkdir()
    contents = {"flows.csv": FLOWS, "sizes.csv": SIZES, "mark.py": MARK, "net.graphml": GRAPH, "e.toml": SPEC}
    for name, content in contents.items():
        (folder / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_run_directory_can_be_moved_and_run_again(experiment: Path, tmp_path: Path):
    assert main(["run", str(experiment / "e.toml"), "--out", "out"]) == 0
    assert str(tmp_path) not in Path("out/spec.toml").read_text() + Path("out/mark+pfc/summary.json").read_text()
    assert sorted(os.listdir("out/inputs")) == ["flows.csv", "mark.py", "net.graphml", "sizes.csv"]
    assert sorted(os.listdir("out/bfc/inputs")) == ["flows.csv", "net.graphml", "sizes.csv"]
    shutil.make_archive("run", "zip", "out")
    shutil.rmtree(experiment)
    shutil.rmtree("out")
    shutil.unpack_archive("run.zip", "elsewhere/with + and space")
    there = Path("elsewhere/with + and space")
    assert main(["run", str(there / "spec.toml"), "--out", "all"]) == 0
    assert main(["run", str(there / "mark+pfc"), "--out", "one"]) == 0
    first = Run.load(there / "mark+pfc")
    assert first == Run.load("all/mark+pfc") == Run.load("one") != Run.load("all/bfc")
    assert first.summary["scheme_parameters"]["mark.k"] == "20KB"
    for name in ("spec.toml", "inputs/flows.csv", "inputs/mark.py"):
        assert (there / "mark+pfc" / name).read_bytes() == Path("one", name).read_bytes()
    assert load_spec("one").key() == load_spec(there / "mark+pfc").key()


def test_an_edited_input_is_noticed(experiment: Path, capsys):
    assert main(["run", str(experiment / "e.toml"), "--scheme", "bfc", "--out", "out"]) == 0
    flows = Path("out/inputs/flows.csv")
    flows.write_text(FLOWS.replace("100000", "200000"))
    capsys.readouterr()
    for command in (["run", "out"], ["run", "out/spec.toml", "--dry-run"], ["sweep", "out", "--param", "run.seed=1,2"]):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert f"{flows.resolve()}: is not the file that this run was made with" in error
        assert "remove its line from [inputs] in out/spec.toml" in error
    assert main(["run", "out", "--set", f"workload.0.file={experiment / 'flows.csv'}", "--out", "other"]) == 0
    flows.write_text(FLOWS)
    assert Run.load("other") == Run.load("out")
    flows.write_text(FLOWS.replace("100000", "200000"))
    spec = Path("out/spec.toml")
    spec.write_text("\n".join(line for line in spec.read_text().splitlines() if not line.startswith('"inputs/flows.csv"')))
    assert main(["run", "out", "--out", "edited"]) == 0
    assert Run.load("edited") != Run.load("other")
    flows.unlink()
    assert main(["run", "out", "--out", "missing"]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_table_of_hashes_that_is_none():
    with pytest.raises(SpecError, match="inputs = 5: must be a table"):
        parse_spec({"run": {"duration": "1us"}, "topology": {"kind": "star"}, "workload": [{"kind": "permutation"}], "inputs": 5})


def test_files_of_the_same_name_and_a_file_named_twice(experiment: Path):
    for folder, size in (("b", "7000"), ("c", "9000")):
        (experiment / folder).mkdir()
        (experiment / folder / "flows.csv").write_text(FLOWS.replace("5000", size))
    tables = [{"kind": "flows", "file": name} for name in ("flows.csv", "b/flows.csv", "./flows.csv", "c/flows.csv")]
    spec = parse_spec({"run": {"duration": "1us"}, "topology": {"kind": "star"}, "workload": tables}, base=experiment)
    text, inputs = spec.portable()
    assert {name: content.decode() for name, content in inputs.items()} == {
        "inputs/flows.csv": FLOWS,
        "inputs/2/flows.csv": FLOWS.replace("5000", "7000"),
        "inputs/3/flows.csv": FLOWS.replace("5000", "9000"),
    }
    for name, content in inputs.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content)
    again = parse_spec(text)
    assert again.key() == spec.key()
    assert [Path(table.extra["file"]).parent.name for table in again.workload] == ["inputs", "2", "inputs", "3"]


def test_a_run_keeps_what_it_began_with(experiment: Path):
    """A flow file that is edited during the simulation is recorded as it was; a scheme's, which is read later, is refused."""
    spec = load_spec(experiment / "e.toml")
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    (experiment / "flows.csv").write_text("nonsense")
    run = spec.simulate(spec.schemes[1], topo, flows)
    run.save("out")
    assert Path("out/inputs/flows.csv").read_text() == FLOWS and load_spec("out").build_flows(topo).key() != ""
    (experiment / "mark.py").write_text(MARK + "\n")
    with pytest.raises(SpecError, match=r"mark\.py: was changed while the command was running"):
        spec.simulate(spec.schemes[0], topo, flows)
    with pytest.raises(SpecError):
        spec.build_flows(topo)


def test_a_run_that_was_read_is_saved_with_its_inputs(experiment: Path):
    assert main(["run", str(experiment / "e.toml"), "--scheme", "bfc", "--out", "out"]) == 0
    Run.load("out").save("copy")
    Run.load("out").save("copy", overwrite=True)
    assert Path("copy/inputs/sizes.csv").read_text() == SIZES
    assert load_spec("copy").key() == load_spec("out").key()
    assert main(["run", "quickstart", "--scheme", "fifo", "--set", "run.duration=1us", "--out", "copy", "--force"]) == 0
    assert not Path("copy/inputs").exists()


def test_a_scheme_may_not_take_the_place_of_the_inputs(experiment: Path, capsys):
    arguments = ["run", str(experiment / "e.toml"), "--set", "scheme.0.label=inputs", "--out", "out"]
    assert main(arguments) == 2
    assert 'scheme.label = "inputs"' in capsys.readouterr().err and not Path("out").exists()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("bfc", ["bfc"]),
        ("hpcc:ns3 + dqa", ["hpcc:ns3", "dqa"]),
        ("dcqcn+./a/mine.py+pfc", ["dcqcn", "./a/mine.py", "pfc"]),
        ("/a+b/c+d/mine.py+pfc", ["/a+b/c+d/mine.py", "pfc"]),
        ("./a+b/mine.py:small+~/x.py", ["./a+b/mine.py:small", "~/x.py"]),
        ("bfc+", ["bfc", ""]),
        ("./mine+bfc", ["./mine+bfc"]),
    ],
)
def test_names_of_a_composition(text: str, names: list[str]):
    assert names_of(text) == names


# -- equal runs, wall time


def test_runs_compare_by_their_results():
    topo = ps.star(hosts=4)
    flows = ps.permutation(topo, bytes="50KB")
    run, same, other = (ps.simulate(topo, flows, scheme=name) for name in ("bfc", "bfc", "fifo"))
    assert run == same and run != other and run != 1
    assert run in [other, same]
    same.flows = same.flows.head(2)
    assert run != same


def test_the_wall_time_begins_after_compiling(monkeypatch):
    from penstock_net.sim import simulate

    compose, ended = simulate.compose, []

    def compiled(settings):
        made = compose(settings)
        ended.append(simulate.time.perf_counter())
        return made

    monkeypatch.setattr(simulate, "compose", compiled)
    topo = ps.star(hosts=2)
    runner = simulate.Runner(simulate.Settings(topo, ps.permutation(topo), ps.scheme("bfc"), duration_ps=10**6))
    assert len(ended) == 1 and runner.began >= ended[0]


# -- a spec that says everything


@pytest.mark.parametrize("name", presets())
def test_the_full_spec_is_the_same_experiment(name: str):
    spec = load_spec(name)
    full = spec.complete()
    assert full.complete() == full and full.labels() == spec.labels()
    topo, same = spec.build_topology(), full.build_topology()
    assert np.array_equal(topo.links, same.links)
    ours, theirs = spec.build_flows(topo), full.build_flows(same)
    assert np.array_equal(ours.start_ps, theirs.start_ps) and np.array_equal(ours.bytes, theirs.bytes)
    for table, written in zip(spec.schemes, full.schemes):
        scheme, again = spec.build_scheme(table), full.build_scheme(written)
        assert scheme.parameters() == again.parameters() and scheme.host == again.host
        assert set(scheme.parameters()) <= set(written.parameters)
    for workload in full.workload:
        assert {"priority", "class", "start"} <= set(workload.extra)


@pytest.mark.parametrize(
    "scheme",
    [{"name": "hpcc", "pfc": False}, {"name": "hpcc:ns3+dqa", "queues": 8}, {"name": "bfc", "dqa": {"queues": 8}, "th": 2.0}],
)
def test_the_full_spec_keeps_what_was_given(scheme: dict[str, object]):
    table = {"run": {"duration": "1us"}, "topology": {"kind": "star"}, "workload": [{"kind": "permutation"}], "scheme": scheme}
    spec = parse_spec(table)
    full = spec.complete()
    before, after = spec.build_scheme(spec.schemes[0]), full.build_scheme(full.schemes[0])
    assert before.parameters() == after.parameters() and list(before.parts) == list(after.parts)


def test_the_full_spec_of_files(experiment: Path):
    full = load_spec(experiment / "e.toml").complete()
    assert full.schemes[0].parameters["mark.k"] == "20KB" and "pfc.alpha" in full.schemes[0].parameters
    assert len(full.build_flows(full.build_topology())) > 3


# -- run.duration bounds every flow


def spec_of(workload: dict[str, object], duration: str = "10us"):
    return parse_spec(
        {"run": {"duration": duration}, "topology": {"kind": "star", "hosts": 4}, "scheme": "bfc", "workload": [workload]}
        | {"scheme": {"name": "bfc"}}
    )


def test_flows_after_the_duration_are_left_out(experiment: Path):
    (experiment / "flows.csv").write_text(
        "src,dst,bytes,start_ns\n0,1,1000,0\n0,1,1000,9999.999\n0,1,1000,10000\n0,1,1000,50000\n"
    )
    spec = spec_of({"kind": "flows", "file": str(experiment / "flows.csv")})
    topo = spec.build_topology()
    flows = spec.build_flows(topo)
    assert flows.start_ps.tolist() == [0, 9_999_999]
    assert flows.nominal[0]["flows"] == 4 and flows.nominal[0]["left_out"] == 2
    run = spec.simulate(spec.schemes[0], topo, flows)
    assert run.flows.height == 2 and run.summary["flows_finished"] == 2
    assert "flows that start after run.duration (10us) are left out: 2" in run.summary["warnings"]
    whole = spec_of({"kind": "flows", "file": str(experiment / "flows.csv")}, "1ms")
    assert len(whole.build_flows(topo)) == 4 and "left_out" not in whole.build_flows(topo).nominal[0]


def test_no_flow_within_the_duration():
    spec = spec_of({"kind": "list", "flows": [[0, 1, "1KB", "20us"]]})
    with pytest.raises(SpecError, match=r"no flow starts within run\.duration, 10us; raise run\.duration.*20us"):
        spec.build_flows(spec.build_topology())


def test_flows_that_wait_for_one_that_is_left_out_go_with_it():
    topo = ps.star(hosts=4)
    flows = ps.Flows(
        start_ps=np.array([0, 10, 20, 30, 40]),
        src=np.array([0, 0, 1, 2, 3]),
        dst=np.array([1, 1, 2, 3, 0]),
        bytes=np.full(5, 1000),
        class_id=np.zeros(5, int),
        priority=np.zeros(5, int),
        classes=("a",),
        after=(np.array([0, 0, 0, 1, 2, 2]), np.array([0, 2])),
    ).check(topo)
    assert flows.until(100) is flows
    kept = flows.until(35)
    assert len(kept) == 4 and kept.edges()[1].tolist() == [0, 2]
    late = ps.Flows(
        start_ps=np.array([0, 0, 0, 50]),
        src=np.array([2, 1, 0, 0]),
        dst=np.array([3, 2, 3, 1]),
        bytes=np.full(4, 1000),
        class_id=np.zeros(4, int),
        priority=np.zeros(4, int),
        classes=("a",),
        after=(np.array([0, 1, 2, 2, 2]), np.array([1, 3])),
    ).check(topo)
    kept = late.until(10)
    assert kept.src.tolist() == [0] and kept.after is None


def test_a_pipe_or_device_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR)  # so that opening it for writing does not wait
    try:
        assert write_file(pipe, b"figure") == pipe
        assert os.read(reader, 100) == b"figure"
    finally:
        os.close(reader)
    assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_the_peak_of_memory_is_that_of_the_whole_run(monkeypatch, tmp_path):
    """It is read again when the frames are written; of a run that was read, or comes from another process, it stays as it was."""
    topo = ps.star(hosts=4)
    run = ps.simulate(topo, ps.flow_list(topo, [(0, 1, "1KB")]))
    written = []

    def peak():
        written.extend(path.name for path in tmp_path.glob(".*/*.parquet"))
        return 10**15

    monkeypatch.setattr("penstock_net.results.run.peak_memory", peak)
    assert 0 < run.summary["peak_memory_bytes"] < 10**15
    run.save(tmp_path / "first")
    assert set(written) == {f"{name}.parquet" for name in run.frames}
    read = Run.load(tmp_path / "first")
    assert read.summary["peak_memory_bytes"] == 10**15
    monkeypatch.setattr("penstock_net.results.run.peak_memory", lambda: 1)
    run.simulated += 1
    for name, other in (("second", read), ("third", run)):
        other.save(tmp_path / name)
        assert Run.load(tmp_path / name).summary["peak_memory_bytes"] == 10**15
