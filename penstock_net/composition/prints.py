"""What `print` in a scheme writes: the lines of a run, made of the values that the core has logged and the text in the file."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from penstock_net.composition.declare import Declarations

KINDS = ("int", "float", "mask", "node", "port", "queue", "flow", "packet", "incoming")  # of a value, by the number in its row
INT, FLOAT, MASK = 0, 1, 2


class Part(NamedTuple):
    """A part of a line: text, or a value of the expression `node` in the form `spec`, as format() takes it."""

    text: str
    node: ast.expr | None = None
    spec: str = ""


def calls(declared: Declarations) -> list[ast.Call]:
    """The calls of print in a file, in its order; none if the file has a function of that name."""
    if "print" in declared.defined():
        return []
    found = [n for f in declared.functions for n in ast.walk(f) if is_print(n)]
    return sorted(found, key=lambda call: (call.lineno, call.col_offset))  # type: ignore[attr-defined, arg-type, return-value]


def is_print(node: ast.AST) -> bool:
    """Whether a part of a file calls print."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"


def parts_of(call: ast.Call) -> list[Part]:
    """The parts of the line that a call writes.  ValueError: what it asks for is not possible."""
    if call.keywords or any(isinstance(a, ast.Starred) for a in call.args):
        raise ValueError("print takes texts and values only")
    found: list[Part] = []
    for i, argument in enumerate(call.args):
        found += [Part(" ")] if i else []
        found += _parts(argument)
    return found


def _parts(node: ast.expr) -> list[Part]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [Part(node.value)]
    if not isinstance(node, ast.JoinedStr):
        return [Part("", node)]
    found: list[Part] = []
    for piece in node.values:
        if isinstance(piece, ast.FormattedValue):
            spec = piece.format_spec
            constant = spec is None or (isinstance(spec, ast.JoinedStr) and all(isinstance(v, ast.Constant) for v in spec.values))
            if piece.conversion not in (-1, ord("s")) or not constant:
                raise ValueError("a value in a text is written {x} or {x:.2f}")
            text = "".join(v.value for v in spec.values) if isinstance(spec, ast.JoinedStr) else ""  # type: ignore[attr-defined]
            found.append(Part("", piece.value, text))
        else:
            found.append(Part(str(piece.value)))  # type: ignore[attr-defined]
    return found


def line_of(call: ast.Call, values: list[Any]) -> str:
    """The line of a call with these values."""
    given = iter(values)
    return "".join(part.text if part.node is None else _formatted(next(given), part.spec) for part in parts_of(call))


def _formatted(value: Any, spec: str) -> str:
    try:
        return format(value, spec)
    except ValueError:  # such as {x:.2f} of the name of a node
        return str(value)


def check_forms(call: ast.Call) -> None:
    """ValueError: a form is none of a number."""
    for part in parts_of(call):
        if not any(_is_form(number, part.spec) for number in (1, 1.0)):
            raise ValueError(f'"{part.spec}" is no form of a number')


def _is_form(number: float, spec: str) -> bool:
    try:
        return bool(format(number, spec))
    except ValueError:
        return False


def value_of(row: Any, nodes: Any) -> Any:
    """The value of a row of the core's log: a number, or what a thing is called."""
    kind, whole = KINDS[row["kind"]], int(row["whole"])
    if kind == "int":
        return whole
    if kind == "float":
        return float(row["number"])
    if kind == "mask":
        return whole % (1 << 64)
    if whole < 0:
        return "none"
    if kind == "node":
        return nodes[whole]
    return f"byte {whole} of flow {int(row['number'])}" if kind == "packet" else f"{kind} {whole}"
