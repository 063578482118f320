"""The registry of formats: how a file is recognised by its content, what reads it or why nothing does, what of it is not read.

    found = recognise(raw)                    # a row of FORMATS, or None
    refuse_others(raw, "topology", path)      # SpecError: it is a file of another kind, "this is ...; do ..."

Every place that takes a file asks here first, so that no reader complains of the syntax of a file that was never its own.
"""

import json
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from penstock_net.errors import SpecError

_HEAD = 1 << 16  # bytes that are looked at
_LONG_HEAD = 1 << 20  # of logs and JSON, which may begin with something else
GOAL_MAGIC = (4223).to_bytes(8, "little")
TOPOLOGY, FLOWS, SIZES, RECEIVERS, TRACE = "topology", "flows", "sizes", "receivers", "trace"
REQUESTS, PATHS = "requests", "paths"
READ_BY = {
    TOPOLOGY: "give it as file of [topology]",
    FLOWS: 'give it as file of a [[workload]] of kind = "flows"',
    SIZES: 'give it as sizes of a [[workload]] of kind = "poisson"',
    RECEIVERS: "give it as trace of receivers",
    REQUESTS: 'give it as file of a [[workload]] of kind = "inference"',
    PATHS: "give it as paths of [run]",
    TRACE: "penstock convert makes flows of it",
}


class Content:
    """What a file begins with; `rows` are its lines as words, without empty lines and comments."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.head, self.long_head = raw[:_HEAD], raw[:_LONG_HEAD]

    @cached_property
    def rows(self) -> list[list[str]]:
        lines = self.head.decode("utf-8", "replace").splitlines()
        rows = [line.split() for line in (lines[:-1] if len(self.raw) > _HEAD else lines)]
        return [words for words in rows if words and not words[0].startswith("#")]

    def begins(self, pattern: bytes) -> bool:
        """Whether the pattern matches at the beginning."""
        return re.match(pattern, self.head) is not None

    def has(self, pattern: bytes) -> bool:
        """Whether a line begins so."""
        return re.search(rb"^[ \t]*(?:" + pattern + rb")", self.head, re.M) is not None

    def has_keys(self, *names: str) -> bool:
        """Whether it is JSON in which all of these are keys."""
        return self.long_head.lstrip().startswith(b"{") and all(f'"{name}"'.encode() in self.long_head for name in names)


class Format(NamedTuple):
    """A row of the registry.

    what         a message calls it so                       of      what reads it, a key of READ_BY; "": nothing
    mark         how it is recognised, in words; `looks_like` is the same as code; None: by where it is given
    unread       what it says and is not read                remedy  what to do, where nothing reads it
    """

    name: str
    what: str
    of: str
    mark: str
    looks_like: Callable[[Content], bool] | None
    unread: str = ""
    remedy: Callable[[Content], str] = lambda content: ""

    def refused(self, raw: bytes, place: object) -> SpecError:
        """The error for a file that was given where it does not belong."""
        remedy = READ_BY[self.of] if self.of else self.remedy(Content(raw))
        return SpecError(f"this is {self.what}", remedy=remedy, place=place)


def recognise(raw: bytes) -> Format | None:
    """The format of a file with this content."""
    content = Content(raw)
    return next((row for row in FORMATS if row.looks_like is not None and row.looks_like(content)), None)


def used(row: Format) -> str:
    """What to do with a file of a format, and what of it is not read."""
    does = READ_BY[row.of] if row.of else f"nothing reads it: {row.remedy(Content(b''))}"
    return does + (f"; not read: {row.unread}" if row.unread else "")


def refuse_others(raw: bytes, of: str, place: object) -> Format | None:
    """The format of a file, if it is one of those of `of` or is not known.  SpecError: it is one that belongs elsewhere."""
    found = recognise(raw)
    if found is not None and found.of != of:
        raise found.refused(raw, place)
    return found


# How each is recognised


def _number(word: str) -> bool:
    return re.fullmatch(r"[+-]?\d+\.?\d*(?:[eE][+-]?\d+)?", word, re.ASCII) is not None


def _whole(words: list[str]) -> bool:
    return all(word.isdecimal() and word.isascii() for word in words)


def _link(words: list[str]) -> bool:
    """Whether it is `a b rate delay ...` of the HPCC simulator."""
    return len(words) >= 4 and _whole(words[:2]) and words[2][:1].isdigit() and words[3][:1].isdigit() and not _whole(words[2:4])


def _hpcc_topology(content: Content) -> bool:
    rows = content.rows
    if not rows or not 3 <= len(rows[0]) <= 6 or not _whole(rows[0]):
        return False
    return len(rows) > 1 and (_whole(rows[1]) or _link(rows[1])) and not _three_columns(content)


def _simai_topology(content: Content) -> bool:
    first = content.rows[0] if content.rows else []
    return len(first) >= 6 and _whole(first[:5]) and not _number(first[5])


def _hpcc_flows(content: Content) -> bool:
    rows = content.rows
    if not rows or len(rows[0]) != 1 or not _whole(rows[0]) or len(rows) < 2:
        return False
    return len(rows[1]) >= 5 and all(map(_number, rows[1])) and _whole(rows[1][:4])


def _sizes(content: Content) -> bool:
    """`bytes share`, ascending.  Two columns of whole numbers are an edge list as well, which never begins with a node twice."""
    rows = content.rows
    if not rows or any(len(words) != 2 or not all(map(_number, words)) for words in rows):
        return False
    return len(rows) > 1 and (rows[0][0] == rows[0][1] or any("." in words[1] for words in rows))


def _three_columns(content: Content) -> bool:
    rows = content.rows
    if len(rows) < 2 or any(len(words) != 3 or not all(map(_number, words)) for words in rows):
        return False
    shares = [float(words[2]) for words in rows]
    return shares == sorted(shares) and shares[-1] == 1


def _paths(content: Content) -> bool:
    columns = set(re.split(r"[\s,;|]+", " ".join(content.rows[0]))) if content.rows else set()
    return {"flow", "path"} <= columns or {"switch", "from", "first"} <= columns


def _sonic(content: Content) -> bool:
    return any(content.has_keys(table) for table in _SONIC)


def _sonic_remedy(content: Content) -> str:
    """What a [topology] and a [scheme] table have of it."""
    try:
        tables = json.loads(content.raw)
    except (ValueError, RecursionError):
        tables = {}
    pools = [pool for pool in _rows(tables, "BUFFER_POOL") if str(pool.get("type")) in ("ingress", "both")]
    sizes = [int(str(pool.get("size"))) for pool in pools if str(pool.get("size", "")).isdecimal()]
    parts = [f'buffer = "{max(sizes)}B" in [topology]'] if sizes else []
    for profile in _rows(tables, "BUFFER_PROFILE"):
        threshold = str(profile.get("dynamic_th", ""))
        if "xoff" in profile and re.fullmatch(r"-?\d", threshold):
            parts.append(f"alpha = {2.0 ** int(threshold):g} (dynamic_th = {threshold}) in a [scheme] with pfc")
            break
    enabled = sorted({str(port["pfc_enable"]) for port in _rows(tables, "PORT_QOS_MAP") if "pfc_enable" in port})
    if enabled:
        parts.append(f"a scheme with pfc for the priorities of pfc_enable, {enabled[0]!r}")
    return "penstock advise checks it; it names ports and buffers of a switch, and no links: give a network, and " + (
        "; ".join(parts) if parts else "the switch's buffer in [topology]"
    )


def _rows(tables: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = tables.get(name)
    return [row for row in table.values() if isinstance(row, dict)] if isinstance(table, dict) else []


def _json_graph(content: Content) -> bool:
    return content.has_keys("nodes", "source", "target") and (content.has_keys("links") or content.has_keys("edges"))


_SONIC = ("BUFFER_POOL", "BUFFER_PROFILE", "PORT_QOS_MAP", "DEVICE_METADATA", "MAP_PFC_PRIORITY_TO_QUEUE", "WRED_PROFILE")
_SIMAI = rb"HYBRID_TRANSFORMER_FWD_IN_BCKWD\b[ \t]*(?:model_parallel_NPU_group:|\r?\n)|MICRO\s*\n"
_ASTRA = rb"(?:DATA|MODEL|TRANSFORMER|DLRM\w*|HYBRID_\w+|DISTRIBUTED_INFERENCE)(?:[ \t]+[\w.]+:?[^\n]*)?\r?\n\s*\d+\s*\n"
_NOTHING_ELSE = "nothing; what is not known is refused"
_NAMED = "attributes that mean nothing, named with their count"

FORMATS = (
    Format(
        "goal",
        "a trace in GOAL",
        TRACE,
        "num_ranks N, or the number 4223 of the binary form",
        lambda c: c.raw.startswith(GOAL_MAGIC) or c.has(rb"num_ranks[ \t]+\d"),
        "processors and NICs other than 0",
    ),
    Format(
        "chakra",
        "a Chakra execution trace",
        TRACE,
        "a folder with files NAME.0.et, NAME.1.et, ...",
        None,
        "when nodes began when they were recorded; attributes that mean nothing, by name",
    ),
    Format(
        "simai",
        "a workload of SimAI",
        TRACE,
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD or MICRO first",
        lambda c: c.begins(_SIMAI),
        "virtual stages, micro-batches, transfers between pipeline stages; the second column",
    ),
    Format(
        "astra",
        "a workload of ASTRA-sim 1.0",
        TRACE,
        "DATA, MODEL, HYBRID_... first, then the number of layers",
        lambda c: c.begins(_ASTRA),
        "collectives that the policy does not run; the second column. Only DATA, MODEL and HYBRID_TRANSFORMER are read",
    ),
    Format(
        "aicb",
        "a workload of AICB",
        TRACE,
        "a header comm_type,comm_group,...",
        lambda c: c.has(rb"comm_type,comm_group,"),
        "measured times of collectives; columns that mean nothing, by name",
    ),
    Format(
        "nccl",
        "a log of NCCL",
        TRACE,
        "NCCL INFO in a line",
        lambda c: b"NCCL INFO" in c.long_head,
        "lines that are no calls and make no communicators; what stands before the host",
    ),
    Format(
        "htsim",
        "a connection matrix of htsim",
        TRACE,
        "a line Nodes N, without Tiers",
        lambda c: c.has(rb"Nodes[ \t]+\d") and not _htsim_topology(c),
        "priorities and failures",
    ),
    Format(
        "htsim_topology",
        "a topology of htsim",
        TOPOLOGY,
        "lines Nodes N and Tiers N",
        lambda c: _htsim_topology(c),
        "Queue_Up, Queue_Down and Oversubscribed",
    ),
    Format(
        "hpcc_topology",
        "a topology of the HPCC simulator",
        TOPOLOGY,
        "three to six numbers, then the switches, or links a b rate delay",
        _hpcc_topology,
        "columns after the fifth, numbers after the fourth of line 1, links beyond the announced ones; text below them",
    ),
    Format(
        "simai_topology",
        "a topology of SimAI",
        TOPOLOGY,
        "five numbers and a kind of GPU in the first line",
        _simai_topology,
        "the kind of GPU, GPUs of a server; otherwise as of the HPCC simulator",
    ),
    Format("graphml", "a graph in GraphML", TOPOLOGY, "<graphml", lambda c: c.has(rb"<(?:\w+:)?graphml\b"), _NAMED),
    Format("gml", "a graph in GML", TOPOLOGY, "graph [", lambda c: c.has(rb"graph[ \t]*\r?\n?[ \t]*\["), _NAMED),
    Format(
        "json_graph",
        "a graph in JSON (node_link_data of networkx)",
        TOPOLOGY,
        "keys nodes and links, or edges",
        _json_graph,
        _NAMED,
    ),
    Format(
        "links_csv",
        "links as CSV",
        TOPOLOGY,
        "a header with two ends: a,b or source;target",
        None,
        "columns, named with their count",
    ),
    Format("links", "an edge list", TOPOLOGY, "a b rate delay loss in each line", None, _NOTHING_ELSE),
    Format("flows_csv", "flows as CSV", FLOWS, "a header with src,dst,bytes,start_ns", None, _NOTHING_ELSE),
    Format("flows_parquet", "flows as Parquet", FLOWS, "a name that ends in .parquet", None, "metadata of other programs"),
    Format(
        "hpcc_flows",
        "a flow file of the HPCC simulator",
        FLOWS,
        "a number, then src dst priority port bytes start",
        _hpcc_flows,
        "the port; flows beyond the announced ones; text below them",
    ),
    Format("sizes", "a distribution of flow sizes", SIZES, "bytes percent in each line", _sizes, _NOTHING_ELSE),
    Format("sizes_csv", "a distribution of flow sizes as CSV", SIZES, "the header bytes,cdf", None, _NOTHING_ELSE),
    Format(
        "paths_csv",
        "paths of flows, or of packets, as CSV",
        PATHS,
        "a header with flow,path or switch,from,first",
        _paths,
        "columns, named with their count",
    ),
    Format("rates_csv", "rates of a receiver as CSV", RECEIVERS, "the header time,rate", None, "columns, named with their count"),
    Format(
        "requests",
        "a trace of inference requests (Mooncake), in tokens",
        REQUESTS,
        "JSON lines with timestamp, input_length, output_length",
        lambda c: all(c.begins(rb"\s*\{[^\n]*\"" + key) for key in (rb"timestamp\"", rb"input_length\"", rb"output_length\"")),
        "keys, named with their count",
    ),
    Format(
        "requests_csv",
        "inference requests as CSV",
        REQUESTS,
        "the header arrival_s,input_tokens,output_tokens",
        None,
        "columns, named with their count",
    ),
    Format(
        "ns2_sizes",
        "a distribution of flow sizes for ns-2, in packets or in bytes, which it does not say",
        "",
        "three columns of numbers, the last up to 1",
        _three_columns,
        remedy=lambda c: "write the first and the third column as CSV with the header bytes,cdf",
    ),
    Format("sonic", "a configuration of SONiC", "", "keys such as BUFFER_POOL", _sonic, remedy=_sonic_remedy),
    Format(
        "hpcc_config",
        "a configuration of the HPCC simulator",
        "",
        "TOPOLOGY_FILE or FLOW_FILE",
        lambda c: c.has(rb"(?:TOPOLOGY_FILE|FLOW_FILE|CC_MODE|KMAX_MAP)[ \t]"),
        remedy=lambda c: "give the files that TOPOLOGY_FILE and FLOW_FILE name",
    ),
    Format(
        "astra_network",
        "an analytical network of ASTRA-sim, which has no switches",
        "",
        "topology: [ ... ] and npus_count:",
        lambda c: c.has(rb"topology:[ \t]*\[") and c.has(rb"npus_count:"),
        remedy=lambda c: 'give a network with switches, such as kind = "leaf_spine"',
    ),
    Format(
        "pytorch",
        "an execution trace of PyTorch in JSON",
        "",
        "keys schema and nodes",
        lambda c: c.has_keys("schema", "nodes"),
        remedy=lambda c: "chakra_converter of mlcommons/chakra makes files NAME.0.et of it, which penstock convert reads",
    ),
    Format(
        "kineto",
        "a profile of PyTorch (Kineto)",
        "",
        "the key traceEvents",
        lambda c: c.has_keys("traceEvents"),
        remedy=lambda c: (
            "chakra_trace_link and chakra_converter of mlcommons/chakra make files NAME.0.et of it, which penstock convert reads"
        ),
    ),
    Format(
        "adjacency",
        "a graph in JSON (adjacency_data of networkx)",
        "",
        "keys nodes and adjacency",
        lambda c: c.has_keys("nodes", "adjacency"),
        remedy=lambda c: "save it as json.dumps(networkx.node_link_data(networkx.adjacency_graph(json.load(FILE))))",
    ),
    Format(
        "dot",
        "a graph in DOT",
        "",
        "graph NAME {",
        lambda c: c.has(rb"(?:strict[ \t]+)?(?:di)?graph\b[^\n{<]*\{"),
        remedy=lambda c: (
            "save it as GraphML, networkx.write_graphml(networkx.nx_pydot.read_dot(FILE), OUT), with rate and delay of edges as "
            "attributes, or write an edge list: a b rate delay"
        ),
    ),
    Format(
        "containerlab",
        "a topology of containerlab",
        "",
        "topology: with links of endpoints",
        lambda c: c.has(rb"topology:[ \t]*\r?\n") and c.has(rb"(?:-[ \t]*)?endpoints:[ \t]*\["),
        remedy=lambda c: _endpoints(c),
    ),
    Format(
        "sst",
        "a configuration of SST",
        "",
        "import sst, or topology { of SST/macro",
        lambda c: c.has(rb"import[ \t]+sst\b|from[ \t]+sst\b") or c.has(rb"topology[ \t]*\{") or c.has(rb"topology\.name[ \t]*="),
        remedy=lambda c: (
            'its network is made by a program: give a kind, such as "torus", "dragonfly" or "fat_tree", or an edge list'
        ),
    ),
    Format(
        "booksim",
        "a configuration of BookSim",
        "",
        "topology = NAME;",
        lambda c: c.has(rb"topology[ \t]*=[ \t]*\w+[ \t]*;"),
        remedy=lambda c: (
            'give a kind: "torus" for mesh and torus, "dragonfly", "fat_tree", or the links as an edge list: a b rate delay'
        ),
    ),
    Format(
        "booksim_anynet",
        "a network of BookSim (anynet)",
        "",
        "router N node N ... in each line",
        lambda c: c.begins(rb"\s*router[ \t]+\d+[ \t]+(?:router|node)[ \t]+\d+"),
        remedy=lambda c: "write an edge list, a line for each pair: r0 n0 100Gbps 1us; its latencies are cycles",
    ),
)


def _endpoints(content: Content) -> str:
    """The links of a file of containerlab as an edge list, in words."""
    found = re.findall(r"endpoints:\s*\[\s*[\"']?([\w.-]+):[^,\]]*,\s*[\"']?([\w.-]+):", content.head.decode("utf-8", "replace"))
    example = "; ".join(f"{a} {b} 100Gbps 1us" for a, b in found[:2]) or "a b 100Gbps 1us"
    links = f"{len(found)} link{'s' * (len(found) > 1)}" if found else "links"
    return f"it has neither rates nor delays: write its {links} as an edge list, a line each: {example}; ..."


def _htsim_topology(content: Content) -> bool:
    return re.search(rb"^Nodes[ \t]+\d", content.head, re.M | re.I) is not None and (
        re.search(rb"^(?:Tiers|Podsize|Tier)[ \t]+\d", content.head, re.M | re.I) is not None
    )
