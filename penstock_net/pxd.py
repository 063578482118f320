"""What the .pxd files declare, read from their text: enums, structs, functions.

The .pxd beside a compiled file is the one place where its types are written down.  `setup.py` inlines functions with it before
anything is built, `sim.layouts` takes row types and error numbers from it, and `sim.interpreted` its structs.
An installed package holds its .pxd files; reading one takes about a millisecond, once per process.

This module imports nothing of the package and reads the subset of the language in which the .pxd files are written.
"""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
BITS = {"int8_t": 7, "int16_t": 15, "int32_t": 31, "int64_t": 63, "uint16_t": 16, "uint64_t": 64}  # of the magnitude
FORMATS = {"int8_t": "i1", "int16_t": "i2", "int32_t": "i4", "int64_t": "i8", "uint16_t": "u2", "uint64_t": "u8", "double": "f8"}

_BLOCK = r":[^\n]*\n((?:(?: {4}[^\n]*)?\n)+)"
_INCLUDE = re.compile(r'^include "(.+?)".*$', re.M)
_ENUM = re.compile(r"^cdef enum" + _BLOCK, re.M)
_STRUCT = re.compile(r"^c(?:type)?def (?:packed )?struct (\w+)" + _BLOCK, re.M)
_INLINE = re.compile(r"^cdef inline \S+ (\w+)\((.*?)\) noexcept(?: nogil)?:\s+(.*)\n", re.M)
_FUNCTION = re.compile(r"^cdef .*?(\w+)\(")
_HOOK = re.compile(r".*\(\*(\w+)\)")
_FIELD = re.compile(r"(\w+ ?\**)\s*(.*)")
_NAME = re.compile(r"\s*(\w+)(?:\[(\d+)\])?")


@dataclass(frozen=True)
class Field:
    """A field of a struct: its C type without stars, whether it is a pointer (to data or a function), the length of an array."""

    name: str
    type: str
    pointer: bool = False
    length: int | None = None


@dataclass(frozen=True)
class Inline:
    """An inline function whose body is one line: the text between the parentheses, and the body."""

    arguments: str
    body: str


@dataclass(frozen=True)
class Header:
    """The declarations of one .pxd file.

    `enums` holds a dictionary of values by name for each `cdef enum`, in their order.
    """

    enums: tuple[dict[str, int], ...] = ()
    structs: dict[str, tuple[Field, ...]] = field(default_factory=dict)
    inline: dict[str, Inline] = field(default_factory=dict)

    @property
    def constants(self) -> dict[str, int]:
        """Every value of every enum."""
        return {name: value for values in self.enums for name, value in values.items()}

    def dtype(self, struct: str) -> list[tuple[str, str, tuple[int, ...]]]:
        """The numpy fields of a struct of integers, as numpy.dtype takes them.  KeyError: it has others, such as pointers."""
        fields = self.structs[struct]
        return [(f.name, FORMATS["" if f.pointer else f.type], (f.length,) if f.length else ()) for f in fields]


@cache
def read(path: Path | str) -> Header:
    """The declarations of a file; `path` is relative to the package, such as "fabric/state.pxd", or absolute."""
    return parse(with_included(PACKAGE / path))


def with_included(path: Path) -> str:
    """A file with the files that it includes in the place of their lines."""
    return _INCLUDE.sub(lambda found: (path.parent / found[1]).read_text(), path.read_text())


def parse(text: str) -> Header:
    """The declarations in the text of a .pxd file."""
    known: dict[str, int] = {}
    return Header(
        tuple(_enum(body[1], known) for body in _ENUM.finditer(text)),
        {name: tuple(_fields(body)) for name, body in _STRUCT.findall(text)},
        {name: Inline(arguments, body) for name, arguments, body in _INLINE.findall(text)},
    )


def enum(path: Path | str, prefix: str = "", first: str = "") -> dict[str, int]:
    """The values of a file's enum whose name begins with `prefix`, by the rest of the name in lower case.

    `first` instead names the first value of the wanted enum, where names have no prefix in common.
    """
    for values in read(path).enums:
        if first and next(iter(values), None) == first:
            return {name.lower(): value for name, value in values.items()}
    if first:
        raise KeyError(f"{path}: no enum begins with {first}")
    return {name.removeprefix(prefix).lower(): v for name, v in read(path).constants.items() if name.startswith(prefix)}


def function_of(line: str) -> str | None:
    """Name of the function that a line of a .pxd file declares, if it does."""
    found = _FUNCTION.match(line)
    return found[1] if found else None


def _lines(body: str) -> list[str]:
    return [line for raw in body.splitlines() if (line := raw.split("#")[0].strip())]


def _enum(body: str, known: dict[str, int]) -> dict[str, int]:
    """Values are numbers or expressions of earlier names; what has none is one more than the value before it."""
    values: dict[str, int] = {}
    following = 0
    for item in ",".join(_lines(body)).split(","):
        name, _, text = (part.strip() for part in item.partition("="))
        if name:
            values[name] = known[name] = int(eval(text, {"__builtins__": {}}, known)) if text else following
            following = values[name] + 1
    return values


def _fields(body: str) -> list[Field]:
    """`int32_t a, b` / `Packet* head` / `int64_t table[2]` / `void (*hook)(...)`."""
    fields = []
    for line in _lines(body):
        if hook := _HOOK.match(line):
            fields.append(Field(hook[1], "", pointer=True))
            continue
        kind, names = _FIELD.match(line).groups()  # type: ignore[union-attr]
        for text in names.split(","):
            name, length = _NAME.match(text).groups()  # type: ignore[union-attr]
            fields.append(Field(name, kind.strip(" *"), "*" in kind, int(length) if length else None))
    return fields
