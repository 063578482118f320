"""Last lines of a command, and outputs that nobody can write to: a full disk, a closed terminal, a closed pipe."""

import io
import os
import sys
from contextlib import suppress

from penstock_net.stderr import say


def open_all() -> None:
    """Let the standard descriptors be open, or else the first files of a command would take their places; names are bytes.

    What was closed, as in `penstock run ... >&-`, discards.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")


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
