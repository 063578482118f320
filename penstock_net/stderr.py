"""Messages on standard error."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def say(text: str) -> None:
    """A line on standard error, if anybody still reads it."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Warnings of Python as `warning: ...`, without their place in penstock's code."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: say(f"warning: {message}")
        yield
