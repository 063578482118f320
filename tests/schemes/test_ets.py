"""Enhanced transmission selection against deficit round robin as published, below strict priorities; shares, mistakes."""

from collections import defaultdict

import numpy as np
import pytest
from helpers import QUANTUM, QUEUED_ACKS, check_alone, check_bad, check_threads, classed, network, planted, switch_rows, traced
from paper.drr import CyclicDRR

from penstock_net.composition import parse
from penstock_net.errors import PenstockError
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list


class Scheduler:
    """Strict priorities, then the others; a queue of no weight has one of 1."""

    def __init__(self, weights, strict):
        given = [*weights, *[0] * 8][:8]
        self.strict, self.strict_queues = strict, {i: [] for i in strict}
        self.shared = CyclicDRR(8, [int((weight or 1.0) * QUANTUM) for weight in given])
        self.shared.last = 0  # the first visit is of queue 1

    def enqueue(self, queue, size):
        if queue in self.strict:
            self.strict_queues[queue].append(size)
        else:
            self.shared.enqueue(queue, size)

    def dequeue(self):
        for queue in sorted(self.strict):
            if self.strict_queues[queue]:
                return queue, self.strict_queues[queue].pop(0)
        return self.shared.dequeue()


def crowd(topo):
    """Sizes and priorities of all kinds; the links to hosts 0 and 1 are the bottlenecks."""
    flows = [(2 + i % 14, i % 2, 9_000 + 1733 * i % 50_000, f"{170 * i}ns", "flows", 5 * i % 8) for i in range(64)]
    return classed(topo, flows)


def differs(scheme, weights, strict=(), host=QUEUED_ACKS):
    """Whether a packet leaves in another order than the published one."""
    topo = network(buffer="20MB")
    _, rows = traced(topo, crowd(topo), scheme, {"weights": weights, "strict": list(strict)}, host=host)
    served = 0
    for mine in switch_rows(topo, rows).values():
        ports = defaultdict(lambda: Scheduler(weights, strict))
        for row in mine:
            if row.event == "enqueue":
                ports[row.port].enqueue(row.queue, row.size)
            elif row.event == "dequeue":
                if ports[row.port].dequeue() != (row.queue, row.size):
                    return True
                served += 1
    assert served > 5000
    return False


@pytest.mark.parametrize(
    "weights, strict", [([], ()), ([4, 2, 1], ()), ([0.3, 1, 7.5, 2], (0, 5)), ([2] * 8, (7,)), ([], range(8))]
)
def test_packets_leave_in_the_published_order(weights, strict):
    assert not differs("ets", weights, strict)


MISTAKES = {
    "weights of others": ("ets.weights[i] if ets.weights[i] > 0", "ets.weights[7 - i] if ets.weights[7 - i] > 0"),
    "deficit kept by an empty queue": ("        if not may_send(queue):\n            credit.deficit = 0\n", ""),
    "deficit kept by the last packet": ("if queue.length == 1:", "if queue.length == 0:"),
    "no deficit": ("credit.deficit -= queue.head.size", "credit.deficit -= 0"),
    "strict ones in the other order": ("return i\n", "return PRIORITIES - 1 if may_send(queue_at(port, 7)) else i\n"),
    "one quantum for all": ("whole(weight * ", "whole(1.0 * "),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name, tmp_path):
    file = planted(tmp_path, "ets", *MISTAKES[name])
    assert differs(file, [3, 0.6, 1, 2], (5, 7))


@pytest.mark.parametrize("weights", [[1, 1, 1], [4, 2, 1], [1, 6, 3]])
def test_backlogged_priorities_share_a_link_by_their_weights(weights):
    """Three senders at full speed to one host until the first is done."""
    topo = star(hosts=4, buffer="100MB")
    flows = classed(topo, [(i + 1, 0, 4_000_000, "0us", "flows", i) for i in range(3)])
    run, rows = traced(topo, flows, "ets", {"weights": weights})
    first = run.flows["finish_ns"].min() * 1000
    sent = np.bincount([row.queue for row in rows if row.event == "dequeue" and row.node == 4 and row.at < first], minlength=3)
    assert sent[:3] / sent.sum() == pytest.approx(np.array(weights) / sum(weights), abs=0.01)


def test_an_idle_or_paused_priority_leaves_its_share_to_the_others():
    """Alone the other has the whole link; a paused one gets nothing and loses nothing."""
    topo = star(hosts=4, buffer="3MB")
    alone = classed(topo, [(1, 0, 1_000_000, "0us", "flows", 6)])
    run = simulate(topo, alone, parse("ets", {"weights": [100]}))
    assert run.flows["slowdown"].to_list() == [1.0]
    both = classed(topo, [(i, 0, 2_000_000, "0us", "flows", i % 2) for i in (1, 2, 3)])
    run = simulate(topo, both, parse("pfc+ets", {"pfc.priorities": 2, "weights": [1, 9], "pfc.alpha": 0.05}))
    assert run.summary["drops"] == 0 and run.ports["pauses_sent"].sum() > 20
    port = run.ports.filter(node=4, port=0)["tx_bytes"].item()
    busy = port * 80 / 1000
    assert run.summary["end_ns"] == pytest.approx(busy, rel=0.02), "the link to host 0 is never idle"


def test_laws():
    check_alone("ets")
    check_alone("ets", {"weights": [0.1] * 8, "strict": [3]})
    check_threads("ets")
    run = check_threads("pfc+ets", {"pfc.priorities": 1, "pfc.alpha": 0.02})
    assert run.ports["pauses_sent"].sum() > 0


def test_what_is_refused():
    check_bad("ets", {"weights": [-1]}, "0..1000")
    check_bad("ets", {"strict": [8]}, "strict")
    topo = star(hosts=3)
    for scheme, message in (("dqa+ets", "dqa chooses queues"), ("bfc+srf+ets", "both choose which queue is served")):
        with pytest.raises(PenstockError, match=message):
            simulate(topo, flow_list(topo, [(0, 1, 1000)]), scheme)
