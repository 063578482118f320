"""The file of a checkpoint: a line with its checksum, then a zip archive of arrays, bytes and a JSON text.

It is complete or it is not there: it is written under another name, brought to the disk and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from penstock import scratch
from penstock.errors import SpecError

FIRST = b"penstock checkpoint 1 "  # the number is that of the format
DIGITS = 64  # of a SHA-256
ANEW = "remove it to begin anew"


def reason(error: OSError) -> str:
    """Why a file cannot be read or written, in a few words."""
    return error.strerror or str(error)


class Writer:
    """What is put into a checkpoint; names are those of files in a zip archive."""

    def __init__(self, archive: ZipFile) -> None:
        self.archive = archive

    def json(self, name: str, content: Any) -> None:
        self.archive.writestr(name, json.dumps(content))

    def array(self, name: str, content: np.ndarray) -> None:
        with self.archive.open(name, "w", force_zip64=True) as out:
            np.lib.format.write_array(out, np.ascontiguousarray(content), allow_pickle=False)

    def chunks(self, name: str, content: Any) -> None:
        """An iterable of bytes."""
        with self.archive.open(name, "w", force_zip64=True) as out:
            for chunk in content:
                out.write(len(chunk).to_bytes(8, "little") + chunk)


def write(path: Path, fill: Callable[[Writer], None]) -> None:
    """Write a checkpoint in place of the one before.  OSError: it cannot be written; the one before is still there."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb+") as out:
            out.write(FIRST + b"0" * DIGITS + b"\n")
            with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=1) as archive:
                fill(Writer(archive))
            digest = _digest(out)
            out.seek(len(FIRST))
            out.write(digest)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """SpecError unless a checkpoint can be written there."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise SpecError("is not a file", remedy="give another name", place=path)
        partial.write_bytes(b"x" * 4096)
        partial.unlink()
    except OSError as error:
        raise SpecError(f"cannot be written ({reason(error)})", remedy="give another name", place=path) from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(file: IO[bytes]) -> bytes:
    """The checksum of what follows the first line, in hexadecimal."""
    file.seek(len(FIRST) + DIGITS + 1)
    return hashlib.file_digest(file, "sha256").hexdigest().encode()  # type: ignore[arg-type]


class Reader:
    """A checkpoint that is whole.  SpecError: it is not, or is none, or cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                first = file.read(len(FIRST) + DIGITS + 1)
                if first[: len(FIRST)] != FIRST:
                    raise SpecError("is not a checkpoint of this version of penstock", remedy=ANEW, place=path)
                if _digest(file) + b"\n" != first[len(FIRST) :]:
                    raise SpecError("is damaged: its content does not have the checksum that it names", remedy=ANEW, place=path)
            self.archive = ZipFile(path)
        except OSError as error:
            raise SpecError(f"cannot be read ({reason(error)})", place=path) from error

    def close(self) -> None:
        self.archive.close()

    def json(self, name: str) -> Any:
        return json.loads(self.archive.read(name))

    def array(self, name: str) -> np.ndarray:
        with self.archive.open(name) as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

    def array_into(self, name: str, values: np.ndarray) -> None:
        """Fill an array with one of the same shape and type, a part at a time.  ValueError: it has another."""
        with self.archive.open(name) as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != values.shape or dtype != values.dtype:
                raise ValueError(f"{name} has {shape} of {dtype}")
            for part in scratch.parts(values):
                rows = values[part]
                rows[...] = np.frombuffer(file.read(rows.nbytes), dtype=dtype)

    def arrays(self, folder: str) -> dict[str, np.ndarray]:
        """All arrays whose names begin with "FOLDER/", by the rest of the name."""
        names = [name for name in self.archive.namelist() if name.startswith(folder + "/")]
        return {name.removeprefix(folder + "/"): self.array(name) for name in names}

    def chunks(self, name: str) -> Any:
        """The bytes of an iterable; none if there is none of this name."""
        if name not in self.archive.namelist():
            return
        with self.archive.open(name) as file:
            while head := file.read(8):
                yield file.read(int.from_bytes(head, "little"))
