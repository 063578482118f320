"""Import hooks of the interpreted core: its modules from their .py, even if compiled ones exist, and modules for .pxd files."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock_net import pxd

FOLDERS = ("fabric", "sim/core")
CORE = {f"{folder.replace('/', '.')}.{p.stem}" for folder in FOLDERS for p in (pxd.PACKAGE / folder).glob("[!_]*.py")}


def _fabric(file: str) -> dict[str, Any]:
    from penstock_net.sim.interpreted.structs import names_of

    return names_of(file)


def _pointers() -> dict[str, Any]:
    from penstock_net.sim.interpreted import pointers

    return pointers.__dict__


MADE: dict[str, Callable[[], dict[str, Any]]] = {  # modules that only a .pxd declares -> function that returns their names
    **{f"penstock_net.fabric.{file}": partial(_fabric, file) for file in ("state", "rows", "tables")},
    "penstock_net.sim.core.flow_setter": lambda: {"set_flow_result": setattr},
    "penstock_net.sim.core.pointers": _pointers,
}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the core before Python's own finders do."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name in MADE:
            return importlib.util.spec_from_loader(name, self)
        inner = name.removeprefix("penstock_net.")
        if inner not in CORE:
            return None
        file = str(pxd.PACKAGE / (inner.replace(".", "/") + ".py"))
        return importlib.util.spec_from_file_location(name, file, loader=importlib.machinery.SourceFileLoader(name, file))

    def exec_module(self, module: types.ModuleType) -> None:
        names = MADE[module.__name__]()
        vars(module).update({name: value for name, value in names.items() if not name.startswith("__")})


def install() -> None:
    """Import the core as plain Python from now on.  ImportError: it has been imported already."""
    loaded = sorted(name for name in sys.modules if name.removeprefix("penstock_net.") in CORE)
    if loaded and not any(isinstance(finder, Finder) for finder in sys.meta_path):
        raise ImportError(f"{loaded[0]} is imported already: call install() before anything of the core is imported")
    if not loaded:
        sys.meta_path.insert(0, Finder())
    from penstock_net import composition
    from penstock_net.sim.interpreted.schemes import scheme_module

    composition.load = scheme_module  # type: ignore[assignment]
