"""A scheme file, built in or a user's, as a module of plain Python, and its fields of the fabric's structs."""

import __future__

import ast
import bdb
import importlib
import traceback
import types
from typing import Any

from penstock_net.composition import prints
from penstock_net.composition.declare import C_TYPES, GIVEN, Declarations, class_of
from penstock_net.errors import SchemeError
from penstock_net.pxd import BITS
from penstock_net.sim.interpreted.structs import at, make_class, nothing
from penstock_net.units import format_time

ROUNDS = 1_000_000  # of loops in one call of a hook, as in the compiled core

AREAS: dict[tuple[str, int], type] = {}  # of the running composition: owner and offset -> class


class Left(SchemeError):
    """Who debugs a scheme has left the debugger."""


def scheme_module(declared: Declarations, checked: bool = True) -> types.ModuleType:
    """The module of a scheme, with the names that it would cimport; always checked."""
    module = types.ModuleType(declared.name)
    names = vars(module)
    for part, given in GIVEN.items():
        fabric = importlib.import_module(f"penstock_net.fabric.{part}")
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
    for record in (declared.own, *declared.state.values()):
        names.update({f.name + "_at": accessor(f.name) for f in record.fields if f.length and f.is_record})
    flags = __future__.annotations.compiler_flag
    tree = Counted(declared).visit(ast.parse(declared.source))
    rounds = Rounds()
    names["count_round"] = rounds.count
    printer = Printer(declared)
    names["print_line"] = printer.print_line
    exec(compile(ast.fix_missing_locations(tree), str(declared.path), "exec", flags), names)
    for name in declared.hooks:
        names[name] = watched(declared, name, names[name], rounds, printer)
    return module


class Counted(ast.NodeTransformer):
    """Counts the rounds of every loop, and has print write into the log of the run, too."""

    def __init__(self, declared: Declarations) -> None:
        self.prints = [(call.lineno, call.col_offset) for call in prints.calls(declared)]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        place = (node.lineno, node.col_offset)
        if not prints.is_print(node) or place not in self.prints:
            return node
        values = [part.node for part in prints.parts_of(node) if part.node is not None]
        site = ast.Constant(self.prints.index(place))
        call = ast.Call(ast.Name("print_line", ast.Load()), [site, ast.List(values, ast.Load())], [])
        return ast.copy_location(call, node)

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        call = ast.Call(ast.Name("count_round", ast.Load()), [], [])
        node.body.insert(0, ast.copy_location(ast.Expr(call), node))
        return node

    visit_For = visit_While  # type: ignore[assignment]


class Rounds:
    """Rounds of loops in one call of a hook."""

    def __init__(self) -> None:
        self.left = ROUNDS

    def count(self) -> None:
        """Count a round.  RuntimeError: there were too many."""
        self.left -= 1
        if self.left < 0:
            raise RuntimeError(f"more than {ROUNDS:,} rounds of loops in one event; does this loop end?")


class Printer:
    """What `print` of a scheme does: it writes to the terminal, and rows of the log as the compiled core has them."""

    def __init__(self, declared: Declarations) -> None:
        self.calls = prints.calls(declared)
        self.me: Any = None
        self.node: Any = None

    def print_line(self, site: int, values: list[Any]) -> None:
        """Write a line."""
        from penstock_net.fabric.rows import new_print_row

        worker = self.node.worker if self.node else self.me.at.world.workers[0]
        worker.printed += 1
        time = self.node.now if self.node else 0
        shown = []
        for place, value in enumerate(values) if values else [(-1, 0)]:
            row = new_print_row(worker)
            row.time, row.node, row.scheme, row.site = time, self.node.id if self.node else -1, self.me.at.index, site
            row.place = place
            row.kind, row.whole, row.number = logged(value)
            fields = {"kind": row.kind, "whole": row.whole, "number": row.number}
            shown += [prints.value_of(fields, Numbered())] if values else []
        print(prints.line_of(self.calls[site], shown))


class Numbered:
    """Names of nodes by number, where the names of the network are not known."""

    def __getitem__(self, number: int) -> str:
        return f"node {number}"


def logged(value: Any) -> tuple[int, int, float]:
    """What stands for a value in a row: its kind, a whole number and one with a fraction."""
    if isinstance(value, float):
        return prints.FLOAT, 0, value
    if isinstance(value, int):
        return (prints.INT, int(value), 0.0) if value < 1 << 63 else (prints.MASK, value - (1 << 64), 0.0)
    kind = type(value).__name__.lower()
    if value is None or kind not in prints.KINDS:
        return prints.KINDS.index("packet"), -1, 0.0  # NO_PACKET, NO_FLOW, ..
    field = {"node": "id", "port": "slot", "queue": "index", "packet": "seq"}.get(kind, "number")
    return prints.KINDS.index(kind), getattr(value, field), float(value.number) if kind == "packet" else 0.0


def watched(declared: Declarations, name: str, hook: Any, rounds: Rounds, printer: Printer) -> Any:
    """A hook whose errors become a SchemeError with line, hook, node and time; one who leaves the debugger ends the run."""

    def call(me: Any, *things: Any) -> Any:
        rounds.left = ROUNDS
        before = printer.me, printer.node
        printer.me, printer.node = me, things[0] if things else None
        try:
            return hook(me, *things)
        except SchemeError:
            raise
        except bdb.BdbQuit as error:
            message = f"the debugger was left in {name}{where(things)}: the run has ended there"
            raise Left(message, place=f"{declared.path}:{line_in(declared, error)}") from None
        except Exception as error:
            line = line_in(declared, error)
            source = declared.source.splitlines()[line - 1].strip()
            said = str(error) or type(error).__name__
            raise SchemeError(f"{said}: {source} (in {name}{where(things)})", place=f"{declared.path}:{line}") from error
        finally:
            printer.me, printer.node = before

    return call


def line_in(declared: Declarations, error: BaseException) -> int:
    """The line of the file of a scheme in which an error came up; 1 if that is not known."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(declared.path)]
    return frames[-1].lineno or 1 if frames else 1


def where(things: tuple[Any, ...]) -> str:
    """Node and time of a hook with these arguments."""
    return f" at node {things[0].id}, {format_time(things[0].now)}" if things else ""


def record_class(name: str, record: Any, classes: dict[str, type]) -> type:
    """The class of a declare.Record; its `fields` are (name, class of an element) by offset."""
    initial: dict[str, Any] = {}
    bits, fields = {}, {}
    for field in record.fields:
        kind = C_TYPES[field.element][0] if field.element in C_TYPES else ""
        element = classes.get(field.element) or (float if kind == "double" else int)
        if field.table:
            initial[field.name] = nothing
            initial[field.name + "_count"] = int
        elif field.length:
            initial[field.name] = lambda z=element, n=int(field.length): [z() for _ in range(n)]
        else:
            initial[field.name] = element
            if kind in BITS:
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
