"""Switches that forward a packet when its header has arrived: lone flows, packets as in a model, the same bits."""

import dataclasses
import random
from pathlib import Path

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import (
    PFC,
    HostConfig,
    Measure,
    Topology,
    cutting,
    flow_list,
    headroom_buffer,
    incasts,
    make_links,
    networks,
    one_dst,
    same,
    simulate,
)
from paper import cut_through
from test_lone_flow import check_alone, in_turn, some_pairs

from penstock_net.errors import SpecError
from penstock_net.topology import build, leaf_spine, parking_lot, star

QUIET = Measure(sample="0s", flows=False)


@pytest.mark.parametrize("header", [64, 1, 500])
@pytest.mark.parametrize("switches", [1, 2, 5])
@pytest.mark.parametrize("size", [1, 300, 1000, 7_700, 1_000_000])
def test_an_idle_path_takes_a_header_a_switch(switches, header, size):
    """All links alike: the bytes, once, and a header and a delay for each switch."""
    chain = {"hops": switches - 1, "cross": 0}
    topo = parking_lot(**chain, delay="700ns") if switches > 1 else star(hosts=2, delay="700ns")
    run = simulate(topo.with_cut_through(True, header), flow_list(topo, [(0, 1, size)]), "fifo", measure=QUIET)
    packets = -(-size // 1000)
    waits = header if packets > 1 else min(header, size + 48)  # a short last packet waits for the line as long
    taken = (size + packets * 48) * 80 + switches * (waits * 80 + 700_000) + 700_000
    assert round(run.flows["fct_ns"][0] * 1000) == taken
    assert run.flows["slowdown"][0] == 1.0


@examples(60)
@given(networks(whole=True), st.data())
def test_a_flow_alone_takes_the_ideal_time(topo, data):
    """Any rates, delays and headers; some switches store and forward. Also by the clock of the sender, with long ACKs."""
    host = HostConfig(mtu=data.draw(st.sampled_from([1000, 100, 4096])), ack=data.draw(st.sampled_from([60, 90])), rto="1s")
    topo = data.draw(cutting(topo))
    sizes = data.draw(st.lists(st.integers(1, 60_000), min_size=1, max_size=6))
    seed = data.draw(st.integers(0, 2**31 - 1))
    flows = in_turn(topo, some_pairs(topo, len(sizes), seed), sizes, host)
    check_alone(topo, flows, data.draw(st.sampled_from(["fifo", "pfc", "dqa"])), host, seed, data.draw(st.integers(1, 2)))


@examples(30)
@given(networks(), st.data())
def test_rates_of_fractions_of_a_picosecond(topo, data):
    """Each hop is late by 2 ps at most: rounding never makes a packet wait for a line that is about to be free."""
    topo = topo.with_cut_through()
    sizes = data.draw(st.lists(st.integers(1, 200_000), min_size=1, max_size=3))
    seed, host = data.draw(st.integers(0, 2**31 - 1)), HostConfig(rto="1s")
    run = simulate(
        topo, in_turn(topo, some_pairs(topo, len(sizes), seed), sizes, host), "fifo", seed=seed, host=host, measure=QUIET
    )
    late = np.round((run.flows["fct_ns"] - run.flows["ideal_fct_ns"]).to_numpy() * 1000)
    assert (late >= -1).all() and (late <= 2 * topo.nodes).all(), f"{late} on {topo.links.tolist()}"


# Every packet as in the model


def crossing(seed: int):
    """Senders and receivers along a chain of switches, flows in one direction, their ACKs in the other: no ACK waits."""
    draw = random.Random(seed)
    switches = draw.randint(1, 4)
    homes = [(i, draw.randint(0, switches - 1)) for i in range(draw.randint(2, 6))]
    pairs = [(home, draw.randint(home, switches - 1)) for _, home in homes]
    hosts = 2 * len(pairs)
    ends = [(2 * i + j, hosts + home) for i, pair in enumerate(pairs) for j, home in enumerate(pair)]
    ends += [(hosts + i, hosts + i + 1) for i in range(switches - 1)]
    rates = [draw.choice([80, 80, 20, 81, 77, 100]) for _ in ends]
    delays = [draw.randint(10_000, 2_000_000) for _ in ends]
    topo = Topology(
        kind="file",
        hosts=hosts,
        switches=switches,
        params={},
        links=make_links(*zip(*ends), rates, delays),
        buffer_bytes=np.zeros(switches),
        names=tuple([f"h{i}" for i in range(hosts)] + [f"s{i}" for i in range(switches)]),
        tier=np.repeat([0, 1], [hosts, switches]),
        headers=np.array([draw.choice([64, 64, 150, 0]) for _ in range(switches)]),
    )
    starts = [draw.randint(0, 600_000) for _ in pairs]
    sizes = [draw.randint(1, 12_000) for _ in pairs]
    return topo, pairs, starts, sizes


def modelled(module, topo, pairs, starts, sizes):
    """The model of a network of crossing(), run: when the last packet of each flow arrives, and the model."""
    header, hosts = dict(enumerate(topo.headers.tolist(), topo.hosts)), topo.hosts
    wires = []
    for link in topo.links.tolist():
        a, b, rate, delay = link[0], link[1], link[4], link[5]
        towards = b if a >= hosts or a % 2 == 0 else a  # even hosts send, odd ones receive
        wires.append(module.Wire(int(rate), delay, header.get(towards, 0)))
    model, last = module.Model(wires), []
    for i, ((home, to), start, size) in enumerate(zip(pairs, starts, sizes)):
        path = (2 * i, *(hosts + hop for hop in range(home, to)), 2 * i + 1)
        packets = [min(1000, size - at) + 48 for at in range(0, size, 1000)]
        model.send(start, path, packets)
        last.append(len(model.arrived) - 1)
    model.run()
    return [model.arrived[number] for number in last], model


SEEDS = range(120)


def differs(module, seed) -> bool:
    """Whether some flow of a drawn network ends at another time than in the model."""
    topo, pairs, starts, sizes = crossing(seed)
    flows = flow_list(topo, [(2 * i, 2 * i + 1, size, f"{start}ps") for i, (start, size) in enumerate(zip(starts, sizes))])
    run = simulate(topo, flows, "fifo", measure=QUIET, host=HostConfig(rto="1s"))
    rows = run.flows.sort("src")
    found = [round(1000 * (row["start_ns"] + row["fct_ns"])) for row in rows.iter_rows(named=True)]
    return found != modelled(module, topo, pairs, starts, sizes)[0]


def test_every_flow_ends_as_in_the_model():
    assert [seed for seed in SEEDS if differs(cut_through, seed)] == []
    models = [modelled(cut_through, *crossing(seed))[1] for seed in SEEDS]
    assert sum(model.cut for model in models) > 300 and sum(model.stored for model in models) > 300


MISTAKES = {
    "a fast egress underruns": ("underrun = packet.size * out.ps_per_byte < rest", "underrun = False"),
    "only equal rates": ("packet.size * out.ps_per_byte < rest", "out.ps_per_byte != wire.ps_per_byte"),
    "a busy line is no obstacle": ("if busy or underrun", "if underrun"),
    "what waits is overtaken": (" or out.waiting", ""),
    "it leaves as soon as the line is free": ("self.at(self.now + rest, 0, self.join, packet)", "self.join(packet)"),
    "the line is idle only after it has been": ("self.now < out.free_at or", "self.now <= out.free_at or"),
    "the header at the rate of the egress": (
        "self.now + wire.header * wire.ps_per_byte",
        "self.now + wire.header * self.wires[packet.path[packet.hop]].ps_per_byte",
    ),
    "hosts, too": (
        "self.at(wire.free_at + wire.delay, 0, self.finish",
        "self.at(self.now + wire.delay, 0, self.finish",
    ),
    "store and forward": ("0 < wire.header", "0 < wire.header < 0"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_finds_mistakes(mistake, tmp_path, monkeypatch):
    right, wrong = MISTAKES[mistake]
    text = Path(cut_through.__file__).read_text()
    assert text.count(right) == 1
    (tmp_path / "planted.py").write_text(text.replace(right, wrong))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "planted", raising=False)
    planted = __import__("planted")
    assert any(differs(planted, seed) for seed in SEEDS)


# With everything else


@examples(25)
@given(networks(ps_per_byte=(10, 400)), st.data())
def test_pfc_loses_nothing(topo, data):
    topo = data.draw(cutting(headroom_buffer(topo, data.draw(st.integers(0, 30_000)))))
    run = simulate(topo, data.draw(incasts(topo, 0)), PFC(), host=HostConfig(rto="1s"), measure=QUIET, max_time_ps=10**14)
    assert run.summary["drops"] == 0


def test_an_incast_is_as_long_as_in_other_switches():
    """Where packets wait all are stored: throughput, and pauses, are the same but for the first packets."""
    topo = leaf_spine(hosts=16, tors=4, spines=2)
    ends = [simulate(t, one_dst(t, 100_000), "pfc", measure=QUIET).summary["end_ns"] for t in (topo, topo.with_cut_through())]
    assert ends[0] - 3 * 1000 < ends[1] < ends[0]


@pytest.mark.parametrize("scheme", ["pfc", "bfc", "hpcc", "floodgate", "ndp", "spray"])
def test_links_that_change_while_packets_are_on_them(scheme):
    """Rates, failures and losses in the middle of packets, on any number of threads: the same bits; simulate() counts bytes."""
    changes = [
        {"time": f"{3000 + 97 * i}ns", "a": "tor0", "b": "spine1", "rate": ("10Gbps", "100Gbps")[i % 2]} for i in range(60)
    ]
    changes += [{"time": f"{4001 + 500 * i}ns", "a": "tor1", "b": "spine0", "up": i % 2 == 1} for i in range(12)]
    topo = leaf_spine(hosts=8, tors=2, spines=2).with_cut_through(header=100).with_loss(0.001).with_changes(changes)
    flows = flow_list(topo, [(i, (i + 4) % 8, 150_000, f"{i}us") for i in range(8)])
    given = {"host": HostConfig(rto="100us"), "measure": Measure(sample="5us", pauses=True, packets=True), "max_time_ps": 10**11}
    runs = [simulate(topo, flows, scheme, threads=threads, **given) for threads in (1, 2)]
    same(*runs, scheme)


# What is said


def test_which_switches_do():
    topo = leaf_spine(hosts=16, tors=4, spines=4)
    table = {"kind": "leaf_spine", "hosts": 16, "tors": 4, "spines": 4}
    assert build(table) == topo and not topo.headers.any()
    assert build({**table, "cut_through": False}) == topo and topo.key() == build({**table, "cut_through": False}).key()
    every = build({**table, "cut_through": True})
    assert (every.headers == 64).all() and every != topo and "all switches, after 64 B" in every.describe()
    some = build({**table, "cut_through": ["spine*", "tor1"], "cut_through_header": "128B"})
    assert some.headers.tolist() == [0, 128, 0, 0, 128, 128, 128, 128] and build(some.spec) == some
    assert "tor1, spine0, spine1, spine2, spine3, after 128 B" in some.describe()
    servers = build({**table, "cut_through": True, "vswitches": {"apps": 2}})
    assert servers.headers.tolist() == [0] * 16 + [64] * 8


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"cut_through": "yes"}, "cut_through"),
        ({"cut_through": ["leaf*"]}, r"cut_through\.0 = \"leaf\*\""),
        ({"cut_through": ["tor0", 3]}, r"cut_through\.1"),
        ({"cut_through": True, "cut_through_header": "0B"}, "between 1 and 9216"),
        ({"cut_through_header": "64B"}, "no switch cuts through"),
    ],
)
def test_what_is_refused(keys, message):
    with pytest.raises(SpecError, match=message):
        build({"kind": "leaf_spine", **keys})


def test_a_graph_says_it_by_switch(tmp_path):
    file = tmp_path / "net.graphml"
    file.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="c" for="node" attr.name="cut_through" attr.type="boolean"/><graph edgedefault="undirected">'
        '<node id="h0"/><node id="h1"/><node id="s0"><data key="c">true</data></node><node id="s1"/>'
        '<edge source="h0" target="s0"/><edge source="h1" target="s1"/><edge source="s0" target="s1"/></graph></graphml>'
    )
    table = {"file": str(file), "rate": "100Gbps", "delay": "1us"}
    assert build(table).headers.tolist() == [64, 0]
    assert build({**table, "cut_through_header": "200B"}).headers.tolist() == [200, 0]
    assert build({**table, "cut_through": ["s1"]}).headers.tolist() == [0, 64]
    text = file.read_text()
    file.write_text(text.replace("s0", "nvswitch0"))
    with pytest.raises(SpecError, match=r"cut_through = true: .* tier 0; those within servers store and forward"):
        build(table)
    file.write_text(text)
    assert dataclasses.replace(build(table), headers=0).headers.tolist() == [0, 0]
