"""The runs of a sweep: every combination of the values of what varies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_net import identity
from penstock_net.errors import SpecError
from penstock_net.spec import load_spec
from penstock_net.sweeps.axes import Axis, combinations


@dataclass(frozen=True)
class Point:
    """One run of the sweep: what varies and its values, its scheme and seed, its identity, and the whole spec as text.

    values  by key, or by the keys of points that have names, but for "scheme"
    """

    values: dict[str, Any]
    scheme: str
    seed: int
    stamp: dict[str, Any]
    toml: str

    @property
    def key(self) -> str:
        return str(self.stamp["key"])

    def label(self) -> str:
        """The varied values and the scheme, for messages."""
        return "  ".join([*(f"{k}={v}" for k, v in self.values.items()), self.scheme])


def points_of(spec: str | Path, axes: Sequence[Axis], sets: Sequence[str]) -> Iterator[Point]:
    """All combinations, each checked as far as that is quick: spec, schemes, topology."""
    seen: set[str] = set()
    topologies: set[str] = set()
    for columns, values in combinations(axes):
        chosen = [values["scheme"]] if "scheme" in values else []
        varied = [f"{key}={value}" for key, value in values.items() if key != "scheme"]
        loaded = load_spec(spec, sets=[*sets, *varied], schemes=chosen)
        topology = str(loaded.topology)
        if topology not in topologies:
            topologies.add(topology)
            loaded.build_topology()
        for table in loaded.schemes:
            loaded.build_scheme(table)
            single = loaded.only(table)
            stamp = identity.stamp(single)
            if stamp["key"] in seen:
                raise SpecError(f"two combinations are the same run ({', '.join(varied) or table.name})")
            seen.add(stamp["key"])
            varied_here = {k: v for k, v in columns.items() if k != "scheme"}
            yield Point(varied_here, loaded.label(table), loaded.run.seed, stamp, single.to_toml())
