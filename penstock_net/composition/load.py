"""The compiled module of a scheme: one of the package's, or a user's file, compiled on first use and cached by content.

A scheme file imports nothing: it is given the names in declare.GIVEN and accessors of the state that it declares.
"""

import contextlib
import fcntl
import hashlib
import importlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from penstock_net.composition.declare import DeclarationError, Declarations, declarations
from penstock_net.errors import SchemeError
from penstock_net.files import sync
from penstock_net.identity import hash_below, home

PACKAGE = Path(__file__).parents[1]
MODULE = "scheme"  # of every compiled user's file, whose own name may be none of a module
FLAGS = "-shared -fPIC -O3 -ffp-contract=off -fno-math-errno -w"
DIRECTIVES = {"infer_types": True, "boundscheck": False, "wraparound": False, "cdivision": True, "annotation_typing": False}


def declarations_of(path: Path) -> Declarations:
    """What a scheme file declares; every mistake in it is a SchemeError with file and line."""
    try:
        source = path.read_text(encoding="utf-8-sig")  # editors of Windows begin a text with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise SchemeError(f"cannot be read as text: {error}", place=path) from None
    with refused(path):
        return declarations(path, source)


@contextlib.contextmanager
def refused(path: Path) -> Iterator[None]:
    """Every mistake in a scheme file as a SchemeError with file and line."""
    try:
        yield
    except SyntaxError as error:
        text = f"{error.msg}: {error.text.strip()}" if error.text else error.msg
        raise SchemeError(text, place=f"{path}:{error.lineno or 1}") from None
    except DeclarationError as error:
        raise SchemeError(str(error), place=f"{path}:{error.line or 1}") from None
    except (RecursionError, MemoryError):
        raise SchemeError("an expression is nested too deeply", place=path) from None
    except ValueError as error:  # a null byte
        raise SchemeError(str(error), place=path) from None


def to_c(pyx: Path, user: Path) -> None:
    """C of a translated scheme.  What a scheme cannot do was refused before, so an error here is one of the translation."""
    from Cython.Compiler.Main import CompilationOptions  # pyright: ignore[reportPrivateImportUsage]
    from Cython.Compiler.Main import compile as translate
    from Cython.Compiler.Options import get_directive_defaults

    log = io.StringIO()
    with contextlib.redirect_stderr(log), contextlib.redirect_stdout(log):
        options = CompilationOptions(
            language_level=3, include_path=[str(PACKAGE.parent)], compiler_directives={**get_directive_defaults(), **DIRECTIVES}
        )
        try:
            result = translate(str(pyx), options=options, full_module_name=pyx.stem)
            failed = result.num_errors
        except Exception:
            failed = 1
    if failed or "undeclared name" in log.getvalue():
        line = 1
        if found := re.search(re.escape(str(pyx)) + r":(\d+):", log.getvalue()):
            written = re.search(r"# line (\d+)$", pyx.read_text().splitlines()[int(found[1]) - 1])
            line = int(written[1]) if written else 1
        raise SchemeError("this is not possible in a scheme", remedy="write it in simpler steps", place=f"{user}:{line}")


def to_library(c: Path, library: Path, user: Path, checked: bool) -> None:
    named = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    try:
        compiler = shlex.split(named)
    except ValueError as error:
        remedy = "set CC to a C compiler"
        raise SchemeError(f"is no command: {error}", path="CC", value=named, remedy=remedy, place=user) from None
    if not compiler or not shutil.which(compiler[0]):
        rule = f"needs a C compiler ({compiler[0] if compiler else 'none'} is not installed)"
        raise SchemeError(rule, remedy="on Debian: apt install gcc python3-dev", place=user)
    flags = f"{FLAGS} {'' if checked else '-DUNCHECKED'} -I{sysconfig.get_paths()['include']} -I{PACKAGE / 'fabric'}"
    temporary = library.with_suffix(f".{os.getpid()}")
    command = [*compiler, *flags.split(), str(c), "-o", str(temporary)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not temporary.exists():
        temporary.unlink(missing_ok=True)
        said = done.stderr.strip().splitlines() or [f"no message, status {done.returncode}"]
        remedy = f"does {shlex.join(compiler)} compile C? CC names another compiler"
        raise SchemeError(f"the C compiler failed: {said[0]}", remedy=remedy, place=user)
    sync(temporary)
    temporary.rename(library)


def content_key(declared: Declarations, checked: bool = True) -> str:
    """Cache key of a user's compiled scheme: its source, the fabric's types and inlined functions, this package, the tools."""
    import Cython

    parts = [
        declared.source,
        declared.shared.source if declared.shared else "",
        str(checked),
        Cython.__version__,  # pyright: ignore[reportPrivateImportUsage]
        sys.version,
        FLAGS,
    ]
    parts += [hash_below(name) for name in ("fabric", "composition", "results/columns.py")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def write_c(declared: Declarations, folder: Path, checked: bool = True) -> Path:
    """Write the translation of a scheme into a folder, and its C; returns the path of the latter."""
    from penstock_net.composition.translate import Translation  # no run of the package's schemes needs it

    with refused(declared.path):
        text = Translation(declared, checked).text
    pyx = folder / f"{MODULE}.pyx"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pyx.write_text(text)
    except OSError as error:
        raise SchemeError(
            f"cannot be written: {error.strerror}", remedy="set XDG_CACHE_HOME to a writable folder", place=folder
        ) from None
    to_c(pyx, declared.path)
    return pyx.with_suffix(".c")


def compile_scheme(declared: Declarations, checked: bool = True) -> ModuleType:
    """A user's scheme as a compiled module, with every operation checked or without checks."""
    folder = home() / "schemes" / content_key(declared, checked)
    library = folder / (MODULE + str(sysconfig.get_config_var("EXT_SUFFIX")))
    with _alone_in(folder):
        if not library.exists():
            to_library(write_c(declared, folder, checked), library, declared.path, checked)
        spec = importlib.util.spec_from_file_location(MODULE, library)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep other processes from the folder: the runs of a sweep begin together."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # it cannot be written, or its file system has no locks
            folder.mkdir(parents=True, exist_ok=True)
            fcntl.flock(held.enter_context(open(folder / "lock", "w")), fcntl.LOCK_EX)
        yield


def load(declared: Declarations, checked: bool = True) -> ModuleType:
    """The compiled module of a built-in scheme, or of a user's file."""
    if declared.path.parent == PACKAGE / "schemes":
        return importlib.import_module("penstock_net.schemes." + declared.name)
    return compile_scheme(declared, checked)
