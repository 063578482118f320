"""penstock topologies"""

import typer


def command() -> None:
    """List the kinds of network for [topology], with their keys and defaults.

    Example:

        penstock topologies
    """
    from penstock_net.cli._listing import builders
    from penstock_net.topology import KINDS

    typer.echo(builders(KINDS, renamed={"path": "file"}))
    typer.echo("every kind: loss = 0.01, and changes: links and switches that fail or come back, links that change their rate")
