"""Ports as `penstock vswitch port add` takes them: KEY=VALUE, or a file of [[port]] tables."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.inputs import known_keys

LISTS, NUMBERS = ("addresses", "routes"), ("trunk",)  # keys whose values are lists; of texts, and of numbers
TEXTS = ("secret", "device")  # also if they look like numbers


def port_table(name: str, keys: Iterable[str]) -> dict[str, Any]:
    """A [[port]] from KEY=VALUE; lists are separated by commas."""
    table: dict[str, Any] = {"name": name}
    for text in keys:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SpecError("must be KEY=VALUE, such as netns=left", path=text)
        if key in table:
            raise SpecError("is given twice", path=key)
        table[key] = _value(key, value)
    return table


def _value(key: str, text: str) -> Any:
    if key in LISTS:
        return text.split(",")
    if key in NUMBERS:
        return [_plain(each) for each in text.split(",")]
    return text if key in TEXTS else _plain(text)


def _plain(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() else text


def port_tables(content: Mapping[str, Any]) -> Any:
    """The [[port]] tables of a file that has nothing else."""
    known_keys(content, ("port",))
    return content.get("port")
