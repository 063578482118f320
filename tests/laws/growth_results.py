"""Stages of a run and after it: what it records and saves, reports, plots, traces, sweeps."""

from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from growth import Stage, Work, made_file, written
from growth_inputs import chain, inference, ring_with_chords

import penstock_net as ps
from penstock_net.cli import check, sweep
from penstock_net.plot_kinds import KINDS
from penstock_net.report import dictionary, html, plots, sweep_page, tables
from penstock_net.results.links import Links
from penstock_net.results.pause_tree import Pauses
from penstock_net.results.pauses import causes, intervals
from penstock_net.results.run import Run
from penstock_net.results.sweep import Sweep, check_table, write_table
from penstock_net.sim.checkpoint import Checkpoint
from penstock_net.sweeps.axes import seeds_axis
from penstock_net.sweeps.points import points_of
from penstock_net.trace import write_trace

EVERYTHING = {name: True for name in ("pauses", "queues", "packets", "port_series", "queueing", "flow_series")}

# ---- Runs ----


def incasts(number: int, scheme: str = "pfc") -> Run:
    """Incasts to a host of a star, one after another, each of which pauses the three senders; of two classes."""
    topo = ps.star(hosts=4, buffer="200KB")
    listed = [
        {"src": 1 + i % 3, "dst": 0, "bytes": 20_000, "start": f"{i // 3 * 6}us", "class": "ab"[i % 2]} for i in range(3 * number)
    ]
    return ps.simulate(topo, ps.flow_list(topo, listed), scheme, measure=ps.Measure(sample="2us", **EVERYTHING))


def incasts_of_racks(tors: int) -> Run:
    """Each ToR has a host that receives from those of the next ToR, which pauses them and the switches between."""
    topo = ps.leaf_spine(hosts=4 * tors, tors=tors, spines=1)
    topo = replace(topo, buffer_bytes=46_000 * topo.port_count[topo.hosts :])
    pairs = [(4 * ((tor + 1) % tors) + i, 4 * tor, 20_000) for tor in range(tors) for i in range(4)]
    return ps.simulate(topo, ps.flow_list(topo, pairs), "pfc", measure=ps.Measure(sample="5us", **EVERYTHING))


@cache
def served(requests: int) -> Run:
    return ps.simulate(ps.star(hosts=8), inference(requests)(), "fifo")


BY_TIME, BY_HOSTS = cache(incasts), cache(incasts_of_racks)


def of(make: Any, work: Any) -> Any:
    """A stage that works on a run that was recorded with everything."""

    def stage(size: int) -> Work:
        run = make(size)
        return lambda: work(run)

    return stage


def simulated(make: Any) -> Any:
    return lambda size: lambda: make(size)


def flaps(count: int) -> Work:
    """A link between switches goes down and comes back, again and again."""
    topo = ps.leaf_spine(hosts=16, tors=4, spines=2)
    states = [{"time": f"{i + 1}us", "a": "tor0", "b": "spine1", "up": i % 2 == 1} for i in range(count)]
    topo = topo.with_changes(states)
    flows = ps.flow_list(topo, [(0, 15, 1000), (1, 14, 1000, "500us")])
    return lambda: ps.simulate(topo, flows, "fifo", measure=ps.Measure(sample="0s"))


def idle_samples(size: int) -> Work:
    """Two flows to one host last for the whole run; the larger the network, the longer they are."""
    topo = ps.leaf_spine(hosts=4 * size, tors=size, spines=2)
    flows = ps.flow_list(topo, [(0, 2, 12_500 * size), (1, 2, 12_500 * size)])
    return lambda: ps.simulate(topo, flows, "fifo", measure=ps.Measure(sample="100ns")).save(f"run{size}", overwrite=True)


def dependent(flows: int) -> Work:
    topo = ps.star(hosts=4)
    listed = ps.flow_list(topo, chain(flows))
    return lambda: ps.simulate(topo, listed, "pfc", measure=ps.Measure(sample="0s"))


def trained(iterations: int) -> Work:
    """A run that reports operations."""
    topo = ps.star(hosts=4)
    flows = ps.training(
        topo, iterations=iterations, layers=2, parameters="10KB", activations="1KB", forward="1us", backward="1us"
    )
    return lambda: ps.simulate(topo, flows, "pfc", measure=ps.Measure(sample="0s"))


def one_flow(hosts: int) -> Work:
    topo = ps.star(hosts=hosts)
    flows = ps.flow_list(topo, [(0, 1, 1000)])
    return lambda: ps.simulate(topo, flows, "bfc", measure=ps.Measure(sample="0s"))


def checkpoint(topo: Any, flows: Any) -> Work:
    """Written once, and read."""

    def work() -> Counter[str]:
        path = Path(f"{topo.hosts}.{len(flows)}.checkpoint")
        for _ in range(2):
            ps.simulate(topo, flows, "bfc", duration="1us", measure=ps.Measure(sample="0s"), checkpoint=Checkpoint(path, "1ps"))
        return written(path)

    return work


def checkpoint_of_hosts(hosts: int) -> Work:
    topo = ps.star(hosts=hosts)
    return checkpoint(topo, ps.flow_list(topo, [(0, 1, 1000)]))


def checkpoint_of_flows(flows: int) -> Work:
    topo = ps.star(hosts=4)
    return checkpoint(topo, ps.flow_list(topo, [(i % 3, 3, 1000) for i in range(flows)]))


def saved(run: Run) -> Counter[str]:
    folder = Path(f"{run.flows.height}.{run.ports.height}.saved")
    run.save(folder, overwrite=True)
    Run.load(folder)
    check.command([folder])
    return written(folder)


# ---- Reports ----


def page(run: Run) -> Counter[str]:
    return Counter(written=len(html.page([run])))


def page_of_runs(number: int) -> Work:
    runs = []
    for i in range(number):
        run = incasts(1)
        run.summary["label"] = f"run {i}"
        runs.append(run)
    return lambda: Counter(written=len(html.page(runs)))


def comparison(number: int) -> Work:
    runs = [incasts(1) for _ in range(number)]
    return lambda: tables.text(runs)


def tree(run: Run) -> None:
    pauses = Pauses.of(run)
    for port in pauses.ports:
        pauses.causes(port, 0, 1e9).text(pauses)
        pauses.victims(port, 0, 1e9)
    run.pause_causes()
    run.port_life()


def numbers_of(run: Run) -> None:
    run.slowdown(99)
    tables.row(run)
    dictionary.text(run)
    ps.pause_times(run)


def drawn(kind: str) -> Any:
    def work(run: Run) -> None:
        plots.draw(kind, run)

    return work


def trace(suffix: str) -> Any:
    def work(run: Run) -> Counter[str]:
        path = Path(f"{run.flows.height}.{run.ports.height}.{suffix}")
        write_trace(run, path)
        return written(path)

    return work


def recorded_pauses(switches: int) -> Work:
    """Every egress of a switch to another one is paused once."""
    links = ring_with_chords(switches).links
    rows = [tuple(map(int, (link[a], link[f"port_{a}"], link[b]))) for link in links for a, b in ("ab", "ba")]
    node, port, peer = zip(*rows)
    ports = pl.DataFrame({"node": node, "port": port, "peer": peer, "delay_ns": [1000.0] * len(rows)})
    inner = [row for row in rows if min(row[0], row[2]) >= 2 * switches]
    log = pl.DataFrame(
        [(float(i), node, port, -1, True) for i, (node, port, _) in enumerate(inner)],
        schema=("time_ns", "node", "port", "queue", "paused"),
        orient="row",
    )
    return lambda: list(causes(intervals(log), Links.of(ports)))


# ---- Sweeps ----

SPEC = """
[[scheme]]
name = "fifo"
[topology]
kind = "star"
hosts = 2
[[workload]]
kind = "list"
flows = [[0, 1, 1000]]
[run]
duration = "10us"
"""


def planned(points: int) -> Work:
    made_file("small.toml", SPEC)
    axes = [seeds_axis(range(1, points + 1))]
    return lambda: list(points_of("small.toml", axes, []))


def resumed(points: int) -> Work:
    """A sweep that had finished."""
    out = Path(f"{points}-sweep")
    made_file("small.toml", SPEC)
    for point in points_of("small.toml", [seeds_axis(range(1, points + 1))], []):
        run = small_run(point.seed)
        run.summary |= point.stamp
        run.save(out / point.key, overwrite=True)
    return lambda: sweep.command("small.toml", [], [], [], seeds=str(points), out=out)


@cache
def small_run(seed: int) -> Run:
    topo = ps.star(hosts=2)
    return ps.simulate(topo, ps.flow_list(topo, [(0, 1, 1000)]), "fifo", seed=seed)


def made_sweep(loads: int, seeds: int) -> Sweep:
    """With runs that are there for two loads only."""
    folder, rows = Path(f"{loads}.{seeds}.sweep"), []
    for load in range(loads):
        for seed in range(seeds):
            key, run = f"{load}-{seed}", small_run(seed)
            run.summary["key"] = key
            run.save(folder / key, overwrite=True)
            rows.append({"workload.0.load": load, **tables.row(run), "scheme": "fifo", "seed": seed, "key": key})
    write_table(folder, pl.DataFrame(rows, infer_schema_length=None))
    return Sweep.load(folder)


def table_of_sweep(loads: int) -> Work:
    swept = made_sweep(loads, 2)
    return lambda: (swept.table(), swept.over_seeds())


def table_by_seeds(seeds: int) -> Work:
    swept = made_sweep(1, seeds)
    return lambda: (swept.table(), swept.slowdown(99), check_table(swept.path))


def page_of_sweep(loads: int) -> Work:
    swept = made_sweep(loads, 1)
    return lambda: Counter(written=len(sweep_page.page(swept)))


def plot_of_sweep(loads: int) -> Work:
    swept = made_sweep(loads, 2)
    return lambda: plots.draw_sweep("against", swept, y="max_buffer_bytes")


def front_of_sweep(loads: int) -> Work:
    swept = made_sweep(loads, 2)
    return lambda: swept.pareto("max_buffer_bytes", "drain_ns")


STAGES = [
    Stage("a run that records everything, by time", simulated(incasts), (2, 3)),
    Stage("a run that records everything, by hosts", simulated(incasts_of_racks), (3, 2)),
    Stage("a run of dependent flows", dependent, (50, 3)),
    Stage("a run of training", trained, (3, 2)),
    Stage("a run of one flow, by hosts", one_flow, (64, 3)),
    Stage("a link that flaps", flaps, (8, 3)),
    Stage("samples of switches, most of them idle", idle_samples, (64, 2)),
    Stage("a checkpoint, by hosts", checkpoint_of_hosts, (32, 2)),
    Stage("a checkpoint, by flows", checkpoint_of_flows, (200, 2)),
    Stage("save, load and check a run, by time", of(BY_TIME, saved), (2, 3)),
    Stage("save, load and check a run, by hosts", of(BY_HOSTS, saved), (3, 2)),
    Stage("numbers of a run, by time", of(BY_TIME, numbers_of), (2, 3)),
    Stage("numbers of a run, by hosts", of(BY_HOSTS, numbers_of), (3, 2)),
    Stage("report of a run, by time", of(BY_TIME, page), (2, 3)),
    Stage("report of a run, by hosts", of(BY_HOSTS, page), (3, 2)),
    Stage("report, by runs", page_of_runs, (1, 2)),
    Stage("comparison of runs", comparison, (2, 2)),
    Stage("trees of pauses, by time", of(BY_TIME, tree), (2, 3)),
    Stage("trees of pauses, by hosts", of(BY_HOSTS, tree), (3, 2)),
    Stage("which pause caused which", recorded_pauses, (40, 2), {"bytes": 2}, "a bit for each pair of switches"),
    *(
        Stage(f"penstock plot {kind}, by time", of(BY_TIME, drawn(kind)), (6, 2))
        for kind in KINDS
        if kind not in ("against", "active_flows", "pareto", "rank_timeline", "record", "ttft")
    ),
    Stage("penstock plot record, by time", of(cache(lambda number: incasts(number, "hpcc")), drawn("record")), (6, 2)),
    Stage("penstock plot ttft, by requests", of(served, drawn("ttft")), (50, 2)),
    *(
        Stage(f"penstock plot {kind}, by hosts", of(BY_HOSTS, drawn(kind)), (3, 2))
        for kind in ("pause_map", "port", "buffer_cdf")
    ),
    *(Stage(f"{suffix}, by time", of(BY_TIME, trace(suffix)), (2, 3)) for suffix in ("pftrace", "pcapng")),
    Stage("pftrace, by hosts", of(BY_HOSTS, trace("pftrace")), (3, 2)),
    Stage("pcapng, by hosts", of(BY_HOSTS, trace("pcapng")), (3, 2)),
    Stage("planning a sweep", planned, (3, 2)),
    Stage("a sweep that had finished", resumed, (2, 2)),
    Stage("table of a sweep", table_of_sweep, (2, 2)),
    Stage("table of a sweep, by seeds", table_by_seeds, (2, 2)),
    Stage("page of a sweep", page_of_sweep, (2, 2)),
    Stage("penstock plot against", plot_of_sweep, (2, 2)),
    Stage("front of a sweep", front_of_sweep, (8, 2)),
]
