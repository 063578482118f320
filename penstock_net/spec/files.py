"""Files that a spec names: paths made absolute, contents read once and hashed, copies for a run directory."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock_net.composition import names_of
from penstock_net.errors import SpecError
from penstock_net.inputs import as_table
from penstock_net.results.rundir import INPUTS

FLOWS = "flows"  # the key of a list of flows


def _is_file_name(key: str, value: str) -> bool:
    plain = key in ("file", "trace", "paths") or (key == "sizes" and (Path(value).suffix != "" or "/" in value))
    return plain or value.startswith(("./", "../", "~/", "/"))


def _change(value: Any, change: Callable[[str], str], key: str = "") -> Any:
    """The same content with every file name replaced by `change` of it; a list of flows, which may be long, has none."""
    if key == FLOWS and isinstance(value, list):
        return value
    if isinstance(value, dict):
        return {k: _change(v, change, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_change(v, change, key) for v in value]
    if not isinstance(value, str):
        return value
    if key == "name" and ".py" in value:
        return "+".join(_change_scheme(part, change) for part in names_of(value))
    return change(value) if _is_file_name(key, value) else value


def _change_scheme(part: str, change: Callable[[str], str]) -> str:
    name, colon, preset = part.partition(":")
    return change(name.strip()) + colon + preset if name.strip().endswith(".py") else part


def absolute(value: Any, base: Path) -> Any:
    """File names made absolute; relative ones are relative to `base`."""

    def change(name: str) -> str:
        path = Path(name).expanduser()
        return str(path if path.is_absolute() else (base / path).resolve())

    return _change(value, change)


class Inputs:
    """The files that a spec's content names (absolute paths), read once: a run keeps what it began with.

    content   bytes by path; what cannot be read is left out, the builder that needs it reports it
    names     name of the copy in a run directory by path: "inputs/flows.csv"
    known     contents that were read before
    """

    def __init__(self, spec: Mapping[str, Any], known: Mapping[str, bytes] | None = None) -> None:
        self.content: dict[str, bytes] = {}
        self.names: dict[str, str] = {}
        for path in named(dict(spec)):
            found = (known or {}).get(path)
            if (content := read(path) if found is None else found) is not None:
                self.content[path] = content
                self.names[path] = self._unused(Path(path).name)

    def _unused(self, name: str) -> str:
        number, free = 1, f"{INPUTS}/{name}"
        while free in self.names.values():
            number += 1
            free = f"{INPUTS}/{number}/{name}"
        return free

    def check_unchanged(self, value: Any, key: str = "") -> None:
        """SpecError: a file that is named in this content (or value of a key) is not any more what it was."""
        for path in named(value, key):
            if path in self.content and read(path) != self.content[path]:
                raise SpecError("was changed while the command was running", remedy="give the command again", place=path)

    def hashed(self, value: Any) -> Any:
        """Content with every file name replaced by the SHA-256 of the file."""
        return _change(value, lambda path: sha256(self.content[path]) if path in self.content else path)

    def relative(self, value: Any, key: str = "") -> Any:
        """Content (or the value of a key) with file names relative to a run directory, where the copies are."""
        return _change(value, lambda path: f"./{self.names[path]}" if path in self.names else path, key)

    def table(self) -> dict[str, str]:
        """The section [inputs] of a run directory's spec: SHA-256 by the name of the copy."""
        return {name: sha256(self.content[path]) for path, name in self.names.items()}

    def copies(self) -> dict[str, bytes]:
        """Contents by the name of the copy."""
        return {name: self.content[path] for path, name in self.names.items()}

    def check(self, table: Any, base: Path, place: str) -> None:
        """SpecError: a file is not the one whose hash stands in the section [inputs] of the spec `place`, which is in `base`."""
        for name, expected in as_table(table, INPUTS, f"[{INPUTS}]").items():
            path = str((base / name).resolve())
            if path in self.content and sha256(self.content[path]) != expected:
                raise SpecError(
                    "is not the file that this run was made with (its SHA-256 differs)",
                    remedy=f"restore it; to use it as it is, remove its line from [{INPUTS}] in {place}",
                    place=path,
                )


def named(value: Any, key: str = "") -> list[str]:
    """The file names in a spec's content (or in the value of a key), each once."""
    found: dict[str, None] = {}
    _change(value, lambda path: found.setdefault(path) or path, key)
    return list(found)


def read(path: str) -> bytes | None:
    """What a file holds; None: it is none, or cannot be read."""
    try:
        return Path(path).read_bytes() if Path(path).is_file() else None
    except (OSError, ValueError):
        return None


def sha256(content: bytes) -> str:
    """Hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def without_none(value: Any) -> Any:
    """The same content without keys whose value is None; a list of flows has no such keys."""
    if isinstance(value, list):
        return [without_none(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: v if k == FLOWS else without_none(v) for k, v in value.items() if v is not None}


def stem_of(name: str) -> str:
    """ "my_scheme" of "./my_scheme.py"; any other name is itself."""
    return Path(name).stem if name.endswith(".py") else name
