"""Traces of other programs as flows: GOAL, Chakra ET, SimAI and AICB, connection matrices of htsim, logs of NCCL.

    converted = convert("step.goal", placement="strided", hosts=64)
    converted.flows                  # Flows, for `simulate`
    converted.notes                  # what the file says and flows cannot

One file here per format makes a `dag.Trace` of its files; `lower.py` makes flows of any trace. What a file says that is neither
represented nor listed in the notes is a SpecError with its place.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.errors import SpecError
from penstock.inputs import MAX_SEED, one_of, read_bytes, whole
from penstock.topology.graph import MAX_HOSTS
from penstock.workload.flows import Flows
from penstock.workload.placement import PLACEMENTS, in_order
from penstock.workload.traces import chakra, goal, htsim, nccl, simai
from penstock.workload.traces.dag import Trace
from penstock.workload.traces.lower import lower

FORMATS: dict[str, Callable[..., Trace]] = {
    "goal": goal.read,
    "chakra": chakra.read,
    "simai": simai.read,
    "htsim": htsim.read,
    "nccl": nccl.read,
}
EAGER = {"goal": 65535}  # bytes of the longest message whose send is complete at once: LogGOPSim's S; elsewhere none
_HEAD = 1 << 20


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
    seed: int = 1,
    ranks: int | None = None,
    groups: str | None = None,
    eager: int | None = None,
) -> Converted:
    """The flows of a trace.

    format     one of FORMATS; without it, it is recognised by the content
    placement  rank r is host r ("packed"), the next rank in the next rack ("strided"), or all are drawn ("random", by `seed`)
    rack       hosts of a rack, for "strided"
    hosts      of the network, at least as many as ranks; default: as many
    ranks      of a SimAI workload that does not say             groups   JSON file of the process groups of a Chakra trace
    eager      a send of at most so many bytes is complete at once, others when they are acknowledged; default EAGER

    SpecError with file and line (or node): anything that is not such a file, or cannot be represented.
    """
    path = os.fspath(path)
    format = guess(path) if format is None else one_of(format, "format", FORMATS)
    only = {"ranks": ("simai", ranks), "groups": ("chakra", groups)}
    for option, (of, given) in only.items():
        if given is not None and format != of:
            raise SpecError(f"is for {of} only", path=option, value=given, remedy=f"{path} is {format}")
    if ranks is not None:
        whole(ranks, "ranks", 1, MAX_HOSTS)
    trace = FORMATS[format](path, *(given for of, given in only.values() if of == format))
    eager = EAGER.get(format, 0) if eager is None else whole(eager, "eager", 0)
    places = place(trace.ranks, placement, hosts, rack, seed)
    return Converted(lower(trace, places, eager), format, trace.ranks, places, trace.notes)


def guess(path: str) -> str:
    """The format of a file or folder."""
    if chakra.files(path):
        return "chakra"
    head = read_bytes(path)[:_HEAD]
    for name, module in (("goal", goal), ("simai", simai), ("htsim", htsim), ("nccl", nccl)):
        if module.looks_like(head):
            return name
    raise SpecError("the format is not recognised", place=path, remedy=f"give --format: {', '.join(FORMATS)}")


def place(ranks: int, placement: str = "packed", hosts: int | None = None, rack: int | None = None, seed: int = 1) -> np.ndarray:
    """The host of each rank, int64; SpecError: fewer hosts than ranks, hosts that are not whole racks."""
    one_of(placement, "placement", PLACEMENTS)
    if hosts is not None and hosts < ranks:
        raise SpecError(f"the trace has {ranks} ranks, each of which is a host", path="hosts", value=hosts)
    hosts = ranks if hosts is None else whole(hosts, "hosts", 1, MAX_HOSTS)
    if (rack is None) == (placement == "strided"):
        raise SpecError('is for placement = "strided", which needs it', path="rack", value="none" if rack is None else rack)
    if placement == "random":
        whole(seed, "seed", 0, MAX_SEED)
    if rack is not None and hosts % whole(rack, "rack", 1, hosts):
        raise SpecError(f"the {hosts} hosts are not whole racks of so many", path="rack", value=rack)
    numbers = np.arange(hosts)
    return in_order(numbers, numbers // (rack or hosts), placement, seed)[:ranks]
