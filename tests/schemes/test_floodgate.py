"""Floodgate against the paper's transcription: what is held back, where, when it goes on, and every credit's effect."""

from penstock.measure import Measure
from penstock.schemes import parse
from penstock.sim.simulate import simulate
from penstock.topology import leaf_spine
from penstock.workload import flow_list


def test_nobody_is_forgotten_behind_a_destination_that_is_through():
    """Two destinations in one VOQ: what the first one's last packet frees may have had its credits long before."""
    slow = [{"time": "0us", "a": "host0", "b": "tor0", "rate": "1Gbps"}]
    topo = leaf_spine(hosts=8, tors=4, spines=1).with_changes(slow)
    flows = flow_list(topo, [(2, 0, 60_000, "1us"), (3, 1, 60_000, "2us"), (4, 0, 60_000, "1us"), (5, 1, 60_000, "1us")])
    run = simulate(topo, flows, parse("floodgate", {"voqs": 1, "m": 0.1, "t": 0}), measure=Measure(sample="0s"), max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["retransmissions"] == 0
