"""penstock explain"""

from typing import Annotated

import typer


def command(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="A run directory. Default: every file and column.", show_default=False)
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/outputs.md.")] = False,
) -> None:
    """Describe every file and column of a run, and print its warnings.

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
