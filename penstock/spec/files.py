"""Files that a spec names: their paths made absolute, their contents hashed."""

import hashlib
from pathlib import Path
from typing import Any


def _is_file_name(key: str, value: Any) -> bool:
    return isinstance(value, str) and (key in ("file", "trace") or value.startswith(("./", "../", "~/")))


def absolute(value: Any, base: Path, key: str = "") -> Any:
    """File names made absolute, so that a spec may be saved elsewhere."""
    if isinstance(value, dict):
        return {k: absolute(v, base, k) for k, v in value.items()}
    if isinstance(value, list):
        return [absolute(v, base, key) for v in value]
    if key == "name" and isinstance(value, str) and ".py" in value:
        return "+".join(absolute(part, base, "file") if part.endswith(".py") else part for part in value.split("+"))
    if _is_file_name(key, value):
        path = Path(value).expanduser()
        return str(path if path.is_absolute() else (base / path).resolve())
    return value


def hash_files(value: Any, key: str = "") -> Any:
    """The same content with every file's name replaced by a hash of what it holds."""
    if isinstance(value, dict):
        return {k: hash_files(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [hash_files(v, key) for v in value]
    if key == "name" and isinstance(value, str) and ".py" in value:
        return [hash_files(part, "file") if part.endswith(".py") else part for part in value.split("+")]
    if isinstance(value, str) and (key in ("file", "trace") or value.startswith("/")) and Path(value).is_file():
        return hashlib.sha256(Path(value).read_bytes()).hexdigest()
    return value


def without_none(value: Any) -> Any:
    """The same content without keys whose value is None."""
    if isinstance(value, list):
        return [without_none(item) for item in value]
    return {k: without_none(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


def stem_of(name: str) -> str:
    """ "my_scheme" of "./my_scheme.py"; any other name is itself."""
    return Path(name).stem if name.endswith(".py") else name
