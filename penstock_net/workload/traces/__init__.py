"""Traces of other programs as flows: GOAL, Chakra ET, SimAI, ASTRA-sim 1.0, AICB, connection matrices of htsim, logs of NCCL.

    converted = convert("step.goal", placement="strided", hosts=64)
    converted.flows                  # Flows, for `simulate`
    converted.notes                  # what the file says and flows cannot

One file here per format makes a `dag.Trace` of its files; `lower.py` makes flows of any trace. What a file says that is neither
represented nor listed in the notes is a SpecError with its place.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock_net import formats
from penstock_net.errors import SpecError
from penstock_net.inputs import MAX_SEED, one_of, read_bytes, whole
from penstock_net.topology.graph import MAX_HOSTS
from penstock_net.topology.scale_up import Servers
from penstock_net.workload.algorithms import ALGORITHMS, WITHIN_SERVERS
from penstock_net.workload.connections import CONNECTIONS
from penstock_net.workload.flows import Flows
from penstock_net.workload.latency import PROTOCOLS
from penstock_net.workload.placement import PLACEMENTS, in_order
from penstock_net.workload.traces import aicb, chakra, goal, htsim, nccl, simai
from penstock_net.workload.traces.dag import SEND, Trace
from penstock_net.workload.traces.lower import Circle, ScaleUp, lower

FORMATS: dict[str, Callable[..., Trace]] = {
    "goal": goal.read,
    "chakra": chakra.read,
    "simai": simai.read,
    "astra": simai.read,
    "aicb": aicb.read,
    "htsim": htsim.read,
    "nccl": nccl.read,
}
OPTIONS = {  # of some formats only
    "ranks": ("simai", "astra", "aicb"),
    "groups": ("chakra",),
    "concurrent": ("chakra",),
    "missing_parents": ("chakra",),
}
EAGER = {"goal": 65535}  # bytes of the longest message whose send is complete at once: LogGOPSim's S; elsewhere none

CONNECTED = {"htsim": "message"}  # what `connections` is by default; elsewhere "pair"


@dataclass(frozen=True)
class Converted:
    """A trace as flows.

    ranks   of the trace; rank r is host hosts[r]        format   one of FORMATS
    notes   what flows do not have of what the file says, and how often
    """

    flows: Flows
    format: str
    ranks: int
    hosts: np.ndarray
    notes: dict[str, int]


def convert(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    placement: str = "packed",
    hosts: int | None = None,
    rack: int | None = None,
    seed: int | None = None,
    ranks: int | None = None,
    groups: str | None = None,
    eager: int | None = None,
    concurrent: bool = False,
    missing_parents: bool = False,
    connections: str | None = None,
    gpus: int | None = None,
    all_reduce: str | None = None,
    all_to_all: str | None = None,
    sendrecv: str | None = None,
    latency: str | Mapping[str, str] | None = None,
) -> Converted:
    """The flows of a trace.

    format     one of FORMATS; without it, it is recognised by the content
    placement  rank r is host r ("packed"), the next rank in the next rack ("strided"), or all are drawn ("random")
    rack       hosts of a rack, for "strided"                seed     of "random"; default 1
    hosts      of the network, at least as many as ranks; default: as many
    ranks      of a workload of SimAI, ASTRA-sim or AICB that does not say
    groups     JSON file of the process groups of a Chakra trace
    eager      a send of at most so many bytes is complete at once, others when they are acknowledged; default EAGER
    concurrent       what a rank of a Chakra trace computes or has its processor do may overlap, and so may its collectives
    connections      which messages from a rank to another share a path, congestion state and sequence: all ("pair"), those of
                     one tag ("channel"), none ("message"); default: all, of htsim none, whose lines are connections
    missing_parents  nodes of a Chakra trace may wait for nodes that are not in it; such waits are left out
    gpus             hosts of a server, whose GPUs are joined by a switch of their own; server s has hosts s * gpus, ...
    all_reduce, all_to_all, sendrecv   algorithms of these collectives and of messages, see `collective`; default: the first
    latency          what starting a message takes: a time, {"scale_up": ..., "network": ...}, or a protocol of NCCL, see
                     `collective`

    SpecError: anything that is not such a file or cannot be represented, with file and line (or node); an option that nothing in
    the trace uses, or that the trace contradicts.
    """
    path = os.fspath(path)
    format = guess(path) if format is None else one_of(format, "format", FORMATS)
    own = {"ranks": ranks, "groups": groups, "concurrent": concurrent or None, "missing_parents": missing_parents or None}
    own = {option: given for option, given in own.items() if given is not None}
    for option, given in own.items():
        if format not in OPTIONS[option]:
            raise SpecError(
                f"is for {' and '.join(OPTIONS[option])} only", path=option, value=given, remedy=f"{path} is {format}"
            )
    if connections is not None:
        one_of(connections, "connections", CONNECTIONS)
    if ranks is not None:
        whole(ranks, "ranks", 1, MAX_HOSTS)
    trace = FORMATS[format](path, **own)
    if eager is not None and SEND not in trace.kind:
        raise SpecError(f"is for sends, and {path} has none", path="eager", value=eager, remedy="leave it out")
    eager = EAGER.get(format, 0) if eager is None else whole(eager, "eager", 0)
    places = place(trace.ranks, placement, hosts, rack, seed)
    chosen = {"all_reduce": all_reduce, "all_to_all": all_to_all, "sendrecv": sendrecv}
    scale_up = _scale_up(trace, places, gpus, {kind: name for kind, name in chosen.items() if name is not None}, latency)
    try:
        flows = lower(trace, places, eager, connections or CONNECTED.get(format, "pair"), scale_up)
    except Circle as error:
        if (
            format in OPTIONS["concurrent"]
            and not concurrent
            and _ends(FORMATS[format](path, **own, concurrent=True), places, eager)
        ):
            error.remedy = "what a rank does in turn is in its way: with --concurrent only dependencies delay a node"
        raise
    return Converted(flows, format, trace.ranks, places, trace.notes)


def _scale_up(trace: Trace, places: np.ndarray, gpus: int | None, chosen: dict[str, str], latency: Any) -> ScaleUp:
    """SpecError: no such algorithm, something that nothing in the trace uses, or nothing that needs servers."""
    called = {call.kind for call in trace.calls.values()} | ({"sendrecv"} if SEND in trace.kind else set())
    for kind, name in chosen.items():
        one_of(name, kind, ALGORITHMS[kind])
        if kind not in called:
            what = "messages" if kind == "sendrecv" else kind
            raise SpecError(f"is for {what}, and {trace.file} has none", path=kind, value=name, remedy="leave it out")
    if gpus is None:
        return ScaleUp(None, chosen, latency)
    whole(gpus, "gpus", 1, MAX_HOSTS)
    every_one_alike = latency is None or (isinstance(latency, str) and latency not in PROTOCOLS)
    if every_one_alike and not set(chosen.values()) & set(WITHIN_SERVERS):
        rule = f"is for the algorithms {' and '.join(WITHIN_SERVERS)}, and for a latency that differs within servers"
        raise SpecError(rule, path="gpus", value=gpus, remedy="leave it out, or give one of them")
    return ScaleUp(Servers.even(int(places.max()) + 1, gpus).of(places), chosen, latency)


def _ends(trace: Trace, places: np.ndarray, eager: int) -> bool:
    """Whether nothing in a trace waits for itself."""
    try:
        lower(trace, places, eager)
    except Circle:
        return False
    return True


def guess(path: str) -> str:
    """The format of a file or folder."""
    if chakra.files(path):
        return "chakra"
    if path.endswith(".et"):
        raise SpecError("is one rank's file of a Chakra trace", place=path, remedy="give the folder, or DIR/NAME of NAME.0.et")
    found = formats.refuse_others(read_bytes(path), formats.TRACE, path)
    if found is None:
        raise SpecError("the format is not recognised", place=path, remedy=f"give --format: {', '.join(FORMATS)}")
    return found.name


def place(
    ranks: int, placement: str = "packed", hosts: int | None = None, rack: int | None = None, seed: int | None = None
) -> np.ndarray:
    """The host of each rank, int64; SpecError: fewer hosts than ranks, hosts that are not whole racks, a rack or a seed that the
    placement does not use."""
    one_of(placement, "placement", PLACEMENTS)
    if hosts is not None and hosts < ranks:
        raise SpecError(f"the trace has {ranks} ranks, each of which is a host", path="hosts", value=hosts)
    hosts = ranks if hosts is None else whole(hosts, "hosts", 1, MAX_HOSTS)
    if (rack is None) == (placement == "strided"):
        raise SpecError('is for placement = "strided", which needs it', path="rack", value="none" if rack is None else rack)
    if seed is not None and placement != "random":
        raise SpecError('is for placement = "random" only', path="seed", value=seed, remedy="leave one out")
    seed = 1 if seed is None else whole(seed, "seed", 0, MAX_SEED)
    if rack is not None and hosts % whole(rack, "rack", 1, hosts):
        raise SpecError(f"the {hosts} hosts are not whole racks of so many", path="rack", value=rack)
    numbers = np.arange(hosts)
    return in_order(numbers, numbers // (rack or hosts), placement, seed)[:ranks]
