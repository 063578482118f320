"""Type stubs (.pyi) of compiled modules, from a module's .py (functions, classes, constants) and .pxd (C functions, attributes).

setup.py writes them beside the modules, in a clone as in a wheel; they are not tracked.  A stub has what Python code can see: C
functions are left out.  Types come from annotations, attributes that the .pxd declares, and default values; `Any` else.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

C_FUNCTION = re.compile(r"^[ ]*cdef (?!class |struct |enum |extern)[^\n=(]*?\b(\w+)\(", re.M)
C_CLASS = re.compile(r"^cdef class (\w+).*?:\n((?:[ ]+.*\n|[ ]*\n|[ ]*#.*\n)*)", re.M)
ATTRIBUTES = re.compile(r"^    cdef (public|readonly) (\w+) ([\w, ]+?)[ ]*(?:#.*)?$", re.M)
CIMPORT = re.compile(r"^from (\S+) cimport ([^\n#]+)", re.M)
PYTHON_TYPES = {
    "bint": "bool",
    "bytes": "bytes",
    "dict": "dict[Any, Any]",
    "double": "float",
    "list": "list[Any]",
    "object": "Any",
    "set": "set[Any]",
    "str": "str",
    "tuple": "tuple[Any, ...]",
}
BUILTINS = ("Any", "bool", "bytes", "dict", "float", "int", "list", "str", "tuple")
ONLY_C = ("__cinit__", "__dealloc__")


def type_of_attribute(kind: str, classes: set[str]) -> str:
    """The Python type behind a C type: `int64_t` is int, `list` is list[Any]."""
    if kind in PYTHON_TYPES:
        return PYTHON_TYPES[kind]
    if kind in classes:
        return kind
    return "int" if re.fullmatch(r"u?int(\d+_t)?|long|short|char|size_t|Py_ssize_t", kind) else "Any"


def type_of_value(value: ast.expr) -> str:
    """The type of a constant or a default value; `Any` for what is computed."""
    try:
        found = ast.literal_eval(value)
    except ValueError:
        return "Any"
    if isinstance(found, (list, tuple, dict, set)):
        inner = {type(item).__name__ for item in found}
        item = inner.pop() if len(inner) == 1 else "Any"
        wide = {"list": f"list[{item}]", "tuple": f"tuple[{item}, ...]", "set": f"set[{item}]"}
        return wide.get(type(found).__name__, f"dict[{item}, Any]")
    return "Any" if found is None else type(found).__name__


def arguments(function: ast.FunctionDef, known: set[str]) -> str:
    """The arguments with a type each; what a name cannot be resolved for is `Any`."""
    every = function.args
    plain = [*every.posonlyargs, *every.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(every.defaults)), *every.defaults]
    method = plain and plain[0].arg in ("self", "cls")

    def one(arg: ast.arg, default: ast.expr | None) -> str:
        kind = annotation(arg.annotation, known) or (type_of_value(default) if isinstance(default, ast.Constant) else "Any")
        return f"{arg.arg}: {kind}" + (" = ..." if default else "")

    out = [plain[0].arg] if method else []
    out += [one(a, d) for a, d in list(zip(plain, defaults, strict=True))[1 if method else 0 :]]
    if every.vararg:
        out.append(f"*{every.vararg.arg}: Any")
    elif every.kwonlyargs:
        out.append("*")
    out += [one(a, d) for a, d in zip(every.kwonlyargs, every.kw_defaults, strict=True)]
    return ", ".join([*out, f"**{every.kwarg.arg}: Any"] if every.kwarg else out)


def annotation(node: ast.expr | None, known: set[str]) -> str | None:
    """An annotation as text if a stub knows all of its names."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else {None}
    return ast.unparse(node) if node and names <= known else None


def own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Everything in a function but the bodies of functions inside it."""
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            todo += ast.iter_child_nodes(node)


def function_stub(function: ast.FunctionDef, known: set[str]) -> list[str]:
    """`def` with types; a function that returns nothing anywhere returns None."""
    gives = any((isinstance(n, ast.Return) and n.value) or isinstance(n, (ast.Yield, ast.YieldFrom)) for n in own_nodes(function))
    returns = annotation(function.returns, known) or ("Any" if gives and function.name != "__init__" else "None")
    decorators = [
        f"@{ast.unparse(d)}" for d in function.decorator_list if ast.unparse(d) in ("property", "staticmethod", "classmethod")
    ]
    return [*decorators, f"def {function.name}({arguments(function, known)}) -> {returns}: ..."]


def class_stub(node: ast.ClassDef, attributes: str, known: set[str], hidden: set[str]) -> list[str]:
    """A class: attributes that its .pxd shows to Python, then methods."""
    bases = [ast.unparse(b) for b in node.bases if ast.unparse(b) in known]
    out = []
    for access, kind, names in ATTRIBUTES.findall(attributes):
        for name in names.split(","):
            text = type_of_attribute(kind, known)
            out += (
                [f"{name.strip()}: {text}"] if access == "public" else ["@property", f"def {name.strip()}(self) -> {text}: ..."]
            )
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name not in hidden | set(ONLY_C):
            out += function_stub(item, known)
    head = f"class {node.name}({', '.join(bases)}):" if bases else f"class {node.name}:"
    return [head, *[f"    {line}" for line in out or ["..."]]]


def stub(py: Path) -> str:
    """The stub of the compiled module `py`."""
    tree, pxd = ast.parse(py.read_text()), py.with_suffix(".pxd").read_text()
    hidden = set(C_FUNCTION.findall(pxd))
    homes = imported(tree, pxd)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    foreign = {name for name in homes if name[0].isupper() and name not in classes}
    text = "\n".join(body(tree, dict(C_CLASS.findall(pxd + "\n")), classes | foreign | set(BUILTINS), hidden))
    used = sorted(name for name in foreign if re.search(rf"\b{name}\b", text))
    head = [f"# Generated by setup.py from {py.name} and {py.stem}.pxd", "from typing import Any", ""]
    head += [f"from {homes[name][0]} import {homes[name][1]} as {name}" for name in used]
    return "\n".join([*head, "", text]).strip() + "\n"


def imported(tree: ast.Module, pxd: str) -> dict[str, tuple[str, str]]:
    """Module and name there of what the module and its .pxd import from the package."""
    homes = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("penstock")
        for alias in node.names
    }
    for module, names in CIMPORT.findall(pxd):
        homes |= {alias or name: (module, name) for name, alias in re.findall(r"(\w+)(?: as (\w+))?", names)}
    return homes


def body(tree: ast.Module, attributes: dict[str, str], known: set[str], hidden: set[str]) -> list[str]:
    """Functions, classes and names that Python sees."""
    lines: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name not in hidden:
            lines += function_stub(node, known)
        elif isinstance(node, ast.ClassDef):
            lines += ["", *class_stub(node, attributes.get(node.name, ""), known, hidden), ""]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            lines.append(f"{node.targets[0].id}: {type_of_value(node.value)}")
    return lines
