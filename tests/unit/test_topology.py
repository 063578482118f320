"""Topologies: shapes, routes against networkx, exact times against a packet by packet recursion, and every refusal."""

import dataclasses
import itertools
import pickle
import random
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from drawn import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_net import topology
from penstock_net.errors import SpecError
from penstock_net.hashing import choice, flow_hash, node_seed
from penstock_net.topology import (
    KINDS,
    LinkChange,
    SwitchChange,
    Topology,
    build,
    clos,
    dragonfly,
    dumbbell,
    fat_tree,
    from_file,
    leaf_spine,
    make_links,
    parking_lot,
    planes,
    rails,
    sites,
    star,
    torus,
)
from penstock_net.topology.changes import LinkStates
from penstock_net.topology.routes import expected_bytes, tabulated_routes

SMALL = {
    "leaf_spine": lambda: leaf_spine(hosts=8, tors=4, spines=3, rate="40Gbps", uplink_rate="100Gbps"),
    "fat_tree": lambda: fat_tree(k=4, uplink_rate="400Gbps"),
    "clos": lambda: clos(pods=3, tors=2, aggs=2, cores=4, hosts_per_tor=2),
    "dumbbell": lambda: dumbbell(left=3, right=2, bottleneck_rate="10Gbps"),
    "star": lambda: star(hosts=5),
    "parking_lot": lambda: parking_lot(hops=3, cross=2, bottleneck_rate="40Gbps"),
    "sites": lambda: sites(sites=3, hosts_per_site=4, tors=2, spines=2),
    "rails": lambda: rails(servers=4, gpus=2, segment=2, spines=2, uplink_rate="800Gbps"),
    "rails with two ports": lambda: rails(servers=4, gpus=2, segment=2, spines=2, ports=2),
    "rails with NVSwitches": lambda: rails(servers=4, gpus=2, segment=2, spines=2, scale_up_rate="4Tbps"),
    "planes": lambda: planes(hosts=6, planes=3, tors=2, spines=2, uplink_delay="3us"),
    "dragonfly": lambda: dragonfly(p=1, a=3, h=1, global_delay="3us"),
    "dragonfly of few groups": lambda: dragonfly(p=1, a=2, h=2, groups=3),
    "torus": lambda: torus(dims=[3, 2, 4], link_rate="200Gbps"),
}


@pytest.fixture(params=SMALL)
def small(request):
    return SMALL[request.param]()


@st.composite
def networks(draw, alike=False):
    """A connected random graph of switches, hosts here and there, some links in parallel; rates and delays at random or alike."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    hosts, switches = rng.randint(2, 7), rng.randint(1, 8)
    pairs = [(rng.randrange(new), new) for new in range(1, switches)]  # a tree, and some more links
    pairs += [tuple(sorted(rng.sample(range(switches), 2))) for _ in range(rng.randint(0, 12)) if switches > 1]
    ends = [(host, hosts + rng.randrange(switches)) for host in range(hosts)]
    ends += [(hosts + a, hosts + b) for a, b in sorted(pairs)]
    turned = {end: rng.random() < 0.5 for end in ends}
    ends = [end[::-1] if turned[end] else end for end in ends]
    rng.shuffle(ends)
    kinds = [(80, 10**6)] if alike else [(80, 10**6), (20, 10**6), (200, 500_000), (320, 1)]
    rates, delays = zip(*(rng.choice(kinds) for _ in ends))
    return Topology(
        kind="random",
        hosts=hosts,
        switches=switches,
        links=make_links([a for a, _ in ends], [b for _, b in ends], rates, delays),
        buffer_bytes=np.zeros(switches),
        names=[f"n{i}" for i in range(hosts + switches)],
        tier=[0] * hosts + [1] * switches,
        params={},
    )


# Twins in plain Python


def ports_of(topo):
    """{node: {port: (peer, link)}}, straight from the links."""
    ports = {node: {} for node in range(topo.nodes)}
    for index, link in enumerate(topo.links.tolist()):
        a, b, port_a, port_b = link[:4]
        ports[a][port_a], ports[b][port_b] = (b, index), (a, index)
    return ports


def graph_of(topo, down=frozenset()):
    graph = nx.Graph()
    graph.add_nodes_from(range(topo.nodes))
    for i, k in enumerate(topo.links):
        group = [topo.group[k[end] - topo.hosts] if k[end] >= topo.hosts else None for end in ("a", "b")]
        far = None not in group and group[0] != group[1]
        if i not in down:
            graph.add_edge(int(k["a"]), int(k["b"]), length=topo.nodes if far else 1)
    return graph


def check_routes(topo, down=frozenset()):
    table, graph, ports = topo.routes(down), graph_of(topo, down), ports_of(topo)
    for node, host in itertools.product(range(topo.nodes), range(topo.hosts)):
        expected = set()
        allowed = graph.subgraph({*range(topo.hosts, topo.nodes), node, host})
        if node != host and nx.has_path(allowed, node, host):
            expected = {path[1] for path in nx.all_shortest_paths(allowed, node, host, weight="length")}
        found = table.ports(node, host)
        assert found == sorted(found)
        assert found == [port for port, (peer, link) in ports[node].items() if peer in expected and link not in down]
        assert (table.groups(node, host) < 0) == (not expected)


def packet_by_packet(rates, delays, size, mtu, header):
    """When the last byte of a lone flow arrives: each frame is sent when it is there and the link is free."""
    frames = [mtu + header] * (size // mtu) + ([size % mtu + header] if size % mtu else [])
    free = [0] * len(rates)
    for frame in frames:
        there = 0
        for i, (rate, delay) in enumerate(zip(rates, delays)):
            free[i] = max(there, free[i]) + frame * rate
            there = free[i] + delay
    return there


def there_and_back(topo, number, src, dst, size, seed, mtu, header, ack):
    """When the sender of a lone flow has its last ACK: each frame is sent when it is there and the link is free."""
    legs = [topo.links[[link for _, _, link in walk(topo, number, src, dst, seed, back)]] for back in (False, True)]
    path = [(int(link["ps_per_byte"]), int(link["delay_ps"]), back) for back in (0, 1) for link in legs[back]]
    free, last = [0] * len(path), 0
    for payload in [mtu] * (size // mtu) + [size % mtu] * (size % mtu > 0):
        last = 0
        for i, (rate, delay, back) in enumerate(path):
            free[i] = max(last, free[i]) + (ack if back else payload + header) * rate
            last = free[i] + delay
    return last


def walk(topo, number, src, dst, seed, ack=False):
    """(node, port, link) by the tables, one switch at a time; ACKs leave by the port at which the data came."""
    table, ports, node, hops = topo.routes(), ports_of(topo), dst if ack else src, []
    goal = src if ack else dst
    if ack:
        *_, (_, _, came_by) = walk(topo, number, src, dst, seed)
        port, peer = next((port, peer) for port, (peer, link) in ports[dst].items() if link == came_by)
        hops, node = [(dst, port, came_by)], peer
    while node != goal:
        options = table.ports(node, goal)
        hashes = flow_hash(np.array([number]), seed)
        taken = choice(~hashes if ack else hashes, node_seed(np.array([node]), seed), len(options))
        port = options[int(taken[0])] if len(options) > 1 else options[0]
        peer, link = ports[node][port]
        hops.append((node, port, link))
        node = peer
    return hops


def walked_fct(topo, number, src, dst, size, seed, mtu=1000, header=48):
    links = topo.links[[link for _, _, link in walk(topo, number, src, dst, seed)]]
    return packet_by_packet(links["ps_per_byte"].tolist(), links["delay_ps"].tolist(), size, mtu, header)


# Shapes


def test_leaf_spine():
    topo = leaf_spine()
    assert (topo.kind, topo.hosts, topo.switches, len(topo.links)) == ("leaf_spine", 128, 16, 128 + 64)
    assert topo.names[0] == "host0" and topo.names[128] == "tor0" and topo.names[143] == "spine7"
    assert Counter(topo.tier.tolist()) == {0: 128, 1: 8, 2: 8}
    assert set(topo.port_count[:128]) == {1} and set(topo.port_count[128:136]) == {24} and set(topo.port_count[136:]) == {8}
    assert topo.host_switches.tolist() == [128 + host // 16 for host in range(128)]
    assert set(topo.links["ps_per_byte"]) == {80} and set(topo.links["delay_ps"]) == {10**6}
    assert set(topo.buffer_bytes) == {12 * 10**6}
    assert topo.host_capacity_bps == 128 * 100e9 and topo.core_capacity_bps == 64 * 100e9
    assert len(topo.core_links) == 64 and topo.min_delay_ps == 10**6


def test_leaf_spine_uplinks():
    topo = leaf_spine(hosts=4, tors=2, spines=1, rate="10Gbps", uplink_rate="40Gbps", delay="1us", uplink_delay="3us")
    assert set(topo.links["ps_per_byte"][topo.core_links]) == {200} and set(topo.links["delay_ps"][topo.core_links]) == {
        3 * 10**6
    }
    assert set(topo.links["ps_per_byte"][topo.host_links]) == {800} and set(topo.links["delay_ps"][topo.host_links]) == {10**6}


@pytest.mark.parametrize(("k", "hosts"), [(2, 2), (4, 16), (8, 128), (16, 1024)])
def test_fat_tree(k, hosts):
    topo = fat_tree(k=k)
    assert topo == fat_tree(hosts=hosts) and topo.params == fat_tree(hosts=hosts).params
    assert (topo.hosts, topo.switches, len(topo.links)) == (hosts, 5 * k * k // 4, 3 * hosts)
    assert set(topo.port_count[hosts:]) == {k}
    assert Counter(topo.tier[hosts:].tolist()) == {1: k * k // 2, 2: k * k // 2, 3: k * k // 4}
    assert topo.core_capacity_bps == topo.host_capacity_bps


def test_clos_is_the_hpcc_network():
    topo = clos()
    assert topo.hosts == 320 and Counter(topo.tier[320:].tolist()) == {1: 20, 2: 20, 3: 16}
    degrees = {tier: set(topo.port_count[topo.tier == tier]) for tier in (1, 2, 3)}
    assert degrees == {1: {16 + 4}, 2: {4 + 4}, 3: {5}}
    assert set(topo.links["ps_per_byte"][topo.core_links]) == {20}
    assert topo.core_capacity_bps == topo.host_capacity_bps == 320 * 100e9


def test_fat_tree_is_a_clos():
    assert fat_tree(k=4) == clos(pods=4, tors=2, aggs=2, cores=4, hosts_per_tor=2, uplink_rate=None, buffer="12MB")


def test_dumbbell():
    topo = dumbbell(left=3, right=2, rate="100Gbps", bottleneck_rate="40Gbps")
    assert topo.host_switches.tolist() == [5, 5, 5, 6, 6]
    assert topo.core_capacity_bps == 40e9 and len(topo.core_links) == 1


def test_star():
    topo = star(hosts=5, buffer="0B")
    assert topo.port_count.tolist() == [1] * 5 + [5] and topo.buffer_bytes.tolist() == [0]
    assert topo.core_capacity_bps == 0 and topo.capacity_bps("host") == 500e9
    with pytest.raises(SpecError, match=r'load_on = "core": topology "star" has no links between switches .* "host"'):
        topo.capacity_bps("core")
    with pytest.raises(SpecError, match='load_on = "both": must be one of core, host'):
        topo.capacity_bps("both")


def test_parking_lot():
    topo = parking_lot(hops=3, cross=1)
    assert (topo.hosts, topo.switches) == (8, 4)
    assert (topo.host_switches - topo.hosts).tolist() == [0, 3, 0, 1, 1, 2, 2, 3]
    assert len(topo.path_links(0, 0, 1, seed=1)) == 5
    assert all(len(topo.path_links(0, src, src + 1, seed=1)) == 3 for src in (2, 4, 6))
    assert topo.capacity_bps("core") == 300e9


def test_sites():
    topo = sites()
    assert (topo.hosts, topo.switches, len(topo.links)) == (128, 2 * (4 + 8 + 1), 128 + 2 * (32 + 8) + 1)
    assert Counter(topo.tier.tolist()) == {0: 128, 1: 8, 2: 16, 3: 2}
    degrees = {tier: set(topo.port_count[topo.tier == tier]) for tier in (1, 2, 3)}
    assert degrees == {1: {16 + 8}, 2: {4 + 1}, 3: {8 + 1}}
    assert topo.core_capacity_bps == 64 * 100e9
    assert topo.names[-2:] == ("gateway0", "gateway1") and topo.buffer_bytes.tolist() == [12_000_000] * 24 + [64_000_000] * 2
    within, between = (
        [topo.names[node].rstrip("0123456789") for node, _ in topo.path_links(0, 0, dst, seed=1)] for dst in (63, 64)
    )
    assert within == ["host", "tor", "spine", "tor"]
    assert between == ["host", "tor", "spine", "gateway", "gateway", "spine", "tor"]
    assert set(topo.links["delay_ps"][:-1]) == {10**6} and set(topo.links["ps_per_byte"][:-1]) == {80}
    assert (topo.links["delay_ps"][-1], topo.links["ps_per_byte"][-1]) == (200 * 10**6, 40)


def test_every_two_of_several_sites_are_linked():
    topo = sites(sites=4, hosts_per_site=2, tors=1, spines=1, long_delay="1ms")
    assert (topo.links["delay_ps"] == 10**9).sum() == 6 and len(topo.path_links(0, 0, 7, seed=1)) == 7


def test_ports_are_numbered_in_the_order_of_the_links(small):
    used = Counter()
    for link in small.links.tolist():
        for node, port in ((link[0], link[2]), (link[1], link[3])):
            assert port == used[node]
            used[node] += 1
    assert [used[node] for node in range(small.nodes)] == small.port_count.tolist()


# Routes


def test_routes_of_each_kind(small):
    check_routes(small)


@examples(60)
@given(topo=networks(), data=st.data())
def test_routes_of_any_network(topo, data):
    check_routes(topo)
    check_routes(topo, frozenset(data.draw(st.sets(st.integers(0, len(topo.links) - 1), max_size=4))))


def test_routes_share_groups():
    topo = leaf_spine(hosts=64, tors=4, spines=4)
    computed, table = topo.routes(), tabulated_routes(topo._fabric)
    assert computed.next_hops[64] is computed.next_hops[65] and not computed.rows.size
    assert computed.next_hops[64][-5:].tolist() == [4, 16, 17, 18, 19] and len(computed.next_hops[64]) == 5 + 2 * 16
    assert table.next_hops[64][:5].tolist() == [4, 16, 17, 18, 19] and len(table.next_hops[64]) == 5 + 2 * 16
    assert table.rows.shape == (4 + 1 + 8, 4 + 1)  # of the hosts of each ToR, of those that are cut off, of the switches


def test_a_link_down_cuts_off_what_is_behind_it():
    topo = dumbbell(left=2, right=2)
    table = topo.routes(frozenset([topo.link("switch0", "switch1")]))
    every, hosts = np.arange(topo.nodes)[:, None], np.arange(topo.hosts)
    assert (table.groups(every[:2], hosts[2:]) == -1).all() and (table.groups(every[2:4], hosts[:2]) == -1).all()
    assert table.ports(0, 1) and table.ports(4, 1) and not table.ports(4, 2)
    table = topo.routes(frozenset([topo.link("host0", "switch0")]))
    assert (table.groups(every, 0) == -1).all() and (table.groups(0, hosts) == -1).all() and table.ports(1, 2)


# Times


def test_base_rtt_of_a_leaf_spine_by_hand():
    assert leaf_spine().base_rtt_ps() == 4 * 80 * (1048 + 60) + 8 * 10**6
    assert leaf_spine().base_rtt_ps(mtu=4000, header=90, ack=102) == 4 * 80 * (4090 + 102) + 8 * 10**6


@examples(60)
@given(topo=networks())
def test_base_rtt_of_any_network(topo):
    graph, worst = graph_of(topo), 0
    cost = {size: {} for size in (1048, 60)}
    for link, size in itertools.product(topo.links, cost):
        for pair in itertools.permutations((int(link["a"]), int(link["b"]))):
            cost[size][pair] = max(int(link["ps_per_byte"]) * size + int(link["delay_ps"]), cost[size].get(pair, 0))
    for src, dst in itertools.combinations(range(topo.hosts), 2):
        paths = list(nx.all_shortest_paths(graph, src, dst))
        one_way = [max(sum(of[pair] for pair in itertools.pairwise(path)) for path in paths) for of in cost.values()]
        worst = max(worst, sum(one_way))
    assert topo.base_rtt_ps() == worst


@settings(deadline=None)
@given(
    links=st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 10**7)), min_size=1, max_size=6),
    size=st.integers(1, 60_000),
    mtu=st.integers(1, 4000),
    header=st.integers(0, 100),
)
def test_ideal_fct_over_any_path(links, size, mtu, header):
    size = min(size, 60 * mtu)
    rates, delays = zip(*links)
    switches = len(links)  # two hosts at the ends; the last rate serves both last links
    chain = make_links(
        [0, *range(2, 1 + switches), 1 + switches], [*range(2, 2 + switches), 1], [*rates, rates[-1]], [*delays, 1]
    )
    topo = Topology(
        "chain",
        2,
        switches,
        chain,
        np.zeros(switches),
        [f"n{i}" for i in range(2 + switches)],
        np.ones(2 + switches),
        {},
    )
    ours = topo.ideal_fct_ps(0, 0, 1, size, seed=3, mtu=mtu, header=header)
    assert ours.tolist() == [packet_by_packet([*rates, rates[-1]], [*delays, 1], size, mtu, header)]


@pytest.mark.parametrize("alike", [True, False])
@examples(40)
@given(data=st.data())
def test_ideal_fct_follows_the_path_that_the_flow_takes(alike, data):
    topo, seed = data.draw(networks(alike)), data.draw(st.integers(0, 2**40))
    src, dst = np.array(list(itertools.permutations(range(topo.hosts), 2))).T
    numbers = np.arange(len(src)) * 1_000_003
    sizes = np.array([1, 999, 1000, 1001, 2000, 34_567])[np.arange(len(src)) % 6]
    ours = topo.ideal_fct_ps(numbers, src, dst, sizes, seed)
    assert ours.dtype == np.int64
    assert ours.tolist() == [walked_fct(topo, *flow, seed) for flow in zip(numbers.tolist(), src, dst, sizes.tolist())]


def uneven_leaf_spine():
    """Two spines, one with slow and long links: the equal-cost paths between two racks differ."""
    topo = leaf_spine(hosts=4, tors=2, spines=2)
    links = topo.links.copy()
    slow = [topo.link(tor, "spine1") for tor in ("tor0", "tor1")]
    links["ps_per_byte"][slow], links["delay_ps"][slow] = 800, 5 * 10**6
    return dataclasses.replace(topo, links=links)


def test_ideal_fct_where_equal_cost_paths_differ():
    topo, n = uneven_leaf_spine(), 200
    ours = topo.ideal_fct_ps(np.arange(n), np.zeros(n, int), np.full(n, 3), np.full(n, 50_000), seed=1)
    assert ours.tolist() == [walked_fct(topo, number, 0, 3, 50_000, 1) for number in range(n)]
    assert 70 < (ours == ours.min()).sum() < 130  # about half the flows meet the slow spine
    assert topo.ideal_fct_ps(5, 0, 1, 50_000, seed=1)[0] < ours.min()


@pytest.mark.parametrize("alike", [True, False])
@examples(40)
@given(data=st.data(), ack=st.sampled_from([1, 60, 84, 3000]))
def test_ideal_times_by_the_sender_s_clock(alike, data, ack):
    """The ACKs take a path of their own, and may be larger than the data."""
    topo, seed = data.draw(networks(alike)), data.draw(st.integers(0, 2**40))
    src, dst = np.array(list(itertools.permutations(range(topo.hosts), 2))).T
    numbers, sizes = np.arange(len(src)) * 7, np.array([1, 999, 1000, 1001, 2000, 34_567])[np.arange(len(src)) % 6]
    received, acked = topo.ideal_times_ps(numbers, src, dst, sizes, seed, ack=ack)
    assert received.tolist() == topo.ideal_fct_ps(numbers, src, dst, sizes, seed).tolist()
    flows = zip(numbers.tolist(), src, dst, sizes.tolist())
    assert acked.tolist() == [there_and_back(topo, *flow, seed, 1000, 48, ack) for flow in flows]


def test_ideal_times_where_equal_cost_paths_differ():
    """One may go by the fast spine and its ACKs by the slow one."""
    topo, n = uneven_leaf_spine(), 100
    received, acked = topo.ideal_times_ps(np.arange(n), np.zeros(n, int), np.full(n, 3), np.full(n, 50_000), seed=1)
    assert acked.tolist() == [there_and_back(topo, number, 0, 3, 50_000, 1, 1000, 48, 60) for number in range(n)]
    assert len(set((acked - received).tolist())) > 1


def test_ideal_fct_in_parts(monkeypatch):
    topo, n = uneven_leaf_spine(), 50
    flows = (np.arange(n), np.arange(n) % 2, 2 + np.arange(n) % 2, 1 + 1000 * np.arange(n))
    whole = topo.ideal_fct_ps(*flows, seed=9)
    monkeypatch.setattr("penstock_net.topology.routes.CHUNK", 7)
    assert (topo.ideal_fct_ps(*flows, seed=9) == whole).all()


def test_path_links(small):
    for number, (src, dst), ack in itertools.product(range(5), itertools.permutations(range(5), 2), (False, True)):
        expected = [(node, port) for node, port, _ in walk(small, number, src, dst, 7, ack)]
        assert small.path_links(number, src, dst, 7, ack=ack) == expected


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ((0, 0, 8, 100), "flows.0.dst = 8: hosts are 0 to 7"),
        ((0, -1, 1, 100), "flows.0.src = -1: hosts are 0 to 7"),
        ((0, 3, 3, 100), "flows.0: src and dst are both 3; a flow goes from one host to another"),
        ((0, 0, 1, 0), "flows.0.bytes = 0: a flow has at least one byte"),
        ((0, 0, 1, 2**60), f"a flow of {2**60} bytes would take longer than the clock can count; split it up"),
    ],
)
def test_flows_that_cannot_be(flow, message):
    with pytest.raises(SpecError) as refused:
        SMALL["leaf_spine"]().ideal_fct_ps(*flow, seed=1)
    assert str(refused.value) == message


def test_a_flow_of_days_has_an_ideal_time():
    """2 GB at 1 Mbit/s: what the clock can count is not what a float can count one by one."""
    topo = leaf_spine(hosts=8, tors=2, spines=2, rate="1Mbps", uplink_rate="1Mbps")
    path = topo.links[[link for _, _, link in walk(topo, 0, 0, 7, 1)]]
    packets, frame = 2_000_000, 1048 * 8_000_000
    assert topo.ideal_fct_ps(0, 0, 7, 2 * 10**9, seed=1) == (packets + len(path) - 1) * frame + int(path["delay_ps"].sum())


def test_links_in_parallel(tmp_path):
    """Flows are spread over them; a change names one of them, and comes back from the spec."""
    text = "a s 100Gbps 1us\nb t 100Gbps 1us\ns t 50Gbps 1us\ns t 40Gbps 2us\ns t 56Gbps 3us"
    topo = from_file(written(tmp_path, text, "n.txt"))
    assert [topo.link("t", "s", number) for number in range(3)] == [2, 3, 4] and topo.routes().ports(2, 1) == [1, 2, 3]
    used = [topo.path_links(flow, 0, 1, seed=1)[1] for flow in range(600)]
    assert {hop: used.count(hop) for hop in sorted(set(used))}.keys() == {(2, 1), (2, 2), (2, 3)}
    assert min(used.count((2, port)) for port in (1, 2, 3)) > 150
    changed = topo.with_changes([{"time": "1us", "a": "t", "b": "s", "parallel": 1, "up": False}])
    assert changed.changes == (LinkChange(10**6, 3, False),) and build(changed.spec) == changed
    assert changed.routes(frozenset([3])).ports(2, 1) == [1, 3]
    refused = "s and t are joined by 3 links; write parallel = 0 to 2"
    for which in ({}, {"parallel": 3}):
        with pytest.raises(SpecError, match=refused):
            topo.with_changes([{"time": "1us", "a": "s", "b": "t", "up": False, **which}])
    with pytest.raises(SpecError, match="s and a are joined by 1 link; write parallel = 0"):
        topo.with_changes([{"time": "1us", "a": "s", "b": "a", "parallel": 1, "up": False}])


def test_no_path_to_itself():
    with pytest.raises(SpecError, match="no path from 0 to 0: a flow goes from one host to another; hosts are 0 to 4"):
        star(hosts=5).path_links(0, 0, 0, 1)


# Changes, loss, identity


def test_changes_and_loss_come_back_from_the_spec(small):
    a, b = (small.names[small.links[end][-1]] for end in ("a", "b"))
    changes = [
        {"time": "1ms", "a": b, "b": a, "up": True},
        {"time": "2us", "a": a, "b": b, "up": False, "rate": "40Gbps"},
    ]
    topo = small.with_changes(changes).with_loss(0.01)
    last = len(small.links) - 1
    assert topo.changes == (LinkChange(2 * 10**6, last, False, 200), LinkChange(10**9, last, True, None))
    within = [] if topo.servers is None else topo.servers.links
    assert set(np.delete(topo.links["loss"], within)) == {0.01} and not topo.links["loss"][within].any()
    assert build(topo.spec) == topo and build(topo.spec).spec == topo.spec
    assert topo != small and small.changes == () and not small.links["loss"].any()
    assert small.with_changes([LinkChange(2 * 10**6, last, False, 200)]).with_changes(changes[:1]).with_loss(0.01) == topo


def test_identity(small):
    again = build(small.spec)
    assert again == small and hash(again) == hash(small) and again.key() == small.key() and again is not small
    assert small.with_loss(0.5) != small and small != "something else"
    assert len(small.key()) == 64


def test_pickle(small):
    small.routes()
    again = pickle.loads(pickle.dumps(small))
    assert again == small and again.params == small.params
    assert not again.links.flags.writeable


def test_it_is_immutable(small):
    with pytest.raises(dataclasses.FrozenInstanceError):
        small.hosts = 3
    with pytest.raises(ValueError, match="read-only"):
        small.links["loss"] = 0.5
    small.spec["kind"] = "other"
    assert small.spec["kind"] == small.kind


def test_offered_loads_by_tier():
    topo = clos(pods=2, tors=2, aggs=2, cores=2, hosts_per_tor=4, rate="100Gbps", uplink_rate="100Gbps")
    src, dst = np.array([0, 0, 1]), np.array([1, 4, 8])  # within a rack, within a pod, to the other pod
    loads = topo.offered_loads(src, dst, np.array([10**6, 2 * 10**6, 4 * 10**6]), 10**8)  # 100 us: 1.25 MB a link
    assert loads == pytest.approx({"ToR - spine/aggregation": 6 / 1.25 / 8, "spine/aggregation - core": 4 / 1.25 / 4})


def test_offered_load_of_a_chain_is_that_of_its_busiest_link():
    topo = parking_lot(hops=3, cross=1)
    loads = topo.offered_loads(np.array([0, 2, 2]), np.array([1, 3, 3]), np.array([10**6, 10**6, 500_000]), 10**8)
    assert loads == pytest.approx({"ToR - ToR": 2})


def test_offered_load_follows_equal_cost_paths(tmp_path):
    """s0 has two ways to s3: each carries half."""
    path = tmp_path / "diamond.txt"
    path.write_text("h0 s0\nh1 s3\ns0 s1\ns0 s2\ns1 s3\ns2 s3\n")
    topo = from_file(path, rate="100Gbps", delay="1us")
    fabric = topo._fabric
    sent = expected_bytes(fabric, len(topo.links), np.array([0, 1]), np.array([1, 0]), np.array([1000, 10]))
    assert np.sort(sent[topo.core_links], axis=1).tolist() == [[5, 500]] * 4


def test_texts():
    topo = leaf_spine().with_loss(0.001).with_changes([{"time": "1ms", "a": "tor0", "b": "spine1", "up": False}])
    assert repr(topo) == "<Topology leaf_spine: 128 hosts, 16 switches, 192 links>"
    assert topo.describe().splitlines() == [
        "leaf_spine: 128 hosts, 16 switches (8 ToR, 8 spine/aggregation), 192 links",
        "host links    100Gbps 1us",
        "ToR - spine/aggregation links  100Gbps 1us; host links : these 2 : 1",
        "buffer        12MB per switch",
        "base RTT      8.35456us (1000 B of payload there, an ACK back)",
        "loss          up to 0.001 per frame and link",
        "changes       1, the first at 1ms",
    ]
    oversubscribed = clos(cores=4, uplink_rate="400Gbps").describe().splitlines()
    assert oversubscribed[3] == "spine/aggregation - core links  400Gbps 1us; host links : these 4 : 1"
    assert "unbounded per switch" in star(buffer=0).describe()
    assert all(builder.__doc__ for builder in KINDS.values())


def test_names_and_links():
    topo = leaf_spine()
    assert topo.node("spine0") == 136 and topo.node(3) == 3
    assert topo.link("tor0", "spine1") == topo.link(137, 128)
    for call, message in [
        (lambda: topo.node("spine9"), '"spine9" is not a node of topology "leaf_spine"; did you mean "spine7"?'),
        (lambda: topo.node(999), 'node 999 is not in topology "leaf_spine"; nodes are 0 to 143'),
        (
            lambda: topo.link("spine0", "spine1"),
            "no link between spine0 and spine1; spine0 is linked to tor0, tor1, tor2",
        ),
    ]:
        with pytest.raises(SpecError) as refused:
            call()
        assert str(refused.value).startswith(message)


# Refusals


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: leaf_spine(hosts=100),
            "hosts = 100: must be a multiple of tors = 8; choose 96 or 104",
        ),
        (lambda: leaf_spine(hosts=3), "hosts = 3: must be a multiple of tors = 8; choose 8"),
        (lambda: leaf_spine(hosts=0), "hosts = 0: must be between 1 and 65536"),
        (lambda: leaf_spine(hosts=70_000), "hosts = 70000: must be between 1 and 65536; nearest: 65536"),
        (lambda: leaf_spine(hosts="128"), 'hosts = "128": must be a whole number'),
        (lambda: leaf_spine(spines=1.5), "spines = 1.5: must be a whole number"),
        (lambda: leaf_spine(tors=True), "tors = true: must be a whole number"),
        (lambda: leaf_spine(hosts=4096, tors=1, spines=1), "tor0 has 4097 ports: at most 2000; use more switches"),
        (lambda: leaf_spine(delay="0us"), 'delay = "0us": must be greater than zero'),
        (lambda: leaf_spine(uplink_delay="-1us"), 'uplink_delay = "-1us": must be greater than zero'),
        (lambda: leaf_spine(rate="0Gbps"), 'rate = "0Gbps": must be greater than zero'),
        (
            lambda: leaf_spine(uplink_rate="fast"),
            'uplink_rate = "fast": must be a number with a unit, such as "100Gbps"',
        ),
        (lambda: leaf_spine(buffer="-1MB"), 'buffer = "-1MB": must be zero or more'),
        (lambda: fat_tree(k=5), "k = 5: must be even, a fat tree's switches have as many ports up as down; choose 4 or 6"),
        (
            lambda: fat_tree(hosts=100),
            "hosts = 100: a fat tree of k-port switches has k^3/4 hosts; choose 54 (k = 6) or 128 (k = 8)",
        ),
        (lambda: fat_tree(k=4, hosts=128), "hosts = 128: k = 4 makes 16 hosts; give one of the two"),
        (lambda: fat_tree(k=66), "makes 71874 hosts, at most 65536 are possible; choose a smaller network"),
        (
            lambda: clos(cores=10),
            "cores = 10: must be a multiple of aggs = 4; choose 8 or 12",
        ),
        (lambda: clos(pods=0), "pods = 0: must be between 1 and 1000000; nearest: 1"),
        (lambda: dumbbell(left=0), "left = 0: must be between 1 and 1000000; nearest: 1"),
        (lambda: dumbbell(bottleneck_rate="0bps"), 'bottleneck_rate = "0bps": must be greater than zero'),
        (lambda: star(hosts=1), "hosts = 1: must be between 2 and 65536"),
        (lambda: parking_lot(hops=0), "hops = 0: must be between 1 and 1000000; nearest: 1"),
        (lambda: parking_lot(hops=200_000), "makes 400002 hosts, at most 65536 are possible; choose a smaller network"),
        (lambda: clos(aggs=5.0), "cores = 16: must be a multiple of aggs = 5; choose 15 or 20"),
        (lambda: leaf_spine(spines=10**20), f"spines = {10**20}: must be between 1 and 1000000"),
        (lambda: leaf_spine(uplink_delay="1e300s"), 'uplink_delay = "1e300s": must be at most 4611686s'),
        (lambda: leaf_spine(buffer=10**20), f"buffer = {10**20}: must be at most 1000000000GB"),
        (lambda: sites(hosts_per_site=10), "hosts_per_site = 10: must be a multiple of tors = 4; choose 8 or 12"),
        (lambda: sites(gateway_buffer="64 cars"), "gateway_buffer"),
        (lambda: parking_lot(cross=-1), "cross = -1: must be between 0 and 1000000; nearest: 0"),
        (lambda: star().with_loss(1), "loss = 1: must be a probability, at least 0 and less than 1"),
        (lambda: star().with_loss(-0.1), "loss = -0.1: must be a probability, at least 0 and less than 1"),
        (
            lambda: star().with_loss(float("nan")),
            "loss = nan: must be a finite number",
        ),
        (lambda: star().with_loss("much"), 'loss = "much": must be a finite number'),
    ],
)
def test_builders_refuse(make, message):
    with pytest.raises(SpecError) as refused:
        make()
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {},
            "kind: is missing; give one of clos, dragonfly, dumbbell, fat_tree, leaf_spine, ",
        ),
        (
            {"kind": "leafspine"},
            f'kind = "leafspine": must be one of {", ".join(KINDS)}; did you mean "leaf_spine"?',
        ),
        ({"kind": 7}, f"kind = 7: must be one of {', '.join(KINDS)}"),
        ({"kind": "star", "host": 3}, 'host: unknown key; did you mean "hosts"?'),
        ({"file": "x", "rates": 3}, 'rates: unknown key; did you mean "rate"?'),
        ({"kind": "file"}, "file: is missing"),
        ({"kind": "star", "loss": 2}, "loss = 2: must be a probability, at least 0 and less than 1"),
        (
            {"kind": "star", "changes": "never"},
            'changes = "never": must be a list of tables, such as [{time = "1ms", a = "tor0", b = "spine1", up = false}]',
        ),
    ],
)
def test_build_refuses(table, message):
    with pytest.raises(SpecError) as refused:
        build(table)
    assert str(refused.value).startswith(message)


ENDS = {"a": "host0", "b": "switch0"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": "1ms", "at": 3, **ENDS}, "changes.0.at: unknown key"),
        (
            {"time": "1ms", "a": "host0", "up": True},
            'changes.0.b: is missing; write for example {time = "1ms", a = "tor0", b = "spine1", up = false}',
        ),
        ({"time": "1ms", **ENDS}, "changes: nothing changes; give up = true or false, a rate, or llr = true or false"),
        ({"time": "1ms", "up": 1, **ENDS}, "changes.0.up = 1: must be true or false"),
        ({"time": "-1ms", "up": True, **ENDS}, 'changes.0.time = "-1ms": must be zero or more'),
        ({"time": "1ms", "rate": "0bps", **ENDS}, 'changes.0.rate = "0bps": must be greater than zero'),
        (
            {"time": "1ms", "a": "host0", "b": "host1", "up": True},
            "changes.0: no link between host0 and host1; host0 is linked to switch0",
        ),
        (
            {"time": "1ms", "a": "hots0", "b": "switch0", "up": True},
            'changes.0: "hots0" is not a node of topology "star"; did you mean "host0"?',
        ),
        (LinkChange(0, 99, True), "changes: link 99 does not exist; links are 0 to 7"),
        ({"time": "1ms", "switch": "tor9", "up": False}, 'changes.0.switch: "tor9" is not a node of topology "star"'),
        (
            {"time": "1ms", "switch": "swich0", "up": False},
            'changes.0.switch: "swich0" is not a node of topology "star"; did you',
        ),
        (
            {"time": "1ms", "switch": "host3", "up": False},
            "changes.0.switch: host3 is a host, and only switches fail; let its link fail: give a and b instead of switch",
        ),
        ({"time": "1ms", "switch": 99, "up": False}, 'changes.0.switch: node 99 is not in topology "star"; nodes are 0 to 8'),
        (
            {"time": "1ms", "switch": "switch0"},
            'changes.0.up: is missing; write for example {time = "1ms", switch = "spine1", up',
        ),
        ({"switch": "switch0", "up": False}, "changes.0.time: is missing"),
        ({"time": "1ms", "switch": "switch0", "up": 0}, "changes.0.up = 0: must be true or false"),
        (
            {"time": "1ms", "switch": "switch0", "up": False, "a": "host0"},
            "changes.0.a: is of a link, and this is a switch; remove",
        ),
        ({"time": "1ms", "switch": "switch0", "rate": "1Gbps"}, "changes.0.up: is missing"),
        (
            {"time": "1ms", "switch": "switch0", "up": True},
            "changes.time: switch0 is back at 1ms, but has not failed before; let it",
        ),
        (SwitchChange(0, 3, False), "changes.switch: host3 is a host, and only switches fail"),
        (SwitchChange(0, 9, False), "changes.switch: node 9 does not exist; switches are 8 to 8"),
        (SwitchChange(-1, 8, False), "changes.time_ps = -1: must be zero or more"),
        (LinkChange(-5, 0, True), "changes.time_ps = -5: must be zero or more"),
        (LinkChange(0, 0, None, -8), "changes.ps_per_byte = -8: must be greater than zero; or give up = false"),
    ],
)
def test_changes_refused(change, message):
    with pytest.raises(SpecError) as refused:
        star().with_changes([change])
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([(1, False), (2, False)], "switch0 fails at 2us, and did so at 1us already; remove one of them, or give the time"),
        ([(1, False), (3, True), (5, True)], "switch0 is back at 5us, and did so at 3us already; remove one of them"),
        ([(4, False), (2, True)], "switch0 is back at 2us, but has not failed before; let it fail at an earlier time"),
        ([(4, False), (4, True)], "switch0 fails and is back at the same time, 4us; give two times"),
    ],
)
def test_times_of_a_switch_out_of_order(times, message):
    with pytest.raises(SpecError) as refused:
        star().with_changes([{"time": f"{time}us", "switch": "switch0", "up": up} for time, up in times])
    assert str(refused.value).startswith(f"changes.time: {message}")


def test_failing_switches_come_back_from_the_spec():
    changes = [{"time": "2us", "switch": "spine1", "up": True}, {"time": "1us", "switch": "spine1", "up": False}]
    topo = leaf_spine().with_changes(changes)
    spine = topo.node("spine1")
    assert topo.changes == (SwitchChange(10**6, spine, False), SwitchChange(2 * 10**6, spine, True))
    assert build(topo.spec) == topo and build(topo.spec).spec == topo.spec and topo != leaf_spine()
    assert leaf_spine().with_changes(topo.changes) == topo and pickle.loads(pickle.dumps(topo)) == topo
    assert topo.describe().splitlines()[-2:] == ["changes       2, the first at 1us", "failing       spine1"]


def test_which_links_are_down():
    topo = leaf_spine(hosts=4, tors=2, spines=2)
    states, link = LinkStates(topo.links), topo.link("tor0", "spine0")
    spine, tor = topo.node("spine0"), topo.node("tor0")
    seen = []
    for change in (
        SwitchChange(1, spine, False),
        LinkChange(2, link, True),
        SwitchChange(3, tor, False),
        SwitchChange(4, spine, True),
        LinkChange(5, link, False),
        SwitchChange(6, tor, True),
        LinkChange(7, link, None, 80),
        LinkChange(8, link, True),
    ):
        states.apply(change)
        seen.append(states.down)
    of = {name: frozenset(states.of_switch(topo.node(name))) for name in ("spine0", "tor0")}
    assert len(of["spine0"]) == 2 and len(of["tor0"]) == 4
    one = frozenset([link])
    assert seen == [of["spine0"]] * 2 + [of["spine0"] | of["tor0"]] + [of["tor0"]] * 2 + [one] * 2 + [frozenset()]


def raw(links, hosts=2, switches=1, **kwargs):
    columns = [list(column) for column in zip(*links)] or [[], []]
    given = {
        "links": make_links(*columns[:2], kwargs.pop("ps_per_byte", 80), kwargs.pop("delay_ps", 10**6)),
        "buffer_bytes": [0] * switches,
        "names": [f"n{i}" for i in range(hosts + switches)],
        "tier": [0] * hosts + [1] * switches,
    }
    return Topology(kind="raw", hosts=hosts, switches=switches, params={}, **{**given, **kwargs})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: raw([(0, 2), (1, 2)], delay_ps=0),
            "links: link n0 - n2: delay = 0 ps: must be greater than zero",
        ),
        (
            lambda: raw([(0, 2), (1, 2)], delay_ps=-1),
            "links: link n0 - n2: delay = -1 ps: must be greater than zero",
        ),
        (lambda: raw([(0, 2), (1, 2)], ps_per_byte=0), "links: link n0 - n2: ps_per_byte = 0: must be greater than zero"),
        (lambda: raw([(0, 2), (1, 2), (2, 2)]), "links: link n2 - n2: a link joins two different nodes; remove it"),
        (
            lambda: raw([(0, 2), (1, 2), (2, 1)]),
            "links: link n2 - n1 is there with its ends swapped: links are full duplex; keep one, or write parallel links with",
        ),
        (lambda: raw([(0, 2)]), "n1 has 0 links: a host has 1 to 64; link it to a switch"),
        (
            lambda: raw([(0, 2), *[(1, 2)] * 65]),
            "n1 has 65 links: a host has 1 to 64; make it a switch or remove links",
        ),
        (lambda: raw([(0, 1)], switches=1), "n0 and n1 are hosts linked to each other: a host links to a switch"),
        (lambda: raw([(0, 2), (1, 3)], switches=2), "n0 and n1 are not connected: paths lead through switches only"),
        (lambda: raw([(0, 2), (1, 2)], switches=2), "n0 and n3 are not connected: paths lead through switches only"),
        (lambda: raw([(0, 2), (1, 9)]), "links: node 9 does not exist; nodes are 0 to 2"),
        (lambda: raw([]), "links: there are none; hosts need links to a switch; add them"),
        (lambda: raw([(0, 1)], switches=0), "switches = 0: hosts need a switch between them; add one"),
        (lambda: raw([(0, 2), (1, 2)], names=["a", "b"]), "names has 2 entries; give 3, one per node"),
        (lambda: raw([(0, 2), (1, 2)], names=["a", "b", "a"]), 'nodes 0 and 2 are both named "a"; names must differ'),
        (lambda: raw([(0, 2), (1, 2)], buffer_bytes=[-1]), "buffer = -1: must be zero (unbounded) or more bytes"),
        (lambda: raw([(0, 2), (1, 2)], buffer_bytes=[1, 1]), "buffer_bytes has 2 entries; give 1, one per switch"),
    ],
)
def test_networks_refused(make, message):
    with pytest.raises(SpecError) as refused:
        make()
    assert str(refused.value).startswith(message)


# Files


EDGES = """\
# two racks and a spine
h10  left   100Gbps  1us
h2   left   100Gbps  1us     # numbered before h10
left spine  400Gbps  2us  0.01
right spine 400Gbps 2us

h1   right  100Gbps  1us
h3   right
"""
CSV = """\
b,a,delay,rate,loss
left,h10,1us,100Gbps,
left,h2,1us,100Gbps,0
spine,left,2us,400Gbps,0.01
right,spine,2us,400Gbps,
right,h1,1us,100Gbps,
right,h3,,,
"""
GRAPHML = """\
<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="kind" for="node" attr.name="kind" attr.type="string"/>
  <key id="tier" for="node" attr.name="tier" attr.type="int"/>
  <key id="buffer" for="node" attr.name="buffer" attr.type="string"/>
  <key id="rate" for="edge" attr.name="rate" attr.type="string"/>
  <key id="delay" for="edge" attr.name="delay" attr.type="string"/>
  <key id="loss" for="edge" attr.name="loss" attr.type="double"/>
  <graph edgedefault="undirected">
    <node id="left"/> <node id="right"/>
    <node id="spine"><data key="tier">2</data></node>
    <node id="h1"><data key="kind">host</data></node>
    <node id="h2"/> <node id="h3"/> <node id="h10"/>
    <edge source="h10" target="left"/>
    <edge source="h2" target="left"/>
    <edge source="left" target="spine">
      <data key="rate">400Gbps</data><data key="delay">2us</data><data key="loss">0.01</data></edge>
    <edge source="right" target="spine"><data key="rate">400Gbps</data><data key="delay">2us</data></edge>
    <edge source="h1" target="right"/>
    <edge source="h3" target="right"/>
  </graph>
</graphml>
"""


def written(tmp_path, text, name="net.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("name", "text"), [("net.txt", EDGES), ("net.csv", CSV), ("net.graphml", GRAPHML)])
def test_files(tmp_path, name, text):
    path = written(tmp_path, text, name)
    topo = from_file(path, rate="100Gbps", delay="1us", buffer="9MB")
    assert topo.names == ("h1", "h2", "h3", "h10", "left", "right", "spine")
    assert topo.tier.tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert [topo.names[switch] for switch in topo.host_switches] == ["right", "left", "right", "left"]
    assert topo.host_links.max() == 3  # host links first
    link = topo.links[topo.link("left", "spine")]
    assert (link["ps_per_byte"], link["delay_ps"], link["loss"]) == (20, 2 * 10**6, 0.01)
    assert set(topo.links["ps_per_byte"][:4]) == {80} and topo.links["loss"][:4].sum() == 0
    assert set(topo.buffer_bytes) == {9 * 10**6}
    assert topo.core_capacity_bps == 800e9
    check_routes(topo)
    assert topo.spec == {"file": str(path), "rate": "100Gbps", "delay": "1us", "buffer": "9MB"}
    assert build(topo.spec) == topo == build({"kind": "file", **topo.spec})


def test_the_same_network_from_each_kind_of_file(tmp_path):
    files = [written(tmp_path, text, name) for name, text in [("n.txt", EDGES), ("n.graphml", GRAPHML)]]
    one, two = (from_file(path, rate="100Gbps", delay="1us") for path in files)
    assert one == two and one.spec != two.spec


def test_graphml_attributes(tmp_path):
    text = GRAPHML.replace('<node id="left"/>', '<node id="left"><data key="buffer">1MB</data></node>')
    topo = from_file(written(tmp_path, text, "net.graphml"), rate="100Gbps", delay="1us")
    assert topo.buffer_bytes.tolist() == [10**6, 12 * 10**6, 12 * 10**6]
    assert pickle.loads(pickle.dumps(topo)) == topo


def test_graphml_tiers_are_checked(tmp_path):
    path = written(tmp_path, GRAPHML.replace(">2<", ">4<"), "net.graphml")
    with pytest.raises(SpecError) as refused:
        from_file(path, rate="100Gbps", delay="1us")
    assert (
        str(refused.value)
        == f"{path}:11: tier = 4: must be 0 (within a server, such as an NVSwitch), 1 (ToR), 2 (aggregation) or 3 (core)"
    )


def test_kind_wins_over_the_number_of_links(tmp_path):
    text = GRAPHML.replace('<node id="h3"/>', '<node id="h3"><data key="kind">switch</data></node>')
    topo = from_file(written(tmp_path, text, "net.graphml"), rate="100Gbps", delay="1us")
    assert topo.hosts == 3 and topo.switches == 4 and topo.tier[topo.node("h3")] == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("n.txt", "", "{path}: has no links; write one per line, such as: host0 tor0 100Gbps 1us"),
        ("n.txt", "a b 1Gbps 1us\n\na", '{path}:3: "a" has 1 columns; write a b rate delay loss'),
        ("n.txt", "a b 1Gbps 1us 0 x", '{path}:1: "a b 1Gbps 1us 0 x" has 6 columns; write a b rate delay loss'),
        ("n.txt", "a s 1Gb 1us", '{path}:1: rate = "1Gb": unknown unit "Gb"'),
        (
            "n.txt",
            "a s 1Gbps 1us\nb s 0Gbps 1us",
            '{path}:2: rate = "0Gbps": must be greater than zero',
        ),
        ("n.txt", "a s 1Gbps 0us", '{path}:1: delay = "0us": must be greater than zero'),
        (
            "n.txt",
            "a s 1Gbps 1us 1.0",
            '{path}:1: loss = "1.0": must be a probability, at least 0 and less than 1',
        ),
        ("n.txt", "a s 1Gbps 1us no", '{path}:1: loss = "no": must be a probability, at least 0 and less than 1'),
        ("n.txt", "a s", '{path}:1: link a - s has no rate; add it, or give rate = "100Gbps" for such links'),
        ("n.txt", "a s 1Gbps", '{path}:1: link a - s has no delay; add it, or give delay = "1us" for such links'),
        ("n.txt", "a a 1Gbps 1us", "{path}:1: a is linked to itself; a link joins two different nodes: remove it"),
        (
            "n.txt",
            "a s 1Gbps 1us\ns a 1Gbps 1us",
            "{path}:2: s - a was given at {path}:1 already, as a - s; links are full duplex: keep one; write parallel links",
        ),
        ("n.txt", "a b 1Gbps 1us", "{path}: switches = 0: hosts need a switch between them; add one"),
        (
            "n.txt",
            "a s 1Gbps 1us\nb s 1Gbps 1us\nc t 1Gbps 1us\nd t 1Gbps 1us",
            "{path}: a and c are not connected: paths lead through switches only",
        ),
        ("n.csv", "a,b,rates\n", '{path}:1: rates: unknown column; did you mean "rate"?'),
        ("n.csv", "a,rate\nx,1Gbps", '{path}:1: no column "b"; the header is a,b,rate,delay[,loss]'),
        ("n.csv", "a,b\nx,", '{path}:2: "x," names no two nodes; write a and b'),
        ("n.graphml", "<graphml", "{path}:1: is not readable GraphML ("),
        (
            "n.graphml",
            GRAPHML.replace(">host<", ">server<"),
            '{path}:12: kind = "server": node h1: must be "host" or "switch"',
        ),
        (
            "n.graphml",
            GRAPHML,
            '{path}:14: link h10 - left has no rate; add it, or give rate = "100Gbps" for such links',
        ),
        (
            "n.graphml",
            GRAPHML.replace('source="h3" target="right"', 'source="left" target="h2"'),
            "{path}:20: left - h2 was given at {path}:15 already, as h2 - left; links are full duplex",
        ),
    ],
)
def test_files_refused(tmp_path, name, text, message):
    path = written(tmp_path, text, name)
    with pytest.raises(SpecError) as refused:
        from_file(path)
    assert str(refused.value).startswith(message.format(path=path))


def test_no_such_file(tmp_path):
    with pytest.raises(SpecError, match=r"file = .*: cannot be read: No such file or directory; check the path"):
        from_file(tmp_path / "nothing.txt")
    (tmp_path / "noise.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match=r"noise\.txt:1: byte 0xff is not UTF-8 text; save the file as UTF-8"):
        from_file(tmp_path / "noise.txt")


def test_everything_public_is_there():
    assert all(hasattr(topology, name) for name in topology.__all__)
    assert {name.split()[0] for name in SMALL} | {"file"} == set(KINDS)
