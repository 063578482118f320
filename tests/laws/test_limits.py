"""Values beyond the ranges of the core's integers are refused before the run, and settings at their limits take effect."""

import dataclasses

import polars as pl
import pytest
from networks import BFC, HostConfig, Measure, flow_list, simulate

from penstock_net.composition import parse
from penstock_net.errors import SpecError
from penstock_net.sim.builder import compose, network
from penstock_net.sim.builder import numbers as numbers_of
from penstock_net.sim.core.build import Simulation
from penstock_net.sim.lookahead import lookahead
from penstock_net.sim.settings import Settings
from penstock_net.topology import leaf_spine, star


def one_flow(size="10KB", start="0s"):
    topo = star(hosts=2)
    return topo, flow_list(topo, [(0, 1, size, start)])


def test_long_simulated_times():
    """Times are kept in 51 bits: 37 minutes of simulated time."""
    topo, flows = one_flow(start="1900s")
    assert simulate(topo, flows, measure=Measure(sample="0s")).flows["slowdown"][0] == 1.0
    topo, flows = one_flow(start="3000s")
    with pytest.raises(SpecError, match="time"):
        simulate(topo, flows, measure=Measure(sample="0s"))
    with pytest.raises(SpecError, match="time"):
        simulate(*one_flow(), max_time_ps=2**52)


@pytest.mark.parametrize("mtu", [31_900, 31_952])
def test_packets_of_up_to_32000_bytes_work(mtu):
    topo, flows = one_flow("1MB")
    assert simulate(topo, flows, host=HostConfig(mtu=mtu)).flows["slowdown"][0] == 1.0


@pytest.mark.parametrize("mtu", [31_953, 40_000, 65_000])
def test_larger_packets_are_refused(mtu):
    topo, flows = one_flow("1MB")
    with pytest.raises(SpecError, match="mtu"):
        simulate(topo, flows, host=HostConfig(mtu=mtu))


def test_acknowledgements_of_up_to_32000_bytes_work():
    topo, flows = one_flow("1MB")
    run = simulate(topo, flows, host=HostConfig(ack=32_000))
    assert run.ports.filter(pl.col("node") == 1)["tx_bytes"].item() >= 50 * 32_000


@pytest.mark.parametrize("ack", [32_768, 70_000])
def test_larger_acknowledgements_are_refused(ack):
    topo, flows = one_flow("1MB")
    with pytest.raises(SpecError, match="ack"):
        simulate(topo, flows, host=HostConfig(ack=ack))


@pytest.mark.parametrize(
    "settings, path",
    [
        (lambda: {"host": HostConfig(rto=1e300)}, "host.rto"),
        (lambda: {"host": HostConfig(nic_queues=2**15)}, "host.nic_queues"),
        (lambda: {"measure": Measure(sample="1e300s")}, "measure.sample"),
        (lambda: {"threads": "2"}, "threads"),
        (lambda: {"control_loss": "much"}, "control_loss"),
        (lambda: {"scheme": BFC(th_bytes="1e30B")}, "th_bytes"),
        (lambda: {"scheme": "bfcc"}, "scheme.name"),
    ],
)
def test_settings_that_the_core_cannot_hold_are_refused_with_their_key(settings, path):
    with pytest.raises(SpecError) as caught:
        simulate(*one_flow(), **settings())
    assert caught.value.path == path


def test_any_whole_number_of_threads():
    assert simulate(*one_flow(), threads=2.0).summary["threads"] == 2


def test_a_core_that_could_not_be_built_is_freed():
    topo, flows = one_flow()
    settings = Settings(topo, flows, parse("fifo"))
    shape, numbers = network(settings, compose(settings), lookahead(topo, 1)), numbers_of(settings)
    with pytest.raises(OverflowError):
        Simulation(shape, {**numbers, "rto": 2**70}, compose(settings))


@pytest.mark.parametrize("rto", ["1ps", "3ps", "4ps", "1ns"])
def test_tiny_timeouts_do_not_crash(rto):
    topo, flows = one_flow("1KB")
    try:
        assert simulate(topo, flows, host=HostConfig(rto=rto), max_time_ps=10**8).summary["flows_finished"] == 1
    except SpecError as error:
        assert "rto" in str(error)


def test_nic_queues_of_the_host():
    """HostConfig.nic_queues: with one queue, one pause holds all flows of a NIC."""
    topo = star(hosts=9)
    flows = flow_list(topo, [(h, 0, 200_000) for h in range(1, 9) for _ in range(3)])
    run = simulate(topo, flows, "bfc", host=HostConfig(nic_queues=1), measure=Measure(pauses=True))
    assert run.pauses.filter(pl.col("node") < topo.hosts)["queue"].unique().to_list() == [0]


@pytest.mark.parametrize("queues, nic_queues", [(1, 256), (256, 1), (2, 200)])
def test_pause_counters_for_every_queue_of_a_neighbour(queues, nic_queues):
    """More queues upstream than downstream and the other way round: every pause finds its counter, all flows finish."""
    topo = leaf_spine(hosts=8, tors=2, spines=2)
    flows = flow_list(topo, [(h, (h + k) % 8, 20_000) for h in range(8) for k in range(1, 8) for _ in range(12)])
    run = simulate(topo, flows, BFC(queues=queues, nic_queues=nic_queues), measure=Measure(pauses=True))
    assert run.summary["flows_finished"] == len(flows) and run.summary["drops"] == 0
    nic = run.pauses.filter(pl.col("node") < topo.hosts)["queue"]
    assert nic.n_unique() >= min(nic_queues, 40) and nic.max() < nic_queues


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1, 2**63 - 1])
def test_any_seed(seed):
    """Seeds beyond 31 bits choose the same paths in the switches and in the ideal times."""
    topo = leaf_spine(hosts=8, tors=2, spines=4)
    fast = topo.links["b"] == topo.node("spine0")
    links = topo.links.copy()
    links["ps_per_byte"][fast] = 20
    topo = dataclasses.replace(topo, links=links)
    flows = flow_list(topo, [(i % 4, 4 + i % 3, 5000, f"{20 * i}us") for i in range(40)])
    assert (simulate(topo, flows, seed=seed).flows["slowdown"] == 1.0).all()
