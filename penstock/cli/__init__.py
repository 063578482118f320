"""The command `penstock`: one file per command, whose docstring is its help text. Errors are one or two lines."""

import importlib
import os
import re
import sys
from typing import Any

import typer

from penstock.errors import PenstockError, SpecError, nearest

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

app = typer.Typer(
    name="penstock",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from penstock.results.run import version

        typer.echo(f"penstock {version()}")
        raise typer.Exit


@app.callback()
def _top(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version.")) -> None:
    """Per-hop, per-flow flow control for data-centre networks: simulate it packet by packet and reproduce the papers.

    Example: `penstock run quickstart --out runs/first`
    """


for _name in COMMANDS:
    app.command(_name)(importlib.import_module(f"penstock.cli.{_name}").command)
app.add_typer(importlib.import_module("penstock.cli.vswitch").app, name="vswitch")


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 0 done, 1 failed claim or violated invariant, 2 bad input, 130 interrupted."""
    try:
        status = app(args=argv, prog_name="penstock", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except PenstockError as error:
        return _fail(str(error), error.exit_status)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", 130)
    except typer.Exit as done:
        return done.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("not enough memory; use a shorter run.duration or fewer hosts", 1)
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error, found by the argument parser
            return _usage(error)
        raise


def _known(context: Any) -> tuple[str, ...]:
    """The commands of the group in which an unknown one was given."""
    return tuple(getattr(context.command, "commands", COMMANDS)) if context else (*COMMANDS, "vswitch")


def _usage(refused: Exception) -> int:
    text = " ".join(refused.format_message().split())  # type: ignore[attr-defined]
    context = getattr(refused, "ctx", None)
    if not text:  # no arguments: the help has been printed
        return 2
    if missing := re.match(r"No such command '([^']*)'", text):
        error = SpecError(f'no such command "{missing[1]}"', remedy=nearest(missing[1], _known(context)))
        return _fail(str(error), error.exit_status)
    where = f"; see {context.command_path} --help" if context else ""
    return _fail(text.rstrip(".") + where, 2)


def _fail(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr)
    return status
