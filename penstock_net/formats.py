"""Files of other programs, recognised by their content: what each is, and what reads it or why nothing does.

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
TOPOLOGY, FLOWS, SIZES, TRACE = "topology", "flows", "sizes", "trace"
READ_BY = {
    TOPOLOGY: "give it as file of [topology]",
    FLOWS: 'give it as file of a [[workload]] of kind = "flows"',
    SIZES: 'give it as sizes of a [[workload]] of kind = "poisson"',
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
    """A row: `what` a message calls it, what reads it (a key of READ_BY, or "": nothing), and what to do without a reader."""

    name: str
    what: str
    of: str
    looks_like: Callable[[Content], bool]
    remedy: Callable[[Content], str] = lambda content: ""

    def refused(self, raw: bytes, place: object) -> SpecError:
        """The error for a file that was given where it does not belong."""
        remedy = READ_BY[self.of] if self.of else self.remedy(Content(raw))
        return SpecError(f"this is {self.what}", remedy=remedy, place=place)


def recognise(raw: bytes) -> Format | None:
    """The format of a file with this content."""
    content = Content(raw)
    return next((row for row in FORMATS if row.looks_like(content)), None)


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
    return "it names ports and buffers of a switch, and no links: give a network, and " + (
        "; ".join(parts) if parts else "the switch's buffer in [topology]"
    )


def _rows(tables: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table = tables.get(name)
    return [row for row in table.values() if isinstance(row, dict)] if isinstance(table, dict) else []


_SONIC = ("BUFFER_POOL", "BUFFER_PROFILE", "PORT_QOS_MAP", "DEVICE_METADATA", "MAP_PFC_PRIORITY_TO_QUEUE", "WRED_PROFILE")
_POLICIES = rb"(?:MICRO|DATA|MODEL|TRANSFORMER|DLRM\w*|HYBRID_\w+|DISTRIBUTED_INFERENCE)"

FORMATS = (
    Format("goal", "a trace in GOAL", TRACE, lambda c: c.raw.startswith(GOAL_MAGIC) or c.has(rb"num_ranks[ \t]+\d")),
    Format(
        "simai",
        "a workload of SimAI",
        TRACE,
        lambda c: c.begins(rb"[A-Z_]+[ \t]+model_parallel_NPU_group:|" + _POLICIES + rb"\s*\n"),
    ),
    Format("aicb", "a workload of AICB", TRACE, lambda c: c.has(rb"comm_type,comm_group,")),
    Format("nccl", "a log of NCCL", TRACE, lambda c: b"NCCL INFO" in c.long_head),
    Format("htsim", "a connection matrix of htsim", TRACE, lambda c: c.has(rb"Nodes[ \t]+\d") and not _htsim_topology(c)),
    Format("htsim_topology", "a topology of htsim", TOPOLOGY, lambda c: _htsim_topology(c)),
    Format("hpcc_topology", "a topology of the HPCC simulator", TOPOLOGY, _hpcc_topology),
    Format("simai_topology", "a topology of SimAI", TOPOLOGY, _simai_topology),
    Format("graphml", "a graph in GraphML", TOPOLOGY, lambda c: c.has(rb"<(?:\w+:)?graphml\b")),
    Format("hpcc_flows", "a flow file of the HPCC simulator", FLOWS, _hpcc_flows),
    Format("sizes", "a distribution of flow sizes", SIZES, _sizes),
    Format(
        "ns2_sizes",
        "a distribution of flow sizes for ns-2, in packets or in bytes, which it does not say",
        "",
        _three_columns,
        lambda c: "write the first and the third column as CSV with the header bytes,cdf",
    ),
    Format("sonic", "a configuration of SONiC", "", _sonic, _sonic_remedy),
    Format(
        "hpcc_config",
        "a configuration of the HPCC simulator",
        "",
        lambda c: c.has(rb"(?:TOPOLOGY_FILE|FLOW_FILE|CC_MODE|KMAX_MAP)[ \t]"),
        lambda c: "give the files that TOPOLOGY_FILE and FLOW_FILE name",
    ),
    Format(
        "astra_network",
        "an analytical network of ASTRA-sim, which has no switches",
        "",
        lambda c: c.has(rb"topology:[ \t]*\[") and c.has(rb"npus_count:"),
        lambda c: 'give a network with switches, such as kind = "leaf_spine"',
    ),
    Format(
        "pytorch",
        "an execution trace of PyTorch in JSON",
        "",
        lambda c: c.has_keys("schema", "nodes"),
        lambda c: "chakra_converter of mlcommons/chakra makes files NAME.0.et of it, which penstock convert reads",
    ),
    Format(
        "kineto",
        "a profile of PyTorch (Kineto)",
        "",
        lambda c: c.has_keys("traceEvents"),
        lambda c: (
            "chakra_trace_link and chakra_converter of mlcommons/chakra make files NAME.0.et of it, which penstock convert reads"
        ),
    ),
    Format(
        "gml",
        "a graph in GML",
        "",
        lambda c: c.has(rb"graph[ \t]*\r?\n?[ \t]*\["),
        lambda c: "save it as GraphML: networkx.write_graphml(networkx.read_gml(FILE), OUT)",
    ),
    Format(
        "dot",
        "a graph in DOT",
        "",
        lambda c: c.has(rb"(?:strict[ \t]+)?(?:di)?graph\b[^\n{<]*\{"),
        lambda c: "save it as GraphML, or write an edge list",
    ),
)


def _htsim_topology(content: Content) -> bool:
    return re.search(rb"^Nodes[ \t]+\d", content.head, re.M | re.I) is not None and (
        re.search(rb"^(?:Tiers|Podsize|Tier)[ \t]+\d", content.head, re.M | re.I) is not None
    )
