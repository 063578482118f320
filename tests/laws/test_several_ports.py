"""Rails, planes and the ports of hosts beside a transcription, tests/paper/rails.py, and planted mistakes that it must notice."""

import random
import sys
import types
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from networks import HostConfig, Measure, flow_list, simulate
from paper import rails as said

from penstock_net.errors import SpecError
from penstock_net.topology import Topology, shapes

SIM = Path(shapes.__file__).parents[1] / "sim"


def planted(module, right, wrong):
    """The module, with a mistake."""
    text = Path(module.__file__).read_text()
    assert text.count(right) == 1
    made = types.ModuleType(module.__name__)
    sys.modules[module.__name__], kept = made, sys.modules[module.__name__]
    try:
        exec(compile(text.replace(right, wrong), module.__file__, "exec", dont_inherit=True), made.__dict__)
    finally:
        sys.modules[module.__name__] = kept
    return made


# -- shapes --------------------------------------------------------------------------------------------------------------------

RATES = {"rate": "200Gbps", "uplink_rate": "400Gbps", "delay": "300ns", "uplink_delay": "700ns"}
OF_RATES = [(40.0, 300_000), (20.0, 700_000)]  # ps per byte and delay of links to hosts, and of those to spines
RAILS = [
    {"servers": 6, "gpus": 3, "segment": 2, "planes": 2, "ports": 2, "spines": 3},
    {"servers": 4, "gpus": 4, "segment": 4, "planes": 1, "ports": 1, "spines": 2},
    {"servers": 4, "gpus": 2, "segment": 2, "planes": 1, "ports": 2, "spines": 4},  # HPN with dual ToR
    {"servers": 4, "gpus": 2, "segment": 2, "planes": 2, "ports": 1, "spines": 2},  # its dual plane
    {"servers": 3, "gpus": 2, "segment": 1, "planes": 3, "ports": 1, "spines": 1},
]
PLANES = [{"hosts": 12, "planes": 3, "tors": 4, "spines": 2}, {"hosts": 6, "planes": 2, "tors": 2, "spines": 3}]


def cables(topo: Topology):
    """Ends, rate and delay of every link, in order."""
    names = topo.names
    return [(names[a], names[b], rate, delay) for a, b, rate, delay in topo.links[["a", "b", "ps_per_byte", "delay_ps"]].tolist()]


def expected(parts, more=()):
    return [(a, b, *of) for part, of in zip(parts, OF_RATES) for a, b in part] + list(more)


def check_shapes(module) -> None:
    for shape in RAILS:
        down, up = said.rails(*shape.values())
        assert cables(module.rails(**shape, **RATES)) == expected((down, up))
        found = module.rails(**shape, **RATES, scale_up_rate="800Gbps", scale_up_delay="30ns")
        hosts, gpus = shape["servers"] * shape["gpus"], shape["gpus"]
        inside = [(f"host{host}", f"nvswitch{host // gpus}", 10.0, 30_000) for host in range(hosts)]
        assert cables(found) == expected((down, up), inside)
    for shape in PLANES:
        assert cables(module.planes(**shape, **RATES)) == expected(said.planes(*shape.values()))
    plain = {"rate": "100Gbps", "delay": "1us"}
    for made in (module.rails(servers=2, gpus=2, spines=1, **plain), module.planes(hosts=4, tors=2, spines=1, **plain)):
        assert {(rate, delay) for _, _, rate, delay in cables(made)} == {(80.0, 1_000_000)}
    apart = {delay for *_, delay in cables(module.rails(servers=2, gpus=2, spines=1, scale_up_rate="1Tbps", **plain))}
    assert apart == {1_000_000, 25_000}


def test_shapes_are_those_of_the_transcription():
    check_shapes(shapes)


SHAPES = {
    "a leaf of a server": ("// segment * gpus + gpu) * ports", "// segment * gpus + server % gpus) * ports"),
    "a leaf of all segments": ("server // segment * gpus + gpu)", "gpu)"),
    "segments dealt out in turn": ("server // segment * gpus", "server % (servers // segment) * gpus"),
    "both ports on one leaf": ("+ gpu) * ports + port\n", "+ gpu) * ports\n"),
    "planes that share leaves": ("leaf = plane * leaves + ", "leaf = "),
    "ports before planes": (
        "plane, port = np.indices((servers, gpus, planes, ports))",
        "port, plane = np.indices((servers, gpus, ports, planes))",
    ),
    "planes that share spines": ("hosts + planes * leaves + plane * spines + spine", "hosts + planes * leaves + spine"),
    "spines dealt out to planes": ("plane * spines + spine, **up", "spine * planes + plane, **up"),
    "leaves up by spine": (
        "plane, leaf, spine = np.indices((planes, leaves, spines))",
        "plane, spine, leaf = np.indices((planes, spines, leaves))",
    ),
    "uplinks as fast as hosts": (
        '{"rate": _or(given["uplink_rate"], given["rate"]), "delay": _or(',
        '{"rate": given["rate"], "delay": _or(',
    ),
    "uplinks as long as those of hosts": ('_or(given["uplink_delay"], given["delay"])}', 'given["delay"]}'),
    "hosts dealt out to racks": ("host // (hosts // tors)", "host % tors"),
    "ToRs of all planes": ("hosts + plane * tors + host //", "hosts + host //"),
    "planes before hosts": ("host, plane = np.indices((hosts, planes))", "plane, host = np.indices((planes, hosts))"),
    "a switch of a rail": ("first + np.arange(hosts) // gpus", "first + np.arange(hosts) % servers"),
    "no delay of its own in a server": ('"delay": _or(scale_up_delay, "25ns")', '"delay": "25ns"'),
    "the delay of the network in a server": ('_or(scale_up_delay, "25ns")', "_or(scale_up_delay, delay)"),
}


@pytest.mark.parametrize("mistake", SHAPES)
def test_mistakes_of_shapes_are_seen(mistake):
    made = planted(shapes, *SHAPES[mistake])
    with pytest.raises((AssertionError, SpecError)):
        check_shapes(made)


# -- ports, in the core --------------------------------------------------------------------------------------------------------


def planes_taken(topo, flows, seed, **host):
    """The plane by which each flow leaves host 0, in the compiled core."""
    run = simulate(topo, flows, "fifo", seed=seed, host=HostConfig(**host), measure=Measure(sample="0s", packets=True))
    came = run.frame("packets").filter((pl.col("event") == "enqueue") & (pl.col("bytes") == 1048)).sort("flow_id")
    return [int(topo.names[node].removeprefix("tor")) for node in came["node"]], came["flow_id"].to_list()


@pytest.mark.parametrize("count, dead", [(2, None), (3, None), (4, 1), (7, 0)])
def test_the_core_takes_the_port_of_the_transcription(count, dead):
    """By hash and by rail; of a network with a dead plane among those that are left."""
    topo = shapes.planes(hosts=4, planes=count, tors=1, spines=1)
    topo = topo if dead is None else topo.with_changes([{"time": "0s", "switch": f"tor{dead}", "up": False}])
    left = [port for port in range(count) if port != dead]
    for seed in (1, 2, 77):
        items = [{"src": 0, "dst": 1 + i % 3, "bytes": 1000, "start": "1us"} for i in range(60)]
        found, flows = planes_taken(topo, flow_list(topo, items), seed)
        assert found == [said.by_hash(number, 0, left, seed) for number in flows] and flows == list(range(60))
        if dead is None:  # and in Python, from where ideal times come
            assert found == [topo.path_links(i, 0, 1 + i % 3, seed)[0][1] for i in flows]
        connections = [{**item, "connection": i // 3} for i, item in enumerate(items)]
        found, flows = planes_taken(topo, flow_list(topo, connections), seed, ports="rail")
        assert found == [said.by_rail(number // 3, left) for number in flows] and len(flows) == 60


# -- and line by line ----------------------------------------------------------------------------------------------------------


def nics(right="", wrong=""):
    """sim/core/nics.py as plain Python, with a mistake, on hosts of the test."""
    text = (SIM / "core" / "nics.py").read_text()
    assert not right or text.count(right) == 1
    names = {
        "group_towards": lambda node, dst: node.groups[dst],
        "nic_at": lambda node, slot: node.nics[slot],
        "port_at": lambda node, slot: node.nics[slot].port,
        "queue_at": lambda port, index: port.queues[index],
        "pick": lambda flow_hash, seed, count: said.drawn(flow_hash, seed, range(count)),
        "kick": lambda node, port: node.kicked.append(port.slot),
    }
    lines = text.replace(right, wrong).splitlines()
    code = "\n".join(lines[next(i for i, line in enumerate(lines) if line.startswith("def ")) :])
    exec(compile(code, "nics.py", "exec"), names)
    return SimpleNamespace(**names)


def host(ports, draw, paths):
    """A host of which destination i is on the paths of ports paths[i]; groups of next hops as in Routes.next_hops."""
    hops, groups = [], []
    for path in paths:
        groups.append(len(hops) if path else -1)
        hops += [len(path), *path] if path else []
    made = []
    for slot in range(ports):
        queues = [SimpleNamespace(paused=draw.random() < 0.3) for _ in range(2)]
        made.append(
            SimpleNamespace(
                levels=draw.random() < 0.5, port=SimpleNamespace(slot=slot, paused=draw.random() < 0.4, queues=queues)
            )
        )
    world = SimpleNamespace(rails=None, pin_of=None)
    return SimpleNamespace(
        nics=made,
        next_hops=hops,
        groups=groups,
        hash_seed=draw.getrandbits(31),
        port_count=ports,
        kicked=[],
        worker=SimpleNamespace(world=world),
    )


def check_ports(module) -> None:
    """Hosts of 1 to 5 ports, of which destinations have some or none on their paths, some of them paused."""
    draw = random.Random(4)
    for ports, several in product(range(1, 6), range(12)):
        paths = [sorted(draw.sample(range(ports), draw.randint(0, ports))) for _ in range(3)]
        node = host(ports, draw, [*paths, list(range(ports))])
        for number in range(6):
            dst, own = draw.randrange(4), draw.randrange(ports)
            path = [*paths, list(range(ports))][dst]
            flow = SimpleNamespace(dst=dst, number=number, hash=draw.getrandbits(31), nic=node.nics[own], queue=draw.randrange(2))
            flow.avoided = draw.getrandbits(5) & draw.getrandbits(5)
            rails = [draw.randrange(-1, 9) for _ in range(6)]
            node.worker.world.rails = rails if several % 2 else None
            fixed = several % 2 and rails[number] >= 0
            chosen = said.by_rail(rails[number], path) if path and fixed else None
            chosen = said.drawn(flow.hash, node.hash_seed, path) if path and not fixed else chosen
            assert module.choose_nic(node, flow).port.slot == (own if chosen is None else chosen)
            stopped = {nic.port.slot for nic in node.nics if nic.port.paused or nic.port.queues[flow.queue].paused}
            stopped |= {slot for slot in range(ports) if flow.avoided >> slot & 1}
            assert module.next_nic(node, flow).port.slot == (said.in_turn(own, path, stopped) if path else own)
        module.kick_others(node)
        assert node.kicked == [nic.port.slot for nic in node.nics[1:] if nic.levels]


def test_ports_are_those_of_the_transcription():
    check_ports(nics())


PORTS = {
    "always the first port": ("+ 1 + pick(flow.hash, node.hash_seed, node.next_hops[group])", "+ 1"),
    "the same choice at all hosts": ("pick(flow.hash, node.hash_seed,", "pick(flow.hash, 0,"),
    "by number": ("pick(flow.hash,", "pick(flow.number,"),
    "the last port is never drawn": (
        "node.hash_seed, node.next_hops[group])",
        "node.hash_seed, max(1, node.next_hops[group] - 1))",
    ),
    "of all ports": (
        "node.next_hops[group + 1 + pick(flow.hash, node.hash_seed, node.next_hops[group])]",
        "pick(flow.hash, node.hash_seed, node.port_count)",
    ),
    "connection 0 has no rail": ("rails[flow.number] >= 0:", "rails[flow.number] > 0:"),
    "by the flow's number": ("+ rails[flow.number] % node", "+ flow.number % node"),
    "a rail that is no path": (
        "node.next_hops[group + 1 + rails[flow.number] % node.next_hops[group]]",
        "rails[flow.number] % node.port_count",
    ),
    "rails from 1 on": ("+ 1 + rails[flow.number] % node", "+ 1 + (rails[flow.number] + 1) % node"),
    "without a path the first port": ("        return flow.nic\n    if", "        return nic_at(node, 0)\n    if"),
    "two steps at a time": ("(last + i) % count", "(last + 2 * i) % count"),
    "the same port again": ("range(1, count + 1):", "range(0, count + 1):"),
    "never the same port again": ("range(1, count + 1):", "range(1, count):"),
    "paused ports have their turn": ("not nic.port.paused and not", "not"),
    "paused queues have their turn": (" and not queue_at(nic.port, flow.queue).paused", ""),
    "another queue's pause": ("queue_at(nic.port, flow.queue)", "queue_at(nic.port, 0)"),
    "avoided ports have their turn": (" and not avoided >> (nic.port.slot & 63) & 1", ""),
    "the port before is avoided": ("avoided >> (nic.port.slot & 63) & 1", "avoided >> (nic.port.slot + 1 & 63) & 1"),
    "it stays where all are paused": ("(last + 1) % count", "last % count"),
    "without a path turns begin anew": ("        return flow.nic\n    count", "        return nic_at(node, 0)\n    count"),
    "the first port is kicked twice": ("for slot in range(1, node", "for slot in range(node"),
    "idle ports are kicked": ("        if nic_at(node, slot).levels:\n", "        if True:\n"),
}


@pytest.mark.parametrize("mistake", PORTS)
def test_mistakes_of_ports_are_seen(mistake):
    made = nics(*PORTS[mistake])
    with pytest.raises((AssertionError, IndexError)):
        check_ports(made)
