"""Large arrays of a command on the disk: files without a name, beside the results, which are gone when the process is.

    with on_disk(Path("runs/bfc")):
        column = filled(10**9, -1)      # an array like any other
    release(column)                     # its pages leave the memory; the next access brings them back

Without `on_disk` everything is in memory; so is what is small.
"""

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any

import numpy as np

from penstock_net.errors import SpecError

LARGE = 1 << 20  # elements; fewer are in memory
CHUNK = 1 << 18  # elements or rows that are worked on at a time

_beside: ContextVar[Path | None] = ContextVar("beside", default=None)


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Until the block ends, large arrays are on the disk of this folder of results, which need not exist."""
    token = _beside.set(path.absolute())
    try:
        yield
    finally:
        _beside.reset(token)


def in_use() -> bool:
    """Whether large arrays are on the disk."""
    return _beside.get() is not None


def new_file() -> IO[bytes]:
    """A file without a name: beside the results, or where temporary files are."""
    beside = _beside.get()
    with _told():
        if beside is None:
            return tempfile.TemporaryFile()
        beside.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=beside.parent, prefix=f".{beside.name}.")


def write(file: IO[bytes], values: np.ndarray) -> None:
    """Write an array; SpecError: the disk is full."""
    with _told():
        file.write(values.data)


def filled(count: int, value: int, dtype: Any = np.int64) -> np.ndarray:
    """An array of `count` equal values."""
    if not in_use() or count < LARGE:
        return np.full(count, value, dtype=dtype)
    column = Column(dtype)
    for low in range(0, count, CHUNK):
        column.append(np.full(min(CHUNK, count - low), value, dtype=dtype))
    return column.array()


class Column:
    """An array that grows at its end: in memory, and from LARGE elements on in a file."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.parts: list[np.ndarray] = []
        self.count = 0
        self.file: IO[bytes] | None = None

    def append(self, values: np.ndarray) -> None:
        """Add these values; SpecError: the disk is full."""
        self.parts.append(np.ascontiguousarray(values, dtype=self.dtype))
        self.count += len(values)
        if self.file or (in_use() and self.count >= LARGE):
            self._write()

    def _write(self) -> None:
        self.file = self.file or new_file()
        for part in self.parts:
            write(self.file, part)
        self.parts = []

    def array(self) -> np.ndarray:
        """All of it; nothing can be added any more."""
        if not self.file:
            parts, self.parts = self.parts, []
            return np.concatenate(parts) if parts else np.empty(0, self.dtype)
        with _told(), self.file as file:
            file.flush()
            return np.frombuffer(mmap.mmap(file.fileno(), 0), dtype=self.dtype)


def parts(*columns: np.ndarray) -> Iterator[slice]:
    """Slices of columns of the same length, CHUNK rows at a time, at least one; the pages of those before leave the memory."""
    count = len(columns[0])
    for low in range(0, max(1, count), CHUNK):
        yield slice(low, min(low + CHUNK, count))
        release(*columns)


def release(*arrays: np.ndarray) -> None:
    """Release the pages of memory-mapped arrays."""
    for array in arrays:
        if (mapping := _mapping(array)) is not None:
            mapping.madvise(mmap.MADV_DONTNEED)


def _mapping(array: Any) -> mmap.mmap | None:
    """The memory map behind an array or its base."""
    while isinstance(array, np.ndarray):
        array = array.base
    if isinstance(array, memoryview):
        array = array.obj
    return array if isinstance(array, mmap.mmap) else None


@contextmanager
def _told() -> Iterator[None]:
    """OSError as SpecError."""
    try:
        yield
    except OSError as error:
        remedy = "free some space there, or give another folder with --out"
        rule = f"no room for the data of a large run ({error.strerror or error})"
        raise SpecError(rule, remedy=remedy, place=_beside.get()) from error
