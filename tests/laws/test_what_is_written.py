"""What a user writes is what runs: in the file, by --set and from Python, for every key of every table and every preset.

Of a key two values are written. The core is given the same by all three ways, and something else for the other value; or the
error says both places.
"""

import dataclasses
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from networks import HostConfig, Measure, available

from penstock_net import topology, workload
from penstock_net.composition import convert, parse
from penstock_net.composition.declare import Declarations
from penstock_net.errors import SpecError
from penstock_net.sim.builder import compose, network, numbers
from penstock_net.sim.config import TIMES, InNetwork
from penstock_net.sim.lookahead import lookahead
from penstock_net.sim.settings import Settings
from penstock_net.spec import keys, parse_spec
from penstock_net.spec.meanings import arguments
from penstock_net.spec.toml import write_toml
from penstock_net.topology import leaf_spine, star
from penstock_net.workload import flow_list, permutation

RUN = {"duration": "1ms", "seed": 3}
NETWORK = {"kind": "leaf_spine", "hosts": 8, "tors": 2, "spines": 2, "buffer": "4MB"}
TRAFFIC = {"kind": "permutation", "bytes": "7KB"}
DATA = Path(__file__).parents[1] / "unit/data"
TABLES = {"run": RUN, "topology": NETWORK, "workload": TRAFFIC, "scheme": {"name": "fifo"}}


# -- what the core is given ------------------------------------------------------------------------------------------------


def plain(value):
    """Arrays, tables and objects as what can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Declarations):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def given(settings):
    """Everything that a run's results depend on, in the form in which the core and what reads its counters take it."""
    made, flows = compose(settings), settings.flows
    columns = ("start_ps", "src", "dst", "bytes", "class_id", "classes", "priority", "after", "gap_ps", "connection")
    return plain(
        {
            **numbers(settings),
            **network(settings, made, lookahead(settings.topo, 1, apart=False)),
            "queues": (made.nic_queues, made.queues, made.priorities),
            "parts": {part: settings.scheme.values(part) for part in settings.scheme.parts},
            "flows": {column: getattr(flows, column, None) for column in columns},
            "names": settings.topo.names,
            "paths": settings.paths,
            "changes": settings.topo.changes,
            "llr": (settings.topo.llr, settings.topo.retry_links),
            "until": (settings.window_ps, settings.end_ps, settings.drain),
            "measure": settings.measure,
            "reductions": (settings.reductions, settings.in_network if settings.reductions else None),
        }
    )


def of_spec(spec):
    topo = spec.build_topology()
    return given(spec.settings(spec.schemes[0], topo, spec.build_flows(topo)))


def toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return write_toml({"x": value}).partition("=")[2].strip()


# -- hosts, which presets set, too -----------------------------------------------------------------------------------------

HOSTS = {
    "mtu": (1000, 700),
    "header": (48, 60),
    "ack": (60, 70),
    "control": (64, 72),
    "rto": ("4ms", "3ms"),
    "ack_priority": ("control", "data"),
    "nic_queues": (0, 9),
    "pacing": ("from start", "from due time"),
    "ports": ("flow", "rail"),
    "clock_ppm": (0.0, 50.0),
    "ack_every": (1, 4),
    "ack_after": ("5us", "7us"),
    "ack_delay": ("0us", "800ns"),
}
NUMBERS = {
    **{"mtu": "mtu", "header": "header", "ack": "ack", "rto": "rto", "ack_priority": "ack_lane"},
    **{key: key for key in ("ack_every", "ack_after", "ack_delay")},
}


def presets():
    found = available()
    return [*found, *(f"{name}:{preset}" for name, one in found.items() for preset in one.presets if preset != "default")]


def runs_with(settings, key, value):
    """Whether a run has this value of a key of its hosts."""
    alone = HostConfig(**{key: value})
    if key == "pacing":
        return (numbers(settings)["pacing_debt"] > 0) == (value == "from due time")
    if key in NUMBERS:
        wanted = {key: read(alone) for key, read in TIMES.items()} | {"ack_priority": int(value == "data")}
        wanted = wanted.get(key, value)
        return numbers(settings)[NUMBERS[key]] == wanted
    return getattr(settings.host, key) == value and (key != "nic_queues" or not value or compose(settings).nic_queues == value)


@pytest.mark.parametrize("name", presets())
def test_hosts_are_as_written_under_every_preset(name):
    """Also where the value is the default. Where preset and user differ, all ways are refused but that of the scheme."""
    topo = star(hosts=3)
    flows = flow_list(topo, [(0, 2, "5KB")])
    base = {**TABLES, "topology": {"kind": "star", "hosts": 3}, "scheme": {"name": name}}
    for key, values in HOSTS.items():
        assert set(HOSTS) == {field.name for field in dataclasses.fields(HostConfig)}
        for value, other in (values, values[::-1]):
            own = {**base, "scheme": {"name": name, "host": {key: value}}}
            ways = {
                "file": lambda value=value, key=key: parse_spec({**base, "host": {key: value}}),
                "set": lambda value=value, key=key: parse_spec(base, sets=[f"host.{key}={value}"]),
                "set over file": lambda value=value, key=key, other=other: parse_spec(
                    {**base, "host": {key: other}}, sets=[f"host.{key}={value}"]
                ),
                "scheme": lambda own=own: parse_spec(own),
                "scheme by set": lambda value=value, key=key: parse_spec(base, sets=[f"scheme.host.{key}={value}"]),
            }
            made = {
                way: (lambda read=read: (spec := read()).settings(spec.schemes[0], topo, flows)) for way, read in ways.items()
            }
            made["Python"] = lambda value=value, key=key: Settings(topo, flows, parse(name), host=HostConfig(**{key: value}))
            made["Python, scheme"] = lambda value=value, key=key: Settings(topo, flows, parse(name, {f"host.{key}": value}))
            set_by_preset = parse(name).host.get(key, value) != value
            for way, settings in made.items():
                if set_by_preset and "scheme" not in way:
                    with pytest.raises(SpecError, match=rf'host\.{key} = .*: the scheme "{name}".* sets it to'):
                        settings()
                    continue
                try:
                    found = settings()
                    assert runs_with(found, key, value), (name, key, value, way)
                except SpecError as error:  # of a scheme that says how many queues a NIC has
                    assert key == "nic_queues" and "nic_queues" in str(error), error


def test_what_the_scheme_and_host_both_say_is_refused_in_python():
    topo = star(hosts=3)
    flows = flow_list(topo, [(0, 2, "5KB")])
    scheme = parse("fifo", {"host.rto": "5ms"})
    with pytest.raises(SpecError, match=r'host.rto = "200us": the scheme "fifo" sets it to "5ms"; leave it out'):
        Settings(topo, flows, scheme, host=HostConfig(rto="200us"))
    assert Settings(topo, flows, scheme, host=HostConfig(rto="5000us")).host.rto_ps == 5_000_000_000
    with pytest.raises(SpecError, match=r"scheme.host.x: unknown key"):
        Settings(topo, flows, parse("fifo", {"host.x": 1}))


def test_what_is_set_has_precedence_over_the_preset_of_a_scheme_that_is_added():
    """`a + b` in Python: the presets of b say nothing of what a user has set in a; two users' values are refused."""
    mine = parse("hpcc", {"pfc.alpha": 0.1, "host.ack_priority": "control"})
    assert (mine + parse("pfc:ns3")).parameters()["pfc.alpha"] == 0.1
    assert (parse("fifo", {"host.rto": "7ms"}) + parse("pfabric")).host["rto"] == "7ms"
    assert (mine + parse("ndp")).host["ack_priority"] == "control"
    assert (parse("hpcc") + parse("pfc:ns3", {"alpha": 0.3})).parameters()["pfc.alpha"] == 0.3
    with pytest.raises(SpecError, match=r"pfc.alpha: is set to 0.1 in hpcc, and to 0.2 in pfc"):
        mine + parse("pfc", {"alpha": 0.2})


# -- parameters of schemes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", presets())
def test_parameters_are_as_written_under_every_preset(name):
    """Each of them, of every part, in the state of the scheme as the core has it."""
    values = (True, False, 1, 2, 3, 0.25, 0.5, 20, 2000, "7us", "9us", "2ms", "7KB", "90KB", "3MB", "7Gbps", [1], [0], ["1KB"])
    base = {**TABLES, "topology": {"kind": "star", "hosts": 3}}
    for full, now in parse(name).parameters().items():
        part, _, parameter = full.rpartition(".")
        kind = available()[part].parameters[parameter][0]
        for value in (*values, *kind.split()[1:]):
            try:
                wanted = convert(full, kind, value)
                scheme = parse(name, {full: value})
            except SpecError:
                continue
            if wanted != convert(full, kind, now):
                break
        else:
            assert full == "dcqcn.cnp_delay", f"{full}: no other value"  # another parameter leaves it one
            continue
        assert scheme.values(part)[parameter] == wanted
        for spec in (
            parse_spec({**base, "scheme": {"name": name, part: {parameter: value}}}),
            parse_spec({**base, "scheme": {"name": name}}, sets=[f"scheme.{full}={toml(value)}"]),
        ):
            assert spec.build_scheme(spec.schemes[0]).values(part)[parameter] == wanted, full


# -- all other tables ------------------------------------------------------------------------------------------------------

BY_KIND = {
    "rate": ("40Gbps", "60Gbps"),
    "time": ("3us", "5us"),
    "delay": ("3us", "990m"),
    "size": ("3MB", "5MB"),
    "bytes": (3000, 5000),
    "int": (2, 4),
    "float": (0.2, 0.3),
    "bool": (False, True),
    "text": ("one", "two"),
    "hosts": ([0, 1, 2, 3], [1, 2, 3, 4]),
}
# What a table is written together with, and the two values of a key that cannot have those of its kind: with what else
BASES = {
    "run": {},
    "measure": {},
    "in_network": {},
    "topology.clos": {"pods": 2, "tors": 2, "aggs": 2, "cores": 4, "hosts_per_tor": 2},
    "topology.dragonfly": {"p": 1, "a": 2, "h": 2, "groups": 3},
    "topology.leaf_spine": {"hosts": 8, "tors": 2, "spines": 2},
    "topology.planes": {"hosts": 8, "tors": 2, "spines": 2},
    "topology.rails": {"servers": 4, "gpus": 2, "segment": 2, "spines": 2},
    "topology.sites": {"hosts_per_site": 4, "tors": 2, "spines": 2},
    "topology.torus": {"dims": [3, 3]},
    "workload.poisson": {"load": 0.5, "load_on": "host"},
    "workload.incast": {"fan_in": 3, "every": "50us", "size": "3KB"},
    "workload.collective": {"hosts": [0, 1, 2, 3]},
    "workload.training": {"layers": 2, "iterations": 1, "parameters": "3MB", "activations": "1MB", "forward": "1us"},
    "workload.inference": {"rate": 20000.0, "input_tokens": 50, "output_tokens": 5, "tokens_per_second": 1e6, "kv_bytes": "1KB"},
    "workload.list": {"flows": [[0, 1, "5KB"]]},
}  # fmt: skip
MOONCAKE = Path(__file__).parent / "data/requests.jsonl"
_FILE = {"file": str(MOONCAKE), "rate": None, "input_tokens": None, "output_tokens": None, "block": 4, "prefill": 2}
_EXPERTS = {"decode_ranks": 4, "expert_bytes": "9KB", "steps": 2}
VALUES = {
    "run.duration": ("1ms", "2ms"),
    "run.max_time": ("5ms", "6ms"),
    "run.threads": (1, 2),
    "run.paths": tuple(str(DATA / f"paths_{one}.csv") for one in ("one", "two")),
    "measure.window": ("run", "2us..5us"),
    "in_network.root": ("spine0", "spine1"),
    "topology.loss": (0.1, 0.2),
    "topology.llr": ({}, {"on": False}, {"loss": 0.1}),
    "topology.changes": tuple(
        [{"time": "9us", "a": "tor0", "b": "spine0", "up": False, "on_down": on_down}] for on_down in ("drop", "silent")
    ),
    "topology.vswitches": ({"apps": 2}, {"apps": 3}),
    "topology.receivers": ([], [{"host": 0, "rate": "1Gbps"}]),
    "topology.cut_through": (False, True),
    "topology.cut_through_header": ("64B", "90B", {"cut_through": True}),
    "topology.torus.dims": ([3, 3], [3, 4]),
    "topology.fat_tree.hosts": (16, 54),
    "topology.parking_lot.cross": (1, 2),
    "topology.dragonfly.groups": (3, 5),
    "topology.rails.ports": (1, 2, {"uplink_rate": "400Gbps"}),
    "topology.rails.scale_up_delay": ("20ns", "30ns", {"scale_up_rate": "900Gbps"}),
    "topology.rails.servers": (2, 4),
    "workload.poisson.sizes": ("google", "websearch"),
    "workload.poisson.sigma": (1.0, 2.0, {"arrivals": "lognormal"}),
    "workload.poisson.duration": ("200us", "300us"),
    "workload.incast.total": ("9KB", "6KB", {"size": None}),
    "workload.incast.size": ("4KB", "6KB"),
    "workload.incast.load": (0.2, 0.3, {"every": None}),
    "workload.incast.load_on": ("core", "receiver", {"every": None, "load": 0.2}),
    "workload.incast.duration": ("200us", "300us"),
    "workload.incast.every": ("20us", "50us"),
    "workload.incast.replace": (False, True, {"fan_in": 7}),
    "workload.collective.collective": ("all_gather", "broadcast"),
    "workload.collective.algorithm": ("ring", "tree"),
    "workload.collective.root": (1, 2, {"collective": "broadcast"}),
    "workload.collective.connections": ("channel", "message"),
    "workload.collective.placement": ("packed", "strided", {"hosts": None}),
    "workload.collective.seed": (2, 3, {"placement": "random", "hosts": None}),
    "workload.training.tensor": (1, 2),
    "workload.training.pipeline": (1, 2),
    "workload.training.data": (2, 4),
    "workload.training.expert": (1, 2, {"expert_parameters": "1MB"}),
    "workload.training.layers": (2, 3),
    "workload.training.expert_parameters": ("1MB", "2MB", {"expert": 2}),
    "workload.training.activations": ("1MB", "2MB", {"pipeline": 2}),
    "workload.training.connections": ("channel", "message"),
    "workload.training.sendrecv": ("direct", "direct"),
    "workload.training.schedule": ("1f1b", "gpipe", {"pipeline": 2, "microbatches": 4}),
    "workload.training.all_to_all": ("direct", "pairwise", {"expert": 4}),
    "workload.training.iterations": (1, 2),
    "workload.training.microbatches": (1, 2, {"pipeline": 2}),
    "workload.training.placement": ("packed", "strided", {"tensor": 2}),
    "workload.training.seed": (2, 3, {"placement": "random", "tensor": 2}),
    "workload.inference.file": (str(MOONCAKE), str(MOONCAKE.with_suffix(".csv")), _FILE),
    "workload.inference.rate": (20000.0, 30000.0),
    "workload.inference.input_tokens": (50, [50, 60]),
    "workload.inference.output_tokens": (5, 6),
    "workload.inference.duration": ("200us", "300us"),
    "workload.inference.assign": ("least_loaded", "in_turn", {"prefill": 2, "input_tokens": [10, 90]}),
    "workload.inference.layers": (2, 3, {"send": "layer"}),
    "workload.inference.send": ("whole", "layer", {"layers": 2}),
    "workload.inference.prefix_cache": (False, True, _FILE),
    "workload.inference.block": (4, 5, _FILE),
    "workload.inference.store": (1, 2, _FILE),
    "workload.inference.steps": (1, 2, {"decode_ranks": 4, "expert_bytes": "9KB"}),
    "workload.inference.step": ("3us", "5us", _EXPERTS),
    "workload.inference.expert_bytes": ("9KB", "8KB", _EXPERTS),
    "workload.inference.skew": (0.2, 0.3, _EXPERTS),
    "workload.inference.placement": ("packed", "strided"),
    "workload.list.flows": ([[0, 1, "5KB"]], [[0, 1, "6KB"]]),
}
NO_DIFFERENCE = {
    "workload.inference.output_tokens": "it is in the table of requests, and no flow depends on it",
    "workload.inference.first_step": "it is in the table of requests, and no flow depends on it",
    "run.threads": "results do not depend on it",
    "workload.training.sendrecv": "its other algorithm needs rails",
}


def cases():
    for table in keys.tables():
        if table in ("topology", "topology.file", "workload.flows", "host") or table.partition(".")[0] not in _SECTIONS:
            continue
        yield from ((table, row.key, row.kind) for row in keys.rows(table))
    yield from (("topology", row.key, row.kind) for row in keys.rows("topology") if row.key not in ("kind", "file"))


_SECTIONS = ("run", "topology", "workload", "measure", "in_network")


def two_values(table, key, kind):
    one, two, *more = VALUES.get(f"{table}.{key}") or (
        kind.split()[1:3] if kind.startswith("choice") else ("1us", "2us") if key in ("start", "jitter") else BY_KIND[kind]
    )
    return one, two, more[0] if more else {}


def written(table, key, value, extra):
    """The tables of a spec with a key."""
    section, _, kind = table.partition(".")
    base = {**(BASES.get(table) or (NETWORK if table == "topology" else RUN if table == "run" else {})), **extra, key: value}
    base = {name: one for name, one in base.items() if one is not None}
    spec = {**TABLES, section: {**({"kind": kind} if kind else {}), **(RUN if section == "run" else {}), **base}}
    if section == "in_network":
        spec["workload"] = {"kind": "collective", "algorithm": "in_network"}
    return spec


@cache
def ways_of_python():
    """How each section is given in Python: the settings of a run by the content of the tables."""
    measured = {"measure": Measure, "in_network": InNetwork}

    def settings(section, spec):
        run = dict(spec["run"])
        duration = keys.time_ps(run.pop("duration"), "duration")
        tables = {name: dict(spec[name]) for name in ("topology", "workload")}
        topo = topology.KINDS[tables["topology"].pop("kind")](**tables["topology"])
        source, kind = tables["workload"], tables["workload"].pop("kind")
        asked = arguments(workload.KINDS[kind])
        source |= {name: run.get("seed", 1) for name in asked if name == "seed" and "seed" not in source}
        source |= {name: f"{duration}ps" for name in asked if name == "duration" and "duration" not in source}
        source |= {"index": 0} if "index" in asked else {}
        source = {"class_name" if name == "class" else name: value for name, value in source.items()}
        flows = workload.KINDS[kind](topo, **source).until(duration)
        own = {section: measured[section](**spec[section])} if section in measured else {}
        if "max_time" in run:
            run["max_time_ps"] = keys.time_ps(run.pop("max_time"), "max_time")
        return Settings(topo, flows, parse("fifo"), duration_ps=duration, arrivals_ps=duration, **run, **own)

    return settings


@pytest.mark.parametrize(("table", "key", "kind"), list(cases()), ids=lambda value: str(value))
def test_every_key_of_every_other_table(table, key, kind):
    one, two, extra = two_values(table, key, kind)
    section = table.partition(".")[0]
    first, second = (written(table, key, value, extra) for value in (one, two))
    place = f"{section}.{key}"
    by_file, other = of_spec(parse_spec(write_toml(first))), of_spec(parse_spec(write_toml(second)))
    assert of_spec(parse_spec(second, sets=[f"{place}={toml(one)}"])) == by_file, "--set over the file"
    if table != "topology":  # of any kind: methods of a topology in Python
        assert given(ways_of_python()(section, first)) == by_file, "in Python"
    if f"{table}.{key}" not in NO_DIFFERENCE:
        assert by_file != other, f"{place} changes nothing"


def test_python_functions_of_the_package_are_those_of_the_tables():
    """So that what the law says of the tables' functions holds of them."""
    import penstock_net as ps

    assert ps.leaf_spine is topology.KINDS["leaf_spine"] is leaf_spine
    assert ps.permutation is workload.KINDS["permutation"] is permutation
