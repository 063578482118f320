"""The structs of the data plane as numpy sees them: what the .pxd files declare, as the C compiler lays it out.

A struct is handed over to another process by the names of its fields, so that both may know different ones.  Pointers, and what
belongs to one process, stay behind.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from penstock_net import pxd
from penstock_net.errors import PenstockError
from penstock_net.vswitch.world import ctypes

FILES = (
    "vswitch/memory/layout.pxd",
    "vswitch/ports/base.pxd",
    "vswitch/ports/segment.pxd",
    "vswitch/ports/vhost.pxd",
    "vswitch/dataplane/state.pxd",
    "vswitch/dataplane/flowmap.pxd",
    "vswitch/dataplane/path_search.pxd",
    "vswitch/dataplane/session.pxd",
    "vswitch/dataplane/driver_state.pxd",
    "vswitch/dataplane/cutting.pxd",
)
FORMATS = {**pxd.FORMATS, "uint32_t": "u4", "double": "f8", "char": "i1"}
POINTER = "u8"
OWN = {  # fields that belong to one process: descriptors, sizes of its memory, what it computes anew, scratch
    "Worker": frozenset(
        [
            "index",
            "workers",
            "wanted",
            "epoll",
            "port_count",
            "timer_room",
            "driver_count",
            "flow_room",
            "table_mask",
            "header",
            "key",
        ]
    ),
    "SwitchPort": frozenset(("fd", "wakes")),
    "Driver": frozenset(("alarm", "limited", "key", "reply")),
    "Cutting": frozenset(("leaving", "datagram")),
    "KernelPort": frozenset(("fd", "empty", "reads_ahead", "sealed", "back_at", "back_end")),
    "Ring": frozenset(("call",)),
}
HANDED_OVER = tuple(
    [
        "Worker",
        "SwitchPort",
        "TxQueue",
        "Flow",
        "Timer",
        "Driver",
        "TxFlow",
        "RxQueueState",
        "Overlay",
        "Cutting",
        "KernelPort",
        "Key",
    ]
)
_FUNCTION = re.compile(r"^ctypedef .*\(\*(\w+)\)", re.M)


@cache
def _declared() -> tuple[dict[str, tuple[pxd.Field, ...]], frozenset[str]]:
    """The structs of all files, and the types of pointers to functions."""
    structs: dict[str, tuple[pxd.Field, ...]] = {}
    functions: set[str] = set()
    for file in FILES:
        structs |= pxd.read(file).structs
        functions |= set(_FUNCTION.findall((pxd.PACKAGE / file).read_text()))
    return structs, frozenset(functions)


def _is_pointer(field: pxd.Field) -> bool:
    return field.pointer or field.type in _declared()[1]


@cache
def struct_type(name: str) -> np.dtype:
    """The numpy type of a struct, pointers as numbers."""
    fields: list[Any] = []
    for field in _declared()[0][name]:
        kind = POINTER if _is_pointer(field) else FORMATS.get(field.type) or struct_type(field.type)
        fields.append((field.name, kind, (field.length,)) if field.length else (field.name, kind))
    return np.dtype(fields, align=True)


@cache
def carried_type(name: str) -> np.dtype:
    """The same of what is handed over: "inner.field" of a struct in it, at the same places."""
    leaves = list(_leaves(name, "", 0))
    return np.dtype(
        {
            "names": [path for path, _, _ in leaves],
            "formats": [kind for _, kind, _ in leaves],
            "offsets": [offset for _, _, offset in leaves],
            "itemsize": struct_type(name).itemsize,
        }
    )


def _leaves(name: str, before: str, base: int) -> Iterator[tuple[str, Any, int]]:
    for field in _declared()[0][name]:
        kind, offset = struct_type(name)[field.name], offset_of(name, field.name)
        if _is_pointer(field) or field.name in OWN.get(name, ()):
            continue
        if field.type in FORMATS:
            yield before + field.name, kind, base + offset
        elif not field.length:
            yield from _leaves(field.type, f"{before}{field.name}.", base + offset)
        elif not _has_pointers(field.type):
            yield before + field.name, kind, base + offset


def offset_of(name: str, field: str) -> int:
    """Where a field of a struct begins."""
    places: Any = struct_type(name).fields
    return int(places[field][1])


def _has_pointers(name: str) -> bool:
    return any(_is_pointer(field) or (field.type not in FORMATS and _has_pointers(field.type)) for field in _declared()[0][name])


def check(sizes: dict[str, int]) -> None:
    """PenstockError unless structs have these sizes, as the C compiler says."""
    for name, size in sizes.items():
        declared = struct_type(name).itemsize
        if declared != size:
            raise PenstockError(f"{name} has {size} B, and {declared} B by its declaration: this build is broken")


def prepare() -> None:
    """Read all declarations that are handed over."""
    for name in HANDED_OVER:
        carried_type(name)


def memory(address: int, kind: Any, count: int = 1) -> np.ndarray:
    """The array that begins at an address."""
    kind = np.dtype(kind)
    return np.frombuffer((ctypes.c_char * (kind.itemsize * count)).from_address(address), kind, count)


def gathered(name: str, addresses: Iterable[int]) -> np.ndarray:
    """Copies of structs at these addresses, in one array, so that a field of all of them is one operation."""
    places, size = list(addresses), struct_type(name).itemsize
    copies = np.empty((len(places), size), "u1")
    for row, address in zip(copies, places):
        row[:] = memory(address, "u1", size)
    return copies.reshape(-1).view(carried_type(name))


def scatter(rows: np.ndarray, addresses: Iterable[int]) -> None:
    """Put copies of structs back where they came from."""
    for row, address in zip(rows.view("u1").reshape(len(rows), -1), addresses):
        memory(address, "u1", len(row))[:] = row


def packed(array: np.ndarray) -> np.ndarray:
    """A copy of a structured array without what lies between its fields."""
    found = np.empty(len(array), _packed_type(array.dtype))
    for name in array.dtype.names or ():
        found[name] = array[name]
    return found


@cache
def _packed_type(kind: np.dtype) -> np.dtype:
    return np.dtype([(name, *(kind[name].subdtype or (kind[name],))) for name in kind.names or ()])


def set_fields(to: np.ndarray, found: np.ndarray, rows: Any = slice(None)) -> None:
    """Set those fields of an array that both have."""
    for name in found.dtype.names or ():
        if name in (to.dtype.names or ()):
            to[name][rows] = found[name]
