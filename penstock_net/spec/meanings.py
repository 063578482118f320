"""What the code itself says of its keys: names, defaults as TOML, the meanings in docstrings."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

REQUIRED_KEY = "required"


def described(thing: Any) -> dict[str, str]:
    """The meanings that a docstring gives in lines of `name   meaning`, with continuation lines."""
    out: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(thing.__doc__ or "").splitlines()[1:]:
        if match := re.fullmatch(r"(\w+) +(\S.*)", line):
            name, out[match[1]] = match[1], match[2]
        elif line.startswith("  ") and name:
            out[name] += " " + line.strip()
        else:
            name = ""
    return {key: re.sub(r"  +", " ", text) for key, text in out.items()}


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: as_toml(p.default, p.default is p.empty) for p in parameters}


def columns(names: Iterable[str], required: Iterable[str] = ()) -> dict[str, str]:
    required = tuple(required)
    return {name: REQUIRED_KEY if name in required else "" for name in names}


def as_toml(value: Any, required: bool = False) -> str:
    if required:
        return REQUIRED_KEY
    if isinstance(value, bool):
        return str(value).lower()
    value = list(value) if isinstance(value, tuple) else value
    return "" if value is None else f'"{value}"' if isinstance(value, str) else str(value)
