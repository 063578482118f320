"""What an accepted input says by an independent reading of docs/formats.md (readings.py) is what the simulator is given."""

import contextlib
import io
from collections import Counter

import numpy as np
import pytest
import readings
from drawn import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from penstock_net.errors import SpecError
from penstock_net.sim import builder
from penstock_net.spec import parse_spec
from penstock_net.topology.changes import SwitchChange

RATES = [20, 32, 80, 160, 200, 800]  # ps per byte: 400 to 10 Gbit/s
KINDS = ["leaf_spine", "fat_tree", "clos", "dumbbell", "star", "parking_lot", "sites", "rails", "planes", "dragonfly", "torus"]


def spelled(value, what):
    """Strategy of TOML of a whole number of ps, bytes or bit/s: in any unit in which it can be written, or as a number."""
    texts = []
    for unit, factor in readings.UNITS[what].items():
        digits = f"{value / factor:.15f}".rstrip("0").rstrip(".")
        if readings.Fraction(digits) * factor == value:
            texts += [f'"{digits}{unit}"', f'"{digits} {unit}"']
    plain = readings.Fraction(value, readings.PLAIN[what])
    number = str(plain) if plain.denominator == 1 else repr(float(plain))
    if readings.Fraction(number) == plain and (what != "time" or value == 0 or value >= 10**6):
        texts.append(number)
    return st.sampled_from(texts)


def times(low=1, high=3_000_000):
    return st.integers(low, high).map(lambda n: n * 1000).flatmap(lambda value: spelled(value, "time"))


def sizes(low, high):
    return st.integers(low, high).flatmap(lambda value: spelled(value, "size"))


def rates():
    return st.sampled_from(RATES).flatmap(lambda each: spelled(8 * 10**12 // each, "rate"))


BUFFER = sizes(30_000_000, 64_000_000) | st.just('"0B"') | spelled(2**25, "size")
COMMON = {"rate": rates(), "delay": times(200, 2000), "buffer": BUFFER}
BELOW = {  # own keys of a kind
    "leaf_spine": {"uplink_rate": rates(), "uplink_delay": times(200, 2000), "spines": st.integers(1, 3).map(str)},
    "fat_tree": {"uplink_rate": rates()},
    "clos": {"uplink_rate": rates()},
    "dumbbell": {"left": st.integers(1, 3).map(str), "right": st.integers(1, 3).map(str), "bottleneck_rate": rates()},
    "star": {},
    "parking_lot": {"hops": st.integers(1, 3).map(str), "cross": st.integers(0, 2).map(str), "bottleneck_rate": rates()},
    "sites": {
        **{"uplink_rate": rates(), "long_rate": rates(), "long_delay": times(2000, 9000)},
        **{"gateway_buffer": BUFFER, "spines": st.integers(1, 2).map(str)},
    },
    "rails": {
        **{"uplink_rate": rates(), "uplink_delay": times(200, 2000), "spines": st.integers(1, 2).map(str)},
        **{"planes": st.integers(1, 2).map(str), "ports": st.integers(1, 2).map(str)},
        **{"scale_up_rate": rates()},
    },
    "planes": {"uplink_rate": rates(), "uplink_delay": times(200, 2000), "spines": st.integers(1, 2).map(str)},
    "dragonfly": {"local_rate": rates(), "global_rate": rates(), "global_delay": times(200, 2000)},
    "torus": {"link_rate": rates(), "hosts_per_switch": st.integers(1, 2).map(str)},
}


@st.composite
def shapes(draw):
    """The lines of a [topology] that is small."""
    kind = draw(st.sampled_from(KINDS))
    given = {key: draw(value) for key, value in {**COMMON, **BELOW[kind]}.items() if draw(st.booleans())}
    n = draw(st.integers(1, 3))
    if kind == "leaf_spine":
        given |= {"tors": n, "hosts": n * draw(st.integers(2, 3))}
    elif kind == "fat_tree":
        given |= draw(st.sampled_from([{"k": 4}, {"k": 2}, {"hosts": 16}]))
    elif kind == "clos":
        aggs = draw(st.integers(1, 2))
        shape = {"pods": n, "tors": draw(st.integers(1, 2)), "aggs": aggs, "cores": aggs * draw(st.integers(1, 2))}
        given |= {**shape, "hosts_per_tor": 2}
    elif kind == "star":
        given["hosts"] = n + 1
    elif kind == "sites":
        tors = draw(st.integers(1, 2))
        given |= {"sites": n, "tors": tors, "hosts_per_site": tors * 2}
    elif kind == "rails":
        given |= {"servers": 2 * n, "gpus": draw(st.integers(1, 2))} | draw(st.sampled_from([{}, {"segment": 2}, {"segment": n}]))
    elif kind == "planes":
        given |= {"planes": n, "tors": 2, "hosts": 4}
    elif kind == "dragonfly":
        given |= draw(st.sampled_from([{"a": 2, "h": 1}, {"a": 3, "h": 2}, {"a": 4, "h": 1, "groups": 3}])) | {"p": n}
    elif kind == "torus":
        given["dims"] = draw(st.lists(st.integers(2, 4), min_size=1, max_size=n))
    if draw(st.sampled_from([False] * 4 + [True])):
        given["vswitches"] = f"{{ apps = {draw(st.integers(1, 2))}, rate = {draw(rates())}, delay = {draw(times(200, 900))} }}"
    if draw(st.sampled_from([False] * 4 + [True])):
        given["loss"] = draw(st.sampled_from(["0.001", "1e-3", "0.25", "0"]))
    return "\n".join(["[topology]", f'kind = "{kind}"', *(f"{key} = {value}" for key, value in given.items())])


HOST = {
    **{"mtu": st.integers(500, 4000).map(str), "header": st.integers(0, 80).map(str), "ack": st.integers(40, 90).map(str)},
    **{"rto": times(3_000_000, 9_000_000), "ack_priority": st.sampled_from(['"control"', '"data"'])},
}
PARAMETERS = {  # of pfc: how a value is written, and what it is by docs/schemes.md
    "alpha": (st.sampled_from(["0.5", "1", "0.25", "2e0"]), float),
    "xon": (sizes(0, 9000), readings.size),
    "headroom": (st.sampled_from(["3.5", "4", "2"]), float),
    "reserve": (sizes(0, 9000), readings.size),
    "refresh": (times(10_000, 90_000), readings.ps),
    "watchdog": (times(10_000_000, 90_000_000), readings.ps),
}


@st.composite
def schemes(draw):
    """The lines of a [scheme] of pfc or fifo, with parameters in their forms."""
    name = draw(st.sampled_from(["pfc", "fifo"]))
    chosen = {key: draw(how) for key, (how, _) in PARAMETERS.items() if name == "pfc" and draw(st.booleans())}
    form = draw(st.sampled_from(["{}", "pfc.{}", "table"]))
    lines = ["[scheme]", f'name = "{name}"', *(["[scheme.pfc]"] if form == "table" and chosen else [])]
    return "\n".join(lines + [f"{'{}' if form == 'table' else form} = {{}}".format(key, value) for key, value in chosen.items()])


@st.composite
def lists(draw, network):
    """The lines of a [[workload]] of kind = "list": flows far apart in time, some of which wait for the one before."""
    rows, before = [], ()
    for i in range(draw(st.integers(1, 4))):
        src, dst = draw(st.permutations(network.hosts))[:2]
        payload = draw(sizes(1, 12_000))
        start = draw(spelled((i + 1) * 10**10 + draw(st.integers(0, 10**6)) * 1000, "time"))
        ends = [f'"{end}"' if draw(st.booleans()) else str(network.hosts.index(end)) for end in (src, dst)]
        waits = bool(rows) and src in before and draw(st.booleans())
        if waits or draw(st.booleans()):
            cells = {"src": ends[0], "dst": ends[1], "bytes": payload}
            if waits:
                cells["after"] = f"[{i - 1}]"
            elif rows or draw(st.booleans()):
                cells["start"] = start
            if waits and (src == before[1] or draw(st.booleans())):
                cells["gap"] = draw(times(1_000_000, 2_000_000))
            more = {"class": '"rpc"', "priority": str(draw(st.integers(0, 7)))}
            cells |= {key: value for key, value in more.items() if draw(st.booleans())}
            rows.append("{ " + ", ".join(f"{key} = {value}" for key, value in cells.items()) + " }")
        else:
            rows.append(f"[{ends[0]}, {ends[1]}, {payload}, {start}]")
        before = (src, dst)
    more = draw(st.sampled_from(["", 'class = "mice"\n', "priority = 3\n"]))
    return f'[[workload]]\nkind = "list"\n{more}flows = [\n' + "".join(f"    {row},\n" for row in rows) + "]"


@st.composite
def changes(draw, network):
    """A line of [topology] with changes after the flows, at most one for each link or switch and direction."""
    rows, at = [], 2 * 10**11
    for a, b in draw(st.lists(st.sampled_from(sorted(network.links)), unique=True, max_size=3)):
        at += 10**6 * draw(st.integers(1, 9))
        what = f'a = "{b}", b = "{a}"'
        what += draw(st.sampled_from([", up = false", f", rate = {draw(rates())}", f', rate = {draw(rates())}, of = "{a}"']))
        rows.append(f"{{ time = {draw(spelled(at, 'time'))}, {what} }}")
    if draw(st.booleans()):
        rows.append(f'{{ time = "0.3s", switch = "{draw(st.sampled_from(sorted(network.buffers)))}", up = false }}')
    return f"changes = [{', '.join(draw(st.permutations(rows)))}]\n"


@st.composite
def experiments(draw):
    """TOML text of a whole spec."""
    topology = draw(shapes())
    network = readings.Network(readings.tomllib.loads(topology)["topology"])
    host = {key: draw(value) for key, value in HOST.items() if draw(st.booleans())}
    run = [f"duration = {draw(spelled(10**11, 'time'))}", f"seed = {draw(st.integers(0, 2**63 - 1))}"]
    run += draw(st.sampled_from([[], ["control_loss = 0.125"], ["threads = 2"], ["drain = true"]]))
    parts = ["\n".join(["[host]", *(f"{key} = {value}" for key, value in host.items())]), "\n".join(["[run]", *run])]
    parts += [f"{topology}\n{draw(changes(network))}", draw(schemes()), draw(lists(network))]
    return "\n".join(draw(st.permutations(parts)))


def given_to_the_core(spec, topo, flows, monkeypatch):
    """The arrays and numbers with which a run of the spec builds its core, and the run."""
    found = []
    make = builder.Simulation
    with monkeypatch.context() as patched:
        patched.setattr(builder, "Simulation", lambda *what: found.append(what) or make(*what))
        run = spec.simulate(spec.schemes[0], topo, flows)
    return *found[0], run


def check_network(topo, expected):
    assert list(topo.names[: topo.hosts]) == expected.hosts
    names = np.array(topo.names)
    ends = zip(names[topo.links["a"]].tolist(), names[topo.links["b"]].tolist())
    rows = list(zip(ends, topo.links["ps_per_byte"].tolist(), topo.links["delay_ps"].tolist(), topo.links["loss"].tolist()))
    assert {tuple(sorted(link)): (rate, delay) for link, rate, delay, _ in rows} == expected.links and len(rows) == len(
        expected.links
    )
    assert {tuple(sorted(link)): loss for link, _, _, loss in rows if loss} == {k: v for k, v in expected.loss.items() if v}
    assert dict(zip(topo.names[topo.hosts :], topo.buffer_bytes.tolist())) == expected.buffers
    found = []
    for change in topo.changes:
        if isinstance(change, SwitchChange):
            found.append((change.time_ps, names[change.switch], change.up, None, None))
        else:
            link = tuple(sorted(names[[topo.links[end][change.link] for end in "ab"]].tolist()))
            of = None if change.node is None else names[change.node]
            found.append((change.time_ps, link, change.up, change.ps_per_byte, of))
    assert found == expected.changes()


def check_flows(flows, topo, expected):
    """As a multiset, and what waits for what by source, destination and bytes."""
    names, waits = np.array(topo.names), np.diff(flows.after[0]) if flows.after else np.zeros(len(flows), int)
    classes = np.array(flows.classes)[flows.class_id] if len(flows) else []
    columns = (flows.start_ps, names[flows.src], names[flows.dst], flows.bytes, classes, flows.priority, flows.gap_ps, waits)
    rows = list(zip(*(np.asarray(column).tolist() for column in columns)))
    assert Counter(rows) == Counter(flow.row() for flow in expected)
    edges = list(zip(*(part.tolist() for part in flows.edges()))) if flows.after else []
    of_file = [(flow.row(), expected[parent].row()) for flow in expected for parent in flow.after]
    assert Counter((rows[child], rows[parent]) for child, parent in edges) == Counter(of_file)


@given(text=experiments())
@examples(20)
def test_a_spec_is_simulated_as_the_page_says(text):
    table = readings.tomllib.loads(text)
    network = readings.Network(table["topology"])
    spec = parse_spec(text)
    topo = spec.build_topology()
    check_network(topo, network)
    expected = list(readings.of_list(table["workload"][0], network))
    flows = spec.build_flows(topo)
    check_flows(flows, topo, expected)
    with pytest.MonkeyPatch.context() as monkeypatch, contextlib.redirect_stderr(io.StringIO()):
        shape, numbers, composition, run = given_to_the_core(spec, topo, flows, monkeypatch)
    host = {**readings.defaults("host"), **table.get("host", {})}
    assert (numbers["mtu"], numbers["header"], numbers["ack"]) == (host["mtu"], host["header"], host["ack"])
    assert numbers["rto"] == readings.ps(host["rto"]) and numbers["ack_lane"] == (host["ack_priority"] == "data")
    assert numbers["seed"] == table["run"]["seed"] % 2**32 and numbers["sample"] == readings.ps("2us")
    assert shape["buffers"] == [network.buffers[name] for name in topo.names[topo.hosts :]]
    control = table["run"].get("control_loss", 0)
    for a, port_a, b, port_b, rate, delay, _, loss, control_loss, _ in shape["links"]:
        link = tuple(sorted((topo.names[a], topo.names[b])))
        assert (rate, delay) == network.links[link] and (port_a, port_b) >= (0, 0)
        lost = network.loss.get(link, 0)
        assert (loss, control_loss) == tuple(round(p * 2**31) for p in (lost, 1 - (1 - lost) * (1 - control)))
    own = table["scheme"].get("pfc", {}) | {key: value for key, value in table["scheme"].items() if key in PARAMETERS}
    values = {name: value for _, name, _, value in composition.parts[0].settings()}
    assert {key: values[key] for key in own} == {key: PARAMETERS[key][1](value) for key, value in own.items()}
    if any(network.loss.values()):
        return
    done = []
    numbered = sorted(range(len(expected)), key=lambda i: expected[i].start)  # flows of equal start keep their order
    for i, flow in enumerate(expected):
        ends = [done[parent][expected[parent].src == flow.src] + flow.gap for parent in flow.after]
        began = max([flow.start, *ends])
        done.append(readings.lone_flow(flow.bytes, network.path(flow.src, flow.dst), host, began))
        row = run.flows.row(numbered.index(i), named=True)
        assert (round(1000 * row["start_ns"]), round(1000 * row["fct_ns"])) == (began, done[i][0] - began)


def in_a_cell(strategy):
    """What is written with a unit, without the quotes of TOML and without a space."""
    return strategy.filter(lambda text: text.startswith('"')).map(lambda text: text.strip('"').replace(" ", ""))


@st.composite
def graphs(draw, form):
    """The text of a graph in a file: a tree of switches, with one more link, and hosts; and lines of [topology]."""
    switches = [f"{draw(st.sampled_from(['s', 'sw-', 'r2x']))}{i}" for i in draw(st.permutations(range(1, 12)))[:3]]
    pairs = [(switches[1], switches[0]), (switches[1], switches[2]), (switches[2], switches[0])]
    pairs += [(f"h{i}", draw(st.sampled_from(switches))) for i in range(draw(st.integers(2, 12)))]
    pairs = [pair[:: draw(st.sampled_from([1, -1]))] for pair in draw(st.permutations(pairs))]
    rows = []
    for a, b in pairs:
        cells = {"rate": draw(in_a_cell(rates())), "delay": draw(in_a_cell(times(200, 2000)))}
        rows.append({"a": a, "b": b, **cells, "loss": draw(st.sampled_from(["0", "1e-3"]))})
    table = {"rate": draw(rates()), "delay": draw(times(200, 2000)), "buffer": draw(BUFFER)}
    keys = ["a", "b", *["rate", "delay", "loss"][: draw(st.integers(0, 3))]]
    if form == "csv":
        columns = draw(st.permutations(keys))
        lines = [",".join(columns), *(",".join(row[key] for key in columns) for row in rows)]
    elif form == "txt":
        lines = ["# a network", *("  ".join(row[key] for key in keys) + draw(st.sampled_from(["", " # x"])) for row in rows), ""]
    else:
        lines = draw(graphml(rows, switches, keys[2:]))
    return "\n".join(lines), [f"{key} = {value}" for key, value in table.items()]


@st.composite
def graphml(draw, rows, switches, keys):
    """The lines of GraphML; a rate may be the default of its key, or a number of bit/s."""
    kinds = {key: draw(st.sampled_from(["string", "double", "long"] if key == "rate" else ["string"])) for key in keys}
    default = draw(in_a_cell(rates())) if "rate" in keys and draw(st.booleans()) else None
    lines = ['<?xml version="1.0"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
    lines.append(
        "".join(
            f'<key id="{key}" for="node" attr.name="{name}" attr.type="string"/>'
            for key, name in (("n0", "kind"), ("n1", "buffer"))
        )
    )
    for key, kind in kinds.items():
        inside = f"<default>{default}</default>" if key == "rate" and default and kind == "string" else ""
        lines.append(f'<key id="{key}" for="edge" attr.name="{key}" attr.type="{kind}">{inside}</key>')
    lines.append('<graph edgedefault="undirected">')
    for name in draw(st.permutations(sorted({row[end] for row in rows for end in "ab"}))):
        data = '<data key="n0">switch</data>' if name in switches and draw(st.booleans()) else ""
        data += f'<data key="n1">{draw(in_a_cell(sizes(30_000_000, 40_000_000)))}</data>' if name in switches else ""
        lines.append(f'<node id="{name}">{data}</node>')
    for row in rows:
        shown = dict(row)
        if kinds.get("rate") in ("double", "long"):
            shown["rate"] = str(int(readings.number(row["rate"], "rate")))
        given = [key for key in keys if not (key == "rate" and draw(st.booleans()))]
        data = "".join(f'<data key="{key}">{shown[key]}</data>' for key in given)
        lines.append(f'<edge source="{row["a"]}" target="{row["b"]}">{data}</edge>')
    return [*lines, "</graph>", "</graphml>"]


@pytest.mark.parametrize("form", ["csv", "txt", "graphml"])
def test_a_graph_is_read_as_the_page_says(form, tmp_path):
    @given(graphs(form))
    @examples(12)
    def check(drawn):
        text, lines = drawn
        (tmp_path / f"g.{form}").write_text(text)
        spec = "\n".join(
            ['[run]\nduration = "1ms"\n[topology]', f'file = "g.{form}"', *lines, '[workload]\nkind = "permutation"']
        )
        table = readings.tomllib.loads(spec)["topology"]
        check_network(parse_spec(spec, base=tmp_path).build_topology(), readings.Network(table, tmp_path))

    check()


@st.composite
def flow_files(draw, network):
    """The lines of a CSV file of flows, and those of its table in the spec."""
    names = draw(st.permutations(["src", "dst", "bytes", "start_ns", "class", "priority", "id", "after", "gap_ns"]))
    columns = [name for name in names if name in ("src", "dst", "bytes", "start_ns") or draw(st.booleans())]
    with_gap = {"id", "after", "gap_ns"} <= set(columns)
    columns = [name for name in columns if with_gap or name not in ("id", "after", "gap_ns")]
    rows = []
    for i in range(draw(st.integers(1, 6))):
        src, dst = draw(st.permutations(network.hosts))[:2]
        before = [row for row in rows if src in (row["src name"], row["dst name"])]
        waits = draw(st.sampled_from([row["id"] for row in before])) if before and with_gap and draw(st.booleans()) else ""
        picosecond = draw(st.sampled_from(["", ".5", ".001", ".250"]))
        rows.append(
            {
                **{"src name": src, "dst name": dst, "id": f"f{9 - i}", "after": waits},
                "src": src if draw(st.booleans()) else str(network.hosts.index(src)),
                "dst": dst if draw(st.booleans()) else str(network.hosts.index(dst)),
                "bytes": str(draw(st.integers(1, 10**6))),
                "start_ns": f"{draw(st.integers(0, 1_200_000))}{picosecond}" if not waits else "0",
                "class": draw(st.sampled_from(["", "rpc", "a b"])),
                "priority": draw(st.sampled_from(["", "0", "7"])),
                "gap_ns": draw(st.sampled_from(["", "5", "0.125"])) if waits else "",
            }
        )
    if with_gap:
        rows = [{**row, "start_ns": str(int(float(row["start_ns"])) % 900_000)} for row in rows]
    lines = [draw(st.sampled_from(["# flows", ""])), ",".join(columns), *(",".join(row[key] for key in columns) for row in rows)]
    more = [draw(st.sampled_from(["", 'class = "x"', "priority = 5"]))]
    more += [f"start = {draw(times(0, 90))}"] if not with_gap and draw(st.booleans()) else []
    return "\n".join(line for line in lines if line), more


def test_a_file_of_flows_is_read_as_the_page_says(tmp_path):
    topology = '[topology]\nkind = "star"\nhosts = 3'
    network = readings.Network(readings.tomllib.loads(topology)["topology"])

    @given(flow_files(network))
    @examples(60)
    def check(drawn):
        text, lines = drawn
        (tmp_path / "f.csv").write_text(text)
        table = "\n".join(['[[workload]]\nkind = "flows"\nfile = "f.csv"', *lines])
        expected = list(readings.of_csv(readings.tomllib.loads(table)["workload"][0], network, tmp_path, 10**9))
        if not expected:
            return
        spec = parse_spec(f'[run]\nduration = "1ms"\n{topology}\n{table}', base=tmp_path)
        topo = spec.build_topology()
        check_flows(spec.build_flows(topo), topo, expected)

    check()


SHARED = {"class": st.just('"mine"'), "priority": st.integers(0, 7).map(str), "start": times(0, 90)}
HOSTS = st.sampled_from(["4", "[0, 2, 5]", '["host1", 3, "host4", 7]', '["host7", "host2"]'])
GENERATED = {  # own keys of a kind
    "permutation": {"bytes": sizes(1, 10**6), "seed": st.integers(0, 9).map(str), "hosts": HOSTS},
    "all_to_all": {"bytes": sizes(1, 10**6), "hosts": HOSTS},
    "ring_all_reduce": {"bytes": sizes(1000, 10**6), "hosts": HOSTS, "chunks": st.integers(1, 2).map(str)},
    "incast": {
        **{"fan_in": st.integers(1, 4).map(str), "total": sizes(1000, 10**6), "every": times(10_000, 90_000), "hosts": HOSTS},
        **{"duration": times(1, 500_000), "receivers": HOSTS, "order": st.sampled_from(['"random"', '"in_turn"'])},
    },
    "poisson": {
        **{"duration": times(400_000, 500_000), "hosts": HOSTS, "exclude": st.just("[2]"), "round_up": st.just("1460")},
        **{"pairs": st.just('"inter_rack"'), "interpolate": st.just("false"), "load_on": st.just('"host"')},
    },
}


@st.composite
def generated(draw):
    """TOML of a [[workload]] that draws its flows."""
    kind = draw(st.sampled_from(sorted(GENERATED)))
    chosen = {key: draw(how) for key, how in {**SHARED, **GENERATED[kind]}.items() if draw(st.booleans())}
    if kind == "incast":
        chosen.setdefault("total", "4000")
    if chosen.get("hosts") == "4":  # of one rack
        chosen.pop("pairs", None)
    return "\n".join(["[[workload]]", f'kind = "{kind}"', *(f"{key} = {value}" for key, value in chosen.items())])


def named(given, network):
    """Hosts of a list, or the first so many."""
    return network.hosts[:given] if isinstance(given, int) else [readings.Flow.host(network, host) for host in given]


@given(text=generated())
@examples(60)
def test_flows_that_are_drawn_are_as_the_page_says(text):
    topology = '[topology]\nkind = "leaf_spine"\nhosts = 8\ntors = 2\nspines = 2'
    network = readings.Network(readings.tomllib.loads(topology)["topology"])
    spec = parse_spec(f'[run]\nduration = "0.6ms"\n{topology}\n{text}')
    topo = spec.build_topology()
    try:
        flows = spec.build_flows(topo)
    except SpecError as error:
        assume("no flow starts" not in str(error))  # of few hosts in a short time, or with all but one excluded
        raise
    table = readings.tomllib.loads(text)["workload"][0]
    kind = table["kind"]
    full = {**readings.defaults(f"workload.{kind}"), **table}
    start, hosts = readings.ps(full["start"]), named(full.get("hosts", 8), network)
    names = np.array(topo.names)
    pairs = list(zip(names[flows.src].tolist(), names[flows.dst].tolist()))
    assert flows.classes == (full["class"],) and set(flows.priority.tolist()) <= {full["priority"]}
    assert all(src in hosts and src != dst for src, dst in pairs)
    if kind in ("permutation", "all_to_all"):
        assert set(flows.start_ps.tolist()) == {start} and set(flows.bytes.tolist()) == {readings.size(full["bytes"])}
        each = 1 if kind == "permutation" else len(hosts) - 1
        assert len(set(pairs)) == len(pairs)
        assert Counter(src for src, _ in pairs) == Counter(dst for _, dst in pairs) == dict.fromkeys(hosts, each)
    elif kind == "ring_all_reduce":
        steps = 2 * (len(hosts) - 1)
        assert len(pairs) == steps * len(hosts) * full["chunks"] and flows.start_ps.min() == start
        assert flows.bytes.sum() == steps * readings.size(full["bytes"])
        assert set(pairs) == set(zip(hosts, [*hosts[1:], hosts[0]]))
    elif kind == "incast":
        every, last = (readings.ps(full.get(key, other)) for key, other in (("every", "500us"), ("duration", "0.6ms")))
        at = list(range(start, start + last, every))
        targets = named(full["receivers"], network) if "receivers" in full else hosts
        assert flows.start_ps.tolist() == [time for time in at for _ in range(full["fan_in"])]
        events = [pairs[i : i + full["fan_in"]] for i in range(0, len(pairs), full["fan_in"])]
        assert all(len({dst for _, dst in event}) == 1 and event[0][1] in targets for event in events)
        assert flows.bytes.sum() == len(events) * readings.size(full["total"])
        if full["order"] == "in_turn":
            assert [event[0][1] for event in events] == [targets[i % len(targets)] for i in range(len(events))]
    else:
        end = start + readings.ps(full["duration"]) if "duration" in full else readings.ps("0.6ms")
        assert start <= flows.start_ps.min(initial=start) and flows.start_ps.max(initial=start) < end
        assert all(end in hosts and end not in full.get("exclude", []) for pair in pairs for end in pair)
        assert not ("exclude" in full and any("host2" in pair for pair in pairs))
        if full["pairs"] == "inter_rack":
            assert all(network.hosts.index(src) // 4 != network.hosts.index(dst) // 4 for src, dst in pairs)
        if "round_up" in full:
            assert all(size % 1460 == 0 for size in flows.bytes.tolist() if size > 1460)
