"""What a figure's measured points depend on, beside its runs: the definitions that its `measure` reaches, and a hash of them.

Other bands, sentences or plots leave the hash as it is, so that points which are kept can be judged by them.
"""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from penstock.experiments.registry import EXPERIMENTS, FOLDER
from penstock.sources import PACKAGE, code_of, hash_of, texts

SHARED = ("blind", "fluid", "frames", "headlines")  # modules of experiments that measure; others plot, judge and keep
STATISTICS = ("intervals", "links", "pauses", "run")  # of results
REAL_SWITCH = ("fabric", "schemes", "vswitch")
Name = tuple[Path, str]  # a definition of a file; with an empty name all that has none


@dataclass
class _Module:
    """A file's definitions, and what its imported names stand for: a file of ours, or a definition of one."""

    definitions: dict[str, list[tuple[str, ast.stmt]]] = field(default_factory=dict)  # those without a name below ""
    modules: dict[str, Path] = field(default_factory=dict)
    names: dict[str, Name] = field(default_factory=dict)


def measuring(id: str) -> str:
    """A hash of the definitions that a figure's points depend on, with the statistics of runs or the real switch."""
    file = FOLDER / f"{id}.py"
    digest = sha256()
    for path, name, text in sorted(_reached(file, "measure")):
        digest.update(f"{path.relative_to(PACKAGE).as_posix()}\0{name}\0{text}\0".encode())
    digest.update(hash_of(statistics(id) | real_switch(file)).encode())
    return digest.hexdigest()[:16]


def statistics(id: str) -> set[Path]:
    """The sources of the statistics of runs, if a figure has runs."""
    return {PACKAGE / "results" / f"{name}.py" for name in STATISTICS if EXPERIMENTS[id].specs}


def real_switch(file: Path) -> set[Path]:
    """The sources of the real switch if a figure's file, or one that it imports, uses them."""
    return texts(REAL_SWITCH) if any("penstock.vswitch" in path.read_text() for path in imported(file, SHARED)) else set()


def imported(file: Path, shared: tuple[str, ...]) -> set[Path]:
    """The file and what it imports, directly or not, from the papers' folders and of these modules of experiments."""
    found, left = {file}, [file]
    while left:
        for node in ast.walk(ast.parse(left.pop().read_text())):
            if isinstance(node, ast.ImportFrom):
                new = {path for path in _files(node).values() if _ours(path, shared)} - found
                found |= new
                left += new
    return found


def _files(node: ast.ImportFrom) -> dict[str, Path]:
    """The files that an import of experiments names: by the names that stand for a module, and "" for where it imports from."""
    if not (node.module or "").startswith("penstock.experiments"):
        return {}
    module = PACKAGE.parent.joinpath(*str(node.module).split("."))
    candidates = {"": module.with_suffix(".py"), **{each.asname or each.name: module / f"{each.name}.py" for each in node.names}}
    return {name: path for name, path in candidates.items() if path.exists()}


def _ours(path: Path, shared: tuple[str, ...]) -> bool:
    return path.parent.parent == FOLDER or (path.parent == FOLDER and path.stem in shared)


def _reached(file: Path, name: str) -> Iterator[tuple[Path, str, str]]:
    """The texts of a definition and of all those that it reaches, each with its file and name."""
    left: list[Name] = [(file, name)]
    done: set[Name] = set()
    while left:
        path, name = each = left.pop()
        if each in done:
            continue
        done.add(each)
        module = _read(path)
        left += [(path, ""), *([module.names[name]] if name in module.names else [])]
        for number, (text, node) in enumerate(module.definitions.get(name, [])):
            yield path, f"{name} {number}", text
            left += _used(node, path, module)


def _read(path: Path) -> _Module:
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, _changed_ns: int) -> _Module:
    source = code_of(path.read_text())
    lines, module = source.split("\n"), _Module()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            files = _files(node)
            for each in node.names:
                name = each.asname or each.name
                if name in files:
                    module.modules |= {name: files[name]} if _ours(files[name], SHARED) else {}
                elif "" in files and _ours(files[""], SHARED):
                    module.names[name] = files[""], each.name
            continue
        if isinstance(node, ast.Import):
            continue
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        for name in _defined(node) or [""]:
            module.definitions.setdefault(name, []).append(("\n".join(lines[first - 1 : node.end_lineno]), node))
    return module


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return []


def _used(node: ast.stmt, path: Path, module: _Module) -> Iterator[Name]:
    """What a definition names: of its own file, of others, or all of a module that it hands on as a whole."""
    qualified = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in module.modules:
            qualified.add(id(each.value))
            yield module.modules[each.value.id], each.attr
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and id(each) not in qualified:
            if each.id in module.modules:
                whole = _read(module.modules[each.id])
                yield from ((module.modules[each.id], name) for name in (*whole.definitions, *whole.names))
            else:
                yield path, each.id
