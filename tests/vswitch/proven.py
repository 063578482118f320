"""What a count has proven wrong: a test of real time that finds such a thing fails at once and is not tried again."""

from collections.abc import Mapping
from typing import Any


class Wrong(AssertionError):
    """Frames that nothing accounts for, one twice or before an earlier one, a payload that is another."""


def certain(holds: object, what: str) -> None:
    """What no clock, load or order of processes can change."""
    if not holds:
        raise Wrong(what)


def accounted(balance: Mapping[str, Any]) -> None:
    """A switch's `show balance`: each frame that came in went out, is there, or was lost with a reason."""
    certain(not balance["unaccounted"], f"frames have vanished, or come from nowhere: {balance['unaccounted']}")
