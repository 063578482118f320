"""Patches of specs: a candidate as data, which runs without a change of a figure's file.

    {at = "scheme.dcqcn", keys = {window = true}}             tables of schemes that have this part; "variant" is its preset
    {at = "scheme.hpcc", variant = "ns3", labels = ["hpcc*"]}    those with these labels
    {at = "topology", keys = {spines = 1}}                    also "host", "run", "measure"; "table" replaces all keys
    {at = "workload.poisson", times = {load = 0.88}}          workloads of this kind; `times` multiplies a number
    figures = ["bfc/fig12"], specs = ["load*"]                of these figures and specs only; default: all

A key that has the value already stays as it is, however it is written, so that a candidate which a figure shows changes none of
its specs, and its runs are those of the figure.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from penstock_net.composition import Scheme, places
from penstock_net.errors import PenstockError, SpecError, nearest
from penstock_net.spec import parse_spec
from penstock_net.units import parse_rate, parse_size, parse_time

SECTIONS = ("topology", "host", "run", "measure")
PLACES = ("scheme.NAME", "workload.KIND", *SECTIONS)
Spec = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A key that a candidate changes: in which figure, spec and table, from what to what."""

    figure: str
    spec: str
    where: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.figure}, {self.spec}: {self.where} is {self.before!r}, declared {self.after!r}"


@dataclass(frozen=True)
class Patch:
    """Keys of one place of specs, with their values."""

    at: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    variant: str | None = None
    table: Mapping[str, Any] | None = None
    figures: tuple[str, ...] = ()
    specs: tuple[str, ...] = ("*",)
    labels: tuple[str, ...] = ("*",)

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> "Patch":
        """The patch of a table.  SpecError: it has another key, no place, or sets nothing."""
        allowed = ("at", "keys", "times", "variant", "table", "figures", "specs", "labels")
        for key in table:
            if key not in allowed:
                raise SpecError("there is no such key", path=f"{where}.{key}", remedy=nearest(key, allowed))
        at = str(table.get("at", ""))
        kind, _, name = at.partition(".")
        if at not in SECTIONS and not (kind in ("scheme", "workload") and name):
            raise SpecError("is no place in a spec", path=f"{where}.at", value=at, remedy=f"one of {', '.join(PLACES)}")
        if kind != "scheme" and ("variant" in table or "labels" in table):
            raise SpecError("only schemes have variants and labels", path=where, value=at, remedy='at = "scheme.NAME"')
        if "table" in table and at not in SECTIONS:
            raise SpecError("only a section has a table", path=where, value=at, remedy=f"at is one of {', '.join(SECTIONS)}")
        if not any(key in table for key in ("keys", "times", "variant", "table")):
            raise SpecError("sets nothing", path=where, value=at, remedy="give keys, times, a variant or a table")
        lists = {key: tuple(table[key]) for key in ("figures", "specs", "labels") if key in table}
        return cls(at, table.get("keys", {}), table.get("times", {}), table.get("variant"), table.get("table"), **lists)

    def changes(self, figure: str, label: str, spec: Spec, beside: Sequence[str], note: Callable[[str, Any, Any], None]) -> Spec:
        """The spec with the patch, which is not changed itself; `note` is told every key that changes: where, before, after."""
        if (self.figures and figure not in self.figures) or not _matches(label, self.specs):
            return spec
        kind, _, name = self.at.partition(".")
        if kind == "scheme":
            tables = spec["scheme"] if isinstance(spec["scheme"], list) else [spec["scheme"]]
            made = [self._scheme(name, table, beside, note) for table in tables]
            return {**spec, "scheme": made if isinstance(spec["scheme"], list) else made[0]}
        if kind == "workload":
            made = [self._table(each, self.at, note) if each["kind"] == name else each for each in spec["workload"]]
            return {**spec, "workload": made}
        return {**spec, kind: self._table(spec.get(kind, {}), kind, note)}

    def _table(self, table: Mapping[str, Any], where: str, note: Callable[[str, Any, Any], None]) -> dict[str, Any]:
        """A table of keys that mean what they say."""
        wanted = {**self.keys, **{key: round(factor * table[key], 6) for key, factor in self.times.items() if key in table}}
        found = dict(table)
        if self.table is not None:
            wanted = {**self.table, **wanted}
            for key in [key for key in table if key not in wanted]:
                note(f"{where}.{key}", found.pop(key), None)
        for key, value in wanted.items():
            if not same(table.get(key), value):
                note(f"{where}.{key}", table.get(key), value)
                found[key] = value
        return found

    def _scheme(
        self, part: str, table: dict[str, Any], beside: Sequence[str], note: Callable[[str, Any, Any], None]
    ) -> dict[str, Any]:
        label = str(table.get("label", table["name"]))
        if part not in effective(table).parts or not _matches(label, self.labels) or _matches(label, beside):
            return table
        found, who = table, f"{label} ({part})"
        if self.variant is not None:
            found = with_variant(table, part, self.variant)
            before, after = values(table), values(found)
            if after != before:
                note(f"{who} name", table["name"], found["name"])
            else:
                found = table
        for key, value in self.keys.items():
            owner, _, name = (key if "." in key else f"{part}.{key}").rpartition(".")
            if owner not in ("host", *effective(found).parts):
                continue
            tried = with_key(found, owner, name, value)
            if values(tried) == values(found):
                continue
            note(f"{who} {key}", written(found, owner, name), value)
            without = without_key(found, owner, name)
            found = without if values(without) == values(tried) else tried
        return found


def _matches(text: str, patterns: Sequence[str]) -> bool:
    """Whether a text has one of the patterns and none of those that begin with "!"."""
    wanted, unwanted = [each for each in patterns if each[0] != "!"], [each[1:] for each in patterns if each[0] == "!"]
    if unwanted and any(fnmatchcase(text, each) for each in unwanted):
        return False
    return any(fnmatchcase(text, each) for each in wanted or ["*"] * bool(unwanted))


def apply(
    patches: Sequence[Patch], figure: str, specs: Mapping[str, Spec], beside: Sequence[str] = ()
) -> tuple[dict[str, Spec], list[Difference]]:
    """The specs of a figure with the patches, and every key that they change."""
    found, differences = dict(specs), list[Difference]()
    for label in specs:
        for patch in patches:

            def note(where: str, before: Any, after: Any, label: str = label) -> None:
                differences.append(Difference(figure, label, where, before, after))

            found[label] = patch.changes(figure, label, found[label], beside, note)
    return found, differences


# -- tables of schemes --------------------------------------------------------------------------------------------------


def effective(table: Mapping[str, Any]) -> Scheme:
    """The scheme that a [[scheme]] table makes."""
    return _effective(json.dumps({key: value for key, value in table.items() if key != "label"}))


@cache
def _effective(table: str) -> Scheme:
    network = {"kind": "star", "hosts": 2}
    traffic = [{"kind": "poisson", "sizes": "google", "load": 0.1}]
    spec = parse_spec({"run": {"duration": "1us"}, "topology": network, "scheme": json.loads(table), "workload": traffic})
    made: Scheme = spec.build_scheme(spec.schemes[0])
    return made


def values(table: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter of every part of a scheme in the simulator's units, and what it says of the hosts."""
    scheme = effective(table)
    found = {f"{part}.{key}": value for part in scheme.parts for key, value in scheme.values(part).items()}
    return found | {f"host.{key}": value for key, value in scheme.host.items()}


def written(table: Mapping[str, Any], part: str, key: str) -> Any:
    """The value of a parameter as a user would write it."""
    scheme = effective(table)
    return scheme.host.get(key) if part == "host" else scheme.parameters()[f"{part}.{key}"]


def with_variant(table: Mapping[str, Any], part: str, variant: str) -> dict[str, Any]:
    """The table with another preset of one of its schemes; "": its defaults."""
    names = [
        name if name.partition(":")[0] != part else part + f":{variant}" * bool(variant) for name in table["name"].split("+")
    ]
    return {**table, "name": "+".join(names)}


def with_key(table: Mapping[str, Any], part: str, key: str, value: Any) -> dict[str, Any]:
    """The table with a parameter: beside the name if it stands there, or if the scheme is the only one; else in its part's."""
    if _is_flat(table, part, key):
        return {**table, key: value}
    inner = table.get(part, {})
    return {**table, part: {**(inner if isinstance(inner, dict) else {}), key: value}}


def without_key(table: Mapping[str, Any], part: str, key: str) -> dict[str, Any]:
    """The table without a parameter."""
    if _is_flat(table, part, key):
        return {name: value for name, value in table.items() if name != key}
    inner = {name: value for name, value in table.get(part, {}).items() if name != key}
    return {name: value for name, value in table.items() if name != part} | ({part: inner} if inner else {})


def _is_flat(table: Mapping[str, Any], part: str, key: str) -> bool:
    if isinstance(table.get(part), dict) and key in table[part]:
        return False
    meant = places(table["name"], {key: 0}).get(key) == f"{part}.{key}"
    return meant and (key in table or table["name"].partition(":")[0] == part)


def same(one: Any, other: Any) -> bool:
    """Whether two values of a key are the same, in whatever unit."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if one == other:
        return True
    return any(a == b for a, b in zip(_read(one), _read(other)) if a is not None)


def _read(value: Any) -> Iterator[Any]:
    for parse in (parse_time, parse_size, parse_rate):
        found = None
        with contextlib.suppress(PenstockError, TypeError, ValueError):
            found = parse(value)
        yield found
