"""Gate: hot functions touch no Python object.  A forgotten `noexcept` costs a factor of nine and nothing else shows it.

    python tools/no_python_calls.py [FOLDER or FILE.c ...]      # default: the package, built in place

Reads the C that Cython made.  A function is hot when the .pxd of its module (or of the one it was inlined from) says
`nogil`; the set-up functions of sim/core/build.py, which hold the GIL on purpose, are not.  Exit status 1 when a hot
function calls the Python API, or when there is nothing to check.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from penstock_net.pxd import with_included

ROOT = Path(__file__).resolve().parents[1]
FUNCTION = re.compile(r"^static [^\n;{]*\b(__pyx_f_\w+)\([^\n;{]*\) \{\n(.*?)^\}", re.M | re.S)
PYTHON = re.compile(r"\b(Py[A-Z]\w+|__Pyx_(?!RefNanny|ctuple)\w+)\b")
DECLARED = re.compile(r"^cdef (?:inline )?(?!struct|enum|class|extern)[^\n=(]*?\b(\w+)\(.*?\)([^\n]*)", re.M)


class Report(NamedTuple):
    """How many hot functions there are, and the ones that call Python."""

    checked: int
    found: list[str]


def split_name(symbol: str) -> tuple[str, str]:
    """("penstock_net.fabric.state", "port_at") of __pyx_f_12penstock_net_6fabric_5state_port_at."""
    rest, parts = symbol.removeprefix("__pyx_f_"), []
    while match := re.match(r"(\d+)", rest):
        start, length = match.end(), int(match[1])
        parts.append(rest[start : start + length])
        rest = rest[start + length :].removeprefix("_")
    return ".".join(parts), rest


def declarations(text: str) -> dict[str, bool]:
    """Function -> whether a .pxd declares it nogil."""
    return {name: "nogil" in tail for name, tail in DECLARED.findall(text)}


def find_pxd(module: str, c_file: Path, package: Path) -> Path:
    """The .pxd of a module: in the package, or beside a user's scheme."""
    inside = package.parent / (module.replace(".", "/") + ".pxd")
    return inside if inside.exists() else c_file.with_suffix(".pxd")


def hot(symbol: str, c_file: Path, package: Path, cache: dict[Path, dict[str, bool]]) -> bool:
    """Whether a C function must not touch Python; what no .pxd declares counts as hot."""
    module, name = split_name(symbol)
    pxd = find_pxd(module, c_file, package)
    if pxd not in cache:
        cache[pxd] = declarations(with_included(pxd)) if pxd.exists() else {}
    return cache[pxd].get(name, True)


def check(c_files: Iterable[Path], package: Path = ROOT / "penstock_net") -> Report:
    """Every hot function of the files."""
    cache: dict[Path, dict[str, bool]] = {}
    checked, found = 0, []
    for path in c_files:
        for symbol, body in FUNCTION.findall(path.read_text()):
            if not hot(symbol, path, package, cache):
                continue
            checked += 1
            if calls := sorted(set(PYTHON.findall(body))):
                module, name = split_name(symbol)
                found.append(f"{path}: {module}.{name} calls {', '.join(calls)}; does its .pxd say `noexcept nogil`?")
    return Report(checked, found)


def sources(arguments: list[str]) -> Iterator[Path]:
    for argument in map(Path, arguments or [str(ROOT / "penstock_net")]):
        yield from generated(argument) if argument.is_dir() else [argument]


def generated(folder: Path) -> list[Path]:
    """The C files of a folder whose Python file is still there: a module that was renamed leaves its C behind."""
    return sorted(c for c in folder.rglob("*.c") if c.with_suffix(".py").exists())


def main(arguments: list[str]) -> int:
    files = list(sources(arguments))
    report = check(files)
    print(f"{report.checked} hot functions in {len(files)} files, {len(report.found)} with Python calls")
    print(*report.found, sep="\n", end="\n" * bool(report.found))
    if not report.checked:
        print("nothing to check: build the package first, python setup.py build_ext --inplace")
    return 1 if report.found or not report.checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
