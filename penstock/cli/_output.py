"""Messages on standard error, and outputs that nobody can write to: a full disk, a closed terminal, a closed pipe."""

import os
import sys
from contextlib import suppress


def say(text: str) -> None:
    """A line on standard error, if anybody still reads it."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def flush() -> None:
    """Write out standard output; if that fails, discard it, or else the interpreter tries again at its end, and complains."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(message: str, status: int) -> int:
    """The last line of a command that failed; returns its exit status, which says so, too."""
    flush()
    say(f"error: {message}")
    return status
