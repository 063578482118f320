"""The command `penstock`: one file per command, whose docstring is its help text. Errors are one or two lines.

This file imports next to nothing: Ctrl-C while the rest is imported is an interruption like any other.
"""

import atexit
import errno
import gc
import os
import sys

from penstock_net.cli import _signals
from penstock_net.cli._output import fail, flush, open_all

COMMANDS = (
    "run",
    "sweep",
    "plot",
    "report",
    "compare",
    "trace",
    "explain",
    "advise",
    "schemes",
    "topologies",
    "workloads",
    "formats",
    "convert",
    "bench",
    "check",
)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status.

    0 done, 1 failed claim or violated invariant, 2 bad input, 128 + the number of the signal that interrupted it.
    """
    _signals.received.clear()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # else it reads what every installed package offers
    atexit.unregister(gc.freeze)  # of a call before
    atexit.register(gc.freeze)  # else Python looks for garbage among all modules as it ends: a quarter of a tiny run
    open_all()
    given = sys.argv[1:] if argv is None else argv
    for word in given:
        if any("\ud800" <= char <= "\udfff" for char in word):  # bytes that are no text
            return fail(f"{word!a}: is not UTF-8 text; give another name", 2)
    try:
        if given == ["--version"]:
            from penstock_net.version import version

            print(f"penstock {version()}", flush=True)
            return 0
        from penstock_net.cli import _address_space, _app

        if given and given[0] != "vswitch" and not {"-h", "--help"}.intersection(given) and (why := _address_space.lacking()):
            return fail(why, 1)
        status = _app.run(given, COMMANDS)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return fail("interrupted", _signals.status())
    except BrokenPipeError:
        flush()
        return 0
    except MemoryError:
        return fail("not enough memory; use a longer measure.sample, a shorter run.duration or fewer hosts", 1)
    except OSError as error:
        if error.errno == errno.EMFILE:
            import resource

            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return fail(f"this process has {most} files open, as many as it may; ulimit -n with a higher number allows more", 1)
        text = f"{error.filename or 'output'}: {error.strerror or error}"
        return fail(text, _signals.status() if _signals.received else 1)
