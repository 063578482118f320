"""Dynamic thresholds: every packet is stored or dropped as the rule says; what one and two congested ports may store."""

from collections import Counter

import pytest
from helpers import QUEUED_ACKS, check_alone, check_bad, check_threads, incast, network, planted, switch_rows, traced

from penstock_net.sim.config import HostConfig
from penstock_net.topology import star
from penstock_net.workload import flow_list

BUFFER = 300_000
HOST = HostConfig(ack_priority="data", rto="200us")


def differs(scheme, alpha):
    """Whether a switch stores or drops another packet than T(t) = alpha (B - Q(t)) says, by a count of its own."""
    topo = network(buffer=f"{BUFFER}B")
    flows = incast(topo, range(3, 16), size=[60_000 + 1700 * i for i in range(13)], every_ns=300)
    _, rows = traced(topo, flows, scheme, {"alpha": alpha}, host=HOST)
    dropped = 0
    for mine in switch_rows(topo, rows).values():
        stored = Counter()
        for row in mine:
            if row.event == "dequeue":
                stored[row.port] -= row.size
                continue
            fits = stored[row.port] + row.size <= alpha * (BUFFER - stored.total())
            if fits != (row.event == "enqueue"):
                return True
            stored[row.port] += row.size if fits else 0
            dropped += not fits
    assert dropped > 50
    return False


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_every_packet_is_stored_or_dropped_by_the_rule(alpha):
    assert not differs("dynamic_threshold", alpha)


MISTAKES = {
    "of the whole buffer": ("(node.buffer_size - node.buffer_used)", "node.buffer_size"),
    "without the packet itself": ("port.bytes + pkt.size >", "port.bytes >"),
    "of all ports together": ("port.bytes +", "node.buffer_used +"),
    "half of alpha": ("> dynamic_threshold.alpha *", "> dynamic_threshold.alpha * 0.5 *"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(tmp_path, mistake):
    file = planted(tmp_path, "dynamic_threshold", *MISTAKES[mistake])
    assert differs(file, 0.5)


@pytest.mark.parametrize(("alpha", "receivers"), [(1, 1), (1, 2), (0.5, 1), (4, 2)])
def test_congested_ports_share_what_the_threshold_leaves(alpha, receivers):
    """k ports that are all congested store k alpha / (1 + k alpha) of the buffer (Choudhury and Hahne, equation 4); until they
    share it equally more, since each may take its part of what those before it have left."""
    topo = star(hosts=16, buffer="1MB")
    flows = flow_list(topo, [(src, src % receivers, 400_000, "1us") for src in range(2, 16)])
    run, _ = traced(topo, flows, "dynamic_threshold", {"alpha": alpha}, host=HOST)
    share = receivers * alpha / (1 + receivers * alpha)
    assert share * 1e6 - 20_000 <= run.summary["max_buffer_bytes"] <= (1 - (1 + alpha) ** -receivers) * 1e6


def test_an_unbounded_buffer_drops_nothing():
    topo = star(hosts=8, buffer="0B")
    run, _ = traced(topo, incast(topo, range(1, 8)), "dynamic_threshold", {"alpha": 0.01}, host=QUEUED_ACKS)
    assert run.summary["drops"] == 0


def test_a_lone_flow_finishes_in_the_ideal_time():
    check_alone("dynamic_threshold")


def test_any_number_of_threads_gives_the_same_results():
    check_threads("dynamic_threshold", {"alpha": 0.1}, topo=network(buffer="200KB"))


def test_bad_parameters_are_refused():
    check_bad("dynamic_threshold", {"alpha": 0}, "0.001..1024")
