"""The fabric's functions for held packets, long frames, paths and NIC queues, each with a small scheme."""

from collections import defaultdict

import polars as pl
import pytest
from helpers import EVERYTHING, US, incast, network, rows_of, switch_rows, traced

from penstock_net.composition import parse
from penstock_net.errors import PenstockError, SchemeError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import star
from penstock_net.workload import flow_list

HOLD = '''
"""Every k-th packet waits in a virtual output queue by its ingress, until a timer lets go one of each."""
parameters = {"k": ("int32 1..100", 3, "one in so many"), "period": ("time", "2us", "of the timer"),
              "first": ("int32 0..100", 0, "VOQ")}
node_state = {"seen": "int32"}
fabric = {"voqs": 4}
def choose_voq(me, node, port, pkt):
    mine = my_node(me, node)
    mine.seen += 1
    if pkt.kind != DATA or mine.seen % me.k:
        return -1
    if node.deadlines[me.at.index] == NEVER:
        set_timer(node, me.at.index, node.now + me.period)
    return me.first + pkt.in_port % 4
def on_timer(me, node):
    again = 0
    for i in range(4):
        release(node, i)
        if voq_at(node, i).length > 0:
            again = 1
    if again:
        set_timer(node, me.at.index, node.now + me.period)
'''


def singles(topo):
    """Flows of one packet, which cannot be reordered: none is sent twice."""
    return flow_list(topo, [(4 + i % 12, (i % 7) % 4, 1000 - i % 50, f"{10 * i}ns") for i in range(600)])


@pytest.fixture
def scheme(tmp_path):
    def write(text, name="mine", parameters=None):
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        return str(file)

    return write


def test_held_packets_are_stored_keep_their_order_and_are_counted(scheme):
    topo = network()
    run, rows = traced(topo, singles(topo), scheme(HOLD), {"k": 2})  # bytes are balanced at the end: check_invariants
    holds = 0
    for mine in switch_rows(topo, rows).values():
        voqs, stored, waiting, where = defaultdict(list), defaultdict(int), defaultdict(int), {}
        most = 0
        for row in mine:
            key = row.flow, row.offset
            if row.kind != 0 or row.event == "receive":
                continue
            if row.event == "hold":
                assert row.queue == row.in_port % 4
                voqs[row.queue].append(key)
                where[key] = row.queue
                stored[row.port] += row.size
                holds += 1
                waiting[row.queue] += row.size
                assert row.queue_bytes == waiting[row.queue]
                assert row.port_bytes == stored[row.port]
            elif row.event == "enqueue" and key in where:
                assert voqs[where[key]].pop(0) == key  # first in, first out
                waiting[where.pop(key)] -= row.size
                assert row.port_bytes == stored[row.port]  # it was there before
            elif row.event == "enqueue":
                stored[row.port] += row.size
                assert row.port_bytes == stored[row.port]
            elif row.event == "dequeue":
                stored[row.port] -= row.size
                assert row.port_bytes == stored[row.port]
            most = max(most, len([v for v in voqs.values() if v]))
        assert not any(voqs.values()) and not any(stored.values())
        assert run.frame("nodes")["max_voqs"][mine[0].node] == most
    assert holds > 100 and run.frame("nodes")["max_voqs"][:16].sum() == 0


def test_queueing_times_are_those_of_the_trace(scheme):
    """From the arrival, held or not, to the start of its transmission."""
    topo = network()
    measure = Measure(sample="0s", flows=False, packets=True, queueing=True)
    run = simulate(topo, singles(topo), parse(scheme(HOLD), {"k": 4}), measure=measure)
    arrived, sums = {}, defaultdict(lambda: [0, 0])
    for row in rows_of(run):
        key = row.node, row.flow, row.offset
        if row.node >= topo.hosts and row.kind == 0:
            if row.event in ("hold", "enqueue"):
                arrived.setdefault(key, row.at)
            elif row.event == "dequeue":
                total = sums[row.node, row.port]
                total[0] += 1
                total[1] += row.at - arrived.pop(key)
    found = {(n, p): [count, round(ns * 1000)] for n, p, _, count, ns in run.frame("queueing").iter_rows()}
    assert found == dict(sums) and max(ns for _, ns in found.values()) > 100 * US


def test_a_virtual_output_queue_that_is_not_there(scheme):
    with pytest.raises(SchemeError, match=r"index [4-7] is not in 0\.\.3.*in choose_voq at tor"):
        simulate(network(), incast(network(), range(4, 16)), parse(scheme(HOLD), {"first": 4}))


def test_a_held_packet_knows_it(scheme):
    """Packet.held is set at a switch that held it, and not at the next one that did not."""
    text = (
        HOLD
        + """
def on_dequeue(me, node, port, queue, pkt):
    if pkt.kind == DATA:
        pkt.ecn = 1 if pkt.held else 0
"""
    )
    topo = network()
    _, rows = traced(topo, singles(topo), scheme(text), {"k": 5})
    held = {(r.node, r.flow, r.offset) for r in rows if r.event == "hold"}
    sent = [r for r in rows if r.event == "dequeue" and r.kind == 0 and r.node >= topo.hosts]
    assert {r.ecn for r in sent} == {True, False}
    assert all(r.ecn == ((r.node, r.flow, r.offset) in held) for r in sent)


LONG = """
frame_state = {"numbers": "int64[20]", "first": "int64", "last": "int32"}
def on_dequeue(me, node, port, queue, pkt):
    if pkt.kind != DATA or pkt.number % 2:
        return
    frame = new_frame(node, me.at.kind, 5)
    frame.size = 64 + 8 * (pkt.number % 20)
    mine_frame = my_frame(me, frame)
    for i in range(20):
        mine_frame.numbers[i] = pkt.seq + i
    mine_frame.last = node.id
    mine_frame.first = pkt.seq
    send_frame(node, pkt.in_port, frame)
def on_control(me, node, port, pkt):
    frame = my_frame(me, pkt)
    for i in range(20):
        if frame.numbers[i] != frame.first + i or frame.last != port.peer_node:
            pause_port(node, port, me.at.bit)
"""


def test_long_frames_arrive_whole_and_are_counted(scheme):
    """A frame that came with anything else in it would stop its port; bytes on the wire are those of the frames."""
    topo = network()
    run, rows = traced(topo, incast(topo, range(4, 16), size=30_000), scheme(LONG))
    sent, got = defaultdict(int), defaultdict(int)
    for r in rows:
        if r.event == "dequeue" and r.kind == 0 and r.node >= topo.hosts and r.flow % 2 == 0:
            sent[r.node, r.in_port] += 64 + 8 * (r.flow % 20)
        elif r.event == "receive":
            got[r.node, r.port] += r.size
    counted = {(n, p): b for n, p, b in run.ports.select("node", "port", "control_bytes").iter_rows() if b}
    assert counted == dict(sent) and sum(sent.values()) >= sum(got.values()) > 0.95 * sum(sent.values())


def test_frames_of_two_schemes_share_their_memory(scheme):
    topo = network()
    run, _ = traced(topo, incast(topo, range(4, 16), size=30_000), f"{scheme(LONG)}+floodgate")
    assert run.ports["control_bytes"].sum() > 0


def test_a_frame_state_that_is_too_large(scheme):
    text = LONG.replace("int64[20]", "int64[33]")
    with pytest.raises(PenstockError, match=r"frame_state: numbers takes 33 elements; .* at most 256 bytes"):
        parse(scheme(text, "large"))


def test_two_that_choose_what_is_held_back(scheme):
    topo = star(hosts=2)
    with pytest.raises(PenstockError, match="both choose what is held back; keep one of them"):
        simulate(topo, flow_list(topo, [(0, 1, 1000)]), f"{scheme(HOLD)}+floodgate")


def test_nic_queues_by_destination_leave_no_choice():
    topo = network()
    flows = incast(topo, range(4, 16))
    with pytest.raises(PenstockError, match=r"^[^\n]*host\.nic_queues = 4[^\n]*leave it 0$"):
        simulate(topo, flows, "floodgate:ideal", host=HostConfig(nic_queues=4))
    simulate(topo, flows, "floodgate", host=HostConfig(nic_queues=4))


PATH = """
parameters = {"which": ("int32 -9..9", 1, "path")}
def choose_path(me, node, port, pkt):
    return me.which
"""


def test_a_path_is_chosen_and_one_that_is_not_there_is_refused(scheme):
    topo = network(spines=3)
    flows = incast(topo, range(4, 16))
    for which in range(3):
        run = simulate(topo, flows, parse(scheme(PATH), {"which": which}), measure=EVERYTHING)
        spines = run.ports.filter((pl.col("node") >= topo.node("spine0")) & (pl.col("tx_bytes") > 0))["node"].unique().to_list()
        assert spines == [topo.node("spine0") + which]
    for which in (-1, 3):
        with pytest.raises(SchemeError, match=rf"index {which} is not in 0\.\.2.*in choose_path at tor"):
            simulate(topo, flows, parse(scheme(PATH), {"which": which}))


LATE = """
'''Paces every flow, and holds flow 0 for 100 us when its first packet is acknowledged, perhaps at a new rate.

Perhaps a switch drops the only packet of a queue when another one comes, while it has paused the queue.'''
parameters = {"rate": ("rate", "1Gbps", "of every flow"), "again": ("bool", False, "set the rate again"),
              "gives": ("bool", False, "packets give way")}
def on_start(me, node, flow, pkt):
    set_rate(flow, me.rate)
def on_ack(me, node, flow, pkt):
    if flow.number == 0 and flow.acked == 1000:
        hold_flow(node, flow, node.now + 100000000)
        if me.again:
            set_rate(flow, 2 * me.rate)
            repace(node, flow)
def admit(me, node, port, pkt):
    queue = queue_at(port, 0)
    if me.gives and pkt.kind == DATA and queue.length == 1:
        pause_queue(node, port, 0, me.at.bit)
        drop_queued(node, port, queue, queue.head)
        resume_queue(node, port, 0, me.at.bit)
    return ADMITTED
"""


@pytest.mark.parametrize("again", [False, True])
def test_a_flow_that_is_paced_already_can_be_held(scheme, again):
    """And the other flow of its host keeps its times. A packet takes 2 x (1 us + 83.84 ns), its ACK 2 x (1 us + 4.8 ns)."""
    topo, made = star(hosts=3), parse(scheme(LATE), {"again": again})
    run = simulate(topo, flow_list(topo, [(0, 1, 2000), (0, 2, 3000, "1us")]), made, measure=EVERYTHING)
    packet, ack, gap = 2167.68, 2009.6, 1048 * 8  # ns; the gap between packets at 1 Gbit/s
    assert run.flows["fct_ns"].to_list() == [pytest.approx(packet + ack + 100_000 + packet), pytest.approx(2 * gap + packet)]


def test_what_comes_after_a_packet_was_dropped_from_a_paused_queue_is_sent(scheme):
    """Three packets meet: the first is sent at once, the second dropped, and the third follows the first after 83.84 ns."""
    topo, made = star(hosts=4), parse(scheme(LATE), {"rate": "100Gbps", "gives": True})
    flows = flow_list(topo, [(i, 0, 1000) for i in (1, 2, 3)])
    run = simulate(topo, flows, made, host=HostConfig(rto="100us"), max_time_ps=10**10)
    first, third, again = sorted(run.flows["fct_ns"])
    assert (first, third) == (pytest.approx(2167.68), pytest.approx(2251.52)) and again > 100_000
