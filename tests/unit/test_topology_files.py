"""Files of networks: what they say is read as it is meant, or refused with its line; what is hardly meant is a warning."""

import json
import warnings

import networkx
import numpy as np
import pytest

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.topology.cautions import cautions

NODES = '<node id="h0"/><node id="h1"/><node id="s0"/>'
EDGES = '<edge source="h0" target="s0"/>\n<edge source="h1" target="s0"/>'
GRAPH = f'<graphml>\n<graph edgedefault="undirected">\n{NODES}\n{EDGES}\n</graph>\n</graphml>\n'


def read(folder, text, name="n.graphml", **given):
    (folder / name).write_text(text)
    return ps.from_file(folder / name, rate="100Gbps", delay="1us", **given)


def refused(folder, text, name="n.graphml", **given) -> str:
    with pytest.raises(SpecError) as caught:
        read(folder, text, name, **given)
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    "old, new, says",
    [
        ('source="h0"', 'source="hO"', 'n.graphml:4: edge.source = "hO": no node has this id; known: h0, h1, s0'),
        ('source="h1" target="s0"', 'source="h1" target="s1"', 'n.graphml:5: edge.target = "s1": no node has this id'),
        ('source="h0" ', "", "n.graphml:4: edge.source: is missing or empty"),
        ('source="h0"', 'source=""', "n.graphml:4: edge.source: is missing or empty"),
        (' target="s0"/>\n<edge', "/>\n<edge", "n.graphml:4: edge.target: is missing or empty"),
        ('<node id="h0"/>', "<node/>", "n.graphml:3: node.id: is missing or empty"),
        ('<node id="h0"/>', '<node id=" "/>', "n.graphml:3: node.id: is missing or empty"),
        ("</graph>", '<node id="h0"/></graph>', 'n.graphml:6: node.id = "h0": line 3 has this node already'),
        (
            "</graph>",
            '</graph><graph edgedefault="undirected"></graph>',
            "n.graphml:6: is a second graph, the first begins at line 2",
        ),
        ("</graphml>", '<node id="h9"/></graphml>', "n.graphml:7: <node> must be in <graph>"),
        ('<node id="s0"/>', '<node id="s0"><graph edgedefault="undirected"/></node>', "<graph> must be in <graphml>"),
        (
            "<graphml>\n",
            '<graphml>\n<key id="k" for="edge" attr.name="rate" attr.type="string"/><key id="k" for="edge" attr.name="delay"/>',
            'n.graphml:2: "k": <key> is at line 2 already',
        ),
    ],
)
def test_what_a_graphml_file_does_not_declare_is_refused_with_its_line(tmp_path, old, new, says):
    assert old in GRAPH and says in refused(tmp_path, GRAPH.replace(old, new, 1))


def test_a_value_that_an_element_has_twice_is_refused(tmp_path):
    key = '<key id="k" for="edge" attr.name="rate" attr.type="string"/>'
    edge = '<edge source="h0" target="s0"><data key="k">10Gbps</data><data key="k">40Gbps</data></edge>'
    text = GRAPH.replace("<graphml>", f"<graphml>{key}").replace('<edge source="h0" target="s0"/>', edge)
    assert 'n.graphml:4: "k": <data> is at line 4 already' in refused(tmp_path, text)
    assert read(tmp_path, text.replace('<data key="k">40Gbps</data>', "")).links["ps_per_byte"].tolist() == [800, 80]


def test_comments_and_nodes_below_their_edges_are_as_they_are(tmp_path):
    text = f'<graphml>\n<!-- <node id="h0"/> <graph> -->\n<graph edgedefault="undirected">\n{EDGES}\n{NODES}\n</graph></graphml>'
    topo = read(tmp_path, text)
    assert (topo.hosts, topo.switches, topo.names) == (2, 1, ("h0", "h1", "s0"))


def test_edge_lists_and_csv(tmp_path):
    assert "rate: the column occurs twice" in refused(tmp_path, "a,b,rate,rate\nh0,s0,1Gbps,2Gbps\n", "n.csv")
    parallel = refused(tmp_path, "h0 s0\nh1 s1\ns0 s1\ns1 s0\n", "n.txt")
    assert "n.txt:4: s1 - s0 was given at n.txt:3 already, as s0 - s1" in parallel and "ends in the same order" in parallel
    assert "s0 is linked to itself" in refused(tmp_path, "h0 s0\nh1 s0\ns0 s0\n", "n.txt")


HOMED = "a,b\ngpu0,nv0\ngpu1,nv0\ngpu0,rail0\ngpu1,rail0\n"


def test_hosts_with_several_links(tmp_path):
    """By their names, by a pattern, or by their kind."""
    for text, given in (
        (HOMED, {}),
        (HOMED.replace("gpu", "n"), {"hosts": "n?"}),
        (HOMED.replace("gpu", "x"), {"hosts": "x[01]"}),
    ):
        topo = read(tmp_path, text, "n.csv", **given)
        assert (topo.hosts, topo.switches, topo.port_count.tolist()) == (2, 2, [2, 2, 2, 2])
        assert ps.topology.build(topo.spec) == topo
    twice = "".join(f'<edge source="{h}" target="{s}"/>' for h in ("h0", "h1") for s in ("s0", "s1"))
    more = '<node id="s1"><data key="k">switch</data></node>'
    key = '<key id="k" for="node" attr.name="kind" attr.type="string"><default>host</default></key>'
    nodes = NODES.replace('<node id="s0"/>', more.replace("s1", "s0") + more)
    topo = read(tmp_path, f'<graphml>{key}<graph edgedefault="undirected">{nodes}{twice}</graph></graphml>')
    assert topo.several.tolist() == [0, 1] and topo.names[2:] == ("s0", "s1")


@pytest.mark.parametrize(
    "text, given, says",
    [
        (HOMED.replace("gpu", "n"), {}, "has 0 hosts, but a network has 2 to 65536; say which are, such as hosts = "),
        (HOMED, {"hosts": "server*"}, 'hosts = "server*": matches no node without a kind'),
        (HOMED, {"hosts": "*"}, "hosts need a switch between them"),
        (HOMED + "gpu0,gpu1\n", {}, "gpu0 and gpu1 are hosts linked to each other"),
    ],
)
def test_hosts_with_several_links_refused(tmp_path, text, given, says):
    assert says in refused(tmp_path, text, "n.csv", **given)


def test_a_node_that_looks_like_a_host_but_has_two_links_is_named(tmp_path):
    topo = read(tmp_path, "h0 s0\nh0 s1\nh1 s0\nh2 s1\nh3 s1\n", "n.txt")
    (caution,) = cautions(topo)
    assert caution.startswith("h0 has 2 links and so is a switch, while h1 has one and is a host; hosts = ")
    run = ps.simulate(topo, ps.flow_list(topo, [(0, 1, "1KB")]), "fifo")
    assert caution in run.summary["warnings"]
    assert not cautions(read(tmp_path, "a0 s0\na1 s0\nb s0\n", "n.txt"))
    assert not cautions(read(tmp_path, "0 2\n1 2\n2 3\n4 3\n", "n.txt"))  # a number says nothing of what a node is


@pytest.mark.parametrize(
    "given, says",
    [
        ({"rate": 100}, 'host0 - switch0 has a rate of 100bps, below 1Mbps; a number without a unit is bit/s: write "100Gbps"'),
        ({"delay": 1}, 'has a delay of 1s, above 100ms; a number without a unit is seconds: write "1us"'),
        ({"rate": "1Mbps", "delay": "100ms"}, ""),
        ({}, ""),
    ],
)
def test_rates_and_delays_that_lack_a_unit_are_warned_of(given, says):
    topo = ps.star(hosts=3, **given)
    assert says in "".join(cautions(topo)) and bool(says) == bool(cautions(topo))
    slow = ps.star(hosts=3).with_changes([{"time": "1us", "a": "host1", "b": "switch0", "rate": 8}])
    assert "host1 - switch0 has a rate of 8bps" in cautions(slow)[0]


def test_keys_of_graphml_have_defaults(tmp_path):
    """An attribute that is not given has the default of its key, of any type, for nodes and edges."""
    nodes = '<node id="h0"/><node id="h1"/><node id="s0"/><node id="s1"><data key="b">5MB</data></node>'
    ends = [("h0", "s0", ""), ("h1", "s1", '<data key="r">1e10</data>'), ("s0", "s1", '<data key="d">3us</data>')]
    edges = "".join(f'<edge source="{a}" target="{b}">{data}</edge>' for a, b, data in ends)
    keys = [
        ("r", "edge", "rate", "double", "4e10"),
        ("d", "all", "delay", "string", "2us"),
        ("b", "node", "buffer", "string", "4MB"),
    ]
    made = "".join(
        f'<key id="{key}" for="{owner}" attr.name="{name}" attr.type="{kind}"><default>{text}</default></key>'
        for key, owner, name, kind, text in keys
    )
    path = tmp_path / "g.graphml"
    path.write_text(
        f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{made}'
        f'<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>'
    )
    topo = ps.from_file(path, rate="100Gbps", delay="1us", buffer="9MB")
    assert topo.links["ps_per_byte"].tolist() == [200, 800, 200]
    assert topo.links["delay_ps"].tolist() == [2_000_000, 2_000_000, 3_000_000]
    assert topo.buffer_bytes.tolist() == [4_000_000, 5_000_000]


GML = """\
Creator "x"
graph [
  directed 0
  node [ id 0 label "h0" ]
  node [ id 1 label "s0" buffer "4MB" ]
  node [ id 2 label "h1" ]
  edge [ source 0 target 1 latency "500 ns" bandwidth "100 Gbit" ]
  edge [ source 1 target 2 latency "1 us" bandwidth "25 Gbit" ]
]
"""
NODE_LINK = {
    "directed": False,
    "multigraph": False,
    "graph": {},
    "nodes": [{"id": "h0"}, {"id": "s0", "buffer": "4MB"}, {"id": "h1"}],
    "links": [
        {"source": "h0", "target": "s0", "capacity": "100Gbps", "delay": "500ns"},
        {"source": "s0", "target": "h1", "capacity": "25Gbps", "delay": "1us"},
    ],
}


@pytest.mark.parametrize("form", ["gml", "links", "edges", "numbers"])
def test_graphs_of_networkx(tmp_path, form):
    """GML, and JSON with links or edges, are the edge list that they describe."""
    expected = read(tmp_path, "h0 s0 100Gbps 500ns\ns0 h1 25Gbps 1us\n", "n.txt", buffer="4MB")
    edges = {key if key != "links" else "edges": value for key, value in NODE_LINK.items()}
    text = {"gml": GML, "links": json.dumps(NODE_LINK), "edges": json.dumps(edges)}.get(form, GML.replace('label "h1"', ""))
    topo = read(tmp_path, text, f"n.{form}")
    assert np.array_equal(topo.links, expected.links) and topo.buffer_bytes.tolist() == expected.buffer_bytes.tolist()
    assert topo.names == (("0", "2", "1") if form == "numbers" else expected.names)


def test_what_networkx_writes_is_read(tmp_path):
    graph = networkx.MultiGraph()
    for a, b, rate in (("h0", "s0", "100Gbps"), ("h1", "s1", "100Gbps"), ("s0", "s1", "40Gbps"), ("s0", "s1", "50Gbps")):
        graph.add_edge(a, b, bandwidth=rate, latency="2us")
    networkx.write_gml(graph, tmp_path / "w.gml")
    networkx.write_graphml(graph, tmp_path / "w.graphml")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # some versions say that "links" will be called "edges"
        (tmp_path / "w.json").write_text(json.dumps(networkx.node_link_data(graph)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gml, graphml, listed = (ps.from_file(tmp_path / f"w.{form}") for form in ("gml", "graphml", "json"))
    for topo in (gml, graphml, listed):
        assert topo.names == ("h0", "h1", "s0", "s1") and topo.links["ps_per_byte"].tolist() == [80, 80, 200, 160]


@pytest.mark.parametrize(
    "text, says",
    [
        (
            GML.replace('label "h1"', 'label "h1" kind "router"'),
            'n.x: node h1: kind = "router": node h1: must be "host" or "switch"',
        ),
        (GML.replace('"25 Gbit"', '"25 GB/s"'), 'n.x: edge s0 - h1: bandwidth = "25 GB/s": unknown unit "GB/s"'),
        (GML.replace("target 2", "target 7"), "n.x: is not readable GML (edge #1 has undefined target 7)"),
        (GML.replace("id 2 ", ""), "n.x: is not readable GML ("),
        (json.dumps(NODE_LINK)[:-3], "n.x: is not JSON: "),
        (json.dumps({**NODE_LINK, "edges": []}), "n.x: edges: there are links, too; keep one"),
        (json.dumps({**NODE_LINK, "nodes": [{"id": "h0"}]}), 'n.x: edge h0 - s0: "s0": no node has this name'),
        (json.dumps({**NODE_LINK, "nodes": [{"id": "h0"}] * 2}), "n.x: node h0: another node has this name"),
        (
            json.dumps({**NODE_LINK, "nodes": [{"name": "h0"}]}),
            "n.x: nodes.0.id: is missing",
        ),
    ],
)
def test_graphs_of_networkx_refused(tmp_path, text, says):
    assert refused(tmp_path, text, "n.x").startswith(says)
