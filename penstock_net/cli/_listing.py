"""Listings for the terminal: names, descriptions, and parameters with their defaults."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def first_line(text: str | None) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.cleandoc(text or "").split("\n\n")[0]).split())


def builders(
    kinds: Mapping[str, Callable[..., Any]], hidden: Iterable[str] = (), renamed: Mapping[str, str] | None = None
) -> str:
    """A listing of the functions of a KINDS table with their parameters, except `hidden`; `renamed`: other names to show."""
    entries = []
    for name, function in kinds.items():
        keys = []
        for key, parameter in inspect.signature(function).parameters.items():
            if key not in hidden and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                default, key = parameter.default, (renamed or {}).get(key, key)
                keys.append(key if default is parameter.empty or default is None else f"{key} = {value(default)}")
        entries.append((name, first_line(function.__doc__), ", ".join(keys)))
    return listing(entries)


def value(default: Any) -> str:
    """A default in TOML syntax."""
    if isinstance(default, bool):
        return str(default).lower()
    return f'"{default}"' if isinstance(default, str) else str(default)


def listing(entries: Iterable[tuple[str, str, str]]) -> str:
    """Name and description, parameters below, wrapped to the terminal."""
    import shutil
    import textwrap

    width = min(120, shutil.get_terminal_size((100, 20)).columns)
    lines = []
    for name, what, keys in entries:
        lines += textwrap.wrap(f"{name}: {what}" if what else name, width, subsequent_indent="    ")
        lines += (
            textwrap.wrap(
                keys, width, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
            )
            if keys
            else []
        )
    return "\n".join(lines)
