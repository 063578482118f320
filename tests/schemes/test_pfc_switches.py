"""PFC as in switches: response time, cells, a pool of headroom, thresholds by rate; against the transcription, and as laws."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest
from drawn import examples
from helpers import PAUSE, check_frames, network, outcome, pauses_of, planted, switch_rows, traced
from hypothesis import given
from hypothesis import strategies as st
from paper import pfc, pfc_switch
from test_pfc import crowd
from test_pfc_priorities import blocked_sender, replay
from test_pfc_priorities import crowd as crowd_of

from penstock_net.composition import parse
from penstock_net.errors import PenstockError, SpecError
from penstock_net.sim.config import HostConfig
from penstock_net.sim.headroom import headroom as headroom_of
from penstock_net.sim.settings import Settings
from penstock_net.sim.simulate import simulate
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import Flows, flow_list

FRAME = 1048 + 64
RESPONSE = 2_140_000  # ps


def found(topo, host=None, **given):
    return headroom_of(Settings(topo, Flows.none(), parse("pfc", given), host=host or HostConfig()), "pfc")


def least(topo, host=None, spare=0, **given):
    """The network with the least buffers that are accepted, and `spare` bytes more."""
    large = dataclasses.replace(topo, buffer_bytes=np.full(topo.switches, 10**12))
    room = 10**12 - found(large, host, **given).shared
    frame = (host or HostConfig()).mtu + 48
    return dataclasses.replace(topo, buffer_bytes=room + frame + spare)


# ---- Response time ----


def check_response(scheme, response="2.14us", xon=3072):
    """Every change of a port is what the transcription has of the frames that came; how many there were."""
    given = {"response": response, "refresh": 0, "xon": xon}
    topo = least(network(), spare=300_000, **given)
    run, rows = traced(topo, crowd(topo), scheme, given)
    assert run.summary["drops"] == 0
    ports, told, count = (
        defaultdict(lambda: pfc_switch.SlowPort(parse("pfc", given).values("pfc")["response"])),
        pauses_of(run),
        0,
    )
    for row in rows:
        if row.event == "receive":
            ports[row.node, row.port].receive(row.at, 0, row.flow == PAUSE)
    for key, port in ports.items():
        mine = [(at, paused) for at, _, paused in told[key]]
        expected = port.changes(0)
        assert mine == expected[: len(mine)] and len(expected) - len(mine) <= 2
        count += len(mine)
    return count


@pytest.mark.parametrize("response", ["1ps", "2.14us", "30us"])
@pytest.mark.parametrize("xon", [0, 3072])
def test_every_change_comes_a_response_time_after_its_frame(response, xon):
    assert check_response("pfc", response, xon) > 30


def test_each_priority_answers_for_itself():
    topo, given = network(buffer="2.4MB"), {"priorities": 3, "headroom": 8.0, "response": "2.14us", "refresh": 0, "alpha": 0.125}
    run, rows = traced(topo, crowd_of(topo, 3), "pfc", given)
    values = parse("pfc", given).values("pfc")
    priorities = crowd_of(topo, 3).priority
    sent, drops = replay(topo, rows, values, lambda row: int(priorities[row.flow]))
    later = {key: [(at + RESPONSE, n, pause) for at, n, pause in frames] for key, frames in sent.items()}
    assert check_frames(run, topo, later, 6) > 50 and drops == 0


def test_a_response_of_nothing_changes_nothing():
    topo = network(buffer="1MB")
    runs = [simulate(topo, crowd(topo), parse("pfc", given)) for given in ({}, {"response": 0, "small_packets": 0.5})]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].ports["pauses_sent"].sum() > 20


MISTAKES = {
    "at once": ("    if pfc.response > 0:\n        postpone", "    if pfc.response < 0:\n        postpone"),
    "resumes at once": ("    if pfc.response > 0:\n        postpone", "    if pfc.response > 0 and pausing:\n        postpone"),
    "twice": ("due = node.now + pfc.response", "due = node.now + 2 * pfc.response"),
    "the last one first": ("command_at(pfc, node, ring, 0)", "command_at(pfc, node, ring, told.waiting - 1)"),
    "of the state now": ("if will_be_stopped(pfc, node, port, i) == pausing", "if (is_stopped(pfc, port, i) > 0) == pausing"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_response_is_found(name, tmp_path):
    file = planted(tmp_path, "pfc", *MISTAKES[name])
    with pytest.raises((AssertionError, PenstockError)):
        check_response(file, xon=0)


@pytest.mark.parametrize("priorities", [1, 3])
def test_threads_with_a_response(priorities):
    topo = network(buffer="3MB")
    scheme = parse("pfc", {"response": "2.14us", "priorities": priorities, "xon": 0})
    runs = [simulate(topo, crowd_of(topo, priorities), scheme, threads=n) for n in (1, 2)]
    assert outcome(runs[0]) == outcome(runs[1]) and runs[0].ports["pauses_sent"].sum() > 20


def refused(given, flows, topo, headroom):
    run = simulate(topo, flows, parse("pfc", {**given, "headroom_bytes": headroom}), host=HostConfig(rto="1s"), max_time_ps=10**9)
    return run.summary["drops"]


def enough(given, topo, flows, formula):
    """The least headroom that loses nothing."""
    low, high = 1, 2 * formula
    assert refused(given, flows, topo, low) and not refused(given, flows, topo, high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if refused(given, flows, topo, middle) else (low, middle)
    return high


@pytest.mark.parametrize("response", ["50ns", "500ns", "2.14us", "10us"])
def test_the_headroom_for_a_response_is_enough_and_tight(response):
    """What an adversary makes arrive is within two packets of the formula; a byte less than that loses some."""
    topo, _ = blocked_sender()
    topo = dataclasses.replace(topo, buffer_bytes=topo.buffer_bytes * 4)
    _, flows = blocked_sender()
    given = {"priorities": 2, "alpha": 0, "reserve": "30KB", "response": response}
    formula = int(found(topo, **given).needed[1, 1])
    least = enough(given, topo, flows, formula)
    assert formula - 2 * 1048 - 200 < least <= formula
    run = simulate(topo, flows, parse("pfc", {**given, "headroom": 0}))
    assert run.summary["drops"] == 0 and run.ports["pauses_sent"].sum() > 0


def test_the_headroom_of_400_gbit_over_40_m():
    """40 m of cable, 2.14 us of response: 107 KB more than without it."""
    topo = star(hosts=3, rate="400Gbps", delay="202ns", buffer="10MB")
    slow, quick = (int(found(topo, response=response).needed[1, 0]) for response in ("2.14us", 0))
    assert slow - quick == 107_001


@examples(25)
@given(st.data())
def test_nothing_is_lost_whatever_the_response(data):
    """The least buffer, any response, cell and rates: nothing lossless is dropped."""
    rate, uplink = (data.draw(st.sampled_from(["10Gbps", "100Gbps", "400Gbps"])) for _ in range(2))
    topo = leaf_spine(hosts=6, tors=2, spines=2, rate=rate, uplink_rate=uplink, delay=data.draw(st.sampled_from(["10ns", "1us"])))
    priorities = data.draw(st.sampled_from([1, 3]))
    given = {
        "response": data.draw(st.sampled_from([0, "1ps", "300ns", "2.14us", "20us"])),
        "cell": data.draw(st.sampled_from([0, 1, 64, 192, 254, 2000])),
        "alpha": data.draw(st.sampled_from([0.0, 0.11, 1.0, 128.0])),
        "xon": data.draw(st.sampled_from([0, 3072])),
        "headroom": 0.0,
        "priorities": priorities,
    }
    host = HostConfig(
        mtu=data.draw(st.sampled_from([200, 1000])), rto="1s", ack_priority=data.draw(st.sampled_from(["control", "data"]))
    )
    random, names = data.draw(st.randoms(use_true_random=False)), ("src", "dst", "bytes", "start", "priority")
    sizes = [random.choice([1, 40, 255, 3000, 40_000]) for _ in range(30)]
    items = [(1 + i % 5, 0, size, f"{random.randint(0, 2000)}ns", i % priorities) for i, size in enumerate(sizes)]
    topo = least(topo, host, data.draw(st.integers(0, 20_000)), **given)
    flows = flow_list(topo, [dict(zip(names, item)) for item in items])
    run = simulate(topo, flows, parse("pfc", given), host=host, max_time_ps=10**12)
    assert run.summary["drops"] == 0 and run.summary["flows_finished"] == len(flows), f"{given} {host}"


# ---- Cells, pool ----

POOLED = {"priorities": 3, "alpha": 0.125, "refresh": 0, "headroom_bytes": "60KB"}
CASES = {
    "cells": {"cell": 254, "headroom_pool": "9MB"},
    "cells of a byte, a pool that suffices": {"cell": 1, "headroom_pool": "6MB"},
    "a pool that does not": {"headroom_pool": "50KB"},
    "both": {"cell": 192, "headroom_pool": "70KB"},
}


def check_pool(name, scheme="pfc", host=None):
    """Each pause, resume and drop is the transcription's; how many packets found the pool full."""
    given = {**POOLED, **CASES[name]}
    values = parse("pfc", given).values("pfc")
    topo = network(buffer=values["headroom_pool"] + 600_000)
    flows = crowd_of(topo, 3, size=30_000)
    run, rows = traced(topo, flows, scheme, given, host=host or HostConfig(rto="200us"))
    sent, full, cell, count = defaultdict(list), 0, values["cell"] or 1, 0
    for node, mine in switch_rows(topo, rows).items():
        groups = [pfc.Port(60_000, (1, 8)) for _ in range(3 * int(topo.port_count[node]))]
        spare = pfc_switch.occupied(FRAME, cell)
        model = pfc_switch.PooledSwitch(
            int(topo.buffer_bytes[node - topo.hosts]) - spare, groups, 0, values["headroom_pool"], cell, pause_at_threshold=True
        )
        for row in mine:
            if row.event == "receive":
                continue
            priority = int(flows.priority[row.flow])
            group, frames = 3 * row.in_port + priority, []
            if row.event == "dequeue":
                frames = model.on_dequeue(group, row.size)
            else:
                where, frames = model.on_enqueue(group, row.size)
                assert (where in (None, "pool")) == (row.event == "drop"), f"{row}: the transcription has {where}"
                full += where == "pool"
            for frame in frames:
                sent[node, frame.port // 3].append((row.at, frame.port % 3, frame.kind == "pause"))
    count = check_frames(run, topo, {key: frames for key, frames in sent.items() if frames}, 6)
    reasons = " ".join(reason or "" for reason in run.ports["drop_reason"])
    return count, full, reasons


@pytest.mark.parametrize("name", CASES)
def test_cells_and_the_pool_are_the_transcription_s(name):
    count, full, reasons = check_pool(name)
    assert count > 30 and (full > 0) == ("headroom pool full" in reasons) == (name in ("a pool that does not", "both"))


POOL_MISTAKES = {
    "no pool": ("mine.pool_used + size > pfc.headroom_pool", "size > pfc.headroom_pool"),
    "never given back": ("    mine.pool_used -= from_headroom\n", ""),
    "headrooms set aside, too": ("                    mine.shared_size += group.headroom_size\n", "                    pass\n"),
    "out in bytes": ("        size = stored(pfc, pkt.size)\n    if group.headroom > 0", "    if group.headroom > 0"),
    "in in bytes": ("        size = stored(pfc, pkt.size)\n    if group.shared", "    if group.shared"),
    "another reason": ("return NO_HEADROOM", "return DROPPED"),
}


@pytest.mark.parametrize("name", POOL_MISTAKES)
def test_a_mistake_in_the_pool_is_found(name, tmp_path):
    file = planted(tmp_path, "pfc", *POOL_MISTAKES[name])
    with pytest.raises((AssertionError, PenstockError)):
        _, full, reasons = check_pool("both", file)
        assert full and "headroom pool full" in reasons


# ---- Values by rate ----


def rated(**given):
    """A network of hosts at 100 and 400 Gbit/s, and of uplinks at 400 -> alpha and headroom of ports to hosts, and to others."""
    changes = [{"time": "1ps", "a": "host1", "b": "tor0", "rate": "400Gbps"}]
    topo = leaf_spine(hosts=4, tors=2, spines=1, rate="100Gbps", uplink_rate="400Gbps", buffer="60MB").with_changes(changes)
    given = {"rates": ["100Gbps", "400Gbps"], **given}
    settings_ = Settings(topo, Flows.none(), parse("pfc", given))
    return headroom_of(settings_, "pfc").given, topo


def test_headroom_by_rate_and_kind_of_link():
    headroom, topo = rated(rate_headroom=["50KB", "300KB"], host_headroom=["20KB", "90KB"])
    for link, row in enumerate(topo.links):
        slow = row["ps_per_byte"] == 80
        for end, (node, peer) in enumerate((row.tolist()[:2], row.tolist()[1::-1])):
            expected = 0 if node < topo.hosts else 300_000 if peer >= topo.hosts else 20_000 if slow and peer != 1 else 90_000
            assert headroom[end, link] == expected
    assert rated(rate_headroom=["50KB"], headroom_bytes="7KB")[0].max() == 50_000
    assert rated(headroom_bytes="7KB")[0].max() == 7000


def test_alpha_by_rate():
    """An incast of one host at 400 Gbit/s may hold as much as its own alpha allows, whatever the others' is."""
    topo = star(hosts=4, rate="400Gbps", delay="1us", buffer="8MB")
    flows = flow_list(topo, [(1, 0, "2MB"), (2, 0, "2MB")])
    ways = {
        "one": {"alpha": 0.5},
        "by rate": {"rates": ["100Gbps", "400Gbps"], "rate_alpha": [0.11, 0.5]},
        "of hosts": {"rates": ["400Gbps"], "rate_alpha": [0.2], "host_alpha": [0.5]},
        "default": {},
    }
    most = {name: outcome(simulate(topo, flows, parse("pfc", values))) for name, values in ways.items()}
    assert most["one"] == most["by rate"] == most["of hosts"] != most["default"]


# ---- A shipped configuration ----


def test_a_shipped_configuration_with_a_pool_is_accepted():
    """Dell Z9864f (Tomahawk 5), 64 x 800G, 300 m: 3.2 times more headroom than its pool has."""
    topo = star(hosts=64, rate="800Gbps", delay="1515ns", buffer="162539680B")
    given = {
        "headroom_bytes": 1621536,
        "headroom_pool": 33374584,
        "alpha": 1.0,
        "response": "2.14us",
        "cell": 254,
        "priorities": 8,
    }
    given |= {"lossless": [3, 4], "priority_reserve": [0, 0, 0, 18796, 18796]}
    assert found(topo, **given).shared[0] == 162539680 - 33374584 - 64 * 2 * 18796 - 1270
    flows = flow_list(topo, [(1, 0, "1MB"), (2, 0, "1MB")])
    with pytest.raises(SpecError, match="headroom"):
        simulate(topo, flows, parse("pfc", {**given, "headroom_pool": 0}))
    run = simulate(topo, flows, parse("pfc", given))
    assert run.summary["drops"] == 0
