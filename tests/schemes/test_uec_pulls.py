"""The paths of pulls, the credit that receivers of Ultra Ethernet's transport give: turns of all, as in uet-htsim."""

import polars as pl
import pytest

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, planes, rails
from penstock_net.workload import flow_list


@pytest.mark.parametrize("scheme", ["uec:rccc+reps", "uec:both+reps"])
def test_no_flow_waits_for_credit_that_one_dead_path_takes(scheme):
    """A link loses everything and no route changes: each flow's credit is lost on one path of four only."""
    dies = {"time": "20us", "a": "tor0", "b": "spine0", "up": False, "on_down": "silent"}
    topo = leaf_spine(hosts=16, tors=2, spines=4).with_changes([dies])
    flows = flow_list(topo, [(i, (i + 8) % 16, 300_000) for i in range(16)])
    made = simulate(topo, flows, parse(scheme), measure=Measure(sample="0s"), max_time_ps=10**11)
    assert made.summary["flows_finished"] == 16


def test_pulls_of_one_flow_take_all_paths_alike():
    topo = leaf_spine(hosts=4, tors=2, spines=4)
    made = simulate(topo, flow_list(topo, [(0, 2, 2_000_000)]), parse("uec:rccc+oblivious"), measure=Measure(sample="0s"))
    up = made.ports.filter((pl.col("node") == topo.node("tor1")) & (pl.col("peer") >= topo.hosts))["control_bytes"].to_list()
    assert len(up) == 4 and sum(up) > 100 * 64 and max(up) < 1.5 * min(up)


@pytest.mark.parametrize("on_down", ["drop", "silent"])
@pytest.mark.parametrize("scheme", ["uec:rccc+mixed", "uec:both+mixed"])
def test_a_link_of_the_receiver_goes_down_between_a_packet_and_the_next_credit(scheme, on_down):
    """63 flows take turns, longer than an RTT: nothing of a flow is on its way, by another link, when one fails.  If nobody is
    told, pulls are lost until senders ask by another link."""
    dies = {"time": "150us", "a": "host2", "b": "tor0", "up": False, "on_down": on_down}
    topo = rails(servers=32, gpus=2, planes=4, spines=4, rate="100Gbps", delay="1us", buffer="12MB").with_changes([dies])
    flows = flow_list(topo, [(src, 2, 200_000) for src in range(topo.hosts) if src != 2])
    host, measure = HostConfig(ports="packet"), Measure(sample="0s")
    made = simulate(topo, flows, parse(scheme), host=host, measure=measure, max_time_ps=5 * 10**9)
    assert made.summary["flows_finished"] == len(flows)


def test_credit_is_paced_at_what_the_links_bring():
    """24 flows to a host whose eight links bring 1.25 Gbit/s and take 100: with credit for 100, packets are cut again and again,
    and their headers, 64 bytes of 4150 at 80 times the rate, leave nothing of the links for data."""
    slow = [{"time": "1ps", "a": "host0", "b": f"tor{8 * i}", "rate": "1.25Gbps", "of": f"tor{8 * i}"} for i in range(8)]
    topo = rails(servers=16, gpus=8, planes=8, spines=4, rate="100Gbps", delay="1us", buffer="12MB").with_changes(slow)
    flows = flow_list(topo, [(src, 0, 50_000) for src in range(1, 25)])
    host, measure = HostConfig(ports="packet", mtu=4086, header=64), Measure(sample="0s")
    made = simulate(topo, flows, parse("uec:rccc+mixed"), host=host, measure=measure, max_time_ps=5 * 10**9)
    assert made.summary["flows_finished"] == 24 and made.summary["retransmissions"] < 1000


@pytest.mark.parametrize("scheme", ["uec:rccc+oblivious", "uec:both+oblivious"])
def test_a_lone_flow_begins_with_credit_for_all_ports_whose_turns_its_packets_take(scheme):
    """1.5 bandwidth-delay products of each fill the four of them until the first credit comes."""
    topo = planes(hosts=4, planes=4, tors=1, spines=1, rate="100Gbps", delay="1us", buffer="4MB")
    host = HostConfig(ports="packet", mtu=4086, header=64)
    made = simulate(topo, flow_list(topo, [(1, 0, 300_000)]), parse(scheme), host=host, measure=Measure(sample="0s"))
    assert made.flows["slowdown"][0] == 1.0
