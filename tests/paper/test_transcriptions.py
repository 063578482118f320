"""The transcriptions themselves, by dialogues computed by hand: one per rule of the papers."""

# ruff: noqa: SIM300 (the papers' symbols are capitals, not constants)

import random
from fractions import Fraction
from math import pi, sqrt

import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from . import backdraft, bfc, dcqcn, dctcp, drr, expresspass, floodgate, gobackn, hpcc, ideal_fq, pfc, timely

US = 1_000_000


# BFC ------------------------------------------------------------------------------------------------------------------


def bfc_switch(**options):
    """Two ports of 100 Gbit/s, HRTT 2 us: 1-hop BDP 25000 bytes."""
    options = {"queues": 4, "hrtt_ps": [2 * US, 2 * US], "ps_per_byte": [80, 80]} | options
    return bfc.Switch(**options)


def packet(flow, size=1000, upstream_q=7, ingress=0, egress=1):
    return bfc.Packet(ingress, egress, flow, upstream_q, size)


def put(switch, now, *packets, random_queue=None):
    return [switch.on_enqueue(now, p, random_queue) for p in packets]


def test_bfc_flows_get_the_first_empty_queue_and_keep_it():
    s = bfc_switch()
    assert [q for q, _ in put(s, 0, packet(10), packet(11), packet(10), packet(12))] == [0, 1, 0, 2]


def test_bfc_the_random_queue_only_when_none_is_empty():
    s = bfc_switch(queues=2)
    assert [q for q, _ in put(s, 0, packet(10), packet(11), packet(12), random_queue=1)] == [0, 1, 1]
    assert s.on_enqueue(0, packet(13, egress=0), 1)[0] == 0  # the other port's queues are empty


def test_bfc_a_collision_in_the_flow_table_shares_the_queue():
    s = bfc_switch()
    assert [q for q, _ in put(s, 0, packet(5), packet(5 + 400), packet(6))] == [0, 0, 1]
    assert s.flow_table[1, 5].size == 2
    assert s.on_enqueue(0, packet(5, egress=0))[0] == 0  # another egress port: another entry


def test_bfc_sticky_threshold_counts_from_the_last_enqueue_or_dequeue():
    s = bfc_switch()
    first, other = packet(10), packet(11)
    put(s, 0, first, other)
    s.on_dequeue(3 * US, other)
    s.on_dequeue(4 * US, first)  # both queues are empty from here on
    again = packet(11)
    assert s.on_enqueue(7 * US, again)[0] == 1  # 4 us after its dequeue: not older than 2 HRTT
    s.on_dequeue(7 * US, again)
    assert s.on_enqueue(11 * US + 1, packet(11))[0] == 0  # older: the first empty queue


def test_bfc_no_reassignment_while_packets_are_in_the_switch():
    s = bfc_switch()
    other, flow = packet(10), packet(11)
    put(s, 0, other, flow)
    s.on_dequeue(1, other)
    assert s.on_enqueue(100 * US, packet(11))[0] == 1


def test_bfc_pause_on_0_to_1_and_resume_on_1_to_0():
    s = bfc_switch()
    packets = [packet(10) for _ in range(28)]
    sent = [frames for _, frames in put(s, 0, *packets)]
    # The 25th packet makes the queue exactly 25000 bytes: not more than Th. The 26th exceeds it, the others only count.
    assert sent == [[]] * 25 + [[bfc.Frame("pause", 0, 7)]] + [[]] * 2
    assert s.pause_counter == {(0, 7): 3}
    assert s.pause_bitmap(0, 8) == [False] * 7 + [True]
    sent = [s.on_dequeue(1, p) for p in packets]
    assert sent == [[]] * 27 + [[bfc.Frame("resume", 0, 7)]]
    assert s.pause_bitmap(0, 8) == [False] * 8


def test_bfc_the_counter_follows_the_packet_not_the_threshold():
    s = bfc_switch()
    packets = [packet(10) for _ in range(26)]
    put(s, 0, *packets)
    for p in packets[:-1]:
        assert s.on_dequeue(1, p) == []  # far below Th, still paused
    assert s.on_dequeue(1, packets[-1]) == [bfc.Frame("resume", 0, 7)]


def test_bfc_each_upstream_queue_has_its_counter():
    s = bfc_switch()
    put(s, 0, packet(10, size=25000))
    frames = [f for _, f in put(s, 0, packet(10, upstream_q=1), packet(10, upstream_q=2), packet(10, upstream_q=1))]
    assert frames == [[bfc.Frame("pause", 0, 1)], [bfc.Frame("pause", 0, 2)], []]
    frames = put(s, 0, packet(10, ingress=1, upstream_q=1))[0][1]
    assert frames == [bfc.Frame("pause", 1, 1)]


def test_bfc_th_is_shared_by_the_active_queues():
    s = bfc_switch()
    assert put(s, 0, packet(10, 12500), packet(11, 12500)) == [(0, []), (1, [])]  # Th = 12500 with two queues
    assert put(s, 0, packet(11, 1))[0][1] == [bfc.Frame("pause", 0, 7)]
    s.on_pause(1, 0)  # a paused queue is not active: Th = 25000 again
    assert s.n_active(1, 1) == 1
    assert put(s, 0, packet(11, 12499, upstream_q=3)) == [(1, [])]
    assert s.n_active(1, 0) == 2  # a packet for the paused queue counts it


def test_bfc_th_takes_the_largest_hrtt_and_the_speed_of_the_egress():
    s = bfc_switch(hrtt_ps=[2 * US, 4 * US], ps_per_byte=[80, 20])
    assert put(s, 0, packet(10, 200_000)) == [(0, [])]
    assert put(s, 0, packet(10, 1))[0][1]
    assert put(s, 0, packet(10, 50_000, egress=0, upstream_q=1)) == [(0, [])]
    assert put(s, 0, packet(10, 1, egress=0, upstream_q=1))[0][1]


def test_bfc_pauses_are_obeyed_and_the_bitmap_replaces_them():
    s = bfc_switch()
    put(s, 0, packet(10), packet(11), packet(12))
    s.on_pause(1, 0)
    s.on_pause(1, 0)  # idempotent
    assert s.eligible(1) == [1, 2]
    s.on_bitmap(1, [False, True, False, False])  # the resume of 0 and the pause of 1 were lost
    assert s.eligible(1) == [0, 2]
    s.on_resume(1, 1)
    assert s.eligible(1) == [0, 1, 2]


def test_bfc_elided_backpressure():
    s = bfc_switch(no_backpressure=frozenset({(0, 1)}))
    p = packet(10, 30_000)
    assert s.on_enqueue(0, p) == (0, [])
    assert s.on_dequeue(1, p) == []
    assert s.on_enqueue(1, packet(10, 30_000, ingress=1))[1]


@pytest.mark.parametrize(("assignment", "queues"), [("stochastic", [2, 3, 2]), ("single", [0, 0, 0])])
def test_bfc_static_assignments(assignment, queues):
    s = bfc_switch(assignment=assignment)
    assert [q for q, _ in put(s, 0, packet(10), packet(11), packet(6))] == queues


def test_bfc_appendix_c():
    assert bfc.E_f(2, 1) == 0.2
    assert bfc.E_f_max(1) == (0.2, 2)
    assert bfc.E_f(1.1, 1) == pytest.approx(0.076, abs=0.0005)
    for th in (0.25, 1, 2, 4):
        worst, at = bfc.E_f_max(th)
        xs = [1 + k / 1000 for k in range(1, 9000)]
        assert max(bfc.E_f(x, th) for x in xs) == pytest.approx(worst, abs=1e-6)
        assert bfc.E_f(at, th) == pytest.approx(worst)
        assert all(bfc.E_f(x, th) == pytest.approx(bfc.E_f_by_phases(x, th)) for x in xs[::500])


# DRR ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [drr.DRR, drr.CyclicDRR])
def test_drr_the_example_of_the_paper(kind):
    """Figures 2 and 3: quantum 500; #1 holds 200, 750, 20, 500 and waits with the deficit 300 for its second packet."""
    s = kind(2, 500)
    for i, sizes in enumerate([(200, 750, 20), (500, 500)]):
        for size in sizes:
            s.enqueue(i, size)
    assert s.dequeue() == (0, 200)
    assert s.dequeue() == (1, 500)
    assert s.DC[0] == 300
    assert [s.dequeue() for _ in range(4)] == [(0, 750), (0, 20), (1, 500), None]
    assert s.DC == [0, 0]


@pytest.mark.parametrize("kind", [drr.DRR, drr.CyclicDRR])
def test_drr_small_packets_share_by_bytes(kind):
    s = kind(2, 1048)
    for _ in range(300):
        s.enqueue(0, 1048)
    for _ in range(3000):
        s.enqueue(1, 131)
    served = [0, 0]
    for _ in range(900):
        i, size = s.dequeue()
        served[i] += size
        assert abs(served[0] - served[1]) <= 3 * 1048


@pytest.mark.parametrize("kind", [drr.DRR, drr.CyclicDRR])
def test_drr_a_paused_queue_is_passed_over(kind):
    s = kind(3, 1000)
    for i in (0, 1, 2, 0, 1, 2):
        s.enqueue(i, 1000)
    s.pause(1)
    assert [s.dequeue() for _ in range(5)] == [(0, 1000), (2, 1000), (0, 1000), (2, 1000), None]
    s.resume(1)
    assert [s.dequeue() for _ in range(3)] == [(1, 1000), (1, 1000), None]


@pytest.mark.parametrize("kind", [drr.DRR, drr.CyclicDRR])
def test_drr_a_pause_ends_the_visit_and_its_deficit(kind):
    s = kind(2, 1000)
    for i, size in [(0, 300), (0, 300), (0, 900), (1, 1000)]:
        s.enqueue(i, size)
    assert s.dequeue() == (0, 300)
    s.pause(0)
    assert s.DC[0] == 0
    s.resume(0)
    assert [s.dequeue() for _ in range(3)] == [(1, 1000), (0, 300), (0, 900)]


def test_drr_the_active_list_and_the_cycle_differ_in_order_only():
    lists, cycle = drr.DRR(3, 1000), drr.CyclicDRR(3, 1000)
    for s in (lists, cycle):
        for i in (2, 0, 1):
            s.enqueue(i, 1000)
    assert [lists.dequeue()[0] for _ in range(3)] == [2, 0, 1]
    assert [cycle.dequeue()[0] for _ in range(3)] == [0, 1, 2]


def test_strict_levels_first():
    s = drr.Strict([drr.DRR(1, 1000), drr.DRR(2, 1000)])
    s.enqueue(1, 0, 1000)
    s.enqueue(1, 1, 1000)
    s.enqueue(0, 0, 60)
    assert s.dequeue() == (0, 0, 60)
    assert s.dequeue() == (1, 0, 1000)
    s.enqueue(0, 0, 60)
    assert [s.dequeue() for _ in range(3)] == [(0, 0, 60), (1, 1, 1000), None]


# PFC ------------------------------------------------------------------------------------------------------------------


def test_pfc_paper_pauses_above_11_percent_of_the_free_buffer():
    assert pfc.headroom(80, US) == 37_500
    s = pfc.paper(111_000 + 2 * 10_000, [10_000, 10_000])
    # use u is allowed while u <= 0.11 (111000 - u): u = 11000 exactly
    for _ in range(10):
        assert s.on_enqueue(0, 1000) == ((0, 1000, 0), [])
    assert s.threshold(s.ports[0]) == 11_110
    # Admitted under the threshold before it (11110); after it the threshold is 11000, and 11000 is not more than 11000.
    assert s.on_enqueue(0, 1000) == ((0, 1000, 0), [])
    assert s.on_enqueue(0, 1) == ((0, 0, 1), [pfc.Frame("pause", 0)])  # headroom in use
    assert s.on_enqueue(0, 1000) == ((0, 0, 1000), [])  # one pause only


def test_pfc_a_packet_may_take_the_port_above_its_own_new_threshold():
    s = pfc.paper(100_000, [0])
    assert s.on_enqueue(0, 11_000) == ((0, 11_000, 0), [pfc.Frame("pause", 0)])  # now 11 % of 89000 is 9790


def test_pfc_drops_only_when_the_headroom_is_full_too():
    s = pfc.paper(102_000, [2_000])
    s.on_enqueue(0, 10_000)
    assert s.on_enqueue(0, 1_000)[0] == (0, 0, 1_000)
    assert s.on_enqueue(0, 1_000)[0] == (0, 0, 1_000)
    assert s.on_enqueue(0, 1_000) == (None, [])
    assert s.ports[0].headroom_bytes == 2_000


def test_pfc_resume_needs_an_empty_headroom_and_3_kib_below_the_threshold():
    s = pfc.paper(102_000, [2_000])
    assert [s.on_enqueue(0, 1_000)[1] for _ in range(9)] == [[]] * 9
    assert s.on_enqueue(0, 1_000) == ((0, 1_000, 0), [pfc.Frame("pause", 0)])  # 10000 > 0.11 x 90000
    assert s.on_enqueue(0, 1_000) == ((0, 0, 1_000), [])
    assert s.on_dequeue(0, 1_000) == []  # from the headroom
    assert (s.ports[0].headroom_bytes, s.ports[0].shared_bytes) == (0, 10_000)
    assert s.on_dequeue(0, 1_000) == []  # 9000 + 3072 > 0.11 x 91000
    assert s.on_dequeue(0, 1_000) == []  # 8000 + 3072 > 0.11 x 92000
    assert s.on_dequeue(0, 1_000) == [pfc.Frame("resume", 0)]  # 7000 + 3072 <= 0.11 x 93000 = 10230
    assert s.on_dequeue(0, 1_000) == []


def test_pfc_resume_when_the_shared_use_is_gone_however_small_the_threshold():
    s = pfc.paper(20_000, [0])
    assert s.on_enqueue(0, 1_000)[1] == []
    assert s.on_enqueue(0, 1_090)[1] == [pfc.Frame("pause", 0)]
    assert s.on_dequeue(0, 1_000) == []
    assert s.on_dequeue(0, 1_090) == [pfc.Frame("resume", 0)]  # the threshold is 2200, less than 3072


def test_pfc_ns3_reserve_shift_and_equality():
    s = pfc.ns3(80_000 + 2 * 4096 + 2 * 1000, [1000, 1000], rate_ratios=[1, 4])
    assert s.shared == 80_000
    assert [s.threshold(p) for p in s.ports] == [10_000, 40_000]  # 1/8, and 1/2 at four times the NIC's rate
    assert s.on_enqueue(0, 4096) == ((4096, 0, 0), [])
    assert s.on_enqueue(0, 8888) == ((0, 8888, 0), [])
    assert s.threshold(s.ports[0]) == 8889
    assert s.on_enqueue(0, 1) == ((0, 1, 0), [pfc.Frame("pause", 0)])  # 8889 >= (80000 - 8889) >> 3 = 8888
    assert s.on_dequeue(0, 8889) == [pfc.Frame("resume", 0)]  # shared first; the reserve is still full
    assert s.ports[0].reserve_bytes == 4096
    assert s.on_enqueue(1, 5000)[0] == (4096, 904, 0)


# HPCC -----------------------------------------------------------------------------------------------------------------

T, B, BDP = 10.0, 100.0, 1000.0  # time units, bytes per unit, bytes


def feed(sender, *reports):
    """reports: (seq, snd_nxt, qLen, txBytes, ts), of a path of one link."""
    return [sender.new_ack(hpcc.Ack(seq, nxt, (hpcc.Link(q, tx, ts, B, rxBytes=tx + q),))) for seq, nxt, q, tx, ts in reports]


def test_hpcc_the_first_ack_only_stores():
    s = hpcc.paper(T, B)
    assert (s.W, s.R) == (BDP, B)
    assert feed(s, (100, 1000, 500, 0, 0)) == [BDP]
    assert (s.lastUpdateSeq, s.U, s.incStage) == (1000, 1, 0)


def test_hpcc_measure_inflight():
    s = hpcc.paper(T, B)
    feed(s, (100, 1000, 300, 0, 0))
    # half a T later, 400 of 500 possible bytes were sent, qLen 200 (the smaller of 300 and 200):
    # u = 200 / 1000 + 80 / 100 = 1.0; U = 0.5 * 1 + 0.5 * 1
    assert s.MeasureInflight(hpcc.Ack(200, 1000, (hpcc.Link(200, 400, 5, B),))) == pytest.approx(1.0)
    # the record is untouched until NewAck stores it; tau is clipped to T: U = u = 0.3 + 20 / 100
    assert s.MeasureInflight(hpcc.Ack(200, 1000, (hpcc.Link(900, 400, 20, B),))) == pytest.approx(0.5)


def test_hpcc_takes_the_most_congested_link_and_its_tau():
    s = hpcc.paper(T, B)
    two = lambda a, b: (hpcc.Link(*a), hpcc.Link(*b))  # noqa: E731
    s.new_ack(hpcc.Ack(100, 1000, two((0, 0, 0, B), (0, 0, 0, 4 * B))))
    # link 0: 90 / 100 over 5 units; link 1: 380 / 400 over 2 units: u = 0.95, tau = 2
    assert s.MeasureInflight(hpcc.Ack(200, 1000, two((0, 450, 5, B), (0, 760, 2, 4 * B)))) == pytest.approx(0.8 + 0.2 * 0.95)


def figure_5(**options):
    """Two ACKs that report the same four packets of queue (a fully used link with U = 2, eta = 1, W_AI = 0)."""
    s = hpcc.paper(T, B, eta=1, W_AI=0, **options)
    feed(s, (0, 1000, 1000, 0, 0))
    w1, w2 = feed(s, (100, 1000, 1000, 1000, 10), (200, 1000, 1000, 1100, 11))
    assert w1 == pytest.approx(BDP / 2)
    return s, w2


def test_hpcc_figure_5_per_ack_overreacts():
    s, w2 = figure_5(reaction="per-ack")
    assert s.U == pytest.approx(2)
    assert w2 == pytest.approx(BDP / 4)


def test_hpcc_figure_5_the_reference_window_does_not():
    s, w2 = figure_5()
    assert s.U == pytest.approx(2)
    assert w2 == pytest.approx(BDP / 2)
    assert s.Wc == BDP


def test_hpcc_figure_5_when_the_first_ack_ends_a_round():
    """Algorithm 1 as printed: line 15 has just set W^c = W, so the second ACK halves again."""
    s = hpcc.paper(T, B, eta=1, W_AI=0)
    feed(s, (0, 99, 1000, 0, 0))
    windows = feed(s, (100, 1000, 1000, 1000, 10), (200, 1000, 1000, 1100, 11))
    assert windows == [pytest.approx(BDP / 2), pytest.approx(BDP / 4)]


def test_hpcc_fast_reaction_from_the_reference_window():
    s = hpcc.paper(T, B, eta=1, W_AI=0)
    feed(s, (0, 1000, 1000, 0, 0))
    # ACKs of the first window: W follows U, Wc stays
    assert feed(s, (100, 1000, 1000, 1000, 10)) == [pytest.approx(BDP / 2)]
    assert feed(s, (200, 1000, 3000, 2000, 20)) == [pytest.approx(BDP / 2)]  # min(qLen) filters
    assert feed(s, (300, 1000, 3000, 3000, 30)) == [pytest.approx(BDP / 4)]
    assert feed(s, (1000, 1800, 0, 4000, 40)) == [pytest.approx(BDP)]  # 1000 is not beyond lastUpdateSeq
    assert (s.Wc, s.lastUpdateSeq) == (BDP, 1000)
    assert feed(s, (1001, 1800, 0, 4500, 50)) == [pytest.approx(BDP + 0)]  # U = 0.5 < eta: AI stage 1 of 5
    assert (s.incStage, s.lastUpdateSeq) == (1, 1800)


def test_hpcc_per_rtt_waits():
    s = hpcc.paper(T, B, eta=1, W_AI=0, reaction="per-rtt")
    feed(s, (0, 1000, 1000, 0, 0))
    assert feed(s, (100, 1000, 1000, 1000, 10), (200, 1000, 1000, 2000, 20)) == [BDP, BDP]
    assert feed(s, (1001, 1800, 1000, 3000, 30)) == [pytest.approx(BDP / 2)]
    assert feed(s, (1101, 1800, 0, 4000, 40)) == [pytest.approx(BDP / 2)]


def test_hpcc_max_stage_additive_steps_then_a_multiplicative_one():
    s = hpcc.paper(T, B, W_AI=80)
    s.W = s.Wc = 100
    windows = []
    for n in range(8):  # one ACK per round, always beyond lastUpdateSeq; half the link is used
        windows += feed(s, (n + 1, n + 1, 0, 500 * n, 10 * n))
    # the first stores; five steps of 80; then 500 / (0.5 / 0.95) + 80, then AI again
    assert windows[:6] == [100, 180, 260, 340, 420, 500]
    assert windows[6:] == [pytest.approx(500 * 1.9 + 80), pytest.approx(500 * 1.9 + 160)]


def test_hpcc_stages_count_rounds_not_acks():
    s = hpcc.paper(T, B, W_AI=80)
    s.W = s.Wc = 100
    feed(s, (1, 1000, 0, 0, 0))
    assert feed(s, *[(n, 1000, 0, 50 * n, 10 * n) for n in range(1, 20)]) == [180] * 19
    assert (s.incStage, s.Wc) == (0, 100)


def test_hpcc_ns3_reacts_multiplicatively_every_time_and_stays_within_the_line():
    s = hpcc.ns3(T, B, W_AI=8, R_min=5)
    assert s.maxStage == 0
    feed(s, (0, 0, 0, 0, 0))
    assert feed(s, (1, 1, 0, 500, 10)) == [BDP]  # 1000 / (0.5 / 0.95) + 8, bounded by the line
    assert feed(s, (2, 2, 10**6, 1500, 20), (3, 3, 10**6, 2500, 30)) == [pytest.approx(950 + 8), 50.0]
    assert s.R == 5.0


def test_hpcc_rx_rate_counts_the_growing_queue_twice():
    tx, rx = (hpcc.paper(T, B, eta=1, W_AI=0, rate=r) for r in ("txBytes", "rxBytes"))
    for s in (tx, rx):
        feed(s, (0, 0, 0, 0, 0), (1, 1, 500, 1000, 10))
    assert (tx.U, rx.U) == (pytest.approx(1.0), pytest.approx(1.5))


def test_hpcc_a_new_path_starts_a_new_record():
    s = hpcc.paper(T, B)
    feed(s, (0, 0, 0, 0, 0))
    link = hpcc.Link(5000, 10, 1, B)
    assert s.new_ack(hpcc.Ack(100, 900, (link, link), pathID=9)) == BDP
    assert s.L == (link, link)


def of_two_links(sender, *reports):
    """reports: (seq, snd_nxt, ts, (qLen, txBytes), (qLen, txBytes)), of a path of two links of the same rate."""
    return [sender.new_ack(hpcc.Ack(seq, nxt, tuple(hpcc.Link(q, tx, ts, B) for q, tx in L))) for seq, nxt, ts, *L in reports]


MOVING = [  # a bottleneck that moves from the second link to the first: a round per ACK, but for the fifth, within a round
    (0, 1000, 0, (0, 0), (1000, 0)),
    (1001, 1500, 10, (0, 800), (1000, 1000)),  # u = 0.8; 1 + 1000 / 1000 = 2
    (1501, 2000, 20, (600, 1300), (0, 1500)),  # 0.5; 0.5
    (2001, 2500, 30, (600, 2300), (0, 2000)),  # 1 + 0.6 = 1.6; 0.5
    (2400, 2500, 40, (600, 3300), (0, 2500)),  # 1.6; 0.5
    (2501, 3000, 50, (0, 3800), (0, 3000)),  # 0.5; 0.5
]


def test_hpcc_multi_rate_reduces_the_reference_of_the_busy_hop_only():
    s = hpcc.floodgate(T, B, W_AI=10, R_min=5, eta=1)
    assert s.maxStage == 5
    # first link: 1000 + 10, bounded; 1000; 1000 / 1.6 + 10 = 635; 635 / 1.6 + 10 = 406.875, not kept; 635 + 10
    # second: 1000 / 2 + 10 = 510; 520; 530; 540, not kept; 540
    assert of_two_links(s, *MOVING) == [1000, 510, 520, 530, pytest.approx(406.875), 540]
    assert [(hop.Wc, hop.incStage) for hop in s.hops.values()] == [(645, 1), (540, 3)]
    # one reference for both: the flow is cut from 520 where the first link alone allows 635
    one = hpcc.ns3(T, B, W_AI=10, R_min=5, eta=1, maxStage=5)
    assert of_two_links(one, *MOVING) == pytest.approx([1000, 510, 520, 335, 335 / 1.6 + 10, 345])


def test_hpcc_multi_rate_averages_over_the_time_since_the_last_report_of_each_hop():
    s = hpcc.floodgate(T, B, W_AI=10, R_min=5, eta=1)
    at = lambda *links: tuple(hpcc.Link(0, tx, ts, B) for tx, ts in links)  # noqa: E731
    s.new_ack(hpcc.Ack(0, 1000, at((0, 0), (0, 0), (0, 0))))
    s.new_ack(hpcc.Ack(100, 1000, at((400, 5), (160, 2), (0, 0))))
    # 0.5 * 1 + 0.5 * 0.8; 0.8 * 1 + 0.2 * 0.8; the third has sent nothing since
    assert [hop.U for hop in s.hops.values()] == [pytest.approx(0.9), pytest.approx(0.96), 1]


def test_hpcc_rule_of_thumb():
    """Section 5.4: 100 Gbit/s x 4 us x 5 % / 16 is about 150 bytes."""
    assert hpcc.rule_of_thumb_W_AI(50_000, 0.95, 16) == pytest.approx(156.25)


@st.composite
def networks(draw):
    """An incidence matrix without a zero column, capacities and positive initial rates."""
    I = draw(st.integers(1, 5))
    J = draw(st.integers(1, 6))
    columns = [draw(st.integers(1, 2**I - 1)) for _ in range(J)]
    A = [[column >> i & 1 for column in columns] for i in range(I)]
    positive = st.integers(1, 50).map(Fraction)
    return A, [draw(positive) for _ in range(I)], [draw(positive) for _ in range(J)]


@examples(200)
@given(networks())
def test_hpcc_lemma_of_appendix_a2(network):
    A, C, R = network
    rates = [R]
    for _ in range(len(A) + 2):
        rates.append(hpcc.next_rates(A, C, rates[-1]))
    for n in range(1, len(rates)):
        assert all(y <= c for y, c in zip(hpcc.loads(A, rates[n]), C, strict=True))  # (i)
    for n in range(1, len(rates) - 1):
        assert all(after >= before for before, after in zip(rates[n], rates[n + 1], strict=True))  # (ii)
    # (iii), in the proof's form: bottlenecked resources are removed with the capacity that their paths use
    I = len(A)
    R = rates[1]
    for _ in range(I - 1):
        R = hpcc.next_rates_of_the_proof(A, C, R)
    assert hpcc.is_pareto_optimal(A, C, R)
    assert hpcc.next_rates_of_the_proof(A, C, R) == R
    assert hpcc.next_rates(A, C, R) == R


@examples(30)
@given(networks())
def test_hpcc_the_recursion_converges_to_a_pareto_optimum(network):
    """(ii) and bounded rates: the largest load on every path comes within 1 % of its capacity."""
    A, C, R = network
    R = [float(r) for r in R]
    for _ in range(1500):
        R, before = hpcc.next_rates(A, C, R), R
    assert all(after == pytest.approx(r, rel=0.01) for after, r in zip(R, before, strict=True))


def test_hpcc_lemma_iii_is_not_true_as_printed():
    """Two resources, one path through both and one through the first only: I = 2, yet the rate halves its distance
    to 1 for ever, because the load of the settled path stays in Y."""
    A, C, R = [[1, 1], [0, 1]], [2, 1], [Fraction(1), Fraction(2)]
    rates = []
    for _ in range(6):
        R = hpcc.next_rates(A, C, R)
        rates.append(R)
    assert [r[0] for r in rates] == [Fraction(2**n, 2**n + 1) for n in range(1, 7)]
    assert all(r[1] == 1 for r in rates)


@pytest.mark.parametrize("load", [0.95, 1.0])
def test_hpcc_sum_d_i_d_1(load):
    """Appendix A.1, 50 sources: about 3 packets at 95 %; about sqrt(pi N / 8) = 4.4 at 100 %."""
    rng = random.Random(1)
    N = 50
    period = N / load
    means = []
    for _ in range(400):
        packets = hpcc.sum_d_i_d_1([period] * N, [rng.uniform(0, period) for _ in range(N)], until=4 * period)
        means.append(hpcc.mean_number(packets, 2 * period, 3 * period))
    mean = sum(means) / len(means)
    if load < 1:
        assert mean - load == pytest.approx(2.8, abs=0.3)  # waiting; with the one in service 3.75
    else:
        assert mean - load / 2 == pytest.approx(sqrt(pi * N / 8), rel=0.1)  # the packet in service counts half
        assert mean < 5.3


# DCQCN ----------------------------------------------------------------------------------------------------------------

LINE = 100e9


def test_dcqcn_presets():
    assert (dcqcn.ns3(LINE).R_AI, dcqcn.ns3(LINE).R_HAI) == (20e6, 200e6)
    p = dcqcn.paper(LINE)
    assert (p.alpha_interval, p.decrease_interval, p.increase_interval) == (50 * US, 50 * US, 55 * US)
    assert (dcqcn.config(LINE).increase_interval, dcqcn.config(LINE).R_min) == (900 * US, 100e6)


def test_dcqcn_without_marks_nothing_happens():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    s.on_ack(5 * US, False)
    assert s.rate_at(10_000 * US) == LINE
    assert s.timers == {}


def test_dcqcn_the_first_mark_does_not_cut_the_decrease_timer_does():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    s.on_ack(10 * US, True)
    assert s.rate == LINE
    assert s.alpha == 1
    assert s.rate_at(14 * US) == LINE
    alpha = (255 / 256) ** 4  # four alpha slots without a further echo, the fourth 1 ns before the cut
    assert s.rate_at(14 * US + 1000) == pytest.approx(LINE * (1 - alpha / 2))
    assert s.target == LINE


def test_dcqcn_one_cut_per_slot_with_an_echo():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    for k in range(80):  # an echo every 100 ns, for 8 us
        s.on_ack(k * US // 10, True)
    # alpha stays 1 while every slot has an echo; cuts at 4.001 and 8.001 us
    assert s.rate_at(5 * US) == pytest.approx(LINE / 2)
    assert s.rate_at(8 * US + 1000) == pytest.approx(LINE / 4)
    assert s.rate_at(13 * US) == pytest.approx(LINE / 4)  # a slot without one
    assert s.target == LINE  # never raised in between, so the target of the first cut stays


def test_dcqcn_alpha_decays():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    s.on_ack(0, True)
    s.on_ack(1 * US // 2, True)
    s.advance(1 * US)
    assert s.alpha == pytest.approx(1)
    s.advance(11 * US)
    assert s.alpha == pytest.approx((255 / 256) ** 10)


def test_dcqcn_recovery_additive_and_hyper_increase():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    s.rate = s.target = 40e9
    s.on_ack(0, True)
    cut = 4 * US + 1000
    low = s.rate_at(cut)
    assert s.rate_at(cut + 300 * US - 1) == low
    first = (low + 40e9) / 2
    assert s.rate_at(cut + 300 * US) == pytest.approx(first)  # fast recovery
    second = (first + 40.02e9) / 2
    assert s.rate_at(cut + 600 * US) == pytest.approx(second)  # + R_AI
    third = (second + 40.22e9) / 2
    assert s.rate_at(cut + 900 * US) == pytest.approx(third)  # + R_HAI
    assert s.rate_at(cut + 1200 * US) == pytest.approx((third + 40.42e9) / 2)  # constant, not multiplied
    assert s.rate_at(cut + 300 * 400 * US) == pytest.approx(LINE)  # the target is capped
    assert s.target == LINE


def test_dcqcn_a_cut_restarts_the_increase_timer_and_sets_the_target():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    s.on_ack(0, True)
    cut = 4 * US + 1000
    s.advance(cut + 300 * US)  # increase and a decrease check without an echo at the same instant
    raised = s.rate
    s.on_ack(cut + 301 * US, True)
    lowered = s.rate_at(cut + 304 * US)
    assert lowered < raised
    assert s.target == raised
    assert s.stage == 0
    assert s.rate_at(cut + 604 * US - 1) == lowered
    assert s.rate_at(cut + 604 * US) == pytest.approx((lowered + raised) / 2)


def test_dcqcn_the_increase_comes_before_a_cut_of_the_same_instant():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    s.on_ack(0, True)
    cut = 4 * US + 1000
    low = s.rate_at(cut)
    s.on_ack(cut + 299 * US, True)
    s.advance(cut + 300 * US)
    assert s.target == pytest.approx((low + LINE) / 2)
    assert s.rate < s.target
    assert s.timers["increase"] == cut + 600 * US


def test_dcqcn_notifications():
    """One for the first mark, one at the end of each window with a mark, then silence until the next mark."""
    assert dcqcn.notifications([], 50) == []
    assert dcqcn.notifications([7], 50) == [7]
    assert dcqcn.notifications([7, 8, 56], 50, delay=3) == [10, 60]
    assert dcqcn.notifications([7, 8, 57, 106], 50) == [7, 57, 107]
    assert dcqcn.notifications([7, 200, 240, 255], 50) == [7, 200, 250, 300]


def test_dcqcn_each_notification_cuts():
    p = dcqcn.replace(dcqcn.paper(LINE), g=0.5, clamp_target_rate=True)
    s = dcqcn.Notified(0, p)
    s.on_cnp(10 * US)
    assert (s.rate, s.target, s.alpha) == (LINE / 2, LINE, 1)
    s.advance(60 * US)
    assert s.alpha == 0.5
    s.on_cnp(61 * US)
    assert (s.rate, s.target, s.alpha) == (LINE / 2 * 0.75, LINE / 2, 0.75)
    s.advance(116 * US)
    assert s.rate == LINE / 2 * 0.875


def test_dcqcn_min_rate_and_clamp():
    s = dcqcn.Sender(0, dcqcn.ns3(LINE))
    for k in range(100):
        s.on_ack(k * US, True)
    assert s.rate_at(100 * US) == 1e9
    clamped = dcqcn.Sender(0, dcqcn.replace(dcqcn.ns3(LINE), clamp_target_rate=True))
    clamped.on_ack(0, True)
    once = clamped.rate_at(5 * US)
    clamped.on_ack(5 * US, True)
    assert clamped.rate_at(9 * US) < once
    assert clamped.target == once


def test_red():
    curve = [dcqcn.mark_probability(q, 400_000, 1_600_000, 0.2) for q in (0, 400_000, 1_000_000, 1_600_000, 1_600_001)]
    assert curve == [0, 0, pytest.approx(0.1), pytest.approx(0.2), 1]
    step = [dcqcn.mark_probability(q, 300_000, 300_000, 1) for q in (300_000, 300_001)]
    assert step == [0, 1]


def test_variable_window():
    assert dcqcn.variable_window(104_000, 50e9, LINE) == 52_000
    assert dcqcn.variable_window(104_000, 1, LINE) == 1


# DCTCP ----------------------------------------------------------------------------------------------------------------


def test_dctcp_window_cuts_once_per_window():
    s = dctcp.Window(100_000)
    assert s.on_ack(0, 1_000, 100_000, True) == 50_000  # alpha 1: half
    assert s.on_ack(1, 2_000, 100_000, True) == 50_000
    assert s.on_ack(2, 100_000, 150_000, True) == 50_000  # not beyond the end of the window yet
    # 4 of 4 marked: alpha stays 1, the new window may cut again
    assert s.on_ack(3, 101_000, 150_000, True) == 25_000


def test_dctcp_window_alpha_is_a_moving_average_of_the_marked_fraction():
    s = dctcp.Window(100_000, g=1 / 16)
    s.on_ack(0, 1_000, 4_000, False)
    s.on_ack(0, 2_000, 5_000, False)
    s.on_ack(0, 4_000, 7_000, True)
    assert s.alpha == 1
    s.on_ack(0, 5_000, 8_000, False)
    alpha = 15 / 16 + 1 / 16 * 1 / 4
    assert s.alpha == pytest.approx(alpha)
    s.on_ack(0, 7_000, 10_000, True)
    s.on_ack(0, 9_000, 11_000, False)  # beyond 8000: 1 of 2 marked, counted afresh
    assert s.alpha == pytest.approx(15 / 16 * alpha + 1 / 16 * 1 / 2)


def test_dctcp_window_one_mss_per_rtt():
    s = dctcp.Window(10_000)
    windows = [s.on_ack(0, 1_000 * n, 1_000 * n + 10_000, False) for n in range(1, 31)]
    assert windows[:11] == [10_000] * 11
    assert windows[11] == 11_000  # the first ACK beyond 11000
    assert windows[-1] == 12_000


def test_dctcp_rate():
    s = dctcp.Rate(LINE, R_AI=1e9, R_min=1e8)
    assert s.on_ack(0, 1_000, 100_000, False) == LINE  # + R_AI, capped
    assert s.on_ack(0, 2_000, 101_000, True) == LINE / 2  # alpha 1
    assert s.on_ack(0, 100_000, 150_000, True) == LINE / 2
    # the window ends: 2 marked of 100000 / 1000 + 1; still in CWR until beyond 101000, so no increase
    assert s.on_ack(0, 101_000, 150_000, False) == LINE / 2
    assert s.alpha == pytest.approx(15 / 16 + 1 / 16 * 2 / 101)
    assert s.on_ack(0, 102_000, 150_000, False) == LINE / 2  # CWR is over, but no window ends
    assert s.on_ack(0, 151_000, 200_000, False) == LINE / 2 + 1e9


# TIMELY ---------------------------------------------------------------------------------------------------------------


def timely_after(rtts, law=timely.Paper, rate=40e9, **options):
    """The law after these RTTs, in us; from the first on at this rate."""
    s = law(timely.Parameters(LINE, **options))
    s.on_completion(rtts[0] * US)
    s.rate = rate
    rates = [s.on_completion(rtt * US) for rtt in rtts[1:]]
    return s, rates


def test_timely_the_first_rtt_is_only_remembered():
    s = timely.Paper(timely.Parameters(LINE))
    assert s.on_completion(900 * US) == LINE
    assert (s.prev_rtt, s.rtt_diff, s.branches) == (900 * US, 0, [])


def test_timely_the_gradient_is_a_moving_average_over_min_rtt():
    s, rates = timely_after([100, 108, 104])
    # differences 8 and -4: rtt_diff = 7, then 7 / 8 - 3.5 = -2.625; minRTT is 20
    assert s.gradients == pytest.approx([7 / 20, -2.625 / 20])
    assert rates == pytest.approx([40e9 * (1 - 0.8 * 7 / 20), 40e9 * (1 - 0.8 * 7 / 20) + 100e6])


def test_timely_below_t_low_the_gradient_does_not_matter():
    s, rates = timely_after([10, 49, 50])
    assert s.branches == ["below", "gradient"]  # 50 us is not below it
    assert rates[0] == pytest.approx(40.1e9)


def test_timely_above_t_high_the_gradient_does_not_matter():
    s, rates = timely_after([3000, 1000, 500])
    assert s.branches == ["above", "additive"]  # 500 us is not above it
    assert rates == pytest.approx([40e9 * (1 - 0.8 * 0.5), 40e9 * (1 - 0.8 * 0.5) + 100e6])


def test_timely_a_gradient_of_zero_increases():
    s, rates = timely_after([100, 100, 100])
    assert s.branches == ["additive"] * 2
    assert rates == pytest.approx([40.1e9, 40.2e9])


def test_timely_hai_from_the_fifth_negative_gradient_on():
    s, rates = timely_after([200, 195, 190, 185, 180, 175, 170])
    assert s.branches == ["additive"] * 4 + ["hai"] * 2
    assert rates[-1] == pytest.approx(40e9 + 4 * 100e6 + 2 * 500e6)
    s, _ = timely_after([200, 195, 190, 185, 180, 200, 195, 190])
    assert s.branches == ["additive"] * 4 + ["gradient"] + ["additive"] * 2  # one that is not ends the row
    s, _ = timely_after([100, 100, 99, 98, 97, 96, 95])
    assert s.branches == ["additive"] * 5 + ["hai"]  # zero is not negative


def test_timely_hai_counts_events_of_all_branches_but_acts_in_one():
    s, _ = timely_after([600, 590, 580, 570, 560, 499])
    assert s.branches == ["above"] * 4 + ["hai"]
    s, _ = timely_after([60, 40, 39, 38, 37, 36, 35])
    assert s.branches == ["below"] * 6


def test_timely_the_simulator_counts_increases():
    s, rates = timely_after([10] * 9, timely.Simulator, hai=400e6)
    assert s.branches == ["additive"] * 5 + ["hai"] * 3  # below T_low, too, and constant
    assert rates[-1] == pytest.approx(40e9 + 5 * 100e6 + 3 * 400e6)
    s, _ = timely_after([10] * 7 + [60] + [10] * 2, timely.Simulator)
    assert s.branches == ["additive"] * 5 + ["hai", "gradient", "additive", "additive"]  # a cut starts anew
    s, _ = timely_after([600, 590, 580, 570, 560, 499], timely.Simulator)
    assert s.branches == ["above"] * 4 + ["additive"]


@pytest.mark.parametrize("law", [timely.Paper, timely.Simulator])
def test_timely_limits(law):
    _, rates = timely_after([60, 400, 20], law)  # a gradient of 14.9: 1 - 0.8 * 14.9 is negative
    assert rates == [100e6, 200e6]
    assert timely_after([20] * 9, law, 99.95e9)[1][-1] == LINE


def test_timely_one_completion_event_per_rtt():
    s = timely.Sender(timely.Paper(timely.Parameters(LINE)))
    s.on_ack(60 * US, 0, 1_000, 50_000)  # the first ACK is one: it only remembers
    s.law.rate = 40e9
    assert s.on_ack(61 * US, 0, 2_000, 51_000) == 40e9
    assert s.on_ack(62 * US, 0, 50_000, 99_000) == 40e9  # not beyond 50000 yet
    s.on_ack(63 * US, 20 * US, 51_000, 100_000)
    assert s.law.branches == ["below"]
    assert (s.law.prev_rtt, s.last_update_seq) == (43 * US, 100_000)


def test_timely_variable_window():
    assert timely.variable_window(104_000, 25e9, LINE) == 26_000
    assert timely.variable_window(104_000, 1, LINE) == 1


# Ideal fair queueing --------------------------------------------------------------------------------------------------


def test_fluid_by_hand():
    flows = [(0, Fraction(4)), (1, Fraction(1)), (10, Fraction(2))]
    run = ideal_fq.fluid(flows)
    assert run.finish == [5, 3, 12]
    assert run.active == [(0, 1, 1), (1, 3, 2), (3, 5, 1), (5, 10, 0), (10, 12, 1)]


def test_max_min():
    assert ideal_fq.max_min([Fraction(d) for d in (1, 5, 2, 10)], Fraction(12)) == [
        1,
        Fraction(9, 2),
        2,
        Fraction(9, 2),
    ]


@examples(100)
@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=8), st.sampled_from([drr.DRR, drr.CyclicDRR]))
def test_drr_follows_the_fluid_within_one_frame_per_flow(sizes, kind):
    """All flows start together; frames of at most one quantum: within a round of the fluid's finishing times."""
    flows = [(0, size) for size in sizes]
    ideal = ideal_fq.fluid([(0, Fraction(size)) for size in sizes]).finish
    real = ideal_fq.packets_finish(kind(len(flows), 1000), flows, 1000)
    assert all(abs(a - b) <= len(flows) * 1000 for a, b in zip(ideal, real, strict=True))
    assert max(real) == max(ideal) == sum(sizes)


def test_drr_follows_the_fluid_when_flows_come_and_go():
    rng = random.Random(2)
    now, flows = 0, []
    for _ in range(300):
        now += int(rng.expovariate(1 / 6000))
        flows.append((now, int(rng.expovariate(1 / 4000)) + 1))
    run = ideal_fq.fluid([(at, Fraction(size)) for at, size in flows])
    most = max(n for _, _, n in run.active)
    real = ideal_fq.packets_finish(drr.DRR(len(flows), 1000), flows, 1000)
    assert all(abs(a - b) <= 2 * most * 1000 for a, b in zip(run.finish, real, strict=True))


@pytest.mark.parametrize("sizes", ["constant", "two sizes"])
def test_active_flows_of_m_g_1_ps_are_geometric(sizes):
    rng = random.Random(3)
    rho, now, flows = 0.6, 0.0, []
    for _ in range(40_000):
        now += rng.expovariate(rho)
        flows.append((now, 1.0 if sizes == "constant" else rng.choices([0.5, 5.5], [9, 1])[0]))
    shares = ideal_fq.time_shares(ideal_fq.fluid(flows).active)
    for n in range(6):
        assert shares[n] == pytest.approx(ideal_fq.active_flows_probability(n, rho), abs=0.02)
    assert ideal_fq.mean_active_flows(0.9) == pytest.approx(9)


# Go-back-N ------------------------------------------------------------------------------------------------------------


def test_gobackn_receiver():
    r = gobackn.Receiver()
    assert r.on_packet(0, 0, 1000) == ("ack", 1000, False)
    assert r.on_packet(1, 2000, 1000) == ("nack", 1000, False)
    assert r.on_packet(2, 3000, 1000) is None  # once per expected byte
    assert r.on_packet(500 * US, 4000, 1000) is None
    assert r.on_packet(500 * US + 1, 5000, 1000, True) == ("nack", 1000, True)  # 500 us after the last
    assert r.on_packet(501 * US, 1000, 1000) == ("ack", 2000, False)
    assert r.on_packet(502 * US, 3000, 1000) == ("nack", 2000, False)  # another byte is missing now
    assert r.on_packet(503 * US, 0, 1000) == ("ack", 2000, False)  # a duplicate


def test_gobackn_sender_goes_back():
    s = gobackn.Sender(5500, W=3000)
    sent = []
    while s.may_send():
        sent.append(s.send(10))
    assert sent == [(0, 1000), (1000, 1000), (2000, 1000)]
    s.on_reply(20, gobackn.Reply("nack", 1000, False))
    assert (s.snd_una, s.snd_nxt, s.retransmitted) == (1000, 1000, 0)
    assert s.send(21) == (1000, 1000)
    assert s.retransmitted == 1000
    s.on_reply(30, gobackn.Reply("ack", 3000, False))  # of packets sent before the NACK
    assert (s.snd_una, s.snd_nxt) == (3000, 3000)
    assert [s.send(31) for _ in range(3)] == [(3000, 1000), (4000, 1000), (5000, 500)]
    s.on_reply(40, gobackn.Reply("ack", 5500, False))
    assert s.finished()
    assert s.rto_at is None


def test_gobackn_rto_runs_while_bytes_are_in_flight():
    s = gobackn.Sender(3000, rto=100)
    assert s.rto_at is None
    s.send(0)
    s.send(50)
    assert s.rto_at == 100
    s.on_reply(60, gobackn.Reply("ack", 1000, False))
    assert s.rto_at == 160
    s.on_reply(70, gobackn.Reply("ack", 1000, False))  # no progress
    assert s.rto_at == 160
    s.on_rto(160)
    assert (s.snd_nxt, s.rto_at) == (1000, None)
    s.send(165)
    assert (s.rto_at, s.retransmitted) == (265, 1000)


@examples(50)
@given(st.integers(1, 20_000), st.integers(0, 2**32))
def test_gobackn_everything_arrives_over_a_lossy_path(size, seed):
    rng = random.Random(seed)
    sender, receiver = gobackn.Sender(size, W=5000, rto=50 * US), gobackn.Receiver()
    path, now = [], 0  # (time, packet or reply), in order
    for _ in range(100_000):
        if sender.finished():
            break
        now += US // 10
        if sender.may_send():
            path.append((now + US, sender.send(now)))
        while path and path[0][0] <= now:
            _, item = path.pop(0)
            if rng.random() < 0.1:
                continue
            if isinstance(item, gobackn.Reply):
                sender.on_reply(now, item)
            elif reply := receiver.on_packet(now, *item):
                path.append((now + US, reply))
        if sender.rto_at is not None and sender.rto_at <= now:
            sender.on_rto(sender.rto_at)
    assert sender.finished()
    assert receiver.expected == size


# Floodgate ------------------------------------------------------------------------------------------------------------


def floodgate_switch(**options):
    """Ports 0 and 1 below, 2 and 3 lead on with a window of 3000 bytes."""
    return floodgate.Switch(**{"window": {2: 3000, 3: 3000}, "voqs": 4} | options)


def arrive(switch, *names, dst=9, ingress=0, egress=2, size=1000, psns=None, hashed=None):
    out = []
    for i, name in enumerate(names):
        psn = psns[i] if psns else None
        out.append(switch.on_data(floodgate.Packet(name, ingress, egress, dst, size, psn), hashed))
    return out


def names_of(packets):
    return [p.name for p in packets]


def test_floodgate_a_window_per_destination_for_the_whole_switch():
    s = floodgate_switch()
    assert arrive(s, "a", "b") == [None, None]
    assert arrive(s, "c", egress=3) == [None]  # 3000 in flight: all that is allowed
    assert arrive(s, "d", egress=3) == [0]  # by whatever port
    assert arrive(s, "e", dst=8) == [None]  # another destination
    assert s.inflight(9) == 3000 and s.inflight(8) == 1000


def test_floodgate_a_destination_with_a_voq_joins_it_though_the_window_has_room():
    s = floodgate_switch()
    assert arrive(s, "a", "b", size=1400) == [None, None]
    assert arrive(s, "c", size=300) == [0]
    assert arrive(s, "d", size=200) == [0]  # 200 would fit
    assert arrive(s, "e", dst=8) == [None]


def test_floodgate_empty_voqs_first_then_the_hash():
    s = floodgate_switch(voqs=2)
    for dst in (5, 6, 7):
        arrive(s, *[(dst, i) for i in range(3)], dst=dst)
    assert arrive(s, "x", dst=5) + arrive(s, "y", dst=6) == [0, 1]
    assert arrive(s, "z", dst=7, hashed=1) == [1]
    assert arrive(s, "w", dst=6) == [1]
    assert s.voq_of == {5: 0, 6: 1, 7: 1}
    for name in [(5, 0), (5, 1)]:
        s.on_leave(name)
    assert names_of(s.on_credit(2, [(5, 1000)])) == ["x"]
    assert s.voq_of == {6: 1, 7: 1}  # its VOQ is free again


def test_floodgate_groups_keep_up_and_down_apart():
    s = floodgate_switch(voqs=4, group={2: range(2), 3: range(2, 4)})
    arrive(s, "a", "b", "c", dst=9)
    arrive(s, "d", "e", "f", dst=8, egress=3)
    assert arrive(s, "g", dst=9) + arrive(s, "h", dst=8, egress=3) == [0, 2]


def test_floodgate_credits_are_cumulative_so_that_what_is_lost_does_no_harm():
    s = floodgate_switch()
    arrive(s, "a", "b", "c", "d", "e")
    assert [s.on_leave(n) for n in "abc"] == [1000, 2000, 3000]
    assert names_of(s.on_credit(2, [(9, 2000)])) == ["d", "e"]  # the credit for 1000 was lost
    assert s.inflight(9) == 3000
    assert s.on_credit(2, [(9, 1000)]) == [] and s.inflight(9) == 3000  # one that comes late tells nothing
    assert [s.on_leave(n) for n in "de"] == [4000, 5000]


def test_floodgate_what_waits_in_the_egress_queue_is_in_flight():
    s = floodgate_switch()
    arrive(s, "a", "b", "c", "d")
    assert s.inflight(9) == 3000 and s.on_the_wire[2, 9] == 0
    assert s.switch_syn(2, 9) is None  # nothing was sent that could be lost
    s.on_leave("a")
    assert s.inflight(9) == 3000 and s.switch_syn(2, 9) == 1000


def test_floodgate_a_voq_in_turn_and_what_is_behind_others():
    s = floodgate_switch(voqs=2, window={2: 1000})
    for dst in (5, 6, 7):
        arrive(s, (dst, 0), dst=dst)
        s.on_leave((dst, 0))
    arrive(s, (5, 1), (5, 2), dst=5, size=500)
    arrive(s, (6, 1), (6, 2), dst=6, size=500)
    arrive(s, (7, 1), (7, 2), dst=7, size=500, hashed=1)
    assert s.on_credit(2, [(7, 1000)]) == []  # 6 is before it
    assert names_of(s.on_credit(2, [(5, 1000), (6, 1000)])) == [(5, 1), (6, 1), (5, 2), (6, 2), (7, 1), (7, 2)]
    assert s.voq_of == {}


def test_floodgate_a_packet_larger_than_the_window_goes_alone():
    s = floodgate_switch(window={2: 500})
    assert arrive(s, "a", "b") == [None, 0]
    s.on_leave("a")
    assert names_of(s.on_credit(2, [(9, 1000)])) == ["b"]


def test_floodgate_the_last_hop_has_no_window_but_owes_credits():
    s = floodgate_switch()
    assert arrive(s, "a", "b", "c", "d", egress=1, ingress=2, psns=[1000, 2000, 3000, 4000]) == [None] * 4
    assert s.credits(2) == []  # nothing has left
    assert s.on_leave("a") is None and s.on_leave("b") is None  # no PSN for a host
    assert s.credits(2) == [(9, 2000)]
    assert s.credits(2) == []  # told


def test_floodgate_credits_of_an_ingress_in_one_frame_and_none_for_hosts():
    s = floodgate_switch()
    arrive(s, "a", dst=9, egress=1, ingress=2, psns=[700])
    arrive(s, "b", dst=8, egress=1, ingress=2, psns=[1000])
    arrive(s, "c", dst=8, egress=1, ingress=3, psns=[900], size=900)
    arrive(s, "d", dst=7, egress=2, ingress=0)
    for name in "abcd":
        s.on_leave(name)
    assert s.credits(0) == []
    assert s.credits(2) == [(8, 1000), (9, 700)]
    assert s.credits(3) == [(8, 900)]


def test_floodgate_delayed_credits():
    s = floodgate_switch(thre_credit=1000)
    arrive(s, *"abcde", ingress=3, psns=[1000, 2000, 3000, 4000, 5000])
    s.on_leave("a")
    assert s.voq_length(9) == 2000 and s.credits(3) == []
    assert names_of(s.on_credit(2, [(9, 1000)])) == ["d"]
    assert s.credits(3) == [(9, 1000)]  # the VOQ holds 1000: does not exceed
    ideal = floodgate_switch(thre_credit=1000, delays=False)
    arrive(ideal, *"abcde", ingress=3, psns=[1000, 2000, 3000, 4000, 5000])
    ideal.on_leave("a")
    assert ideal.credits(3) == [(9, 1000)]


def test_floodgate_lost_data_are_credited_with_the_next_packet_or_by_a_syn():
    s = floodgate_switch()
    arrive(s, "b", egress=1, ingress=2, psns=[2000])  # the packet before it was lost
    s.on_leave("b")
    assert s.credits(2) == [(9, 2000)]
    arrive(s, "d", egress=1, ingress=2, psns=[4000])  # "e", of psn 5000, is lost
    assert s.on_switch_syn(2, 9, 5000) == 4000  # "d" is still here
    s.on_leave("d")
    assert s.credits(2) == [(9, 5000)]


def test_floodgate_hosts_are_paused_by_destination():
    s = floodgate_switch(thre_off={0: 1000, 1: 1000}, thre_on={0: 500, 1: 500})
    arrive(s, "a", "b", "c", "d")
    held = floodgate.Packet("e", 0, 2, 9, 1000)
    assert not s.dst_pause(held)  # 1000 in the VOQ: not more
    s.on_data(held)
    assert s.dst_pause(held) and not s.dst_pause(held)  # once
    other = floodgate.Packet("f", 1, 2, 9, 10)
    s.on_data(other)
    assert s.dst_pause(other)  # the other host when it sends, too
    core = floodgate.Packet("g", 3, 2, 9, 10)
    s.on_data(core)
    assert not s.dst_pause(core)
    s.on_leave("a")
    assert names_of(s.on_credit(2, [(9, 1000)])) == ["d"]
    assert s.dst_resume(9) == []
    assert s.dst_resume(9, 500) == [0, 1] and s.dst_resume(9, 0) == []


# Backdraft ------------------------------------------------------------------------------------------------------------


def application(**options):
    """Th_goal 2000, Th_over 4000, the average moves by a half; times are Fractions of a microsecond."""
    return backdraft.Application(**{"Th_goal": 2000, "Th_over": 4000, "weight": Fraction(1, 2), "longest": 1000} | options)


def fill(app, now, count, queue=0, flow="f"):
    return [opf for _ in range(count) if (opf := app.on_enqueue(Fraction(now), queue, flow, 1000))]


def backlog(**options):
    """Four packets at 0; one is taken at 0, one at 10: R_recv = 100 bytes per unit of time."""
    app = application(**options)
    assert not fill(app, 0, 4)
    app.on_dequeue(Fraction(0), 0)
    app.on_dequeue(Fraction(10), 0)
    assert app.queues[0].R_recv == 100
    return app


def test_backdraft_pause_is_what_is_too_much_over_the_receivers_rate():
    app = backlog()
    assert not fill(app, 10, 2)  # Th_curr = 4000 does not exceed Th_over
    assert fill(app, 10, 1) == [("f", 30, 100)]  # (5000 - 2000) / 100


def test_backdraft_no_other_frame_before_the_pause_is_over_and_then_only_if_still_needed():
    app = backlog()
    assert len(fill(app, 10, 3)) == 1
    assert not fill(app, 39, 3)
    assert [f.pause for f in fill(app, 40, 1)] == [140]  # (9000 - 2000) / 50: half of 10 and half of 30
    app = backlog()
    fill(app, 10, 3)
    for now in (20, 30, 40):
        app.on_dequeue(Fraction(now), 0)
    assert not fill(app, 45, 2)  # 4000 again
    assert len(fill(app, 45, 1)) == 1


def test_backdraft_the_average_is_of_the_time_per_byte():
    app = backlog()
    fill(app, 10, 1)
    app.on_dequeue(Fraction(40), 0)  # 30 for 1000 bytes; before 10
    assert app.queues[0].R_recv == 50
    app.on_dequeue(Fraction(50), 0)
    assert app.queues[0].R_recv == Fraction(1000, 15)


def test_backdraft_a_receiver_that_stands_still_is_noticed_before_it_takes_anything():
    app = backlog()
    assert fill(app, 40, 3)[0].rate == 50  # half of 10 and half of 30 per 1000 bytes
    assert app.queues[0].R_recv == 100  # which is no sample yet
    app = application()
    fill(app, 0, 4)
    assert fill(app, 8, 1) == [("f", 24, 125)]  # nothing taken at all: 8 for the first 1000 bytes


def test_backdraft_time_without_a_backlog_is_no_sample():
    app = backlog()
    app.on_dequeue(Fraction(20), 0)
    app.on_dequeue(Fraction(30), 0)
    assert app.queues[0].R_recv == 100
    fill(app, 500, 1)
    app.on_dequeue(Fraction(500), 0)
    fill(app, 501, 1)
    app.on_dequeue(Fraction(510), 0)  # 10 after the one before it
    assert app.queues[0].R_recv == 100


def test_backdraft_sizes_count_with_the_packet_that_was_taken_then():
    app = application()
    app.on_enqueue(Fraction(0), 0, "f", 1000)
    app.on_enqueue(Fraction(0), 0, "f", 10)
    app.on_dequeue(Fraction(0), 0)
    app.on_dequeue(Fraction(20), 0)
    assert app.queues[0].R_recv == 50


def test_backdraft_no_pause_is_longer_than_the_longest():
    assert fill(backlog(longest=12), 10, 3)[0].pause == 12


def test_backdraft_a_lost_frame_is_sent_again_when_more_comes_than_was_on_its_way():
    app = backlog(in_flight=2000)
    assert len(fill(app, 10, 3)) == 1
    assert not fill(app, 12, 2)
    assert len(fill(app, 12, 1)) == 1  # 3000 more
    assert not fill(app, 12, 2)  # counted from there


def test_backdraft_queues_of_an_application_are_paused_one_by_one():
    app = backlog()
    assert [f.flow for f in fill(app, 10, 3) + fill(app, 10, 5, queue=1, flow="g")] == ["f", "g"]


def drained(at, **options):
    """A frame at 10, with 5000 bytes there; then everything is taken, the last packet at `at`."""
    app = backlog(patience=20, **options)
    assert len(fill(app, 10, 3)) == 1
    for _ in range(4):
        app.on_dequeue(Fraction(30), 0)
    app.on_dequeue(Fraction(at), 0)
    return app.Th_goal, app.Th_over


def test_backdraft_starvation_raises_the_thresholds_by_a_batch():
    assert drained(59) == (4000, 6000)  # the pause ends at 40, patience at 60
    assert drained(60) == (2000, 4000)
    assert drained(59, most=11_999) == (2000, 4000)
    assert drained(59, most=12_000) == (4000, 6000)


def test_backdraft_a_flow_that_ends_does_not_starve():
    app = backlog(patience=20)
    fill(app, 10, 2)
    assert app.on_enqueue(Fraction(10), 0, "f", 1000, last=True)
    for now in (15, 16, 17, 18, 19):
        app.on_dequeue(Fraction(now), 0)
    assert app.Th_goal == 2000 and app.queues[0].paused_until is None


def test_backdraft_sender_waits_and_then_doubles_its_rate_in_every_recovery():
    sender = backdraft.Sender(line=1000, recovery=Fraction(100))
    assert sender.rate_at(5) == 1000
    sender.on_opf(10, 30, 100)
    assert sender.paused_until == 40
    assert [sender.rate_at(Fraction(t)) for t in (40, 65, 140, 190, 240)] == [100, 125, 200, 300, 400]
    assert sender.rate_at(Fraction(10_000)) == 1000
    sender.on_opf(500, 0, 50)
    assert sender.rate_at(Fraction(500)) == 50


# ExpressPass ----------------------------------------------------------------------------------------------------------


def fed(rule, *rounds, alpha=0.5, w=0.1):
    """Rates and w after feedback: (time, credits, lost); a credit takes 100, the RTT is 1000."""
    flow = expresspass.Flow(0, 100, {"alpha": alpha, "w_init": w, "air": False})
    flow.begin(0)
    flow.srtt, out = 1000, []
    for now, flow.total, flow.lost in rounds:
        getattr(flow, rule)(now, 100, 0.125 if rule == "code" else 0.1, 0.01, 0.5)
        out.append((pytest.approx(flow.rate), pytest.approx(flow.w)))
    return out


def test_expresspass_algorithm_1():
    """A loss of a tenth raises the rate, and w from the second time on by half the way to 0.5."""
    raised = [(0.9 * 0.5 + 0.1 * 1.1, 0.1), (0.7 * 0.56 + 0.3 * 1.1, 0.3)]
    assert fed("printed", (1000, 20, 2), (2000, 20, 0), (4000, 10, 2)) == [*raised, (0.722 * 0.8 * 1.1, 0.15)]
    cut = 0.5 * 0.85 * 1.1
    raised = [(0.95 * cut + 0.05 * 1.1, 0.05), (0.725 * (0.95 * cut + 0.055) + 0.275 * 1.1, 0.275)]
    assert fed("printed", (1000, 20, 3), (2000, 20, 2), (3000, 20, 2)) == [(cut, 0.05), *raised]
    assert fed("printed", (100_000, 2, 1), w=0.01) == [(0.5 * 0.5 * 1.1, 0.01)]


def test_expresspass_algorithm_1_with_the_cut_of_the_simulator():
    raised = [(0.9 * 0.5 + 0.1 * 1.1, 0.1), (0.7 * 0.56 + 0.3 * 1.1, 0.3)]
    assert fed("came", (1000, 20, 2), (2000, 20, 0), (4000, 10, 2)) == [*raised, (0.4 * 1.1, 0.15)]
    raised = [(0.95 * 0.5 + 0.05 * 1.1, 0.05), (0.725 * 0.53 + 0.275 * 1.1, 0.275)]
    assert fed("came", (1000, 20, 3), (2000, 20, 2), (3000, 20, 2)) == [(0.5, 0.05), *raised]  # more came than the rate


def test_expresspass_the_rule_of_the_authors_simulator():
    """At half of the maximum a loss of 0.0625 is too much, at the maximum any."""
    assert fed("code", (1000, 20, 1), (2000, 20, 0)) == [(0.55, 0.1), (0.15 + 0.85 * 0.55, 0.15)]
    assert fed("code", (2000, 10, 1)) == [(0.45 * 1.0625, 0.05)]
    assert fed("code", (1000, 20, 2)) == [(0.5, 0.05)]  # more came than the rate
    assert fed("code", (1000, 100, 0), (2000, 100, 1), alpha=1, w=0.5) == [(1, 0.5), (1, 0.25)]
    assert fed("code", (100_000, 2, 1), w=0.01) == [(0.1, 0.01)]  # a credit per RTT
