"""A scheme file, built in or a user's, as a module of plain Python, and its fields of the fabric's structs."""

import __future__

import importlib
import types
from typing import Any

from penstock.composition.declare import C_TYPES, GIVEN, Declarations, class_of
from penstock.pxd import BITS
from penstock.sim.interpreted.structs import at, make_class, nothing

AREAS: dict[tuple[str, int], type] = {}  # of the running composition: owner and offset -> class


def scheme_module(declared: Declarations) -> types.ModuleType:
    """The module of a scheme, with the names that it would cimport."""
    module = types.ModuleType(declared.name)
    names = vars(module)
    for part, given in GIVEN.items():
        fabric = importlib.import_module(f"penstock.fabric.{part}")
        names.update({name: getattr(fabric, name) for name in given})
    classes: dict[str, type] = {}
    for name, record in declared.records.items():
        classes[name] = record_class(class_of(name), record, classes)
    me = record_class("Me", declared.own, classes)
    names["Me"] = type("Me", (me,), {"__slots__": ("at",), "fields": me.fields})  # type: ignore[attr-defined]
    names["AREAS"] = {}
    for owner, record in declared.state.items():
        names["AREAS"][owner] = record_class("My" + class_of(owner), record, classes)
        names["my_" + owner] = lambda me, thing, owner=owner: area(thing, owner, getattr(me.at, owner))
        for field in record.fields:
            names[field.name + "_at"] = accessor(field.name)
    for field in declared.own.fields:
        names[field.name + "_at"] = accessor(field.name)
    flags = __future__.annotations.compiler_flag
    exec(compile(declared.source, str(declared.path), "exec", flags), names)
    return module


def record_class(name: str, record: Any, classes: dict[str, type]) -> type:
    """The class of a declare.Record; its `fields` are (name, class of an element) by offset."""
    initial: dict[str, Any] = {}
    bits, fields = {}, {}
    for field in record.fields:
        kind = C_TYPES[field.element][0] if field.element in C_TYPES else ""
        element = classes.get(field.element) or (float if kind == "double" else int)
        zero = nothing if field.star else element
        if field.table:
            initial[field.name] = nothing
            initial[field.name + "_count"] = int
        elif field.length:
            initial[field.name] = lambda z=zero, n=int(field.length): [z() for _ in range(n)]
        else:
            initial[field.name] = zero
            if not field.star and kind in BITS:
                bits[field.name] = BITS[kind]
        fields[field.at] = field.name, element
    made = make_class(name, initial, bits)
    made.fields = fields  # type: ignore[attr-defined]
    return made


def accessor(field: str) -> Any:
    """NAME_at(owner, index) of a table."""

    def element(owner: Any, index: int) -> Any:
        table = getattr(owner, field)
        return table[at(index, len(table), field.encode())]

    return element


def area(thing: Any, owner: str, offset: int) -> Any:
    """A scheme's fields of a struct, created on first access."""
    if offset not in thing.areas:
        thing.areas[offset] = AREAS[owner, offset]()
    return thing.areas[offset]
