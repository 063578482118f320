"""Folders that results are written to: checked before the run, written atomically."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from penstock.errors import SpecError
from penstock.units import format_size

BYTES_PER_FLOW = 64  # of a run directory, roughly
OURS = (".parquet", ".json", ".toml", ".csv", ".html", ".png", ".pdf", ".svg")


def is_run(path: Path) -> bool:
    """Whether a folder holds a finished run."""
    return (path / "summary.json").is_file() and (path / "flows.parquet").is_file()


def runs_below(path: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs directly below it, sorted by name."""
    if is_run(path):
        return [path]
    return sorted(p for p in path.iterdir() if p.is_dir() and is_run(p)) if path.is_dir() else []


def one_run(path: Path) -> Path:
    """The folder, if it is a run.  SpecError: it is not."""
    if is_run(path):
        return path
    if not path.exists():
        raise SpecError("no such folder", place=path)
    below = [p.name for p in runs_below(path)]
    if below:
        raise SpecError("holds several runs", remedy=f"give one of them: {', '.join(below)}", place=path)
    raise SpecError("is not a run directory (no summary.json in it)", place=path)


def all_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Every run of the folders given; a folder of several schemes stands for all of them.  SpecError: no run in one."""
    found: list[Path] = []
    for path in map(Path, paths):
        found += runs_below(path) or [one_run(path)]
    return found


def reason(error: BaseException) -> str:
    """Why a file could not be written, in a few words."""
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    for known in ("No space left on device", "Disk quota exceeded", "Read-only file system", "Input/output error"):
        if known in text:
            return known
    return str(text).splitlines()[0]


def _refuse(path: Path, error: BaseException) -> SpecError:
    why = reason(error)
    remedy = "free some, or give" if "space" in why or "quota" in why else "give"
    return SpecError(f"cannot be written ({why})", remedy=f"{remedy} another folder with --out", place=path)


def check_writable(path: Path, *, overwrite: bool = False, flows: int = 0) -> None:
    """SpecError unless a run of about that many flows can be written to `path`. Leaves nothing behind."""
    _check_free(path, overwrite)
    made: list[Path] = []
    try:
        for parent in reversed([p for p in [path.parent, *path.parent.parents] if not p.exists()]):
            parent.mkdir()
            made.append(parent)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as probe:
            (Path(probe) / "probe").write_bytes(b"x" * 4096)
            free = shutil.disk_usage(probe).free
    except OSError as error:
        raise _refuse(path, error) from error
    finally:
        for parent in reversed(made):
            parent.rmdir()
    if free < flows * BYTES_PER_FLOW:
        raise SpecError(
            f"the results of {flows:,} flows need about {format_size(flows * BYTES_PER_FLOW)}, {format_size(free)} are free",
            remedy="give another folder with --out",
            place=path,
        )


def _check_free(path: Path, overwrite: bool) -> None:
    try:
        if path.is_symlink() or path.exists():
            if not path.is_dir():
                raise SpecError("is a file", remedy="give a folder with --out", place=path)
            if any(path.iterdir()):
                if not is_run(path):
                    raise SpecError("is not empty and not a run", remedy="give another folder with --out", place=path)
                if not overwrite:
                    raise SpecError("holds a run already", remedy="give another --out, or --force to replace it", place=path)
    except OSError as error:
        raise _refuse(path, error) from error


def write_directory(path: Path, write: Callable[[Path], None], *, overwrite: bool = False) -> Path:
    """Call `write(folder)` with a hidden sibling folder, then rename it to `path`. On failure nothing is left.

    SpecError: `path` is in use or cannot be written.
    """
    _check_free(path, overwrite)
    partial = path.parent / f".{path.name}.partial-{os.getpid()}"
    old = path.parent / f".{path.name}.old-{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write(partial)
        if path.exists():
            path.rename(old)
        partial.rename(path)
    except KeyboardInterrupt:
        _undo(path, partial, old)
        raise
    except Exception as error:
        _undo(path, partial, old)
        if isinstance(error, OSError) or type(error).__module__.startswith("polars"):
            raise _refuse(path, error) from error
        raise
    if old.exists():
        for left in old.iterdir():
            if left.suffix not in OURS and not (path / left.name).exists():
                left.rename(path / left.name)
        shutil.rmtree(old, ignore_errors=True)
    return path


def _undo(path: Path, partial: Path, old: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    if old.exists() and not path.exists():
        old.rename(path)


def write_file(path: Path, content: bytes) -> Path:
    """Write one file atomically.  SpecError: it cannot be written."""
    partial = path.parent / f".{path.name}.partial-{os.getpid()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise SpecError("is a folder", remedy="give a file name with -o", place=path)
        partial.write_bytes(content)
        partial.rename(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise SpecError(f"cannot be written ({reason(error)})", remedy="give another name with -o", place=path) from error
    return path
