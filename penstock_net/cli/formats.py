"""penstock formats"""

import typer


def command() -> None:
    """List the formats of files that are known: how each is recognised, what reads it, and what of it is not read.

    Example:

        penstock formats
    """
    from penstock_net.cli._listing import listing
    from penstock_net.formats import FORMATS, used

    typer.echo(listing((row.name, row.what, f"recognised by {row.mark}; {used(row)}") for row in FORMATS))
