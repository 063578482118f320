"""TOML as text: write it, find the line of a key, explain a syntax error. (The standard library only reads it.)"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from penstock_net.errors import SpecError

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def write_toml(content: Mapping[str, Any]) -> str:
    """TOML text of a dict of tables and lists of tables, in the order given; the same dict gives the same text."""
    parts = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            parts.append(f"[{_key(name)}]\n{_pairs(value)}")
        elif isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
            parts += [f"[[{_key(name)}]]\n{_pairs(item)}" for item in value]
        elif value != []:
            parts.insert(0, f"{_key(name)} = {_value(value)}\n")
    return "\n".join(parts)


def _pairs(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }" if value else "{}"
    return _text(str(value))


def line_of(text: str, path: Sequence[str]) -> int | None:
    """Line number of a dotted path in TOML text, else of what contains it; good enough for messages.

    The number of the first of several tables may be left out: scheme.0.queues is scheme.queues.
    """
    lines: dict[tuple[str, ...], int] = {}
    table: list[str] = []
    entries: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        here = table
        if match := re.match(r"\s*\[\[([^\]]+)\]\]", line):
            name = match.group(1).strip()
            here = table = [*name.split("."), str(entries.get(name, 0))]
            entries[name] = entries.get(name, 0) + 1
        elif match := re.match(r"\s*\[([^\[\]]+)\]\s*(#.*)?$", line):
            here = table = match.group(1).strip().split(".")
        elif match := re.match(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*')+)\s*=""", line):
            here = table + re.sub("[\"']", "", match.group(1)).split(".")
        lines.setdefault(_without_zeros(here), number)
    for length in range(len(path), 0, -1):
        if found := lines.get(_without_zeros(path[:length])):
            return found
    return None


def _without_zeros(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(part for part in path if part != "0")


def syntax_error(name: str, text: str, error: Exception) -> SpecError:
    """What tomllib refused, in a line: file:line:column: not valid TOML: what, in the line "hello"."""
    message, lines = str(error), text.splitlines()
    match = re.search(r"\(at line (\d+), column (\d+)\)", message)
    line, column = map(int, match.groups()) if match else (max(1, len(lines)), len(lines[-1]) + 1 if lines else 1)
    what = re.sub(r"\s*\(at [^)]*\)", "", message)
    shown = lines[line - 1].strip()[:80] if line <= len(lines) else ""
    where = f", in the line {_text(shown)}" if shown else ""
    return SpecError(f"not valid TOML: {what}{where}", place=f"{name}:{line}:{column}")
