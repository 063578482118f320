"""DCQCN with notification packets: when receivers send them, what senders do, and what may become of them on the way."""

import random
from types import SimpleNamespace

import pytest
from alone import Alone, check_mistake
from helpers import ACK, DATA, QUEUED_ACKS, US, check_alone, check_bad, check_sending, check_threads, peers_of, senders, traced
from paper import dcqcn
from test_dcqcn import MARKS, MEASURE, crowd, model_of

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig
from penstock_net.sim.simulate import simulate
from penstock_net.topology import build, star
from penstock_net.workload import flow_list

NOTIFY = {**MARKS, "cnp_interval": "20us", "increase_interval": "9us", "r_ai": "300Mbps", "r_hai": "2Gbps"}
CASES = {
    "at once": {},
    "later": {"cnp_delay": "13us"},
    "as late as possible": {"cnp_delay": "20us", "clamp_target": False},
    "among data": {"cnp_priority": 0},
}
HOPS = 2 * (64 * 80 + 1_000_000)  # of a CNP in the idle star
OTHERS = 40 * 60 * 80 + 2 * 1048 * 80  # ACKs and packets that it may find on its way


def marked_and_told(topo, flows, rows):
    """Flow -> when marked packets came to its receiver, and when CNPs came to its sender."""
    peers, marks, told = peers_of(topo), {i: [] for i in range(len(flows))}, {i: [] for i in range(len(flows))}
    for row in rows:
        node, _, delay, ps_per_byte = peers[row.node, row.port]
        if row.event == "dequeue" and row.kind == DATA and row.ecn and node == flows.dst[row.flow]:
            marks[row.flow].append(row.at + delay + row.size * ps_per_byte)
        elif row.event == "receive" and row.node == flows.src[row.offset]:
            told[row.offset].append(row.at)
    return marks, told


def compare(scheme, more, topo=None, **settings):
    """A run against the transcription: CNPs come in time, and every packet leaves at the pace that they leave the flow."""
    topo = topo or star(hosts=5, buffer="100MB")
    flows = crowd(topo)
    run, rows = traced(topo, flows, scheme, {**NOTIFY, **more}, measure=MEASURE, host=QUEUED_ACKS, **settings)
    values = parse("dcqcn", {**NOTIFY, **more}).values("dcqcn")
    sent, acks = senders(topo, flows, rows)
    marks, told = marked_and_told(topo, flows, rows)
    assert not any(ack.ecn for got in acks.values() for ack in got)
    for flow, mine in sent.items():
        due = dcqcn.notifications(marks[flow], values["cnp_interval"], values["cnp_delay"])
        assert len(due) > 3 and all(HOPS <= came - left <= HOPS + OTHERS for came, left in zip(told[flow], due))
        assert len(told[flow]) == len(due) or due[len(told[flow])] + HOPS + OTHERS > run.summary["end_ns"] * 1000
        start = int(flows.start_ps[flow])
        model = dcqcn.Notified(start, model_of(values, start).p)
        rate, last = {}, acks[flow][-1].at
        touched = [(p.at, 2) for p in mine] + [(a.at, 1) for a in acks[flow]] + [(at, 0) for at in told[flow] if at < last]
        for at, kind in sorted(touched):
            if kind == 0:
                model.on_cnp(at)
            rate[at] = model.rate_at(at)
        check_sending(mine, acks[flow], [2**60] * (len(acks[flow]) + 1), lambda _, at, rate=rate: 8e12 / rate[at])
    return run


@pytest.mark.parametrize("case", CASES)
def test_every_notification_and_departure(case):
    compare("dcqcn", CASES[case])


# ---- the file itself ----


def notified_at(alone, marks, timer_first):
    """When a receiver sends CNPs if marked packets arrive at `marks`."""
    mine, timers, sent = SimpleNamespace(cnp_after=0, cnp_due=0, marked=0), [], []
    alone.update(
        my_incoming=lambda *_: mine,
        set_flow_timer=lambda node, _, when: timers.append(when),
        notify=lambda dcqcn, node, _: sent.append(node.now),
        BY_DEFAULT=2,
    )
    for at in [*marks, 2**61]:
        while timers and (timers[0] < at or (timers[0] == at and timer_first)):
            alone.node.now = timers.pop(0)
            alone["on_flow_timer"](alone.me, alone.node, None)
            assert len(sent) <= len(marks)
        alone.node.now, pkt = at, SimpleNamespace(ecn=at < 2**61)
        assert alone["on_data"](alone.me, alone.node, None, pkt) == 2 and not pkt.ecn and len(timers) <= 1
    return sent


def walks(text=""):
    """Receivers against the windows of the paper, senders against timers that fire."""
    r = random.Random(3)
    for delay in (0, 17, 49):
        alone = Alone("dcqcn", {"cnp_interval": "50ps", "cnp_delay": f"{delay}ps"}, text)
        for spread in (3, 30, 90, 300) * 20:
            marks = sorted(r.sample(range(1, 2 + 12 * spread), 12))
            for first in (True, False):
                assert notified_at(alone, marks, first) == dcqcn.notifications(marks, 50, delay)
    for scheme, more in (("dcqcn:cnp", {"g": 0.2}), ("dcqcn", {**NOTIFY, "g": 0.1, "clamp_target": False})):
        alone, now = Alone(scheme, more, text), 0
        alone["flow_of"] = lambda node, found, alone=alone: alone.flow if found else 0
        model = dcqcn.Notified(0, model_of(parse(scheme, more).values("dcqcn"), 0).p)
        for step in range(600):
            now += r.choice([1, 7, 40, 90]) * US // 2
            what = r.choice(["send", "ack", "cnp"]) if step % 60 < 40 else "send"
            if what == "cnp":
                alone.node.now = now
                alone["on_control"](alone.me, alone.node, None, 1)
                alone["on_control"](alone.me, alone.node, None, 0)
                model.on_cnp(now)
            elif what == "ack":
                alone.ack(now, 0, ecn=0)
            else:
                alone.send(now)
            assert alone.flow.pace == pytest.approx(model.rate_at(now), rel=1e-9)
            assert alone.mine.alpha == pytest.approx(0 if model.first_cnp else model.alpha, rel=1e-9)


def test_walks():
    walks()


MISTAKES = {
    "every mark": ("max(node.now, mine.cnp_after)", "node.now"),
    "no window": ("    mine.cnp_after = when + dcqcn.cnp_interval\n", "    mine.cnp_after = when\n"),
    "marks of a window are forgotten": ("            if node.now >= mine.cnp_after - dcqcn.cnp_interval:", "            if 0:"),
    "a mark counts twice": ("            if node.now >= mine.cnp_after - dcqcn.cnp_interval:", "            if 1:"),
    "a mark lasts": ("    mine.marked = 0\n", ""),
    "no delay": ("set_flow_timer(node, incoming, when + dcqcn.cnp_delay)", "set_flow_timer(node, incoming, when)"),
    "never due": ("        mine.cnp_due = 1\n", ""),
    "always due": ("    mine.cnp_due = 0\n", ""),
    "the echo stays": ("        pkt.ecn = 0\n", ""),
    "no cut": ("    mine.decrease_at = node.now\n    decrease(dcqcn, flow)\n", ""),
    "the clock of increases": ("    mine.decrease_at = node.now\n    decrease", "    decrease"),
    "alpha before the cut": (
        "    mine.decrease_at = node.now\n    decrease(dcqcn, flow)\n    mine.alpha_at = node.now\n    mine.alpha_echo = 1\n"
        "    update_alpha(dcqcn, flow, mine.alpha_at)\n",
        "    mine.alpha_at = node.now\n    mine.alpha_echo = 1\n    update_alpha(dcqcn, flow, mine.alpha_at)\n"
        "    mine.decrease_at = node.now\n    decrease(dcqcn, flow)\n",
    ),
    "alpha is as it was": ("    mine.alpha_echo = 1\n    update_alpha", "    update_alpha"),
    "the clocks are late": ("    if mine.started:\n        catch_up(dcqcn, node, flow)\n    else:", "    if not mine.started:"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    check_mistake("dcqcn", *MISTAKES[mistake], walks)


# ---- on the way ----


def test_a_notification_is_lost_where_its_priority_is_full():
    """Senders' links are full of data that may be dropped; CNPs of that priority are lost with it, CNPs ahead of data are not."""
    topo = star(hosts=7, buffer="1MB")
    items = [(i, 0, 1) for i in (1, 2)] + [(i, j, 0) for i in (3, 4, 5, 6) for j in (1, 2)]
    flows = flow_list(topo, [{"src": a, "dst": b, "bytes": "700KB", "priority": level} for a, b, level in items])
    lost = {}
    for priority in (-1, 0):
        parameters = {**NOTIFY, "cnp_interval": "1us", "cnp_priority": priority, "min_rate": "60Gbps"}
        parameters |= {"pfc": False, "dynamic_threshold.alpha": 0.02}
        _, rows = traced(topo, flows, "dcqcn+dynamic_threshold", parameters, host=HostConfig(rto="200us"))
        lost[priority] = sum(row.event == "drop" and row.kind > ACK for row in rows)
    assert lost[0] > lost[-1] == 0


@pytest.mark.parametrize("loss", [0, 0.003])
def test_without_marks_nothing_differs(loss):
    """Receivers answer gaps, too, as they do without notifications."""
    topo = build({"kind": "star", "hosts": 5, "buffer": "100MB", "loss": loss})
    unmarked = {"k_min": "50MB", "k_max": "60MB"}
    ways = unmarked, {**unmarked, "cnp_interval": "50us"}
    echo, notified = (simulate(topo, crowd(topo), parse("dcqcn", more), host=HostConfig(rto="200us")) for more in ways)
    assert echo.ports["ecn_marks"].sum() == 0 and echo.flows.equals(notified.flows)
    assert (echo.summary["retransmissions"] > 30) == bool(loss)


def test_lone_flows_and_threads():
    check_alone("dcqcn:cnp")
    check_threads("dcqcn:cnp", MARKS)


def test_bad_parameters_are_refused():
    check_bad("dcqcn:cnp", {"cnp_delay": "60us"}, "is more than cnp_interval")
    check_bad("dcqcn:cnp", {"cnp_priority": 9}, "-1..7")
    check_bad("dcqcn:cnp", {"cnp_priority": 3, "pfc.priorities": 2}, "priorities")
