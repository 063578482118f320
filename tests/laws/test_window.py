"""The measurement window: statistics over time are those of its part of the run, and the run itself does not depend on it."""

import json
import re

import polars as pl
import pytest
from networks import Measure, flow_list, leaf_spine, simulate
from test_same_bits import checksum

from penstock_net import load_spec
from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.results.run import Run
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import star
from penstock_net.workload import poisson

ALL = {"pauses": True, "queues": True, "packets": True, "port_series": True, "flow_series": True}
US = 1000.0  # ns


def network():
    return leaf_spine(hosts=8, tors=2, spines=2, buffer="400KB")


def incasts(topo, *, first="10us", second="60us"):
    """Two incasts to host 0, the second larger, and a flow beside them."""
    early = [(i, 0, 60_000, first) for i in range(1, 8)]
    late = [(i, 0, 90_000, second) for i in range(1, 8)]
    return flow_list(topo, early + late + [(1, 5, 100_000, first)])


def run(window="arrivals", scheme="pfc", threads=1, **options):
    topo = network()
    measure = Measure(sample="1us", window=window, **ALL, warmup=options.pop("warmup", "0us"))
    return simulate(topo, incasts(topo), scheme, measure=measure, threads=threads, **options)


def paused_within(run: Run, low: float, high: float) -> dict[tuple[int, int], float]:
    """Time that each port was paused between two times, ns, from the log of pauses."""
    total: dict[tuple[int, int], float] = {}
    rows = run.pauses.filter(pl.col("queue") == -1).sort("time_ns", maintain_order=True)
    for place, log in rows.group_by("node", "port", maintain_order=True):
        since = None
        spent = 0.0
        for time, paused in log.select("time_ns", "paused").iter_rows():
            if paused and since is None:
                since = time
            elif not paused and since is not None:
                spent += max(0.0, min(time, high) - max(since, low))
                since = None
        if since is not None:
            spent += max(0.0, high - max(since, low))
        total[place] = spent
    return total


@pytest.mark.parametrize(("window", "low", "high"), [("arrivals", 10, 60.001), ("25us..100us", 25, 100), ("run", 0, None)])
def test_pauses_are_those_of_the_window(window, low, high):
    result = run(window, duration="60001ns")
    low, high = low * US, result.summary["end_ns"] if high is None else high * US
    assert result.window == (low, pytest.approx(high))
    logged = paused_within(result, low, high)
    assert sum(logged.values()) > 0
    counted = {(node, port): ns for node, port, ns in result.ports.select("node", "port", "window_paused_ns").iter_rows()}
    for place, ns in counted.items():
        assert ns == pytest.approx(logged.get(place, 0.0), abs=0.001), place
    expected = sum(counted.values()) / ((high - low) * result.ports.height)
    assert result.summary["pfc_pause_fraction"] == pytest.approx(expected)


def test_window_drain_and_what_was_before_add_up_to_the_run():
    result = run("25us..100us")
    drain, total = result.summary["drain"], result.ports["paused_ns"].sum()
    before = sum(paused_within(result, 0, 25 * US).values())
    after = drain["pfc_pause_fraction"] * drain["ns"] * result.ports.height
    assert before > 0 and after > 0
    assert drain["ns"] == pytest.approx(result.summary["end_ns"] - 100 * US)
    assert before + result.ports["window_paused_ns"].sum() + after == pytest.approx(total, abs=0.01)


@pytest.mark.parametrize("window", ["25us..45us", "60us..80us"])
def test_bytes_and_maxima_of_ports_are_those_of_the_window(window):
    result = run(window)
    low, high = result.window
    series = result.frame("port_series")
    for row in result.ports.filter(pl.col("node") >= 8).iter_rows(named=True):
        mine = series.filter((pl.col("node") == row["node"]) & (pl.col("port") == row["port"]))
        at = {time: sent for time, sent in mine.select("time_ns", "tx_bytes").iter_rows()}
        assert row["window_tx_bytes"] == at.get(high, 0) - at.get(low, 0)
        rate = 0.08  # ns per byte at 100 Gbit/s
        assert row["utilization"] == pytest.approx(row["window_tx_bytes"] * rate / (high - low))
        packets = result.frame("packets").filter((pl.col("node") == row["node"]) & (pl.col("port") == row["port"]))
        queued = result.within(packets.filter(pl.col("event") == "enqueue"))["port_bytes"].max() or 0
        first = mine.filter(pl.col("time_ns") == low)["queue_bytes"].max() or 0
        assert row["window_max_queue_bytes"] == max(queued, first)
        assert row["max_queue_bytes"] >= row["window_max_queue_bytes"]
    assert result.ports["max_queue_bytes"].max() > result.ports["window_max_queue_bytes"].min()


def test_bytes_count_at_the_rate_at_which_they_were_sent():
    """Two links that change their rates at different times, with a flow before, between and after: the time by hand."""
    changes = [("host0", "100us", "50Gbps"), ("host1", "200us", "25Gbps"), ("host1", "400us", "40Gbps")]
    topo = star(hosts=2).with_changes([{"time": t, "a": host, "b": "switch0", "rate": rate} for host, t, rate in changes])
    flows = flow_list(topo, [(0, 1, 10_000, f"{time}us") for time in (10, 150, 250, 450)])
    result = simulate(topo, flows, "fifo", measure=Measure(window="run"))
    wire, total = 10_480 / 1000, result.summary["end_ns"]  # 10 packets, with their headers; ns
    busy = {(row["node"], row["port"]): row["utilization"] * total / wire for row in result.ports.iter_rows(named=True)}
    assert busy[0, 0] == pytest.approx(80 + 3 * 160)  # ps per byte of each flow
    assert busy[2, 1] == pytest.approx(80 + 80 + 320 + 200)


def test_buffers_and_active_flows_are_those_of_the_window():
    result = run("25us..45us")
    buffers = result.within(result.switches)
    assert buffers["time_ns"].min() == 25 * US and buffers["time_ns"].max() < 45 * US
    nodes = result.frame("nodes")
    assert result.summary["max_buffer_bytes"] == nodes["window_max_buffer_bytes"].max() >= buffers["buffer_bytes"].max()
    assert nodes["max_buffer_bytes"].max() > nodes["window_max_buffer_bytes"].max()  # the second incast is larger
    counting = run("25us..45us", "bfc")
    samples = counting.frame("active_flows").group_by("node", "port").agg(pl.col("samples").sum())
    assert set(samples["samples"]) == {20}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("scheme", ["bfc", "dcqcn"])
def test_results_do_not_depend_on_the_window(scheme, threads):
    whole = run("run", scheme, duration="60001ns")
    for window in ("arrivals", "25us..45us", "59us..1s"):
        other = run(window, scheme, threads, duration="60001ns")
        assert checksum(other) == checksum(whole)
        assert other.summary["packet_hops"] == whole.summary["packet_hops"]


def test_the_window_is_the_same_for_every_scheme_and_starts_after_the_warm_up():
    windows = {run(scheme=scheme, duration="70us").window for scheme in ("bfc", "dcqcn", "pfc")}
    assert windows == {(10 * US, 70 * US)}
    warm = run(warmup="30us", duration="70us")
    assert warm.window == (30 * US, 70 * US)
    assert warm.selected().height == 7 and warm.flows.height == 15
    assert warm.slowdown()["flows"].sum() == 7
    assert run("run", warmup="30us").window[0] == 30 * US


def test_flows_that_start_at_once_and_dependent_flows_are_measured_to_the_end_of_the_run():
    topo = network()
    once = simulate(topo, flow_list(topo, [(i, 0, 50_000, "3us") for i in range(1, 4)]), "bfc")
    assert once.window == (0, once.summary["end_ns"])
    assert once.summary["drain"] == {"ns": 0.0}


def test_a_window_after_the_end_of_the_run_has_no_statistics_and_says_so():
    result = run("5ms..6ms")
    assert any("before its measurement window" in line for line in result.summary["warnings"])
    assert result.ports["window_tx_bytes"].sum() == 0 and result.selected().is_empty()


def test_a_run_that_ends_within_its_window_is_idle_for_the_rest():
    result = run("0us..10ms")
    assert result.window == (0, 10_000 * US)
    total = result.ports["paused_ns"].sum()
    assert result.summary["pfc_pause_fraction"] == pytest.approx(total / (10_000 * US * result.ports.height))


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        ({"window": "arival"}, 'window = "arival"'),
        ({"window": "3ms..1ms"}, "must end after it begins"),
        ({"window": "1ms..1ms"}, "must end after it begins"),
        ({"window": "1parsec..2ms"}, "1parsec"),
        ({"window": 7}, "window = 7"),
        ({"window": "..2ms"}, "window"),
        ({"window": "1ms..2ms", "warmup": "1ms"}, "has a start of its own"),
        ({"warmup": "1s"}, "no flow arrives after it"),
    ],
)
def test_bad_windows_are_refused(measure, says):
    with pytest.raises(SpecError) as refused:
        topo = network()
        simulate(topo, incasts(topo), measure=Measure(**measure), duration="1ms")
    assert says in str(refused.value)


def test_the_window_of_a_spec_is_in_the_run_and_old_runs_have_none(tmp_path):
    spec = load_spec("incast", sets=["measure.window=5us..50us", "run.duration=50us"])
    result = spec.simulate(spec.schemes[0], topo := spec.build_topology(), spec.build_flows(topo))
    assert result.window == (5 * US, 50 * US)
    assert result.window_text == "5us to 50us"
    folder = result.save(tmp_path / "run")
    assert Run.load(folder).window == result.window
    summary = json.loads((folder / "summary.json").read_text())
    for key in ("window", "window_ns", "drain"):
        del summary[key]
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "SHA256SUMS").unlink()
    old = Run.load(folder)
    assert old.window is None and "older version" in old.window_text
    assert old.within(old.flows).height == old.flows.height


def test_without_a_duration_generators_say_when_arrivals_end():
    topo = network()
    poisson_flows = poisson(topo, sizes="google", load=0.5, duration="50us", seed=1)
    result = simulate(topo, poisson_flows, "bfc")
    assert result.window == (pytest.approx(poisson_flows.start_ps[0] / 1000), 50 * US)
    assert simulate(topo, incasts(topo), "bfc").summary["drain"] == {"ns": 0.0}  # a list: the whole run
    mixed = simulate(topo, poisson_flows + incasts(topo), "bfc")
    assert mixed.window == (0, mixed.summary["end_ns"])


def test_flows_that_all_come_after_the_duration_are_measured_to_the_end():
    result = run(duration="1us")
    assert result.window == (0, result.summary["end_ns"])


def test_the_window_of_an_interrupted_run_ends_with_it():
    topo = network()
    flows = poisson(topo, sizes="google", load=0.5, duration="10ms", seed=1)
    runner = Runner(
        Settings(topo, flows, parse("pfc"), duration_ps=10**10, arrivals_ps=10**10), progress=lambda _: runner.interrupt()
    )
    result = runner.run()
    at = re.fullmatch(r"interrupted at ([\d.]+)us of 10ms", result.interruption)[1]
    assert float(at) == pytest.approx(result.summary["end_ns"] / 1000, rel=0.005)
    assert repr(result).endswith(f"; {result.interruption}>") and result.window_text.endswith(f"; {result.interruption}")
    assert result.summary["interrupted"] and result.summary["end_ns"] < 10**7
    assert result.window[1] == result.summary["end_ns"]
    assert result.ports["utilization"].max() > 0.1
