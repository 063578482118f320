"""What a flow has used of a host is used again by the next one, and what it remembers of its progress begins when it sends."""

import pytest
from networks import QUIET, HostConfig, flow_list, simulate

from penstock_net.composition import parse
from penstock_net.sim.checkpoint import layouts
from penstock_net.sim.core.checkpoint import Archive
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import Runner
from penstock_net.topology import leaf_spine, star


def bytes_of_receiver(scheme, count):
    """How much the state of a host is that has received so many flows, one after another, whose packets overtake others."""
    topo = leaf_spine(hosts=4, tors=2, spines=2)
    late = [
        {"time": "1ns", "a": "tor1", "b": "spine1", "rate": "10Gbps"},
        {"time": "1ns", "a": "tor0", "b": "spine1", "rate": "10Gbps"},
    ]
    flows = flow_list(topo.with_changes(late), [(0, 2, "40KB", f"{200 * i + 1}us") for i in range(count)])
    runner = Runner(Settings(topo.with_changes(late), flows, parse(scheme), measure=QUIET))
    run = runner.run()
    assert run.summary["flows_finished"] == count
    return len(Archive(runner.sim, layouts(runner.composition)).save_node(2))


@pytest.mark.parametrize("scheme", ["spray", "conweave", "ndp", "phost+spray", "homa+spray", "sird+spray", "dcpim+spray"])
def test_bitmaps_of_early_packets_are_used_again(scheme):
    """40 flows need no more than one: a host has 16 bitmaps at first."""
    assert bytes_of_receiver(scheme, 40) == bytes_of_receiver(scheme, 1)


def test_a_flow_that_has_waited_for_its_turn_does_not_time_out():
    """A thousand flows of a host take turns: each waits for longer than the RTO with everything acknowledged, then sends."""
    topo = star(hosts=2, rate="8Gbps", delay="25us")
    flows = flow_list(topo, [(0, 1, "5KB")] * 1000)
    run = simulate(topo, flows, "fifo", host=HostConfig(rto="500us"), measure=QUIET)
    assert run.flows["fct_ns"].min() > 3_000_000 and run.flows["retransmitted_bytes"].sum() == 0
