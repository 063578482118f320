"""All commands, their errors and their exit status."""

import errno
import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

import typer

from penstock.cli import _signals
from penstock.cli._output import fail
from penstock.errors import PenstockError, SpecError, nearest


class Interrupted(PenstockError):
    """Ctrl-C, or a signal that does the same. (typer would return 130 whatever the signal was, without a word.)"""

    def __init__(self) -> None:
        super().__init__("interrupted")
        self.exit_status = _signals.status()


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise Interrupted from None

    return call


def _version(asked: bool) -> None:
    if asked:
        from penstock.results.run import version

        typer.echo(f"penstock {version()}")
        raise typer.Exit


def _top(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version.")) -> None:
    """Per-hop, per-flow flow control for data-centre networks: simulate it packet by packet and reproduce the papers.

    Example: `penstock run quickstart --out runs/first`
    """


@functools.cache
def application(commands: tuple[str, ...]) -> typer.Typer:
    """The application with a command of each module of this folder that is named, and the group `vswitch`."""
    app = typer.Typer(
        name="penstock",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    for name in commands:
        app.command(name)(_interruptible(importlib.import_module(f"penstock.cli.{name}").command))
    app.add_typer(importlib.import_module("penstock.cli.vswitch").app, name="vswitch")
    return app


def run(argv: list[str] | None, commands: tuple[str, ...]) -> int:
    """Run one command and return its exit status; errors of the operating system are the caller's."""
    try:
        status = application(commands)(args=argv, prog_name="penstock", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except PenstockError as error:
        return fail(str(error), error.exit_status)
    except typer.Abort:
        return fail("interrupted", _signals.status())
    except typer.Exit as done:
        return done.exit_code
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return fail("a path is too long; give a shorter one", 2)
    except MemoryError:
        raise
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error, found by the argument parser
            return _usage(error, commands)
        raise


def _usage(refused: Exception, commands: tuple[str, ...]) -> int:
    text = " ".join(refused.format_message().split())  # type: ignore[attr-defined]
    context: Any = getattr(refused, "ctx", None)
    if not text:  # no arguments: the help has been printed
        return 2
    if missing := re.match(r"No such command '([^']*)'", text):
        known = getattr(context.command, "commands", commands) if context else (*commands, "vswitch")
        error = SpecError(f'no such command "{missing[1]}"', remedy=nearest(missing[1], known))
        return fail(str(error), error.exit_status)
    where = f"; see {context.command_path} --help" if context else ""
    return fail(text.rstrip(".") + where, 2)
