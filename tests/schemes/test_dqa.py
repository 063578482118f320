"""Queue assignment and deficit round robin against the transcriptions, packet by packet."""

from collections import Counter
from dataclasses import replace
from itertools import count

import numpy as np
import polars as pl
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
    peers_of,
    switch_rows,
    traced,
)
from paper import bfc, drr
from paper.queue_assignment import READINGS, Literal

from penstock_net.composition import parse
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.schemes.dqa import parameters as declared
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

ASSIGNMENTS = declared["assignment"][0].split()[1:]
IF_FULL = declared["if_full"][0].split()[1:]
RANDOM = ("reserved", "unpaused", "literal", "rotating", "rotating_unpaused", "joined")  # a random queue when none is free


class Given(Literal):
    """Stochastic and single assignment, which have a test of their own, test_stochastic_and_single: the queue that was taken."""

    def assign_queue(self, now_ps, packet, random_queue):
        self.entry(packet).size += 1
        self.entry(packet).q_assignment = packet.q_assignment = random_queue


def drawn(node, seed=1):
    """The random numbers of a switch, one after the other."""
    stream = 4 * int(flow_hash(node + (1 << 41), seed))
    return (int(flow_hash(k, stream)) for k in count(1))


def model_of(topo, node, values, reading=None, draws=None):
    """The transcription of a switch; `reading`: its class if not that of `assignment`, `draws`: if shared with others."""
    ports = [peers_of(topo)[node, p] for p in range(int(topo.port_count[node]))]
    hosts = frozenset(p for p, (peer, *_) in enumerate(ports) if peer < topo.hosts)
    draws = draws or drawn(node)
    return (reading or READINGS.get(ASSIGNMENTS[values["assignment"]], Given))(
        values["queues"],
        [2 * delay for _, _, delay, _ in ports],
        [rate for *_, rate in ports],
        table_size=values["queues"] * values["table"],
        sticky_hrtts=values["sticky"],
        draw=lambda: next(draws),
        paused_if_full=IF_FULL[values["if_full"]] == "any",
        host_ports=hosts,
    )


def entry_of(row, values, seed=1):
    """Index of a packet's flow-table entry; an ACK has the complement of its flow's hash."""
    h = flow_hash(row.flow, seed)
    return int(choice(~h if row.kind else h, node_seed(row.node, seed) + 1, values["queues"] * values["table"]))


def packet_of(row, flows, values, seed=1):
    """What the transcription reads of a packet."""
    dst = flows["src" if row.kind else "dst"][row.flow]
    place = int(choice(dst, node_seed(row.node, seed) + 3, 16 * values["queues"]))
    return bfc.Packet(row.in_port, row.port, entry_of(row, values), row.upstream_q, row.size, dst, place)


def replay(topo, run, rows, scheme, parameters=None):
    """Assert each choice of a queue and each choice of the next packet -> how often which thing happened."""
    values, seen = parse(scheme, parameters).values("dqa"), {"assigned": 0, "kept": 0, "none empty": 0, "served": 0}
    for node, mine in switch_rows(topo, rows).items():
        model, packets = model_of(topo, node, values), {}
        links = [LazyDRR(values["queues"], QUANTUM) for _ in range(int(topo.port_count[node]))]
        for row in mine:
            key = row.flow, row.offset, row.kind
            if row.event == "enqueue":
                p = packets[key] = packet_of(row, run.flows, values)
                before = model.entry(p).q_assignment
                none_empty = not any(model.empty[row.port])
                q, _ = model.on_enqueue(row.at, p, row.queue)
                assert q == row.queue, row
                assert row.queue_bytes == model.q_length[row.port][q]
                assert row.port_bytes == sum(model.q_length[row.port])
                seen["assigned" if q != before else "kept"] += 1
                seen["none empty"] += none_empty and q != before
                links[row.port].enqueue(row.queue, row.size)
            elif row.event == "dequeue":
                model.on_dequeue(row.at, packets.pop(key))
                assert links[row.port].dequeue() == (row.queue, row.size), row
                seen["served"] += 1
    return seen


@pytest.mark.parametrize("assignment", READINGS)
@pytest.mark.parametrize("queues", [4, 32, 100])
def test_dynamic_assignment_and_round_robin(queues, assignment):
    topo, parameters = network(), {"queues": queues, "assignment": assignment}
    flows = incast(
        topo,
        range(3, 16),
        size=[3000 * i + 500 for i in range(13)],
        every_ns=700,
        more=[(i, 15 - i, 40_000, f"{5 * i}us") for i in range(8)],
    )
    run, rows = traced(topo, flows, "dqa", parameters)
    seen = replay(topo, run, rows, "dqa", parameters)
    assert seen["assigned"] > 50 and seen["served"] > 1500 and (seen["none empty"] > 0) == (queues == 4), seen


def test_acknowledgements_are_flows_too():
    topo = network()
    flows = incast(topo, range(3, 16), size=20_000, every_ns=300)
    run, rows = traced(topo, flows, "dqa", host=QUEUED_ACKS)
    assert any(row.kind == 1 for row in rows)
    assert replay(topo, run, rows, "dqa")["assigned"] > 60


@pytest.mark.parametrize("gap, kept", [(36, True), (46, True), (50, False), (70, False)])
def test_a_flow_keeps_its_queue_for_the_sticky_time(gap, kept):
    """2 HRTT = 4 us = 47.7 packets.  Between a flow's packets its NIC sends `gap` others; its queue is given away."""
    topo = star(hosts=6)
    flows = flow_list(
        topo,
        [
            (1, 0, 2000, "0us"),
            (1, 5, 1000 * gap, "0.05us"),
            (2, 0, 10_000, "1us"),
            (3, 0, 200_000, "1us"),
            (4, 0, 200_000, "1.2us"),
        ],
    )
    flows = replace(flows, priority=np.array([1, 0, 1, 1, 1], dtype="int8"))
    run, rows = traced(topo, flows, "dqa", {"queues": 3})
    first, second = (row.queue for row in rows if row.flow == 0 and row.event == "enqueue")
    assert (second == first) == kept
    replay(topo, run, rows, "dqa", {"queues": 3})


@pytest.mark.parametrize("assignment", ["stochastic", "single"])
def test_stochastic_and_single(assignment):
    topo = network()
    flows = incast(topo, range(3, 16), size=20_000, every_ns=300)
    _, rows = traced(topo, flows, f"dqa:{assignment}", {"table": 10_000})  # so that no two flows share an entry
    hashed = [int(choice(flow_hash(row.flow, 1), node_seed(row.node, 1) + 2, 32)) for row in rows]
    assert len(set(hashed)) > 10
    assert [row.queue for row in rows] == (hashed if assignment == "stochastic" else [0] * len(rows))


@pytest.mark.parametrize("scheme", ["fifo", "dqa"])
def test_strict_priorities_above_the_round_robin(scheme):
    """A queue has the priority of the packet that found it empty."""
    topo = network()
    flows = incast(topo, range(3, 16), size=20_000, every_ns=100)
    flows = replace(flows, priority=(flows.src % 3).astype("int8"))
    _, rows = traced(topo, flows, scheme)
    served = Counter()
    for mine in switch_rows(topo, rows).values():
        links, levels = {}, {}
        for row in mine:
            link = links.setdefault(row.port, drr.Strict([LazyDRR(32, QUANTUM) for _ in range(3)]))
            if row.event == "enqueue":
                if row.queue_bytes == row.size:
                    levels[row.port, row.queue] = int(flows.priority[row.flow])
                link.enqueue(levels[row.port, row.queue], row.queue, row.size)
            elif row.event == "dequeue":
                assert link.dequeue() == (levels[row.port, row.queue], row.queue, row.size)
                served[levels[row.port, row.queue]] += 1
    assert min(served.values()) > 100 and len(served) == 3
    run = simulate(topo, flows, scheme)
    mean = run.flows.group_by("priority").agg(pl.col("fct_ns").mean()).sort("priority")["fct_ns"].to_list()
    assert mean == sorted(mean)


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("dqa")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("dqa", {"queues": 4})


def test_bad_parameters_are_refused():
    check_bad("dqa", {"queues": 0}, "1..1024")
    check_bad("dqa", {"assignment": "dynamical"}, "reserved, unpaused, literal, .*, stochastic, single")
    check_bad("dqa:stochastik", None, "stochastic")
