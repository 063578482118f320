"""Ports as `penstock vswitch port add` takes them: KEY=VALUE, or a file of [[port]] tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import known_keys

LISTS = ("addresses", "routes")


def port_table(name: str, keys: Iterable[str]) -> dict[str, Any]:
    """A [[port]] from KEY=VALUE; lists are separated by commas."""
    table: dict[str, Any] = {"name": name}
    for text in keys:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SpecError("must be KEY=VALUE, such as netns=left", path=text)
        if key in table:
            raise SpecError("is given twice", path=key)
        table[key] = value.split(",") if key in LISTS else _value(value)
    return table


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() else text


def port_tables(content: Mapping[str, Any]) -> Any:
    """The [[port]] tables of a file that has nothing else."""
    known_keys(content, ("port",))
    return content.get("port")
