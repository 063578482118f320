"""Expressions of a user's scheme: their kinds, and the checked form of every operation; see translate.py."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NoReturn

from penstock_net.composition.declare import GIVEN, OWNERS, Declarations, class_of
from penstock_net.composition.hooks import HOOKS, VERBS
from penstock_net.composition.known import CHECKS, MAY_BE_NULL, MEANINGLESS, NULLS, THINGS, fields_of
from penstock_net.composition.types import Types
from penstock_net.errors import nearest

LARGEST = 2**63 - 1
ORDER = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
BITWISE = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}
WHOLE = {
    ast.Add: "g_add",
    ast.Sub: "g_sub",
    ast.Mult: "g_mul",
    ast.FloorDiv: "g_floordiv",
    ast.Mod: "g_mod",
    ast.LShift: "g_shl",
    ast.RShift: "g_shr",
}
MASKS = {ast.FloorDiv: "g_udiv", ast.Mod: "g_umod", ast.LShift: "g_ushl", ast.RShift: "g_ushr"}
PLAIN_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
BITS = {"int8_t": 8, "int16_t": 16, "int32_t": 32}
KNOWN = {"int32_t": "g_known32", "int64_t": "g_known64", "double": "g_known_float"}
WORDS = {"int": "a whole number", "bool": "a whole number", "mask": "a mask", "float": "a float", "": "nothing"}
REFUSED = {
    "print": "print is a statement of its own and gives nothing",
    "breakpoint": "breakpoint() is for plain Python: python -m penstock_net.testing.cases CASE.json --interpreted",
    "int": "write whole(x), which rounds towards zero",
    "round": "write whole(x + 0.5)",
    "pow": "write power(x, y)",
    "len": "the length of a table is its NAME_count",
    "bool": "write 1 if x else 0",
    "sum": "write a loop",
    "range": "range is for loops: for i in range(n)",
}


@dataclass(frozen=True)
class Value:
    """A translated expression.

    origins: of a pointer: "null" if it may be null; of a packet also the hooks that it may come from, "frame", "queued".
    literal: its value if it is a number in the file.  rough: a float that may be infinite or no number.
    """

    code: str
    kind: str
    origins: frozenset[str] = frozenset()
    literal: int | float | None = None
    rough: bool = False


class Expressions:
    """The state of a translation, and what translates an expression."""

    def __init__(self, declared: Declarations, types: Types) -> None:
        self.declared, self.types = declared, types
        self.functions: dict[str, ast.FunctionDef] = {f.name: f for f in declared.functions}
        self.promoted: dict[tuple[str, str], str] = {}  # locals that begin with a whole number and become something else
        self.began_literal: set[tuple[str, str]] = set()
        self.origins: dict[tuple[str, str], frozenset[str]] = {}  # by function and name; "return" is its result
        self.changed = False
        self.current: ast.FunctionDef
        self.locals: dict[str, str] = {}
        self.assigned: set[str] = set()
        self.declarations: list[str] = []
        self.lines: list[str] = []
        self.depth = 1
        constants = set(NULLS) | {name for names in GIVEN.values() for name in names if name.isupper()}
        self.constants = constants - declared.defined()

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        raise NotImplementedError

    def parameters(self, function: ast.FunctionDef) -> dict[str, str]:
        raise NotImplementedError

    def returns(self, function: ast.FunctionDef) -> tuple[str, str]:
        raise NotImplementedError

    def origins_of_hook(self, name: str) -> set[str]:
        raise NotImplementedError

    # ---- Where pointers come from ----

    def note(self, key: tuple[str, str], origins: frozenset[str]) -> None:
        before = self.origins.get(key, frozenset())
        if origins - before:
            self.origins[key] = before | origins
            self.changed = True

    def note_local(self, name: str, value: Value) -> None:
        self.note((self.current.name, name), value.origins)

    def note_result(self, value: Value) -> None:
        self.note((self.current.name, "return"), value.origins)

    def origins_of(self, name: str) -> frozenset[str]:
        found = self.origins.get((self.current.name, name), frozenset())
        if self.current.name in self.declared.hooks and name == "pkt" and name in self.parameters(self.current):
            found |= self.origins_of_hook(self.current.name)
        return found

    # ---- Values ----

    def value(self, node: ast.expr, result: bool = True) -> Value:
        """result: whether the value is used."""
        if isinstance(node, ast.Constant):
            return self.number(node)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.field(self.pointer(node.value), node)
        if isinstance(node, ast.Subscript):
            place, kind, c = self.element(node)
            code = f"{place}[0]"
            return Value(self.known(code, kind, c, node) if self.stale(node) else code, kind)
        if isinstance(node, ast.BinOp):
            return self.operation(node.op, self.value(node.left), self.value(node.right), node)
        if isinstance(node, ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, ast.BoolOp):
            values = [self.value(v) for v in node.values]
            if any(v.kind != "bool" for v in values):
                self.refuse(node, f'"{ast.unparse(node)}" is used as a value; write 1 if ... else 0')
            return Value(self.logic(node), "bool")
        if isinstance(node, ast.Compare):
            return Value(self.comparison(node), "bool")
        if isinstance(node, ast.IfExp):
            test, a, b = self.truth(node.test), self.value(node.body), self.value(node.orelse)
            kind = self.joined([a, b], node)
            code = f"({self.cast(a, kind, node)} if {test} else {self.cast(b, kind, node)})"
            return Value(code, kind, a.origins | b.origins)
        if isinstance(node, ast.Call):
            return self.call(node, result)
        what = {ast.JoinedStr: "text", ast.List: "a list", ast.Dict: "a dict", ast.Tuple: "a tuple", ast.Set: "a set"}
        name = what.get(type(node), f'"{ast.unparse(node)}"'[:60])
        self.refuse(node, f"{name} is not possible; a scheme has numbers, the fabric's things and what it declares")

    def number(self, node: ast.Constant) -> Value:
        value = node.value
        if isinstance(value, bool):
            return Value(str(int(value)), "int", literal=int(value))
        if isinstance(value, int):
            return self.whole_number(value, node)
        if isinstance(value, float):
            if value - value != 0:
                self.refuse(node, "this number is too large")
            return Value(repr(value), "float", literal=value)
        self.refuse(
            node, f"{ast.unparse(node)[:40]} is not possible; a scheme has numbers, the fabric's things and what it declares"
        )

    def whole_number(self, value: int, node: ast.AST) -> Value:
        if -LARGEST <= value <= LARGEST:
            return Value(f"<int64_t>{value}" if value >= 0 else f"(<int64_t>{value})", "int", literal=value)
        if 0 <= value < 2**64:
            return Value(f"<uint64_t>{value}u", "mask", literal=value)
        self.refuse(node, "a whole number has 64 bits")

    def name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self.locals:
            if name not in self.assigned:
                self.refuse(node, f'"{name}" may not have a value here; give it one before')
            return Value(f"v_{name}", self.locals[name], self.origins_of(name))
        if name in self.declared.constants:
            value = self.declared.constant(name)
            return Value(repr(value), "float", literal=value) if isinstance(value, float) else self.whole_number(value, node)
        if name in NULLS and name in self.constants:
            return Value(name, NULLS[name], frozenset({"null"}))
        if name in self.constants:
            return Value(f"<int64_t>{name}", "int")
        if name in self.functions or name in VERBS:
            self.refuse(node, f"{name} is a function; call it: {name}(...)")
        if any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(self.current)):
            self.refuse(node, f'"{name}" has no value yet; give it one before')
        if name == "None":
            self.refuse(node, "there is no None; compare with NO_PACKET, NO_FLOW, NO_PORT or NO_QUEUE")
        known = {*self.locals, *self.declared.constants, *self.constants}
        self.refuse(node, f"unknown name {name}; {nearest(name, known)}")

    # ---- Things and their fields ----

    def pointer(self, node: ast.expr) -> Value:
        """A thing or record of which a field is wanted; one that may be null is checked."""
        value = self.value(node)
        if not value.kind.startswith("*"):
            self.refuse(node, f"{ast.unparse(node)} is {WORDS.get(value.kind, 'a table')}; it has no fields")
        return self.some(value, node)

    def some(self, value: Value, node: ast.AST) -> Value:
        if "null" not in value.origins:
            return value
        if value.origins == {"null"} and value.code == "v_pkt" and self.current.name in HOOKS:
            self.refuse(node, f"in {self.current.name}, pkt is NO_PACKET: there is no packet")
        code = f"(<{value.kind[1:]}*>g_some(guard, {node.lineno}, {value.code}))"  # type: ignore[attr-defined]
        return Value(code, value.kind, value.origins)

    def field_kind(self, owner: Value, node: ast.Attribute) -> tuple[str, str]:
        """(kind, C type) of a field, unless it means nothing where the packet comes from."""
        thing, name = owner.kind[1:], node.attr
        own = self.types.own_field(thing, name)
        if own:
            return own
        if thing in THINGS:
            for origin in sorted(owner.origins) if thing == "Packet" else ():
                if reason := MEANINGLESS.get(origin, {}).get(name):
                    where = "a new frame" if origin == "frame" else origin
                    self.refuse(node, f'"{name}" of a packet means nothing in {where}: {reason}')
            if name in fields_of(thing):
                return fields_of(thing)[name]
            known = list(fields_of(thing))
        elif thing == "Me":
            if name == "at":
                return "*Places", "Places"
            known = [f.name for f in self.declared.own.fields]
        else:
            known = [f.name for f in self.types.structs[thing].fields]
        self.refuse(node, f'"{name}" is no field of {self.described(thing)}; {nearest(name, known)}')

    def described(self, thing: str) -> str:
        if thing == "Me":
            return f'"{self.declared.me}" (parameters and scheme_state)'
        owner = thing.removeprefix("My").lower()
        return f"{owner}_state" if thing.startswith("My") and owner in OWNERS else f"a {thing.lower()}"

    def field(self, owner: Value, node: ast.Attribute) -> Value:
        kind, c = self.field_kind(owner, node)
        thing, name = owner.kind[1:], node.attr
        if c == "record":
            self.refuse(node, f"a record of {name} is {name}_at({ast.unparse(node.value)}, i)")
        if kind.startswith("["):
            if thing in THINGS:
                length = c.split()[1]
                return Value(f"{owner.code}.{name}", kind, literal=int(length))
            return Value(f"{thing}_{name}({owner.code})", kind)
        code = f"{owner.code}.{name}"
        if thing in self.types.reused:
            code = self.known(code, kind, c, node)
        origins: frozenset[str] = frozenset()
        if kind.startswith("*") and name in MAY_BE_NULL:
            origins = frozenset({"null", "queued"})
        return Value(code, kind, origins)

    def known(self, code: str, kind: str, c: str, node: ast.AST) -> str:
        """The value of a field whose memory is reused, once it has been set."""
        return f"{KNOWN[c]}(guard, {node.lineno}, {code})" if c in KNOWN else code  # type: ignore[attr-defined]

    def stale(self, node: ast.Subscript) -> bool:
        return isinstance(node.value, ast.Attribute) and self.pointer(node.value.value).kind[1:] in self.types.reused

    def element(self, node: ast.Subscript) -> tuple[str, str, str]:
        """(pointer to an element of a table of numbers, its kind, its C type)."""
        table = self.value(node.value)
        if not table.kind.startswith("["):
            self.refuse(node, f"{ast.unparse(node.value)} is no table")
        if isinstance(node.slice, ast.Slice | ast.Tuple):
            self.refuse(node, "a table has one index")
        index = self.converted(self.value(node.slice), "int", node)
        element = table.kind[1:]
        c = element if element == "double" else element + "_t"
        kind = {"double": "float", "uint64": "mask"}.get(element, "int")
        if table.literal:  # of the fabric
            return f"(&{table.code}[g_index(guard, {node.lineno}, {index}, {table.literal})])", kind, c
        return f"item_{element}(guard, {node.lineno}, {table.code}, {index})", kind, c

    # ---- Operations ----

    def operation(self, op: ast.operator, a: Value, b: Value, node: ast.AST) -> Value:
        line = node.lineno  # type: ignore[attr-defined]
        kinds = {"int" if v.kind == "bool" else v.kind for v in (a, b)}
        if not kinds <= {"int", "mask", "float"}:
            self.refuse(node, f"{WORDS.get(a.kind, 'a thing')} and {WORDS.get(b.kind, 'a thing')} cannot be combined")
        if isinstance(op, ast.Pow):
            self.refuse(node, "** is not possible; write x * x, or power(x, y)")
        if isinstance(op, ast.MatMult):
            self.refuse(node, "@ is not possible")
        if isinstance(op, ast.Div):
            if "float" not in kinds:
                self.refuse(node, "both sides of / are whole numbers; write float(a) / b, or // for the whole part")
            x, y = (self.cast(v, "float", node) for v in (a, b))
            plain = isinstance(b.literal, int | float) and b.literal
            return Value(f"({x} / {y})" if plain else f"g_div(guard, {line}, {x}, {y})", "float", rough=True)
        if "float" in kinds:
            if type(op) not in PLAIN_SIGNS:
                self.refuse(node, "this is for whole numbers only; write whole(x) of a float first")
            x, y = (self.cast(v, "float", node) for v in (a, b))
            return Value(f"({x} {PLAIN_SIGNS[type(op)]} {y})", "float", rough=True)
        shift = isinstance(op, ast.LShift | ast.RShift)
        if "mask" in ({a.kind} if shift else kinds):
            x = self.converted(a, "mask", node)
            y = self.converted(b, "int" if shift else "mask", node)
            if type(op) in MASKS:
                return Value(f"{MASKS[type(op)]}(guard, {line}, {x}, {y})", "mask")
            return Value(f"({x} {(PLAIN_SIGNS | BITWISE)[type(op)]} {y})", "mask")  # type: ignore[operator]
        x, y = self.cast(a, "int", node), self.converted(b, "int", node)
        if type(op) in BITWISE:
            return Value(f"({x} {BITWISE[type(op)]} {y})", "int")
        return Value(f"{WHOLE[type(op)]}(guard, {line}, {x}, {y})", "int")

    def unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Value(f"(not {self.truth(node.operand)})", "bool")
        value = self.value(node.operand)
        if value.kind not in ("int", "bool", "mask", "float"):
            self.refuse(node, "this needs a number")
        if isinstance(node.op, ast.Invert):
            if value.kind == "float":
                self.refuse(node, "~ is for whole numbers and masks")
            return Value(
                f"(~{self.cast(value, 'mask' if value.kind == 'mask' else 'int', node)})", value.kind.replace("bool", "int")
            )
        if isinstance(node.op, ast.UAdd):
            return value
        if value.kind == "mask":
            self.refuse(node, "a mask has no sign")
        if isinstance(value.literal, int):
            return self.whole_number(-value.literal, node)
        if value.kind == "float":
            return Value(
                f"(-{value.code})", "float", literal=None if value.literal is None else -value.literal, rough=value.rough
            )
        return Value(f"g_sub(guard, {node.lineno}, 0, {self.cast(value, 'int', node)})", "int")

    def comparison(self, node: ast.Compare) -> str:
        values = [self.value(v) for v in (node.left, *node.comparators)]
        things = [v for v in values if v.kind.startswith("*")]
        for op in node.ops:
            if type(op) not in ORDER:
                self.refuse(node, "is, in and not in are not possible; write == or !=")
            if things and not isinstance(op, ast.Eq | ast.NotEq):
                self.refuse(node, "things are equal or not; they have no order")
        if things:
            if {v.kind for v in values} != {things[0].kind}:
                self.refuse(node, "this compares things of different kinds")
            codes = [v.code for v in values]
        else:
            kind = self.joined(values, node)
            codes = [self.cast(v, kind, node, finite=True) for v in values]
        signs = [ORDER[type(op)] for op in node.ops]
        return "(" + " ".join([codes[0], *(f"{s} {c}" for s, c in zip(signs, codes[1:]))]) + ")"

    def truth(self, node: ast.expr) -> str:
        """A test: whether a number is not 0, or a thing not null."""
        if isinstance(node, ast.BoolOp):
            return self.logic(node)
        value = self.value(node)
        if value.kind.startswith("["):
            self.refuse(node, "a table is neither true nor false")
        if not value.kind:
            self.refuse(node, "this function returns nothing")
        if value.kind == "bool":
            return value.code
        if value.kind.startswith("*"):
            return f"({value.code} != NULL)"
        return f"({self.cast(value, value.kind, node, finite=True)} != 0)"

    def logic(self, node: ast.BoolOp) -> str:
        return "(" + (" and " if isinstance(node.op, ast.And) else " or ").join(self.truth(v) for v in node.values) + ")"

    # ---- Conversions ----

    def joined(self, values: list[Value], node: ast.AST) -> str:
        """The kind that can hold each of several values."""
        kinds = {"int" if v.kind == "bool" else v.kind for v in values}
        if len(kinds) == 1:
            return kinds.pop()
        if kinds <= {"int", "mask", "float"}:
            return "float" if "float" in kinds else "mask"
        self.refuse(node, "these are of different kinds")

    def cast(self, value: Value, kind: str, node: ast.AST, finite: bool = False) -> str:
        """`converted`, with a type of its own for the compiler; the float may be rough unless it is to be finite."""
        if kind == "float" and value.kind == "float":
            return self.converted(value, kind, node) if finite else value.code
        code = self.converted(value, kind, node)
        if kind in ("int", "mask", "float") and value.literal is None:
            return f"<{self.types.c_type(kind)}>({code})"
        return code

    def converted(self, value: Value, kind: str, node: ast.AST) -> str:
        """A value as one of another kind; refused if that loses something for certain, checked if it may."""
        given = "int" if value.kind == "bool" else value.kind
        line = node.lineno  # type: ignore[attr-defined]
        if given == kind:
            return f"g_finite(guard, {line}, {value.code})" if kind == "float" and value.rough else value.code
        if kind == "float" and given in ("int", "mask"):
            return repr(float(value.literal)) if value.literal is not None else f"<double>({value.code})"
        if kind == "int" and given == "mask":
            return f"g_number(guard, {line}, {value.code})"
        if kind == "mask" and given == "int":
            if isinstance(value.literal, int) and value.literal >= 0:
                return f"<uint64_t>{value.literal}u"
            return f"g_mask(guard, {line}, {value.code})"
        if kind == "int" and given == "float":
            self.refuse(node, "a float where a whole number is needed; write whole(x), which rounds towards zero")
        words = [WORDS.get(k) or (f"a {k[1:].lower()}" if k.startswith("*") else "a table") for k in (given, kind)]
        self.refuse(node, f"this is {words[0]}, where {words[1]} is needed")

    def fitted(self, value: Value, kind: str, c: str, node: ast.AST) -> str:
        """A value for a field of this C type."""
        if c in ("const", "record"):
            self.refuse(node, "this cannot be set")
        code = self.converted(value, kind, node)
        bits = BITS.get(c)
        if not bits:
            return code
        if isinstance(value.literal, int):
            if not -(1 << bits - 1) <= value.literal < 1 << bits - 1:
                self.refuse(node, f"{value.literal} does not fit into the field's {bits} bits")
            return code
        return f"g_fit{bits}(guard, {node.lineno}, {code})"  # type: ignore[attr-defined]

    # ---- Calls ----

    def call(self, node: ast.Call, result: bool) -> Value:
        if not isinstance(node.func, ast.Name) or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.refuse(node, "a call is NAME(a, b, ...), without keywords; things have no methods")
        name = node.func.id
        if name in self.locals:
            self.refuse(node, f'"{name}" is a variable here')
        if name in self.functions:
            return self.own_call(node, name)
        if name in ("min", "max", "abs", "float") and name not in self.declared.defined():
            return self.arithmetic(node, name)
        if name.startswith("my_") and (owner := name[3:]) in OWNERS:
            return self.state_of(node, owner)
        if name.endswith("_at") and name not in VERBS:
            return self.record_at(node, name.removesuffix("_at"))
        if name not in VERBS:
            known = {*VERBS, *self.functions, *self.declared.names(), "min", "max", "abs", "float"}
            self.refuse(node, REFUSED.get(name) or f"unknown function {name}; {nearest(name, known)}")
        return self.verb_call(node, name)

    def verb_call(self, node: ast.Call, name: str) -> Value:
        """A call of a verb, in its checked form unless the verb is plain."""
        verb = VERBS[name]
        arguments, _, kind = verb.kinds.partition("->")
        kinds, kind = arguments.split(), kind.strip()
        if len(kinds) != len(node.args):
            self.refuse(node, f"{name} has {len(kinds)} arguments, not {len(node.args)}")
        values = [self.value(a) for a in node.args]
        codes = [self.argument(v, k, node) for v, k in zip(values, kinds)]
        if name in ("new_frame", "send_control"):  # bytes of the scheme's own in a frame
            codes.append("sizeof(MyFrame)" if self.declared.state["frame"].fields else "0")
        if name == "whole":
            code = f"<int64_t>({codes[0]})"
        elif verb.plain:
            code = f"{name}({', '.join(codes)})"
        else:
            code = f"g_{name}({', '.join(['guard', str(node.lineno), *codes])})"
        return Value(code, kind, frozenset(verb.gives), rough=kind == "float" and name != "line_rate")

    def argument(self, value: Value, kind: str, node: ast.AST) -> str:
        """An argument of a verb."""
        if kind.startswith("*"):
            return self.converted(self.some(value, node), kind, node)
        if kind == "bits":
            if value.kind != "[uint64":
                self.refuse(node, 'this is no bitmap; declare it as "mask[n]"')
            return value.code
        if kind == "word":
            return f"<int64_t>({value.code})" if value.kind == "mask" else self.converted(value, "int", node)
        if kind in CHECKS:
            check, *least = CHECKS[kind].split()
            code = self.converted(value, "int" if kind == "time" else "float", node)
            return f"{check}({', '.join(['guard', str(node.lineno), code, *least])})"  # type: ignore[attr-defined]
        return self.converted(value, kind, node)

    def own_call(self, node: ast.Call, name: str) -> Value:
        function = self.functions[name]
        parameters = self.parameters(function)
        if len(parameters) != len(node.args):
            self.refuse(node, f"{name} has {len(parameters)} arguments, not {len(node.args)}")
        codes = ["guard"]
        for (parameter, kind), argument in zip(parameters.items(), node.args):
            value = self.value(argument)
            codes.append(self.converted(value, kind, node))
            if kind.startswith("*"):
                self.note((name, parameter), value.origins)
        kind = self.returns(function)[0]
        return Value(f"own_{name}({', '.join(codes)})", kind, self.origins.get((name, "return"), frozenset()))

    def arithmetic(self, node: ast.Call, name: str) -> Value:
        """min, max, abs and float: of any kind of number."""
        count = len(node.args)
        if count != 1 if name in ("abs", "float") else count < 2:
            self.refuse(node, f"{name} has {'one argument' if name in ('abs', 'float') else 'two arguments or more'}")
        values = [self.value(a) for a in node.args]
        kind = self.joined(values, node)
        if kind not in ("int", "mask", "float"):
            self.refuse(node, f"{name} is for numbers")
        if name == "float":
            return Value(self.cast(values[0], "float", node), "float", rough=values[0].rough)
        codes = [self.cast(v, kind, node, finite=True) for v in values]
        if name == "abs":
            if kind == "int":
                return Value(f"g_abs(guard, {node.lineno}, {codes[0]})", "int")
            return Value(f"fabs({codes[0]})" if kind == "float" else codes[0], kind)
        return Value(f"{name}({', '.join(codes)})", kind)

    def state_of(self, node: ast.Call, owner: str) -> Value:
        """my_port(me, port): the scheme's own state of a thing."""
        if not self.declared.state[owner].fields:
            self.refuse(node, f"my_{owner} needs a declaration, {owner}_state = {{...}}")
        if len(node.args) != 2:
            self.refuse(node, f"my_{owner} has two arguments: my_{owner}({self.declared.me}, {OWNERS[owner].split()[1]})")
        me, thing = (self.pointer(a) for a in node.args)
        kind = OWNERS[owner].split("*")[0]
        code = self.converted(thing, "*" + kind, node)
        self.converted(me, "*Me", node)
        if owner == "packet" and not thing.origins - {"null"} <= set(MEANINGLESS) - {"on_control", "frame"}:
            code = f"g_data(guard, {node.lineno}, {code})"
        if owner == "packet" and thing.origins - {"null"} and thing.origins - {"null"} <= {"on_control", "frame"}:
            self.refuse(node, "a control frame has no packet_state; declare frame_state and write my_frame")
        if owner == "frame":
            code = f"g_frame(guard, {node.lineno}, {code}, {me.code}.at.kind)"
        return Value(f"my_{owner}({me.code}, {code})", "*My" + class_of(owner))

    def record_at(self, node: ast.Call, name: str) -> Value:
        """NAME_at(owner, i): a record of a table."""
        if len(node.args) != 2:
            self.refuse(node, f"{name}_at has two arguments: {name}_at(owner, i)")
        owner = self.pointer(node.args[0])
        field = self.types.field(owner.kind[1:], name)
        if field is None or not field.is_record or not field.length:
            tables = [f.name for r in self.types.structs.values() for f in r.fields if f.is_record]
            self.refuse(node, f'"{name}" is no table of records of {self.described(owner.kind[1:])}; {nearest(name, tables)}')
        index = self.converted(self.value(node.args[1]), "int", node)
        return Value(f"{owner.kind[1:]}_{name}(guard, {node.lineno}, {owner.code}, {index})", "*" + class_of(field.element))
