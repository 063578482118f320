"""The command `penstock`: one file per command, whose docstring is its help text. Errors are one or two lines.

This file imports next to nothing: Ctrl-C while the rest is imported is an interruption like any other.
"""

import os
import sys
from contextlib import suppress

from penstock.cli import _signals

COMMANDS = (
    "run",
    "reproduce",
    "sweep",
    "plot",
    "report",
    "trace",
    "explain",
    "schemes",
    "topologies",
    "workloads",
    "bench",
    "check",
)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 done, 1 failed claim or violated invariant, 2 bad input, 128 + the number of the signal that interrupted it.
    """
    _signals.received.clear()
    try:
        from penstock.cli import _app

        status = _app.run(argv, COMMANDS)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return _fail("interrupted", _signals.status())
    except BrokenPipeError:
        _flush()
        return 0
    except MemoryError:
        return _fail("not enough memory; use a shorter run.duration or fewer hosts", 1)
    except OSError as error:
        where = error.filename or ("" if _flush() else "standard output")
        text = f"{where}: {error.strerror}" if where and error.strerror else str(error)
        return _fail(text, _signals.status() if _signals.received else 1)


def _flush() -> bool:
    """Write out standard output; if that fails, discard it, or else the interpreter tries again at its end, and complains."""
    try:
        sys.stdout.flush()
        return True
    except OSError:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False


def _fail(message: str, status: int) -> int:
    _flush()
    with suppress(OSError):  # the status says it, too
        print(f"error: {message}", file=sys.stderr)
    return status
