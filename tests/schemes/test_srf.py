"""Shortest remaining flow first: every choice of a queue, at switches and NICs; SRPT on a link; with BFC and Ideal-FQ."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from helpers import (
    PAUSE,
    QUEUED_ACKS,
    check_alone,
    check_bad,
    check_threads,
    incast,
    network,
    pauses_of,
    planted,
    switch_rows,
    traced,
)
from paper import srf

from penstock_net.composition import parse
from penstock_net.errors import PenstockError
from penstock_net.hashing import flow_hash
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

WIRE, GAP = 1048, 80


def crowd(topo):
    flows = incast(
        topo,
        range(3, 16),
        size=[90_000 - 5300 * i for i in range(13)],
        every_ns=400,
        more=[(i, 15 - i, 40_000 + 11_000 * i, f"{3 * i}us") for i in range(8)],
    )
    return replace(flows, priority=(np.arange(len(flows)) % 7 == 3).astype("int8"))


def packet_of(node, row, flows):
    """At a node; of equals the one whose hash of the node's seed is smaller."""
    left = 0 if row.kind else int(flows.bytes[row.flow]) - row.offset
    turn = flow_hash(row.flow, 4 * int(flow_hash(node + (1 << 41), 1)))
    return int(flows.priority[row.flow]), left, int(turn), row.flow, row.offset, row.kind


def differs(scheme, parameters=None, host=QUEUED_ACKS):
    """Whether a switch serves another queue than the transcription, or a NIC another flow than the shortest one."""
    topo = network()
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, parameters, host=host)
    obeyed, chosen = pauses_of(run), 0
    for node, mine in switch_rows(topo, rows).items():
        links, arriving = defaultdict(srf.Link), {key: iter(got) for key, got in obeyed.items()}
        for row in mine:
            link = links[row.port]
            if row.event == "receive":
                _, queue, paused = next(arriving[node, row.port])
                assert paused == (row.flow == PAUSE)
                (link.pause if paused else link.resume)(queue)
            elif row.event == "enqueue":
                link.enqueue(row.queue, packet_of(node, row, flows))
            elif row.event == "dequeue":
                several = sum(bool(waiting) for waiting in link.queues.values()) > 1
                if link.dequeue() != (row.queue, packet_of(node, row, flows)):
                    return True
                chosen += several
    assert chosen > 500
    return False


CASES = {
    "dqa+srf": {},
    "bfc+srf": {"refresh": 0},
    "ideal_fq+srf": {},
    "sfq+srf": {"queues": 6},
}


@pytest.mark.parametrize("scheme", CASES)
def test_every_choice_is_the_transcription_s(scheme):
    assert not differs(scheme, CASES[scheme])


MISTAKES = {
    "bytes of the whole flow": ("left = flow.size - pkt.seq\n", "left = flow.size\n"),
    "bytes behind the packet": ("left = flow.size - pkt.seq\n", "left = flow.size - pkt.seq - pkt.payload\n"),
    "the longest first": ("return bytes < fewest", "return bytes > fewest"),
    "equals by another order": ("node.random_seed) < hash31(", "node.random_seed) > hash31("),
    "priorities": ("return pkt.priority < level", "return pkt.priority > level"),
    "paused queues": ("if queue.length > 0 and not queue.paused:\n            pkt", "if queue.length > 0:\n            pkt"),
    "ACKs": ("    return 0\n\n\ndef precedes", "    return 1000000000\n\n\ndef precedes"),
    "a queue that left the list": ("    my_queue(srf, queue_at(port, last)).place = place\n", ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "srf", *MISTAKES[mistake])
    try:
        found = differs(f"bfc+{file}", {"refresh": 0})
    except (PenstockError, AssertionError):  # a queue that cannot be served, flows that do not end
        found = True
    assert found


# ---- laws ----


@pytest.mark.parametrize("seed", range(3))
def test_a_link_is_as_good_as_srpt(seed):
    """Flows from hosts of their own to one: finishing times are those of preemptive SRPT, to a packet each."""
    r = np.random.default_rng(seed)
    sizes, starts = r.integers(2_000, 80_000, 8).tolist(), np.sort(r.integers(0, 9_000, 8)).tolist()
    topo = star(hosts=9)
    flows = flow_list(topo, [(1 + i, 0, size, f"{start}ns") for i, (size, start) in enumerate(zip(sizes, starts))])
    run = simulate(topo, flows, parse("ideal_fq+srf", {"window_cap": False}))
    path = 2 * 1_000_000 + WIRE * GAP
    arrivals = [(1000 * start + path - 1_000_000) / GAP for start in starts]
    ends = [GAP * end + 1_000_000 for end in srf.srpt(list(zip(arrivals, sizes)), 1000, 48)]
    got = [1000 * finish for finish in run.flows["finish_ns"].to_list()]
    assert abs(np.mean(got) - np.mean(ends)) <= WIRE * GAP
    assert np.mean(got) < 0.9 * np.mean(simulate(topo, flows, parse("ideal_fq")).flows["finish_ns"].to_numpy()) * 1000


def test_the_shorter_of_two_flows_takes_its_ideal_time():
    """Up to a packet of the other one, also when they start at one host."""
    topo = star(hosts=4)
    for src in (1, 2):
        flows = flow_list(topo, [(1, 0, 400_000, "1us"), (src, 0, 100_000, "9us")])
        run = simulate(topo, flows, parse("bfc+srf"))
        fct, ideal = run.flows["fct_ns"][1], run.flows["ideal_fct_ns"][1]
        assert ideal <= fct <= ideal + 2 * WIRE * GAP / 1000, src


def test_short_flows_gain_what_the_paper_says_and_long_ones_pay():
    """Appendix A.2: the tail of the flows below the median falls, with BFC and without a limit on queues."""
    topo = network()
    flows = crowd(topo)
    for fair, short in (("bfc", "bfc+srf"), ("ideal_fq", "ideal_fq+srf")):
        by_size = [simulate(topo, flows, parse(name)).flows.sort("bytes")["slowdown"].to_numpy() for name in (fair, short)]
        half = len(flows) // 2
        assert np.mean(by_size[1][:half]) < 0.8 * np.mean(by_size[0][:half])


def test_starvation_is_what_it_costs():
    """A long flow gets nothing while there are shorter ones."""
    topo = star(hosts=4)
    flows = flow_list(topo, [(1, 0, 1_000_000, "0us"), *((2 + i % 2, 0, 20_000, f"{1600 * i}ns") for i in range(40))])
    _, rows = traced(topo, flows, "ideal_fq+srf")
    of_long = [row.at for row in rows if row.event == "dequeue" and row.flow == 0 and row.port == 0]
    in_the_way = sum(10_000_000 < at < 60_000_000 for at in of_long)
    assert in_the_way * WIRE * GAP < 0.1 * 50_000_000


def test_pauses_are_obeyed_and_nothing_is_lost():
    topo = network()
    run, _ = traced(topo, crowd(topo), "bfc+srf", {"queues": 4})
    assert run.ports["pauses_sent"].sum() > 20 and run.summary["drops"] == 0


def test_losses_are_repaired():
    topo = network().with_loss(0.02)
    flows = flow_list(topo, [(i, (i + 5) % 16, 30_000 + 7 * i, f"{i}us") for i in range(16)])
    run, _ = traced(topo, flows, "bfc+srf", host=HostConfig(rto="200us"))
    assert run.flows["retransmitted_bytes"].sum() > 0


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("bfc+srf")
    check_alone("srf")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("bfc+srf", {"queues": 8})
    check_threads("ideal_fq+srf")


def test_one_scheduler_at_a_time():
    check_bad("pfabric+srf", None, "which queue is served")
