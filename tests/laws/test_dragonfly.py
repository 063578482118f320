"""Dragonflies and tori: their paths, what they are made of, and what they carry."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from networks import Measure, flow_list, simulate

from penstock_net import PFC, DimensionOrder, Valiant
from penstock_net.errors import SpecError
from penstock_net.report.inventory import bisection_bps, inventory
from penstock_net.topology import dragonfly, torus
from penstock_net.topology.backpressure import Backpressure
from penstock_net.workload import Flows

DRAGONFLIES = [
    dict(p=2, a=4, h=2),
    dict(p=1, a=4, h=2, groups=5),
    dict(p=1, a=4, h=2, groups=3),
    dict(p=1, a=2, h=4, groups=3),
    dict(p=1, a=2, h=2, groups=2),
    dict(p=1, a=1, h=3),
]


def kinds_of_links(topo, hops):
    """A letter for each hop between switches: l within a group, g between two."""
    peers = [topo.peers(node)[port] for node, port in hops]
    ends = [(node - topo.hosts, peer - topo.hosts) for (node, _), peer in zip(hops[1:-1], peers[1:-1])]
    return "".join("l" if topo.group[a] == topo.group[b] else "g" for a, b in ends)


def fewest(topo, source, target):
    """By hand: the hops of a minimal path between two switches; the best of the links that join their groups."""
    group = topo.group
    a, b = source - topo.hosts, target - topo.hosts
    if group[a] == group[b]:
        return int(a != b)
    links = topo.links[topo.core_links]
    ends = np.concatenate((np.stack((links["a"], links["b"]), 1), np.stack((links["b"], links["a"]), 1))) - topo.hosts
    joining = ends[(group[ends[:, 0]] == group[a]) & (group[ends[:, 1]] == group[b])]
    return min(int(x != a) + 1 + int(y != b) for x, y in joining)


@pytest.mark.parametrize("shape", DRAGONFLIES, ids=str)
def test_a_minimal_path_has_one_link_between_groups_and_the_fewest_within_them(shape):
    topo = dragonfly(**shape)
    pairs = list(itertools.permutations(range(0, topo.hosts, shape["p"]), 2))
    for src, dst in pairs[:: max(1, len(pairs) // 300)]:
        source, target = (int(topo.host_switches[host]) for host in (src, dst))
        for number in range(4):
            kinds = kinds_of_links(topo, topo.path_links(number, src, dst, seed=1))
            assert kinds in ("", "l", "g", "lg", "gl", "lgl")
            assert kinds.count("g") == int(topo.group[source - topo.hosts] != topo.group[target - topo.hosts])
            assert len(kinds) == fewest(topo, source, target)


def test_shortest_paths_by_hops_alone_are_not_minimal():
    """Two links between groups may be fewer hops than one with a link before and after it."""
    topo = dragonfly(p=1, a=4, h=2)
    graph = nx.Graph(list(zip(topo.links["a"].tolist(), topo.links["b"].tolist())))
    switches = itertools.permutations(range(topo.hosts, topo.nodes), 2)
    assert any(nx.shortest_path_length(graph, a, b) < fewest(topo, a, b) for a, b in switches)


@pytest.mark.parametrize("shape", DRAGONFLIES, ids=str)
def test_groups_are_joined_by_as_many_links(shape):
    p, a, h = shape["p"], shape["a"], shape["h"]
    topo, groups = dragonfly(**shape), shape.get("groups", a * h + 1)
    assert (topo.hosts, topo.switches) == (p * a * groups, a * groups)
    assert set(topo.port_count[topo.hosts :].tolist()) == {p + a - 1 + h}
    links = topo.links[topo.core_links]
    ends = np.sort((topo.group[links["a"] - topo.hosts], topo.group[links["b"] - topo.hosts]), axis=0)
    far = ends[0] != ends[1]
    pairs, count = np.unique(ends[:, far], axis=1, return_counts=True)
    assert pairs.shape[1] == math.comb(groups, 2) and set(count.tolist()) == {a * h // (groups - 1)}
    assert (~far).sum() == groups * math.comb(a, 2) and (topo.label[topo.core_links] == far).all()


def test_what_a_dragonfly_of_1056_hosts_is_made_of():
    """Kim et al., ISCA 2008: p = h = 4, a = 8, 33 groups."""
    topo = dragonfly()
    assert inventory(topo) == [
        "switches      264 ToR of 15 ports",
        f"cables        1056 of hosts, {33 * 28 + 33 * 16} between switches ({33 * 28} within groups, {33 * 16} between them)",
        f"bisection     {16 * 17 * 100}Gbps between the hosts of 16 of 33 groups and the others, each way",
    ]
    assert inventory(torus(dims=[3, 6], hosts_per_switch=2)) == [
        "switches      18 ToR of 6 ports",
        "cables        36 of hosts, 36 between switches",
        "bisection     600Gbps between the hosts of 3 of 6 layers and the others, each way",
    ]


def maximum_flow(topo, half):
    graph = nx.DiGraph()
    for link in topo.links:
        a, b, gbps = int(link["a"]), int(link["b"]), round(8000 / link["ps_per_byte"])
        for ends in ((a, b), (b, a)):
            before = graph.get_edge_data(*ends, {"capacity": 0})["capacity"]
            graph.add_edge(*ends, capacity=gbps + before)
    for host in range(topo.hosts):
        graph.add_edge(*(("from", host) if half[topo.host_switches[host] - topo.hosts] else (host, "to")))
    return nx.maximum_flow_value(graph, "from", "to") * 1e9


@pytest.mark.parametrize("shape", [*DRAGONFLIES, dict(p=1, a=4, h=4, groups=3, global_rate="400Gbps")], ids=str)
def test_the_bisection_of_a_dragonfly_is_a_maximum_flow(shape):
    topo = dragonfly(**shape)
    assert bisection_bps(topo) == maximum_flow(topo, topo.group < (topo.group.max() + 1) // 2)


@pytest.mark.parametrize("dims", [[4], [2], [5, 3], [2, 4, 3], [4, 4, 2]], ids=str)
@pytest.mark.parametrize("per_switch", [1, 3])
def test_the_bisection_of_a_torus_is_a_maximum_flow(dims, per_switch):
    topo = torus(dims=dims, hosts_per_switch=per_switch)
    longest = dims.index(max(dims))
    place = np.indices(dims).reshape(len(dims), -1)[longest]
    assert bisection_bps(topo) == maximum_flow(topo, place < dims[longest] // 2)


@pytest.mark.parametrize("dims", [[5], [4, 3], [2, 3, 4]], ids=str)
def test_a_path_in_a_torus_goes_the_shorter_way_in_every_dimension(dims):
    topo = torus(dims=dims)
    places = list(itertools.product(*map(range, dims)))
    for src, dst in itertools.permutations(range(topo.hosts), 2):
        ways = [min((a - b) % size, (b - a) % size) for a, b, size in zip(places[src], places[dst], dims)]
        assert len(topo.path_links(0, src, dst, seed=1)) == sum(ways) + 2
    rings = {(dimension, closes) for dimension, closes in zip((topo.label >> 1).tolist(), (topo.label & 1).tolist())}
    assert rings >= {(d, closes) for d, size in enumerate(dims) for closes in range(1 + (size > 2))}
    assert (topo.label & 1).sum() == sum(math.prod(dims) // size for size in dims if size > 2)


@pytest.mark.parametrize("topo", [dragonfly(p=1, a=4, h=2), torus(dims=[4]), torus(dims=[4, 3])], ids=str)
def test_pauses_can_spread_in_a_circle(topo):
    """With one class of packets: on minimal paths of a dragonfly, and of a ring unless it has three switches."""
    assert Backpressure.of(topo).cycles
    assert not Backpressure.of(torus(dims=[3])).cycles


@pytest.mark.parametrize(
    "shape, said",
    [
        (lambda: dragonfly(p=1, a=4, h=2, groups=4), "groups = 4: - 1 must divide a \\* h = 8.*choose one of 2, 3, 5, 9"),
        (lambda: dragonfly(groups=1), "groups = 1"),
        (lambda: torus(dims=[]), "dims"),
        (lambda: torus(dims=[4, 1]), "dims.1 = 1"),
        (lambda: torus(dims=7), "must be a list"),
        (lambda: torus(dims=[999, 999]), "at most 65536"),
    ],
)
def test_what_no_such_network_can_be(shape, said):
    with pytest.raises(SpecError, match=said):
        shape()


# What they carry: flows of one packet from every host at random times, as a share of the hosts' rate

SMALL = {"p": 2, "a": 4, "h": 2, "buffer": "600KB", "delay": "100ns"}
PS, MTU = 80, 1000
LOST = MTU / (MTU + 48)  # to headers
MINIMAL, VALIANT, UGAL = (Valiant(policy=policy) + PFC(priorities=3) for policy in ("minimal", "valiant", "ugal"))


def to_any(topo, src, rng):
    return (src + 1 + rng.integers(0, topo.hosts - 1, len(src))) % topo.hosts


def to_the_next_group(topo, src, rng):
    each = topo.hosts // (int(topo.group.max()) + 1)
    return (src // each * each + each + rng.integers(0, each, len(src))) % topo.hosts


def carried(scheme, to, load, duration=60_000_000, shape=SMALL):
    """Payload that arrives in the second half of the time, as a share of the hosts' rate; and the run."""
    topo, rng = dragonfly(**shape), np.random.default_rng(1)
    src = np.repeat(np.arange(topo.hosts), int(duration * load / (MTU * PS)))
    start = np.sort(rng.integers(0, duration, len(src)))
    src = rng.permutation(src)
    columns = {"start_ps": start, "src": src, "dst": to(topo, src, rng), "bytes": np.full(len(src), MTU)}
    zeros = np.zeros(len(src), np.int8)
    flows = Flows(**columns, class_id=zeros, priority=zeros, classes=("x",), after=None, nominal=[])
    run = simulate(topo, flows, scheme, duration=duration / 1e12, drain=False, measure=Measure(sample="0s"))
    assert run.summary["drops"] == 0
    end = (run.flows["start_ns"] + run.flows["fct_ns"]).drop_nulls().drop_nans().to_numpy() * 1000
    half = (end > duration / 2) & (end <= duration)
    return half.sum() * MTU * PS / (duration / 2) / topo.hosts, run


@pytest.mark.parametrize("load", [0.1, 0.3, 0.6, 1.0])
def test_uniform_traffic_has_the_full_rate_on_minimal_paths_and_half_of_it_by_valiant(load):
    """Minimal: each packet takes one link between groups, of which there are as many as hosts; Valiant: two."""
    minimal, valiant, ugal = (carried(scheme, to_any, load)[0] for scheme in (MINIMAL, VALIANT, UGAL))
    assert 0.9 * min(load, LOST) < minimal < 1.05 * min(load, LOST) and ugal > 0.9 * max(minimal, valiant)
    most = LOST / (2 * (1 - 8 / 72))  # of the packets so many leave their group
    assert 0.8 * min(load, most) < valiant < 1.05 * min(load, most)


@pytest.mark.parametrize("load", [0.1, 0.3, 0.6, 1.0])
def test_adversarial_traffic_has_what_one_link_carries_on_minimal_paths_and_almost_half_by_valiant(load):
    """All of a group send to the next one. Minimal: 1 / (a h). Valiant: all links but the one between the two, twice each."""
    minimal, valiant, ugal = (carried(scheme, to_the_next_group, load)[0] for scheme in (MINIMAL, VALIANT, UGAL))
    assert minimal == pytest.approx(min(load, LOST / 8), rel=0.06)
    assert 0.85 * min(load, LOST * 7 / 16) < valiant < 1.06 * min(load, LOST * 7 / 16)
    assert ugal > 0.9 * max(minimal, valiant)


@pytest.mark.parametrize("policy", ["minimal", "valiant", "ugal"])
def test_with_one_class_of_pauses_packets_wait_for_one_another_in_a_circle(policy):
    """The cycle that is printed, and that there is none with a class for each group of a path."""
    one, run = carried(Valiant(policy=policy) + PFC(), to_the_next_group, 1.0, 150_000_000, SMALL | {"buffer": "400KB"})
    names = run.summary["deadlock"]["names"]
    ends = [name.split(" -> ") for name in names]
    assert one == 0 and all(a[1] == b[0] for a, b in zip(ends, [*ends[1:], ends[0]]))
    _, run = carried(Valiant(policy=policy) + PFC(priorities=3), to_the_next_group, 1.0)
    assert run.summary["deadlock"] is None


@pytest.mark.parametrize("dims", [[6], [5, 5]], ids=str)
def test_a_torus_needs_two_classes(dims):
    """Every host sends as far as it can around every ring, the same way: with one class nothing moves in the end."""
    topo = torus(dims=dims, hosts_per_switch=3, buffer="400KB", delay="100ns")
    places = list(itertools.product(*map(range, dims)))
    to = [places.index(tuple((a + (size - 1) // 2) % size for a, size in zip(place, dims))) for place in places]
    flows = flow_list(topo, [(3 * i + k, 3 * to[i] + k, "400KB") for i in range(len(places)) for k in range(3)])
    for priorities, classes in ((1, 1), (2, 2)):
        scheme = DimensionOrder(classes=classes) + PFC(priorities=priorities)
        run = simulate(topo, flows, scheme, duration=0.003, drain=False, measure=Measure(sample="0s"))
        assert run.summary["drops"] == 0
        assert bool(run.summary["deadlock"]) == (classes == 1), run.summary["flows_finished"]
    assert run.summary["flows_finished"] == len(flows)
