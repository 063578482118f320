"""The command line of the measurements: `python -m penstock_net.vswitch.bench [COMMAND]`.

    speed                          throughput of the data plane (the default)
    isolation --runs 30            a victim's latency beside disturbances, over the switch and over a bridge
    compare --runs 4               beside veth, a Linux bridge and Open vSwitch's userspace datapath

The last two store their results in a file (--out) and resume from it, also after Ctrl-C; `--write PAGE` writes their table into a
page of the documentation, `--plot FILE` draws it. They need root and create their own namespaces.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock_net.errors import PenstockError, SpecError
from penstock_net.inputs import one_of
from penstock_net.vswitch.bench import bench, compare, isolation
from penstock_net.vswitch.bench.record import Record, write_between

MEASUREMENTS: dict[str, Any] = {"isolation": isolation, "compare": compare}


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Run a command; an error is a line on stderr and exit status 2; Ctrl-C prints the table so far and exits with 130."""
    parser = argparse.ArgumentParser(prog="python -m penstock_net.vswitch.bench")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("speed", help="throughput of the data plane")
    for name, runs, seconds in (("isolation", 30, 1.2), ("compare", 4, 3.0)):
        one = commands.add_parser(name, help=(MEASUREMENTS[name].__doc__ or "").splitlines()[0])
        one.add_argument("--runs", type=int, default=runs, help="of everything; %(default)s")
        one.add_argument("--seconds", type=float, default=seconds, help="of a run's measurement; %(default)s")
        one.add_argument("--out", type=Path, default=Path(f"{name}.json"), help="keeps what was measured; %(default)s")
        one.add_argument("--only", action="append", default=[], help="one of the rows; may be repeated")
        one.add_argument("--write", type=Path, metavar="PAGE", help="put the table into this page")
        one.add_argument("--plot", type=Path, metavar="FILE", help="draw the runs, as .png or .svg")
    given = parser.parse_args(words)
    if given.command in (None, "speed"):
        bench.main()
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: namespaces and programs are ended
    try:
        measured(MEASUREMENTS[given.command], given)
    except PenstockError as error:
        say(f"error: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        say(f"stopped; what is complete is in {given.out}, the same command goes on")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, before)


def measured(measurement: Any, given: argparse.Namespace) -> None:
    """Make the missing runs; print the table, also after Ctrl-C; write and draw it if requested."""
    rows = list(measurement.ROWS)
    for name in given.only:
        one_of(name, "--only", rows)
    if given.runs < 1 or given.seconds <= 0:
        raise SpecError("--runs and --seconds must be positive")
    record = Record(given.out, {"seconds": given.seconds})
    try:
        measurement.run(record, given.runs, given.only or rows, say)
    finally:
        if record.rows:
            text = measurement.table(record.rows)
            print(text)
            if given.plot:
                measurement.picture(record.rows, given.plot)
            if given.write and given.plot:
                at = os.path.relpath(given.plot, given.write.parent)
                text += f"\n\n![{given.command}: every run]({at})"
            if given.write:
                write_between(given.write, given.command, text)
