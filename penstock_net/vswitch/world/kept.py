"""What the switch keeps of a world as long as that is chosen."""

import functools
from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")
_kept: list[Callable[[], None]] = []


def once(make: Callable[[], Made]) -> Callable[[], Made]:
    """A function whose result is kept until another world is chosen."""
    found = functools.cache(make)
    _kept.append(found.cache_clear)
    return found


def forget() -> None:
    """Another world is chosen: nothing keeps the one before alive."""
    for clear in _kept:
        clear()
