"""The import rules: which folder may import which, what a scheme may not import, how long a file may be."""

import ast
import importlib
import re
from functools import lru_cache
from pathlib import Path

import pytest

import penstock_net

PACKAGE = Path(penstock_net.__file__).parent
# A module may import from its own folder and from the folders before it in this list.  Loose modules of the package count as "".
FOLDERS = [
    "",
    "fabric",
    "schemes",
    "composition",
    "topology",
    "workload",
    "workload.traces",
    "results",
    "trace",
    "sim.core",
    "sim.interpreted",
    "sim",
    "spec",
    "vswitch.world.calls",
    "vswitch.world",
    "vswitch.world.simulated",
    "vswitch.memory",
    "vswitch.linux",
    "vswitch.support",
    "vswitch.ports",
    "vswitch.dataplane",
    "vswitch.schemes",
    "vswitch.loadgen",
    "vswitch.attach",
    "vswitch.daemon",
    "vswitch.client",
    "vswitch.simulation",
    "vswitch.cni",
    "vswitch.bench",
    "vswitch",
    "advise",
    "report.plots",
    "report",
    "sweeps",
    "testing",
    "cli",
]
COMPILED = {
    "fabric",
    "sim.core",
    "schemes",
    "vswitch.world.calls",
    "vswitch.memory",
    "vswitch.ports",
    "vswitch.dataplane",
    "vswitch.schemes",
    "vswitch.loadgen",
}
CLOCKS = {"time", "random", "datetime", "secrets"}
LONGEST = 600


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {name_of(p): p for p in sorted(PACKAGE.rglob("*.py"))}
TYPES = {name_of(p): p for p in sorted(PACKAGE.rglob("*.pxd")) if not p.stem.endswith("_inline")}
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


def cimported(path: Path) -> set[str]:
    """The modules whose types and functions a .pxd takes."""
    return {name.replace("_inline", "") for name in re.findall(r"^from (\S+) cimport", path.read_text(), re.M)}


def module_of(name: str) -> str | None:
    """The module of the package behind `penstock_net.x.y.name`."""
    name = name.removeprefix("penstock_net.")
    while name and name not in MODULES and name not in TYPES:
        name = name.rpartition(".")[0]
    return name or None


@lru_cache
def graph() -> dict[str, set[str]]:
    """Which modules of the package each of them imports or cimports."""
    out: dict[str, set[str]] = {}
    for name in (MODULES | TYPES).keys() - {"__init__", "__main__"}:
        found = imported(MODULES[name]) if name in MODULES else set()
        found |= cimported(TYPES[name]) if name in TYPES else set()
        others = {module_of(other) for other in found if other.startswith("penstock_net.")}
        out[name] = {other for other in others if other and other != name}
    return out


def folder_of(name: str) -> str:
    path = MODULES.get(name) or TYPES[name]
    folder = ".".join(path.parent.relative_to(PACKAGE).parts)
    return folder


@pytest.mark.parametrize("name", sorted(graph()))
def test_a_folder_imports_from_those_before_it(name):
    assert folder_of(name) in FOLDERS, f"{name}: give its folder a place in FOLDERS"
    rank = FOLDERS.index(folder_of(name))
    for other in sorted(graph()[name]):
        assert FOLDERS.index(folder_of(other)) <= rank, f"{name} imports {other}, whose folder comes after its own"


def test_there_are_no_import_circles():
    """Of modules, imports inside functions included."""
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph().get(name, ())):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph()):
        visit(name)


@pytest.mark.parametrize("folder", sorted({folder_of(m) for m in MODULES if m != "__init__"} - {""}))
def test_a_folder_is_compiled_or_it_is_not(folder):
    files = [p for p in (PACKAGE / folder.replace(".", "/")).glob("*.py") if p.name != "__init__.py"]
    compiled = {p.name for p in files if p.with_suffix(".pxd").exists()}
    assert compiled == ({p.name for p in files} if folder in COMPILED else set())


@pytest.mark.parametrize("path", [p for p in CORE if p.parent != PACKAGE / "schemes"], ids=name_of)
def test_a_compiled_file_says_where_its_names_come_from(path):
    """By explicit imports, without stars; the linter finds what is missing."""
    text = path.read_text()
    assert "import *" not in text
    assert imported(path) - {"cython"} or path.name == "failure.py", f"{path.name} imports nothing"


@pytest.mark.parametrize("folder", ["fabric", "sim.core"])
def test_types_are_imported_by_name(folder):
    """A star is for the types of fabric/state.pxd only, and there for the constants."""
    for name, path in TYPES.items():
        if name.rpartition(".")[0] == folder:
            starred = "penstock_net.fabric.constants" if name == "fabric.state" else "penstock_net.fabric.state"
            assert set(re.findall(r"from (\S+) cimport \*", path.read_text())) <= {starred}, name


@lru_cache
def scheme_names() -> re.Pattern[str]:
    """All but words of the field: a first-in-first-out queue, the ECN bit of a header, a switch's answer TRIM."""
    names = [p.stem for p in (PACKAGE / "schemes").glob("[!_]*.py") if p.stem not in ("fifo", "ecn", "trim")]
    return re.compile(rf"(?<![A-Za-z])({'|'.join(names)})(?![A-Za-z])", re.I)


@pytest.mark.parametrize("folder", ["fabric", "sim", "sim/core", "sim/interpreted"])
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
    files = [*MODULES.values(), *TYPES.values()]
    long = {str(path): n for path in files if (n := len(path.read_text().splitlines())) >= LONGEST}
    assert not long, f"split them: {long}"


@pytest.mark.parametrize("name", penstock_net.__all__)
def test_every_public_name_is_there(name):
    assert getattr(penstock_net, name) is not None


def test_the_type_checker_sees_the_same_names():
    """The block that only a type checker reads: the names with a home, and those of the registries by a star."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    imports = [n for n in block.body if isinstance(n, ast.ImportFrom)]
    stars = {n.module for n in imports if n.names[0].name == "*"}
    assert stars == {*vars(penstock_net)["_REGISTRIES"], "penstock_net.composition.constructors"}
    given = [alias for n in imports if n.module not in stars for alias in n.names]
    assert all(alias.asname in (alias.name, f"_{alias.name}") for alias in given), "X as X is what type checkers take as exported"
    renamed = {target.id for n in block.body if isinstance(n, ast.Assign) for target in n.targets}
    seen = {alias.asname for alias in given if not alias.asname.startswith("_")} | renamed
    assert seen == {*vars(penstock_net)["_HOME_OF"], "scheme", "plot"}
    assert seen < set(penstock_net.__all__)


def test_public_names_come_from_the_registries(monkeypatch):
    """A new topology, a new generator and a new scheme are seen by everybody who lists them, without another change."""
    from penstock_net.composition import available, classes
    from penstock_net.topology import KINDS, shapes
    from penstock_net.workload import KINDS as TRAFFIC
    from penstock_net.workload import collectives, generators

    assert set(KINDS) == {*shapes.__all__, "file"}
    assert {*generators.__all__, *collectives.__all__} - set(TRAFFIC) == {"flow_list", "long_flows"}  # not from a table
    assert set(classes().values()) == set(available())
    monkeypatch.setattr(shapes, "ring", lambda: "a ring", raising=False)
    monkeypatch.setattr(shapes, "__all__", [*shapes.__all__, "ring"])
    assert penstock_net.ring() == "a ring" and "ring" in dir(penstock_net) and "ring" in penstock_net.__all__
    with pytest.raises(AttributeError, match="no attribute 'moebius'"):
        _ = penstock_net.moebius


def test_importing_penstock_is_cheap():
    """Names come on first use; the command line starts quickly."""
    names = {name.split(".")[0] for name in imported(PACKAGE / "__init__.py")}
    assert names <= {"importlib", "typing", "penstock_net"}


def test_every_module_says_what_it_is_for():
    silent = [
        name for name, path in MODULES.items() if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, f"no docstring: {silent}"
    assert importlib.import_module("penstock_net").__doc__
