"""The sources of the package: which files they are, and hashes of them, as they are written and as they are installed."""

import ast
import io
import tokenize
from collections.abc import Iterable
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SCHEMES = PACKAGE / "schemes"
SOURCES = (".py", ".pxd", ".pyx", ".h", ".so", ".pyd", ".csv", ".toml")
TEXTS = (".py", ".pxd", ".h", ".csv", ".toml")
NO_RESULT_DEPENDS_ON = ("experiments", "report", "cli", "testing", "vswitch", "processes.py", "sources.py")
GENERATED = b"# Generated"  # how the first line of a generated file begins


def texts(names: Iterable[str]) -> set[Path]:
    """The sources below these folders and files of the package; what a build generates from them is there or not."""
    roots = [PACKAGE / name for name in names]
    found = (path for root in roots for path in (root, *root.rglob("*")) if path.suffix in TEXTS)
    return {path for path in found if not path.read_bytes().startswith(GENERATED)}


def hash_of(paths: Iterable[Path]) -> str:
    """16 hex digits of the names and contents of files of the package, the same on every machine.

    Comments and docstrings do not count, but those of schemes, which are read with their declarations.
    """
    digest = sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + _digest(path, path.stat().st_mtime_ns))
    return digest.hexdigest()[:16]


@cache
def _digest(path: Path, _changed_ns: int) -> bytes:
    text = path.read_bytes()
    counts = text if path.suffix != ".py" or path.parent == SCHEMES else code_of(text.decode()).encode()
    return sha256(counts).digest()


def code_of(source: str) -> str:
    """A Python file without docstrings (but where there is nothing else), and comments, but directives of Cython."""
    lines: list[bytes | None] = [line.encode() for line in source.split("\n")]  # None: nothing is left of it
    spans = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("# cython:"):
            row, column = token.start
            spans.append((row, len(token.line[:column].encode()), row, len(token.line.encode())))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, documented) and len(node.body) > 1 and ast.get_docstring(node, clean=False):
            text = node.body[0]
            spans.append((text.lineno, text.col_offset, int(text.end_lineno or 0), int(text.end_col_offset or 0)))
    for row, column, last, end in sorted(spans, reverse=True):
        left = ((lines[row - 1] or b"")[:column] + (lines[last - 1] or b"")[end:]).rstrip()
        lines[row - 1 : last] = [left or None] + [None] * (last - row)
    return "\n".join(line.decode() for line in lines if line is not None)


@lru_cache
def source_hash(schemes: frozenset[str]) -> str:
    """A hash of every file of the package, as it is installed, that can change the result of a run of these schemes."""
    digest = sha256()
    for path in sorted(PACKAGE.rglob("*")):
        parts = path.relative_to(PACKAGE).parts
        another = parts[0] == "schemes" and path.name.partition(".")[0] not in schemes
        if path.suffix in SOURCES and parts[0] not in NO_RESULT_DEPENDS_ON and not another and path.is_file():
            digest.update("/".join(parts).encode() + b"\0")
            digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
