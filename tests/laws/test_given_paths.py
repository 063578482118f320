"""Paths that are given: every packet takes them, data, acknowledgements and frames of schemes, on any network."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from drawn import examples
from hypothesis import given
from hypothesis import strategies as st
from networks import SHAPES, HostConfig, Measure, flow_list, make_links, networks, simulate
from test_paths import TRACE, paths_taken

from penstock_net.errors import SpecError
from penstock_net.topology import Topology, leaf_spine, rails
from penstock_net.topology.changes import LinkChange

FRAME, BYTE, DELAY = 1048, 80, 1_000_000  # B, ps, ps
FLAT = leaf_spine(hosts=4, tors=2, spines=2)  # every link 100 Gbit/s, 1 us


def frame(*rows, columns=("flow", "direction", "path")):
    return pl.DataFrame([dict(zip(columns, map(str, row))) for row in rows])


# -- by hand ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_flows_collide_where_their_paths_say_so(seed):
    """Two flows of 50 packets to different hosts: over one spine they share its link, over two they do not notice each other."""
    flows = flow_list(FLAT, [(0, 2, 50_000), (1, 3, 50_000)])
    shared = 2 * (FRAME * BYTE + DELAY) + 100 * FRAME * BYTE + 2 * DELAY + FRAME * BYTE  # 4 hops, 100 packets over the 2nd
    lone = 4 * DELAY + 53 * FRAME * BYTE
    for spines, expected in ((("spine0", "spine0"), [shared - FRAME * BYTE, shared]), (("spine1", "spine0"), [lone, lone])):
        run = simulate(FLAT, flows, seed=seed, paths=frame(*((i, "both", spine) for i, spine in enumerate(spines))))
        assert sorted(run.flows["fct_ns"] * 1000) == expected, spines


def test_answers_take_their_own_path():
    """A flow's ACKs are held up by data of another one in the direction in which they go, if they are queued with these."""
    flows = flow_list(FLAT, [(0, 2, 5_000), (3, 1, 100_000)])
    hosts = HostConfig(ack_priority="data")
    own, other = (
        simulate(FLAT, flows, host=hosts, paths=frame((0, "there", "spine0"), (0, "back", back), (1, "both", "spine0")))
        for back in ("spine1", "spine0")
    )
    assert own.flows["fct_ns"][0] == other.flows["fct_ns"][0] == own.flows["ideal_fct_ns"][0]
    assert own.flows["sender_slowdown"][0] == 1 < other.flows["sender_slowdown"][0]


def test_packets_take_turns_from_where_they_are_told_to():
    topo = leaf_spine(hosts=8, tors=2, spines=4)
    flows = flow_list(topo, [(0, 4, 9_000), (1, 5, 6_000, "50us"), (0, 6, 3_000, "90us"), (2, 7, 2_000, "130us")])
    turns = frame(("tor0", "host0", 2), ("tor0", "host1", 7), ("tor1", "host4", 1), columns=("switch", "from", "first"))
    run = simulate(topo, flows, "spray", measure=TRACE, paths=turns, host=HostConfig(ack_priority="data"))
    rows = run.frame("packets").filter(pl.col("event") == "enqueue").sort("time_ns", maintain_order=True)
    tors = {name: rows.filter(pl.col("node") == topo.node(name)) for name in ("tor0", "tor1")}
    for flow, kind, tor, expected in (
        (0, 0, "tor0", [(2 + i) % 4 for i in range(9)]),
        (1, 0, "tor0", [(7 + i) % 4 for i in range(6)]),
        (2, 0, "tor0", [(2 + 9 + i) % 4 for i in range(3)]),  # goes on where flow 0 has ended
        (0, 1, "tor1", [(1 + i) % 4 for i in range(9)]),
    ):
        chosen = tors[tor].filter((pl.col("flow_id") == flow) & (pl.col("kind") == kind))
        assert [port - 4 for port in chosen["port"].to_list()] == expected, (flow, kind)


@pytest.mark.parametrize(
    "scheme", ["dcpim", "homa", "sird", "expresspass", "ndp", "phost", "hpcc", "dcqcn:cnp", "recovery:perfect"]
)
def test_all_that_belongs_to_a_flow_takes_its_path(scheme):
    """Grants, credits, pulls, notices: the other spine carries nothing."""
    flows = flow_list(FLAT, [(0, 2, 80_000), (1, 2, 80_000), (3, 2, 20_000)])
    assert replace(FLAT, buffer_bytes=FLAT.buffer_bytes // 100).buffer_bytes.min() > 0
    run = simulate(
        FLAT, flows, scheme, paths=frame((0, "both", "spine1"), (1, "both", "spine1"), (2, "both", "host3 tor1 host2"))
    )
    assert run.flows["fct_ns"].null_count() == 0
    used = run.frame("ports").filter(pl.col("node") == FLAT.node("spine0"))["tx_bytes"].sum()
    assert used == 0 < run.frame("ports").filter(pl.col("node") == FLAT.node("spine1"))["tx_bytes"].sum()


# -- against a walk of one's own -------------------------------------------------------------------------------------------


def distances(topo, dst):
    """Hops to a host from everywhere, over switches only, by going outwards link by link."""
    ends = list(zip(topo.links["a"].tolist(), topo.links["b"].tolist()))
    found = {dst: 0}
    while True:
        new = {}
        for a, b in ends + [end[::-1] for end in ends]:
            if b in found and a not in found and (b >= topo.hosts or b == dst):
                new[a] = found[b] + 1
        if not new:
            return found
        found |= new


def drawn(data, topo, src, dst, first=None):
    """A random shortest path, as links; `first` is its first one."""
    away, node, links = distances(topo, dst), src, []
    while node != dst:
        ends = [(i, {int(link["a"]), int(link["b"])}) for i, link in enumerate(topo.links)]
        onward = [i for i, both in ends if node in both and away.get(*(both - {node}), 10**6) == away[node] - 1
                  and min(both - {node}) in (dst, *range(topo.hosts, topo.nodes))]  # fmt: skip
        link = first if first is not None and not links else data.draw(st.sampled_from(onward))
        links.append(link)
        node = min({int(topo.links["a"][link]), int(topo.links["b"][link])} - {node})
    return links


def worded(data, topo, src, links):
    """A text for a path: its nodes, some with the number of a parallel link; names of hosts at the ends may be missing."""
    node, words = src, [topo.names[src]] if data.draw(st.booleans()) else []
    for link in links:
        both = {int(topo.links["a"][link]), int(topo.links["b"][link])}
        node = min(both - {node})
        alike = [i for i, one in enumerate(topo.links) if {int(one["a"]), int(one["b"])} == both]
        words.append(topo.names[node] + (f"#{alike.index(link)}" if len(alike) > 1 else ""))
    if data.draw(st.booleans()) and "#" not in words[-1]:
        words.pop()
    return data.draw(st.sampled_from([" ", " > "])).join(words)


def hops(topo, src, links):
    """(node, port) at every switch."""
    node, out = src, []
    for link in links:
        end = "a" if topo.links["a"][link] == node else "b"
        out.append((node, int(topo.links[f"port_{end}"][link])))
        node = int(topo.links["b" if end == "a" else "a"][link])
    return [hop for hop in out if hop[0] >= topo.hosts]


@examples(80)
@given(networks(switches=(2, 8), hosts=(2, 5), ps_per_byte=(10, 400), whole=True), st.data())
def test_every_packet_takes_the_path_that_is_given(topo, data):
    """There and back, on random networks with parallel links and hosts with several; alone, exactly as fast as it says."""
    reach = [(i, j) for i in range(topo.hosts) for j in range(topo.hosts) if i != j and i in distances(topo, j)]
    pairs = data.draw(st.lists(st.sampled_from(reach), min_size=1, max_size=5)) if reach else []
    if not pairs:
        return
    ways, rows = [], []
    for number, (src, dst) in enumerate(pairs):
        there = drawn(data, topo, src, dst)
        back = (
            there[::-1]
            if data.draw(st.booleans())
            else drawn(data, topo, dst, src, there[-1] if topo.port_count[dst] > 1 else None)
        )
        ways.append((there, back))
        if back == there[::-1]:
            rows.append((number, "both", worded(data, topo, src, there)))
        else:
            rows += [(number, "there", worded(data, topo, src, there)), (number, "back", worded(data, topo, dst, back))]
    flows = flow_list(topo, [(src, dst, 1500, f"{1000 * i}us") for i, (src, dst) in enumerate(pairs)])
    hosts = HostConfig(ack_priority="data")
    run = simulate(topo, flows, seed=data.draw(st.integers(0, 99)), measure=TRACE, host=hosts, paths=frame(*rows))
    for kind in (0, 1):
        taken = paths_taken(run, kind)
        for number, (src, dst) in enumerate(pairs):
            assert taken.get(number, []) == hops(topo, (src, dst)[kind], ways[number][kind]), rows
    assert run.flows["slowdown"].to_list() == run.flows["sender_slowdown"].to_list() == [1] * len(pairs)


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_paths_are_those_of_any_shape(shape):
    """What ECMP takes, written down and given, changes no bit; with the names of all nodes, and of those with a choice."""
    topo = SHAPES[shape]()
    hosts = min(topo.hosts, 12)
    flows = flow_list(topo, [(i, (i + k) % hosts, 3000) for i in range(hosts) for k in (1, 5, 7)])
    rows = []
    for number, (src, dst) in enumerate(zip(flows.src.tolist(), flows.dst.tolist())):
        for direction, ack in (("there", False), ("back", True)):
            nodes = [node for node, _ in topo.path_links(number, src, dst, 3, ack=ack)][1:]
            rows.append((number, direction, " ".join(topo.names[node] for node in nodes)))
    plain, given_ = (simulate(topo, flows, "hpcc", seed=3, paths=paths) for paths in (None, frame(*rows)))
    for name in plain.frames:
        assert plain.frame(name).equals(given_.frame(name)), name
    assert given_.summary["warnings"] == plain.summary["warnings"]


# -- links that go down, connections, hosts with several links --------------------------------------------------------------


def test_while_a_link_is_down_packets_take_another_path():
    link = next(
        i for i, one in enumerate(FLAT.links) if {int(one["a"]), int(one["b"])} == {FLAT.node("tor0"), FLAT.node("spine1")}
    )
    topo = replace(FLAT, changes=(LinkChange(2_000_000, link, False, None), LinkChange(30_000_000, link, True, None)))
    flows = flow_list(topo, [(0, 2, 20_000), (0, 2, 20_000, "40us")])
    run = simulate(
        topo, flows, measure=TRACE, host=HostConfig(rto="5us"), paths=frame((0, "both", "spine1"), (1, "both", "spine1"))
    )
    rows = run.frame("packets").filter((pl.col("event") == "dequeue") & (pl.col("kind") == 0))
    spines = {
        flow: set(rows.filter((pl.col("flow_id") == flow) & (pl.col("node") >= topo.node("spine0")))["node"]) for flow in (0, 1)
    }
    assert topo.node("spine0") in spines[0] and spines[1] == {topo.node("spine1")}
    assert any("links of given paths go down" in warning for warning in run.summary["warnings"])
    assert run.flows["fct_ns"].null_count() == 0


def test_a_connection_has_one_path():
    flows = flow_list(FLAT, [{"src": 0, "dst": 2, "bytes": 5000, "start": f"{i}us", "connection": 4} for i in range(3)])
    for scheme in ("fifo", "homa"):
        run = simulate(FLAT, flows, scheme, paths=frame((1, "both", "spine1")))
        ports = run.frame("ports")
        assert ports.filter(pl.col("node") == FLAT.node("spine0"))["tx_bytes"].sum() == 0
        assert not any("have no path" in warning for warning in run.summary["warnings"])
    with pytest.raises(
        SpecError, match=r"paths, row 1: flow = 2: flow 0, of the same connection, has a path there already, in paths, row 0"
    ):
        simulate(FLAT, flows, paths=frame((1, "both", "spine1"), (2, "both", "spine1")))


def test_a_flow_leaves_by_the_link_that_its_path_names():
    topo = rails(servers=4, gpus=1, segment=2, spines=2, ports=2)
    flows = flow_list(topo, [(0, 3, 5000), (0, 3, 5000)])
    host = [topo.names[int(peer)] for peer in np.sort(np.concatenate([topo.links["b"][topo.links["a"] == 0]]))]
    paths = [topo.path_links(0, 0, 3, seed) for seed in range(40)]
    wanted = {topo.names[path[1][0]]: " ".join(topo.names[node] for node, _ in path[1:]) for path in paths}
    assert len(wanted) == 2 == len(host)
    for first, text in wanted.items():
        run = simulate(topo, flows, paths=frame((0, "both", text), (1, "both", text)))
        ports = run.frame("ports").filter((pl.col("node") == 0) & (pl.col("tx_bytes") > 0))
        assert [topo.names[peer] for peer in ports["peer"]] == [first]
    back = [*wanted.values()][1]
    with pytest.raises(SpecError, match=r"answers leave .*, which has several links, by that at which the data come"):
        simulate(topo, flows, paths=frame((0, "back", " ".join(back.split()[::-1]))))


# -- what is refused, and what is said ---------------------------------------------------------------------------------------

TURNS = frame(("tor0", "host0", 1), columns=("switch", "from", "first"))


@pytest.mark.parametrize(
    "scheme, paths, rule",
    [
        ("valiant", frame((0, "both", "spine0")), "valiant sends packets by other ports than those of shortest paths"),
        ("fifo", TURNS, "packets overtake one another, .*; add a scheme whose receivers do"),
        ("expresspass", frame((0, "there", "spine0")), 'flow 0 has others; give its path with the direction "both"'),
        ("expresspass", frame((0, "there", "spine0"), (0, "back", "spine1")), "flow 0 has others"),
    ],
)
def test_what_decides_paths_itself_is_refused(scheme, paths, rule):
    with pytest.raises(SpecError, match=rf"run\.paths: .*{rule}"):
        simulate(FLAT, flow_list(FLAT, [(0, 2, 5000)]), scheme, paths=paths)


def test_packets_in_turn_of_a_hosts_links_have_no_path():
    topo = rails(servers=4, gpus=1, segment=2, spines=2, ports=2)
    text = " ".join(topo.names[node] for node, _ in topo.path_links(0, 0, 3, 1)[1:])
    with pytest.raises(SpecError, match="packets of a flow take turns of the links of their host"):
        simulate(topo, flow_list(topo, [(0, 3, 5000)]), "spray", host=HostConfig(ports="packet"), paths=frame((0, "both", text)))


def test_flows_without_a_path_are_counted():
    run = simulate(FLAT, flow_list(FLAT, [(0, 2, 5000), (1, 3, 5000), (2, 0, 5000)]), paths=frame((0, "both", "spine0")))
    assert any(w.startswith("2 of 3 flows have no path in the file of paths") for w in run.summary["warnings"])


def test_a_lone_flow_on_a_slow_path_is_as_fast_as_the_path():
    """Two switches joined by a fast and a slow link."""
    topo = Topology(
        kind="file", hosts=2, switches=2, params={}, names=("a", "b", "s", "t"), tier=np.array([0, 0, 1, 1]),
        links=make_links([0, 1, 2, 2], [2, 3, 3, 3], [80, 80, 80, 800], [DELAY] * 4), buffer_bytes=np.zeros(2, dtype=np.int64),
    )  # fmt: skip
    flows = flow_list(topo, [(0, 1, 10_000)])
    for number, rate in ((0, 80), (1, 800)):
        run = simulate(topo, flows, measure=Measure(sample="0s"), paths=frame((0, "both", f"t#{number}")))
        assert run.flows["fct_ns"][0] * 1000 == 3 * DELAY + FRAME * (2 * BYTE + 9 * rate + rate)
        assert run.flows["slowdown"][0] == 1
    with pytest.raises(SpecError, match=r'path = "s t": 2 links join s and t; write which one, from "t#0" on'):
        simulate(topo, flows, paths=frame((0, "both", "s t")))
