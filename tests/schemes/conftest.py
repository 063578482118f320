"""Schemes of the tests are compiled at half the price: the core's declarations are read once, and C is not optimised."""

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from Cython.Compiler import Errors, Main, Options

sys.path.insert(0, str(Path(__file__).parent))  # helpers.py
sys.path.insert(0, str(Path(__file__).parent.parent))  # the transcriptions of the papers: paper/

load = importlib.import_module("penstock_net.composition.load")  # composition.load is the function
CIMPORTED = ("arithmetic", "checked", "failure", "pacing", "incoming", "ranking", "switch", "state")


@cache
def with_declarations() -> Main.Context:
    """What Cython knows once it has read the .pxd files that every translated scheme names."""
    options = Main.CompilationOptions(
        language_level=3,
        include_path=[str(load.PACKAGE.parent)],
        compiler_directives={**Options.get_directive_defaults(), **load.DIRECTIVES},
    )
    context = Main.Context.from_options(options)
    with contextlib.redirect_stderr(io.StringIO()):
        Errors.init_thread()
        for name in ("libc.stdint", *(f"penstock_net.fabric.{file}" for file in CIMPORTED)):
            context.find_module(name)
    return context


@pytest.fixture(scope="module", autouse=True)
def cheap_compilation() -> Iterator[None]:
    """Each translation to C in a copy of this process, since Cython can use what it has read only once; the C is the same."""
    to_c = load.to_c

    def in_a_copy(pyx: Path, user: Path) -> None:
        context = with_declarations()
        if pid := os.fork():
            if os.waitpid(pid, 0)[1]:
                to_c(pyx, user)  # which says what is wrong
            return
        status = 1
        try:
            Main.Context.from_options = lambda options: context
            to_c(pyx, user)
            status = 0
        finally:
            os._exit(status)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "to_c", in_a_copy)
        patch.setattr(load, "FLAGS", load.FLAGS.replace("-O3", "-O0"))
        yield
