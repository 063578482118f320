"""The backpressure graph against all shortest paths of networkx, its cycles, and the edges that BFC elides."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_topology import SMALL, networks, ports_of

from penstock.topology import Topology, clos, fat_tree, leaf_spine, make_links
from penstock.topology.backpressure import HASHES, Backpressure, over_time

BOUNCE = [("tor0", "spine0"), ("tor1", "spine1")]  # without these, ToRs 0 and 1 reach each other by way of other ToRs


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


def edges_of(topo, paths):
    """Edges of the backpressure graph that these paths, lists of nodes, make."""
    port = {(node, peer): p for node, ports in ports_of(topo).items() for p, (peer, _) in ports.items()}
    found = set()
    for path in paths:
        for a, b, c in zip(path[1:], path[2:], path[3:]):
            found.add(((b, port[b, c]), (a, port[a, b])))
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


@settings(deadline=None, max_examples=60)
@given(networks(), st.lists(st.integers(0, 100), max_size=4))
def test_edges_are_those_of_all_shortest_paths(topo, numbers):
    down = down_links(topo, numbers)
    assert Backpressure.of(topo, down).edges == edges_of(topo, all_paths(topo, down))


@pytest.mark.parametrize("down", [[], BOUNCE])
@pytest.mark.parametrize("shape", ["leaf_spine", "fat_tree"])
def test_symmetric_paths(shape, down):
    topo = {"leaf_spine": lambda: leaf_spine(hosts=4, tors=4, spines=2), "fat_tree": lambda: fat_tree(k=4)}[shape]()
    if down and shape == "fat_tree":
        down = [("tor0", "agg0"), ("tor1", "agg1"), ("agg0", "core0")]
    links = frozenset(topo.link(a, b) for a, b in down)
    graph = Backpressure.of(topo, links, symmetric=True)
    assert graph.edges == edges_of(topo, symmetric_paths(topo, links))
    assert graph.edges <= Backpressure.of(topo, links).edges


@settings(deadline=None, max_examples=60)
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


@settings(deadline=None, max_examples=60)
@given(networks(), st.lists(st.integers(0, 100), max_size=4))
def test_nothing_is_left_of_a_cycle_without_the_elided_edges(topo, numbers):
    graph = Backpressure.of(topo, down_links(topo, numbers)).without_elided()
    assert nx.is_directed_acyclic_graph(nx.DiGraph(list(graph.edges)))


@pytest.mark.parametrize("topo", [SMALL[name]() for name in SMALL] + [clos(), leaf_spine()], ids=lambda topo: topo.kind)
def test_networks_with_paths_up_and_down_have_no_cycle_and_no_edge_to_elide(topo):
    graph = Backpressure.of(topo)
    assert not graph.cycles and graph.without_elided().edges == graph.edges


@pytest.mark.parametrize("switches", [3, 4, 5, 8])
def test_a_ring_has_a_cycle_in_each_direction_unless_its_paths_are_too_short(switches):
    graph = Backpressure.of(ring(switches))
    assert [len(cycle) for cycle in graph.cycles] == ([switches] * 2 if switches > 3 else [])


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
