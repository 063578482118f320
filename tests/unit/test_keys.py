"""The documented keys are those of the code, and what is documented as out of range is refused with the name of its key."""

from collections.abc import Iterator

import pytest

from penstock_net import topology, workload
from penstock_net.errors import SpecError
from penstock_net.sim.config import HostConfig, InNetwork, Measure
from penstock_net.sim.paths import read_paths
from penstock_net.spec import keys, parse_spec
from penstock_net.spec.meanings import REQUIRED_KEY
from penstock_net.spec.tables import SECTIONS
from penstock_net.topology import star
from penstock_net.workload import SizeDistribution, flow_list, flows_from_csv, requests

UNITS = {"time": "us", "delay": "us", "size": "B", "rate": "bps"}
HALF = {"time": 0.5, "delay": 0.5, "size": 1, "rate": 1, "ns": 0.5, "float": 0.5}
WORKLOADS = {
    "inference": {"rate": 20_000.0, "input_tokens": 5, "output_tokens": 1},
    "flows": {"file": "flows.csv"},
    "list": {"flows": [[0, 1, "1KB"]]},
    "poisson": {"load_on": "host", "load": 0.5},
    "incast": {"load_on": "host", "fan_in": 2},
}


def written(kind: str, number: float) -> object:
    return f"{number}{UNITS[kind]}" if kind in UNITS else number


def beyond(row: keys.Row) -> Iterator[object]:
    """Values just outside the range of a key."""
    step = HALF.get(row.kind, 1)
    if row.range.startswith(">"):
        relation, low = row.range.split()
        yield written(row.kind, int(low) - (step if relation == ">=" else 0))
    elif row.range:
        low, high = row.range.split("..")
        yield written(row.kind, int(low) - step)
        yield written(row.kind, int(high[1:]) if high[0] == "<" else int(high) + step)


NUMBERS = [
    pytest.param(table, row.key, value, id=f"{table}.{row.key}={value}")
    for table in keys.tables()
    for row in keys.rows(table)
    for value in beyond(row)
]


def spec(**tables):
    """A spec with these tables."""
    base = {
        "run": {"duration": "1ms"},
        "topology": {"kind": "star", "hosts": 4},
        "scheme": {"name": "fifo"},
        "workload": {"kind": "list", "flows": [[0, 1, "1KB"]]},
    }
    return parse_spec({**base, **tables})


def use(table: str, key: str, value: object, folder) -> None:
    """Reads an input whose `key` has this value; all others are as usual."""
    section, _, kind = table.partition(".")
    if table == "run":
        spec(run={"duration": "1ms", key: value}).duration_ps  # noqa: B018
    elif table in ("topology", "topology.file") or kind in topology.KINDS:
        name = kind or "star"
        (folder / "net.txt").write_text("h0 s0\nh1 s0\n")
        given = {"rate": "1Gbps", "delay": "1us", "file": str(folder / "net.txt")} if name == "file" else {"kind": name}
        spec(topology={**given, key: value}).build_topology()
    elif section == "workload" and kind in workload.KINDS:
        (folder / "flows.csv").write_text("src,dst,bytes,start_ns\n0,1,10,0\n")
        given = {"kind": kind, **WORKLOADS.get(kind, {})}
        given = {k: str(folder / v) if k == "file" else v for k, v in given.items()}
        extra = {"arrivals": "lognormal"} if key == "sigma" else {}
        made = spec(workload={**given, **extra, key: value})
        made.build_flows(made.build_topology())
    elif table in ("changes", "receivers"):
        usual = {
            "changes": {"time": "1us", "a": "host0", "b": "switch0", "rate": "1Gbps"},
            "receivers": {"host": 0, "rate": "1Gbps"},
        }[table]
        if table == "changes" and key in ("every", "until"):
            usual |= {"every": "9us", "until": "1ms"}
        elif key == "on_down":
            usual |= {"up": False}
        elif key in ("on", "off", "until"):
            usual |= {"on": "1us", "off": "1us", "until": "1ms"}
        spec(topology={"kind": "star", table: [{**usual, key: value}]}).build_topology()
    elif table == "llr":
        topology.star(hosts=4).with_llr(**{key: value})
    elif table == "vswitches":
        spec(topology={"kind": "star", table: {key: value}}).build_topology()
    elif table == "list":
        flows = [{"src": 1, "dst": 0, "bytes": 10}, {"src": 0, "dst": 1, "bytes": 10, "after": [0], key: value}]
        made = spec(workload={"kind": "list", "flows": flows})
        made.build_flows(made.build_topology())
    elif table in ("measure", "host", "in_network"):
        {"measure": Measure, "host": HostConfig, "in_network": InNetwork}[table](**{key: value})
    else:
        use_file(table, key, value, folder)


def use_file(table: str, key: str, value: object, folder) -> None:
    path = folder / "file.csv"
    rows = {
        "flows": {
            "src": 0,
            "dst": 1,
            "bytes": 10,
            "start_ns": 1,
            "id": "a",
            "after": "a" if key == "gap_ns" else "",
            "gap_ns": 0,
        },
        "sizes": {"bytes": 10, "cdf": 1},
        "trace": {"time": "1us", "rate": "1Gbps"},
        "requests": {"arrival_s": 1, "input_tokens": 5, "output_tokens": 1},
        "paths": {"flow": 0, "direction": "both", "path": ""},
        "turns": {"switch": "switch0", "from": "host0", "first": 0},
        "links": {"a": "h0", "b": "s0", "rate": "1Gbps", "delay": "1us"},
    }
    if table in rows:
        row = {**rows[table], key: value}
        path.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    if table == "flows":
        flows_from_csv(path, star(hosts=4))
    elif table == "sizes":
        SizeDistribution.load(path)
    elif table == "trace":
        spec(topology={"kind": "star", "receivers": [{"host": 0, "trace": str(path)}]}).build_topology()
    elif table == "requests":
        requests.read(path)
    elif table == "links":
        topology.from_file(path)
    elif table in ("paths", "turns"):
        topo = star(hosts=4)
        read_paths(path, topo, flow_list(topo, [(0, 1, 10)]))
    else:
        of = table.partition(".")[2]
        data = f'<data key="k">{value}</data>'
        node, edge = (data if of == part else "" for part in ("node", "edge"))
        (folder / "net.graphml").write_text(
            f'<graphml><key id="k" for="{of}" attr.name="{key}" attr.type="string"/><graph edgedefault="undirected">'
            f'<node id="h0"/><node id="s0">{node}</node><node id="h1"/>'
            f'<edge source="h0" target="s0">{edge}</edge><edge source="h1" target="s0"/></graph></graphml>'
        )
        topology.from_file(folder / "net.graphml", rate="1Gbps", delay="1us")


@pytest.mark.parametrize("table, key, value", NUMBERS)
def test_what_is_out_of_range_is_refused(table, key, value, tmp_path):
    with pytest.raises(SpecError) as error:
        use(table, key, value, tmp_path)
    assert error.value.path.split(".")[-1] == key or f"{key} =" in str(error.value)


@pytest.mark.parametrize("table", keys.tables())
def test_every_key_is_documented(table):
    for row in keys.rows(table):
        assert row.text and row.kind.split()[0] in (*keys.KINDS, "choice")


def test_every_section_of_a_spec_has_a_table():
    assert {name.partition(".")[0] for name in keys.tables()} >= set(SECTIONS)
    assert {f"topology.{kind}" for kind in topology.KINDS} | {f"workload.{kind}" for kind in workload.KINDS} <= set(keys.tables())


def test_a_key_without_documentation_is_an_error(monkeypatch):
    monkeypatch.setattr(keys, "OPTIONAL", ("class", "colour"))
    with pytest.raises(
        ValueError,
        match="flows: colour not documented; priority, id, after, gap_ns, connection, rate_bps, window_bytes, open_loop unknown",
    ):
        keys.rows("flows")


def test_defaults_and_meanings_come_from_the_code():
    rows = {row.key: row for row in keys.rows("workload.poisson")}
    assert rows["load"].default == "0.6" and rows["seed"].default == "" and rows["class"].default == '"poisson"'
    assert {row.key: row.default for row in keys.rows("run")}["duration"] == REQUIRED_KEY
    assert {row.key: row.text for row in keys.rows("host")}["mtu"] == "payload bytes of a full packet"
