"""The walls of the house: who may import whom, what a scheme may not see, how long a file may be."""

import ast
import importlib
import re
from functools import lru_cache
from pathlib import Path

import pytest

import penstock

PACKAGE = Path(penstock.__file__).parent
# A module may import those of its own layer and of the layers above it in this list.
LAYERS = [
    ["errors", "units", "inputs", "hashing", "palette"],
    ["fabric"],
    ["schemes"],
    ["measure", "rundir", "run", "tomltext", "specfiles"],
    ["sim", "interpreted"],
    ["streams", "distributions", "topology", "topology_graph", "topology_routes", "topology_files", "topology_virtual", "flows",
     "flowfile", "collectives", "workload"],
    ["spec"],
    ["vswitch"],
    ["bench", "experiments", "report", "testing"],
    ["cli"],
]
# `python -m penstock.sim.interpreted` runs a case of the conformance kit.
EXCEPTIONS = {("interpreted", "testing")}
CLOCKS = {"time", "random", "datetime", "secrets"}
LONGEST = 600
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(p): p for p in sorted(PACKAGE.rglob("*.py"))}
CORE = [p for p in PACKAGE.rglob("*.py") if p.with_suffix(".pxd").exists()]


def imported(path: Path) -> set[str]:
    """Everything that a file imports, functions included, except for its annotations."""
    tree = ast.parse(path.read_text())
    annotations = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    hidden = {id(inner) for node in annotations for statement in node.body for inner in ast.walk(statement)}
    out: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            out |= {f"{node.module}.{alias.name}" for alias in node.names}
    return out


def room(name: str) -> str:
    return name.removeprefix("penstock.").split(".")[0]


@pytest.mark.parametrize("name", [m for m in MODULES if m != "__init__"])
def test_dependencies_point_one_way(name):
    assert room(name) in RANK, f"{name}: give it a place in LAYERS"
    for other in imported(MODULES[name]):
        if not other.startswith("penstock.") or room(other) not in RANK or (room(name), room(other)) in EXCEPTIONS:
            continue
        assert RANK[room(other)] <= RANK[room(name)], f"{name} imports {other}, which stands above it"


@lru_cache
def scheme_names() -> re.Pattern[str]:
    """All but two that are also words of the field: a first-in-first-out queue, the ECN bit of a header."""
    names = [p.stem for p in (PACKAGE / "schemes").glob("[!_]*.py") if p.stem not in ("fifo", "ecn")]
    return re.compile(rf"(?<![A-Za-z])({'|'.join(names)})(?![A-Za-z])", re.I)


@pytest.mark.parametrize("folder", ["fabric", "sim"])
def test_fabric_and_simulator_know_no_scheme(folder):
    """`pfc_pause_fraction` is the name of a result, whatever scheme sends the pauses."""
    for path in sorted((PACKAGE / folder).iterdir()):
        if path.suffix in (".py", ".pxd", ".h"):
            text = path.read_text().replace('"pfc_pause_fraction"', "")
            assert not (found := scheme_names().search(text)), f"{path.name} names {found[0]}"  # type: ignore[index]


def test_the_core_sees_no_clock_and_no_random_numbers():
    assert len(CORE) > 12, "are the .pxd files missing?"
    for path in CORE:
        assert not {name.split(".")[0] for name in imported(path)} & CLOCKS, f"{path} imports a clock or random numbers"


def test_a_scheme_imports_nothing():
    for path in (PACKAGE / "schemes").glob("[!_]*.py"):
        assert not imported(path), f"{path.name}: a scheme is told what it needs to know"


def test_no_file_is_too_long():
    long = {name: n for name, path in MODULES.items() if (n := len(path.read_text().splitlines())) >= LONGEST}
    assert not long, f"split them: {long}"


@pytest.mark.parametrize("name", penstock.__all__)
def test_every_public_name_is_there(name):
    assert getattr(penstock, name) is not None


def test_the_type_checker_sees_the_same_names():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    seen = {alias.asname or alias.name for n in block.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    assert seen - set(penstock.__all__) == set()
    assert set(vars(penstock)["_HOME_OF"]) <= seen


def test_importing_penstock_is_cheap():
    """Names come on first use; the command line starts quickly."""
    names = {name.split(".")[0] for name in imported(PACKAGE / "__init__.py")}
    assert names <= {"importlib", "typing", "penstock"}


def test_every_module_says_what_it_is_for():
    silent = [name for name, path in MODULES.items()
              if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent, f"no docstring: {silent}"
    assert importlib.import_module("penstock").__doc__
