"""Every key of a spec and of the files that it names: kind, range, default, meaning.  docs/formats.md is made of this.

    for row in rows("workload.poisson"):
        print(row.key, row.kind, row.range, row.default, row.text)

Keys and defaults come from the code that reads them; kinds, ranges and meanings stand here, those of [measure], [host] and
[in_network] in the docstrings of `Measure`, `HostConfig` and `InNetwork`.  A key that is missing here, or that the code does not
know, is a ValueError.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from penstock_net import topology, workload
from penstock_net.inputs import MAX_FLOW_BYTES, MAX_SEED, boolean, delay_ps, known_keys, one_of, real, size_bytes, time_ps, whole
from penstock_net.sim import config
from penstock_net.sim.config import HostConfig, InNetwork, Measure
from penstock_net.sim.paths import DIRECTIONS, OF_FLOWS, OF_PACKETS
from penstock_net.spec.meanings import arguments, as_toml, columns, described
from penstock_net.spec.tables import RunTable, SchemeTable
from penstock_net.topology import COMMON, behind_vswitches
from penstock_net.topology.changes import ON_DOWN
from penstock_net.topology.cutthrough import MOST as MOST_HEADER
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.topology.llr import MOST_FRAMES, MOST_REPLAYS, ON_FLUSH, Llr
from penstock_net.topology.parts import LINK_KEYS, NODE_KEYS, NODE_KINDS
from penstock_net.topology.schedule import CHANGE_KEYS
from penstock_net.topology.servers import KEYS as RECEIVER_KEYS
from penstock_net.topology.servers import TRACE_COLUMNS
from penstock_net.units import parse_rate
from penstock_net.workload import NOT_FROM_A_TABLE
from penstock_net.workload.algorithms import ALGORITHMS
from penstock_net.workload.collectives import LIST_KEYS
from penstock_net.workload.connections import CONNECTIONS, MOST
from penstock_net.workload.distributions import COLUMNS as SIZE_COLUMNS
from penstock_net.workload.flowfile import OPTIONAL, REQUIRED
from penstock_net.workload.flows import PRIORITIES
from penstock_net.workload.generators import LOAD_ON, MAX_SIGMA, PAIRS
from penstock_net.workload.inference import CONNECTED, MAX_LAYERS, MAX_SKEW, SENDS
from penstock_net.workload.limits import RANGES
from penstock_net.workload.placement import PLACEMENTS
from penstock_net.workload.planning import ASSIGNMENTS
from penstock_net.workload.requests import COLUMNS as REQUEST_COLUMNS
from penstock_net.workload.requests import MAX_TOKENS
from penstock_net.workload.training import SCHEDULES

KINDS = {
    "time": '`"1us"`',
    "delay": '`"1us"` or `"40m"`',
    "size": '`"12MB"`',
    "rate": '`"100Gbps"`',
    "int": "whole number",
    "float": "number",
    "ns": "number, ns",
    "bps": "whole number, bit/s",
    "bytes": "whole number, B",
    "bool": "`true`, `false`",
    "text": "text",
    "file": "path",
    "host": "host",
    "hosts": "hosts",
    "table": "table",
    "tables": "list of tables",
    "list": "list",
    "switches": '`true`, `false`, `["spine*"]`',
    "words": "words",
}


class Key(NamedTuple):
    """What the code cannot say of a key: its kind (of KINDS, or "choice a b"), its range ("1..8", "> 0", ">= 0", "0..<1") and
    its meaning."""

    kind: str
    text: str = ""
    range: str = ""


class Row(NamedTuple):
    """A key as documented; `default` is TOML, REQUIRED_KEY, or "" if there is none."""

    key: str
    kind: str
    range: str
    default: str
    text: str


_PRIORITY = Key("int", "priority; 0 is the highest", f"0..{PRIORITIES - 1}")
_CLASS = Key("text", "name of this class of flows, in `flows.parquet` and `--class`")
_CONNECTION = Key(
    "int", "flows of the same src, dst and number are messages of one connection; without it: a flow by itself", f"0..{MOST}"
)
_RATE = "rate of the sender's packets, headers included, which its transport does not exceed; see A rate for a flow"
_WINDOW = "the flow sends while fewer bytes of payload than this are unacknowledged, whatever its transport allows"
_OPEN_LOOP = (
    "the flow sends at its rate, or the line's, nobody acknowledges it, and what is lost is not sent again; see Open-loop flows"
)
_CONNECTIONS = Key(
    f"choice {' '.join(CONNECTIONS)}",
    "which messages from a rank to another share a path, congestion state and sequence: those of one piece, all, none",
)
_LATENCY = Key(
    "time",
    "what starting a message takes: this, or `{ scale_up = ..., network = ... }` within servers and between them, or by "
    'SimAI\'s table for a protocol of NCCL, `"ll"`, `"ll128"`, `"simple"`; without it nothing',
    ">= 0",
)
_START = Key("time", "when the first flow may start", ">= 0")
_BYTES = Key("size", "payload", f"1..{MAX_FLOW_BYTES}")
_TOGETHER = {
    "hosts": Key("hosts", "hosts that take part; without it all"),
    "start": _START,
    "class": _CLASS,
    "priority": _PRIORITY,
}
_RANKS = {
    "bytes": Key("size", "buffer of each rank", f"1..{MAX_FLOW_BYTES}"),
    "chunks": Key("int", "pieces of a segment that travel as flows of their own", ">= 1"),
}
_ALGORITHMS = "; ".join(f"{kind}: {', '.join(algorithms)}" for kind, algorithms in ALGORITHMS.items())
_SEED = Key("int", "seed of this source; without it `run.seed`", ">= 0")
_DURATION = Key("time", "flows arrive for so long from `start` on; without it until `run.duration`", "> 0")

KEYS: dict[str, dict[str, Key]] = {
    "run": {
        "duration": Key("time", "flows of [[workload]] arrive for so long", "> 0"),
        "seed": Key("int", "seed of every random stream", f"0..{MAX_SEED}"),
        "drain": Key("bool", "go on after `duration` until all flows have finished"),
        "max_time": Key("time", "simulated time at which draining gives up; without it one second after `duration`", "> 0"),
        "threads": Key("int", "threads of the simulator; results do not depend on it", "1..1024"),
        "paths": Key("file", "paths of flows, or of packets that take turns: see Paths; without it ECMP chooses, or the scheme"),
        "control_loss": Key("float", "probability that a link loses a control frame (a pause), beside `topology.loss`", "0..<1"),
        "link_clock": Key(
            f"choice {' '.join(config.LINK_CLOCKS)}",
            "`ns`: times on the line and gaps of paced flows are cut to whole nanoseconds, as in the HPCC authors' ns-3; only to "
            "compare with it, since links are then faster than their rate; without it `ps`",
        ),
    },
    "topology": {
        "kind": Key("text", "one of the kinds below; not needed with `file`"),
        "file": Key("file", "a graph: GraphML, an edge list, CSV, or a topology of another simulator; relative to the spec"),
        "loss": Key("float", "probability that a link loses a frame, each direction; links within a server lose none", "0..<1"),
        "llr": Key("table", "link-level retry: links that send lost frames again themselves; those within servers do not"),
        "changes": Key("tables", "links and switches that fail or come back, links that change their rate"),
        "vswitches": Key("table", "a virtual switch in every server, with applications behind it"),
        "receivers": Key("tables", "applications that take packets at their own speed"),
        "cut_through": Key(
            "switches",
            "switches that forward a packet when its header has arrived; those within servers never do. "
            "Without it those that a GraphML file names",
        ),
        "cut_through_header": Key("size", 'bytes that these wait for; without it `"64B"`', f"1..{MOST_HEADER}"),
        "rate": Key("rate", "rate of the host links", "> 0"),
        "delay": Key("delay", "one-way propagation delay of the host links, and of others without one of their own", "> 0"),
        "buffer": Key("size", 'shared buffer of each switch; `"0B"` is unbounded', ">= 0"),
        "hosts": Key("int", "number of hosts", f"2..{MAX_HOSTS}"),
        "tors": Key("int", "number of ToR switches; divides `hosts`", ">= 1"),
        "spines": Key("int", "number of spine switches", ">= 1"),
        "uplink_rate": Key("rate", "rate of the links between switches; without it `rate`", "> 0"),
        "uplink_delay": Key("delay", "delay of the links between switches; without it `delay`", "> 0"),
        "bottleneck_rate": Key("rate", "rate of the links between switches; without it `rate`", "> 0"),
    },
    "topology.fat_tree": {
        "k": Key("int", "ports of a switch, even; k^3/4 hosts; without `k` and `hosts` 8", ">= 2"),
        "hosts": Key("int", "number of hosts, k^3/4 of some k; instead of `k`", f"2..{MAX_HOSTS}"),
    },
    "topology.clos": {
        "pods": Key("int", "number of pods", ">= 1"),
        "tors": Key("int", "ToR switches of a pod", ">= 1"),
        "aggs": Key("int", "aggregation switches of a pod", ">= 1"),
        "cores": Key("int", "core switches in total; a multiple of `aggs`", ">= 1"),
        "hosts_per_tor": Key("int", "hosts of a ToR switch", ">= 1"),
    },
    "topology.dumbbell": {
        "left": Key("int", "hosts on the left, 0 to left - 1", ">= 1"),
        "right": Key("int", "hosts on the right", ">= 1"),
    },
    "topology.parking_lot": {
        "hops": Key("int", "links of the chain of switches", ">= 1"),
        "cross": Key("int", "pairs of hosts whose traffic crosses each link", ">= 0"),
    },
    "topology.sites": {
        "sites": Key("int", "number of sites", ">= 1"),
        "hosts_per_site": Key("int", "hosts of a site; a multiple of `tors`", ">= 1"),
        "tors": Key("int", "ToR switches of a site", ">= 1"),
        "spines": Key("int", "spine switches of a site", ">= 1"),
        "long_rate": Key("rate", "rate of the links between gateways", "> 0"),
        "long_delay": Key("delay", "delay of the links between gateways", "> 0"),
        "gateway_buffer": Key("size", "buffer of a gateway", ">= 0"),
    },
    "topology.rails": {
        "servers": Key("int", "number of servers", ">= 1"),
        "gpus": Key("int", "GPUs of a server, each a host: GPU i of server s is host s * gpus + i", ">= 1"),
        "segment": Key("int", "servers that share their leaves; divides `servers`; without it all", ">= 1"),
        "planes": Key("int", "networks that nothing joins, in each of which a GPU has `ports` links", ">= 1"),
        "ports": Key("int", "leaves of a rail, to each of which its GPUs have a link", ">= 1"),
        "scale_up_rate": Key("rate", "rate of a GPU's link to the NVSwitch of its server; without it there is none", "> 0"),
        "scale_up_delay": Key("delay", 'its delay; without it `"25ns"`', "> 0"),
        "spines": Key("int", "spine switches of a plane", ">= 1"),
    },
    "topology.planes": {
        "planes": Key("int", "networks that nothing joins; every host has a link to each", ">= 1"),
        "tors": Key("int", "ToR switches of a plane; divides `hosts`", ">= 1"),
        "spines": Key("int", "spine switches of a plane", ">= 1"),
    },
    "topology.dragonfly": {
        "p": Key("int", "hosts of a switch", ">= 1"),
        "a": Key("int", "switches of a group, each linked to all others of it", ">= 1"),
        "h": Key("int", "links of a switch to other groups", ">= 1"),
        "groups": Key("int", "number of groups; groups - 1 divides a * h; without it a * h + 1", ">= 2"),
        "local_rate": Key("rate", "rate of the links within groups; without it `rate`", "> 0"),
        "global_rate": Key("rate", "rate of the links between groups; without it `rate`", "> 0"),
        "global_delay": Key("delay", "delay of the links between groups; without it `delay`", "> 0"),
    },
    "topology.torus": {
        "dims": Key("list", "switches of a row in each dimension, each 2 or more, up to eight of them", ">= 2"),
        "hosts_per_switch": Key("int", "hosts of a switch", ">= 1"),
        "link_rate": Key("rate", "rate of the links between switches; without it `rate`", "> 0"),
    },
    "topology.file": {
        "rate": Key("rate", "rate of links that give none", "> 0"),
        "delay": Key("delay", "delay of links that give none", "> 0"),
        "buffer": Key("size", "buffer of switches that give none", ">= 0"),
        "hosts": Key("text", "nodes without a kind whose names match this pattern are hosts, all others switches"),
        "hosts_per_switch": Key("int", 'every node is a switch, unless its kind is "host", and has so many hosts', ">= 1"),
    },
    "changes": {
        "time": Key("time", "from when on", ">= 0"),
        "a": Key("text", "one end of a link, by name"),
        "b": Key("text", "its other end"),
        "parallel": Key("int", "which of several links between the two, in the order of the file, from 0", ">= 0"),
        "switch": Key("text", "a switch, instead of a link: all its links, and what it stores"),
        "up": Key("bool", "`false`: the link or switch fails; `true`: it is back"),
        "rate": Key("rate", "its rate from then on; with `night` from when it is up again", "> 0"),
        "llr": Key("bool", "frames sent from then on are protected by link-level retry, or not"),
        "of": Key("text", "the rate is only of what this end sends"),
        "on_down": Key(
            f"choice {' '.join(ON_DOWN)}",
            "`drop` (default): routes avoid the link, and what is on the wire is lost; `hold`: it is dark, keeps its routes, "
            "packets for it wait, and what is on the wire arrives; `lose`: as `drop`, and what waits for it is lost; `silent`: "
            "so is what still comes, since it keeps its routes",
        ),
        "night": Key("time", "down at `time` and up again after so long, instead of `up`", "> 0"),
        "every": Key("time", "all of it again after each such time ...", "> 0"),
        "until": Key("time", "... as long as it begins before this time", "> 0"),
    },
    "vswitches": {
        "apps": Key("int", "applications, each a host, behind every virtual switch", "1..1000"),
        "rate": Key("rate", "rate between an application and its virtual switch", "> 0"),
        "delay": Key("delay", "delay of the same, one way", "> 0"),
        "buffer": Key("size", 'buffer of each virtual switch; `"0B"` is unbounded', ">= 0"),
    },
    "receivers": {
        "host": Key("int", "number of the application", ">= 0"),
        "rate": Key("rate", "rate at which it takes packets, headers included", "> 0"),
        "start": Key("time", "from when on; default 0", ">= 0"),
        "on": Key("time", "it takes them at `rate` for so long, ...", "> 0"),
        "off": Key("time", "... at its link's rate for so long, and again ...", "> 0"),
        "until": Key("time", "... until then", "> 0"),
        "trace": Key("file", "a CSV file with the rate over time, instead of `rate`"),
    },
    "paths": {
        "flow": Key("int", "its number, `flow_id` in `flows.parquet`: flows count from 0 in the order of their starts", ">= 0"),
        "direction": Key(
            f"choice {' '.join(DIRECTIONS)}",
            "the data, the answers, or both over the same links; without it `both`",
        ),
        "path": Key("words", "names of nodes in the order of the path, with spaces or `>` between; as many as say which it is"),
    },
    "turns": {
        "switch": Key("text", "a switch, by name"),
        "from": Key("text", "its neighbour from which packets come"),
        "first": Key("int", "which next hop the first of them takes, in the order of the ports, counted in a circle", ">= 0"),
    },
    "trace": {"time": Key("time", "from when on", ">= 0"), "rate": Key("rate", "rate from then on", "> 0")},
    "scheme": {
        "name": Key("text", "scheme, preset, composition or file: `bfc`, `hpcc:ns3`, `hpcc+dqa`, `./mine.py`"),
        "label": Key("text", "name of its folder and in legends; without it made of `name`"),
    },
    "workload.poisson": {
        "sizes": Key("text", "a bundled distribution (`penstock workloads` lists them) or a file of sizes"),
        "load": Key("float", "share of the capacity that `load_on` names; payload only; above 1 only with `--force`", "> 0"),
        "load_on": Key(f"choice {' '.join(LOAD_ON)}", "ToR uplinks, or host links; the sum of their rates, one direction"),
        "arrivals": Key("choice exponential lognormal", "distribution of the time between two flows"),
        "sigma": Key("float", "of lognormal gaps, and only of those; above 0; left out: 2", f"0..{MAX_SIGMA}"),
        "duration": _DURATION,
        "seed": _SEED,
        "start": _START,
        "class": _CLASS,
        "priority": _PRIORITY,
        "pairs": Key(f"choice {' '.join(PAIRS)}", "`inter_rack`: only between hosts of different racks"),
        "hosts": Key("hosts", "hosts that send and receive; without it all"),
        "exclude": Key("hosts", "flows of these hosts are drawn and then removed: the others are the same as without this key"),
        "interpolate": Key("bool", "sizes between the points of the distribution, or only those"),
        "round_up": Key("bytes", "sizes above it are rounded up to a multiple of it", f"1..{MAX_FLOW_BYTES}"),
    },
    "workload.incast": {
        "fan_in": Key("int", "flows of an event", "1..1000000"),
        "total": Key("size", 'payload of an event; without `total` and `size` `"20MB"`', "> 0"),
        "size": Key("size", 'payload of a flow, instead of `total`; or a range, `"30..40 x 1460B"`', "> 0"),
        "every": Key("time", 'time between events; without `every` and `load` `"500us"`', "> 0"),
        "load": Key("float", "load that the events add, instead of `every`", "> 0"),
        "load_on": Key(f"choice {' '.join(LOAD_ON)} receiver", "what `load` refers to; `receiver`: the link of one host"),
        "duration": Key("time", "events happen for so long from `start` on; without it until `run.duration`", "> 0"),
        "seed": _SEED,
        "start": Key("time", "when the first event may happen", ">= 0"),
        "arrivals": Key("choice periodic exponential", "`exponential`: a Poisson process of events"),
        "replace": Key("bool", "draw senders with replacement, as if `fan_in` is above their number, which gives a warning"),
        "jitter": Key("time", "each flow starts up to so much later, uniformly", ">= 0"),
        "receivers": Key("hosts", "the destination of an event is one of them; without it all"),
        "order": Key("choice random in_turn", "order of the receivers"),
        "hosts": Key("hosts", "hosts that send; without it all"),
        "pairs": Key(f"choice {' '.join(PAIRS)}", "`inter_rack`: senders are of other racks than the receiver"),
        "class": _CLASS,
        "priority": _PRIORITY,
    },
    "workload.permutation": {"bytes": _BYTES, "seed": _SEED, **_TOGETHER},
    "workload.all_to_all": {"bytes": _BYTES, **_TOGETHER},
    "workload.ring_all_reduce": {**_RANKS, **_TOGETHER},
    "workload.tree_all_reduce": {**_RANKS, **_TOGETHER},
    "workload.collective": {
        "collective": Key(f"choice {' '.join(ALGORITHMS)}", "what it does, by NCCL's names"),
        "algorithm": Key("text", "one of those of the collective; without it the first: " + _ALGORITHMS),
        "bytes": Key("size", "as NCCL counts: buffer of each rank, the whole one where ranks have parts", f"1..{MAX_FLOW_BYTES}"),
        "placement": Key(f"choice {' '.join(PLACEMENTS)}", "how ranks are put on hosts: in order, over the racks, at random"),
        "chunks": Key("int", "pieces of a part that travel as flows of their own", ">= 1"),
        "connections": _CONNECTIONS,
        "latency": _LATENCY,
        "root": Key("int", "rank at which a broadcast begins", ">= 0"),
        "seed": _SEED,
        **_TOGETHER,
    },
    "workload.training": {
        "tensor": Key("int", "ranks that share a layer", ">= 1"),
        "pipeline": Key("int", "stages that share the layers", ">= 1"),
        "data": Key("int", "replicas; without it as many as there are hosts for", ">= 1"),
        "expert": Key("int", "replicas that share the experts of a layer; divides `data`", ">= 1"),
        "layers": Key("int", "layers of the model, a multiple of `pipeline`", ">= 1"),
        "parameters": Key("size", "gradients of a layer on one rank, which all replicas reduce", f"0..{MAX_FLOW_BYTES}"),
        "expert_parameters": Key("size", "those of its experts, which replicas that have them reduce", f"0..{MAX_FLOW_BYTES}"),
        "activations": Key("size", "of one microbatch between two layers, all tensor ranks together", f"0..{MAX_FLOW_BYTES}"),
        "forward": Key("time", "of one layer for one microbatch on one rank", ">= 0"),
        "backward": Key("time", "the same, backward", ">= 0"),
        "optimizer": Key("time", "at the end of an iteration", ">= 0"),
        "microbatches": Key("int", "per iteration and replica", ">= 1"),
        "schedule": Key(f"choice {' '.join(SCHEDULES)}", "order of microbatches in a stage"),
        "overlap": Key("bool", "reduce the gradients of a layer as soon as they are there; otherwise after the last backward"),
        "iterations": Key("int", "how many", ">= 1"),
        "all_reduce": Key(f"choice {' '.join(ALGORITHMS['all_reduce'])}", "algorithm of all-reduces"),
        "all_to_all": Key(f"choice {' '.join(ALGORITHMS['all_to_all'])}", "algorithm of the experts' exchanges"),
        "sendrecv": Key(f"choice {' '.join(ALGORITHMS['sendrecv'])}", "algorithm of the messages between stages"),
        "chunks": Key("int", "pieces of a segment of gradients that travel as flows of their own", ">= 1"),
        "connections": _CONNECTIONS,
        "latency": _LATENCY,
        "placement": Key(f"choice {' '.join(PLACEMENTS)}", "how ranks are put on hosts: in order, over the racks, at random"),
        "hosts": Key("hosts", "hosts that take part; without it all"),
        "start": _START,
        "seed": _SEED,
        "class": Key("text", "its classes are this name, followed by /data, /tensor, /pipeline or /expert"),
        "priority": _PRIORITY,
    },
    "workload.inference": {
        "file": Key("file", "the [requests](#requests): lines of a trace of Mooncake, or CSV; relative to the spec"),
        "rate": Key("float", "or so many requests per second, at random times", "> 0"),
        "input_tokens": Key("list", "of a request's prompt, with `rate`: a number, or several of which each draws one", ">= 1"),
        "output_tokens": Key("list", "of its answer, in the same way", ">= 0"),
        "duration": Key("time", "requests come for so long from `start` on; without it until `run.duration`", "> 0"),
        "requests": Key("int", "at most so many, the first ones", ">= 1"),
        "prefill": Key("int", "instances for prefill: the first of the hosts", ">= 1"),
        "decode": Key("int", "instances for decode: the hosts behind them", ">= 1"),
        "prefill_ranks": Key("int", "hosts of a prefill instance, which hold equal shares of a cache", ">= 1"),
        "decode_ranks": Key("int", "hosts of a decode instance", ">= 1"),
        "assign": Key(f"choice {' '.join(ASSIGNMENTS)}", "instances of a request; `prefix`: those that have most of its prefix"),
        "tokens_per_second": Key("float", "of a prefill instance, which computes one prompt after another", "> 0"),
        "kv_bytes": Key("size", "of a token in the KV cache, all layers and ranks together", f"1..{MAX_FLOW_BYTES}"),
        "layers": Key("int", 'equal parts of a cache, with `send = "layer"`', f"1..{MAX_LAYERS}"),
        "send": Key(f"choice {' '.join(SENDS)}", "the cache is sent when the prompt is computed, or each layer's part at once"),
        "prefix_cache": Key("bool", "what a prefill instance has is not computed, what a decode instance has is not sent"),
        "block": Key("int", "tokens of a block that the file names", ">= 1"),
        "store": Key("int", "hosts, behind all others, that keep what is computed, for prefill instances to fetch", ">= 0"),
        "first_step": Key("time", "from when the cache is at the decode instance to the first token", ">= 0"),
        "steps": Key("int", "steps of every decode instance with an exchange among its ranks as experts", ">= 0"),
        "step": Key("time", "computation of such a step", ">= 0"),
        "expert_bytes": Key("size", "what a rank sends in a step, and gets back, its own share included", f"0..{MAX_FLOW_BYTES}"),
        "skew": Key("float", "the k-th most popular expert rank gets a share in proportion to 1 / k^skew", f"0..{MAX_SKEW:g}"),
        "connections": Key(
            f"choice {' '.join(CONNECTED)}", "messages from a host to another share a path, congestion state and sequence, or not"
        ),
        "hosts": Key("hosts", "hosts that take part; without it the first that are needed"),
        "placement": Key(f"choice {' '.join(PLACEMENTS)}", "how ranks are put on hosts: in order, over the racks, at random"),
        "start": Key("time", "when the time of the requests begins", ">= 0"),
        "seed": _SEED,
        "class": Key("text", "its classes are this name, followed by /kv, /store or /experts"),
        "priority": _PRIORITY,
    },
    "workload.flows": {
        "file": Key("file", "a CSV or Parquet file of flows, or one of the HPCC simulator; relative to the spec"),
        "start": Key("time", "when the first flow starts; others keep their distance to it; without it as the file says", ">= 0"),
        "class": Key("text", "class of rows that give none"),
        "priority": Key("int", "priority of rows that give none", _PRIORITY.range),
    },
    "workload.list": {
        "flows": Key("list", 'flows, such as `[[0, 1, "1MB", "0s"]]`, or tables with the keys below'),
        "class": Key("text", "class of flows that give none"),
        "priority": Key("int", "priority of flows that give none", _PRIORITY.range),
    },
    "list": {
        "src": Key("host", "sender"),
        "dst": Key("host", "receiver, another host"),
        "bytes": _BYTES,
        "start": Key("time", "earliest start; default 0", ">= 0"),
        "class": _CLASS,
        "priority": _PRIORITY,
        "after": Key("list", "positions in the list, from 0, of flows to wait for; each ends or starts at this flow's `src`"),
        "gap": Key("time", "time from the arrival of the last of these to the start; default 0", ">= 0"),
        "connection": _CONNECTION,
        "rate": Key("rate", _RATE, ">= 10000"),
        "window": Key("size", _WINDOW, f"1..{MAX_FLOW_BYTES}"),
        "open_loop": Key("bool", _OPEN_LOOP),
    },
    "flows": {
        "src": Key("host", "sender, by number or name; where nodes are named by numbers, a number in quotes is a name"),
        "dst": Key("host", "receiver, another host"),
        "bytes": Key("bytes", "payload", f"1..{MAX_FLOW_BYTES}"),
        "start_ns": Key("ns", "earliest start, at most three decimals (ps)", ">= 0"),
        "class": _CLASS,
        "priority": _PRIORITY,
        "id": Key("text", "name of the flow, one word, for `after`; without the column its row, from 0"),
        "after": Key("words", "flows to wait for, separated by spaces; each ends or starts at this flow's `src`"),
        "gap_ns": Key("ns", "time from the arrival of the last of these to the start", ">= 0"),
        "connection": _CONNECTION,
        "rate_bps": Key("bps", _RATE, "..".join(map(str, RANGES["rate_bps"]))),
        "window_bytes": Key("bytes", _WINDOW, "..".join(map(str, RANGES["window_bytes"]))),
        "open_loop": Key("int", f"1: {_OPEN_LOOP}", "..".join(map(str, RANGES["open_loop"]))),
    },
    "requests": {
        "arrival_s": Key("float", "seconds from `start` until it comes", ">= 0"),
        "input_tokens": Key("int", "of its prompt", f"1..{MAX_TOKENS}"),
        "output_tokens": Key("int", "of its answer", f"0..{MAX_TOKENS}"),
    },
    "sizes": {
        "bytes": Key("bytes", "size of a flow, ascending; 0 only where `cdf` is 0", f"0..{MAX_FLOW_BYTES}"),
        "cdf": Key("float", "share of flows of at most this size, ascending; the last one is 1", "0..1"),
    },
    "links": {
        "a": Key("text", "one end of a link"),
        "b": Key("text", "its other end"),
        "rate": Key("rate", "rate, both directions", "> 0"),
        "delay": Key("delay", "propagation delay, one way", "> 0"),
        "loss": Key("float", "probability that a frame is lost; default 0", "0..<1"),
    },
    "graphml.edge": {
        "rate": Key("rate", "rate, both directions", "> 0"),
        "delay": Key("delay", "propagation delay, one way", "> 0"),
        "loss": Key("float", "probability that a frame is lost; default 0", "0..<1"),
    },
    "graphml.node": {
        "kind": Key(f"choice {' '.join(NODE_KINDS)}", "without it, topology.hosts or the number of links says what a node is"),
        "tier": Key("int", "0 in a server (NVSwitch), 1 ToR, 2 aggregation, 3 core; without it counted from the hosts", "0..3"),
        "buffer": Key("size", "buffer of a switch; without it that of [topology]", ">= 0"),
        "cut_through": Key("bool", "a switch forwards a packet when its header has arrived; default false"),
    },
    "llr": {
        "on": Key("bool"),
        "frames": Key("int", range=f"1..{MOST_FRAMES}"),
        "bytes": Key("size", range=">= 0"),
        "timeout": Key("time", range=">= 0"),
        "spacing": Key("size", range=">= 0"),
        "replays": Key("int", range=f"0..{MOST_REPLAYS}"),
        "on_flush": Key(f"choice {' '.join(ON_FLUSH)}"),
        "silent": Key("bool"),
        "ack_loss": Key("float", range="0..1"),
        "unseen": Key("float", range="0..1"),
    },
    "measure": {
        "window": Key("text"),
        "warmup": Key("time", range=">= 0"),
        "sample": Key("time", range=">= 0"),
        **{field.name: Key("bool") for field in dataclasses.fields(Measure) if field.type is bool},
    },
    "host": {
        "mtu": Key("bytes", range=f"1..{config.MAX_FRAME}"),
        "header": Key("bytes", range=">= 0"),
        "ack": Key("bytes", range=f"1..{config.MAX_FRAME}"),
        "control": Key("bytes", range=f"1..{config.MAX_FRAME}"),
        "rto": Key("time", range="> 0"),
        "ack_priority": Key(f"choice {' '.join(config.ACK_PRIORITIES)}"),
        "nic_queues": Key("int", range=f"0..{config.MAX_QUEUES}"),
        "pacing": Key("text"),
        "ports": Key(f"choice {' '.join(config.PORTS)}"),
        "ack_every": Key("int", range=f"0..{config.MOST_TOGETHER}"),
        "ack_after": Key("time", range="> 0"),
        "ack_delay": Key("time", range=">= 0"),
        "clock_ppm": Key("float", range=f"0..{config.MOST_PPM}"),
    },
    "in_network": {
        "window": Key("int", range=f"1..{config.MOST_CHUNKS}"),
        "groups": Key("int", range=f"0..{config.MOST_CHUNKS}"),
        "root": Key("text"),
    },
}  # fmt: skip


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "time": time_ps,
    "delay": delay_ps,
    "time > 0": lambda value, path: time_ps(value, path, positive=True),
    "size": size_bytes,
    "rate": parse_rate,
    "int": lambda value, path: whole(value, path, -MAX_SEED),
    "float": real,
    "bool": boolean,
}
_FORMS = ("workload.incast.size", "workload.collective.latency", "workload.training.latency")  # with values of other forms, too


def check(path: str, table: Mapping[str, Any]) -> None:
    """SpecError: a table of [topology] or [[workload]], at this path, has an unknown kind or key, or a value of a wrong type."""
    section = path.partition(".")[0]
    kinds: Iterable[str] = topology.KINDS if section == "topology" else workload.KINDS
    kind = "file" if table.get("kind") is None else one_of(table["kind"], f"{path}.kind", kinds)
    name = f"{section}.{kind}"
    known = _kinds_of(section, name)
    given = {key: value for key, value in table.items() if value is not None and key != "kind"}
    known_keys(given, [key for key in known if key != "class_name" or key in given], path)
    for key, value in given.items():
        kind, where = known[key], f"{path}.{key}"
        if kind.startswith("choice"):
            one_of(value, where, kind.split()[1:])
        elif kind in _CHECKS and f"{name}.{key}" not in _FORMS:
            _CHECKS[kind](value, where)


@cache
def _kinds_of(section: str, name: str) -> dict[str, str]:
    """The kind of each key of a table."""
    both = (*(rows(section) if section in tables() else ()), *rows(name))
    known = {row.key: "time > 0" if (row.kind, row.range) == ("time", "> 0") else row.kind for row in both}
    return known | ({"class_name": known["class"]} if "class" in known else {})


def tables() -> list[str]:
    """The names of all tables, in the order of docs/formats.md: "run", "topology", "topology.star", ..."""
    return list(_read())


def rows(table: str) -> list[Row]:
    """The keys of a table in the order of the code.  ValueError: a key has no entry in KEYS, or the code does not know it."""
    read, texts = _read()[table]
    known = {**KEYS.get(table.partition(".")[0], {}), **KEYS.get(table, {})}
    missing = [key for key in read if key not in known]
    used = set(read).union(*(keys for name, (keys, _) in _read().items() if name.startswith(f"{table}.")))
    unused = [key for key in KEYS.get(table, {}) if key not in used]
    if missing or unused:
        raise ValueError(f"{table}: {', '.join(missing)} not documented; {', '.join(unused)} unknown to the code")
    out = []
    for key, default in read.items():
        kind, text, allowed = known[key]
        out.append(Row(key, kind, allowed, default, text or texts.get(key, "")))
    return out


def _read() -> dict[str, tuple[dict[str, str], Mapping[str, str]]]:
    """Keys with defaults by table, as the code has them; and the meanings that its docstrings give."""
    found: dict[str, tuple[dict[str, str], Mapping[str, str]]] = {}
    found["run"] = {k: as_toml(f.default, f.is_required()) for k, f in RunTable.model_fields.items()}, {}
    found["topology"] = dict.fromkeys(("kind", "file", *COMMON), ""), {}
    for kind, builder in topology.KINDS.items():
        keys = arguments(builder)
        found[f"topology.{kind}"] = {k: v for k, v in keys.items() if k != "path"}, {}
    found["changes"] = columns(CHANGE_KEYS, ("time",)), {}
    found["llr"] = {f.name: as_toml(f.default) for f in dataclasses.fields(Llr)}, described(Llr)
    found["vswitches"] = {k: v for k, v in arguments(behind_vswitches).items() if k != "topo"}, {}
    found["receivers"] = columns(RECEIVER_KEYS, ("host",)), {}
    found["trace"] = columns(TRACE_COLUMNS, TRACE_COLUMNS), {}
    found["paths"], found["turns"] = (
        (columns(("flow", "direction", "path"), OF_FLOWS), {}),
        (columns(OF_PACKETS, OF_PACKETS), {}),
    )
    found["links"] = columns(("a", "b", *LINK_KEYS), ("a", "b")), {}
    found["graphml.edge"] = columns(LINK_KEYS), {}
    found["graphml.node"] = columns(NODE_KEYS), {}
    found["scheme"] = {k: as_toml(f.default, f.is_required()) for k, f in SchemeTable.model_fields.items()}, {}
    for kind, source in workload.KINDS.items():
        keys = {k: v for k, v in arguments(source).items() if k not in NOT_FROM_A_TABLE}
        found[f"workload.{kind}"] = {"class" if k == "class_name" else k: v for k, v in keys.items()}, {}
        for key in ("duration", "seed"):  # those of [run], unless the table says otherwise
            if key in keys:
                found[f"workload.{kind}"][0][key] = ""
    found["list"] = columns(LIST_KEYS, ("src", "dst", "bytes")), {}
    found["flows"] = columns((*REQUIRED, *OPTIONAL), REQUIRED), {}
    found["requests"] = columns(REQUEST_COLUMNS, REQUEST_COLUMNS), {}
    found["sizes"] = columns(SIZE_COLUMNS, SIZE_COLUMNS), {}
    for name, cls in (("measure", Measure), ("host", HostConfig), ("in_network", InNetwork)):
        found[name] = {f.name: as_toml(f.default) for f in dataclasses.fields(cls)}, described(cls)
    return found
