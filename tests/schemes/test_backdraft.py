"""Backdraft against the paper's transcription, and its purpose: slow receivers lose nothing and slow no other flow down."""

import re
from collections import Counter, defaultdict
from itertools import pairwise

import polars as pl
import pytest
from helpers import EVERYTHING, acted, check_bad, incast, peers_of, traced
from paper import backdraft

from penstock_net.composition import parse
from penstock_net.sim.config import HostConfig, Measure
from penstock_net.sim.simulate import simulate
from penstock_net.topology import behind_vswitches, leaf_spine, with_receivers
from penstock_net.workload import flow_list

QUIET = Measure(sample="0s", flows=False)
PATIENT = HostConfig(rto="1s")  # nothing is sent twice unless it was dropped
LINE = 1 / 80  # bytes per ps of 100 Gbit/s


def servers(apps=2, receivers=({"host": 0, "rate": "4Gbps"},), buffer="8MB", hosts=8, **more):
    """Eight servers with two applications each; application 0 is slow."""
    topo = leaf_spine(hosts=hosts, tors=2, spines=2, rate="100Gbps", delay="1us", buffer="12MB", **more)
    return with_receivers(behind_vswitches(topo, apps=apps, rate="100Gbps", delay="500ns", buffer=buffer), receivers)


def crowd(topo, slow=500_000, victims=30, more=()):
    """Four flows to the slow application, one from each of four servers, and victims to others, on the same way."""
    flows = [(8 + 2 * i, 0, slow, f"{i}us") for i in range(4)] + list(more)
    return flow_list(topo, flows + [(9 + 2 * (i % 4), 1, 20_000, f"{200 + 20 * i}us") for i in range(victims)])


def run(topo, flows, scheme="backdraft", parameters=None, host=PATIENT, measure=QUIET, **more):
    return simulate(topo, flows, parse(scheme, parameters), measure=measure, host=host, **more)


def victims_of(run):
    return run.flows.filter(pl.col("dst") != 0)["slowdown"]


# ---- every frame, as the transcription decides ----


def applications(topo, scheme, parameters):
    values = parse(scheme, parameters).values("backdraft")
    rtt = topo.base_rtt_ps()
    return defaultdict(
        lambda: backdraft.Application(
            Th_goal=values["th_goal"],
            Th_over=values["th_over"],
            weight=values["weight"],
            longest=values["longest"],
            in_flight=values["repeat"] * (rtt // 80) if values["repeat"] else None,
            patience=rtt + values["recovery"] if values["adapt"] else None,
            most=values["most"],
        )
    )


def decided(topo, flows, rows, scheme, parameters):
    """Flow -> (when, frame) that the virtual switches should have sent; and their applications."""
    apps, frames, sizes = applications(topo, scheme, parameters), defaultdict(list), flows.bytes.tolist()
    peers = peers_of(topo)
    for row in rows:
        app = peers[row.node, row.port][0] if row.kind == 0 else topo.hosts
        if row.kind != 0 or app >= topo.hosts or row.node >= topo.hosts + 8:
            continue
        if row.event == "enqueue":
            last = row.offset + 1000 >= sizes[row.flow]
            frame = apps[app].on_enqueue(row.at, row.queue, row.flow, row.size, last)
            if frame:
                frames[row.flow].append((row.at, frame))
        elif row.event == "dequeue":
            apps[app].on_dequeue(row.at, row.queue)
    return frames, apps


def arrived(topo, flows, rows):
    """Flow -> when an overlay pause frame of it came to its host."""
    out = defaultdict(list)
    for row in rows:
        if row.kind == 2 and row.node < topo.hosts:
            assert row.node == flows.src[row.offset]
            out[row.offset].append(row.at)
    return out


def check_sender(topo, flow, rows, frames, told, recovery, with_rate):
    """Every packet of a flow that has its host to itself left when line, pause and rate allow, and not a moment later."""
    sender, sent, peers = backdraft.Sender(LINE, recovery), [], peers_of(topo)
    for row in rows:
        if row.event == "enqueue" and row.kind == 0 and row.flow == flow:
            peer, _, delay, ps = peers[row.node, row.in_port]
            if peer < topo.hosts:
                sent.append((row.at - delay - row.size * ps, row.size))
    k = held = 0
    for (before, size), (at, _) in pairwise(sent):
        while k < len(told) and told[k] <= before:
            sender.on_opf(told[k], frames[k][1].pause, frames[k][1].rate if with_rate else None)
            k += 1
        due = before + size / sender.rate_at(before)
        free = before + size / LINE
        while k < len(told) and told[k] <= max(due, free):
            sender.on_opf(told[k], frames[k][1].pause, frames[k][1].rate if with_rate else None)
            due, held, k = max(due, sender.paused_until), held + 1, k + 1
        assert abs(at - max(due, free)) <= 2, f"flow {flow}: sent at {at}, not at {max(due, free)}"
    return held


CASES = {
    "as it is": ({}, {}),
    "far thresholds": ({"th_goal": "10KB", "th_over": "90KB", "weight": 0.5}, {}),
    "no rate": ({"with_rate": False}, {}),
    "no adaptation": ({"adapt": False, "th_goal": "3KB", "recovery": "50us"}, {}),
    "short": ({"longest": "20us", "repeat": 0}, {}),
    "one queue": ({"dqa.edge_queues": 1}, {}),
    "on and off": ({}, {"receivers": [{"host": 0, "rate": "1Gbps", "on": "200us", "off": "100us", "until": "4ms"}]}),
    "faster and faster": (
        {"th_goal": "5KB", "th_over": "15KB"},
        {"receivers": [{"host": 0, "rate": "2Gbps"}, {"host": 0, "rate": "20Gbps", "start": "700us"}]},
    ),
    "up to the line": (
        {"recovery": "30us"},
        {"receivers": [{"host": 0, "rate": "2Gbps"}, {"host": 0, "rate": "100Gbps", "start": "400us"}]},
    ),
    "it stops": (
        {},
        {"receivers": [{"host": 0, "rate": "20Mbps", "start": "25us"}, {"host": 0, "rate": "100Gbps", "start": "3ms"}]},
    ),
    "quick": (
        {"th_goal": "4KB", "th_over": "9KB", "recovery": "10us", "most": "1MB"},
        {"receivers": [{"host": 0, "rate": "2Gbps", "on": "60us", "off": "40us", "until": "4ms"}]},
    ),
    "quick and small": (
        {"th_goal": "4KB", "th_over": "9KB", "most": "1MB", "longest": "300us"},
        {"receivers": [{"host": 0, "rate": "1Gbps", "on": "150us", "off": "30us", "until": "4ms"}]},
    ),
}
STARVED = ("on and off", "faster and faster", "up to the line", "it stops", "quick", "quick and small")


@pytest.mark.parametrize("name", CASES)
def test_every_frame_and_every_packet_of_the_senders(name):
    parameters, network = CASES[name]
    topo = servers(**network)
    flows = crowd(topo, 800_000, 5, [(2 + i % 6, 0, 60_000, f"{150 + 40 * i}us") for i in range(6)])
    ended, rows = traced(topo, flows, "backdraft", parameters, host=PATIENT)
    frames, apps = decided(topo, flows, rows, "backdraft", parameters)
    told = arrived(topo, flows, rows)
    assert {f: len(v) for f, v in frames.items()} == {f: len(v) for f, v in told.items()}
    assert sum(map(len, frames.values())) == ended.ports["pauses_sent"].sum() >= 4
    least, most = 2_500_000, topo.base_rtt_ps()  # from the next server at least; there may be a packet in front at each hop
    for flow, sent in frames.items():
        assert all(least < there - at < most for (at, _), there in zip(sent, told[flow]))
    values, held = parse("backdraft", parameters).values("backdraft"), 0
    for flow in frames:
        held += check_sender(topo, flow, rows, frames[flow], told[flow], values["recovery"], values["with_rate"])
    assert held >= 3, "some frame must have come while its flow was sending"
    raised = apps[0].Th_goal > values["th_goal"]
    assert raised if name in STARVED else not raised or values["adapt"]


def test_acknowledgements_neither_pause_nor_are_paused():
    """Application 0 sends as fast as it can and takes its acknowledgements slowly: no frame is sent."""
    topo = servers(receivers=[{"host": 0, "rate": "1Gbps"}])
    ended = run(topo, flow_list(topo, [(0, 8, 3_000_000, "0s")]), host=HostConfig(ack_priority="data", rto="1s"))
    assert ended.summary["flows_finished"] == 1 and ended.ports["control_bytes"].sum() == 0


# ---- what it is for ----


def test_it_loses_nothing_and_victims_are_not_delayed():
    topo = servers(buffer="2MB")
    flows = crowd(topo, 1_000_000)
    lossy, held = run(topo, flows, "fifo", host=HostConfig(rto="4ms")), run(topo, flows)
    assert lossy.summary["drops"] > 500 and lossy.summary["retransmissions"] > 500
    assert held.summary["drops"] == held.summary["retransmissions"] == 0
    assert victims_of(held).max() < 1.2
    assert held.summary["flows_finished"] == len(flows)


def test_pfc_makes_victims_of_the_others():
    topo = servers(buffer="2MB")
    flows = crowd(topo, 1_000_000)
    paused = run(topo, flows, "pfc")
    assert paused.summary["drops"] == 0 and victims_of(paused).median() > 20 * victims_of(run(topo, flows)).median()


def test_the_receiver_is_never_idle():
    """What the slow application gets is its rate, with and without rates in the frames."""
    topo = servers()
    for parameters in ({}, {"with_rate": False}, {"th_goal": "16KB"}):
        ended = run(topo, crowd(topo, 1_000_000), parameters=parameters)
        ideal_ns = 4 * 1_048_000 * 8 / 4
        end_ns = ended.flows.filter(pl.col("dst") == 0)["finish_ns"].max()
        assert ideal_ns < end_ns < 1.005 * ideal_ns + 15_000, parameters


def test_frames_are_few_and_rates_make_them_fewer():
    """One long flow: a pause alone is followed by a burst each time, a rate by a slow rise."""
    topo = servers()
    flows = flow_list(topo, [(8, 0, 10_000_000, "0s")])
    pauses, rates, slow_rise = (
        int(run(topo, flows, parameters=p).ports["pauses_sent"].sum()) for p in ({"with_rate": False}, {}, {"recovery": "20ms"})
    )
    assert 4 * slow_rise < 2 * rates < 1.5 * pauses < 10_000 / 50, "of 10 000 packets"


def test_one_queue_stays_near_its_thresholds():
    """What is on its way when a frame goes out comes on top, and nothing else."""
    topo = servers()
    ended = run(topo, flow_list(topo, [(8, 0, 10_000_000, "0s")]))
    most = ended.ports.filter((pl.col("node") == 16) & (pl.col("port") == 0))["max_queue_bytes"][0]
    assert 64_000 < most < 64_000 + topo.base_rtt_ps() // 80 + 3 * 1048


def rates(ended, topo, bins):
    """Gbit/s to application 0 between these times in us."""
    frame = ended.extra["packets"].filter(
        (pl.col("node") == topo.hosts) & (pl.col("port") == 0) & (pl.col("kind") == 0) & (pl.col("event") == "dequeue")
    )
    return [
        frame.filter(pl.col("time_ns").is_between(a * 1000, b * 1000))["bytes"].sum() * 8 / 1000 / (b - a)
        for a, b in pairwise(bins)
    ]


def test_it_follows_a_receiver_that_doubles_its_rate():
    """Figure 15."""
    topo = servers(receivers=[{"host": 0, "rate": "4Gbps"}, {"host": 0, "rate": "8Gbps", "start": "3ms"}])
    ended = run(topo, flow_list(topo, [(8, 0, 5_000_000, "0s")]), measure=EVERYTHING)
    before, at_once, later = rates(ended, topo, [500, 3000, 4500, 6000])
    assert 3.95 < before < 4.05 and 6 < at_once < 8 and 7.9 < later < 8.05
    assert ended.summary["drops"] == 0


def test_it_follows_a_receiver_that_comes_and_goes():
    topo = servers(receivers=[{"host": 0, "rate": "100Mbps", "on": "1ms", "off": "1ms", "until": "9ms"}], buffer="4MB")
    ended = run(topo, crowd(topo, 2_000_000))
    assert ended.summary["drops"] == 0 and victims_of(ended).max() < 1.2


def lost_in_switches(ended):
    """Packets dropped for want of room, that is not on the wires."""
    return sum(ended.ports["drops"]) - sum(
        int(n) for text in ended.ports["drop_reason"].drop_nulls() for n in re.findall(r"link loss: (\d+)", text)
    )


@pytest.mark.parametrize("rate", ["4Gbps", "500Mbps"])
def test_lost_frames_do_no_harm(rate):
    """One in ten is lost at each of six links, so half never arrive: they are repeated before the buffer is full."""
    topo = servers(receivers=[{"host": 0, "rate": rate}], buffer="4MB")
    flows = crowd(topo, 3_000_000)
    ended = run(topo, flows, control_loss=0.1)
    assert lost_in_switches(ended) == 0 < ended.summary["drops"], "frames were lost and nothing else"
    assert ended.summary["flows_finished"] == len(flows) and victims_of(ended).max() < 1.2


def test_without_repetition_a_lost_frame_overruns_the_buffer():
    """So the test above can fail."""
    topo = servers(receivers=[{"host": 0, "rate": "500Mbps"}], buffer="4MB")
    ended = run(topo, crowd(topo, 3_000_000), parameters={"repeat": 0}, control_loss=0.1)
    assert lost_in_switches(ended) > 100


def test_an_application_gets_no_more_than_most():
    topo = servers()
    ended = run(topo, crowd(topo), parameters={"overlay": False, "most": "100KB"}, host=HostConfig(rto="1ms"))
    frame = ended.ports.filter((pl.col("node") == 16) & (pl.col("port") == 0))
    assert ended.summary["drops"] > 0 and 98_000 < frame["max_queue_bytes"][0] <= 100_000
    assert ended.ports.filter(pl.col("drops") > 0).select("node", "port").rows() == [(16, 0)]


def test_flows_of_one_server_are_paused_locally():
    """Sender and slow receiver behind the same virtual switch: the frame does not leave it."""
    topo = servers()
    ended = run(topo, flow_list(topo, [(1, 0, 2_000_000, "0s"), (1, 8, 200_000, "10us")]))
    sent = ended.ports.filter(pl.col("pauses_sent") > 0)
    assert set(sent["node"]) == {16} and set(sent["port"]) == {1} and ended.summary["drops"] == 0
    assert ended.flows.filter(pl.col("dst") == 8)["slowdown"][0] < 2.1  # it shares its host's line, and then has it


def test_it_does_nothing_without_virtual_switches():
    topo = leaf_spine(hosts=16, tors=2, spines=2, buffer="12MB")
    flows = incast(topo, range(4, 16))
    assert run(topo, flows).flows.equals(run(topo, flows, "dqa").flows)


def test_bad_parameters():
    check_bad("backdraft", {"weight": 0}, r"weight = 0: must be 0.001..1")
    check_bad("backdraft", {"recovery": "0s"}, "recovery")


# ---- with other schemes ----


def test_bfc_spreads_congestion_alone_and_not_above_backdraft():
    topo = servers()
    flows = crowd(topo, 1_000_000)
    alone = run(topo, flows, "bfc", measure=Measure(sample="0s", pauses=True))
    above = run(topo, flows, "bfc+backdraft", {"bfc.edge_th_bytes": "2MB"}, measure=Measure(sample="0s", pauses=True))

    def held(ended):
        """(switch, port) whose queues towards the slow application's server were held."""
        return Counter((n, p) for _, n, p, _, paused in ended.pauses.iter_rows() if paused and n >= topo.hosts + 8)

    assert sum(held(alone).values()) > 10
    towards = [
        (int(topo.links["b"][i]), int(topo.links["port_b"][i]))
        for i, l in enumerate(topo.links)
        if l["a"] == topo.hosts and l["b"] >= topo.hosts + 8
    ]
    assert towards and not [key for key in held(above) if key in towards]
    assert above.summary["drops"] == 0


def test_bfc_between_switches_and_to_the_network_is_as_it_was():
    """The threshold is that towards applications: not that of ToRs, nor of virtual switches towards their ToR."""
    plain = leaf_spine(hosts=16, tors=2, spines=2, buffer="12MB")
    flows = incast(plain, range(4, 16))
    assert run(plain, flows, "bfc", {"edge_th_bytes": "1GB"}).ports.equals(run(plain, flows, "bfc").ports)
    topo = servers(receivers=[])
    flows = flow_list(topo, [(0, 8, 500_000, "0s"), (1, 10, 500_000, "0s")])
    assert run(topo, flows, "bfc", {"edge_th_bytes": "1GB"}).ports.filter(pl.col("node") == 16)["pauses_sent"].sum() > 0


def test_a_pace_of_the_sender_s_own_does_not_end_a_pause():
    """hpcc moves the next packet of a flow when its rate changes: not into the time that the overlay asked for."""
    for scheme, more in (("hpcc+backdraft", {}), ("dcqcn+backdraft", {"k_min": "5KB", "k_max": "30KB"})):
        parameters = {**more, "repeat": 0, "adapt": False, "th_goal": "4KB", "th_over": "8KB"}
        topo = servers(buffer="20MB")
        flows = crowd(topo, 800_000, 0)
        _, rows = traced(topo, flows, scheme, parameters, host=PATIENT)
        frames, _ = decided(topo, flows, rows, scheme, parameters)
        told, seen = arrived(topo, flows, rows), 0
        for flow, sent in frames.items():
            spans = [(at, at + int(f.pause)) for at, (_, f) in zip(told[flow], sent)]
            leaves = [
                r.at - 500_000 - r.size * 80
                for r in rows
                if r.flow == flow and r.kind == 0 and r.event == "enqueue" and r.node - topo.hosts == flows.src[flow] // 2
            ]
            for (begin, end), (following, _) in zip(spans, [*spans[1:], (1 << 62, 0)]):
                assert not [at for at in leaves if begin < at < min(end, following)], scheme
                seen += bool([at for at in leaves if at >= end])
        assert seen > 3


@pytest.mark.parametrize("scheme", ["hpcc+backdraft", "dctcp+backdraft", "pfc+backdraft", "bfc+pfc+backdraft"])
def test_it_composes(scheme):
    topo = servers(buffer="20MB")
    ended = run(topo, crowd(topo), scheme)
    assert ended.summary["drops"] == 0 and ended.summary["flows_finished"] == 34 and acted(ended)
