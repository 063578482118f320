"""The digests of a run directory: SHA256SUMS, in the format of sha256sum, of all files: frames, summary, spec and its inputs.

`sha256sum -c SHA256SUMS` checks them without penstock.  They tell what has changed since the run was written; whoever changes a
file on purpose can change them as well.
"""

import hashlib
import os
import re
from pathlib import Path

FILE = "SHA256SUMS"
_LINE = re.compile(rb"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}


def write(folder: Path) -> None:
    """Write the digests of all files of a folder."""
    names = sorted(os.fsencode(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != FILE)
    (folder / FILE).write_bytes(b"".join(_line(name, _digest(folder / os.fsdecode(name))) for name in names))


def names_in(folder: Path) -> list[str] | None:
    """The files of a run; None: an older version wrote it, without digests.  OSError, ValueError: they cannot be read."""
    return [*_read(folder)] if (folder / FILE).exists() else None


def problems(folder: Path) -> list[tuple[str, str]]:
    """Every file of a run that is not what was written, and what is wrong with it; none, too, if the run has no digests."""
    if not (folder / FILE).exists():
        return []
    try:
        digests = _read(folder)
    except (OSError, ValueError) as error:
        return [(FILE, str(error))]
    return [(name, wrong) for name, digest in digests.items() if (wrong := _wrong(folder / name, digest))]


def _read(folder: Path) -> dict[str, str]:
    content = (folder / FILE).read_bytes()
    if not content.endswith(b"\n"):
        raise ValueError("is cut off" if content else "is empty")
    found = {}
    for line in content[:-1].split(b"\n"):
        match = _LINE.fullmatch(line)
        name = os.fsdecode(_unescaped(match[3]) if match[1] else match[3]) if match else ""
        if not match or Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            raise ValueError("is not a list of digests")
        found[name] = match[2].decode()
    return found


def _wrong(path: Path, digest: str) -> str:
    """What is wrong with a file; "": nothing."""
    try:
        if not path.is_file():
            return "is missing"
        if not path.stat().st_size:
            return "" if digest == hashlib.sha256().hexdigest() else "is empty"
        return "" if _digest(path) == digest else "is not what the run wrote: it was cut off, edited or damaged"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(name: bytes, digest: str) -> bytes:
    escaped = re.sub(rb"[\\\n\r]", lambda found: _ESCAPES[found[0]], name)
    return (b"\\" if escaped != name else b"") + f"{digest}  ".encode() + escaped + b"\n"


def _unescaped(name: bytes) -> bytes:
    plain = {escape: char for char, escape in _ESCAPES.items()}
    return re.sub(rb"\\.", lambda found: plain.get(found[0], found[0]), name)
