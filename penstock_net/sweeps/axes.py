"""What varies in a sweep: a key with its values, or several keys that vary together, point by point, which may have names."""

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError, nearest
from penstock_net.inputs import parts, read_text, values
from penstock_net.results.sweep import SEED_KEY

PROFILES = Path(__file__).with_name("profiles")
NAME = re.compile(r"\s*([^\s,;:=\[\]{}\"'][^,;:=\[\]{}\"']*):\s+(.*)", re.DOTALL)  # "dead spine: [...]", but not "bfc:early"
EXAMPLE = '"ecn.k_min,ecn.k_max=100KB,400KB;1MB,2MB"'


@dataclass(frozen=True)
class Axis:
    """What varies together.

    keys    of the spec
    points  a value of each key, as in TOML, for each point
    names   of the points; empty: they have none
    """

    keys: tuple[str, ...]
    points: tuple[tuple[str, ...], ...]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        place = ",".join(self.keys)
        if not all(self.keys) or len(set(self.keys)) < len(self.keys):
            raise SpecError("a key is empty, or there twice", path=place, remedy=f"such as {EXAMPLE}")
        for point in self.points:
            if len(point) != len(self.keys):
                rule = f"{len(point)} values for {len(self.keys)} keys"
                raise SpecError(rule, path=place, value=",".join(point), remedy=f"a value of each, such as {EXAMPLE}")
        if twice := [name for i, name in enumerate(self.names) if name in self.names[:i]]:
            raise SpecError("two points have this name", path=place, value=twice[0], remedy="give another one")

    @property
    def column(self) -> str:
        """Of the names in the table of a sweep: "ecn.k_min,k_max" of scheme.ecn.k_min and scheme.ecn.k_max."""
        shown: list[str] = []
        before = ""
        for key in self.keys:
            head, _, last = key.rpartition(".")
            shown.append(last if shown and head == before else key)
            before = head
        return ",".join(shown)

    def columns(self, i: int) -> dict[str, str]:
        """What the table of a sweep says of a point: its name, or the value of each key."""
        return {self.column: self.names[i]} if self.names else dict(zip(self.keys, self.points[i]))


def parse(given: str) -> Axis:
    """The axis of --param KEY=V1,V2, KEY,KEY=V,V;V,V, KEY=NAME: V; NAME: V, or @FILE.  SpecError: it is none."""
    place = f"--param {given}"
    if given.startswith("@"):
        return profiles(given[1:])
    key, equals, text = given.partition("=")
    if not equals or not key:
        raise SpecError("expected KEY=V1,V2, such as workload.0.load=0.5,0.7", place=place)
    keys = tuple(each.strip() for each in key.split(","))
    points = parts(text, ";", place)
    found = [NAME.fullmatch(point) for point in points]
    if len(keys) == 1 and len(points) == 1 and not found[0]:
        return Axis(keys, tuple((value,) for value in values(text, place)))
    if any(found) and not all(found):
        raise SpecError("some points have a name and others none", remedy=f"NAME: VALUES for each, or {EXAMPLE}", place=place)
    texts = [match[2] if match else point for match, point in zip(found, points)]
    made = tuple((text.strip(),) if len(keys) == 1 else tuple(parts(text, ",", place)) for text in texts)
    if not all(value for point in made for value in point):
        raise SpecError("expected values of each key", remedy=f"such as {EXAMPLE}", place=place)
    return Axis(keys, made, tuple(match[1].strip() for match in found if match))


def of(key: Any, given: Any) -> Axis:
    """The axis of an entry of `params`: a key or a tuple of keys; a list of points, or points by name."""
    path = "params." + (",".join(map(str, key)) if isinstance(key, tuple) else str(key))
    keys = key if isinstance(key, tuple) else (key,)
    if not keys or not all(isinstance(each, str) for each in keys):
        raise SpecError("must be a key of the spec, or a tuple of keys", path="params", value=key)
    names = tuple(map(str, given)) if isinstance(given, Mapping) else ()
    points = list(given.values()) if isinstance(given, Mapping) else given
    if isinstance(points, str) or not isinstance(points, Sequence) or not len(points):
        raise SpecError("must be a list of values", path=path, value=given, remedy=f'such as {{"{path[7:]}": [...]}}')
    if isinstance(key, tuple) and not all(isinstance(point, (tuple, list)) for point in points):
        raise SpecError("must be a list of tuples, a value for each key", path=path, value=given)
    made = [tuple(point) if isinstance(key, tuple) else (point,) for point in points]
    return Axis(keys, tuple(tuple(text_of(value, path[7:]) for value in point) for point in made), names)


def text_of(value: Any, key: str) -> str:
    """A value as after "=" in a spec; of tables and lists in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_quoted(each, key) for each in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_quoted(each, key)}" for name, each in value.items()) + "}"
    raise SpecError("must be a number, a text or true or false, or a list or table of these", path=key, value=value)


def _quoted(value: Any, key: str) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text_of(value, key)


def profiles(name: str) -> Axis:
    """The points of a file, or of one that comes with penstock: keys, and [[point]] with name, values and source.

    SpecError: no such file, or it has no points.
    """
    known = {path.stem: path for path in sorted(PROFILES.glob("*.toml"))}
    if not name.endswith(".toml") and name not in known:
        remedy = f"{nearest(name, known)}; or a file, @FILE.toml"
        raise SpecError(f'"{name}" are no profiles of penstock', place=f"--param @{name}", remedy=remedy)
    path = known.get(name, Path(name))
    try:
        data = tomllib.loads(read_text(str(path)))
        keys, points = tuple(data["keys"]), data["point"]
        names, made = tuple(str(point["name"]) for point in points), [point["values"] for point in points]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        rule = f"is no file of profiles ({type(error).__name__}: {error})"
        raise SpecError(rule, place=path, remedy='keys = ["a", "b"], and [[point]] with name and values') from None
    return Axis(keys, tuple(tuple(text_of(value, key) for key, value in zip(keys, point, strict=False)) for point in made), names)


def check(axes: Sequence[Axis]) -> None:
    """SpecError: a key varies twice."""
    keys = [key for axis in axes for key in axis.keys]
    if twice := [key for i, key in enumerate(keys) if key in keys[:i]]:
        raise SpecError("is given twice", remedy="write all values in one", place=f"--param {twice[0]}")


def keys_of(axes: Sequence[Axis]) -> list[str]:
    """All keys that vary."""
    return [key for axis in axes for key in axis.keys]


def seeds_axis(seeds: Sequence[Any]) -> Axis:
    """Seeds that vary."""
    return Axis((SEED_KEY,), tuple((str(seed),) for seed in seeds))


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """(columns of the table, values by key) of every combination."""
    for chosen in itertools.product(*(range(len(axis.points)) for axis in axes)):
        columns: dict[str, str] = {}
        varied: dict[str, str] = {}
        for axis, i in zip(axes, chosen):
            columns |= axis.columns(i)
            varied |= dict(zip(axis.keys, axis.points[i]))
        yield columns, varied
