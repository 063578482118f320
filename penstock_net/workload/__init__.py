"""Traffic: flows drawn at random, incasts, collectives, lists, and whatever one [[workload]] table asks for.

    flows = poisson(topo, sizes="google", load=0.6, duration="5ms", seed=1) + incast(topo, fan_in=100, seed=2)

The registry of generators: the lists `__all__` of generators, collectives, training and inference: their names are public,
`[[workload]] kind` accepts those that a table can describe, `penstock workloads` lists them with their defaults.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock_net.errors import SpecError
from penstock_net.inputs import inside, known_keys, one_of, time_ps
from penstock_net.units import format_time
from penstock_net.workload import collectives, generators
from penstock_net.workload import inference as _inference
from penstock_net.workload import training as _training
from penstock_net.workload.collectives import *  # noqa: F403
from penstock_net.workload.collectives import flow_list
from penstock_net.workload.distributions import SizeDistribution
from penstock_net.workload.flowfile import flows_from_csv, flows_from_parquet, flows_to_csv, flows_to_parquet
from penstock_net.workload.flows import Flows
from penstock_net.workload.generators import *  # noqa: F403
from penstock_net.workload.inference import *  # noqa: F403
from penstock_net.workload.training import *  # noqa: F403

if TYPE_CHECKING:
    from penstock_net.topology import Topology

__all__ = ["KINDS", "Flows", "SizeDistribution", "build"]
__all__ += ["flows_from_csv", "flows_from_parquet", "flows_to_csv", "flows_to_parquet"]
__all__ += generators.__all__
__all__ += collectives.__all__
__all__ += _training.__all__
__all__ += _inference.__all__


def _from_file(
    topo: "Topology", *, file: str, start: str | float | None = None, class_name: str = "flows", priority: int = 0
) -> Flows:
    """The flows of a CSV or Parquet file; with `start`, the first starts then, and the others keep their distance to it."""
    read = flows_from_parquet if str(file).endswith(".parquet") else flows_from_csv
    flows = read(file, topo, class_name=class_name, priority=priority)
    if start is None:
        return flows
    return replace(flows, start_ps=flows.start_ps - flows.start_ps.min() + time_ps(start, "start"))


def _from_list(topo: "Topology", *, flows: Sequence[Any], class_name: str = "flows", priority: int = 0) -> Flows:
    """The flows in the table itself: flows = [[0, 1, "1MB", "0s"], ...]."""
    if not isinstance(flows, (list, tuple)):
        raise SpecError('must be a list such as [[0, 1, "1MB", "0s"]]', path="flows", value=flows)
    return flow_list(topo, flows, class_name=class_name, priority=priority)


def _kinds() -> dict[str, Callable[..., Flows]]:
    """The generators that a table can describe: those whose arguments, but for the topology, are keywords."""
    functions = [getattr(module, name) for module in (generators, collectives, _training, _inference) for name in module.__all__]
    described = {f: list(inspect.signature(f).parameters.values())[1:] for f in functions}
    return {f.__name__: f for f, others in described.items() if all(p.kind is p.KEYWORD_ONLY for p in others)}


KINDS: dict[str, Callable[..., Flows]] = {**_kinds(), "flows": _from_file, "list": _from_list}
NOT_FROM_A_TABLE = ("topo", "force", "index")


def build(
    params: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    topo: "Topology",
    duration_ps: int,
    seed: int,
    force: bool = False,
    index: int = 0,
) -> Flows:
    """The flows of one [[workload]] table, or of a list of them merged, checked against `topo`.

    A table's keys are its kind's keyword arguments ("class" may stand for class_name). Where it does not say,
    `duration` lasts until duration_ps and `seed` is the one given. `index` is the table's position: it keys its random
    streams, so adding a source leaves the others as they were. The path of a SpecError is the dotted key: workload.0.load.
    """
    if not isinstance(params, Mapping):
        parts = [build(table, topo, duration_ps, seed, force, index + i) for i, table in enumerate(params)]
        flows = _merged(parts)
        if params and not len(flows):
            raise SpecError(f"no flow starts within {format_time(duration_ps)}", path="workload", remedy="raise load or duration")
        return flows
    with inside(f"workload.{index}"):
        kind = one_of(params.get("kind"), "kind", KINDS)
        flows = KINDS[kind](topo, **_arguments(kind, params, duration_ps, seed, force, index)).check(topo)
        return _until(flows, duration_ps)


def _merged(parts: list[Flows]) -> Flows:
    """The sum, two neighbours at a time, so that a flow is copied as often as the number of parts can be halved."""
    while len(parts) > 1:
        parts = [functools.reduce(Flows.__add__, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0] if parts else Flows.empty()


def _until(flows: Flows, duration_ps: int) -> Flows:
    """The flows that start within the duration of the run; `nominal` says how many are left out."""
    kept = flows.until(duration_ps)
    left_out = len(flows) - len(kept)
    if not left_out:
        return flows
    if not len(kept):
        first = format_time(int(flows.start_ps[0]))
        remedy = f'raise run.duration; the first flow starts at {first}; a [[workload]] of kind = "flows" takes start = "0s"'
        raise SpecError(f"no flow starts within run.duration, {format_time(duration_ps)}", remedy=remedy)
    return replace(kept, nominal=[{**source, "left_out": left_out} for source in kept.nominal])


def _arguments(kind: str, params: Mapping[str, Any], duration_ps: int, seed: int, force: bool, index: int) -> dict[str, Any]:
    signature = inspect.signature(KINDS[kind]).parameters
    keys = [key for key in signature if key not in NOT_FROM_A_TABLE]
    given = {"class_name" if key == "class" else key: value for key, value in params.items() if key != "kind"}
    known_keys(given, [*keys, "class"] if "class" in params else keys)
    if "class" in params and "class_name" in params:
        raise SpecError(
            "class is given too, and means the same", path="class_name", value=params["class_name"], remedy="keep one"
        )
    for key in keys:
        if signature[key].default is inspect.Parameter.empty and key not in given:
            raise SpecError("is missing", path=key, remedy=f'kind = "{kind}" needs it')
    offered: dict[str, Any] = {"seed": seed, "index": index, "force": force}
    if "duration" in keys:
        left = duration_ps - time_ps(given.get("start", "0s"), "start")
        if left <= 0 and "duration" not in given:
            raise SpecError(
                f"the run lasts {format_time(duration_ps)}", path="start", value=given["start"], remedy="start earlier"
            )
        offered["duration"] = f"{left}ps"
    return {**{key: value for key, value in offered.items() if key in signature}, **given}
