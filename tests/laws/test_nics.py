"""Hosts with several links: which port a flow takes, and that ports do not disturb one another."""

import numpy as np
import polars as pl
import pytest
from networks import FIFO, Measure, Topology, available, flow_list, make_links, same, simulate

from penstock_net.errors import SpecError

QUIET = Measure(sample="0s", flows=False)
SEVERAL = sorted(name for name, declared in available().items() if not declared.fabric.get("one_link"))


def dual(hosts=8, planes=2, joined=False, rate=80, delay=1_000_000, buffer=0, changes=()) -> Topology:
    """Each host has a port on the ToR of every plane, two ToRs a plane; a spine for each plane or, `joined`, for all."""
    ends = [(host, hosts + 2 * plane + 2 * host // hosts) for host in range(hosts) for plane in range(planes)]
    spines = 1 if joined else planes
    ends += [(hosts + 2 * plane + tor, hosts + 2 * planes + plane % spines) for plane in range(planes) for tor in (0, 1)]
    switches = 2 * planes + spines
    a, b = zip(*ends)
    return Topology(
        kind="file",
        hosts=hosts,
        switches=switches,
        links=make_links(a, b, rate, delay),
        buffer_bytes=np.full(switches, buffer),
        names=tuple([f"h{i}" for i in range(hosts)] + [f"s{i}" for i in range(switches)]),
        tier=np.array([0] * hosts + [1] * 2 * planes + [2] * spines),
        params={},
    ).with_changes(changes)


def of_host(run, host, column):
    """A counter of a host's ports."""
    return run.ports.filter(pl.col("node") == host).sort("port")[column].to_numpy()


@pytest.mark.parametrize("joined", [False, True])
def test_flows_are_spread_over_the_ports(joined):
    """By hash, evenly; in planes that are apart a packet arrives at the port of the number by which it left."""
    topo = dual(joined=joined)
    flows = flow_list(topo, [(i % 4, 4 + i % 3, 1000) for i in range(4000)])
    run = simulate(topo, flows, FIFO(), measure=QUIET)
    sent = np.array([of_host(run, host, "tx_bytes") for host in range(4)]) // 1048
    assert sent.sum() == 4000 and np.abs(sent - 500).max() < 4 * 500**0.5
    acks = sum(of_host(run, host, "tx_bytes") for host in range(4, 7)) // 60  # leave by the ports at which data came
    assert acks.sum() == 4000 and (joined or acks.tolist() == sent.sum(axis=0).tolist())


def test_ports_send_at_once():
    """Two flows of a host on its two ports take as long as each alone, and twice as long on one."""
    topo = dual()
    for seed in range(1, 20):
        apart = topo.path_links(0, 0, 5, seed)[0] != topo.path_links(1, 0, 5, seed)[0]
        run = simulate(topo, flow_list(topo, [(0, 5, 1_000_000)] * 2), FIFO(), measure=QUIET, seed=seed)
        assert ((run.flows["slowdown"] == 1.0) if apart else (run.flows["slowdown"] > 1.9)).all()


@pytest.mark.parametrize("scheme", ["pfc", "bfc", "floodgate", "pfc_tagged"])
def test_a_paused_port_does_not_hold_back_the_other(scheme):
    """An incast to a host of plane 0 alone; a flow of a sender's other port goes on as if alone."""
    hosts = 6
    ends = [(host, hosts + plane) for host in range(hosts) for plane in (0, 1) if (host, plane) not in ((4, 1), (5, 0))]
    a, b = zip(*ends)
    topo = Topology(
        kind="file",
        hosts=hosts,
        switches=2,
        links=make_links(a, b, 80, 1_000_000),
        buffer_bytes=np.array([300_000, 300_000]),
        names=tuple([f"h{i}" for i in range(hosts)] + ["s0", "s1"]),
        tier=np.array([0] * hosts + [1, 1]),
        params={},
    )
    flows = flow_list(topo, [(host, 4, 400_000) for host in range(4)] + [(0, 5, 400_000, "20us")])
    run = simulate(topo, flows, scheme, measure=QUIET)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == 5
    assert run.flows["slowdown"][0] > 2 and run.flows["slowdown"][4] == 1.0
    assert (of_host(run, 0, "pauses_received") > 0).tolist() == [True, False]


@pytest.mark.parametrize("scheme", ["fifo", "bfc", "hpcc", "pfc_tagged"])
def test_flows_leave_a_port_that_goes_down(scheme):
    """They go on by the other one, and go back when it is up again."""
    changes = [{"time": time, "a": "h0", "b": "s0", "up": up} for time, up in (("30us", False), ("150us", True))]
    topo = dual(changes=changes)
    flows = flow_list(topo, [(0, 4 + i % 4, 800_000) for i in range(4)])
    run = simulate(topo, flows, scheme, measure=Measure(sample="0s", port_series=False, packets=True))
    assert run.summary["flows_finished"] == 4
    assert run.summary["end_ns"] < 1_000_000  # it waits for no timeout of 4 ms
    sent = run.frame("packets").filter((pl.col("node") == topo.node("s0")) & (pl.col("event") == "enqueue"))
    times = sent.filter(pl.col("in_port") == 0)["time_ns"].to_numpy()
    assert (times < 32_000).any() and (times > 150_000).any()
    assert not ((times > 32_000) & (times < 150_000)).any()


@pytest.mark.parametrize("scheme", SEVERAL)
def test_every_scheme(scheme):
    """All flows arrive in full, with the same bits on two threads."""
    topo = dual(buffer=3_000_000, joined=True)
    flows = flow_list(topo, [(src, dst, 30_000, f"{src}us") for src in range(8) for dst in (0, 3, 5) if src != dst])
    runs = [simulate(topo, flows, scheme, threads=threads, measure=QUIET) for threads in (1, 2)]
    assert runs[0].summary["flows_finished"] == len(flows)
    same(*runs, scheme)


@pytest.mark.parametrize("scheme", ["dcpim", "homa", "sird", "ndp", "phost", "expresspass"])
def test_schemes_for_one_link_are_refused(scheme):
    topo = dual()
    with pytest.raises(SpecError, match=rf"scheme: {scheme} is for hosts with one link, .* h0 has 2; use another scheme"):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), scheme)


def test_ports_that_cannot_reach_each_other():
    """No path leads through a host: h0 - h1 - h2 are not joined by switches."""
    topo = Topology(
        kind="file",
        hosts=3,
        switches=2,
        links=make_links([0, 1, 1, 2], [3, 3, 4, 4], 80, 1_000_000),
        buffer_bytes=np.zeros(2),
        names=("h0", "h1", "h2", "s0", "s1"),
        tier=np.array([0, 0, 0, 1, 1]),
        params={},
    )
    run = simulate(topo, flow_list(topo, [(0, 1, 1000), (1, 2, 1000), (2, 1, 1000)]), FIFO())
    assert run.flows["slowdown"].to_list() == [1.0, 1.0, 1.0]
    for act in (
        lambda: flow_list(topo, [(0, 1, 1000), (0, 2, 1000)]),
        lambda: topo.path_links(1, 0, 2, seed=1),
        lambda: topo.ideal_fct_ps([0, 1], [0, 0], [1, 2], 1000, seed=1),
    ):
        with pytest.raises(SpecError, match=r"flows\.[01]: there is no path from h0 to h2: paths lead through switches only"):
            act()
