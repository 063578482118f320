"""What the command line changes in a spec: --set KEY=VALUE and --scheme NAME."""

import tomllib
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

from penstock_net.composition import built_in_names, places
from penstock_net.errors import SpecError, nearest, shown
from penstock_net.spec.files import absolute
from penstock_net.spec.source import Source
from penstock_net.spec.tables import SECTIONS, as_list, scheme_keys


def choose(data: dict[str, Any], names: list[str], source: Source) -> None:
    """Replace the schemes; one that was named before keeps its parameters."""
    listed = as_list(data.get("scheme", []))
    known = [table for table in listed if isinstance(table, dict)] if isinstance(listed, list) else []
    here = Path.cwd()
    data["scheme"] = []
    for name in names:
        plain, label = _labelled(name)
        wanted = absolute({"name": plain}, here)
        same = [table for table in known if plain == table.get("label") or table.get("name") in (plain, wanted["name"])]
        chosen = [deepcopy(table) for table in same] or [wanted]
        data["scheme"] += chosen if label is None else [{**table, "label": label} for table in chosen]
        if not same:
            source.sets["scheme" if len(names) == 1 else f"scheme.{len(data['scheme']) - 1}"] = f"--scheme {name}"


def _labelled(given: str) -> tuple[str, str | None]:
    """(name, label) of NAME or NAME=LABEL; a file of that whole name has no label."""
    name, sign, label = given.rpartition("=")
    return (name, label) if sign and name and not Path(given).exists() else (given, None)


def override(data: dict[str, Any], sets: Iterable[str], source: Source, chosen: bool) -> None:
    """Set each KEY=VALUE; chosen: `choose` has replaced the schemes.  Other forms of the same parameter in the file are removed.

    SpecError: two KEYs mean the same.
    """
    paths = [(given, _set(data, given, source, chosen)) for given in sets]
    made: dict[str, str] = {}
    for given, path in paths:
        other = made.setdefault(_full(data, path), given)
        if other.partition("=")[0].strip() != given.partition("=")[0].strip():
            raise SpecError(f"is the same key as in --set {other}", remedy="keep one of the two", place=f"--set {given}")
    for _, path in paths:
        if path[0] == "scheme":
            _remove_other_forms(data["scheme"][int(path[1])], path[2:])


def _full(data: dict[str, Any], path: list[str]) -> str:
    """A path as one text, a scheme's parameter with its part."""
    if path[0] != "scheme":
        return ".".join(path)
    form = meanings(data["scheme"][int(path[1])]).get(tuple(path[2:]))
    return ".".join([*path[:2], form or ".".join(path[2:])])


def _remove_other_forms(table: dict[str, Any], path: list[str]) -> None:
    forms = meanings(table)
    mine = forms.get(tuple(path))
    for other in [form for form, what in forms.items() if what == mine and list(form) != path]:
        *within, key = other
        owner = table[within[0]] if within else table
        del owner[key]
        if within and not owner:
            del table[within[0]]


def check_forms(data: dict[str, Any], source: Source) -> None:
    """SpecError: a parameter of a scheme is there twice, in two forms."""
    tables = as_list(data.get("scheme", []))
    for i, table in enumerate(tables if isinstance(tables, list) else []):
        seen: dict[str, tuple[str, ...]] = {}
        where = "scheme" if len(tables) == 1 else f"scheme.{i}"
        for form, what in meanings(table).items() if isinstance(table, dict) else ():
            first = seen.setdefault(what, form)
            if first != form:
                path, other = (".".join([where, *each]) for each in (form, first))
                rule = f"is the same parameter as {other} ({source.of(other)})"
                raise source.located(SpecError(rule, path=path, remedy="keep one of the two"))


def meanings(table: dict[str, Any]) -> dict[tuple[str, ...], str]:
    """ "part.parameter" by the path of a key in a table of a scheme; {} if its name is none, which is an error elsewhere."""
    given = {path: value for path, value in scheme_keys(table) if isinstance(table.get("name"), str)}
    try:
        found = places(table["name"], {".".join(path): value for path, value in given.items()}) if given else {}
    except SpecError:
        return {}
    return {path: found[".".join(path)] for path in given if ".".join(path) in found}


def _set(data: dict[str, Any], given: str, source: Source, chosen: bool) -> list[str]:
    """Set KEY=VALUE; the path at which it is set."""
    key, equals, text = given.partition("=")
    head, *rest = [part.strip() for part in key.split(".")]
    if head not in SECTIONS and rest and head in built_in_names():
        head, rest = "scheme", [head, *rest]
    if not equals or not all([head, *rest]):
        raise SpecError("expected KEY=VALUE, such as run.duration=1ms or workload.0.load=0.7", place=f"--set {given}")
    if head not in SECTIONS:
        raise SpecError(f'unknown section "{head}"', remedy=nearest(head, SECTIONS), place=f"--set {given}")
    if not rest:
        raise SpecError("names a whole table", remedy=f"give one of its keys, such as {head}.KEY=VALUE", place=f"--set {given}")
    path = [head]
    if head in ("scheme", "workload"):
        tables = data[head] = as_list(data.get(head, []))
        index, rest = _pick(tables, rest, head, given)
        table = tables[index]
        path.append(str(index))
    else:
        table = data.setdefault(head, {})
    if chosen and head == "scheme" and rest == ["name"]:
        raise SpecError("the scheme is also chosen with --scheme", remedy="give one of the two", place=f"--set {given}")
    for part in rest[:-1]:
        path.append(part)
        if isinstance(table, list):
            table = _item(table, ".".join(path), given)
        else:
            table = table.setdefault(part, {}) if isinstance(table, dict) else table
        if not isinstance(table, (dict, list)):
            where = source.of(".".join(path))
            rule = f"{'.'.join(path)} = {shown(table)} ({where}) is not a table"
            raise SpecError(rule, place=f"--set {given}")
    if isinstance(table, list):
        rule = f"names one of {len(table)} tables as a whole"
        raise SpecError(rule, remedy=f"give one of its keys, such as {key.strip()}.KEY=VALUE", place=f"--set {given}")
    if not isinstance(table, dict):
        raise SpecError(f"{head} is not a table", place=f"--set {given}")
    table[rest[-1]] = absolute({rest[-1]: _value(text)}, Path.cwd())[rest[-1]]
    path.append(rest[-1])
    source.sets[".".join(path)] = f"--set {given}"
    if head in ("scheme", "workload") and len(data[head]) == 1:
        source.sets[".".join([head, *path[2:]])] = f"--set {given}"
    return path


def _item(tables: list[Any], path: str, given: str) -> Any:
    """The table of a list that the last number of a path means, such as topology.changes.0."""
    name, _, number = path.rpartition(".")
    if not number.isdecimal() or int(number) >= len(tables):
        rule = f"{name} has {len(tables)} tables" + (", numbered from 0" if tables else "")
        raise SpecError(rule, remedy=f"write {name}.0.KEY=VALUE" if tables else "set it as a whole", place=f"--set {given}")
    return tables[int(number)]


def _value(text: str) -> Any:
    """The TOML value of a text; what is not TOML is the text itself."""
    try:
        value = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return value["value"] if len(value) == 1 and isinstance(value["value"], (str, int, float, list, dict)) else text


def _pick(tables: Any, rest: list[str], head: str, given: str) -> tuple[int, list[str]]:
    """Which of several tables a key means, by number or by name; with one table neither is needed."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SpecError(f"{head} must be a table, [{head}] or [[{head}]]", place=f"--set {given}")
    if not tables:
        raise SpecError(f"the spec has no [{head}] table to change", place=f"--set {given}")
    names = [str(table.get("label") or table.get("name") or table.get("kind")) for table in tables]
    first, more = rest[0], rest[1:]
    if first.isdigit():
        if int(first) >= len(tables):
            raise SpecError(f"{head} has {len(tables)} tables, numbered from 0: {', '.join(names)}", place=f"--set {given}")
        index, rest = int(first), more
    elif more and names.count(first) == 1:
        index, rest = names.index(first), more
    elif len(tables) == 1:
        index = 0
    else:
        rule = f"which of the {len(tables)} {head} tables? 0 is {names[0]}, {len(tables) - 1} is {names[-1]}"
        raise SpecError(rule, remedy=f"write {head}.0.{first}", place=f"--set {given}")
    if not rest:
        raise SpecError(
            "names a whole table", remedy=f"give one of its keys, such as {head}.{first}.KEY=VALUE", place=f"--set {given}"
        )
    return index, rest
