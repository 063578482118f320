"""The file of a checkpoint: a line with its seal, then a zip archive of arrays, bytes and a JSON text.

The seal is a keyed checksum (HMAC with SHA-256) of the rest, after the name of the key, which only this user has
(`checkpoint_key`): nothing of a file that is damaged, or that somebody else has made, is loaded.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

from penstock_net import scratch
from penstock_net.errors import SpecError
from penstock_net.files import hidden, new_file, reason
from penstock_net.sim import checkpoint_key

FIRST = b"penstock checkpoint 2 "  # the number is that of the format
NAME, DIGITS = 16, 64  # of the name of a key, of a checksum
AT = len(FIRST) + NAME + 1 + DIGITS + 1  # where the archive begins
ANEW = "remove it to begin anew"


class Writer:
    """The contents of a checkpoint; names are those of files in a zip archive."""

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
    """Replace the previous checkpoint.  SpecError: this one cannot be written; the previous one is intact."""
    with new_file(path, "give another name") as out:
        out.write(b" " * (AT - 1) + b"\n")
        with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            fill(Writer(archive))
        line = _sealed(out, checkpoint_key.key())
        out.seek(0)
        out.write(line)


def check_writable(path: Path) -> None:
    """SpecError unless a checkpoint can be written there, and sealed."""
    checkpoint_key.key()
    partial = path.with_name(hidden(path, "probe"))
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise SpecError("is not a file", remedy="give another name", place=path)
        partial.write_bytes(b"x" * 4096)
        partial.unlink()
    except OSError as error:
        raise SpecError(f"cannot be written ({reason(error)})", remedy="give another name", place=path) from error


def _sealed(file: BinaryIO, key: bytes) -> bytes:
    """The first line of a file with this content."""
    file.seek(AT)
    found = hashlib.file_digest(file, lambda: hmac.new(key, digestmod="sha256"))  # type: ignore[arg-type, return-value]
    return FIRST + f"{checkpoint_key.name_of(key)} {found.hexdigest()}\n".encode()


class Reader:
    """Open a checkpoint and verify its seal.  SpecError: it is damaged, of another key, no checkpoint, or unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with ExitStack() as opened:
                file = opened.enter_context(open(path, "rb"))
                first, key = file.read(AT), checkpoint_key.key()
                if first[: len(FIRST)] != FIRST:
                    raise SpecError("is not a checkpoint of this version of penstock", remedy=ANEW, place=path)
                if first[len(FIRST) : len(FIRST) + NAME] != checkpoint_key.name_of(key).encode():
                    rule = f"was sealed with another key than {checkpoint_key.path()}: another user made it, or another machine"
                    remedy = f"{ANEW}, or set XDG_STATE_HOME to the folder that it was made with"
                    raise SpecError(rule, remedy=remedy, place=path)
                if not hmac.compare_digest(_sealed(file, key), first):
                    raise SpecError("is damaged: its content does not have the seal that it names", remedy=ANEW, place=path)
                self.archive = opened.enter_context(ZipFile(file))
                self.opened = opened.pop_all()
        except OSError as error:
            raise SpecError(f"cannot be read ({reason(error)})", place=path) from error

    def close(self) -> None:
        self.opened.close()

    def json(self, name: str) -> Any:
        return json.loads(self.archive.read(name))

    def array(self, name: str) -> np.ndarray:
        with self.archive.open(name) as file:
            return np.asarray(np.lib.format.read_array(file, allow_pickle=False))

    def array_into(self, name: str, values: np.ndarray) -> None:
        """Read an array into an existing one, a part at a time.  ValueError: shape or type differ."""
        with self.archive.open(name) as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            if shape != values.shape or dtype != values.dtype:
                raise ValueError(f"{name} has {shape} of {dtype}")
            for part in scratch.parts(values):
                rows = values[part]
                rows[...] = np.frombuffer(file.read(rows.nbytes), dtype=dtype)

    def arrays(self, folder: str) -> dict[str, np.ndarray]:
        """All arrays named "FOLDER/...", by the rest of the name."""
        names = [name for name in self.archive.namelist() if name.startswith(folder + "/")]
        return {name.removeprefix(folder + "/"): self.array(name) for name in names}

    def chunks(self, name: str) -> Any:
        """The bytes stored under a name; nothing if there are none."""
        if name not in self.archive.namelist():
            return
        with self.archive.open(name) as file:
            while head := file.read(8):
                yield file.read(int.from_bytes(head, "little"))
