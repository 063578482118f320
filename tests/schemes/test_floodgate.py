"""Floodgate against the paper's transcription: what is held back, where, when it goes on, and every credit's effect."""

import pytest

from penstock.measure import HostConfig, Measure
from penstock.schemes import parse
from penstock.sim.simulate import simulate
from penstock.topology import leaf_spine
from penstock.workload import flow_list

QUIET = Measure(sample="0s")


def test_nobody_is_forgotten_behind_a_destination_that_is_through():
    """Two destinations in one VOQ: what the first one's last packet frees may have had its credits long before."""
    slow = [{"time": "0us", "a": "host0", "b": "tor0", "rate": "1Gbps"}]
    topo = leaf_spine(hosts=8, tors=4, spines=1).with_changes(slow)
    flows = flow_list(topo, [(2, 0, 60_000, "1us"), (3, 1, 60_000, "2us"), (4, 0, 60_000, "1us"), (5, 1, 60_000, "1us")])
    run = simulate(topo, flows, parse("floodgate", {"voqs": 1, "m": 0.1, "t": 0}), measure=QUIET, max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["retransmissions"] == 0


@pytest.mark.parametrize("scheme", ["floodgate", "floodgate:ideal"])
@pytest.mark.parametrize("tor", ["tor0", "tor1"], ids=["the receivers' link", "the senders' link"])
def test_a_link_that_stays_down_stops_nobody(scheme, tor):
    """What waits for it fills no window, neither here nor one switch before; what goes round it waits for nobody."""
    topo = leaf_spine(hosts=8, tors=2, spines=2).with_changes([{"time": "60us", "a": tor, "b": "spine0", "up": False}])
    flows = flow_list(topo, [(s, d, 400_000, f"{s - 4}us") for d in (0, 1) for s in range(4, 8)])
    run = simulate(topo, flows, parse(scheme, {"syn_timeout": "200us"}), measure=QUIET, host=HostConfig(rto="200us"), max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["end_ns"] < 3e6, run.summary["end_ns"]


def test_delayed_credits_are_sent_though_nothing_more_comes_from_that_ingress():
    """With `credit_bytes` below a packet every dequeue sends; the timer is there for what was delayed."""
    topo = leaf_spine(hosts=32, tors=8, spines=1)
    flows = flow_list(topo, [(s, 0, 120_000, "1us") for s in range(4, 32)])
    parameters = {"t": "1us", "m": 0.1, "thre_credit": 0.1, "credit_bytes": 1000, "syn_timeout": "10ms"}
    run = simulate(topo, flows, parse("floodgate", parameters), measure=QUIET, max_time_ps=10**10)
    assert run.summary["flows_finished"] == len(flows) and run.summary["end_ns"] < 1e6
