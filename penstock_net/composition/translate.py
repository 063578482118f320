"""Translates a user's scheme file to Cython with every operation checked; refuses what a scheme cannot do, with line and remedy.

The types of everything are known: those of the fabric (known.py), of what the file declares (declare.py), and a local variable
has that of its first value.  So each operation becomes a call of its checked form (fabric/faults.h, fabric/checked.pxd) with the
line of the file, and what has no meaning is refused before the run.  A function is translated until nothing new is found out
about its arguments: which of them may be null, and where packets come from.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NoReturn

from penstock_net.composition import prints
from penstock_net.composition.declare import ANNOTATED, NO_IMPORT, OWNERS, DeclarationError, Declarations, class_of
from penstock_net.composition.expressions import Expressions, Value
from penstock_net.composition.hooks import HOOKS
from penstock_net.composition.known import C_KINDS, GROWS, NUMBERS, WRITABLE
from penstock_net.composition.types import Types

PASSES = 30
STATEMENTS = {
    ast.Import: NO_IMPORT,
    ast.ImportFrom: NO_IMPORT,
    ast.FunctionDef: "a function inside a function is not possible; put it beside the others",
    ast.Try: "try is not possible: an error in a scheme ends the run",
    ast.Raise: "raise is not possible",
    ast.Assert: "assert is not possible; tests/ or penstock_net.testing are for that",
    ast.With: "with is not possible",
    ast.Delete: "del is not possible",
    ast.Global: "a scheme has no global variables; declare scheme_state or node_state",
    ast.Nonlocal: "a scheme has no global variables; declare scheme_state or node_state",
    ast.ClassDef: "a class is not possible; declare structs or ..._state",
    ast.Match: "match is not possible; write if and elif",
}


class Translation(Expressions):
    """The text of one scheme's module, and the line of the file behind each of its lines."""

    def __init__(self, declared: Declarations, checked: bool = True) -> None:
        """checked: whether anything but a loop can fail; without, faults.h is compiled as UNCHECKED."""
        super().__init__(declared, Types(declared))
        self.checked = checked
        self.results: dict[str, tuple[str, str]] = {}
        self.prints = prints.calls(declared)
        self.check_calls()
        bodies: list[list[str]] = []
        for _ in range(PASSES):
            self.changed = False
            bodies = [self.function(f) for f in declared.functions]
            if not self.changed:
                break
        self.text = "\n".join(self.types.lines() + [line for body in bodies for line in body] + self.hooks()) + "\n"

    def check_calls(self) -> None:
        """Refuse functions that call themselves, directly or by way of others."""
        calls = {
            name: [c.func.id for c in ast.walk(f) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)]
            for name, f in self.functions.items()
        }
        done: set[str] = set()

        def visit(name: str, path: tuple[str, ...]) -> None:
            if name in path:
                raise DeclarationError(
                    f"{name} calls itself ({' -> '.join((*path, name))}); write a loop", self.functions[name].lineno
                )
            if name in calls and name not in done:
                for other in calls[name]:
                    visit(other, (*path, name))
                done.add(name)

        for name in calls:
            visit(name, ())

    # ---- Functions ----

    def function(self, function: ast.FunctionDef) -> list[str]:
        """A function under the name own_NAME, with the guard as its first argument."""
        self.current, self.locals = function, {}
        self.assigned, self.declarations, self.lines, self.depth = set(), [], [], 1
        for name, kind in self.parameters(function).items():
            self.locals[name] = kind
            self.assigned.add(name)
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        self.block(body)
        if self.returns(function)[0] and not always_returns(function.body):
            self.refuse(function, f"{function.name} may end without a return value; end it with return")
        head = f"{self.head(function)}:"
        return [head, *("    " + d for d in self.declarations), *(self.lines or ["    pass"])]

    def head(self, function: ast.FunctionDef) -> str:
        arguments = ["Guard* guard", *(f"{self.types.c_type(k)} v_{n}" for n, k in self.parameters(function).items())]
        return f"cdef {self.returns(function)[1]} own_{function.name}({', '.join(arguments)}) noexcept nogil"

    def hooks(self) -> list[str]:
        """The functions that the fabric calls: each sets the point to which a fault returns."""
        return [line for number, name in enumerate(HOOKS) if name in self.declared.hooks for line in self.hook(number, name)]

    def hook(self, number: int, name: str) -> list[str]:
        things = [OWNERS[{"pkt": "packet"}.get(a, a)] for a in HOOKS[name].arguments.split()]
        given = ["me", *(text.split()[-1].lstrip("*") for text in things)]
        kind = HOOKS[name].result or "void"
        failed = {"void": "return"}.get(
            kind, "return -1" if name in ("choose_voq", "choose_packet", "next_queue") else "return 0"
        )
        if name == "set_up":
            worker, where, event = "me.at.world.workers", "-1, NULL", "0"
            error = f"{worker}.error, {worker}.error_time, {worker}.error_node = SCHEME_FAULT, 0, -1"
        else:
            worker, where, event, error = "node.worker", "node.id, &node.now", "node.events", "fail(node, SCHEME_FAULT, 0)"
        counted = self.may_go_on(name)
        entered = self.checked or counted or self.may_print(name)
        lines = [f"cdef api {kind} {name}({', '.join(['Me* me', *things])}) noexcept nogil:", f"    guard = &{worker}.guard"]
        if entered:
            lines += [
                "    cdef GuardPoint point",
                f"    if not guard_enter(guard, &point, {number}, me.at.index, {where}):",
                f"        {failed}",
                "    if guard_failed(&point):",
                "        guard_leave(guard, &point)",
                f"        {error}",
                f"        {failed}",
            ]
        if counted:
            rounds = "ROUNDS_OF_SET_UP" if name.startswith("set_up") else "ROUNDS_PER_EVENT"
            lines.append(f"    guard_count(guard, &point, {event}, {rounds})")
        if name == "on_send" and self.declared.state["packet"].fields and not self.declared.shared:
            lines.append("    g_forget(my_packet(me, pkt), sizeof(MyPacket))")
        lines.append(f"    {'' if kind == 'void' else 'result = '}own_{name}(guard, {', '.join(given)})")
        if entered:
            lines.append("    guard_leave(guard, &point)")
        return lines + (["    return result"] if kind != "void" else [])

    def may_go_on(self, name: str) -> bool:
        """Whether a function, or one that it calls, has a loop or sets a timer: what could never end."""
        nodes = list(ast.walk(self.functions[name]))
        called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        if called & {"set_timer", "wake_by"} or any(isinstance(n, ast.For | ast.While) for n in nodes):
            return True
        return any(map(self.may_go_on, called & set(self.functions)))

    def may_print(self, name: str) -> bool:
        """Whether a function, or one that it calls, prints."""
        nodes = list(ast.walk(self.functions[name]))
        called = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        return any(n in self.prints for n in nodes) or any(map(self.may_print, called & set(self.functions)))

    # ---- Statements ----

    def emit(self, text: str, node: ast.AST) -> None:
        self.lines.append("    " * self.depth + f"{text}  # line {node.lineno}")  # type: ignore[attr-defined]

    def block(self, body: list[ast.stmt]) -> None:
        before = len(self.lines)
        for statement in body:
            self.statement(statement)
        if len(self.lines) == before:
            self.emit("pass", body[0] if body else self.current)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr):
            self.expression_statement(node)
        elif isinstance(node, ast.Assign):
            if len(node.targets) != 1:
                self.refuse(node, "one assignment sets one name; write two")
            self.assign(node.targets[0], self.value(node.value), node)
        elif isinstance(node, ast.AnnAssign):
            kind = NUMBERS.get(ANNOTATED.get(ast.unparse(node.annotation), ""))
            if not node.value or not isinstance(node.target, ast.Name) or not kind:
                self.refuse(node, "a local variable is written x: float = 0.0 or x: int = 0, or without its type")
            value = self.value(node.value)
            self.assign(node.target, Value(self.converted(value, kind, node), kind), node)
        elif isinstance(node, ast.AugAssign):
            self.augment(node)
        elif isinstance(node, ast.If):
            self.branch(node)
        elif isinstance(node, ast.While):
            self.loop(node, f"while {self.truth(node.test)}:")
        elif isinstance(node, ast.For):
            self.loop_over(node)
        elif isinstance(node, ast.Return):
            self.give_back(node)
        elif isinstance(node, ast.Break | ast.Continue):
            self.emit("break" if isinstance(node, ast.Break) else "continue", node)
        elif not isinstance(node, ast.Pass):
            self.refuse(node, next((t for k, t in STATEMENTS.items() if isinstance(node, k)), "this is not possible in a scheme"))

    def expression_statement(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if not isinstance(node.value, ast.Call):
            self.refuse(node, "this has no effect")
        if node.value in self.prints:
            self.print_line(node.value)
            return
        self.emit(self.value(node.value, result=False).code, node)

    def print_line(self, call: ast.Call) -> None:
        """A row of the log for each value; see prints.py."""
        site = self.prints.index(call)
        try:
            parts = prints.parts_of(call)
            prints.check_forms(call)
        except ValueError as error:
            self.refuse(call, str(error))
        values = [self.value(part.node) for part in parts if part.node is not None]
        rows = [self.printed(value, call) for value in values] or ["-1, 0, 0, 0.0"]
        for place, row in enumerate(rows):
            self.emit(f"g_print(guard, {site}, {place if values else -1}, {row.removeprefix('-1, ')})", call)

    def printed(self, value: Value, call: ast.Call) -> str:
        """The kind of a value, the whole number and the number with a fraction that stand for it."""
        if value.kind == "float":
            return f"{prints.FLOAT}, 0, {value.code}"
        if value.kind == "mask":
            return f"{prints.MASK}, <int64_t>({value.code}), 0.0"
        if value.kind in ("int", "bool"):
            return f"{prints.INT}, {self.converted(value, 'int', call)}, 0.0"
        thing = value.kind.removeprefix("*").lower()
        if thing not in prints.KINDS:
            self.refuse(call, "print writes numbers, texts, nodes, ports, queues, flows and packets")
        code = self.kept(value, ast.Expr(call, lineno=call.lineno)).code
        if code.startswith("NO_"):
            return f"{prints.KINDS.index(thing)}, -1, 0.0"
        field = {"node": "id", "port": "slot", "queue": "index", "packet": "seq"}.get(thing, "number")
        flow = f"({code}.number if {code} else 0)" if thing == "packet" else "0.0"
        return f"{prints.KINDS.index(thing)}, ({code}.{field} if {code} else -1), {flow}"

    def branch(self, node: ast.If) -> None:
        self.emit(f"if {self.truth(node.test)}:", node)
        before = set(self.assigned)
        ends = []
        for keyword, body in (("", node.body), ("else:", node.orelse)):
            if body:
                if keyword:
                    self.emit(keyword, body[0])
                self.depth += 1
                self.assigned = set(before)
                self.block(body)
                self.depth -= 1
                if always_leaves(body):
                    continue
                ends.append(self.assigned)
            else:
                ends.append(before)
        self.assigned = set.intersection(*ends) if ends else before

    def loop(self, node: ast.While | ast.For, head: str, also: tuple[str, ...] = ()) -> None:
        if node.orelse:
            self.refuse(node, "else of a loop is not possible")
        self.emit(head, node)
        before = set(self.assigned)
        self.assigned |= set(also)
        self.depth += 1
        self.emit(f"g_round(guard, {node.lineno})", node)
        self.block(node.body)
        self.depth -= 1
        forever = isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value
        self.assigned = self.assigned if forever else before

    def loop_over(self, node: ast.For) -> None:
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range" and call.args):
            self.refuse(node, "a loop is over range(...), such as range(mine.table_count)")
        if len(call.args) > 3 or call.keywords or not isinstance(node.target, ast.Name):
            self.refuse(node, "a loop is written for i in range(end), range(begin, end) or range(begin, end, step)")
        values = [self.value(a) for a in call.args]
        if len(values) == 3 and (not isinstance(values[2].literal, int) or not values[2].literal):
            self.refuse(node, "the step of a loop is a number that is not 0")
        bounds = ", ".join(str(v.literal) if isinstance(v.literal, int) else self.converted(v, "int", node) for v in values)
        self.declare(node.target, "int")
        self.loop(node, f"for v_{node.target.id} in range({bounds}):", (node.target.id,))

    def give_back(self, node: ast.Return) -> None:
        kind, _ = self.returns(self.current)
        name = self.current.name
        if node.value is None:
            if kind:
                self.refuse(node, f"{name} returns a value elsewhere, and none here")
            self.emit("return", node)
            return
        if not kind:
            self.refuse(node, f"{name} returns nothing")
        value = self.value(node.value)
        if value.kind == "float" and kind == "int":
            self.refuse(node, f"this returns a float: write def {name}(...) -> float, or whole(...)")
        if value.kind.startswith("*"):
            self.note_result(value)
        code = self.converted(value, kind, node)
        line = node.lineno
        things = {a.arg for a in self.current.args.args}
        if name == "choose_queue":
            code = f"g_index(guard, {line}, {code}, v_port.queue_count)"
        elif name in ("choose_voq", "choose_port"):
            code = f"g_voq(guard, {line}, {code}, v_node.{name[7:]}_count)"
        elif name == "choose_path" and "pkt" in things:
            code = f"g_index(guard, {line}, {code}, g_path_count(guard, {line}, v_node, v_pkt))"
        elif name == "admit":
            code = f"g_index(guard, {line}, {code}, 4)"
        elif name == "on_data":
            code = f"g_answer({code})"
        self.emit(f"return {code}", node)

    # ---- Assignments ----

    def assign(self, target: ast.expr, value: Value, node: ast.stmt) -> None:
        if not value.kind:
            self.refuse(node, "this function returns nothing")
        if isinstance(target, ast.Name):
            self.set_local(target, value, node)
        elif isinstance(target, ast.Attribute):
            owner = self.pointer(target.value)
            self.store(target, owner, f"{owner.code}.{target.attr}", value, node)
        elif isinstance(target, ast.Subscript):
            place, kind, c = self.element(target)
            self.emit(f"{place}[0] = {self.fitted(value, kind, c, node)}", node)
        else:
            self.refuse(node, "one assignment sets one name; write two")

    def augment(self, node: ast.AugAssign) -> None:
        """x op= y; what x is part of is looked up once."""
        target = node.target
        if isinstance(target, ast.Name):
            old = self.value(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            self.assign(target, self.operation(node.op, old, self.value(node.value), node), node)
        elif isinstance(target, ast.Attribute):
            owner = self.kept(self.pointer(target.value), node)
            old = self.field(owner, target)
            value = self.operation(node.op, old, self.value(node.value), node)
            self.store(target, owner, f"{owner.code}.{target.attr}", value, node)
        else:
            place, kind, c = self.element(target)
            kept = self.kept(Value(place, f"@{c}"), node)
            old = Value(self.known(f"{kept.code}[0]", kind, c, node) if self.stale(target) else f"{kept.code}[0]", kind)
            value = self.operation(node.op, old, self.value(node.value), node)
            self.emit(f"{kept.code}[0] = {self.fitted(value, kind, c, node)}", node)

    def set_local(self, target: ast.Name, value: Value, node: ast.stmt) -> None:
        name = target.id
        kind = "int" if value.kind == "bool" else value.kind
        known = self.locals.get(name)
        literal = isinstance(value.literal, int)
        if known is None:
            kind = self.promoted.get((self.current.name, name), kind)
            if kind.startswith("[") and value.literal:
                self.refuse(node, "a table of the fabric has no other name")
            self.declare(target, kind)
            if literal and kind == "int":
                self.began_literal.add((self.current.name, name))
        elif known == "int" and kind in ("float", "mask") and (self.current.name, name) in self.began_literal:
            self.promoted[self.current.name, name] = kind  # the next pass declares it so
            self.changed = True
            return
        elif known == "int" and kind == "float":
            self.refuse(node, f'"{name}" is a whole number, this is none; begin with {name} = 0.0 or write whole(...)')
        if kind.startswith("*"):
            self.note_local(name, value)
        self.emit(f"v_{name} = {self.converted(value, self.locals[name], node)}", node)
        self.assigned.add(name)

    def declare(self, target: ast.Name, kind: str) -> None:
        name = target.id
        if name in self.functions or name in self.declared.constants:
            self.refuse(target, f'"{name}" is a function or constant of this file; give the variable another name')
        if self.locals.setdefault(name, kind) != kind:
            self.refuse(target, f'"{name}" is something else before; give it another name')
        if f"v_{name}" not in {d.split()[-1] for d in self.declarations} and name not in self.parameters(self.current):
            self.declarations.append(f"cdef {self.types.c_type(kind)} v_{name}")

    def kept(self, value: Value, node: ast.stmt) -> Value:
        """The value in a variable, so that it is computed once."""
        if value.code.isidentifier():
            return value
        name = f"t_{len(self.declarations)}"
        c = value.kind[1:] + "*" if value.kind.startswith("@") else self.types.c_type(value.kind)
        self.declarations.append(f"cdef {c} {name}")
        self.emit(f"{name} = {value.code}", node)
        return Value(name, value.kind, value.origins)

    def store(self, target: ast.Attribute, owner: Value, place: str, value: Value, node: ast.stmt) -> None:
        """Set a field: of the scheme's own state, or one of the few of the fabric's that a scheme may set."""
        thing, name = owner.kind[1:], target.attr
        own = self.types.own_field(thing, name)
        if own:
            kind, c = own
            if kind.startswith(("[", "*")):
                self.refuse(node, f'"{name}" is a table; set its elements')
            self.emit(f"{place} = {self.fitted(value, kind, c, node)}", node)
            return
        found = self.field_kind(owner, target)
        check = WRITABLE.get((thing, name))
        if not check:
            self.refuse(
                node, f'"{name}" of a {thing.lower()} can be read, not set; schemes act by their verbs and their own state'
            )
        code = self.converted(value, found[0], node)
        line = node.lineno
        if check == "g_size":
            if not owner.origins - {"null"} <= GROWS:
                self.refuse(node, "the size of a packet is set in on_send, on_data or of a new frame only")
            code = f"g_size(guard, {line}, {owner.code}, {code})"
        else:
            function, *least = check.split()
            code = f"{function}({', '.join(['guard', str(line), code, *least])})"
            code = f"g_fit32(guard, {line}, {code})" if found[1] == "int32_t" else code
        self.emit(f"{place} = {code}", node)

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        raise DeclarationError(message, getattr(node, "lineno", self.current.lineno))

    def parameters(self, function: ast.FunctionDef) -> dict[str, str]:
        """Name -> kind of a function's arguments."""
        things = {text.split()[1]: "*" + text.split("*")[0] for text in OWNERS.values()}
        things |= {name: "*" + class_of(name) for name in self.declared.records} | {self.declared.me: "*Me"}
        found = {}
        for a in function.args.args:
            annotation = ast.unparse(a.annotation) if a.annotation else "int"
            if a.arg not in things and annotation not in ANNOTATED:
                self.refuse(a, f'an argument is a whole number, or written "{a.arg}: float"; "{annotation}" is neither')
            found[a.arg] = things.get(a.arg) or NUMBERS[ANNOTATED[annotation]]
        return found

    def returns(self, function: ast.FunctionDef) -> tuple[str, str]:
        """(kind, C type) of a function's result."""
        if function.name not in self.results:
            self.results[function.name] = self.result(function)
        return self.results[function.name]

    def result(self, function: ast.FunctionDef) -> tuple[str, str]:
        if function.name in HOOKS:
            c = HOOKS[function.name].result
            return ("int" if c else ""), c or "void"
        if function.returns:
            name = ast.unparse(function.returns)
            if name in self.declared.records or name == "packet":
                return "*" + class_of(name), class_of(name) + "*"
            if name not in ANNOTATED:
                self.refuse(function, f'a function returns int, float, packet or a record, not "{name}"')
            return NUMBERS[ANNOTATED[name]], ANNOTATED[name]
        gives = any(isinstance(n, ast.Return) and n.value for n in ast.walk(function))
        return ("int", "int64_t") if gives else ("", C_KINDS[""])

    def origins_of_hook(self, name: str) -> set[str]:
        """Where the packet of a hook comes from."""
        return {"always": {name}, "none": {"null"}, "maybe": {name, "null"}}[HOOKS[name].packet]


def always_returns(body: list[ast.stmt]) -> bool:
    """Whether the end of a function is not reached."""
    return any(_leaves(s, (ast.Return,)) for s in body)


def always_leaves(body: list[ast.stmt]) -> bool:
    """Whether what follows a branch is not reached from it."""
    return any(_leaves(s, (ast.Return, ast.Break, ast.Continue)) for s in body)


def _leaves(node: ast.stmt, kinds: tuple[type, ...]) -> bool:
    if isinstance(node, kinds):
        return True
    if isinstance(node, ast.If):
        return all(any(_leaves(s, kinds) for s in body) for body in (node.body, node.orelse))
    if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
        return not any(isinstance(n, ast.Break) for n in _own_statements(node.body))
    return False


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a loop's body, without those of loops inside it."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _own_statements(node.body + node.orelse)
