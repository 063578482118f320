"""What schemes count, record and print: the numbers are right, and the same on any threads and after a failure."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from penstock_net import plot
from penstock_net.composition import parse
from penstock_net.composition.load import declarations_of
from penstock_net.errors import SchemeError, SpecError
from penstock_net.report import html, tables
from penstock_net.results.run import Run
from penstock_net.sim import recording
from penstock_net.sim.config import Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list

FILE = Path(__file__).parent / "hooks/inside.py"
INSIDE = FILE.read_text()
FLOWS = [(i, 0, 60_000 + 1000 * i, f"{i}us") for i in range(1, 8)] + [(0, 5, 200_000, "0s"), (6, 5, 150_000, "3us")]
MEASURE = Measure(sample="1us", records=True, flow_series=True)


@pytest.fixture(scope="module")
def inside():
    return str(FILE)


def simulated(scheme, topo=None, threads=1, measure=MEASURE, **more):
    topo = topo or leaf_spine(hosts=8, tors=2, spines=2, buffer="2MB")
    return simulate(topo, flow_list(topo, FLOWS), scheme, threads=threads, measure=measure, **more)


@pytest.fixture(scope="module")
def run(inside):
    return simulated(inside)


def test_counts_of_nodes_ports_and_flows(run):
    counts = run.frame("counts")
    marks = run.ports.group_by("node").agg(pl.col("ecn_marks").sum()).filter(pl.col("ecn_marks") > 0).sort("node")
    marked = counts.filter(name="inside.marked")
    assert dict(marked.select("node", "value").rows()) == dict(marks.rows())
    assert run.counts["inside.marked"] == run.summary["counts"]["inside.marked"] == run.ports["ecn_marks"].sum() > 100
    assert run.counts["inside.cuts"] == run.summary["printed"] + len(FLOWS)  # each cut is printed; and each end
    assert 100 < run.summary["printed"] <= run.ports["ecn_marks"].sum()  # a packet may be marked at two switches
    cuts = counts.filter(name="inside.cuts")
    assert sorted(cuts["flow_id"]) == list(range(len(FLOWS))) and cuts["port"].null_count() == len(FLOWS)
    assert cuts["node"].to_list() == [run.flows["src"][flow] for flow in cuts["flow_id"]]
    seen = counts.filter(name="inside.seen")
    assert seen["value"].sum() == run.counts["inside.seen"] > sum(size for _, _, size, _ in FLOWS) // 1000
    assert run.summary["meanings"]["inside.cuts"] == "times that the window was halved"


def test_counts_of_unfinished_flows(inside):
    topo = star(hosts=3)
    flows = flow_list(topo, [(1, 0, "10MB"), (2, 0, "10MB")])
    cut = simulate(topo, flows, inside, duration="100us", drain=False)
    assert cut.summary["flows_finished"] == 0
    assert cut.counts["inside.cuts"] == cut.frame("counts").filter(name="inside.cuts")["value"].sum() > 10
    acked = cut.ports["ecn_marks"].sum()
    assert 0 <= acked - cut.counts["inside.cuts"] < 200  # marks that are on their way


def test_same_on_any_threads(run, inside):
    for threads in (2, 3):
        other = simulated(inside, threads=threads)
        assert other == run and other.counts == run.counts and other.summary["printed"] == run.summary["printed"]


def test_counts_survive_a_failure_of_their_switch(inside):
    topo = leaf_spine(hosts=8, tors=2, spines=2, buffer="2MB")
    failing = topo.with_changes([{"time": "15us", "switch": "tor0", "up": False}, {"time": "20us", "switch": "tor0", "up": True}])
    failed = simulated(inside, failing)
    marked = failed.frame("counts").filter(name="inside.marked")
    marks = failed.ports.group_by("node").agg(pl.col("ecn_marks").sum()).filter(pl.col("ecn_marks") > 0)
    assert sorted(marked.select("node", "value").rows()) == sorted(marks.rows())
    last = failed.frame("records").filter(name="inside.last", node=8)
    assert 0.0 in last["value"].to_list()  # what is no count begins anew


def test_records_are_what_changes(run):
    records = run.frame("records")
    seen = records.filter(name="inside.seen")
    for (_, _), rows in seen.partition_by("node", "port", as_dict=True).items():
        assert (np.diff(rows["value"].to_numpy()) > 0).all() and (np.diff(rows["time_ns"].to_numpy()) > 0).all()
    last = {key: rows["value"][-1] for key, rows in seen.partition_by("node", "port", as_dict=True).items()}
    counted = {(n, p): v for n, p, v in run.frame("counts").filter(name="inside.seen").select("node", "port", "value").rows()}
    assert all(counted[key] - 12 <= value <= counted[key] for key, value in last.items())
    factor = records.filter(name="inside.factor")
    assert set(factor["value"]) == {1.0, 0.5} and factor.height <= 2 * len(FLOWS)
    marked = records.filter(name="inside.last")
    assert (marked["value"] <= marked["time_ns"]).all() and marked["value"].max() > 1000  # ns, as all times


def test_nothing_is_recorded_unless_asked_for(inside):
    quiet = simulated(inside, measure=Measure())
    assert "records" not in quiet.frames and "inside.last" not in quiet.summary["meanings"]
    with pytest.raises(SpecError, match=r"run again with \[measure\] records = true"):
        quiet.frame("records")
    assert "counts" not in simulated("dcqcn").frames and "records" not in simulated("dcqcn").frames


def test_parts_of_the_log_change_nothing():
    """Rows are told apart by what changes, wherever the core begins a new row."""
    from penstock_net.sim.layouts import row_type

    rows = [(0, 0.0), (5, 1.0), (10, 1.0), (15, 0.0), (20, 0.0), (25, 1.0)]
    whole = np.zeros(len(rows), row_type("RecordRow"))
    whole["time"], whole["value"] = zip(*rows)

    class Parts:
        moved = True

        def __init__(self, *parts):
            self.parts = parts

        def sorted_parts(self, name):
            yield from self.parts

    for cuts in ((), (1,), (2, 4), (1, 2, 3, 4, 5)):
        parts = np.split(whole, cuts)
        found = np.concatenate(list(recording.changes(Parts(*parts))))
        assert found["time"].tolist() == [5, 15, 25]


def test_prints(run, inside):
    lines = run.printed.splitlines()
    assert len(lines) == run.summary["printed"] == run.frame("prints").height == run.counts["inside.cuts"] - len(FLOWS)
    time, node, place, text = lines[0].split(maxsplit=3)
    assert time.endswith("us") and node.startswith("host") and place == f"inside.py:{line_of('print(')}"
    flow = int(text.split()[2])
    window = int(text.split()[4])
    number = int(node.removeprefix("host"))
    assert text.startswith(f"cut flow {flow} to {window} at {node}: {window / 3:.1f} byte ") and text.endswith(
        f" of flow {flow} none"
    )
    assert run.flows["src"][flow] == number
    times = run.frame("prints")["time_ns"].to_list()
    assert times == sorted(times)
    quiet = simulated(parse(inside, {"talks": False}))
    assert quiet.printed == "" and "prints" not in quiet.frames and "printed" not in quiet.summary


def line_of(text):
    return next(i for i, line in enumerate(INSIDE.splitlines(), 1) if text in line)


@pytest.mark.parametrize("threads", [1, 2])
def test_only_the_first_lines_are_kept(run, inside, monkeypatch, threads):
    from penstock_net.sim import builder, results

    for module in (builder, results, recording):
        monkeypatch.setattr(module, "PRINTED", 25)
    short = simulated(inside, threads=threads)
    assert short.printed.splitlines() == run.printed.splitlines()[:25]
    assert short.summary["printed"] == run.summary["printed"]
    assert f"printed {run.summary['printed']:,} lines, of which the first 25 are kept" in " ".join(short.summary["warnings"])


def test_later_lines_take_no_memory(inside, monkeypatch):
    """The log of the core ends with the window in which the last line that is kept was printed."""
    from penstock_net.sim import builder
    from penstock_net.sim.simulate import Runner

    monkeypatch.setattr(builder, "PRINTED", 5)
    rows = []
    collect = Runner.outcome
    monkeypatch.setattr(Runner, "outcome", lambda runner: rows.append(len(runner.logs.whole("print"))) or collect(runner))
    run = simulated(inside)
    assert 5 * 5 <= rows[0] < run.summary["printed"]


def test_saved_and_loaded(run, tmp_path):
    run.save(tmp_path / "run")
    loaded = Run.load(tmp_path / "run")
    assert loaded == run and loaded.counts == run.counts and loaded.printed == run.printed
    assert (tmp_path / "run" / "prints.txt").read_text() == run.printed


def test_tables_and_report(run):
    text = tables.shown([run])
    assert ["inside", "inside.marked", f"{run.counts['inside.marked']:,}"] in [line.split() for line in text.splitlines()]
    assert "inside.marked: packets that were marked here" in text
    assert "Counts of the schemes" in html.page([run]) and "Counts of the schemes" not in html.page([simulated("fifo")])


def test_figures(run):
    for options in (
        {},
        {"record": "seen", "port": "tor0:0"},
        {"record": "inside.last", "switch": "tor0"},
        {"record": "window", "flows": [2]},
    ):
        figure = plot.record(run, **options)
        assert figure.axes[0].lines
    assert len(plot.record(run, run, record="cuts").axes) == 2
    with pytest.raises(SpecError, match=r'recorded no such number; did you mean "inside\.seen"'):
        plot.record(run, record="inside.sen")
    with pytest.raises(SpecError, match="records = true"):
        plot.record(simulated("fifo", measure=Measure()), record="tokens")
    with pytest.raises(SpecError, match=r"run it again with \[measure\] .*flow_series = true"):
        plot.record(simulated("hpcc", measure=Measure()), record="window")
    with pytest.raises(SpecError, match="its flows have no windows"):
        plot.record(simulated("fifo"), record="window")


def test_breakpoints_are_for_plain_python(tmp_path):
    scheme = tmp_path / "stops.py"
    scheme.write_text(INSIDE.replace("        if me.talks:", "        breakpoint()\n        if me.talks:"))
    with pytest.raises(SchemeError, match=r"breakpoint\(\) is for plain Python: python -m penstock_net.testing.cases"):
        simulated(str(scheme))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('counts = ["a"]', "counts must be a table"),
        ('counts = {"a": ""}', 'counts must be a table {"name": "what it is"}'),
        ('node_state = {"a": "int32"}\ncounts = {"a": "x"}', 'counts: "a" is a field of node_state; give the count another name'),
        ('port_records = {"a": "x"}', 'port_records: "a" is no number of port_state'),
        ('flow_state = {"b": "int32", "c": "int32[3]"}\nflow_records = {"c": "x"}', "numbers of it are b"),
        ('queue_counts = {"a": "x"}', '"queue_counts" is nothing that a scheme declares'),
        ('node_counts = {"a": "x"}', "those of nodes are counts"),
        ('counts = {"for": "x"}', '"for" cannot be the name of a field'),
    ],
)  # fmt: skip
def test_wrong_declarations(tmp_path, text, message):
    path = tmp_path / "wrong.py"
    path.write_text(f"{text}\n\n\ndef on_finish(me, node, flow, pkt):\n    flow.rto = 0\n")
    with pytest.raises(SchemeError) as error:
        declarations_of(path)
    assert message in str(error.value) and str(path) in str(error.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('print(flow.window, end="")', "print takes texts and values only"),
        ("x = print(1)", "print is a statement of its own and gives nothing"),
        ('print(f"{flow.window!r}")', "a value in a text is written {x} or {x:.2f}"),
        ('print(f"{flow.window:zz}")', '"zz" is no form of a number'),
        ("print(me)", "print writes numbers, texts, nodes, ports, queues, flows and packets"),
        ("print(flow.snt)", "snt"),
    ],
)
def test_wrong_prints(tmp_path, call, message):
    path = tmp_path / "wrong.py"
    path.write_text(f"def on_finish(me, node, flow, pkt):\n    {call}\n")
    with pytest.raises(SchemeError) as error:
        simulated(str(path))
    assert message in str(error.value) and f"{path}:2" in str(error.value)


def test_unchecked_schemes_print_and_count(run, inside):
    unchecked = simulated(parse(inside, {"unchecked": True}))
    assert unchecked.counts == run.counts and unchecked.printed == run.printed
