"""How much a switch stores under pauses of single queues: a burst for each queue that leads to it, perhaps more than there is.

BFC (NSDI 2022) says so in section 5: an upstream queue can send for up to an HRTT before it is paused, "in certain mass incast
scenarios, this might be sufficient to trigger drops". A queue that is resumed is such a queue again.
"""

import polars as pl
import pytest

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine
from penstock_net.workload import flow_list

HOSTS, FLOWS, MTU, HEADER = 8, 24, 4096, 48
BURST = 50_000 + 2 * (MTU + HEADER)  # bytes: 1 us of 400 Gbit/s, and the packets that both ends wait for


def network(buffer):
    return leaf_spine(hosts=2 * HOSTS, tors=2, spines=1, rate="400Gbps", uplink_rate="800Gbps", delay="500ns", buffer=buffer)


def crossing(buffer, given=None, size="200KB", measure=None, **more):
    """Every host of one rack sends to those of the other one, four to one oversubscribed; every flow has a queue of its NIC."""
    topo = network(buffer)
    pairs = [(src, HOSTS + (src + i) % HOSTS) for src in range(HOSTS) for i in range(FLOWS)]
    flows = flow_list(topo, [(src, dst, size) for src, dst in pairs])
    made = parse("bfc", {"nic_queues": 128, **(given or {})})
    return simulate(topo, flows, made, host=HostConfig(mtu=MTU, header=HEADER), measure=measure or Measure(), **more)


@pytest.mark.parametrize("queues", [8, 32, 128])
def test_a_queue_stores_at_most_a_burst(queues):
    """Whatever the number of queues at the switch: each flow, with a queue of its own upstream, has at most a burst there;
    most of them are near it when their NICs have little else to send."""
    run = crossing("64MB", {"dqa.queues": queues}, measure=Measure(packets=True))
    tor = run.frame("packets").filter(
        pl.col("node") == 2 * HOSTS, pl.col("kind") == 0, pl.col("event").is_in(["enqueue", "dequeue"])
    )
    change = pl.when(pl.col("event") == "enqueue").then(pl.col("bytes")).otherwise(-pl.col("bytes"))
    stored = tor.with_columns(stored=change.cum_sum().over("flow_id")).group_by("flow_id").agg(pl.col("stored").max())["stored"]
    assert len(stored) == HOSTS * FLOWS
    assert stored.max() <= BURST
    assert stored.max() > BURST - 3 * (MTU + HEADER)  # one that has been resumed has sent all that it may
    assert stored.mean() > 4 * (MTU + HEADER)
    largest = run.frame("nodes").filter(pl.col("node") == 2 * HOSTS)["max_buffer_bytes"][0]
    assert 0.4 * HOSTS * FLOWS * BURST < largest <= HOSTS * FLOWS * BURST and run.summary["drops"] == 0
    assert not [text for text in run.summary["warnings"] if "full buffer" in text]


def test_a_buffer_that_is_smaller_overflows_and_a_warning_says_why():
    run = crossing("4MB")
    lost = int(run.ports.filter(pl.col("node") == 2 * HOSTS)["drops"].sum())
    assert lost == run.summary["drops"] > 0
    (told,) = [text for text in run.summary["warnings"] if "full buffer" in text]
    leading = HOSTS * 128 + 32  # NIC queues, and those of the spine
    assert f"tor0 lost {lost:,} packets in a full buffer of 4MB although bfc pauses queues" in told
    assert f"each of the {leading:,} queues that lead to it" in told and "host.nic_queues" in told
    assert f"{BURST + 50_000:,}"[:3] in told.replace(".", "")  # the burst of the faster link, 108.288KB


def test_fewer_nic_queues_keep_it():
    """The remedy that the warning names: 8 hosts with 4 queues each store at most 32 bursts of 58 288 B, 1.9 MB."""
    run = crossing("4MB", {"nic_queues": 4})
    assert run.summary["drops"] == 0 and run.summary["max_buffer_bytes"] <= HOSTS * 4 * BURST
    assert not [text for text in run.summary["warnings"] if "full buffer" in text]


def test_drops_of_others_are_not_told_so():
    """A full buffer of a scheme that pauses no queues is no surprise."""
    topo = network("1MB")
    flows = flow_list(topo, [(src, HOSTS, "200KB") for src in range(HOSTS)])
    run = simulate(topo, flows, parse("fifo"), host=HostConfig(mtu=MTU))
    assert run.summary["drops"] > 0 and not [text for text in run.summary["warnings"] if "full buffer" in text]
