"""Messages on standard error."""

import sys
from contextlib import suppress


def say(text: str) -> None:
    """A line on standard error, if anybody still reads it."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
