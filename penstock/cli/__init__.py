"""The command `penstock`: one file per command, whose docstring is its help text. Errors are one or two lines.

This file imports next to nothing: Ctrl-C while the rest is imported is an interruption like any other.
"""

import sys

from penstock.cli import _signals
from penstock.cli._output import fail, flush

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
    "convert",
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
        return fail("interrupted", _signals.status())
    except BrokenPipeError:
        flush()
        return 0
    except MemoryError:
        return fail("not enough memory; use a shorter run.duration or fewer hosts", 1)
    except OSError as error:
        text = f"{error.filename or 'output'}: {error.strerror or error}"
        return fail(text, _signals.status() if _signals.received else 1)
