"""Stochastic fair queueing: the queue of each packet, the round robin, its laws, BFC's stochastic assignment without pauses."""

from collections import Counter

import numpy as np
import pytest
from helpers import (
    QUANTUM,
    QUEUED_ACKS,
    LazyDRR,
    check_alone,
    check_bad,
    check_threads,
    incast,
    network,
    planted,
    switch_rows,
    traced,
)

from penstock_net.composition import parse
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

WIRE = 1048


def hashed(row, queues, seed=1):
    """Queue of a packet; an ACK has the complement of its flow's hash."""
    h = flow_hash(row.flow, seed)
    return int(choice(~h if row.kind else h, node_seed(row.node, seed) + 2, queues))


def crowd(topo):
    return incast(topo, range(3, 16), size=[20_000 + 1700 * i for i in range(13)], every_ns=300)


def differs(scheme, queues):
    """Whether a packet is in another queue than its hash says, or leaves in another order than round robin."""
    topo = network()
    _, rows = traced(topo, crowd(topo), scheme, {"queues": queues}, host=QUEUED_ACKS)
    served = 0
    for mine in switch_rows(topo, rows).values():
        links = {row.port: LazyDRR(queues, QUANTUM) for row in mine}
        for row in mine:
            if row.event == "enqueue":
                if row.queue != hashed(row, queues):
                    return True
                links[row.port].enqueue(row.queue, row.size)
            elif row.event == "dequeue":
                if links[row.port].dequeue() != (row.queue, row.size):
                    return True
                served += 1
    assert served > 1000
    return False


@pytest.mark.parametrize("queues", [1, 5, 32, 200])
def test_every_packet_is_where_its_hash_says_and_leaves_in_turn(queues):
    assert not differs("sfq", queues)


MISTAKES = {
    "one hash at all switches": ("node.hash_seed + 2", "2"),
    "as ECMP": ("node.hash_seed + 2", "node.hash_seed"),
    "by destination": ("pick(pkt.hash,", "pick(pkt.dst,"),
    "not all queues": ("sfq.queues)", "sfq.queues - 1)"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "sfq", *MISTAKES[mistake])
    assert differs(file, 32)


def test_the_same_as_bfc_s_stochastic_assignment():
    """`dqa:stochastic` keeps a flow table and gives the same queues; both without backpressure."""
    topo = network()
    runs = [traced(topo, crowd(topo), name)[1] for name in ("sfq", "dqa:stochastic")]
    assert runs[0] == runs[1]


def test_how_often_a_flow_shares_its_queue():
    """P(with at least one of n others) = 1 - (31/32)^n, over switches, whose hashes are independent."""
    n, switches = 20, np.arange(3000)
    seeds = node_seed(switches, 1)
    queues = np.array([choice(flow_hash(flow, 1), seeds + 2, 32) for flow in range(n + 1)])
    shares = (queues[1:] == queues[0]).any(axis=0).mean()
    assert abs(shares - (1 - (31 / 32) ** n)) < 4 * (0.25 / len(switches)) ** 0.5


def test_flows_that_do_not_collide_get_equal_shares():
    """While all are backlogged, their bytes differ by a packet for each that sends at a time."""
    topo = star(hosts=9)
    flows = flow_list(topo, [(i, 0, 100_000, "1us") for i in range(1, 9)])
    _, rows = traced(topo, flows, "sfq", {"queues": 1024})
    out = [row for row in rows if row.event == "dequeue" and row.port == 0]
    assert len({row.queue for row in out}) == 8
    first_end = next(i for i, row in enumerate(out) if row.offset == 99_000)
    sent = Counter(row.flow for row in out[16:first_end])
    assert max(sent.values()) - min(sent.values()) <= 1


def test_one_queue_for_two_flows_is_one_turn():
    topo = star(hosts=4)
    flows = flow_list(topo, [(i, 0, 300_000, "1us") for i in range(1, 4)])
    queues = [int(choice(flow_hash(flow, 1), node_seed(4, 1) + 2, 2)) for flow in range(3)]
    alone = next(i for i in range(3) if queues.count(queues[i]) == 1)
    run = simulate(topo, flows, parse("sfq", {"queues": 2}))
    fct = run.flows["fct_ns"].to_list()
    assert fct[alone] < 0.72 * min(fct[i] for i in range(3) if i != alone)


def test_nothing_is_paused_and_a_full_buffer_drops():
    topo = network(buffer="100KB")
    run, _ = traced(topo, crowd(topo), "hpcc+sfq", {"pfc": False}, host=HostConfig(rto="200us"))
    assert run.summary["drops"] > 0 and run.ports["pauses_sent"].sum() == 0


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("sfq")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("sfq", {"queues": 4})


def test_bad_parameters_are_refused():
    check_bad("sfq", {"queues": 0}, "1..1024")
    check_bad("sfq+dqa", None, "both choose the queue")
