"""Files of other programs: each is recognised by its content, and read or refused by name wherever it is given."""

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock_net.cli import main
from penstock_net.errors import SpecError
from penstock_net.formats import FORMATS, READ_BY, TOPOLOGY, TRACE, Content, recognise, used
from penstock_net.inputs import left_out
from penstock_net.topology import from_file, leaf_spine, star
from penstock_net.topology.files import READERS as READERS_OF_GRAPHS
from penstock_net.workload import SizeDistribution, build, flows_from_csv
from penstock_net.workload.traces import FORMATS as TRACES
from penstock_net.workload.traces import convert

HPCC = """\
7 3 6
4 5 6
0 4 25Gbps 1us 0
1 4 25000000000.0 0.000001 0
2 5 25Gb/s 0.001ms 0.01
3 5 25Gbps 1000ns 0.000000
4 6 100Gbps 2us 0
5 6 100Gbps 2us 0

First line: nodes, switches, links
src dst rate delay error_rate
"""
SIMAI = "4 1 0 2 3 A100\n2 3\n0 2 100Gbps 500ns 0\n1 3 100Gbps 500ns 0\n2 3 400Gbps 500ns 0\n"
HTSIM = """\
# 8 hosts, 2 pods
Nodes 8
Tiers 3
Podsize 4

Tier 0
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Queue_Up 300
Oversubscribed 1
Bundle 1
Switch_Latency_ns 300
Downlink_Latency_ns 1000

Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 1
Switch_Latency_ns 100
Downlink_Latency_ns 1200

Tier 2
Downlink_speed_Gbps 400
Radix_Down 2
Downlink_Latency_ns 2000
"""
FLOWS = "3\n0 3 3 100 20000 2\n1 4 3 100 150000 2.00001\n2 5 0 101 1000 2.0000205\n\nFirst line: # of flows\n"
SIZES = "0 0\n800 25\n4000 60\n90000 99.5\n2000000 100\n"
SONIC = {
    "BUFFER_POOL": {
        "ingress_lossless_pool": {"mode": "dynamic", "size": "33030144", "type": "ingress", "xoff": "2000000"},
        "egress_lossy_pool": {"mode": "dynamic", "size": "99999999", "type": "egress"},
    },
    "BUFFER_PROFILE": {"pg_lossless": {"dynamic_th": "-3", "pool": "ingress_lossless_pool", "xon": "18432", "xoff": "165888"}},
    "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4"}},
}
EXAMPLES = {
    "paths_csv": "# mine\nflow,path\n0,spine1\n",
    "goal": "num_ranks 2\nrank 0 {\n}\n",
    "simai": "MICRO\n0\n",
    "aicb": "[rank0 ~ rank3]\ncomm_type,comm_group,msg_size\n",
    "nccl": "a:7:7 [0] NCCL INFO Bootstrap\n",
    "htsim": "Nodes 2\nConnections 0\n",
    "htsim_topology": HTSIM,
    "hpcc_topology": HPCC,
    "simai_topology": SIMAI,
    "graphml": '<?xml version="1.0"?>\n<graphml xmlns="x"><graph/></graphml>',
    "hpcc_flows": FLOWS,
    "sizes": SIZES,
    "ns2_sizes": "70 1 0\n70 1 0.01\n3000000 1 1\n",
    "sonic": json.dumps(SONIC),
    "hpcc_config": "ENABLE_QCN 1\nTOPOLOGY_FILE mix/topology.txt\n",
    "astra_network": "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\n",
    "pytorch": '{"schema": "1.1.1", "nodes": []}',
    "kineto": '{"traceEvents": []}',
    "gml": 'Creator "x"\ngraph [\n  node [ id 0 ]\n]\n',
    "dot": "strict graph net {\n  a -- b;\n}\n",
    "astra": "DATA\n1\nl -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 64 1\n",
    "json_graph": '{"directed": false, "nodes": [{"id": "a"}], "links": [{"source": "a", "target": "b"}]}',
    "adjacency": '{"directed": false, "nodes": [{"id": "a"}], "adjacency": [[{"id": "a"}]]}',
    "requests": '{"timestamp": 0, "input_length": 4096, "output_length": 120, "hash_ids": [0, 1]}\n',
    "containerlab": 'name: x\ntopology:\n  nodes:\n    h0: {}\n  links:\n    - endpoints: ["h0:eth1", "s0:eth1"]\n',
    "sst": "import sst\nrouter = sst.Component('r', 'merlin.hr_router')\n",
    "booksim": "topology = torus;\nk = 8;\nn = 2;\n",
    "booksim_anynet": "router 0 node 0 router 1 15\nrouter 1 node 1\n",
}
READERS = {
    "topology": lambda path: from_file(path, rate="100Gbps", delay="1us"),
    "flows": lambda path: flows_from_csv(path, star(hosts=6)),
    "sizes": SizeDistribution.load,
    "trace": convert,
}


def written(tmp_path, text, name="given.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refusal(read, path):
    with pytest.raises(SpecError) as caught:
        read(path)
    return str(caught.value)


def test_every_format_has_an_example():
    assert sorted(EXAMPLES) == sorted(row.name for row in FORMATS if row.looks_like is not None)


def test_every_format_has_a_reader_or_a_remedy():
    """The names of the registry are those that the readers have, and no other."""
    assert {row.name for row in FORMATS if row.of == TRACE} == set(TRACES)
    assert {row.name for row in FORMATS if row.of == TOPOLOGY and row.looks_like is not None} == set(READERS_OF_GRAPHS)
    assert len({row.name for row in FORMATS}) == len(FORMATS)
    for row in FORMATS:
        assert row.mark and (row.of in READ_BY or row.remedy(Content(b""))) and (bool(row.unread) == bool(row.of))


def test_the_command_prints_the_registry(capsys):
    assert main(["formats"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for row in FORMATS:
        assert f"{row.name}: {row.what} recognised by {row.mark}; {used(row)}" in shown


@pytest.mark.parametrize(
    "name, remedy",
    [
        ("containerlab", "write its 1 link as an edge list, a line each: h0 s0 100Gbps 1us; ..."),
        ("booksim", 'give a kind: "torus" for mesh and torus'),
        ("sst", "its network is made by a program"),
        ("dot", "networkx.write_graphml(networkx.nx_pydot.read_dot(FILE), OUT)"),
    ],
)
def test_what_to_do_with_a_file_that_nothing_reads(tmp_path, name, remedy):
    assert remedy in refusal(from_file, written(tmp_path, EXAMPLES[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_is_recognised_and_refused_by_name_where_it_does_not_belong(tmp_path, name):
    text = EXAMPLES[name]
    row = next(row for row in FORMATS if row.name == name)
    assert recognise(text.encode()) is row and (row.of == "" or row.of in READ_BY)
    assert recognise(text.replace("\n", "\r\n").encode()) is row
    path = written(tmp_path, text)
    for of, read in READERS.items():
        if of != row.of:
            message = refusal(read, path)
            assert message.startswith(f"{path}: this is {row.what}; ") and message.endswith(
                row.refused(text.encode(), path).remedy
            )


@pytest.mark.parametrize(
    "text",
    [
        "h0 s0 100Gbps 1us\nh1 s0 100Gbps 1us\n",
        "0 2\n1 2\n",
        "0 2 100Gbps 1us\n1 2 100Gbps 1us 0\n",
        "1 50\n2 100\n3 100\n",
        "a,b,rate,delay\nh0,s0,1Gbps,1us\n",
        "src,dst,bytes,start_ns\n0,1,5,0\n",
        "bytes,cdf\n10,1\n",
        "",
        "{}",
        "\n\n",
    ],
)
def test_files_of_ours_are_not_taken_for_others(text):
    assert recognise(text.encode()) is None


@given(st.binary(max_size=200) | st.text("0123456789 .\n#abGpsus\t", max_size=120).map(str.encode))
def test_anything_is_recognised_or_not(raw):
    found = recognise(raw)
    assert found is None or found.refused(raw, "x").rule == f"this is {found.what}"


def test_the_values_of_a_configuration_of_sonic_are_named(tmp_path):
    message = refusal(from_file, written(tmp_path, json.dumps(SONIC), "config_db.json"))
    assert 'buffer = "33030144B" in [topology]; alpha = 0.125 (dynamic_th = -3) in a [scheme] with pfc; ' in message
    assert "a scheme with pfc for the priorities of pfc_enable, '3,4'" in message
    template = refusal(from_file, written(tmp_path, '{"BUFFER_POOL": {{ pools }} }'))
    assert template.endswith("give a network, and the switch's buffer in [topology]")


# Topologies


def test_a_topology_of_the_hpcc_simulator(tmp_path):
    topo = from_file(written(tmp_path, HPCC))
    assert topo.names == tuple("0123456") and topo.hosts == 4 and topo.tier.tolist() == [0, 0, 0, 0, 1, 1, 2]
    assert topo.links["ps_per_byte"].tolist() == [320] * 4 + [80] * 2
    assert topo.links["delay_ps"].tolist() == [10**6] * 4 + [2 * 10**6] * 2
    assert topo.links["loss"].tolist() == [0, 0, 0.01, 0, 0, 0]


@pytest.mark.parametrize("first", ["7 3 2 6", "7 3 2 6 25000000000 100000000000"])
def test_forks_with_more_counts(tmp_path, first):
    assert from_file(written(tmp_path, HPCC.replace("7 3 6", first, 1))) == from_file(written(tmp_path, HPCC, "plain.txt"))


def test_switches_need_not_be_last_nor_on_one_line(tmp_path):
    text = "5 2 4\n0\n3\n0 1 10Gbps 1us 0\n0 2 10Gbps 1us 0\n3 4 10Gbps 1us 0\n0 3 10Gbps 1us 0\n"
    assert from_file(written(tmp_path, text)).names == ("1", "2", "4", "0", "3")


def test_what_a_topology_has_and_is_not_read_is_said(tmp_path):
    with pytest.warns(UserWarning, match=r"1 more links than line 1 announces, which the simulator does not read either"):
        from_file(written(tmp_path, HPCC.replace("\n\nFirst", "\n0 6 1Gbps 1us 0\n\nFirst")))
    with pytest.warns(UserWarning, match=r"columns after the fifth of links \(there are 6\)"):
        from_file(written(tmp_path, HPCC.replace("1us 0\n", "1us 0 7\n", 1)))
    with pytest.warns(UserWarning, match="x: not read: y"):
        left_out("x", "y")


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("7 3 6", "7 3 7", "{path}: line 1 announces 3 switches and 7 links, there are 3 and 6; is the file truncated?"),
        ("7 3 6", "7 3 12", "{path}: line 1 announces 3 switches and 12 links, there are 3 and 6; is the file truncated?"),
        ("7 3 6", "7 3 2 6 5", "{path}:1: 5 numbers; known are: nodes switches links"),
        ("7 3 6", "9 3 6", "{path}: 6 links do not join 9 nodes; is line 1 right?"),
        ("4 5 6\n", "4 5 7\n", '{path}:2: switch = "7": must be between 0 and 6'),
        ("4 5 6\n", "4 5 5\n", "{path}:2: switch = 5: this switch is there twice"),
        ("4 5 6\n", "4 5 6 3\n", "{path}:2: line 1 announces 3 switches, here are 4"),
        ("0 4 25Gbps 1us 0", "0 4 25Gbps", '{path}:3: "0 4 25Gbps" has 3 columns; a link is: a b rate delay loss'),
        ("0 4 25Gbps", "0 4 25Gbaud", '{path}:3: rate = "25Gbaud": unknown unit "Gbaud"'),
        ("1us 0\n", "1us 2\n", '{path}:3: loss = "2": must be a probability'),
    ],
)
def test_topologies_of_the_hpcc_simulator_refused(tmp_path, old, new, says):
    path = written(tmp_path, HPCC.replace(old, new, 1))
    assert refusal(from_file, path).startswith(says.format(path=path))


def test_a_topology_of_simai(tmp_path):
    topo = from_file(written(tmp_path, SIMAI))
    assert topo.hosts == 2 and topo.names == ("0", "1", "2", "3") and set(topo.links["delay_ps"]) == {500_000}
    text = SIMAI.replace("4 1 0 2 3", "5 2 1 2 4").replace("2 3\n", "4 2 3\n", 1) + "0 4 2400Gbps 25ns 0\n"
    topo = from_file(written(tmp_path, text))
    assert topo.hosts == 2 and topo.several.tolist() == [0] and topo.peers(0) == [2, 4]
    assert topo.tier.tolist() == [0, 0, 1, 1, 0] and topo.servers.server.tolist() == [0, -1]


def test_a_command_says_what_is_not_read_without_its_own_code(tmp_path, capsys):
    file = written(tmp_path, HTSIM, "tree.topo")
    spec = tmp_path / "s.toml"
    table = '[[workload]]\nkind = "list"\nflows = [[0, 1, "1KB"]]\n'
    spec.write_text(f'[topology]\nfile = "{file}"\n[scheme]\nname = "fifo"\n[run]\nduration = "1us"\n{table}')
    assert main(["run", str(spec), "--dry-run"]) == 0
    line, expected = capsys.readouterr().err.splitlines()
    assert expected.startswith("expected of each scheme: 1 flows")
    assert line.startswith(f"warning: {file}: not read: Queue_up and Queue_Down, of each port")


def test_a_topology_of_htsim(tmp_path):
    with pytest.warns(UserWarning, match="Queue_up and Queue_Down, of each port"):
        topo = from_file(written(tmp_path, HTSIM, "tree.topo"))
    switches = [*(f"agg{i}" for i in range(4)), "core0", "core1", *(f"tor{i}" for i in range(4))]
    assert topo.hosts == 8 and list(topo.names[8:]) == switches
    by_ends = {(topo.names[link["a"]], topo.names[link["b"]]): link for link in topo.links}
    assert len(by_ends) == 8 + 8 + 4
    for ends, rate, delay in (
        (("host5", "tor2"), 80, 1_150_000),  # half of the ToR's 300 ns
        (("tor2", "agg3"), 40, 1_400_000),  # and of the 100 ns above it
        (("agg3", "core1"), 20, 2_050_000),
    ):
        link = by_ends.get(ends) if ends in by_ends else by_ends[ends[::-1]]
        assert (link["ps_per_byte"], link["delay_ps"]) == (rate, delay)
    assert topo.tier[topo.node("core1")] == 3 and topo.tier[topo.node("agg0")] == 2


@pytest.mark.filterwarnings("ignore:.*not read")
def test_the_aggregation_switches_of_a_pod_divide_the_cores_in_turns(tmp_path):
    """Of htsim: core i is linked to the (i mod n)-th of the n of each pod, not to the next ones in a row."""
    topo = from_file(written(tmp_path, HTSIM.replace("Radix_Up 1", "Radix_Up 2"), "tree.topo"))
    above = {
        agg: sorted(topo.names[n] for n in topo.peers(topo.node(agg)) if topo.names[n].startswith("core"))
        for agg in ("agg0", "agg1", "agg2", "agg3")
    }
    assert above == {f"agg{i}": [f"core{i % 2}", f"core{i % 2 + 2}"] for i in range(4)}


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("Bundle 1", "Bundle 1\nBundle 1", "{path}:13: Bundle: occurs twice"),
        (
            "Radix_Down 2\nDownlink_Latency_ns 2000",
            "Radix_Down 2\nBundle 2",
            "{path}:23: has 2 links between two switches (Bundle)",
        ),
        ("Podsize 4", "Podsize 3", "{path}: 8 nodes in pods of 3, 2 at a ToR"),
        ("Tiers 3", "Tiers 2", "{path}: Tiers says 2, which must be 2 or 3, and described are [0, 1, 2]"),
        ("Podsize 4\n", "", "{path}: there is no Podsize N; is the file truncated?"),
        ("Radix_Up 1\n", "", "{path}:16: tier 1 has no radix_up"),
        ("Radix_Down 2\nRadix_Up 1", "Radix_Down 4\nRadix_Up 1", "{path}:16: Radix_Down is 4, but a pod has 2 ToRs"),
        ("400\nRadix_Down 2", "400\nRadix_Down 4", "{path}:23: Radix_Down is 4, but there are 2 pods"),
        ("Radix_Up 1\n", "Radix_Up 999999999\n", "{path}: more than 1048576 links between switches"),
        ("Oversubscribed", "Oversubscription", '{path}:11: "Oversubscription": unknown word; did you mean "oversubscribed"?'),
    ],
)
def test_topologies_of_htsim_refused(tmp_path, old, new, says):
    path = written(tmp_path, HTSIM.replace(old, new, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock_net.topology.simulators.left_out", lambda place, what: None)
        assert refusal(from_file, path).startswith(says.format(path=path))


def test_a_tree_of_htsim_is_the_leaf_spine_that_it_describes(tmp_path):
    text = "Nodes 8\nTiers 2\nPodsize 8\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\nRadix_Up 2\nDownlink_Latency_ns 1000\n"
    text += "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 1000\n"
    topo, ours = from_file(written(tmp_path, text)), leaf_spine(hosts=8, tors=2, spines=2)
    assert (topo.hosts, topo.switches, len(topo.links)) == (ours.hosts, ours.switches, len(ours.links))
    assert topo.core_capacity_bps == ours.core_capacity_bps == 400e9


BACKBONE = """\
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="a"/><node id="b"/><node id="c"/><node id="d"/>
<edge source="a" target="b"/><edge source="b" target="c"/><edge source="c" target="a"/><edge source="c" target="d"/>
</graph></graphml>
"""


def test_hosts_of_a_backbone(tmp_path):
    path = written(tmp_path, BACKBONE, "pops.graphml")
    message = refusal(READERS["topology"], path)
    assert message.startswith(f"{path}: has 1 host (d, the only node with one link), but a network has 2 to 65536; say ")
    assert 'hosts = "gpu*", or give hosts_per_switch = 1, which makes every node a switch with so many' in message
    topo = from_file(path, rate="100Gbps", delay="1us", hosts_per_switch=2)
    assert topo.names == ("a.0", "a.1", "b.0", "b.1", "c.0", "c.1", "d.0", "d.1", "a", "b", "c", "d")
    assert set(topo.tier[8:]) == {1} and len(topo.links) == 12 and topo.spec["hosts_per_switch"] == 2


def test_hosts_that_a_graph_has_are_kept(tmp_path):
    text = BACKBONE.replace("<graph ", '<key id="k" for="node" attr.name="kind" attr.type="string"/><graph ')
    text = text.replace('<node id="d"/>', '<node id="d"><data key="k">host</data></node>')
    topo = from_file(written(tmp_path, text, "x.graphml"), rate="100Gbps", delay="1us", hosts_per_switch=1)
    assert topo.names[:4] == ("a.0", "b.0", "c.0", "d")
    for count in (0, 10**9, True):
        assert "hosts_per_switch" in refusal(
            lambda path, n=count: from_file(path, rate="1Gbps", delay="1us", hosts_per_switch=n),
            written(tmp_path, text, "x.graphml"),
        )
    assert refusal(
        lambda path: from_file(path, hosts_per_switch=1), written(tmp_path, "a b 1Gbps 1us\na.0 b 1Gbps 1us\n")
    ).endswith("hosts_per_switch makes a host of this name")


# Flows and sizes


def test_a_flow_file_of_the_hpcc_simulator(tmp_path):
    flows = flows_from_csv(written(tmp_path, FLOWS), star(hosts=6))
    assert flows.start_ps.tolist() == [2 * 10**12, 2 * 10**12 + 10_000_000, 2 * 10**12 + 20_500_000]
    assert (flows.src.tolist(), flows.dst.tolist()) == ([0, 1, 2], [3, 4, 5])
    assert (flows.bytes.tolist(), flows.priority.tolist()) == ([20_000, 150_000, 1000], [3, 3, 0])
    without_port = "\n".join(" ".join(w for i, w in enumerate(line.split()) if i != 3) for line in FLOWS.splitlines()[:4])
    assert flows_from_csv(written(tmp_path, without_port), star(hosts=6)).to_frame().equals(flows.to_frame())


def test_nodes_of_a_flow_file_are_those_of_the_topology(tmp_path):
    topo = from_file(written(tmp_path, "4 1 3\n0\n0 1 40Gbps 1us 0\n0 2 40Gbps 1us 0\n0 3 40Gbps 1us 0\n", "topology.txt"))
    flows = flows_from_csv(written(tmp_path, "1\n2 1 3 100 5000 0\n"), topo)
    assert (topo.names[flows.src[0]], topo.names[flows.dst[0]]) == ("2", "1")


def test_when_the_first_flow_of_a_file_starts(tmp_path):
    table = {"kind": "flows", "file": written(tmp_path, FLOWS)}
    assert build({**table, "start": "5us"}, star(hosts=6), 10**9, 1).start_ps.tolist() == [5_000_000, 15_000_000, 25_500_000]
    message = refusal(lambda path: build(table, star(hosts=6), 10**9, 1), "")
    assert 'the first flow starts at 2s; a [[workload]] of kind = "flows" takes start = "0s"' in message


@pytest.mark.parametrize(
    "text, says",
    [
        ("4\n0 3 3 100 20000 2\n", "{path}:1: 4 flows are announced, 1 follow; is the file truncated?"),
        (
            "2\n2 1 3 10000000 2.0 9.5\n3 1 3 10000000 2.0 9.5\n",
            "{path}: this is a flow file of ns3-rdma, whose flows are packets",
        ),
        ("1\n2 1 3 10000000 2 9\n", "{path}: this is a flow file of ns3-rdma, whose flows are packets"),
        ("1\n0 3 9 100 20000 2\n", '{path}:2: priority = "9": must be between 0 and 7'),
        ("1\n0 9 3 100 20000 2\n", "{path}:2: dst = "),
        ("1\n0 3 3 100 20000 2.0000000000001\n", '{path}:2: start = "2.0000000000001": is not a whole number of ps'),
        ("1\n0 3 3 100 20000 2 5 6\n", '{path}:2: "0 3 3 100 20000 2 5 6" has 8 columns; a flow is: src dst priority port bytes'),
    ],
)
def test_flow_files_refused(tmp_path, text, says):
    path = written(tmp_path, text)
    assert refusal(READERS["flows"], path).startswith(says.format(path=path))


def test_flows_beyond_the_announced_ones_are_said(tmp_path):
    with pytest.warns(UserWarning, match="2 more flows than line 1 announces"):
        assert len(flows_from_csv(written(tmp_path, FLOWS.replace("3\n", "1\n", 1)), star(hosts=6))) == 1


@pytest.mark.parametrize("text", [SIZES, SIZES.replace(" ", "\t"), "# a comment\n" + SIZES.replace("100\n", "100.0\n")])
def test_sizes_in_per_cent(tmp_path, text):
    sizes = SizeDistribution.load(written(tmp_path, text, "mine.txt"))
    assert sizes.bytes.tolist() == [0, 800, 4000, 90_000, 2_000_000] and sizes.cdf_points.tolist() == [0, 0.25, 0.6, 0.995, 1]
    assert abs(sizes.mean() - 24_730) < 1


def test_sizes_as_shares_without_a_header(tmp_path):
    assert abs(SizeDistribution.load(written(tmp_path, "0 0\n1000 0.5\n1000000 1\n")).mean() - 250_500) < 1


@pytest.mark.parametrize(
    "text, says",
    [
        ("0 0\n800 25\n4000 60\n", '{path}:3: percent = "60": the last value must be 100; is the file truncated?'),
        ("0 0\n800 25 1\n4000 100\n", '{path}:2: "800 25 1" has 3 columns; a row is: bytes percent'),
        ("0 0\n800 x\n4000 100\n", '{path}:2: percent = "x": is not a number'),
        ("0 0\n800 1e999\n4000 100\n", '{path}:2: percent = "1e999": must be between 0 and 100'),
        ("0 0\n800 -1\n4000 100\n", '{path}:2: percent = "-1": must be between 0 and 100'),
        ("0 0\n800 1.5\n4000 1\n", '{path}:2: percent = "1.5": must be between 0 and 1'),
        ("0 0\n800 25\n700 100\n", "{path}:3: bytes = 700: sizes must not decrease"),
        ("1000,0.5\n2000,1\n", "{path}:1: the header line is missing"),
    ],
)
def test_sizes_refused(tmp_path, text, says):
    path = written(tmp_path, text)
    assert refusal(SizeDistribution.load, path).startswith(says.format(path=path))


# Cut and changed


def outcome(read, path):
    """The reader gives something, or an error that names the file."""
    try:
        assert read(path)
    except SpecError as error:
        assert "given.txt" in str(error) and len(str(error)) < 1000


READ = {
    "hpcc_topology": "topology",
    "simai_topology": "topology",
    "htsim_topology": "topology",
    "hpcc_flows": "flows",
    "sizes": "sizes",
}


@pytest.mark.filterwarnings("ignore:.*not read")
@pytest.mark.parametrize("name", READ)
def test_a_file_that_is_cut_at_any_byte(tmp_path, name):
    raw = EXAMPLES[name].encode()
    for length in range(len(raw)):
        outcome(READERS[READ[name]], written(tmp_path, raw[:length]))


@pytest.mark.filterwarnings("ignore:.*not read")
@pytest.mark.parametrize("name", READ)
@given(data=st.data())
def test_a_file_that_is_changed(tmp_path_factory, name, data):
    raw = bytearray(EXAMPLES[name].encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at, much = data.draw(st.integers(0, len(raw))), data.draw(st.integers(0, 6))
        piece = st.one_of(st.binary(max_size=4), st.integers(-1, 2**40).map(lambda n: str(n).encode()), st.just(bytes(raw[:at])))
        raw[at : at + much] = data.draw(piece)
    outcome(READERS[READ[name]], written(tmp_path_factory.mktemp("fuzz"), bytes(raw)))
