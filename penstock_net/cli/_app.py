"""All commands, their errors and their exit status."""

import errno
import functools
import importlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from penstock_net.cli import _signals
from penstock_net.cli._output import fail
from penstock_net.errors import PenstockError, SpecError, nearest
from penstock_net.stderr import warnings_as_lines

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


GROUP = "vswitch"  # a command with commands of its own


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
        from penstock_net.version import version

        typer.echo(f"penstock {version()}")
        raise typer.Exit


def _top(version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version.")) -> None:
    """Per-hop, per-flow flow control for data-centre networks: simulate it packet by packet and reproduce the papers.

    Example: `penstock run quickstart --out runs/first`
    """


class Top(TyperGroup):
    """All commands.  Their list is written as plain text: loading what draws its boxes would take longer than the rest."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.rich_markup_mode = None
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = [(name, self.commands[name]) for name in self.list_commands(ctx) if not self.commands[name].hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join((command.help or "").partition("\n\n")[0].split())) for name, command in shown])


def others() -> "list[EntryPoint]":
    """Commands that other packages add: `NAME = "MODULE:FUNCTION"` in their entry points penstock.commands."""
    from importlib import metadata

    return sorted(metadata.entry_points(group="penstock.commands"))


def _add(app: typer.Typer, entry: "EntryPoint") -> None:
    """Add a command of another package; one that cannot be loaded is left out of the help, and fails when it is called."""
    try:
        app.command(entry.name)(_interruptible(entry.load()))
    except Exception as error:  # whatever the other package raises when it is imported
        package = entry.dist.name if entry.dist else entry.module
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        settings = {"allow_extra_args": True, "ignore_unknown_options": True}

        @app.command(entry.name, hidden=True, add_help_option=False, context_settings=settings)
        def broken() -> None:
            raise PenstockError(f'command "{entry.name}": cannot be loaded ({reason}); install or remove the package {package}')


@functools.cache
def application(commands: tuple[str, ...], only: str = "") -> typer.Typer:
    """The application: a command of each module of this folder that is named, those of other packages, the group `vswitch`.

    only    one of these, when it is known that no other will be called: the others are not loaded
    """
    app = typer.Typer(
        name="penstock",
        cls=Top,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    for name in commands:
        if only in ("", name):
            app.command(name)(_interruptible(importlib.import_module(f"penstock_net.cli.{name}").command))
    for entry in () if only else others():
        _add(app, entry)
    if only in ("", GROUP):
        app.add_typer(importlib.import_module(f"penstock_net.cli.{GROUP}").app, name=GROUP)
    return app


def run(argv: list[str], commands: tuple[str, ...]) -> int:
    """Run one command and return its exit status; errors of the operating system are the caller's."""
    only = argv[0] if argv and argv[0] in (*commands, GROUP) else ""
    try:
        with warnings_as_lines():
            status = application(commands, only)(args=argv, prog_name="penstock", standalone_mode=False)
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
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("penstock"):
            raise
        return fail(f"the Python package {error.name} is not installed; pip install penstock-net brings all that is needed", 2)
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
        known = getattr(context.command, "commands", commands) if context else (*commands, GROUP)
        error = SpecError(f'no such command "{missing[1]}"', remedy=nearest(missing[1], known))
        return fail(str(error), error.exit_status)
    where = f"; see {context.command_path} --help" if context else ""
    return fail(text.rstrip(".") + where, 2)
