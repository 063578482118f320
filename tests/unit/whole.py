"""Watches a folder at every call that a command makes: what a process that is killed there would leave behind."""

import errno
import hashlib
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

CALLS = {"open", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "renameat2"}
Contents = dict[str, str]  # files by name, without hidden ones


def contents(folder: Path) -> Contents:
    """Hashes of all files of a folder that are not hidden, nor in a hidden folder."""
    return {path: _hash(os.path.join(folder, path), *state) for path, state in _visible(str(folder), "")}


def _visible(folder: str, below: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _visible(entry.path, f"{below}{entry.name}/")
        else:
            stat = entry.stat()
            yield below + entry.name, (stat.st_ino, stat.st_size, stat.st_mtime_ns)


@cache
def _hash(path: str, *_: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def history(folder: Path, act: Callable[[], Any]) -> list[Contents]:
    """The different states of a folder before, during and after an action."""
    states = [contents(folder)]

    def look(_: Any, event: str, function: Any) -> None:
        if event == "c_return" and getattr(function, "__name__", "") in CALLS:
            sys.setprofile(None)
            if (now := contents(folder)) != states[-1]:
                states.append(now)
            sys.setprofile(look)

    sys.setprofile(look)
    try:
        act()
    finally:
        sys.setprofile(None)
    return states


def check_whole(states: list[Contents]) -> None:
    """Every file goes from what it was to what it is in the end at once; one that is replaced is there all the time."""
    first, last = states[0], states[-1]
    for state in states:
        for name, found in state.items():
            assert found in (first.get(name), last.get(name)), f"{name} was half written"
        for name in first.keys() & last.keys():
            assert name in state, f"{name} was away"


@contextmanager
def disk_of(most: int) -> Iterator[None]:
    """No file may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full(*_: object) -> None:
    """What a call says on a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")
