"""Samples of switches that are idle for most of a run: all of them are there, and say what the packets of the trace say."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from networks import Measure, flow_list, simulate

from penstock_net.topology import fat_tree, leaf_spine, star

SERIES = Measure(sample="1us", packets=True, port_series=True, queues=True)
PAUSED_BETWEEN = [(0, 15, 20_000, 0), (3, 12, 9_000, "300us"), (3, 13, 9_000, "301us"), (0, 1, 1000, "450us")]


def run_of(topo=None, **more):
    topo = topo or fat_tree(k=4)
    return simulate(topo, flow_list(topo, PAUSED_BETWEEN), "fifo", measure=SERIES, **more)


def sent(run, node, port, times):
    """Bytes of data that a port had sent at these times, ns, by the trace."""
    out = run.frame("packets").filter((pl.col("event") == "dequeue") & (pl.col("node") == node) & (pl.col("port") == port))
    sizes = np.concatenate(([0], np.cumsum(out["bytes"].to_numpy())))
    return sizes[np.searchsorted(out["time_ns"].to_numpy(), times, side="right")]


@pytest.mark.parametrize("more", [{}, {"threads": 2}, {"duration": "400us", "drain": False}])
def test_every_switch_is_sampled_at_every_multiple_of_the_period(more):
    run = run_of(**more)
    counts = run.switches.group_by("switch").agg(pl.col("time_ns"))
    first = counts["time_ns"][0].to_list()
    assert len(counts) == 20 and first == [1000.0 * i for i in range(len(first))]
    assert all(times.to_list() == first for times in counts["time_ns"])
    last = 400_000 if more.get("duration") else run.flows["finish_ns"].max()
    assert last - 1000 <= first[-1] <= last + 20_000


@pytest.mark.parametrize("changes", [[], [{"time": "299500ns", "a": "tor1", "b": "agg0", "up": False}]])
def test_what_was_sent_is_what_the_trace_says(changes):
    run = run_of(fat_tree(k=4).with_changes(changes))
    series = run.frame("port_series").filter(pl.col("node") >= 16)
    assert series["tx_bytes"].max() > 18_000
    for (node, port), rows in series.group_by("node", "port"):
        data = (rows["tx_bytes"] - rows["ack_bytes"] - rows["control_bytes"]).to_numpy()
        assert (data == sent(run, node, port, rows["time_ns"].to_numpy())).all(), (node, port)


def test_active_flows_are_counted_at_every_sample():
    topo = leaf_spine(hosts=8, tors=4, spines=2)
    flows = flow_list(topo, [(0, 7, 90_000, 0), (2, 7, 90_000, 0), (4, 7, 20_000, "200us")])
    run = simulate(topo, flows, "bfc", measure=Measure(sample="1us", window="run"))
    samples = run.switches["time_ns"].n_unique()
    counted = run.frame("active_flows").group_by("node", "port").agg(pl.col("samples").sum())
    assert len(counted) == 4 * 4 + 2 * 4 and (counted["samples"] == samples).all()
    assert run.frame("active_flows").filter(pl.col("active_flows") > 0)["samples"].sum() > 5


def test_each_number_of_active_flows_has_a_bin():
    """One flow more every 500 ns, faster than they end: the histogram of the only busy port has what the samples have."""
    topo = star(hosts=101)
    flows = flow_list(topo, [(i, 0, 20_000, f"{500 * i}ns") for i in range(1, 101)])
    run = simulate(topo, flows, "bfc", measure=Measure(sample="200ns", window="run"))
    busy = run.switches.filter(pl.col("active_flows") > 0)["active_flows"]
    found = run.frame("active_flows").filter((pl.col("port") == 0) & (pl.col("node") == 101) & (pl.col("active_flows") > 0))
    assert found["active_flows"].max() == busy.max() > 64
    assert sorted(found.select("active_flows", "samples").rows()) == sorted(Counter(busy.to_list()).items())
