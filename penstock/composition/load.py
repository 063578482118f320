"""The compiled module of a scheme: one of the package's, or a user's file, compiled on first use and cached by content.

A scheme file imports nothing: it is given the names in declare.GIVEN and accessors of the state that it declares.
"""

import contextlib
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
from pathlib import Path
from types import ModuleType

from penstock.composition.declare import DeclarationError, Declarations
from penstock.errors import SchemeError

PACKAGE = Path(__file__).parents[1]
FLAGS = "-shared -fPIC -O3 -ffp-contract=off -fno-math-errno -w"
DIRECTIVES = {"infer_types": True, "boundscheck": False, "wraparound": False, "cdivision": True, "annotation_typing": False}
EXPLANATIONS = [
    (r"Cannot convert '(\w+) \*' to Python object", r"this is neither a field of the fabric's structs nor a known name"),
    (
        r"Assignment of Python object not allowed without gil|Operation not allowed without gil|.*Python object.*without gil",
        "this needs a Python object; a scheme may use numbers, the fabric's structs and what it declares",
    ),
    (r"undeclared name not builtin: (\w+)", r"unknown name \1"),
]


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def declarations_of(path: Path) -> Declarations:
    """What a scheme file declares; every mistake in it is a SchemeError with file and line."""
    try:
        source = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemeError(f"cannot be read as text: {error}", place=path) from None
    try:
        return Declarations(path, source)
    except SyntaxError as error:
        raise SchemeError(f"{error.msg}: {(error.text or '').strip()}", place=f"{path}:{error.lineno}") from None
    except DeclarationError as error:
        raise SchemeError(str(error), place=f"{path}:{error.line or 1}") from None


def explained(message: str) -> str:
    for pattern, text in EXPLANATIONS:
        if re.search(pattern, message):
            return re.sub(".*" + pattern + ".*", text, message)
    return message


def to_c(py: Path, user: Path) -> None:
    """Cython's first error on each line, under the user's file name."""
    from Cython.Compiler.Main import CompilationOptions
    from Cython.Compiler.Main import compile as cythonize
    from Cython.Compiler.Options import get_directive_defaults

    log = io.StringIO()
    with contextlib.redirect_stderr(log), contextlib.redirect_stdout(log):
        options = CompilationOptions(
            language_level=3,
            include_path=[str(PACKAGE.parent)],
            compiler_directives={**get_directive_defaults(), **DIRECTIVES},
        )
        result = cythonize(str(py), options=options, full_module_name=py.stem)
    text = log.getvalue()
    if result.num_errors or "undeclared name" in text:
        lines = py.read_text().splitlines()
        first: dict[int, str] = {}
        for line, message in re.findall(r"^(?:warning: )?" + re.escape(str(py)) + r":(\d+):\d+: (.*)$", text, re.M):
            first.setdefault(int(line), message)
        found = [f"{user}:{n}: {explained(m)}: {lines[n - 1].strip()}" for n, m in sorted(first.items())]
        if not found:
            raise SchemeError(text.strip()[:500], place=user)
        place = f"{user}:{min(first)}"
        raise SchemeError("\n".join(found[:3]).removeprefix(f"{place}: "), place=place)


def to_library(py: Path, library: Path, user: Path) -> None:
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not shutil.which(compiler[0]):
        raise SchemeError(
            f"needs a C compiler ({compiler[0]} is not installed)", remedy="on Debian: apt install gcc python3-dev", place=user
        )
    flags = f"{FLAGS} -I{sysconfig.get_paths()['include']} -I{PACKAGE / 'fabric'}"
    temporary = library.with_suffix(f".{os.getpid()}")
    command = [*compiler, *flags.split(), str(py.with_suffix(".c")), "-o", str(temporary)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        raise SchemeError(f"the C compiler failed: {said[0]}", place=user)
    temporary.rename(library)


def content_key(declared: Declarations) -> str:
    """Cache key of a user's compiled scheme: its source, the fabric's types and inlined functions, this package, the tools."""
    import Cython

    parts = [declared.source, Cython.__version__, sys.version, FLAGS]
    sources = [PACKAGE / "fabric/state.h", PACKAGE / "fabric/queueing.py", *sorted((PACKAGE / "fabric").glob("*.pxd"))]
    for path in (*sources, *sorted((PACKAGE / "composition").glob("*.py"))):
        parts.append(path.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def write_c(declared: Declarations, folder: Path) -> Path:
    """Write a scheme's source, its types and the C that Cython makes of them into a folder; returns the path of the source."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        py = folder / declared.path.name
        py.write_text(declared.source)
        py.with_suffix(".pxd").write_text(declared.pxd())
    except OSError as error:
        raise SchemeError(
            f"cannot be written: {error.strerror}", remedy="set XDG_CACHE_HOME to a writable folder", place=folder
        ) from None
    except DeclarationError as error:
        raise SchemeError(str(error), place=f"{declared.path}:{error.line}") from None
    to_c(py, declared.path)
    return py


def compile_scheme(declared: Declarations) -> ModuleType:
    """A user's scheme as a compiled module."""
    folder = cache_folder() / "schemes" / content_key(declared)
    library = folder / (declared.name + str(sysconfig.get_config_var("EXT_SUFFIX")))
    if not library.exists():
        to_library(write_c(declared, folder), library, declared.path)
    spec = importlib.util.spec_from_file_location(declared.name, library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(declared: Declarations) -> ModuleType:
    """The compiled module of a built-in scheme, or of a user's file."""
    if declared.path.parent == PACKAGE / "schemes":
        return importlib.import_module("penstock.schemes." + declared.name)
    return compile_scheme(declared)
