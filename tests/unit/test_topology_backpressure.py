"""The backpressure graph against all shortest paths of networkx, its cycles, and the edges that BFC elides."""

import itertools
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from test_topology import SMALL, networks, ports_of

from penstock_net.cli import main
from penstock_net.report.plots.backpressure import places
from penstock_net.topology import Topology, clos, fat_tree, leaf_spine, make_links
from penstock_net.topology.backpressure import HASHES, Backpressure, over_time, shortest_cycles

BOUNCE = [("tor0", "spine0"), ("tor1", "spine1")]  # without these, ToRs 0 and 1 reach each other by way of other ToRs

UP_AND_DOWN = [topo for topo in (make() for make in SMALL.values()) if not topo.label.any()]  # no dragonfly, no torus


def bouncing(times=("10us",)):
    """Four ToRs under two spines that lose two links at each of these times."""
    topo = leaf_spine(hosts=8, tors=4, spines=2)
    return topo.with_changes([{"time": time, "a": a, "b": b, "up": False} for time in times for a, b in BOUNCE])


def ring(switches):
    """A host at each switch of a ring."""
    at = np.arange(switches)
    a, b = np.concatenate((at, switches + at)), np.concatenate((switches + at, switches + (at + 1) % switches))
    return Topology(
        kind="ring",
        hosts=switches,
        switches=switches,
        links=make_links(a, b, 80, 10**6),
        buffer_bytes=np.zeros(switches),
        names=[f"h{i}" for i in range(switches)] + [f"s{i}" for i in range(switches)],
        tier=[0] * switches + [1] * switches,
        params={},
    )


def edges_of(topo, paths, down):
    """Edges of the backpressure graph that these paths, lists of nodes, make, over any of several links in parallel."""
    ports = {}
    for node, peers in ports_of(topo).items():
        for port, (peer, link) in peers.items():
            if link not in down:
                ports.setdefault((node, peer), []).append((node, port))
    found = set()
    for path in paths:
        for a, b, c in zip(path[1:], path[2:], path[3:]):
            found.update(itertools.product(ports[b, c], ports[a, b]))
    return found


def live_graph(topo, down):
    """The network of networkx without the links in `down`."""
    graph = nx.Graph()
    graph.add_nodes_from(range(topo.nodes))
    graph.add_edges_from((a, b) for i, (a, b) in enumerate(topo.links[["a", "b"]].tolist()) if i not in down)
    return graph


def all_paths(topo, down):
    """Every shortest path between two hosts, if there is one."""
    graph = live_graph(topo, down)
    for src, dst in itertools.permutations(range(topo.hosts), 2):
        if nx.has_path(graph, src, dst):
            yield from nx.all_shortest_paths(graph, src, dst)


def symmetric_paths(topo, down):
    """The paths of all flows whose hash is drawn for each tier from the ranges within which no switch chooses otherwise."""
    routes, ports = topo.routes(down), ports_of(topo)
    counts = {len(routes.ports(n, d)) for n in range(topo.hosts, topo.nodes) for d in range(topo.hosts)} - {0}
    draws = sorted({-(-i * HASHES // n) for n in counts for i in range(n)})
    tiers = sorted(set(topo.tier[topo.hosts :].tolist()))
    for hashes in itertools.product(draws, repeat=len(tiers)):
        of = dict(zip(tiers, hashes))
        for src, dst in itertools.permutations(range(topo.hosts), 2):
            path, node = [src], src
            while node != dst and routes.ports(node, dst):
                group = routes.ports(node, dst)
                choice = of[int(topo.tier[node])] * len(group) >> 31 if node >= topo.hosts else 0
                node = ports[node][group[choice]][0]
                path.append(node)
            if node == dst:
                yield path


def down_links(topo, numbers):
    return frozenset(number % len(topo.links) for number in numbers)


@examples(60)
@given(networks(), st.lists(st.integers(0, 100), max_size=4))
def test_edges_are_those_of_all_shortest_paths(topo, numbers):
    down = down_links(topo, numbers)
    assert Backpressure.of(topo, down).edges == edges_of(topo, all_paths(topo, down), down)


@pytest.mark.parametrize("failures", [0, 2, 4])
def test_symmetric_paths(failures):
    """Without the four links both choices of ToR 0 among two spines decide that of ToR 2 or 3, which the path passes, too."""
    topo = leaf_spine(hosts=4, tors=4, spines=4)
    down = [("tor0", "spine0"), ("tor1", "spine3"), ("tor0", "spine1"), ("tor1", "spine2")][:failures]
    links = frozenset(topo.link(a, b) for a, b in down)
    graph, anything = Backpressure.of(topo, links, symmetric=True), Backpressure.of(topo, links)
    assert graph.edges == edges_of(topo, symmetric_paths(topo, links), links)
    assert graph.edges <= anything.edges and (graph.edges != anything.edges) == (failures == 4)


def test_symmetric_paths_of_three_tiers():
    topo = fat_tree(k=4)
    links = frozenset(topo.link(a, b) for a, b in (("tor0", "agg0"), ("tor1", "agg1"), ("agg0", "core0")))
    assert Backpressure.of(topo, links, symmetric=True).edges == edges_of(topo, symmetric_paths(topo, links), links)


@examples(60)
@given(networks(), st.lists(st.integers(0, 100), max_size=4))
def test_cycles_are_those_of_networkx(topo, numbers):
    graph = Backpressure.of(topo, down_links(topo, numbers))
    twin = nx.DiGraph(list(graph.edges))
    parts = [part for part in nx.strongly_connected_components(twin) if len(part) > 1]
    assert len(graph.cycles) == len(parts) and bool(parts) == (not nx.is_directed_acyclic_graph(twin))
    for cycle in graph.cycles:
        group = next(part for part in parts if cycle[0] in part)
        assert set(cycle) <= group and len(set(cycle)) == len(cycle)
        assert all((a, b) in graph.edges for a, b in zip(cycle, [*cycle[1:], cycle[0]]))
        assert len(cycle) == min(map(len, nx.simple_cycles(twin.subgraph(group), length_bound=len(cycle))))


@examples(60)
@given(networks(), st.lists(st.integers(0, 100), max_size=4))
def test_nothing_is_left_of_a_cycle_without_the_elided_edges(topo, numbers):
    graph = Backpressure.of(topo, down_links(topo, numbers)).without_elided()
    assert nx.is_directed_acyclic_graph(nx.DiGraph(list(graph.edges)))


@pytest.mark.parametrize("topo", [*UP_AND_DOWN, clos(), leaf_spine()], ids=lambda topo: topo.kind)
def test_networks_with_paths_up_and_down_have_no_cycle_and_no_edge_to_elide(topo):
    graph = Backpressure.of(topo)
    assert not graph.cycles and graph.without_elided().edges == graph.edges


def test_the_shortest_cycle_of_each_part():
    long = [((i, 0), ((i + 1) % 5, 0)) for i in range(5)]
    apart = [((9, 0), (9, 1)), ((9, 1), (9, 0)), ((9, 1), (4, 0)), ((9, 0), (9, 2))]
    assert shortest_cycles([*long, ((4, 0), (2, 0)), *apart]) == [[(2, 0), (3, 0), (4, 0)], [(9, 0), (9, 1)]]
    assert shortest_cycles(apart[1:]) == []


@pytest.mark.parametrize("switches", [3, 4, 5, 8])
def test_a_ring_has_a_cycle_in_each_direction_unless_its_paths_are_too_short(switches):
    graph = Backpressure.of(ring(switches))
    assert [len(cycle) for cycle in graph.cycles] == ([switches] * 2 if switches > 3 else [])
    assert not graph.without_elided().cycles


def test_paths_that_bounce_close_a_cycle():
    before, after = over_time(bouncing())
    assert before.time_ps == 0 and not before.cycles
    assert after.time_ps == 10_000_000 and len(after.down) == 2
    names = {after.name(egress) for egress in after.cycles[0]}
    ways = ["spine0 -> tor2", "tor2 -> spine1", "spine1 -> tor3", "tor3 -> spine0"]
    others = ["spine1 -> tor2", "tor2 -> spine0", "spine0 -> tor3", "tor3 -> spine1"]
    assert len(after.cycles[0]) == 4 and names in (set(ways), set(others))
    assert not after.without_elided().cycles


def test_graphs_follow_the_links():
    topo = bouncing().with_changes([{"time": "20us", "a": a, "b": b, "up": True} for a, b in BOUNCE])
    graphs = over_time(topo.with_changes([{"time": "15us", "a": "tor2", "b": "spine0", "rate": "10Gbps"}]))
    assert [graph.time_ps // 10**6 for graph in graphs] == [0, 10, 20]
    assert graphs[0].edges == graphs[2].edges != graphs[1].edges


def test_graphs_follow_the_switches():
    changes = [{"time": time, "switch": "spine1", "up": up} for time, up in (("5us", False), ("9us", True))]
    before, without, after = over_time(leaf_spine(hosts=16, tors=4, spines=2).with_changes(changes))
    assert len(without.down) == 4 and before.edges == after.edges > without.edges
    assert without.failed == {without.topo.node("spine1")} and not after.failed


SPEC = """
[run]
duration = "10us"
[topology]
kind = "leaf_spine"
hosts = 16
tors = 4
spines = 2
changes = [{time = "1us", a = "tor0", b = "spine0", up = false}, {time = "1us", a = "tor1", b = "spine1", up = false}]
[scheme]
name = "pfc"
[[workload]]
kind = "list"
flows = [[0, 4, "1KB", "0us"]]
"""


def test_the_command_prints_the_cycles_and_draws_them(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("bounce.toml").write_text(SPEC)
    assert main(["explain", "--backpressure", "bounce.toml", "-o", "cycles.svg"]) == 0
    before, after = capsys.readouterr().out.split("from 1us on, without tor0 - spine0, tor1 - spine1: ")
    assert before.startswith("at first, all links up: 32 egresses") and "no cycle: nothing can deadlock" in before
    assert (
        after.startswith("28 egresses, 40 edges, cycles:") and after.count("each may pause the next one, the last the first") == 2
    )
    assert "removes 4 edges, and with them every cycle" in after and after.endswith("written to cycles.svg\n")
    assert "<svg" in Path("cycles.svg").read_text()
    four = (
        SPEC.replace("spines = 2", "spines = 4")
        .replace('b = "spine1"', 'b = "spine3"')
        .replace(
            "}]", '}, {time = "1us", a = "tor0", b = "spine1", up = false}, {time = "1us", a = "tor1", b = "spine2", up = false}]'
        )
    )
    counts = []
    for scheme in ("pfc", "expresspass"):
        Path("four.toml").write_text(four.replace("pfc", scheme))
        assert main(["explain", "--backpressure", "four.toml"]) == 0
        counts.append(int(capsys.readouterr().out.split(" edges, ")[1].split()[-1]))
    assert counts[1] < counts[0] and Path("backpressure.png").stat().st_size > 20_000


def test_the_command_names_the_switches_that_have_failed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("failed.toml").write_text(SPEC.replace('a = "tor1", b = "spine1"', 'switch = "spine1"'))
    assert main(["explain", "--backpressure", "failed.toml", "-o", "cycles.svg"]) == 0
    assert "from 1us on, without spine1, tor0 - spine0: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("network", "scheme", "classes"),
    [
        ('kind = "torus"\ndims = [5]', "dimension_order+pfc", 2),
        ('kind = "torus"\ndims = [3]', "dimension_order+pfc", 2),
        ('kind = "dragonfly"\np = 1\na = 2\nh = 1', "valiant", 3),
        ('kind = "torus"\ndims = [3]', "pfc", 0),
    ],
)
def test_the_command_says_where_packets_go_other_ways(capsys, monkeypatch, tmp_path, network, scheme, classes):
    """Classes exclude the cycles of a ring; other paths than the shortest may close a circle that the graph does not have."""
    monkeypatch.chdir(tmp_path)
    flows = '[[workload]]\nkind = "list"\nflows = [[0, 1, "1KB", "0us"]]\n'
    Path("net.toml").write_text(f'[run]\nduration = "1ms"\n[topology]\n{network}\n[scheme]\nname = "{scheme}"\n{flows}')
    assert main(["explain", "--backpressure", "net.toml"]) == 0
    out = capsys.readouterr().out
    chooses = f"{scheme.partition('+')[0]} chooses the ports and packets wait in {classes} classes: "
    assert out.startswith(chooses if classes else "at first") and ("may have cycles that cannot arise" in out) == (classes > 0)
    assert ("cycles:" in out) == ("5" in network or "dragonfly" in network) and ("nothing can deadlock" in out) == (not classes)


def test_places_in_the_picture():
    tiers = places(fat_tree(k=4))
    assert len(np.unique(tiers[:, 1])) == 3 and len(np.unique(tiers, axis=0)) == 20
    assert np.allclose(np.hypot(*places(ring(5)).T), 1)
