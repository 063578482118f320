"""FNCC: senders, switches and receivers beside the transcription; how old news is; what a joining flow does beside HPCC."""

import random
from functools import reduce
from operator import xor
from types import SimpleNamespace

import pytest
from alone import Alone, check_mistake, zeros
from helpers import (
    ACK,
    DATA,
    SAMPLES,
    US,
    check_bad,
    check_sending,
    check_threads,
    check_windows,
    incast,
    network,
    peers_of,
    senders,
    traced,
)
from paper import fncc, hpcc

from penstock_net.composition import FOLDER, parse
from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import dumbbell, fat_tree, star
from penstock_net.workload import flow_list

LINE = 80
BASE_RTT = 10 * US


def model_of(values, T):
    return fncc.ReactionPoint(
        T,
        T / LINE,
        values["eta"],
        values["max_stage"],
        values["w_ai"],
        values["min_rate"] * T / 8e12,
        T / LINE,
        alpha=values["alpha"],
        beta=values["beta"],
        LHCS=values["lhcs"],
    )


# ---- senders: the file as plain Python, fed with any telemetry ----


def compare_sender(walk, parameters, text=""):
    """walk: (ps since the last ACK, (bytes sent, queue) of links, N, path, packets beyond the ACK)."""
    parameters = {"min_rate": "8Gbps", "w_ai": "600B", **parameters}
    alone = Alone("fncc", parameters, text, base_rtt=BASE_RTT, bdp=BASE_RTT // LINE)
    values = parse("fncc", parameters).values("fncc")
    T = values["t"] or BASE_RTT
    model, sent, now, seq, windows, astray = model_of(values, T), [0] * 5, 0, 0, [], 0
    for later, loads, N, path, ahead in walk:
        now, seq, links = now + later, seq + 1000, []
        for i, (count, queue) in enumerate(loads):
            sent[i] += count
            # the first and the third link have clocks that stand still for a while
            ts = now - 100_000 * i if i == 1 else now // (5 * US) * 5 * US if i == 2 else now // 200_000 * 200_000
            links.append(hpcc.Link(queue, sent[i], ts, 1 / [80, 160, 40][i % 3]))
        way = seq // 7000 if seq % 7000 == 0 else 0
        astray += way > 0
        model.new_ack(fncc.Ack(seq, seq + 1000 * ahead, tuple(links), (path, len(links)), N))
        told = [SimpleNamespace(ts=k.ts, tx_bytes=k.txBytes, qlen=k.qLen, ps_per_byte=round(1 / k.B)) for k in links]
        alone.ack(now, seq, seq + 1000 * ahead, hops=len(links), path=path, way=way, n=N, ack_l=told)
        assert alone.mine.w == pytest.approx(model.W, rel=1e-9)
        assert alone.flow.window == max(int(alone.mine.w), 1)
        assert alone.flow.pace == pytest.approx(model.W * 8e12 / T)
        windows.append(model.W)
        before = alone.mine.w, alone.mine.hops  # what an ACK without telemetry tells
        alone.ack(now, seq, seq + 1000 * ahead, hops=0, path=0, way=0, n=0, ack_l=[])
        assert (alone.mine.w, alone.mine.hops) == before
    assert (alone.mine.speedups, alone.mine.astray) == (model.speedups, astray) and astray > 50
    assert len(set(windows)) > 30 and max(windows) == model.W_max
    assert (model.speedups > 30) == values["lhcs"]


ALONE = [
    {},
    {"lhcs": False, "max_stage": 2},
    {"t": "13us", "alpha": 0.5, "beta": 0.6, "eta": 0.8, "max_stage": 3, "w_ai": "300B"},
]


def sender_walk(count=500):
    """Two or three links, full, half full and nearly empty by turns; another path now and then."""
    r, walk = random.Random(5), []
    for k in range(count):
        later, busy = r.randint(80_000, 12 * US), [(0.4, 1.1), (0.9, 1), (0.1, 0.4), (0.02, 0.1)][k // 40 % 4]
        loads = [(int(later / rate * r.uniform(*busy)), r.randint(0, most)) for rate, most in ((80, 60_000), (160, 9000))]
        loads += [(int(later / 40 * r.uniform(0.1, 0.9)), r.randint(0, 20_000))] * (k // 150 % 2)
        walk.append((later, loads, r.choice([1, 2, 3, 40]), k // 97 % 2, r.randint(0, 9)))
    return walk


def check_sender(text=""):
    for parameters in ALONE:
        compare_sender(sender_walk(), parameters, text)


# ---- switches and receivers: the same ----


class File(dict):
    def __init__(self, text="", **parameters):
        super().__init__(NEVER=2**62, DATA=DATA, ACK=ACK, BY_DEFAULT="as ever")
        exec(text or (FOLDER / "fncc.py").read_text(), self)
        self.me = SimpleNamespace(**parse("fncc", parameters).values("fncc"), at=SimpleNamespace(index=0))
        self.update(
            my_node=lambda _, node: node.mine,
            my_packet=lambda _, pkt: pkt.says,
            my_port=lambda _, port: port.mine,
            my_incoming=lambda _, incoming: incoming.mine,
            port_at=lambda node, slot: node.ports[slot],
            row_at=lambda mine, i: mine.row[i],
            ack_l_at=lambda says, i: says.ack_l[i],
            whole=int,
            hash31=lambda number, seed: number * number,
            set_timer=lambda node, _, when: setattr(node, "timer", when),
            wake_by=lambda node, _, when: setattr(node, "timer", min(node.timer, when)),
        )

    def node(self, number, ports):
        made = SimpleNamespace(id=number, now=0, timer=2**62, port_count=len(ports))
        made.ports = [
            SimpleNamespace(bytes=0, held=0, tx_bytes=0, free_at=0, ps_per_byte=p, mine=self.zeros("port_state")) for p in ports
        ]
        return made

    def zeros(self, table):
        return zeros(self[table], self["structs"], {})

    def packet(self, kind, size=0):
        """As its sender makes it, in memory that another one has left."""
        says = self.zeros("packet_state")
        for name in ("n", "hops", "path", "way", "size"):
            setattr(says, name, 77)
        pkt = SimpleNamespace(kind=DATA, size=1048, in_port=0, says=says)
        self["on_send"](self.me, None, SimpleNamespace(size=size), pkt)
        assert pkt.size == 1048 and says.n == says.hops == says.path == says.way == 0
        pkt.kind = kind
        return pkt


def compare_switches(text="", period=0):
    """Six switches whose ports send and queue at random; ACKs that pass one to six of them."""
    ours, r, now = File(text, table_period=f"{period}ps"), random.Random(period + 8), 0
    rates = [80, 40, 160, 20]
    nodes = [ours.node(100 + i, rates) for i in range(6)]
    models = [fncc.CongestionPoint([fncc.EgressPort(p) for p in rates], period) for _ in nodes]
    told, due = 0, {}
    for i, node in enumerate(nodes):
        ours["set_up_node"](ours.me, node)
        due[i] = period or 2**62
    for _ in range(150):
        now += r.randint(0, 90_000)
        for node in nodes:
            node.now = now
        for i, (node, model) in enumerate(zip(nodes, models)):
            ours["set_up_node"](ours.me, node)  # again, as when a rate has changed
            assert node.timer == due[i]
            while due[i] <= now:
                node.now = due[i]
                ours["on_timer"](ours.me, node)
                model.fill(due[i])
                due[i] += period
                assert node.timer == due[i]
            node.now = now
            k = r.randrange(4)
            port, other = node.ports[k], model.ports[k]
            if now >= port.free_at and r.random() < 0.7:
                size = r.choice([60, 104, 1048])
                port.tx_bytes += size
                port.free_at = now + size * rates[k]
                other.begin(now, size)
            port.held = r.randint(0, 3000)
            other.qLen = r.randint(0, 90_000)
            port.bytes = other.qLen + port.held
        passed = r.sample(range(6), r.randint(1, 6))
        data, pkt, L = ours.packet(DATA), ours.packet(ACK), []
        pkt.says.n = r.randint(0, 2)
        for i in passed:
            ours["on_dequeue"](ours.me, nodes[i], nodes[i].ports[r.randrange(4)], None, data)
            pkt.in_port = r.randrange(4)
            ours["on_dequeue"](ours.me, nodes[i], nodes[i].ports[r.randrange(4)], None, pkt)
            L = models[i].on_ack(now, pkt.in_port, L)
        assert data.says.way == sum(nodes[i].id ** 2 for i in passed) and data.says.path == data.says.hops == 0
        if pkt.says.n == 0:
            assert pkt.says.hops == pkt.says.path == pkt.says.way == 0
            continue
        assert pkt.says.path == reduce(xor, [nodes[i].id for i in passed]) and pkt.says.way == -data.says.way
        assert pkt.says.hops == len(L)
        for k, link in zip(pkt.says.ack_l, L):
            filled = k.ps_per_byte and round(1 / k.ps_per_byte, 9) == round(link.B, 9)
            assert (k.ts, k.tx_bytes, k.qlen) == (link.ts, link.txBytes, link.qLen) and (filled or k.ts == 0)
            told += k.tx_bytes > 0
    assert told > 250


def check_receivers(text=""):
    """Flows in messages to a host with two ports, packets that come twice, gaps."""
    ours, model, r = File(text), fncc.Receiver(), random.Random(2)
    host, seen = ours.node(1, [80, 80]), set()
    flows = [SimpleNamespace(size=0, sent=0, expected=0, mine=ours.zeros("incoming_state")) for _ in range(8)]
    for _ in range(900):
        i = r.randrange(8)
        flow = flows[i]
        if flow.sent == flow.size and r.random() < 0.3:
            flow.size += r.choice([700, 1000, 4500])
        if flow.size == 0:
            continue
        seq, flow.sent = flow.sent, min(flow.sent + 1000, flow.size)
        if r.random() < 0.2:  # it goes back
            seq, flow.sent = flow.expected, min(flow.expected + 1000, flow.size)
        pkt = ours.packet(DATA, flow.size)
        if r.random() < 0.1:
            continue  # it is lost
        if seq == flow.expected:
            flow.expected = flow.sent
        pkt.in_port = r.randrange(2)
        incoming = SimpleNamespace(expected=flow.expected, mine=flow.mine)
        answer = ours["on_data"](ours.me, host, incoming, pkt)
        N = model.on_data(i, pkt.in_port, flow.expected, flow.size)
        assert (answer, pkt.says.n, pkt.size) == ("as ever", N, 1048 + 44)
        seen.add(N)
    assert len(seen) > 4


def check_switches(text=""):
    compare_switches(text)
    compare_switches(text, period=700_000)


def test_senders_switches_and_receivers_do_as_transcribed():
    check_sender()
    check_switches()
    check_receivers()


S, N, R = check_sender, check_switches, check_receivers
MISTAKES = {
    "T": (S, "fncc.t if fncc.t > 0", "fncc.t if fncc.t < 0"),
    "the first window": (S, "    mine.w = mine.w_init\n", "    mine.w = mine.w_init / 2\n"),
    "the first W^c": (S, "    mine.wc = mine.w_init\n", "    mine.wc = mine.w_init / 2\n"),
    "the first U": (S, "    mine.u = 1.0\n", "    mine.u = 0.0\n"),
    "the first ACK": (S, "    mine.hops = -1\n", "    mine.hops = 2\n"),
    "the pace": (S, "mine.w * 8e12 / fncc.base_rtt)", "mine.w_init * 8e12 / fncc.base_rtt)"),
    "the least window": (S, "max(w, fncc.min_rate * fncc.base_rtt / 8e12)", "max(w, 1.0)"),
    "the largest window": (S, "8e12), my_flow(fncc, flow).w_init)", "8e12), 1e12)"),
    "telemetry that is no newer": (S, "        return 0.0\n", "        return 1.2\n"),
    "bytes of the last hop": (S, "link.tx_bytes - old.tx_bytes", "link.tx_bytes - 0 * old.tx_bytes"),
    "the larger queue": (S, "min(link.qlen, old.qlen)", "max(link.qlen, old.qlen)"),
    "the present queue": (S, "min(link.qlen, old.qlen)", "link.qlen"),
    "one speed": (S, "+ tx_rate) * link.ps_per_byte", "+ tx_rate) * 80"),
    "the least busy link": (S, "if u_link > u:", "if u_link < u or u == 0:"),
    "the last link": (S, "if u_link > u:", "if 1:"),
    "tau of the first link": (S, "tau = float(ack_l_at(ack, i).ts", "tau = tau or float(ack_l_at(ack, i).ts"),
    "a weight beyond 1": (S, "min(tau, fncc.base_rtt) / fncc.base_rtt", "tau / fncc.base_rtt"),
    "no average": (S, "(1 - weight) * mine.u + weight * u", "u"),
    "U below eta": (S, "if u >= fncc.eta or", "if u >= 1.0 or"),
    "a stage more": (S, "mine.inc_stage >= fncc.max_stage", "mine.inc_stage > fncc.max_stage"),
    "stages do not begin again": (S, "            mine.inc_stage = 0\n            mine.wc = w\n", "            mine.wc = w\n"),
    "W^c is not cut": (S, "mine.inc_stage = 0\n            mine.wc = w\n", "mine.inc_stage = 0\n"),
    "W^c does not grow": (S, "mine.inc_stage += 1\n            mine.wc = w\n", "mine.inc_stage += 1\n"),
    "no increase beside the step": (S, "mine.wc / (u / fncc.eta) + fncc.w_ai", "mine.wc / (u / fncc.eta)"),
    "no increase": (S, "bound(fncc, flow, mine.wc + fncc.w_ai)", "bound(fncc, flow, mine.wc)"),
    "the average decides": (S, "load_of(fncc, flow, last, 0) > fncc.alpha", "mine.u > fncc.alpha"),
    "beyond eta": (S, "> fncc.alpha:", "> fncc.eta:"),
    "the first hop": (S, "last = ack_l_at(ack, 0)", "last = ack_l_at(ack, ack.hops - 1)"),
    "U of the second hop": (S, "load_of(fncc, flow, last, 0)", "load_of(fncc, flow, last, 1)"),
    "all of the link": (S, "* fncc.beta / ack.n", "/ ack.n"),
    "two flows always": (S, "fncc.beta / ack.n", "fncc.beta / 2"),
    "the share of the own line": (S, "fncc.base_rtt / last.ps_per_byte * fncc.beta", "mine.w_init * 0.99 * fncc.beta"),
    "the share without bounds": (
        S,
        "mine.wc = bound(fncc, flow, fncc.base_rtt / last.ps_per_byte * fncc.beta / ack.n)",
        "mine.wc = fncc.base_rtt / last.ps_per_byte * fncc.beta / ack.n",
    ),
    "W^c stays": (S, "        mine.w = mine.wc\n", "        mine.w = mine.wc\n        mine.wc = mine.w_init\n"),
    "W stays": (S, "        mine.w = mine.wc\n", ""),
    "stages go on": (S, "        mine.inc_stage = 0\n        mine.speedups", "        mine.speedups"),
    "speedups are not counted": (S, "        mine.speedups += 1\n", ""),
    "LHCS always": (S, "    if fncc.lhcs:\n", "    if 1:\n"),
    "no LHCS": (S, "    if fncc.lhcs:\n", "    if 0:\n"),
    "another path, the same hops": (S, "ack.hops != mine.hops or ack.path != mine.path", "ack.hops != mine.hops"),
    "the first ACK is not noted": (S, "        remember(fncc, flow, pkt)\n        return\n", "        return\n"),
    "the first ACK's round": (S, "        mine.last_update_seq = flow.sent\n        remember", "        remember"),
    "a round for each ACK": (S, "        mine.last_update_seq = flow.sent\n    else", "    else"),
    "a round is a packet longer": (S, "pkt.seq > mine.last_update_seq", "pkt.seq - 1000 > mine.last_update_seq"),
    "no L": (S, "    set_window(fncc, node, flow)\n    remember(fncc, flow, pkt)\n", "    set_window(fncc, node, flow)\n"),
    "an ACK that tells nothing": (S, "    if ack.hops == 0:\n        return\n", ""),
    "ways are not compared": (S, "    if ack.way:\n", "    if 0:\n"),
    "whole packets": (N, " - whole(max(port.free_at - node.now, 0) / port.ps_per_byte)", ""),
    "the packet on the line has not left": (N, "max(port.free_at - node.now, 0)", "1048 * port.ps_per_byte"),
    "a line that has been free": (N, "max(port.free_at - node.now, 0)", "(port.free_at - node.now)"),
    "what is held back": (N, "port.bytes - port.held", "port.bytes"),
    "the port by which it leaves": (N, "of_data = port_at(node, pkt.in_port)", "of_data = port"),
    "telemetry in data": (N, "    if pkt.kind == DATA:\n", "    if pkt.kind == 9:\n"),
    "ACKs without room": (N, "elif pkt.kind == ACK and mine.n > 0:", "else:"),
    "six hops": (N, "MAX_HOP = 5", "MAX_HOP = 4"),
    "the way back": (N, "        mine.way -= hash31(node.id, 0)\n", ""),
    "the path": (N, "        mine.path ^= node.id\n", "        mine.path += node.id\n"),
    "the table at once": (
        N,
        "            if fncc.table_period > 0:\n                look_up",
        "            if fncc.table_period < 0:\n                look_up",
    ),
    "no table": (N, "    if fncc.table_period > 0:\n        wake_by", "    if 0:\n        wake_by"),
    "a rate that changes puts the table off": (N, "wake_by", "set_timer"),
    "a table that is filled once": (
        N,
        "        read(node, port, row_at(my_port(fncc, port), 0))\n    set_timer",
        "        read(node, port, row_at(my_port(fncc, port), 0))\n    return\n    set_timer",
    ),
    "a row alone": (N, "for i in range(node.port_count):", "for i in range(1):"),
    "a flow at each packet": (R, "    if not mine.counted:\n", "    if 1:\n"),
    "a flow that stays": (R, "        here.n -= 1\n", ""),
    "a flow that never counts again": (R, "        mine.counted = 0\n", ""),
    "N after the last packet": (R, "    says.n = here.n\n", "    says.n = here.n - (incoming.expected >= says.size)\n"),
    "the port of each packet": (
        R,
        "here = my_port(fncc, port_at(node, mine.port))",
        "here = my_port(fncc, port_at(node, pkt.in_port))",
    ),
    "the first message": (R, "mine.size = max(mine.size, says.size)", "mine.size = mine.size or says.size"),
    "all of the flow is told": (R, "    mine.size = flow.size\n", "    mine.size = 1000000\n"),
    "no room": (R, "    pkt.size += fncc.int_bytes\n", ""),
    "NACKs": (R, "return BY_DEFAULT", "return 1"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake):
    compare, right, wrong = MISTAKES[mistake]
    check_mistake("fncc", right, wrong, compare)


# ---- runs ----


def trajectories(topo, flows, rows, parameters):
    """Flow -> (time, W) after each ACK, by the transcription, from what the trace shows; and how often it sped up."""
    values, T = parse("fncc", parameters).values("fncc"), topo.base_rtt_ps()
    peers, sent_and_acks = peers_of(topo), senders(topo, flows, rows)
    points = {node: fncc.CongestionPoint([]) for node in range(topo.hosts, topo.hosts + topo.switches)}
    for (node, port), (_, _, _, ps_per_byte) in sorted(peers.items()):
        if node in points:
            assert len(points[node].ports) == port
            points[node].ports.append(fncc.EgressPort(ps_per_byte))
    told, arrivals = {}, []
    for row in rows:
        if row.node not in points:
            continue
        point = points[row.node]
        if row.event == "dequeue":
            key = row.flow, row.offset
            if row.kind == ACK:
                L, path = told.get(key, ([], 0))
                told[key] = point.on_ack(row.at, row.in_port, L), path ^ row.node
            peer, port, delay, ps_per_byte = peers[row.node, row.port]
            if row.kind == DATA and peer < topo.hosts:
                arrivals.append((row.at + delay + row.size * ps_per_byte, peer, port, row.flow, row.offset))
            point.ports[row.port].begin(row.at, row.size)
        point.ports[row.port].qLen = row.port_bytes
    receivers, says, sizes = {}, {}, flows.bytes.tolist()
    for _, host, port, flow, offset in sorted(arrivals):
        upto = min(offset + 1000, sizes[flow])
        says[flow, upto] = receivers.setdefault(host, fncc.Receiver()).on_data(flow, port, upto, sizes[flow])
    out, speedups = {}, {}
    for flow, got in sent_and_acks[1].items():
        model = model_of(values, T)
        out[flow] = [(0, model.W)]
        for ack in got:
            L, path = told[flow, ack.seq]
            model.new_ack(fncc.Ack(ack.seq, ack.snd_nxt, tuple(L), (path, len(L)), says[flow, ack.seq]))
            out[flow].append((ack.at, model.W))
        speedups[flow] = model.speedups
    return *sent_and_acks, out, speedups


@pytest.mark.parametrize("parameters", [{}, {"lhcs": False, "w_ai": "500B", "max_stage": 1}, {"alpha": 0.9, "beta": 0.5}])
def test_every_window_and_every_departure(parameters):
    topo = network()
    flows = incast(
        topo,
        range(4, 10),
        size=[80_000 + 9000 * i for i in range(6)],
        every_ns=1100,
        more=[(12, 3, 90_000, "3us"), (13, 0, 2500, "9us"), (14, 0, 700, "9us"), (15, 2, 80_000, "2us")],
    )
    run, rows = traced(topo, flows, "fncc", parameters, measure=SAMPLES)
    assert run.ports["pauses_sent"].sum() == 0  # so that all that a port sent is in the trace
    sent, acks, windows, speedups = trajectories(topo, flows, rows, parameters)
    T, compared = topo.base_rtt_ps(), 0
    for flow in range(len(flows)):
        compared += check_windows(run, flow, windows[flow])
        W = [w for _, w in windows[flow]]
        check_sending(sent[flow], acks[flow], W, lambda k, _, W=W: T / W[k], moves=True)
    assert compared > 300 and (sum(speedups.values()) > 20) == parameters.get("lhcs", True)
    assert run.counts == {"fncc.speedups": sum(speedups.values()), "fncc.astray": 0}


def ages(scheme, kind):
    """How old the telemetry of each switch on the path is when it reaches the sender of a packet that is alone, us."""
    topo = network()
    flows = flow_list(topo, [(0, 15, 1000, "1us")])
    _, rows = traced(topo, flows, scheme, host=HostConfig(ack_priority="data"))
    acks = [row for row in rows if row.kind == ACK and row.event == "dequeue" and row.node >= topo.hosts]
    _, _, delay, ps_per_byte = peers_of(topo)[acks[-1].node, acks[-1].port]
    here = acks[-1].at + delay + acks[-1].size * ps_per_byte
    told = [row for row in rows if row.kind == kind and row.event == "dequeue" and row.node >= topo.hosts]
    return [(here - row.at) / US for row in (told[::-1] if kind == ACK else told)]


def test_news_of_a_switch_is_as_old_as_its_way_to_the_sender():
    """HPCC's goes by way of the receiver: seven and five of the path's eight links, of which FNCC's takes one and three."""
    ack, hpcc_ack, data = 1 + 90 * LINE / US, 1 + 88 * LINE / US, 1 + 1090 * LINE / US
    assert ages("fncc", ACK) == pytest.approx([ack, 2 * ack, 3 * ack], abs=1e-6)
    assert ages("hpcc", DATA) == pytest.approx([n * data + 4 * hpcc_ack for n in (3, 2, 1)], abs=1e-6)


def joined(topo, scheme, flows, node, port, parameters=None):
    """-> the run, the longest queue after the second flow began, the last windows before times in base RTTs after that."""
    measure = Measure(sample="0.1us", port_series=True, flow_series=True, flows=False)
    run = simulate(topo, flow_list(topo, flows), parse(scheme, parameters), measure=measure)
    queue, windows = run.extra["port_series"], run.extra["flow_series"]
    queue = queue.filter((queue["node"] == node) & (queue["port"] == port) & (queue["time_ns"] > 39e3))["queue_bytes"].max()

    def windows_after(round_trips):
        seen = windows.filter(windows["time_ns"] <= 40e3 + round_trips * topo.base_rtt_ps() / 1000)
        return [seen.filter(seen["flow_id"] == flow)["window_bytes"][-1] for flow in (0, 1)]

    return run, queue, windows_after


def test_a_flow_that_joins_at_the_last_hop_and_the_one_before_have_equal_windows_at_once():
    topo = star(hosts=3)
    flows = [(1, 0, "1MB", "0us"), (2, 0, "500KB", "40us")]
    run, queue, windows = joined(topo, "fncc", flows, 3, 0)
    share = 0.9 * topo.base_rtt_ps() / LINE / 2
    assert windows(1.5) == windows(2) == [int(share)] * 2 and run.counts["fncc.speedups"] > 10
    _, hpcc_queue, hpcc_windows = joined(topo, "hpcc", flows, 3, 0)
    assert min(hpcc_windows(2)) > 1.3 * share
    assert queue < 0.95 * hpcc_queue
    without, _, slower = joined(topo, "fncc", flows, 3, 0, {"lhcs": False})
    assert min(slower(1.5)) > 1.3 * share and without.counts["fncc.speedups"] == 0


def test_a_flow_that_joins_further_up_meets_a_shorter_queue():
    """The flow before it hears of it from the ACKs that pass there."""
    topo = dumbbell(left=2, right=2)
    flows = [(0, 2, "1MB", "0us"), (1, 3, "500KB", "40us")]
    run, queue, _ = joined(topo, "fncc", flows, 4, 2)
    _, hpcc_queue, _ = joined(topo, "hpcc", flows, 4, 2)
    assert 0.55 < queue / hpcc_queue < 0.9 and run.counts["fncc.speedups"] == 0


def test_acks_meet_the_switches_of_their_data_unless_something_else_chooses_or_routes_change():
    topo = fat_tree(k=4)
    flows = flow_list(topo, [(i, (i + k) % 16, 20_000) for i in range(16) for k in (1, 3, 8)])
    run = simulate(topo, flows, "fncc")
    assert run.counts["fncc.astray"] == 0 and run.summary["flows_finished"] == 48
    spread = simulate(topo, flows, "fncc+spray")
    assert spread.counts["fncc.astray"] > 500 and spread.summary["flows_finished"] == 48
    topo = network(spines=4)
    flows = flow_list(topo, [(i, (i + 8) % 16, 100_000) for i in range(16)])
    change = {"time": "5us", "a": "tor0", "b": "spine1", "up": False}
    run = simulate(topo.with_changes([change]), flows, "fncc")
    assert 0 < run.counts["fncc.astray"] < 100 and run.summary["flows_finished"] == 16


def test_a_connection_counts_only_while_it_has_data():
    """Two connections, of which one is silent when the other one has a last hop for itself."""
    topo = star(hosts=4)
    items = [{"src": 1, "dst": 0, "bytes": 2000, "start": f"{i * 20}us", "connection": 1} for i in range(8)]
    items.append({"src": 2, "dst": 0, "bytes": "300KB", "start": "50us"})
    measure = Measure(sample="0s", flows=False)
    runs = [simulate(topo, flow_list(topo, some), parse("fncc", {"alpha": 0.5}), measure=measure) for some in (items, items[-1:])]
    beside, alone = (run.flows.filter(run.flows["src"] == 2)["fct_ns"].item() for run in runs)
    assert beside < 1.1 * alone


def test_only_acknowledgements_have_telemetry():
    topo = network()
    flows = incast(topo, range(4, 8))
    _, rows = traced(topo, flows, "fncc")
    assert {row.size for row in rows if row.kind == ACK} == {46 + 44}
    assert max(row.size for row in rows if row.kind == DATA) == 1048
    _, rows = traced(topo, flows, "fncc", {"int_bytes": 0})
    assert {row.size for row in rows if row.kind == ACK} == {60}


def test_a_table_makes_news_older_and_nothing_else():
    topo = star(hosts=5)
    flows = flow_list(topo, [(i, 0, 300_000, f"{i}us") for i in range(1, 5)])
    fct = {}
    for period in ("0us", "1ns", "1us", "50us"):
        run = simulate(topo, flows, parse("fncc", {"table_period": period}))
        assert run.summary["flows_finished"] == 4
        fct[period] = run.flows["fct_ns"].max()
    assert fct["1ns"] == pytest.approx(fct["0us"], rel=0.03) and len(set(fct.values())) == 4


def test_acknowledgements_that_switches_do_not_see_are_refused():
    topo = star(hosts=2)
    flows = flow_list(topo, [(0, 1, 1000)])
    with pytest.raises(SpecError, match=r'host\.ack_priority = "control": switches of fncc write into acknowledgements.*"data"'):
        simulate(topo, flows, parse("fncc", {"host.ack_priority": "control"}))
    assert simulate(topo, flows, "fncc", host=HostConfig(rto="1ms")).summary["flows_finished"] == 1


def test_any_number_of_threads_gives_the_same_results():
    assert check_threads("fncc").counts["fncc.speedups"] > 20
    check_threads("fncc", {"table_period": "1us"})


def test_parts_and_presets():
    assert list(parse("fncc").parts) == ["pfc", "fncc"]
    assert parse("fncc").host == {"ack_priority": "data", "pacing": "from start"}


def test_bad_parameters_are_refused():
    check_bad("fncc", {"eta": 1.5}, "0.01..1")
    check_bad("fncc", {"beta": 0}, "0.01..1")
    check_bad("fncc", {"min_rate": 0}, "1..1e15")
    check_bad("fncc+hpcc", None, "each set the rate or the window")


def test_the_transcription_by_hand():
    """100 Gbit/s and T = 8 us: B T is 100 000 bytes."""
    port = fncc.EgressPort(80)
    assert port.txBytes(5) == 0
    port.begin(1000, 1048)
    assert [port.txBytes(now) for now in (1000, 1001, 1080, 41_000, 84_840, 10**9)] == [0, 1, 1, 500, 1048, 1048]
    receiver = fncc.Receiver()
    assert [receiver.on_data(flow, 0, *end) for flow, end in ((1, (1000, 3000)), (2, (700, 700)), (3, (0, 3000)))] == [1, 2, 2]
    assert [receiver.on_data(*packet) for packet in ((1, 0, 3000, 3000), (3, 1, 3000, 3000), (4, 1, 9, 9))] == [2, 1, 1]
    B, T = 1 / 80, 8 * US
    sender = fncc.ReactionPoint(T, B * T, W_max=B * T)
    acks = [
        fncc.Ack(1000 * k, 9000, (hpcc.Link(q, 5000 * k, 400_000 * k, B),), 7, 4) for k, q in ((1, 5100), (2, 5001), (3, 4999))
    ]
    assert sender.new_ack(acks[0]) == 100_000  # it is recorded
    assert sender.new_ack(acks[1]) == pytest.approx(22_500) and sender.speedups == 1  # u' is 1.05001
    sender.new_ack(acks[2])  # u' is 1.04999
    assert sender.speedups == 1
