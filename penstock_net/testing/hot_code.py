"""Finds calls of the Python API in generated C: a hot function must have none (a forgotten `noexcept` costs a factor of nine)."""

import re
from typing import NamedTuple

FUNCTION = re.compile(r"^static (?:CYTHON_INLINE )?[^\n;{]*\b(__pyx_f_\w+)\([^\n;{]*\) \{\n(.*?)^\}", re.M | re.S)
CALL = re.compile(r"\b(Py[A-Z]\w+|__Pyx_(?!RefNanny|ctuple)\w+)\b")


class Found(NamedTuple):
    """A function of generated C and the Python names in it."""

    function: str
    names: str


def python_calls(c_source: str) -> list[Found]:
    """Every C function (not a Python-facing wrapper) that touches the Python API."""
    out = []
    for function in FUNCTION.finditer(c_source):
        names = sorted(set(CALL.findall(function[2])))
        if names:
            out.append(Found(function[1].rsplit("_", 1)[-1] if function[1].count("_") > 6 else function[1], " ".join(names)))
    return out
