"""Lost packets and the time until retransmission timeouts, by flow: from the packets' trace, and what a run says of them."""

import numpy as np
import polars as pl
import pytest

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.topology.changes import LinkChange
from penstock_net.workload import Flows, flow_list

US = 1_000_000
WARNING = "waited for retransmission timeouts"


def told(run):
    return [text for text in run.summary["warnings"] if WARNING in text]


def dark(rows, down, until, scheme="fifo", rto="200us", given=None, topo=None, **more):
    """Flows to host 1 of a star, whose link fails for a while."""
    topo = topo or star(hosts=4, rate="100Gbps", delay="1us", buffer="8MB")
    topo = topo.with_changes([LinkChange(down * US, 1, up=False), LinkChange(until * US, 1, up=True)])
    flows = flow_list(topo, rows)
    return simulate(topo, flows, parse(scheme, given or {}), host=HostConfig(rto=rto), measure=Measure(packets=True), **more)


@pytest.mark.parametrize("threads", [1, 3])
def test_exact_by_hand(threads):
    """One flow, one outage, one timeout: the time is from the last acknowledgement that told of progress until the go-back.

    Packets of 1048 B leave every 83.84 ns, ACKs take 4.8 ns. The ACK of packet k is at the switch at 3172.48 ns + k 83.84 ns, and
    lost from 10 us on: the last one is that of packet 81, and it is at the sender at 10968.32 ns. The check for timeouts is every
    50 us, so the first one more than 200 us later is at 250 us.
    """
    run = dark([(0, 1, "300KB", "0us")], 10, 40, threads=threads)
    lost = run.frame("packets").filter(pl.col("flow_id") == 0, pl.col("kind") < 2, pl.col("event") == "drop").height
    assert run.flows["lost_packets"][0] == lost == run.summary["drops"] > 0
    assert run.flows["timeout_ns"][0] == pytest.approx(250_000 - 10_968.32, abs=0.001)
    assert run.flows["fct_ns"][0] > 250_000


def test_none_without_losses_or_timeouts():
    run = dark([(0, 1, "300KB", "0us"), (2, 3, "100KB", "0us")], 400, 500)
    assert run.flows["lost_packets"].sum() == 0 and run.flows["timeout_ns"].sum() == 0 and not told(run)
    run = dark([(0, 1, "300KB", "0us"), (2, 3, "100KB", "0us")], 10, 40)
    assert run.flows["lost_packets"][1] == 0 and run.flows["timeout_ns"][1] == 0


def test_a_timeout_while_packets_are_held_up_is_no_cause():
    """A long pause lets timeouts expire, though nothing is lost: the storm decides, not the timeout."""
    topo = star(hosts=4, buffer="1MB")
    flows = flow_list(topo, [(1, 0, "2MB"), (2, 0, "2MB")])
    made = parse("pfc", {"storm_host": 0, "storm_start": "20us", "storm_until": "900us"})
    run = simulate(topo, flows, made, host=HostConfig(rto="100us"))
    assert run.flows["timeout_ns"].min() > 0 and run.flows["lost_packets"].sum() == 0
    assert run.summary["drops"] == 0 and not told(run)


def test_the_warning_names_key_and_share():
    run = dark([(0, 1, "300KB", "0us")], 10, 40)
    (text,) = told(run)
    assert text.startswith("1 of 1 flows lost packets") and "host.rto = 200us" in text and "timeout_ns" in text
    assert not told(dark([(0, 1, "300KB", "0us")], 10, 40, rto="10us"))  # short beside the flow and the outage


def test_a_flow_among_many_that_ends_early_decides_nothing():
    """Less than one in a hundred, and not the last one."""
    rows = [(0, 1, "30KB", "0us"), *((2, 3, "1KB", f"{5 * i}us") for i in range(200))]
    run = dark(rows, 1, 4)
    assert run.flows["timeout_ns"][0] > 0 and run.flows["lost_packets"][0] > 0
    assert run.flows["finish_ns"].arg_max() != 0 and not told(run)
    assert told(dark(rows[:50], 1, 4))


def test_messages_of_a_connection_have_times_of_their_own():
    topo = star(hosts=4, rate="100Gbps", delay="1us", buffer="8MB")
    topo = topo.with_changes([LinkChange(60 * US, 1, up=False), LinkChange(100 * US, 1, up=True)])
    zeros = np.zeros(2, dtype=np.int64)
    sizes = np.array([30_000, 300_000])
    flows = Flows(np.array([0, 50 * US]), zeros, zeros + 1, sizes, zeros, zeros, ("a",), connection=zeros)
    run = simulate(topo, flows, parse("fifo"), host=HostConfig(rto="200us"))
    assert run.flows["timeout_ns"][0] == 0 < run.flows["timeout_ns"][1]
    assert told(run)


def test_a_dead_spine_under_spraying():
    """What sent an architect astray: 5 ms of an all-to-all were the default timeout; selective repeat needs none so long."""
    topo = leaf_spine(hosts=16, tors=4, spines=4, rate="100Gbps", delay="500ns", buffer="16MB")
    topo = topo.with_changes([{"time": "2us", "switch": "spine0", "up": False}])
    flows = flow_list(topo, [(i, (i + 5) % 16, "100KB") for i in range(16)])
    run = simulate(topo, flows, parse("pfc+spray"))
    assert told(run) and "host.rto = 4ms" in told(run)[0] and run.flows["fct_ns"].max() > 4e6
    repaired = simulate(topo, flows, parse("pfc+spray+recovery:irn"))
    assert repaired.flows["fct_ns"].max() < 1e6
