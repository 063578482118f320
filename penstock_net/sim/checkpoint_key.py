"""The key that seals checkpoints: random, made at the first checkpoint, readable by this user only.

A checkpoint is the memory of a simulation: a crafted one could write anywhere in the process.  So only what was sealed with
this key is loaded.  It is in the user's state folder; machines that share this folder go on with one another's checkpoints.
"""

import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from penstock_net.errors import SpecError
from penstock_net.files import hidden, of_user, reason, sync

BYTES = 32


def path() -> Path:
    """`$XDG_STATE_HOME/penstock/checkpoint.key`, or below `~/.local/state`."""
    return of_user("XDG_STATE_HOME", ".local/state") / "checkpoint.key"


def key() -> bytes:
    """The key, made if there is none.  SpecError: it cannot be read or written, or others can read it."""
    file = path()
    try:
        if not file.exists():
            _make(file)
        with open(file, "rb") as opened:
            content, mode = opened.read(BYTES + 1), os.fstat(opened.fileno()).st_mode
    except OSError as error:
        rule = f"the key of checkpoints cannot be read or written ({reason(error)})"
        raise SpecError(rule, remedy="set XDG_STATE_HOME to a folder of your own", place=file) from error
    if mode & 0o077 or len(content) != BYTES:
        rule = "other users can read the key of checkpoints" if mode & 0o077 else "is not a key of checkpoints"
        raise SpecError(rule, remedy="remove it: a new one is made, and earlier checkpoints cannot be used", place=file)
    return content


def name_of(key: bytes) -> str:
    """A name that tells a key from others and says nothing of it."""
    return sha256(b"name of " + key).hexdigest()[:16]


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{hidden(file, 'partial')}-{os.getpid()}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(secrets.token_bytes(BYTES))
        out.flush()
        os.fsync(out.fileno())
    with suppress(FileExistsError):  # another process was faster: its key is the one
        os.link(partial, file)
    partial.unlink()
    sync(file.parent)
