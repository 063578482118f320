"""What a file says and penstock does not read is said: any field of a valid file that is renamed or removed leaves the result as
it is, or a line says so, or the file is refused."""

import json
import re
import warnings

import polars as pl
import pytest
from test_formats import FLOWS, HPCC, written
from test_formats import HTSIM as HTSIM_TOPOLOGY
from test_formats import SIMAI as SIMAI_TOPOLOGY
from test_topology_files import GML, NODE_LINK
from test_traces import AICB, AICB_STAGES, GOAL, HTSIM, NCCL, SIMAI, SPLIT, chakra_files, node

import penstock_net as ps
from penstock_net.errors import SpecError
from penstock_net.sim.paths import read_paths
from penstock_net.topology import from_file, star
from penstock_net.workload import SizeDistribution, flows_from_csv
from penstock_net.workload.flowfile import flows_from_parquet, flows_to_parquet
from penstock_net.workload.requests import read
from penstock_net.workload.traces import convert

GRAPHML = """\
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="b" for="edge" attr.name="bandwidth" attr.type="string"/>
<key id="l" for="edge" attr.name="latency" attr.type="string"><default>2us</default></key>
<key id="p" for="edge" attr.name="loss" attr.type="double"/>
<key id="k" for="node" attr.name="kind" attr.type="string"/>
<key id="m" for="node" attr.name="buffer" attr.type="string"/>
<key id="t" for="node" attr.name="tier" attr.type="int"/>
<graph edgedefault="undirected">
<node id="h0"/><node id="h1"><data key="k">host</data></node>
<node id="s0"><data key="k">switch</data><data key="m">4MB</data></node><node id="s1"><data key="t">3</data></node>
<edge source="h0" target="s0"><data key="b">40 Gbps</data><data key="l">500 ns</data></edge>
<edge source="h1" target="s1"><data key="b">40 Gbps</data></edge>
<edge source="s0" target="s1"><data key="b">10 Gbit/s</data><data key="p">0.01</data></edge>
</graph>
</graphml>
"""
ASTRA = "DATA\n2\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 64 1\nb -1 1 ALLREDUCE 8 1 NONE 0 1 ALLREDUCE 32 1\n"
REQUESTS = '{"timestamp": 12.5, "input_length": 1500, "output_length": 40, "hash_ids": [0, 1]}\n'
LINKS = "a,b,rate,delay,loss\nh0,s0,40Gbps,500ns,0\nh1,s1,40Gbps,500ns,0\ns0,s1,10Gbps,2us,0.01\n"
ROWS = "src,dst,bytes,start_ns,class,priority,id,after,gap_ns\n0,1,500,0,x,1,a,,\n1,2,900,5,y,2,b,a,7\n"


def topology(path):
    return from_file(path, rate="100Gbps", delay="1us")


def trace(path, **given):
    """All of a trace that is converted; its notes are lines that the user is shown."""
    converted = convert(path, **given)
    for sentence, count in converted.notes.items():
        warnings.warn(f"{sentence} ({count})", stacklevel=1)
    flows = converted.flows
    listed = flows.operations.listed if flows.operations else ()
    return flows.to_frame().to_dicts(), flows.connection.tolist() if flows.connection is not None else None, listed


def flows(path):
    return flows_from_csv(path, star(hosts=6)).to_frame().to_dicts()


def sizes(path):
    return SizeDistribution.load(path).describe()


def given_paths(path):
    topo = ps.leaf_spine(hosts=4, tors=2, spines=2)
    found = read_paths(path, topo, ps.flow_list(topo, [(0, 2, 500), (1, 3, 500)]))
    return [None if table is None else table.tolist() for table in (found.pins, found.turns)]


def receiver(path):
    topo = ps.with_receivers(star(hosts=3), [{"host": 0, "trace": str(path)}])
    return topo.changes


NAMES = r"(?<![\w.-])[A-Za-z_][\w.]*(?![\w.-])"
AICB_FIELDS = r"comm_\w+(?=,)|(?<=,)(?:msg_size|stage|dst|src|additional|_elapsed_time|algbw|busbw)(?=,)|count"
CASES = {  # name of the file: its text, what reads it, and what its fields are
    "n.graphml": (GRAPHML, topology, r'(?<= )[\w.]+(?==")|(?<=</)\w+|(?<=<)\w+|(?<=attr\.name=")\w+|<data[^>]*>[^<]*</data>'),
    "n.gml": (GML, topology, r"(?<=[\[ ])[a-z]+(?= [\"\d\[])"),
    "n.json": (json.dumps(NODE_LINK, indent=1), topology, r'(?<=")\w+(?=":)|(?<=\n) +"(?:capacity|delay)": "\w+",?'),
    "astra.txt": (ASTRA, lambda path: trace(path, ranks=4), r"DATA|NONE|ALLREDUCE"),
    "n.csv": (LINKS, topology, r"(?m)\A\w+|(?<=,)[a-z]+(?=,|$)"),
    "semicolons.csv": (LINKS.replace(",", ";").replace("a;b", "Source;Target"), topology, r"Source|Target|rate|delay|loss"),
    "links.txt": (LINKS.partition("\n")[2].replace(",", " "), topology, r"(?<= )\S+"),
    "hpcc.txt": (HPCC, topology, r"(?<= )\S+"),
    "simai.txt": (SIMAI_TOPOLOGY, topology, r"(?<= )\S+"),
    "tree.topo": (HTSIM_TOPOLOGY, topology, r"(?m)^[A-Z]\w+"),
    "flows.csv": (ROWS, flows, r"(?m)\A\w+|(?<=,)[a-z_]{2,}(?=,|$)"),
    "flows;.csv": (ROWS.replace(",", ";"), flows, r"(?m)\A\w+|(?<=;)[a-z_]{2,}(?=;|$)"),
    "hpcc_flows.txt": (FLOWS, flows, r"(?<= )\S+"),
    "sizes.csv": ("bytes,cdf\n100,0.5\n900,1\n", sizes, r"bytes|cdf"),
    "rates.csv": ("time,rate\n1us,3Gbps\n9us,7Gbps\n", receiver, r"time|rate"),
    "requests.jsonl": (REQUESTS, read, r'(?<=")\w+(?=":)'),
    "requests.csv": ("arrival_s,input_tokens,output_tokens\n0.5,10,1\n", read, r"(?m)\A\w+|(?<=,)[a-z_]{2,}(?=,|$)"),
    "paths.csv": ("flow,direction,path\n0,there,spine1\n1,both,spine0\n", given_paths, r"flow|direction|path|there|spine\d"),
    "turns.csv": ("switch,from,first\ntor0,host0,1\n", given_paths, r"switch|from|first|tor0|host0"),
    "step.goal": (GOAL, trace, r"(?<![\w/*])[a-z_]+(?=[ :])"),
    "c.cm": (HTSIM, trace, rf"(?m)(?<!# ){NAMES}"),
    "layers.txt": (SIMAI, trace, r"[a-z]\w+(?=:)|model_parallel_NPU_group"),
    "aicb.csv": (AICB, trace, rf"{AICB_FIELDS}"),
    "stages.csv": (AICB_STAGES, trace, rf"{AICB_FIELDS}|pp_stage|rank(?=\d)"),
    "n.log": (NCCL, trace, rf"{NAMES}(?= )"),
    "split.log": (SPLIT, trace, rf"{NAMES}(?= )"),
}
ABSENT = {  # fields that may be absent, which then means what the page says; nobody can know that one was there
    "n.graphml": r"<data key=\"[klmpt]\">|default",
    "links.txt": r"0(?:\.01)?$",
    "hpcc.txt": r"0(?:\.\d+)?$",
    "flows.csv": r"class|priority",
    "flows;.csv": r"class|priority",
    "paths.csv": r"there",
    "step.goal": r"l\d",
}


def said(read, path):
    """What a file is, None if it is refused, and the lines that say what is not read."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return read(path), {str(warning.message) for warning in caught}
        except SpecError as error:
            assert str(error)
            return None, set()


def changes(text, fields):
    """(what, the text) of each field renamed, and removed."""
    for found in re.finditer(fields, text):
        begin, end = found.span()
        if "<data" not in found[0]:
            yield found[0], f"{found[0]} renamed at {begin}", f"{text[:end]}zq{text[end:]}"
        yield found[0], f"{found[0]} removed at {begin}", text[:begin] + text[end:]


@pytest.mark.parametrize("name", CASES)
def test_no_field_is_renamed_or_removed_without_a_word(tmp_path, name):
    text, read, fields = CASES[name]
    expected, lines = said(read, written(tmp_path, text, name))
    assert expected is not None and len(list(re.finditer(fields, text))) > 1
    silent, count = [], 0
    for field, what, changed in changes(text, fields):
        got, more = said(read, written(tmp_path, changed, name))
        count += 1
        optional = "removed" in what and name in ABSENT and re.match(ABSENT[name], field)
        if got is not None and got != expected and not more - lines and not optional:
            silent.append(what)
    assert not silent and count > 1


@pytest.mark.parametrize("column", ["src", "class", "after", "gap_ns", "connection", "operation"])
def test_columns_of_parquet(tmp_path, column):
    made = convert(written(tmp_path, GOAL)).flows
    flows_to_parquet(made, tmp_path / "f.parquet")
    frame = pl.read_parquet(tmp_path / "f.parquet").rename({column: column + "zq"})
    frame.write_parquet(tmp_path / "g.parquet")
    with pytest.raises(SpecError, match=f"{column}zq: unknown column"):
        flows_from_parquet(tmp_path / "g.parquet", star(hosts=6))


def test_keys_of_the_metadata_of_parquet(tmp_path):
    flows_to_parquet(convert(written(tmp_path, GOAL)).flows, tmp_path / "f.parquet")
    frame = pl.read_parquet(tmp_path / "f.parquet")
    frame.write_parquet(tmp_path / "g.parquet", metadata={"penstock": json.dumps({"version": 1, "jobs": [[0, 1, 2]], "tag": 1})})
    with pytest.raises(SpecError, match=r"metadata\.penstock\.tag: unknown key"):
        flows_from_parquet(tmp_path / "g.parquet", star(hosts=6))


def test_attributes_of_chakra(tmp_path):
    """Each of them renamed: said, or refused."""
    given = {"comm_type": 0, "comm_size": 300, "is_cpu_op": False, "pg_name": "all", "stream": 1, "root": 0}
    before = convert(chakra_files(tmp_path, *([node(1, 7, **given)] for _ in range(2))))
    assert before.notes == {}
    for name in given:
        other = {name + "zq" if key == name else key: value for key, value in given.items()}
        folder = chakra_files(tmp_path, *([node(1, 7, **other)] for _ in range(2)))
        if name in ("comm_type", "comm_size"):
            assert said(trace, folder)[0] is None
        else:
            assert convert(folder).notes == {f"the attribute {name}zq of nodes": 2}


def test_groups_that_no_node_names(tmp_path):
    folder = chakra_files(tmp_path, *([node(1, 7, comm_type=0, comm_size=300, pg_name="a")] for _ in range(2)))
    groups = written(tmp_path, json.dumps({"a": [0, 1], "b": [1]}), "groups.json")
    assert convert(folder, groups=groups).notes == {f"the group b of {groups}, which no node names": 1}


# What means the same


@pytest.mark.parametrize(
    "rate", ["rate", "Rate", "bandwidth", "BANDWIDTH", "capacity", "speed", "bw", "data_rate", "LinkSpeedRaw"]
)
@pytest.mark.parametrize("delay", ["delay", "latency", "Latency", "propagation delay"])
@pytest.mark.parametrize("name", ["n.graphml", "n.csv"])
def test_names_that_mean_the_same_are_read(tmp_path, name, rate, delay):
    text = CASES[name][0].replace("bandwidth", rate).replace("latency", delay)
    if name == "n.csv":
        text = text.replace("rate", rate, 1).replace("delay", delay, 1)
    topo, lines = said(topology, written(tmp_path, text, name))
    assert not lines and sorted(set(topo.links["ps_per_byte"])) == [200, 800]
    assert sorted(set(topo.links["delay_ps"])) == [500_000, 2_000_000]


@pytest.mark.parametrize(
    "names, cells, expected",
    [
        ("bandwidth_gbps,latency_us", "40,2", (200, 2_000_000)),
        ("Speed (Mbps),delay-ns", "40000,2000", (200, 2_000_000)),
        ("bandwidth,latency", "40 Gbit,2 microseconds", (200, 2_000_000)),
        ("capacity,delay", "40G,0.002 msec", (200, 2_000_000)),
        ("rate,latency", "40 Gb/s,2000 ns", (200, 2_000_000)),
        ("rate,delay", "40gbps,2e-6 sec", (200, 2_000_000)),
        ("rate,bandwidth", "40Gbps,40000 Mbit/s", (200, 1_000_000)),
    ],
)
def test_units_of_others(tmp_path, names, cells, expected):
    path = written(tmp_path, f"source,target,{names}\nh0,s0,{cells}\nh1,s0,{cells}\n", "n.csv")
    topo, lines = said(topology, path)
    assert not lines and set(zip(topo.links["ps_per_byte"].tolist(), topo.links["delay_ps"].tolist())) == {expected}


@pytest.mark.parametrize(
    "header, cells, says",
    [
        ("rate,bandwidth", "40Gbps,10Gbps", '2: bandwidth = "10Gbps": contradicts rate = 40Gbps; both mean the same: keep one'),
        ("Rate,rate", "40Gbps,10Gbps", '2: rate = "10Gbps": contradicts Rate = 40Gbps'),
        ("delay,latency", "1us,2us", '2: latency = "2us": contradicts delay = 1us'),
        ("bandwidth", "40GBps", '2: bandwidth = "40GBps": unknown unit "GBps"'),
        ("capacity", "40", '2: capacity = "40": the unit is missing'),
        ("ratte", "40Gbps", '1: ratte: unknown column; did you mean "rate"?'),
        ("rate,rate", "1Gbps,1Gbps", "1: rate: the column occurs twice"),
        ("source", "1Gbps", "1: source: the column occurs twice"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, header, cells, says):
    path = written(tmp_path, f"a,b,{header}\nh0,s0,{cells}\nh1,s0,{cells}\n", "n.csv")
    with pytest.raises(SpecError) as caught:
        topology(path)
    assert str(caught.value).startswith(f"{path}:{says}")


def test_attributes_that_mean_nothing_are_named_with_their_count(tmp_path):
    text = GRAPHML.replace("bandwidth", "colour").replace('<node id="h0"/>', '<node id="h0" x="1"><desc>?</desc></node>')
    topo, lines = said(topology, path := written(tmp_path, text, "n.graphml"))
    assert topo.links["ps_per_byte"].tolist() == [80, 80, 80]
    assert lines == {f"{path}: not read: attributes of links: colour (3); XML: x of <node> (1), <desc> (1)"}


def test_links_without_a_rate_beside_others_that_have_one_are_said(tmp_path):
    path = written(tmp_path, "h0 s0 40Gbps\nh1 s0\n", "n.txt")
    assert said(topology, path)[1] == {f"{path}: 1 of 2 links without a rate take that of the network, 100Gbps"}
    assert said(topology, written(tmp_path, "h0 s0\nh1 s0\n", "n.txt"))[1] == set()


def test_the_bandwidth_of_a_graph_is_what_runs(tmp_path):
    """10 Gbit/s in the middle: 10 MB in frames of 1048 B, three hops of store and forward, by hand."""
    keys = [f'<key id="{name[0]}" for="edge" attr.name="{name}" attr.type="string"/>' for name in ("bandwidth", "latency")]
    nodes = [f'<node id="{name}"/>' for name in ("gpu0", "gpu1", "sw0", "sw1")]
    edges = [("gpu0", "sw0", "100 Gbps", "500 ns"), ("gpu1", "sw1", "100 Gbps", "500 ns"), ("sw0", "sw1", "10 Gbps", "5000 ns")]
    form = '<edge source="{}" target="{}"><data key="b">{}</data><data key="l">{}</data></edge>'
    parts = [*keys, '<graph edgedefault="undirected">', *nodes, *(form.format(*edge) for edge in edges), "</graph>"]
    text = f'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{"".join(parts)}</graphml>'
    topo = topology(written(tmp_path, text, "n.graphml"))
    run = ps.simulate(topo, ps.flow_list(topo, [("gpu0", "gpu1", "10MB")]), "pfc")
    frame = 8 * 1048  # bits
    assert run.flows["fct_ns"][0] == pytest.approx(10_000 * frame / 10 + 2 * frame / 100 + 6000, abs=0.01)


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_separators_of_columns(tmp_path, separator):
    def read(reader, text):
        return reader(written(tmp_path, text.replace(",", separator), "x.csv"))

    assert read(topology, LINKS.replace("a,b", "source,target")) == topology(written(tmp_path, LINKS, "n.csv"))
    assert read(flows, "# with, commas\n" + ROWS) == flows(written(tmp_path, ROWS, "n.csv"))
    assert read(sizes, "bytes,cdf\n100,0.5\n900,1\n")["points"] == 2
    assert len(read(receiver, "time,rate\n1us,3Gbps\n9us,7Gbps\n")) == 2


@pytest.mark.parametrize("text", ["src;dst;bytes;start_ns\n0;1;500;0,5\n", "src,dst;bytes,start_ns\n0,1,500,0\n"])
def test_separators_that_do_not_fit_are_refused(tmp_path, text):
    assert said(flows, written(tmp_path, text, "n.csv"))[0] is None
