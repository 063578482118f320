"""What the command line changes in a spec: --set KEY=VALUE and --scheme NAME."""

import tomllib
from pathlib import Path
from typing import Any

from penstock.errors import SpecError, nearest
from penstock.spec.files import absolute
from penstock.spec.source import Source
from penstock.spec.tables import SECTIONS, as_list


def choose(data: dict[str, Any], names: list[str], source: Source) -> None:
    """Replace the schemes; one that was named before keeps its parameters."""
    listed = as_list(data.get("scheme", []))
    known = [table for table in listed if isinstance(table, dict)] if isinstance(listed, list) else []
    here = Path.cwd()
    data["scheme"] = []
    for name in names:
        plain, label = _labelled(name)
        same = [table for table in known if plain in (table.get("label"), table.get("name"))]
        chosen = same or [absolute({"name": plain}, here)]
        data["scheme"] += chosen if label is None else [{**table, "label": label} for table in chosen]
        if not same:
            source.sets["scheme" if len(names) == 1 else f"scheme.{len(data['scheme']) - 1}"] = f"--scheme {name}"


def _labelled(given: str) -> tuple[str, str | None]:
    """(name, label) of NAME or NAME=LABEL; a file of that whole name has no label."""
    name, sign, label = given.rpartition("=")
    return (name, label) if sign and name and not Path(given).exists() else (given, None)


def override(data: dict[str, Any], given: str, source: Source, chosen: bool) -> None:
    """Set KEY=VALUE; chosen: `choose` has replaced the schemes."""
    key, equals, text = given.partition("=")
    head, *rest = [part.strip() for part in key.split(".")]
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
        table = table.setdefault(part, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise SpecError(f"{'.'.join(path)} is not a table", place=f"--set {given}")
    table[rest[-1]] = absolute({rest[-1]: _value(text)}, Path.cwd())[rest[-1]]
    source.sets[".".join([*path, rest[-1]])] = f"--set {given}"
    if head in ("scheme", "workload") and len(data[head]) == 1:
        source.sets[".".join([head, *path[2:], rest[-1]])] = f"--set {given}"


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
