"""Files that appear whole or not at all: written under a hidden name beside their own, brought to the disk, then renamed.

    with new_file(Path("flows.csv")) as out:       # an earlier file of that name stays until this block has ended well
        out.write(b"...")
    with new_files(Path("figure")) as folder:      # several that belong together, into a folder that may hold others
        (folder / "points.csv").write_bytes(b"...")

Whoever is killed leaves a hidden file at most, which the next writer of the same name removes.
"""

import errno
import fcntl
import glob
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from penstock_net.errors import SpecError

LONG = 180  # bytes of a name of which a part, and a hash, stand for the whole in hidden names
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2
OUTPUT = "give another name with -o"


def of_user(variable: str, below: str) -> Path:
    """Where files of this user are: `$VARIABLE/penstock`, or there `below` the home folder.  SpecError: there is no home."""
    try:
        return Path(os.environ.get(variable) or Path.home() / below) / "penstock"
    except RuntimeError:
        raise SpecError("this user has no home folder", remedy=f"set {variable} to a folder of your own") from None


def reason(error: BaseException) -> str:
    """Why a file could not be written, in a few words."""
    if isinstance(error, FileExistsError):
        return "a file is in the place of its folder"
    text = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
    for known in ("No space left on device", "Disk quota exceeded", "Read-only file system", "Input/output error"):
        if known in text:
            return known
    if "transport error" in text:  # all that polars says of the last part of a Parquet file
        return "its end does not fit; is there space left on the device?"
    return str(text).splitlines()[0]


def of_writing(error: BaseException) -> bool:
    """Whether an error says that something could not be written: polars has errors of its own for that."""
    return isinstance(error, OSError) or type(error).__module__.startswith("polars")


def hidden(path: Path, what: str) -> str:
    """The hidden name that stands for a file or a folder while `what` happens to it; a name that is long is shortened."""
    name = os.fsencode(path.name)
    if len(name) > LONG:
        name = name[: LONG // 2] + sha256(name).hexdigest()[:32].encode()
    return f".{os.fsdecode(name)}.{what}"


def left(path: Path, what: str) -> list[Path]:
    """What processes that ended left beside a file or a folder under such names, which end in the process's number."""
    return sorted(path.parent.glob(glob.escape(hidden(path, what)) + "-*"))


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot do this for folders
            raise
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Bring a folder with all that is in it to the disk."""
    for here, _, names in os.walk(folder):
        for name in names:
            sync(Path(here, name))
        sync(Path(here))


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders trade their names at once; False: this system cannot do that."""
    import ctypes

    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    return rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0


def write_file(path: Path, content: bytes, remedy: str = OUTPUT) -> Path:
    """Write one file whole.  SpecError: it cannot be written."""
    with new_file(path, remedy) as out:
        out.write(content)
    return path


@contextmanager
def new_file(path: Path, remedy: str = OUTPUT) -> Iterator[BinaryIO]:
    """A file that appears under its name when the block has ended well; a device or a pipe is written to.

    A link is followed, and the permissions of an earlier file are kept.  SpecError: it cannot be written.
    """
    try:
        if path.is_dir():
            raise SpecError("is a folder", remedy=remedy.replace("another name", "a file name"), place=path)
        if path.exists() and not path.is_file():
            with open(path, "wb") as out:
                yield out
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with _replacing(Path(os.path.realpath(path))) as out:
            yield out
    except Exception as error:
        if of_writing(error):
            raise SpecError(f"cannot be written ({reason(error)})", remedy=remedy, place=path) from error
        raise


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    for old in left(path, "partial"):
        _remove_if_left(old)
    partial, lock = path.with_name(f"{hidden(path, 'partial')}-{os.getpid()}"), None
    try:
        with open(partial, "wb+") as out:
            lock = _locked(partial)
            with suppress(OSError):  # there is no earlier file, or a file system without permissions
                os.fchmod(out.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield out
            out.flush()
            os.fsync(out.fileno())
        partial.replace(path)
        sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)
        if lock is not None:
            os.close(lock)


@contextmanager
def new_files(folder: Path, remedy: str = OUTPUT) -> Iterator[Path]:
    """A hidden folder whose files take their places in `folder` when all of them are on the disk, sorted by their names.

    SpecError: one cannot be written; all earlier files are still there.
    """
    partial, lock = folder / f".partial-{os.getpid()}", None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in [partial, *folder.glob(".partial-*")]:
            _remove_if_left(old)
        partial.mkdir()
        lock = _locked(partial)
        yield partial
        sync_all(partial)
        for file in sorted(path for path in partial.rglob("*") if path.is_file()):
            place = folder / file.relative_to(partial)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)
        sync(folder)
    except Exception as error:
        if of_writing(error):
            raise SpecError(f"cannot be written ({reason(error)})", remedy=remedy, place=folder) from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(path: Path) -> int | None:
    """A descriptor that keeps other processes from removing a hidden file or folder; None: no locks, or another one has it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_if_left(path: Path) -> None:
    """Remove what is hidden, unless its writer is still at work; where a file system has no locks it stays."""
    with suppress(OSError):
        lock = _locked(path)
        if lock is not None:
            path.unlink() if path.is_file() else shutil.rmtree(path, ignore_errors=True)
            os.close(lock)
