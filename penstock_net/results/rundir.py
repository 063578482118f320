"""Folders that results are written to: checked before the run, locked during it, written atomically."""

import fcntl
import json
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from penstock_net.errors import SpecError
from penstock_net.files import exchange, hidden, left, of_writing, reason, sync, sync_all
from penstock_net.results import digests
from penstock_net.units import format_size

BYTES_PER_FLOW = 128  # of a run directory, and of what is kept beside it during a large run, roughly
REQUIRED = ("summary.json", "flows.parquet", "switches.parquet", "ports.parquet")  # in every run
INPUTS = "inputs"  # folder with copies of the files that the spec names; section of spec.toml with their hashes
OURS = (".parquet", ".json", ".toml", ".csv", ".html", ".png", ".pdf", ".svg", "prints.txt")  # how names of files end


def is_run(path: Path) -> bool:
    """Whether a folder holds a run, whole or damaged."""
    return (path / digests.FILE).is_file() or ((path / "summary.json").is_file() and (path / "flows.parquet").is_file())


def damage(path: Path) -> str:
    """The first file of a run that is missing, empty or not what was written, and what is wrong with it; "": none is known."""
    wrong = digests.problems(path) or [(name, "is missing or empty") for name in REQUIRED if not _has_content(path / name)]
    return f"{path / wrong[0][0]} {wrong[0][1]}" if wrong else ""


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def is_whole(path: Path) -> bool:
    """Whether a folder holds a run, and all of its files are those that were written."""
    return is_run(path) and not damage(path)


def key_of(path: Path, *, interrupted: bool = False) -> str | None:
    """The key of its experiment that `penstock run` noted in a run; None: no finished run (or interrupted one), no key."""
    summary = summary_of(path)
    return None if summary.get("interrupted") and not interrupted else summary.get("key")


def summary_of(path: Path) -> dict[str, Any]:
    """The summary of a run; empty if there is none, or it is damaged."""
    try:
        summary = json.loads((path / "summary.json").read_text()) if is_run(path) else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return summary if isinstance(summary, dict) else {}


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
        with tempfile.TemporaryDirectory(prefix=hidden(path, "probe-"), dir=path.parent) as probe:
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
                    raise SpecError("holds a run already", remedy="give another folder, or overwrite=True (--force)", place=path)
    except OSError as error:
        raise _refuse(path, error) from error


def write_directory(path: Path, write: Callable[[Path], None], *, overwrite: bool = False) -> Path:
    """Call `write(folder)` with a hidden sibling folder, then rename it to `path`. On failure nothing is left.

    SpecError: `path` is in use or cannot be written.
    """
    _check_free(path, overwrite)
    partial = path.with_name(f"{hidden(path, 'partial')}-{os.getpid()}")
    old = path.with_name(f"{hidden(path, 'old')}-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        write(partial)
        sync_all(partial)
        _check_free(path, overwrite)
        if path.exists() and exchange(partial, path):
            partial.rename(old)
        else:
            if path.exists():
                path.rename(old)
            partial.rename(path)
        sync(path.parent)
    except KeyboardInterrupt:
        _undo(path, partial, old)
        raise
    except Exception as error:
        _undo(path, partial, old)
        if of_writing(error):
            raise _refuse(path, error) from error
        raise
    if old.exists():
        _keep_others(old, path)
    return path


def _keep_others(old: Path, path: Path) -> None:
    """Move what penstock did not write from the replaced folder to the new one, and remove the replaced one."""
    for other in old.iterdir():
        if not other.name.endswith(OURS) and other.name != INPUTS and not (path / other.name).exists():
            other.rename(path / other.name)
    shutil.rmtree(old, ignore_errors=True)


def write_inputs(folder: Path, inputs: Mapping[str, bytes | Path]) -> None:
    """Write copies of the files that a spec names, by their names below `folder`."""
    for name, content in inputs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())


def inputs_of(folder: Path) -> dict[str, Path]:
    """The copies in a run directory, by name."""
    return {str(path.relative_to(folder)): path for path in sorted((folder / INPUTS).rglob("*")) if path.is_file()}


def _undo(path: Path, partial: Path, old: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    if old.exists() and not path.exists():
        old.rename(path)


# -- one process at a time ---------------------------------------------------------------------------------------------


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing to `path`, with a lock on `.NAME.lock` beside it, until the block ends.

    The lock ends with the process, however that ends. Where a file system has no locks there is none.
    SpecError: another process has it.
    """
    here = path.resolve()
    file = here.with_name(hidden(here, "lock"))
    made: list[Path] = []
    try:
        for parent in reversed([p for p in here.parents if not p.exists()]):
            parent.mkdir(exist_ok=True)
            made.append(parent)
        lock = _lock(file, path)
    except OSError as error:
        raise _refuse(path, error) from error
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(lock)
        with suppress(OSError):  # something is in it
            for parent in reversed(made):
                parent.rmdir()


def _lock(file: Path, path: Path) -> int:
    """A descriptor of the locked file, in which the holder is named."""
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 1000, 0).decode(errors="replace").strip()
            os.close(lock)
            remedy = "wait until it has ended, or give another --out"
            raise SpecError(f"is being written by {holder or 'another process'}", remedy=remedy, place=path) from None
        except OSError:  # a file system without locks
            pass
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), file.stat()):
                break
        os.close(lock)  # its last holder has removed it meanwhile
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
    with suppress(OSError):  # a full disk is reported when the results are written
        os.ftruncate(lock, 0)
        os.pwrite(lock, os.fsencode(f"process {os.getpid()} on {socket.gethostname()} ({command})\n"), 0)
    return lock


def recover(path: Path) -> None:
    """Put right what a killed process left behind while it wrote `path`. Only for the holder of the lock."""
    for old in left(path, "old"):
        if path.exists():
            _keep_others(old, path)
        else:
            old.rename(path)
    for partial in left(path, "partial"):
        shutil.rmtree(partial, ignore_errors=True)
