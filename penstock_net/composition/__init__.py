"""Schemes are values: `BFC(queues=32)`, `HPCC(eta=0.95) + PFC()`, `parse("hpcc:ns3+dqa")`.

Each file of schemes/ is one scheme; its docstring cites the paper.  A scheme may include others (HPCC was published for a
lossless network, so `hpcc` includes `pfc`); `HPCC(pfc=False)` leaves one out, naming it again (`+ PFC(alpha=0.2)`) sets its
parameters.  A user's own scheme is named by the path of its file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from penstock_net.composition.declare import Declarations
from penstock_net.composition.hooks import HOOKS
from penstock_net.composition.load import declarations_of, load
from penstock_net.composition.places import Composition, Part, compose
from penstock_net.composition.signatures import description, signature
from penstock_net.errors import SchemeError, SpecError, nearest, shown
from penstock_net.identity import code_of
from penstock_net.inputs import boolean, one_of, real, size_bytes, time_ps, whole
from penstock_net.units import parse_rate

FOLDER = Path(__file__).parents[1] / "schemes"
OPTIONS = ("unusual", "unchecked")  # of a Scheme, given like parameters
PLAIN = "plain_switches"  # the same
RENAMED_PRESETS = {"bfc:paper": "bfc:unpaused"}  # presets that had other names
__all__ = ["Composition", "Scheme", "available", "compose", "parse", "scheme_type"]


@cache
def built_in_names() -> tuple[str, ...]:
    """The names of the package's schemes."""
    return tuple(sorted(path.stem for path in FOLDER.glob("[!_]*.py")))


@cache
def built_in(name: str) -> Declarations:
    """Declarations of a scheme of the package; a run reads the files of its own schemes only."""
    return declarations_of(FOLDER / f"{name}.py")


def available() -> dict[str, Declarations]:
    """Every scheme of the package by name."""
    return {name: built_in(name) for name in built_in_names()}


def classes() -> dict[str, str]:
    """The name of every scheme by that of its constructor in `penstock`: "BFC" -> "bfc"."""
    return {found.title: name for name, found in available().items()}


def names_of(text: str) -> list[str]:
    """The parts of "hpcc:ns3+dqa"; a path may have a + in it, up to its ".py": "./a+b/mine.py+pfc"."""
    names, path = [], ""
    for part in text.split("+"):
        name = f"{path}+{part}" if path else part.lstrip()
        unfinished = name.startswith(("/", "./", "../", "~/")) and not re.search(r"\.py(:[^/]*)?\s*$", name)
        path = name if unfinished else ""
        if not unfinished:
            names.append(name.strip())
    return [*names, path.strip()] if path else names


def declared(name: str) -> Declarations:
    """Declarations of a built-in scheme or of a user's file."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise SpecError("no such file", path="name", value=name)
        found = declarations_of(path.resolve())
        if not found.hooks:
            raise SchemeError(f"defines no hook; a scheme needs at least one of {', '.join(HOOKS)}", place=path)
        return found
    if name not in built_in_names():
        remedy = f"{nearest(name, built_in_names())}; a file of your own is named by its path, ./my_scheme.py"
        raise SpecError("no scheme has this name", path="name", value=name, remedy=remedy)
    return built_in(name)


def convert_list(path: str, kind: str, value: Any, most: int) -> tuple[int | float, ...]:
    """A list of values, or a text of them with commas in between, filled up with zeros to `most` numbers; or SpecError."""
    values = [text for text in value.split(",") if text.strip()] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or len(values) > most:
        raise SpecError(f"must be a list of at most {most} values", path=path, value=value, remedy='such as ["2KB", "10KB"]')
    numbers = tuple(convert(path, kind, one) for one in values)
    return numbers + (0,) * (most - len(numbers))  # type: ignore[return-value]


def convert_set(path: str, bounds: str, value: Any) -> int:
    """Whole numbers of a range, as a list, one number or a text with commas in between, as a mask with a bit for each."""
    low, high = (int(x) for x in bounds.split(".."))
    given: Any = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    found = [int(one) if isinstance(one, str) and one.strip().isdecimal() else one for one in given if one != ""]
    return sum({1 << whole(one, path, low, high) for one in found})


def convert(path: str, kind: str, value: Any) -> Any:
    """A parameter's value as a number in the compiled scheme's unit: ps, bytes, bit/s, index of a choice; or SpecError."""
    word, *rest = kind.split()
    if listed := re.fullmatch(r"(\w+)\[(\d+)\]", word):
        return convert_list(path, " ".join([listed[1], *rest]), value, int(listed[2]))
    if word == "choice":
        return rest.index(one_of(value, path, rest))
    if word == "set":
        return convert_set(path, rest[0], value)
    if word == "bool":
        return int(boolean(value, path))
    number: int | float
    if word == "rate" and not isinstance(value, bool) and value == 0:
        number = 0  # no rate: what the parameter's meaning says of 0
    elif word in ("time", "bytes", "rate"):
        number = {"time": time_ps, "bytes": size_bytes, "rate": parse_rate}[word](value, path)
    elif word == "float64":
        number = real(value, path)
    else:
        most = {"int8": 2**7 - 1, "int16": 2**15 - 1}.get(word, 2**31 - 1)
        number = whole(value, path, -most - 1, most)
    low, high = (float(x) for x in rest[0].split("..")) if rest else (0.0, math.inf)
    if not low <= number <= high:
        near = max(low, min(high, number))
        raise SpecError(f"must be {rest[0] if rest else 'zero or more'}", path=path, value=value, remedy=f"nearest: {near:g}")
    return float(number) if word == "rate" else number


@dataclass(frozen=True)
class Scheme:
    """A composition of schemes with their parameters; `name` and `set_by_user` are enough to make it again.

    parts: parameters that differ from the defaults, by scheme, in hook order.  host: settings of hosts, without "host.".
    unusual: the composition may be one that makes no sense.  unchecked: users' files are compiled without checks.
    plain_switches: names of switches that have none of the parts, or patterns such as "spine*".
    """

    name: str
    parts: dict[str, dict[str, Any]]
    host: dict[str, Any] = field(default_factory=dict)
    set_by_user: dict[str, Any] = field(default_factory=dict)
    unusual: bool = False
    unchecked: bool = False
    plain_switches: tuple[str, ...] = ()

    def __add__(self, other: Scheme) -> Scheme:
        if not isinstance(other, Scheme):
            return NotImplemented
        parts = {name: dict(values) for name, values in self.parts.items()}
        for name, values in other.parts.items():
            parts[name] = {**parts.get(name, {}), **values}
        name, host = f"{self.name}+{other.name}", {**self.host, **other.host}
        for key, value in self.set_by_user.items():  # what a user has set has precedence over the other's preset
            theirs = other.set_by_user.get(key, value)
            if "." in key and theirs != value:
                rule = f"is set to {shown(value)} in {self.name}, and to {shown(theirs)} in {other.name}"
                raise SpecError(rule, path=key, remedy="keep one of the two")
            if "." in key:
                _assign(name, parts, host, "", key, value)
        return Scheme(
            name,
            parts,
            host,
            {**self.set_by_user, **other.set_by_user},
            self.unusual or other.unusual,
            self.unchecked or other.unchecked,
            self.plain_switches + other.plain_switches,
        )

    def __repr__(self) -> str:
        return f"<Scheme {self.name}{''.join(f' {k}={v}' for k, v in self.set_by_user.items())}>"

    @property
    def label(self) -> str:
        """The name as part of a folder's name."""
        text = "+".join(Path(n).stem if n.endswith(".py") else n for n in names_of(self.name))
        return text.replace(":", "-").replace("/", "-")

    def values(self, part: str) -> dict[str, int | float]:
        """All parameters of one part, defaults included, in the compiled scheme's units."""
        out = {}
        for name, (kind, default, _) in declared(part).parameters.items():
            out[name] = convert(f"{Path(part).stem}.{name}", kind, self.parts[part].get(name, default))
        return out

    def parameters(self) -> dict[str, Any]:
        """ "part.parameter" -> value as a user would write it, for every parameter."""
        out = {}
        for part, values in self.parts.items():
            for name, (_, default, _) in declared(part).parameters.items():
                out[f"{Path(part).stem}.{name}"] = values.get(name, default)
        return out

    def without_effect(self) -> list[str]:
        """Warnings of parameters that are set, while the one without which they have no effect is not."""
        out = []
        for part in self.parts:
            known, stem, values = declared(part).parameters, Path(part).stem, self.values(part)
            changed = {name for name, (kind, default, _) in known.items() if values[name] != convert(name, kind, default)}
            for key, others in declared(part).governs.items():
                for name in [] if key in changed else others:
                    if name not in changed or f"{stem}.{name}" not in self.set_by_user:
                        continue
                    value = shown(self.set_by_user[f"{stem}.{name}"])
                    out.append(f"{stem}.{name} = {value} has no effect without {stem}.{key}: set that as well, or leave this out")
        return out

    def key(self) -> str:
        """Cache key: the names, parameters and sources of the parts, and the host settings."""
        sources = [code_of(declared(p).source) for p in self.parts]
        return repr((sorted(self.parts.items(), key=str), sources, sorted(self.host.items()), *self.plain_switches))

    def compose(self, core: dict[str, int], levels: int, nic_queues: int = 0, hosts: int = 1) -> Composition:
        """Load every part and lay out their state.

        core: bytes of each struct of the fabric.  levels: priorities.  nic_queues: 0 = as many as the parts ask for.
        hosts: number of hosts of the network.
        """
        parts: list[Part] = []
        for name in self.parts:
            found = declared(name)
            part = Part(load(found, not self.unchecked), found, self.values(name), len(parts), hosts=hosts)
            if not part.evaluate(found.fabric.get("absent", 0)):
                parts.append(part)
        return compose(parts, core, levels, nic_queues)


def _names(value: Any) -> tuple[str, ...]:
    """Names of switches: a list of them, or a text with commas in between."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name.strip() for name in names):
        raise SpecError("must be names of switches", path=PLAIN, value=value, remedy='such as ["spine0", "tor*"]')
    return tuple(name.strip() for name in names)


def _add(parts: dict[str, dict[str, Any]], name: str, without: set[str]) -> None:
    """Add a part, after those that it includes."""
    found = declared(name)
    for included in found.includes:
        if included not in without:
            _add(parts, included, without)
    parts.setdefault(name, {})


def _owner(parts: Mapping[str, Any], main: str, key: str) -> str | None:
    """The part that has the parameter of a key: the one that it names, else `main`, else the first that has one of this name."""
    owner, _, name = key.rpartition(".")
    owners = [owner] if owner else [main, *(p for p in parts if p != main)]
    stems = {Path(p).stem: p for p in parts}
    known = (stems.get(Path(candidate).stem) for candidate in owners)
    return next((part for part in known if part and name in declared(part).parameters), None)


def _place(parts: Mapping[str, Any], main: str, key: str) -> str | None:
    """ "part.parameter" of a key, however it is written; None: there is no such parameter."""
    owner, _, name = key.rpartition(".")
    if owner == "host":
        return key
    part = _owner(parts, main, key)
    return part and f"{Path(part).stem}.{name}"


def _alone(scheme: Scheme) -> str:
    """The part that a key without one means first: the scheme itself, unless several are named."""
    return next(reversed(scheme.parts)) if len(names_of(scheme.name)) == 1 else ""


def places(name: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """ "part.parameter" by key of a table of parameters, without keys that mean none.  SpecError: no such scheme."""
    made = _composed(name, dict(parameters))
    found = {key: _place(made.parts, _alone(made), key) for key in parameters}
    return {key: place for key, place in found.items() if place}


def _assign(where: str, parts: dict[str, dict[str, Any]], host: dict[str, Any], main: str, key: str, value: Any) -> None:
    """Set "parameter" or "part.parameter" of a composition."""
    owner, _, name = key.rpartition(".")
    part = _owner(parts, main, key)
    if owner == "host":
        host[name] = value
    elif part:
        convert(key, declared(part).parameters[name][0], value)
        parts[part][name] = value
    else:
        pairs = [(Path(p).stem, n) for p in parts for n in declared(p).parameters]
        known = [n for _, n in pairs] + [f"{p}.{n}" for p, n in pairs]
        raise SpecError(f"{where} has no such parameter", path=key, remedy=nearest(key, known))


def _assign_all(
    where: str, parts: dict[str, dict[str, Any]], host: dict[str, Any], main: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Set what a user gives; the values by "part.parameter".  SpecError: two keys mean the same parameter."""
    given: dict[str, str] = {}
    for key, value in values.items():
        _assign(where, parts, host, main, key, value)
        other = given.setdefault(_place(parts, main, key) or key, key)
        if other != key:
            raise SpecError(f"is the same parameter as {other}", path=key, value=value, remedy="keep one of the two")
    return {place: values[key] for place, key in given.items()}


_LOW_HIGH = (("min", "max"), ("low", "high"), ("xon", "xoff"), ("delay", "interval"), ("start", "until"))


def _check_order(parts: Mapping[str, dict[str, Any]]) -> None:
    """SpecError: k_min above k_max, t_low above t_high, xon above xoff, or whatever else is named so; thresholds that fall."""
    for part, values in parts.items():
        known, stem = declared(part).parameters, Path(part).stem
        made = {name: convert(f"{stem}.{name}", kind, values.get(name, default)) for name, (kind, default, _) in known.items()}
        written = {name: values.get(name, default) for name, (_, default, _) in known.items()}
        for name, number in made.items():
            words = name.split("_")
            for low, high in _LOW_HIGH:
                other = "_".join(high if word == low else word for word in words)
                if low in words and other in made:
                    _check_pair(stem, made, written, name, other)
            used = [one for one in number if one] if name == "thresholds" else []
            if used != sorted(used):
                raise SpecError("must rise", path=f"{stem}.{name}", value=written[name], remedy="write them in ascending order")


def _check_priorities(parts: Mapping[str, dict[str, Any]]) -> None:
    """SpecError: a list or set of a part whose `priorities` are given has more of them."""
    for part, values in parts.items():
        known, stem = declared(part).parameters, Path(part).stem
        if "priorities" not in known or known["priorities"][1] != 1:
            continue
        count = convert(f"{stem}.priorities", known["priorities"][0], values.get("priorities", 1))
        for name in values:
            kind, default, _ = known[name]
            made = convert(f"{stem}.{name}", kind, values[name])
            if name.startswith("priority_"):
                used = [i for i, one in enumerate(made) if one]
            elif kind == "set 0..7" and made != convert(name, kind, default):
                used = [i for i in range(made.bit_length()) if made >> i & 1]
            else:
                continue
            if used and used[-1] >= count:
                rule = f"is of priority {used[-1]}, too, and {stem}.priorities = {count}: they are 0 to {count - 1}"
                remedy = "leave those out, or give it more priorities" if count > 1 else "give it more priorities"
                raise SpecError(rule, path=f"{stem}.{name}", value=values[name], remedy=remedy)


def _check_pair(stem: str, made: Mapping[str, Any], written: Mapping[str, Any], low: str, high: str) -> None:
    """SpecError: a parameter is more than another; "drop_k_min", or "priority_k_min" of a priority, is "k_min" where it is 0."""

    def of(name: str, i: int) -> tuple[Any, str]:
        value, other = made[name][i] if i >= 0 else made[name], name.removeprefix("priority_").removeprefix("drop_")
        return (value, name) if value or other not in made else (made[other], other)

    for i in range(len(made[low])) if isinstance(made[low], tuple) else [-1]:
        (a, lower), (b, upper) = of(low, i), of(high, i)
        if a > b:
            rule = f"is more than {upper} = {shown(written[upper])}" + (f", of priority {i}" if i >= 0 else "")
            raise SpecError(rule, path=f"{stem}.{lower}", value=written[lower], remedy=f"lower it, or raise {upper}")


def preset_values(name: str, preset: str) -> dict[str, Any]:
    """ "parameter" or "part.parameter" -> value of a preset ("" is the default one), with those of the presets that it uses.

    `"uses": ["ecn:ns3", "pfc:ns3"]` takes over the presets of included parts; what the preset sets itself has precedence.
    """
    presets, text = declared(name).presets, f"{name}:{preset}"
    known = [one for one in (*presets, "paper") if f"{name}:{one}" not in RENAMED_PRESETS]
    if preset and preset not in known:
        remedy = f"it is called {RENAMED_PRESETS[text]} now" if text in RENAMED_PRESETS else nearest(preset, known)
        raise SpecError(f'{name} has no preset "{preset}"', path="name", value=text, remedy=remedy)
    own = dict(presets.get(preset if preset in presets else "default", {}))  # "paper", where there is none, is the default
    used: dict[str, Any] = {}
    uses = own.pop("uses", [])
    if not isinstance(uses, (list, tuple)):
        raise SchemeError(f'preset "{preset}": uses must be a list, such as ["pfc:ns3"]', place=declared(name).path)
    for part, _, of_part in (str(text).partition(":") for text in uses):
        used |= {k if "." in k else f"{part}.{k}": v for k, v in preset_values(part, of_part).items()}
    return {**own, **{key: value for key, value in used.items() if key not in own}}


def _single(text: str, parameters: Mapping[str, Any]) -> Scheme:
    """One scheme, `bfc`, `hpcc:ns3` or `./my_scheme.py`, with parameters of its own or of the parts that it includes."""
    name, _, preset = text.partition(":")
    found = declared(name)
    own = {**parameters}
    without = {part for part in found.includes if own.get(part) is False}
    parts: dict[str, dict[str, Any]] = {}
    host: dict[str, Any] = {}
    _add(parts, name, without)
    for key, value in preset_values(name, preset).items():
        if key.partition(".")[0] not in without:
            _assign(f"{text} (preset)", parts, host, name, key, value)
    left_out = {key: own.pop(key) for key in [*own] if key in without}
    own = left_out | _assign_all(f'scheme "{name}"', parts, host, name, own)
    _check_order(parts)
    return Scheme(text, parts, host, own)


def parse(scheme: str | Scheme, parameters: Mapping[str, Any] | None = None) -> Scheme:
    """A scheme by name, preset and composition: "bfc", "hpcc:ns3", "dcqcn+window_cap", "./my_scheme.py".

    `parameters` are set in the first part that knows them; "part.parameter" names the part.  `unusual` and `unchecked` among them
    are those of the Scheme.  Raises SpecError.
    """
    parameters = dict(parameters or {})
    options = _options(parameters)
    made = scheme if isinstance(scheme, Scheme) else _composed(str(scheme), parameters)
    parts = {name: dict(values) for name, values in made.parts.items() if name not in _replaced(made)}
    host = dict(made.host)
    own = _assign_all(f'scheme "{made.name}"', parts, host, _alone(made), parameters)
    _check_order(parts)
    _check_priorities(parts)
    mine = [options.get(name, getattr(made, name)) for name in (*OPTIONS, PLAIN)]
    made = Scheme(made.name, parts, host, {**made.set_by_user, **own, **options}, *mine)
    if not made.unusual:
        _check_sense(made)
    return made


def _replaced(scheme: Scheme) -> set[str]:
    """Parts that were only included, which another part makes needless."""
    named = {name.partition(":")[0] for name in names_of(scheme.name)}
    return {other for part in scheme.parts for other in declared(part).fabric.get("replaces", "").split()} - named


def _options(parameters: dict[str, Any]) -> dict[str, Any]:
    """Take what is about the whole Scheme out of `parameters`."""
    options: dict[str, Any] = {name: boolean(parameters.pop(name), name) for name in OPTIONS if name in parameters}
    if PLAIN in parameters:
        options[PLAIN] = _names(parameters.pop(PLAIN))
    return options


def _composed(text: str, parameters: dict[str, Any]) -> Scheme:
    """The schemes of a text, one after the other; those that `parameters` leave out of the first one are taken out of there."""
    names = names_of(text)
    if not all(names) or any(n.startswith(":") or n.endswith(":") for n in names):
        raise SpecError("has an empty name in it", path="name", value=text, remedy='write it as "hpcc+dqa"')
    includes = declared(names[0].partition(":")[0]).includes
    left_out = {key: parameters.pop(key) for key in [*parameters] if parameters[key] is False and key in includes}
    made = _single(names[0], left_out)
    for name in names[1:]:
        made = made + _single(name, {})
    return made


def _check_sense(scheme: Scheme) -> None:
    """SpecError if a part is named twice, or if two parts set the rates or windows of flows, each as if it were alone."""
    remedy = 'keep one of them, or set unusual = true in [scheme] (in Python: ps.scheme(..., {"unusual": True})) if you mean it'
    named = [name.partition(":")[0] for name in names_of(scheme.name)]
    if twice := next((name for name in named if named.count(name) > 1), None):
        raise SpecError(f"{twice} is in it twice, and has one state only", path="name", value=scheme.name, remedy=remedy)
    controls = [name for name in scheme.parts if declared(name).controls_congestion]
    if len(controls) > 1:
        what = (
            f"{' and '.join(Path(name).stem for name in controls)} each set the rate or the window of a flow; the last one wins"
        )
        raise SpecError(what, path="name", value=scheme.name, remedy=remedy)


def scheme_type(name: str) -> Any:
    """The constructor of a built-in scheme: keyword arguments are its parameters and those of its included parts."""

    def make(**parameters: Any) -> Scheme:
        included = built_in(name).includes
        return _single(name, {key: value for key, value in parameters.items() if not (key in included and value is True)})

    make.__name__ = make.__qualname__ = name
    make.__doc__ = description(name, available())
    make.__signature__ = signature(name, available())  # type: ignore[attr-defined]
    return make
