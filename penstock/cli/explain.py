"""penstock explain"""

from typing import Annotated

import typer


def command(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run directory; none: everything there can be.", show_default=False)
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/outputs.md.")] = False,
) -> None:
    """Say what every file and column of a run means, and what to know before trusting it.

    Example:

        penstock explain runs/quickstart/bfc
    """
    from penstock.report import dictionary
    from penstock.results.run import Run
    from penstock.results.rundir import all_runs

    if run is None or markdown:
        typer.echo(dictionary.markdown(), nl=False)
        return
    for number, path in enumerate(all_runs([run])):
        typer.echo(("\n" if number else "") + dictionary.text(Run.load(path)))
