"""Writes the imports of compiled files, `if not cython.compiled:`, from what their .pxd files cimport.

    python tools/imports.py          # writes those that are not up to date
    python tools/imports.py --check  # names them, status 1

A compiled file takes its names from its .pxd.  Plain Python (the interpreted core), ruff and editors need them as imports:
every name that a file uses and does not define, from the module whose .pxd declares it.
"""

import ast
import builtins
import re
import shutil
import subprocess
import symtable
import sys
import tempfile
from functools import cache
from pathlib import Path

from penstock_net.pxd import with_included

PACKAGE = "penstock_net"
GUARD = "if not cython.compiled:"
OURS = f'lint.isort.known-first-party = ["{PACKAGE}"]'  # ruff looks for files of modules otherwise, and some have none
_CIMPORT = re.compile(r"^from ([\w.]+) cimport (.+)$", re.M)
_TYPE = re.compile(r"^\s*(?:cdef|ctypedef)?\s*(?:packed )?(?:struct|enum|union|class) (\w+)", re.M)
_ENUM = re.compile(r"^( *)(?:cdef )?enum.*:\n((?:\1 +.*\n|\s*\n)+)", re.M)
_EXTERN = re.compile(r"^cdef extern .*:\n((?: +.*\n|\n)+)", re.M)
_NAME = re.compile(r"(\w+) *(?:\[[^]]*\])*$")


def main(check: bool) -> int:
    """Write, or check, all compiled files; the status of the program."""
    files = [path for path in sorted(Path(PACKAGE).rglob("*.py")) if path.with_suffix(".pxd").exists()]
    wanted = formatted({path: with_imports(path) for path in files if path.parts[1] != "schemes"})
    stale = {path: text for path, text in wanted.items() if text != path.read_text()}
    for path, text in stale.items():
        print(f"{path}: its imports are not those of its names" if check else f"{path}: written")
        if not check:
            path.write_text(text)
    return int(check and bool(stale))


def with_imports(path: Path) -> str:
    """The text of a compiled file with the imports of the names that it uses, not yet formatted."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    tree = ast.parse(source)
    for node in reversed(tree.body):
        if isinstance(node, ast.If) and lines[node.lineno - 1].startswith(GUARD):
            del lines[node.lineno - 1 : node.end_lineno]
    rest = "".join(lines)
    found = [f"    {statement}\n" for statement in imports(path, free_names(rest, path.name))]
    if not found:
        return rest
    before = [node for node in ast.parse(rest).body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not any(isinstance(node, ast.Import) and node.names[0].name == "cython" for node in before):
        raise SystemExit(f'{path}: uses names of its .pxd; it needs "import cython"')
    at = max(node.end_lineno or 0 for node in before)
    lines = rest.splitlines(keepends=True)
    after = "".join(lines[at:]).lstrip("\n")
    return "".join([*lines[:at], "\n", f"{GUARD}\n", *found, "\n", after])


def formatted(sources: dict[Path, str]) -> dict[Path, str]:
    """Texts of files as ruff would have them, by its settings for their places."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy("pyproject.toml", folder)
        copies = {path: Path(folder, path) for path in sources}
        for path, copy in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(sources[path])
        for command in (["check", "-q", "--select", "I", "--fix", "--config", OURS], ["format", "-q"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, "--no-cache", "."], cwd=folder, check=True)
        return {path: copy.read_text() for path, copy in copies.items()}


def imports(path: Path, names: set[str]) -> list[str]:
    """Import statements for these names: each from the module that the .pxd of the file has it from."""
    by_module: dict[str, list[str]] = {}
    for name in sorted(names):
        module, exported = home(path, name)
        by_module.setdefault(module, []).append(name if exported == name else f"{exported} as {name}")
    return [f"from {module} import {', '.join(found)}" for module, found in sorted(by_module.items())]


def home(path: Path, name: str) -> tuple[str, str]:
    """The module of a name that a .pxd has, and its name there.  SystemExit: it is declared nowhere."""
    found = names_of(path.with_suffix(".pxd")).get(name)
    if not found:
        raise SystemExit(f"{path}: {name} is not defined, nor declared or cimported in its .pxd")
    return found


@cache
def names_of(pxd: Path) -> dict[str, tuple[str, str]]:
    """Module and name there of every name that a .pxd declares or cimports."""
    own = ".".join(pxd.with_suffix("").parts)
    found = {}
    text = text_of(pxd)
    for module, listed in _CIMPORT.findall(text):
        if listed.strip() == "*":
            other = Path(*module.split(".")).with_suffix(".pxd")
            constants = not re.search(r"^c(?:type)?def (?!enum)", text_of(other), re.M)  # a part of the .pxd that has them all
            found |= {name: (own, name) for name in names_of(other)} if constants else names_of(other)
        else:
            home = module.removesuffix("_inline") if module.startswith(PACKAGE) else f"cython.cimports.{module}"
            for each in filter(None, (word.strip() for word in listed.strip("() ").split(","))):
                exported, _, alias = each.partition(" as ")
                found[alias or exported] = home, exported
    return found | {name: (own, name) for name in declared(text)} | {name: ("math", of_c) for name, of_c in _math(text)}


def text_of(pxd: Path) -> str:
    """A .pxd with what it includes, without comments; a cimport is on one line."""
    code = re.sub(r"[ \t]*#.*", "", with_included(pxd))
    return re.sub(r"(?<=cimport )\([^)]*\)", lambda listed: " ".join(listed[0].split()), code)


def _math(text: str) -> list[tuple[str, str]]:
    """Functions of the C library's math.h, which Python's `math` has by the same name: ours, theirs."""
    blocks = re.findall(r'^cdef extern from "math.h".*:\n((?: +.*\n)+)', text, re.M)
    return [(ours, theirs or ours) for block in blocks for ours, theirs in re.findall(r'(\w+)(?: "(\w+)")?\(', block)]


def declared(text: str) -> set[str]:
    """The names that the text of a .pxd declares: types, constants, functions, variables, what C headers define."""
    text = re.sub(r' *"[^"]*"', "", text)
    found = set(_TYPE.findall(text))
    for _, members in _ENUM.findall(text):
        found |= {word.split("=")[0].strip() for line in members.splitlines() for word in line.split(",")}
    outer = [line for line in text.splitlines() if re.match(r"(cdef|cpdef|ctypedef) ", line)]
    outer += [line for block in _EXTERN.findall(text) for line in block.splitlines() if re.match(r"    \w", line)]
    for line in outer:
        for word in re.split(r",(?![^(]*\))", line.split("(")[0].split("=")[0]):
            if match := _NAME.search(word.strip(" :")):
                found.add(match[1])
    return found


def free_names(source: str, file: str) -> set[str]:
    """The names that a file reads and defines nowhere."""
    module = symtable.symtable(source, file, "exec")
    defined = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    read, left = set(), [module]
    while left:
        scope = left.pop()
        left += scope.get_children()
        read |= {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (s.is_global() or scope is module)}
    return read - defined - set(dir(builtins)) - {"__file__", "__name__"}


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
