"""Networks with a structure: what is computed from a host's number is what tables and searches say, at any size."""

import numpy as np
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st

from penstock_net.topology import Topology, clos, dumbbell, fat_tree, leaf_spine, parking_lot, star
from penstock_net.topology.routes import Fabric, LoneFlows, base_rtt_ps, computed_routes, expected_bytes, tabulated_routes

RATES = st.sampled_from(["10Gbps", "100Gbps", "400Gbps"])
DELAYS = st.sampled_from(["10ns", "1us", "7us"])


def shapes():
    """Networks of every shape that has a structure, of up to some 150 hosts."""
    few = st.integers(1, 4)
    return st.one_of(
        st.builds(lambda hosts, **more: star(hosts=hosts, **more), hosts=st.integers(2, 60), rate=RATES, delay=DELAYS),
        st.builds(
            lambda tors, each, **more: leaf_spine(hosts=tors * each, tors=tors, **more),
            tors=st.integers(2, 9),
            each=st.integers(1, 12),
            spines=st.integers(1, 7),
            rate=RATES,
            uplink_rate=RATES,
            delay=DELAYS,
            uplink_delay=DELAYS,
        ),
        st.builds(fat_tree, k=st.sampled_from([2, 4, 6, 8]), rate=RATES, uplink_rate=RATES, delay=DELAYS),
        st.builds(
            lambda aggs, spread, **more: clos(aggs=aggs, cores=aggs * spread, **more),
            pods=st.integers(2, 4),
            tors=few,
            aggs=few,
            spread=few,
            hosts_per_tor=few,
            rate=RATES,
            uplink_rate=RATES,
            delay=DELAYS,
        ),
    )


def changed(topo, **fields):
    """The same network with other fields."""
    names = ("kind", "hosts", "switches", "links", "buffer_bytes", "names", "tier", "params")
    return Topology(**{name: getattr(topo, name) for name in names} | fields)


def every_path(topo, table):
    """The ports of every node towards every host."""
    return [[table.ports(node, host) for host in range(topo.hosts)] for node in range(topo.nodes)]


def pairs_of(topo, count=200):
    rng = np.random.default_rng(topo.hosts)
    src = rng.integers(0, topo.hosts, count)
    return src, (src + 1 + rng.integers(0, topo.hosts - 1, count)) % topo.hosts, rng.integers(1, 10**6, count)


@examples(40)
@given(topo=shapes())
def test_computed_routes_are_the_tabulated_ones(topo):
    structure, table = topo._structure, tabulated_routes(topo._fabric)
    assert structure and not topo.routes().rows.size
    nodes, hosts = np.arange(topo.nodes)[:, None], np.arange(topo.hosts)
    found, expected = topo.routes().groups(nodes, hosts), table.groups(nodes, hosts)
    for node in range(topo.nodes):
        for host in {0, topo.hosts // 2, topo.hosts - 1, node // 2 % topo.hosts}:
            assert topo.routes().ports(node, host) == table.ports(node, host)
    assert ((found < 0) == (expected < 0)).all() and ((found < 0) == (nodes == hosts)).all()


@examples(25)
@given(topo=shapes(), data=st.data())
def test_with_links_down_there_are_tables(topo, data):
    down = frozenset(data.draw(st.sets(st.integers(0, len(topo.links) - 1), min_size=1, max_size=3)))
    table = topo.routes(down)
    assert table.rows.size
    for node, host in zip(range(topo.nodes), np.resize(np.arange(topo.hosts), topo.nodes).tolist()):
        ports = table.ports(node, host)
        assert ports == tabulated_routes(Fabric(topo.hosts, topo.switches, topo.links, down)).ports(node, host)
        ends = topo.links[sorted(down)]
        cut = {*zip(ends["a"].tolist(), ends["port_a"].tolist()), *zip(ends["b"].tolist(), ends["port_b"].tolist())}
        assert not cut & {(node, port) for port in ports}


@examples(40)
@given(topo=shapes(), seed=st.integers(0, 1000))
def test_times_and_loads_are_those_of_a_search(topo, seed):
    src, dst, sizes = pairs_of(topo)
    fabric, numbers = topo._fabric, np.arange(len(src))
    assert topo.base_rtt_ps() == base_rtt_ps(fabric, topo.links, 1048, 60)
    searched = LoneFlows(tabulated_routes(fabric), fabric, topo.links, None, topo.headers).times_ps(
        numbers, src, dst, sizes, seed, (1000, 48, 60), np.multiply
    )
    for found, expected in zip(topo.ideal_times_ps(numbers, src, dst, sizes, seed), searched):
        assert (found == expected).all()
    sent = expected_bytes(fabric, len(topo.links), src, dst, sizes)
    assert topo._structure.expected_bytes(topo.links, src, dst, sizes) == pytest.approx(sent, rel=1e-12)


def test_kinds_of_links_may_differ():
    """One slow uplink: the routes are still computed, times are searched for."""
    topo = leaf_spine(hosts=8, tors=4, spines=2)
    links = topo.links.copy()
    links["ps_per_byte"][topo.core_links[0]] = 800
    slow = changed(topo, links=links)
    assert slow._structure.kinds is None and every_path(slow, slow.routes()) == every_path(topo, tabulated_routes(topo._fabric))
    assert slow.base_rtt_ps() == base_rtt_ps(slow._fabric, slow.links, 1048, 60) > topo.base_rtt_ps()


@pytest.mark.parametrize(
    "topo",
    [
        dumbbell(),
        parking_lot(),
        changed(fat_tree(k=4), links=np.delete(fat_tree(k=4).links, 20)),  # a ToR without one of its links up
        changed(leaf_spine(hosts=8, tors=4, spines=2), tier=[0] * 8 + [1] * 6),
        changed(leaf_spine(hosts=8, tors=4, spines=2), links=leaf_spine(hosts=8, tors=4, spines=2).links[::-1]),
        changed(leaf_spine(hosts=8, tors=4, spines=2), links=np.roll(leaf_spine(hosts=8, tors=4, spines=2).links, 3)),
    ],
)
def test_networks_without_a_structure(topo):
    assert topo._structure is None and topo.routes().rows.size
    assert topo.base_rtt_ps() == base_rtt_ps(topo._fabric, topo.links, 1048, 60)


def test_the_largest_fat_tree():
    """65 536 hosts, without tables or a search."""
    topo = fat_tree(k=64)
    table = topo.routes()
    assert topo.hosts == 65536 and table is topo._routes and "distance" not in vars(topo._fabric)
    tor, agg, core = topo.hosts + 32, topo.hosts + 2048 + 32, topo.hosts + 4096 + 1023  # of the second pod
    assert table.ports(tor, 1024) == [0] and table.ports(tor, 1055) == [31] and table.ports(tor, 1056) == list(range(32, 64))
    assert table.ports(agg, 1056) == [1] and table.ports(agg, 0) == list(range(32, 64)) and table.ports(core, 65535) == [63]
    assert topo.base_rtt_ps() == 6 * 80 * (1048 + 60) + 12 * 10**6
    numbers = np.array([0, 1, 2])
    assert (
        topo.ideal_fct_ps(numbers, [0, 0, 0], [1, 40, 65535], 1000, 1) == [2 * 83840 + 2e6, 4 * 83840 + 4e6, 6 * 83840 + 6e6]
    ).all()


def test_computed_routes_name_every_lower_port_first():
    routes = computed_routes(4, star(hosts=4)._structure)
    assert routes.next_hops[4].tolist() == [1, 0, 1, 1, 1, 2, 1, 3, 0] and routes.next_hops[0].tolist() == [1, 0]
