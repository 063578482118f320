"""Which modules must be translated or compiled again: by the contents of what they are made from, never by times.

A file of another package may be newer than everything here because it was just unpacked, and a checkout may make a changed
file older than what was built from the one before.  `build/contents.json` has a digest of the inputs of every built file.
"""

import json
import os
import sysconfig
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import Cython
from Cython.Build.Dependencies import create_dependency_tree
from generate import load
from setuptools import Extension

RECORD = Path("build/contents.json")
CYTHON = Path(Cython.__file__).parent


@cache
def content(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def digest(*inputs: object) -> str:
    return sha256(repr(inputs).encode()).hexdigest()


def translation(tree: Any, extension: Extension, options: object) -> str:
    """The inputs of a module's C: the version of Cython, its options, and the files that it includes or cimports."""
    files = sorted({Path(name).resolve() for source in extension.sources for name in tree.all_dependencies(source)})
    own = [path for path in files if not path.is_relative_to(CYTHON)]
    return digest(Cython.__version__, options, [(os.path.relpath(path), content(path)) for path in own])


def compilation(extension: Extension) -> str:
    """The inputs of a module's library: its C, the headers, the flags, the compiler and the version of Python."""
    files = sorted({Path(name) for name in [*extension.sources, *extension.depends]})
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC")).removeprefix("ccache ")
    flags = [extension.extra_compile_args, extension.extra_link_args, os.environ.get("CFLAGS"), os.environ.get("LDFLAGS")]
    return digest(compiler, flags, sysconfig.get_config_var("SOABI"), [(str(path), content(path)) for path in files])


def dependency_tree() -> Any:
    return create_dependency_tree(quiet=True)


class Contents:
    """The record: which inputs each built file was made from."""

    def __init__(self) -> None:
        try:
            self._made: dict[str, str] = json.loads(RECORD.read_text())
        except (OSError, ValueError):
            self._made = {}

    def outdated(self, files: dict[Path, str]) -> set[Path]:
        """Those of the files that are missing, or were made from other inputs than these."""
        return {path for path, inputs in files.items() if not path.exists() or self._made.get(str(path)) != inputs}

    def making(self, files: dict[Path, str], make: Callable[[], Iterable[object] | None]) -> None:
        """Make these files. While that goes on, and if it fails, none of them counts as built."""
        for path in files:
            self._made.pop(str(path), None)
        self._write()
        make()
        content.cache_clear()
        self._made |= {str(path): inputs for path, inputs in files.items()}
        self._write()

    def _write(self) -> None:
        RECORD.parent.mkdir(exist_ok=True)
        part = RECORD.with_suffix(f".{os.getpid()}")
        part.write_text(
            json.dumps({path: made for path, made in self._made.items() if Path(path).exists()}, indent=0, sort_keys=True)
        )
        part.replace(RECORD)


# Of what a build generates, see generate.py.
GENERATORS = ("pxd.py", "composition/declare.py", "composition/hooks.py", "results/columns.py")


class Built:
    """penstock_net/built.json: the sources of the compiled simulator, which penstock_net/built.py compares with what is there."""

    def __init__(self, package: Path, compiled: Iterable[Path], headers: Iterable[Path]) -> None:
        """`package`: the sources; `compiled`: the modules. Those of the real switch are left out."""
        self._package, self._sources = package, load(package / "sources.py")
        types = (path.with_suffix(".pxd") for path in compiled if path.parent.name != "schemes")
        files = {*compiled, *types, *headers, *(package / name for name in GENERATORS)}
        self._files = sorted(path for path in files if not path.is_relative_to(package / "vswitch"))

    def remove(self, folder: Path) -> None:
        """Before a build: while it goes on, and if it fails, it is not known what is compiled."""
        (folder / self._sources.BUILT).unlink(missing_ok=True)

    def write(self, folder: Path) -> None:
        """After a build, as a whole."""
        found = {}
        for path in self._files:
            source = path.read_bytes()
            if not source.startswith(b"# Generated"):
                name = path.relative_to(self._package).as_posix()
                found[name] = [self._sources.digest(source), self._sources.code_digest(source, path.suffix)]
        part = folder / f"{self._sources.BUILT}.{os.getpid()}"
        part.write_text(json.dumps(found, indent=0))
        part.replace(folder / self._sources.BUILT)
