"""Lookahead by neighbourhood: the same bits as with windows of the shortest delay of the network, in fewer windows."""

import dataclasses
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from drawn import examples
from networks import (
    HostConfig,
    Measure,
    Topology,
    cutting,
    fitting,
    flow_list,
    incasts,
    make_links,
    networks,
    same,
    simulate,
)

from penstock_net.composition import parse
from penstock_net.sim import simulate as core
from penstock_net.sim.lookahead import Agenda, components, delays_apart, lookahead, partition, work
from penstock_net.sim.settings import Settings
from penstock_net.topology import LinkChange, behind_vswitches, leaf_spine, star

FAR = 200_000_000
DELAYS = st.one_of(st.sampled_from([1000, 10_000, 1_000_000, FAR]), st.integers(1000, FAR))


def everywhere(topo: Topology, threads: int, flows=None):
    """Windows of the shortest delay of the network."""
    return lookahead(topo, threads, flows, apart=False)


def with_delays(topo: Topology, delays: dict[int, int]) -> Topology:
    """The same network with other delays (ps) of some links."""
    links = topo.links.copy()
    for link, delay in delays.items():
        links["delay_ps"][link] = delay
    return dataclasses.replace(topo, links=links)


def two_centres(hosts: int = 8, delay_ps: int = FAR) -> Topology:
    """Two leaf-spine networks, each with a number of hosts; their first spines are joined."""
    one = leaf_spine(hosts=hosts, tors=2, spines=2)
    links = []
    for k in range(2):
        part = one.links.copy()
        for end in ("a", "b"):
            at = part[end]
            part[end] = np.where(at < hosts, at + k * hosts, 2 * hosts + k * one.switches + at - hosts)
        links.append(part)
    first = 2 * hosts + 2
    links.append(make_links([first], [first + one.switches], 80, delay_ps))
    return Topology(
        kind="file",
        hosts=2 * hosts,
        switches=2 * one.switches,
        links=np.concatenate(links),
        buffer_bytes=np.concatenate([one.buffer_bytes] * 2),
        names=tuple(f"n{i}" for i in range(2 * one.nodes)),
        tier=np.concatenate([np.zeros(2 * hosts), one.tier[hosts:], one.tier[hosts:]]),
        params={},
    )


def windows(monkeypatch, topo, flows, threads=1, ahead=lookahead):
    """How many windows a run takes."""
    monkeypatch.setattr(core, "lookahead", ahead)
    runner = core.Runner(Settings(topo, flows, parse("bfc"), threads=threads, duration_ps=10**9, measure=Measure(sample="0us")))
    runner.loop()
    assert runner.sim.state()["done"] == len(flows)
    return runner.sim.state()["windows"]


@examples(26)
@given(networks(ps_per_byte=(10, 400)), st.data())
def test_random_delays(topo, data):
    delays = data.draw(st.lists(DELAYS, min_size=len(topo.links), max_size=len(topo.links)))
    topo = with_delays(topo, dict(enumerate(delays))).with_loss(data.draw(st.sampled_from([0.0, 0.01])))
    scheme = data.draw(st.sampled_from(fitting(topo, ["fifo", "bfc", "dqa", "hpcc", "homa"])))
    small = scheme in ("fifo", "bfc", "dqa") and data.draw(st.booleans())  # the others need more
    topo = dataclasses.replace(topo, buffer_bytes=np.full(topo.switches, 20_000 if small else 0))
    if data.draw(st.booleans()):
        link, down = data.draw(st.integers(0, len(topo.links) - 1)), data.draw(st.integers(0, 20_000)) * 1000
        topo = topo.with_changes([LinkChange(down, link, False), LinkChange(down + 30_000_000, link, True, 800)])
    topo = data.draw(cutting(topo))
    flows = data.draw(incasts(topo, None, 40_000))
    settings = {
        "host": HostConfig(rto="2ms"),
        "control_loss": data.draw(st.sampled_from([0.0, 0.1])),
        "max_time_ps": 3 * 10**10,
        "measure": Measure(sample="5us", packets=True, pauses=True, port_series=True),
        "seed": data.draw(st.integers(1, 1000)),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "lookahead", everywhere)
        plain = simulate(topo, flows, scheme, **settings)
    for threads in (1, 2):
        same(plain, simulate(topo, flows, scheme, threads=threads, **settings), f"{scheme}, {threads} threads, {delays}")


@pytest.mark.parametrize("scheme", ["fifo", "pfc", "bfc"])
@pytest.mark.parametrize("threads", [1, 2])
def test_known_networks(monkeypatch, scheme, threads):
    networks = [
        with_delays(leaf_spine(hosts=16, tors=4, spines=2), {0: 10_000, 17: 10_000}),
        behind_vswitches(star(hosts=3, delay="20us", buffer="4MB"), apps=4, delay="50ns", buffer="12MB"),
        two_centres(),
    ]
    for topo in networks:
        pairs = [(i, (i + topo.hosts // 2 + i % 3) % topo.hosts, 30_000, f"{i * 700}ns") for i in range(topo.hosts)]
        flows = flow_list(topo, [pair for pair in pairs if pair[0] != pair[1]])
        settings = {"measure": Measure(sample="100ns", packets=True, pauses=True), "threads": threads}
        monkeypatch.setattr(core, "lookahead", everywhere)
        plain = simulate(topo, flows, scheme, **settings)
        monkeypatch.setattr(core, "lookahead", lookahead)
        same(plain, simulate(topo, flows, scheme, **settings), f"{topo.kind}, {scheme}")


def test_a_short_link_costs_only_where_it_is(monkeypatch):
    """Windows as long as without it, until every byte was sent; from then on the run may end at any multiple of 10 ns."""
    plain = leaf_spine(hosts=16, tors=4, spines=2)
    flows = flow_list(plain, [(i, (i + 5) % 16, 3_000_000) for i in range(16)])
    usual = windows(monkeypatch, plain, flows)
    odd = with_delays(plain, {0: 10_000})
    found, before = (windows(monkeypatch, odd, flows, ahead=ahead) for ahead in (lookahead, everywhere))
    assert before > 20 * usual
    assert found < before / 10, (usual, found, before)


def test_far_centres_meet_seldom(monkeypatch):
    topo = two_centres()
    flows = flow_list(topo, [(i, (i + 3) % 8 + 8 * (i // 8), 3_000_000) for i in range(16)])
    found, before = (windows(monkeypatch, topo, flows, 2, ahead) for ahead in (lookahead, everywhere))
    assert found < before / 2, (found, before)


# ---- Windows, groups and agendas ----


def test_a_pair_is_a_group():
    ahead = lookahead(with_delays(leaf_spine(hosts=16, tors=4, spines=2), {3: 10_000}), 1)
    assert ahead.window_ps == 1_000_000
    assert np.flatnonzero(ahead.near).tolist() == [3]
    (agenda,) = ahead.agendas
    assert sorted(number for number in agenda.numbers if number >= 0) == list(range(22))
    (pair,) = [block for block, step in enumerate(agenda.steps) if step == 10_000]
    assert agenda.numbers[8 * pair : 8 * pair + 8] == [3, 16, *[-1] * 6]


def test_a_centre_is_a_group_if_threads_can_share_them():
    topo = two_centres()
    for threads in (1, 2):
        assert lookahead(topo, threads).window_ps == FAR
    one, other = lookahead(topo, 2).agendas
    assert {n for n in one.numbers if n >= 0} == {*range(8), *range(16, 20)}
    assert {n for n in other.numbers if n >= 0} == {*range(8, 16), *range(20, 24)}
    assert lookahead(topo, 4).window_ps == 1_000_000


def test_one_delay_is_one_window():
    ahead = lookahead(leaf_spine(hosts=16, tors=4, spines=2), 2)
    assert (ahead.window_ps, ahead.near.any()) == (1_000_000, False)
    assert [len(agenda.steps) for agenda in ahead.agendas] == [3, 3]


def test_only_delays_that_are_twice_as_long_make_a_level():
    """10, 15, 20, 39, 40 and 100 ns: 20 is twice 10, 40 twice 20, 100 more than twice 40."""
    topo = with_delays(star(hosts=6), dict(enumerate([10_000, 15_000, 20_000, 39_000, 40_000, 100_000])))
    assert delays_apart(topo) == [10_000, 20_000, 40_000, 100_000]


@examples(50)
@given(networks(), st.integers(1, 3), st.data())
def test_agendas(topo, threads, data):
    """Every node is in one place; nodes joined by a near link meet in a block whose steps are no longer than its delay."""
    delays = data.draw(st.lists(DELAYS, min_size=len(topo.links), max_size=len(topo.links)))
    topo = with_delays(topo, dict(enumerate(delays)))
    ahead = lookahead(topo, threads)
    assert ahead.window_ps == min((d for d, near in zip(delays, ahead.near) if not near), default=max(delays_apart(topo)))
    places = {n: (agenda, at) for agenda in ahead.agendas for at, n in enumerate(agenda.numbers) if n >= 0}
    assert sum(n >= 0 for agenda in ahead.agendas for n in agenda.numbers) == len(places) == topo.nodes
    for link, near in zip(topo.links, ahead.near):
        if near:
            (agenda, a), (other, b) = places[link["a"]], places[link["b"]]
            assert agenda is other
            assert (
                min(agenda.steps[block] for block in set(blocks_above(agenda, a)) & set(blocks_above(agenda, b)))
                <= link["delay_ps"]
            )


def blocks_above(agenda: Agenda, place: int) -> list[int]:
    """The blocks that a place is below, up to the top."""
    found = []
    while place >= 0:
        found.append(place // 8)
        place = agenda.above[place // 8]
    assert found[-1] == len(agenda.steps) - 1
    return found


@examples(25)
@given(networks(), st.integers(0, FAR))
def test_components(topo, bound):
    joined = topo.links["delay_ps"] < bound
    group = components(topo, joined)
    reached = np.eye(topo.nodes, dtype=bool)
    for _ in range(topo.nodes):
        for link in topo.links[joined]:
            both = reached[link["a"]] | reached[link["b"]]
            reached[link["a"]] |= both
            reached[link["b"]] |= both
    assert np.array_equal(group[:, None] == group[None, :], reached)


# ---- Threads ----


def balance(topo, flows, scheme, threads):
    """What so many threads gain at best: all events over those of the busiest thread of each window."""
    worker = np.zeros(topo.nodes, dtype=int)
    for i, made in enumerate(lookahead(topo, threads, flows).agendas):
        worker[[number for number in made.numbers if number >= 0]] = i
    runner = core.Runner(Settings(topo, flows, parse(scheme), duration_ps=10**9, measure=Measure(sample="0us")))
    runner.starts.load()
    runner.sim.run_until(10**12)
    busiest, before, more = 0.0, np.zeros(threads), True
    while more:
        more = runner.sim.run(0, 1)
        done = np.bincount(worker, runner.sim.node_counters(0)["events"], threads)
        busiest, before = busiest + (done - before).max(), done
    assert runner.sim.state()["done"] == len(flows)
    return before.sum() / busiest


def test_threads_divide_what_the_flows_bring():
    """A job on the first hosts keeps two threads busy, and sixteen divide eight ToRs, whose hosts may be elsewhere."""
    topo = leaf_spine(hosts=128, tors=16, spines=8)
    job = flow_list(topo, [(i, j, 20_000) for i in range(16) for j in range(16) if i != j])
    assert balance(topo, job, "fifo", 2) > 1.8
    order = np.random.default_rng(1).permutation(128).tolist()
    wide = flow_list(topo, [(a, b, 200_000) for a, b in itertools.pairwise(order)])
    topo = leaf_spine(hosts=128, tors=8, spines=8)
    assert balance(topo, wide, "fifo", 16) > 9


@examples(30)
@given(networks(), st.integers(1, 5), st.data())
def test_every_part_gets_its_share(topo, threads, data):
    """No worker has more than its share and one node of each tier; ends of links are counted as what they carry."""
    pairs = data.draw(
        st.lists(st.tuples(st.integers(0, topo.hosts - 1), st.integers(0, topo.hosts - 1)), min_size=1, max_size=20)
    )
    flows = flow_list(topo, [(a, b, 1000 + 10 * i) for i, (a, b) in enumerate(pairs) if a != b] or [(0, 1, 1000)])
    expected = work(topo, flows)
    hosts = np.bincount(flows.src, flows.bytes, topo.hosts) + np.bincount(flows.dst, flows.bytes, topo.hosts)
    assert np.allclose(expected[: topo.hosts], hosts)
    worker = partition(topo, threads, expected)
    assert worker.min() >= 0 and worker.max() < threads
    heaviest = sum(expected[topo.tier == tier].max() for tier in set(topo.tier.tolist()))
    assert np.bincount(worker, expected).max() <= expected.sum() / threads + heaviest + 1e-6
